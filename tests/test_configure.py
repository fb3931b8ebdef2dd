"""What may change on a live topic: settings, the ordering rule (with a rebuild), and the value's type where it only widens."""

from __future__ import annotations

import pytest

from lakelog import InvalidConfig, Lake, Refused
from tests.tables import versions


def test_the_value_widens_and_old_records_read_nulls(lake: Lake) -> None:
    topic = lake.create_topic("t", key="id BIGINT", value="a INT, inner STRUCT<x: INT>")
    topic.append([{"key": {"id": 1}, "value": {"a": 1, "inner": {"x": 1}}}])
    topic.merge()
    before = versions(lake.root, "t")
    for narrower in (
        "a SMALLINT, inner STRUCT<x: INT>",
        "a INT",
        "a STRING, inner STRUCT<x: INT>",
        "STRING",
        "a INT, inner STRUCT<x: INT>, id INT",
    ):
        with pytest.raises(InvalidConfig):
            topic.configure(value=narrower)
    assert versions(lake.root, "t") == before

    topic.configure(value="a BIGINT, inner STRUCT<x: INT, y: STRING>, b STRING")
    topic.append([{"key": {"id": 2}, "value": {"a": 2**40, "inner": {"x": 2, "y": "z"}, "b": "new"}}])
    lake.topic("t").merge()

    rows = {row["id"]: (row["a"], row["inner"]["x"], row["inner"]["y"], row["b"]) for row in lake.topic("t").latest().collect()}
    assert rows == {1: (1, 1, None, None), 2: (2**40, 2, "z", "new")}


def test_another_rule_takes_a_rebuild_once_there_are_rows_and_nothing_before(lake: Lake) -> None:
    topic = lake.create_topic("t", key="STRING", value="v INT")
    topic.configure({"compaction.strategy": "column", "compaction.strategy.column": "v"})
    topic.append([{"key": "a", "value": {"v": 2}}, {"key": "a", "value": {"v": 1}}])
    assert topic.merge().late == 1
    assert [row["v"] for row in topic.latest().collect()] == [2]

    topic.configure({"compaction.strategy": "offset"})
    before = versions(lake.root, "t")
    with pytest.raises(Refused, match="rebuild"):
        topic.merge()
    assert versions(lake.root, "t") == before
    topic.merge(rebuild=True)

    assert [row["v"] for row in topic.latest().collect()] == [1]
    assert topic.merge().version is None
