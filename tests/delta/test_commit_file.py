"""What a process knows of a table holds exactly as long as nobody else commits to it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakelog.delta import commit_file, tables
from lakelog.errors import Damaged, InvalidRecords, NotFound, TopicNotFound
from lakelog.inputs import staging
from lakelog.inputs.sources import requested
from lakelog.log import bronze
from lakelog.log.tail import followed, log_end
from lakelog.model.names import TableRef
from tests.benchmarks.append import long_log
from tests.conftest import CONNECT
from tests.tables import versions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakelog import Lake, Topic
    from lakelog.model.topic_log import TopicLog


def record(key: str, partition: int = 0) -> dict[str, object]:
    return {"key": key, "value": "v", "partition": partition}


def topic_of(lake: Lake, name: str, partitions: int = 1) -> Topic:
    return lake.create_topic(name, key="STRING", value="STRING", partitions=partitions)


def test_the_newest_commit_is_the_last_numbered_file_of_a_local_table(spark: SparkSession, tmp_path: Path) -> None:
    table = TableRef.of(str(tmp_path), "t", "bronze")
    assert commit_file.newest(spark, table) is None
    folder = tmp_path / "t" / "bronze" / "_delta_log"
    folder.mkdir(parents=True)
    assert commit_file.newest(spark, table) is None
    for name in ("9.json", "10.json"):
        (folder / name.zfill(25)).write_text("{}")
    for name in ("_last_checkpoint", f"{12:020}.checkpoint.parquet", f"{11:020}.crc", f".{13:020}.json.tmp"):
        (folder / name).touch()

    found = commit_file.newest(spark, table)
    assert found is not None
    assert found.version == 10
    for scheme in ("file:", "file://"):
        assert found == commit_file.at(spark, TableRef(path=f"{scheme}{table.path}"), 10)
    assert commit_file.at(spark, table, 9) is None
    assert commit_file.is_current(spark, table, found)
    os.utime(folder / f"{10:020}.json", ns=(0, 0))
    touched = commit_file.newest(spark, table)
    assert touched != found
    assert commit_file.is_current(spark, table, touched)
    (folder / f"{11:020}.json").touch()
    assert [commit_file.is_current(spark, table, seen) for seen in (found, touched, None)] == [False, False, False]
    for elsewhere in (TableRef(path="s3a://bucket/t/bronze"), TableRef.of("main.sales", "t", "bronze")):
        assert commit_file.newest(spark, elsewhere) is None


@pytest.mark.long
def test_the_newest_commit_tells_of_itself_what_the_history_tells(lake: Lake) -> None:
    """Of each kind of commit, lakelog's own and others', without a Spark job (over Spark Connect, whose clients cannot count them, not looked at)."""
    topic, spark = topic_of(lake, "t"), lake.spark
    bronze_, silver = topic.bronze, topic.silver
    jobs = (lambda: 0) if CONNECT else spark.sparkContext._jsc.sc().dagScheduler().numTotalJobs
    statements = (
        lambda: topic.append([record("a")]),
        topic.merge,
        lambda: topic.append([record("a")]),
        topic.roll,
        lambda: topic.clean(force=True),
        lambda: spark.sql(f"ALTER TABLE {bronze_.sql()} SET TBLPROPERTIES ('a' = 'b')"),
        lambda: spark.sql(f"DELETE FROM {bronze_.sql()} WHERE offset = 0"),
        lambda: spark.sql(f"OPTIMIZE {bronze_.sql()}"),
        lambda: spark.sql(f"RESTORE {bronze_.sql()} TO VERSION AS OF 2"),
        lambda: spark.sql(f"RESTORE {silver.sql()} TO VERSION AS OF 0"),
    )
    kinds = set()
    for statement in statements:
        statement()
        for table in (bronze_, silver):
            (told,) = spark.sql(f"DESCRIBE HISTORY {table.sql()} LIMIT 1").collect()
            before = jobs()
            (found,) = tables.history(spark, table, 1)
            unlike = {name: (found[name], value) for name, value in told.asDict().items() if found[name] != value}
            assert (unlike, jobs()) == ({}, before)
            kinds.add(found["operation"])
    assert kinds >= {"WRITE", "MERGE", "SET TBLPROPERTIES", "DELETE", "RESTORE"}


def test_an_append_sees_settings_and_records_that_came_past_it(lake: Lake) -> None:
    mine = topic_of(lake, "t")
    mine.append([record("a")])
    assert log_end(mine.log, known=mine._end) is mine._end
    lake.spark.sql(f"ALTER TABLE {mine.bronze.sql()} SET TBLPROPERTIES ('lakelog.max.message.bytes' = '5')")
    before = versions(lake.root, "t")
    with pytest.raises(InvalidRecords, match="max.message.bytes=5"):
        mine.append([record("a long key")])
    assert versions(lake.root, "t") == before
    lake.topic("t").append([record("b")])
    assert mine.append([record("c")]).offsets == {0: (2, 3)}
    lake.spark.sql(f"INSERT INTO {mine.bronze.sql()} SELECT * FROM {mine.bronze.sql()} WHERE offset = 0 AND control IS NULL")
    with pytest.raises(Damaged, match="another writer changed the log: version 5 .*WRITE by"):
        mine.append([record("d")])


def test_a_lakes_default_that_another_sets_holds_at_once(lake: Lake) -> None:
    mine = topic_of(lake, "t")
    mine.append([record("a")])
    type(lake)(lake.spark, lake.root, clock=lake.clock).configure({"message.max.bytes": 5})
    with pytest.raises(InvalidRecords, match="max.message.bytes=5"):
        mine.append([record("a long key")])


def test_a_topic_made_anew_under_the_same_name_is_another(lake: Lake) -> None:
    mine = topic_of(lake, "t")
    mine.append([record("a")])
    known = mine._end
    other = type(lake)(lake.spark, lake.root, clock=lake.clock)
    other.delete_topic("t")
    topic_of(other, "t").append([record("x"), record("y")])
    assert commit_file.newest(lake.spark, mine.bronze).version == known.file.version

    assert mine.merge().inserted == 2
    assert mine.append([record("z")]).offsets == {0: (2, 3)}
    assert mine.uuid == other.topic("t").uuid


@pytest.mark.long
def test_an_append_whose_topic_is_widened_deleted_or_made_anew_meanwhile(lake: Lake) -> None:
    """Before its statement and after all it looked at: nothing goes where it should not, and no table is made in the place of one that is gone."""

    def overtaken(name: str, meanwhile: Callable[[Topic], object]) -> tuple[TopicLog, Callable[[], object]]:
        topic = lake.create_topic(name, key="STRING", value="n INT")
        topic.append([{"key": "before", "value": {"n": 1}}])
        log, captured, now = topic.log, log_end(topic.log), lake.clock()
        batch = staging.staged(log, requested(lake.spark, [{"key": "k", "value": {"n": 2}}], None, topic.types), now)
        meanwhile(lake.topic(name))
        return log, lambda: bronze.append(log, batch, batch_id="x", now=now, terms=bronze.Terms(), captured=captured)

    stale, append = overtaken("wider", lambda topic: topic.configure(value="n BIGINT"))
    append()
    # The append found the log's state changed, and with that the types: a process that knew those from before reads the log.
    assert log_end(stale).ends() == {0: 2}
    _, append = overtaken("more", lambda topic: topic.configure(value="m STRING, n INT"))
    append()
    for name, columns in (("wider", ["key", "n"]), ("more", ["key", "n", "m"])):
        topic = lake.topic(name)
        assert topic.append([{"key": "after", "value": {"n": 3}}]).offsets == {0: (2, 3)}
        assert topic.merge().inserted == 3
        rows = topic.latest()
        assert rows.columns[:-4] == columns
        assert {(row.key, row.n) for row in rows.collect()} == {("before", 1), ("k", 2), ("after", 3)}
        assert topic.verify().ok

    _, append = overtaken("gone", lambda topic: lake.delete_topic(topic.name))
    with pytest.raises(TopicNotFound, match="deleted while"):
        append()
    assert not Path(lake.root, "gone").exists()

    def anew(topic: Topic) -> None:
        lake.delete_topic(topic.name)
        lake.create_topic(topic.name, key="STRING", value="n INT").append([{"key": "before", "value": {"n": 1}}])

    _, append = overtaken("anew", anew)
    before = versions(lake.root, "anew")
    with pytest.raises(TopicNotFound, match="deleted while"):
        append()
    assert versions(lake.root, "anew") == before
    # Where the folder stays, the guard itself finds no log, and makes none.
    _, append = overtaken("folder", lambda topic: shutil.rmtree(topic.bronze.path or ""))
    (Path(lake.root) / "folder" / "bronze" / "_delta_log").mkdir(parents=True)
    with pytest.raises(NotFound):
        append()
    assert not list(Path(lake.root, "folder", "bronze").rglob("*.*"))


def test_what_others_appended_to_other_partitions_during_an_append_is_merged(lake: Lake) -> None:
    """The guard looks at the partitions it touches alone: a commit to another one passes by, and its end must not be taken for known."""
    mine, other = topic_of(lake, "t", partitions=2), lake.topic("t")
    captured, now = log_end(mine.log), lake.clock()
    batch = staging.staged(mine.log, requested(lake.spark, [record("a", 0)], None, mine.types), now)
    other.append([record("b", 1)])

    version, _, end = bronze.append(mine.log, batch, batch_id="x", now=now, terms=bronze.Terms(), captured=captured)

    assert (version, end) == (captured.version + 2, None)
    mine._end = end
    merged = mine.merge()
    assert (merged.inserted, merged.remaining, merged.to_offsets) == (2, 0, {0: 1, 1: 1})


@pytest.mark.long
def test_the_appends_of_others_are_followed_by_their_notes_and_all_else_is_read(lake: Lake) -> None:
    mine, other = topic_of(lake, "t", partitions=3), lake.topic("t")
    mine.append([record("a", 0)])
    known = mine._end
    assert followed(mine.log, known) == known
    other.append([record("b", 1), record("c", 2)])
    other.configure({"segment.ms": 1})
    assert followed(mine.log, known) is None
    mine.append([record("d", 0)])
    known = mine._end
    lake.clock.tick(10)
    other.append([record("e", 0)], token="e")
    other.append([record("f", 2)])
    found, read = followed(mine.log, known), log_end(mine.log)
    assert (found.version, found.tails, found.batch, found.file, found.ends()) == (
        read.version, read.tails, read.batch, read.file, read.ends(),
    )  # fmt: skip
    assert found.tails[0].segment == 2
    assert mine.append([record("g", 0)]).offsets == {0: (3, 4)}
    known = mine._end
    lake.delete_topic("t")
    again = topic_of(lake, "t", partitions=3)
    for key in "abcdefg":
        again.append([record(key, 0)])
    assert followed(mine.log, known) is None
    assert mine.append([record("h", 0)]).offsets == {0: (7, 8)}


def test_a_log_that_the_session_cached_is_read_as_it_is(lake: Lake) -> None:
    """A session's cache does not see other processes' commits: the guard of an append would let offsets be given twice."""
    topic = topic_of(lake, "t")
    captured, now = log_end(topic.log), lake.clock()
    tables.read(lake.spark, topic.bronze).cache().count()
    long_log(Path(lake.root) / "t" / "bronze", 3, now - 3)
    batch = staging.staged(topic.log, requested(lake.spark, [record("a")], None, topic.types), now)

    bronze.append(topic.log, batch, batch_id="x", now=now, terms=bronze.Terms(), captured=captured)
    assert lake.topic("t").ends() == {0: 4}
    tables.read(lake.spark, topic.bronze).cache().count()
    assert topic.append([record("b")]).offsets == {0: (4, 5)}
    assert topic.verify().ok
