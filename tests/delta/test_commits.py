"""Versions are told right, or not at all; writers find their table, or make none."""

from __future__ import annotations

import json
import shutil
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakelog.delta import commit_file, commits, tables
from lakelog.errors import Conflict, ExpectedOffsetMismatch, InvalidRequest, NotFound, Refused
from lakelog.latest import rebuild
from lakelog.latest.progress import LogPlace
from lakelog.log import bronze
from lakelog.model.names import TableRef
from lakelog.operations import create
from tests.interleaving import late
from tests.tables import version_of, versions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakelog import Lake, Topic


def record(key: str) -> dict[str, object]:
    return {"key": key, "value": "v"}


def test_versions_are_those_of_the_topic_whatever_the_caller_commits_in_the_session(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The session tells its last commit's version: here the caller's own table commits between each commit and the look at that."""
    topic = lake.create_topic("t", key="STRING", value="STRING")
    other = str(tmp_path / "other")
    told = commits.version_committed

    def between(spark: SparkSession, table: TableRef, sign: str) -> int:
        for _ in range(2):
            spark.range(1).write.format("delta").mode("append").save(other)
        return told(spark, table, sign)

    monkeypatch.setattr(tables, "version_committed", between)
    assert [topic.append([record("a")]).version, topic.append([record("b")]).version] == [1, 2]
    assert (topic.merge().version, topic.merge(rebuild=True).version) == (1, 2)
    assert versions(lake.root, "t") == {"bronze": 2, "silver": 2}


def test_a_repeated_token_tells_the_first_version_however_many_commits_ago(lake: Lake, tmp_path: Path) -> None:
    topic = lake.create_topic("t", key="STRING", value="STRING")
    first = topic.append([record("a")], token="one")
    table = Path(lake.root, "t", "bronze")
    # A hundred commits of no consequence, as files.
    for version in range(2, 104):
        commit = {"timestamp": 1, "operation": "SET TBLPROPERTIES", "operationParameters": {}, "isBlindAppend": True}
        (table / "_delta_log" / f"{version:020}.json").write_text(json.dumps({"commitInfo": commit}) + "\n")
    again = lake.topic("t").append([record("a")], token="one")
    assert (again.repeated, again.version, again.offsets) == (True, first.version, first.offsets)
    assert bronze.version_of(topic.log, "a batch that never was") is None
    assert version_of(table) == 103


def test_the_token_of_an_empty_batch_is_remembered(lake: Lake) -> None:
    topic = lake.create_topic("t", key="STRING", value="STRING", partitions=2)
    first = topic.append([], token="none")
    assert (first.records, first.offsets, first.version, first.repeated) == (0, {}, 1, False)
    again = topic.append([record("a")], token="none")
    assert (again.records, again.offsets, again.version, again.repeated) == (0, {}, 1, True)
    with pytest.raises(ExpectedOffsetMismatch):
        topic.append([], token="other", expected_offset={1: 5})
    assert topic.append([]).version is None
    assert versions(lake.root, "t")["bronze"] == 1
    topic.append([record("a")])
    assert (topic.merge().inserted, topic.verify().ok) == (1, True)


def test_a_refusal_is_given_only_after_a_look_that_no_cache_answers(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mounted file system may show a folder as it was a while ago."""
    mine, other = lake.create_topic("t", key="STRING", value="STRING"), lake.topic("t")
    mine.append([record("a")])
    last = commit_file.newest(lake.spark, mine.bronze)
    assert last is not None
    other.append([record("b")])
    note = commit_file.note
    with monkeypatch.context() as mounted:
        # The folder shows no commit after the first append's.
        mounted.setattr(commit_file, "newest", lambda spark, table: last)
        mounted.setattr(commit_file, "at", lambda spark, table, version: last if version == last.version else None)
        mounted.setattr(commit_file, "note", lambda spark, table, version: note(spark, table, version) if version <= last.version else None)
        assert mine.append([record("c")], expected_offset={0: 2}).offsets == {0: (2, 3)}
        with pytest.raises(ExpectedOffsetMismatch) as refused:
            other.append([record("d")], expected_offset={0: 2})
        assert refused.value.actual == 3
    monkeypatch.setattr(commit_file, "is_gone", lambda spark, table: True)
    assert mine.append([record("d")]).offsets == {0: (3, 4)}


@pytest.mark.parametrize("by", ["path", "name"])
def test_every_writer_plans_its_rows_within_its_transaction(spark: SparkSession, tmp_path: Path, by: str) -> None:
    """The guard of an append and the gate of an overwrite rely on it: what was committed before is read, what is committed after conflicts."""
    from pyspark.sql import functions as F

    def write(rows: DataFrame, path: str) -> None:
        if by == "path":
            rows.write.format("delta").mode("overwrite").option("partitionOverwriteMode", "static").save(path)
        else:
            tables.replace(rows, TableRef(path=path), F.col("p") == 0, user_metadata=None)

    def begun(name: str) -> tuple[str, DataFrame]:
        path = str(tmp_path / name)
        spark.range(3).withColumn("p", F.lit(0)).write.format("delta").partitionBy("p").save(path)
        # One task: the other core is the other writer's.
        return path, spark.read.table(TableRef(path=path).sql()).filter("p = 0").coalesce(1)

    def meanwhile(path: str) -> None:
        spark.range(100, 101).withColumn("p", F.lit(0)).write.format("delta").mode("append").save(path)

    def ids(path: str) -> list[int]:
        return sorted(row.id for row in spark.read.format("delta").load(path).collect())

    path, rows = begun(f"before_{by}")
    rows = rows.select((F.col("id") + 0).alias("id"), "p")
    meanwhile(path)
    write(rows, path)
    assert ids(path) == [0, 1, 2, 100]

    path, rows = begun(f"during_{by}")
    started, go = tmp_path / f"{by}.started", tmp_path / f"{by}.go"

    @F.udf("long")
    def wait(number):  # type: ignore[no-untyped-def]
        started.touch()
        until = time.monotonic() + 120
        while not go.exists() and time.monotonic() < until:
            time.sleep(0.01)
        return number

    def commit() -> None:
        until = time.monotonic() + 120
        while not started.exists() and time.monotonic() < until:
            time.sleep(0.01)
        meanwhile(path)
        go.touch()

    thread = threading.Thread(target=commit)
    thread.start()
    with pytest.raises(Conflict), tables.door(path):
        write(rows.select(wait("id").alias("id"), "p"), path)
    thread.join()
    assert ids(path) == [0, 1, 2, 100]


@pytest.mark.parametrize("locked", [True, False])
def test_a_rebuild_whose_topic_is_deleted_meanwhile_makes_no_table(lake: Lake, monkeypatch: pytest.MonkeyPatch, locked: bool) -> None:
    """With locks the deletion comes before the overwrite or after it; where there are none, the statement itself finds no table."""
    topic = lake.create_topic("t", key="STRING", value="STRING")
    topic.append([record("a")])
    topic.merge()
    if locked:
        overwrite = tables.overwrite

        def late(*given: Any, **named: Any) -> int:
            lake.delete_topic("t")
            return overwrite(*given, **named)

        monkeypatch.setattr(tables, "overwrite", late)
    else:
        signed = tables.signed

        def later(user_metadata: str | None) -> str:
            lake.delete_topic("t")
            return signed(user_metadata)

        monkeypatch.setattr(tables, "signed", later)
    with pytest.raises(NotFound):
        topic.merge(rebuild=True)
    assert list(Path(lake.root, "t").rglob("*.json")) == []
    assert lake.topics() == []
    monkeypatch.undo()
    lake.create_topic("t", key="STRING", value="STRING")


@pytest.mark.long
def test_a_half_left_name_can_be_deleted_and_created(lake: Lake, tmp_path: Path) -> None:
    """An orphan that lakelog's writer made, data files before the first commit of a table, a table without its log: none blocks the name."""
    lake.create_topic("first")
    note = json.dumps({"lakelog.progress": {}})
    for name, place in (("one", "silver"), ("two", "bronze"), ("three", "silver")):
        rows = lake.spark.sql("SELECT 1 AS n, 0 AS partition, 0 AS bucket").write.format("delta").option("userMetadata", note)
        rows = rows.partitionBy("partition" if place == "bronze" else "bucket")
        rows.save(f"{lake.root}/{name}/{place}")
    for name in ("two", "three"):
        place = "bronze" if name == "two" else "silver"
        shutil.rmtree(Path(lake.root, name, place, "_delta_log"))
    shutil.copytree(Path(lake.root, "two"), Path(lake.root, "five"))
    for name in ("one", "two", "three"):
        assert len(lake.delete_topic(name).tables) == 1
        assert not Path(lake.root, name).exists()
        lake.create_topic(name, key="STRING", value="STRING")
    lake.spark.range(1).write.format("delta").option("userMetadata", note).save(f"{lake.root}/four/silver")
    for name in ("four", "five"):
        topic = lake.create_topic(name, key="STRING", value="STRING")
        topic.append([record("a")])
        assert topic.merge().inserted == 1
    # Files that are no topic's stay, and what is there is told.
    lake.spark.range(1).write.parquet(f"{lake.root}/six/bronze")
    with pytest.raises(NotFound):
        lake.delete_topic("six")
    assert list(Path(lake.root, "six", "bronze").glob("*.parquet"))


def test_silver_is_replaced_where_it_is_and_not_made(lake: Lake) -> None:
    topic = lake.create_topic("t", key="STRING", value="STRING")
    lake.delete_topic("t")
    with pytest.raises((NotFound, Refused)):
        rebuild.create(topic.log, {0: LogPlace(0, 0, None)}, [], replace=True, now=lake.clock())
    assert not Path(lake.root, "t", "silver", "_delta_log").exists()


@pytest.mark.long
def test_a_slow_creator_leaves_a_latest_table_that_another_made_meanwhile(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the latest table of a deleted topic was left behind, whoever completes the new one replaces it: once."""
    old = lake.create_topic("t", key="STRING", value="STRING")
    old.append([record("old")])
    old.merge()
    shutil.copytree(f"{lake.root}/t/silver", tmp_path / "silver")
    lake.delete_topic("t")
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(create, "complete", stop)
        lake.create_topic("t", key="STRING", value="STRING")
    shutil.copytree(tmp_path / "silver", f"{lake.root}/t/silver")

    def completed() -> Topic:
        with pytest.raises(InvalidRequest, match="exists already"):
            lake.create_topic("t", key="STRING", value="STRING")
        return lake.topic("t")

    def another() -> None:
        topic = completed()
        topic.append([record("a")])
        assert topic.merge().inserted == 1

    late(monkeypatch, create, "_require_empty", another)
    topic = completed()
    assert [row["key"] for row in topic.latest().collect()] == ["a"]
    assert (topic.merge().inserted, topic.verify().problems) == (0, [])


def stop(*_: object, **__: object) -> None:
    raise KeyboardInterrupt
