"""What may change on a live topic: settings, the ordering rule (with a rebuild), and the value's type where it only widens."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql.types import StringType

from lakelog import Conflict, Damaged, InvalidConfig, InvalidRequest, Lake, LogIncomplete, Refused, Topic, TopicNotFound
from lakelog.delta import table_properties
from lakelog.model.records import Types
from lakelog.operations import create
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


@pytest.mark.long
def test_the_rule_of_the_latest_table_can_always_be_had_again(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing needs to be computed for it. Two topics are cleaned after they were looked at and before the rule changes: there is no rebuild."""
    for name in ("t", "u"):
        topic = lake.create_topic(name, key="STRING", value="STRING", config={"min.cleanable.dirty.ratio": 0})
        topic.append([{"key": "a", "value": "1"}, {"key": "b", "value": "1"}, {"key": "a", "value": "2"}])
        topic.roll()
        topic.append([{"key": "c", "value": "1"}])
    original = Topic.require_whole_for

    def then_cleaned(topic: Topic, after: dict[str, str]) -> None:
        original(topic, after)
        assert topic.clean(force=True).records == 1

    with monkeypatch.context() as patch:
        patch.setattr(Topic, "require_whole_for", then_cleaned)
        lake.configure({"log.cleaner.compaction.strategy": "timestamp"})
    topic = lake.topic("t")
    topic.append([{"key": "b", "value": "2"}])
    before = versions(lake.root, "t")
    with pytest.raises(Refused, match="made under the rule offset, the topic now says timestamp") as changed:
        topic.merge()
    assert changed.value.name == "RULE_CHANGED"
    for verb in (lambda: topic.merge(rebuild=True), topic.repair):
        with pytest.raises(LogIncomplete, match="Configure the topic back to the rule offset"):
            verb()
    with pytest.raises(LogIncomplete):
        topic.configure({"compaction.strategy": "header", "compaction.strategy.header": "v"})
    assert versions(lake.root, "t") == before

    topic.configure({"compaction.strategy": "offset"})
    lake.configure({"log.cleaner.compaction.strategy": None})
    for name, latest in (("t", {"a": "2", "b": "2", "c": "1"}), ("u", {"a": "2", "b": "1", "c": "1"})):
        topic = lake.topic(name)
        topic.merge()
        assert ({row["key"]: row["value"] for row in topic.latest().collect()}, topic.verify().problems) == (latest, [])


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


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is at it: a creation that was cut off is not waited for."""
    monkeypatch.setattr(table_properties, "PATIENCE", 0)


@pytest.mark.usefixtures("impatient")
def test_a_creation_cut_off_before_the_topic_was_listed_is_finished_by_the_next(lake: Lake) -> None:
    topic = lake.create_topic("t")
    lake._own.list_topic("t", None)
    assert lake.topics() == []
    with pytest.raises(TopicNotFound, match="create_topic completes it"):
        lake.topic("t")
    with pytest.raises(InvalidRequest, match="exists already"):
        lake.create_topic("t")
    assert (lake.topics(), lake.topic("t").uuid) == (["t"], topic.uuid)


@pytest.mark.long
@pytest.mark.usefixtures("impatient")
def test_of_two_creations_the_first_log_says_what_the_topic_is(lake: Lake) -> None:
    """The other one, with other types, completes what it finds; a latest table that a deletion left behind is replaced, its listing too."""
    lake.create_topic("t", key="BIGINT").append([{"key": 1, "value": "of the topic before"}])
    lake.topic("t").merge()
    shutil.rmtree(lake.topic("t").bronze.path or "")
    assert lake.sql("SELECT 1 AS one").collect()[0].one == 1
    types = Types(StringType(), StringType())
    assert create.make_log(lake.spark, lake.root, "t", types, partitions=2, settings={}, now=1)
    assert not create.make_log(lake.spark, lake.root, "t", types, partitions=3, settings={}, now=1)
    with pytest.raises(Damaged, match="latest table of another log"):
        lake._topic("t").merge()
    with pytest.raises(InvalidRequest, match="exists already"):
        lake.create_topic("t", key="INT", value="a INT")
    topic = lake.topic("t")
    topic.append([{"key": "a", "value": "b", "partition": 1}])
    assert topic.merge().inserted == 1
    assert (topic.partitions, [tuple(row)[:2] for row in topic.latest().collect()]) == (2, [("a", "b")])
    before = versions(lake.root, "t")
    create.complete(topic.log, now=2)
    assert versions(lake.root, "t") == before
    # A latest table that was brought from elsewhere becomes this log's by a rebuild.
    other = lake.create_topic("other", key="BINARY", value="n INT", config={"snapshot.retention.ms": 3600000})
    other.append([{"key": "not ours", "value": {"n": 1}}])
    other.merge()
    shutil.rmtree(topic.silver.path or "")
    shutil.copytree(other.silver.path or "", topic.silver.path or "")
    with pytest.raises(Damaged, match="latest table of another log"):
        topic.merge()
    assert topic.merge(rebuild=True).inserted == 1
    assert [tuple(row)[:2] for row in topic.latest().collect()] == [("a", "b")]
    assert topic.verify().ok
    stored = table_properties.read(lake.spark, topic.silver) or {}
    assert (stored[table_properties.IDENTITY], stored["delta.logRetentionDuration"]) == (topic.uuid, "interval 2592000 seconds")


@pytest.mark.usefixtures("impatient")
def test_what_a_creation_left_without_a_table_is_named(lake: Lake) -> None:
    """Files in a table's place may be another creation's, or anybody's."""
    lake.create_topic("other")
    for topic, table in (("t", "silver"), ("u", "bronze")):
        (Path(lake.root) / topic / table / "x").mkdir(parents=True)
        (Path(lake.root) / topic / table / "x" / "part-0.parquet").write_bytes(b"cut off")
        with pytest.raises(Conflict, match=f"{topic}/{table}: another process is creating it, or was cut off"):
            lake.create_topic(topic)
    assert lake.topics() == ["other"]
    shutil.rmtree(Path(lake.root) / "t" / "silver")
    with pytest.raises(InvalidRequest, match="exists already"):
        lake.create_topic("t")
    table_properties.change(lake.spark, lake.topic("t").silver, {table_properties.IDENTITY: None})
    with pytest.raises(InvalidRequest, match=r"t/silver is there already and is not lakelog's"):
        create.complete(lake.topic("t").log, now=1)


