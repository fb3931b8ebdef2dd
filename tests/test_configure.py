"""What may change on a live topic: settings, the ordering rule (with a rebuild), and the value's type where it only widens."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql.types import StringType

from lakelog import Conflict, Damaged, InvalidConfig, InvalidRequest, Lake, Refused, Topic, delta, table_properties, topic_tables
from lakelog.lake import TOPIC_PROPERTY
from lakelog.records import Types
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


def test_a_lakes_default_reaches_the_tables_that_carry_it(lake: Lake) -> None:
    topic, own = lake.create_topic("t"), lake.create_topic("own", config={"snapshot.retention.ms": 3_600_000})
    lake.configure({"snapshot.retention.ms": 90 * 86_400_000})

    def kept(one: Topic) -> str | None:
        return (table_properties.read(lake.spark, one.silver) or {}).get("delta.deletedFileRetentionDuration")

    assert (kept(topic), kept(own)) == ("interval 7776000 seconds", "interval 3600 seconds")
    before = versions(lake.root, "t")
    with pytest.raises(InvalidConfig, match=r"compaction\.strategy=column needs"):
        lake.configure({"log.cleaner.compaction.strategy": "column"})
    lake.configure({"snapshot.retention.ms": 90 * 86_400_000})
    assert versions(lake.root, "t") == before


def test_a_creation_cut_off_before_the_topic_was_listed_is_finished_by_the_next(lake: Lake) -> None:
    topic = lake.create_topic("t")
    table_properties.change(lake.spark, lake._table, {f"{TOPIC_PROPERTY}t": None})
    assert lake.topics() == []
    with pytest.raises(InvalidRequest, match="exists already"):
        lake.create_topic("t")
    assert (lake.topics(), lake.topic("t").uuid) == (["t"], topic.uuid)


def test_of_two_creations_the_first_log_says_what_the_topic_is(lake: Lake) -> None:
    """The other one, with other types, completes what it finds; a latest table that a deletion left behind is replaced."""
    lake.create_topic("t", key="BIGINT").append([{"key": 1, "value": "of the topic before"}])
    lake.topic("t").merge()
    delta.drop(lake.spark, lake.topic("t").bronze)
    types = Types(StringType(), StringType())
    assert topic_tables.make_log(lake.spark, lake.root, "t", types, partitions=2, settings={}, now=1)
    assert not topic_tables.make_log(lake.spark, lake.root, "t", types, partitions=3, settings={}, now=1)
    with pytest.raises(Damaged, match="latest table of another log"):
        lake.topic("t").merge()
    table_properties.change(lake.spark, lake._table, {f"{TOPIC_PROPERTY}t": None})
    with pytest.raises(InvalidRequest, match="exists already"):
        lake.create_topic("t", key="INT", value="a INT")
    topic = lake.topic("t")
    topic.append([{"key": "a", "value": "b", "partition": 1}])
    assert topic.merge().inserted == 1
    assert (topic.partitions, [tuple(row)[:2] for row in topic.latest().collect()]) == (2, [("a", "b")])
    before = versions(lake.root, "t")
    topic_tables.complete(topic, now=2)
    assert versions(lake.root, "t") == before


def test_what_a_creation_left_without_a_table(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files in silver's place are no obstacle; in the log's place they may be another creation's, and are named."""
    lake.create_topic("other")
    for folder in ("t/silver/bucket=-1", "u/bronze/partition=0"):
        (Path(lake.root) / folder).mkdir(parents=True)
        (Path(lake.root) / folder / "part-0.parquet").write_bytes(b"cut off")
    topic = lake.create_topic("t")
    topic.append([{"key": "a", "value": "b"}])
    assert topic.merge().inserted == 1
    monkeypatch.setattr(table_properties, "PATIENCE", 0)
    with pytest.raises(Conflict, match=r"u/bronze: another process is creating the topic, or was cut off"):
        lake.create_topic("u")
    assert lake.topics() == ["other", "t"]
    table_properties.change(lake.spark, topic.silver, {topic_tables.IDENTITY: None})
    with pytest.raises(InvalidRequest, match=r"t/silver is there already and is not lakelog's"):
        topic_tables.complete(topic, now=1)


def test_creations_at_the_same_time_leave_one_topic(lake: Lake) -> None:
    def create(kind: str) -> bool:
        try:
            return bool(Lake(lake.spark, lake.root).create_topic("t", key=kind))
        except InvalidRequest as error:
            assert error.name == "TOPIC_ALREADY_EXISTS"
            return False

    with ThreadPoolExecutor(3) as pool:
        made = list(pool.map(create, ("STRING", "BIGINT", "BINARY")))
    topic = lake.topic("t")
    assert sum(made) == 1
    assert topic.types.key.simpleString() == ("string", "bigint", "binary")[made.index(True)]
    topic.append([{"key": 1 if made[1] else "1", "value": "v"}])
    assert topic.merge().inserted == 1
