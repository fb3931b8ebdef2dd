"""Roots that are not on this machine's disk: a path without a scheme belongs to Spark's default file system."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakelog.delta import commit_file, filesystem, lock
from lakelog.delta.location import address, on_this_disk
from lakelog.errors import InvalidRequest, TopicNotFound
from lakelog.lake.lake import Lake
from lakelog.model.names import TableRef
from tests.conftest import CONNECT
from tests.sessions import another
from tests.tables import versions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.conftest import Clock


def cluster(tmp_path: Path) -> str:
    return "c" + hashlib.sha256(str(tmp_path).encode()).hexdigest()[:12]


@pytest.fixture
def elsewhere(spark: SparkSession, tmp_path: Path) -> SparkSession:
    """A session whose default file system is not this machine's disk: its ``/data`` is a folder that is called otherwise here.

    Hadoop keeps file systems by their names, so each has one of its own.
    """
    session = another(spark)
    (tmp_path / "store").mkdir()
    session.conf.set("fs.defaultFS", f"viewfs://{cluster(tmp_path)}/")
    session.conf.set(f"fs.viewfs.mounttable.{cluster(tmp_path)}.link./data", (tmp_path / "store").as_uri())
    for name in ("spark.sql.shuffle.partitions", "spark.sql.codegen.wholeStage", "spark.sql.codegen.factoryMode"):
        session.conf.set(name, spark.conf.get(name, "2"))
    return session


def test_what_lies_on_this_disk_is_for_the_session_to_say(spark: SparkSession, elsewhere: SparkSession, tmp_path: Path) -> None:
    assert on_this_disk(spark, "/data/lake") == on_this_disk(spark, "file:///data/lake") == "/data/lake"
    assert on_this_disk(elsewhere, "file:/data/lake") == "/data/lake"
    for location in ("/data/lake", "viewfs://cluster/data/lake", "hdfs:/data/lake", "s3a://bucket/lake"):
        assert on_this_disk(elsewhere, location) is None
        table = TableRef.of(location, "t", "bronze")
        assert commit_file.newest(elsewhere, table) is None
        assert lock.lock_file(elsewhere, table) is None
    assert address(elsewhere, "/data/lake") == f"viewfs://{cluster(tmp_path)}/data/lake"
    assert address(elsewhere, "s3a://bucket/lake") == "s3a://bucket/lake"


@pytest.mark.parametrize("scheme", [True, pytest.param(False, marks=pytest.mark.long)])
def test_a_lake_elsewhere_does_what_any_does(elsewhere: SparkSession, clock: Clock, tmp_path: Path, scheme: bool) -> None:
    root = f"viewfs://{cluster(tmp_path)}/data/lake" if scheme else "/data/lake"
    lake = Lake(elsewhere, root, clock=clock)
    topic = lake.create_topic("t", key="STRING", value="STRING")
    there = tmp_path / "store" / "lake"
    first = topic.append([{"key": "a", "value": "1"}])
    assert (first.offsets, first.version) == ({0: (0, 1)}, 1)
    assert topic.append([{"key": "b", "value": "2"}], expected_offset={0: 1}, token="b").offsets == {0: (1, 2)}
    assert topic.merge().inserted == 2
    assert [row.key for row in lake.sql("SELECT key FROM t ORDER BY key").collect()] == ["a", "b"]
    assert not Path(root).exists()
    assert not (there / "_lakelog" / "locks").exists()
    if CONNECT:
        # No Java removes it, and nothing else here opens a viewfs.
        with pytest.raises(InvalidRequest, match="cannot be removed from here"):
            lake.delete_topic("t")
        assert topic.append([{"key": "c", "value": "3"}]).offsets == {0: (2, 3)}
        return

    assert lake.delete_topic("t").tables == [f"{root}/t/bronze", f"{root}/t/silver"]
    assert list((there / "t").rglob("*.*")) == []
    assert lake.topics() == []
    with pytest.raises(TopicNotFound):
        topic.append([{"key": "c", "value": "3"}])
    assert list((there / "t").rglob("*.*")) == []
    lake.create_topic("t", key="STRING", value="STRING")

    (there.parent / "other" / "x").mkdir(parents=True)
    (there.parent / "other" / "x" / "file").write_text("somebody's")
    with pytest.raises(InvalidRequest, match=r"not empty \(it holds x\)"):
        Lake(elsewhere, root.replace("lake", "other"), clock=clock).create_topic("t")


def test_a_topic_that_cannot_be_removed_from_here_stays_and_is_not_reported_deleted(
    elsewhere: SparkSession, clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake(elsewhere, "/data/lake", clock=clock)
    lake.create_topic("t", key="STRING", value="STRING").append([{"key": "a", "value": "1"}])
    before = versions(str(tmp_path / "store" / "lake"), "t")
    monkeypatch.setattr(filesystem, "has_own_catalog", lambda spark: False)
    with pytest.raises(InvalidRequest, match=r"viewfs://\w+/data/lake/t/(silver|bronze) cannot be removed from here.*tools of its storage"):
        lake.delete_topic("t")
    assert versions(str(tmp_path / "store" / "lake"), "t") == before
    assert lake.topic("t").ends() == {0: 1}