def test_a_deletion_cut_off_is_taken_up_again(lake: Lake) -> None:
    lake.create_topic("t")
    lake.create_topic("u").append([{"key": "a"}])
    lake.create_topic("v")
    shutil.rmtree(lake.topic("t").bronze.path or "")
    (Path(lake.topic("u").bronze.path or "") / "_delta_log" / f"{0:020}.json").unlink()
    # A creation that was cut off: there is a log, and nobody lists it.
    lake._own.list_topic("v", None)
    shutil.rmtree(Path(lake.root) / "v" / "silver")
    for name, left in (("t", ["silver"]), ("u", ["bronze", "silver"]), ("v", ["bronze"])):
        planned = lake.delete_topic(name, dry_run=True)
        assert ([Path(table).name for table in planned.tables], planned.dry_run) == (left, True)
        assert (Path(lake.root) / name).exists()
        assert lake.delete_topic(name).tables == planned.tables
        assert not (Path(lake.root) / name).exists()
    assert lake.topics() == []
    with pytest.raises(TopicNotFound):
        lake.delete_topic("t")
    with pytest.raises(InvalidConfig, match=r"snapshot\.retention\.ms"):
        lake.create_topic("t", config={"snapshot.retention.ms": 2**63 - 1})
    assert lake.create_topic("t").append([{"key": "a"}]).offsets == {0: (0, 1)}


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
