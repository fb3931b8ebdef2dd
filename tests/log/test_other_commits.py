"""What others commit to bronze beside an append or a merge: what moves no rows stops nobody, what may have moved some is named."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakelog.errors import Conflict, Damaged
from lakelog.inputs import staging
from tests.interleaving import late
from tests.tables import versions

if TYPE_CHECKING:
    from lakelog import Lake, Topic

USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"


def record(key: str) -> dict[str, str]:
    return {"key": key, "value": "1"}


@pytest.mark.parametrize("text", ["nightly 7", "7", '["a list"]', '{"lakelog": "append"}'])
def test_a_harmless_commit_with_a_text_of_its_own_stops_no_append(text: str, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = lake.create_topic("t", key="STRING", value="STRING")
    topic.append([record("a")])

    def tag() -> None:
        lake.spark.conf.set(USER_METADATA, text)
        try:
            lake.spark.sql(f"ALTER TABLE {topic.bronze.sql()} SET TBLPROPERTIES ('team.tag' = 'x')")
        finally:
            lake.spark.conf.unset(USER_METADATA)

    with monkeypatch.context() as patch:
        late(patch, staging, "staged", tag)
        assert topic.append([record("b")]).offsets == {0: (1, 2)}
    assert topic.append([record("c")]).offsets == {0: (2, 3)}


def overwritten(lake: Lake, topic: Topic, condition: str) -> None:
    """What people do who take a record out of a table with Spark."""
    rows = lake.spark.read.table(topic.bronze.sql()).filter(condition)
    writer = rows.write.format("delta").mode("overwrite").option("overwriteSchema", "true").partitionBy("partition", "segment")
    writer.saveAsTable(topic.bronze.sql())


def test_a_log_that_was_written_over_is_named(lake: Lake) -> None:
    topic = lake.create_topic("t", key="STRING", value="STRING")
    topic.append([record(key) for key in "abc"])
    overwritten(lake, topic, "NOT (segment >= 0 AND offset = 1 AND control IS NULL)")
    before = versions(lake.root, "t")
    for verb in (lambda: lake.topic("t").append([record("d")]), lambda: lake.topic("t").merge()):
        with pytest.raises(Damaged, match=r"another writer changed the log: version 2 .*REPLACE.*RESTORE to version 1"):
            verb()
    assert versions(lake.root, "t") == before


def test_records_that_were_checked_under_other_settings_are_not_written(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = lake.create_topic("t", key="STRING", value="STRING", config={"check.expected.offsets": False})
    for setting, append in (
        ("check.expected.offsets", lambda: topic.append([record("a")], expected_offset={0: 7})),
        ("tombstone.strict", lambda: topic.append([{"key": "a", "value": None}])),
    ):
        with monkeypatch.context() as patch:
            late(patch, staging, "staged", lambda setting=setting: lake.topic("t").configure({setting: True}))  # type: ignore[misc]
            with pytest.raises(Conflict, match=f"were changed while the append ran: {setting}"):
                append()
    # One that decides nothing about records stops no append.
    with monkeypatch.context() as patch:
        late(patch, staging, "staged", lambda: lake.topic("t").configure({"retention.ms": 1}))
        assert topic.append([record("a")]).offsets == {0: (0, 1)}
