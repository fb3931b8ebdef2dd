"""When the version of a deleted key is forgotten, and when it stays although it is due."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lakelog import Lake
from lakelog.cleaning.tombstones import Tombstones
from lakelog.delta import tables
from lakelog.latest.silver import REMEMBERED
from tests.conftest import Clock

DAY = 86_400_000


@pytest.mark.soak
def test_a_version_is_not_forgotten_beside_a_merge_that_found_a_late_record(
    lake: Lake, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a merge changes silver's control rows alone, between the clean's look at the progress and its commit."""
    config = {"compaction.strategy": "timestamp", "delete.retention.ms": 0, "tombstone.version.retention.ms": DAY}
    topic = lake.create_topic("t", key="STRING", value="INT", config=config)
    topic.append([{"key": "ann", "tombstone": True, "timestamp": 3}, {"key": "bob", "value": 1, "timestamp": 1}])
    topic.roll()
    for _ in range(2):
        topic.clean(force=True)
        clock.tick(2 * DAY)
    other, write = lake.topic("t"), Tombstones.write

    def beside(asked: Tombstones, log: Any) -> Any:
        monkeypatch.setattr(Tombstones, "write", write)
        other.append([{"key": "ann", "value": 2, "timestamp": 2}])
        assert other.merge().late_after_delete == 1
        return write(asked, log)

    monkeypatch.setattr(Tombstones, "write", beside)
    assert topic.clean(dry_run=True, force=True).forgotten == 1
    assert topic.clean(force=True).forgotten == 0
    assert topic.verify().problems == [] and {row["key"] for row in topic.latest().collect()} == {"bob"}
    topic.roll()
    assert topic.clean(force=True).forgotten == 1
    assert topic.verify().problems == [] and {row["key"] for row in topic.latest().collect()} == {"bob"}


@pytest.mark.long
def test_a_version_is_not_forgotten_while_the_log_holds_a_record_behind_it(lake: Lake, clock: Clock) -> None:
    """Or a fold of the log, and a repair, would bring the deleted key back; once the record has left the log the version is forgotten too."""
    config = {"compaction.strategy": "timestamp", "delete.retention.ms": 0, "tombstone.version.retention.ms": DAY}
    topic = lake.create_topic("t", key="STRING", value="INT", config=config)
    topic.append(
        [
            {"key": "ann", "value": 1, "timestamp": 1},
            {"key": "ann", "tombstone": True, "timestamp": 3},
            {"key": "bob", "value": 1, "timestamp": 1},
        ]
    )
    topic.append([{"key": "eve", "value": 1, "timestamp": 1}, {"key": "eve", "tombstone": True, "timestamp": 3}])
    topic.roll()
    topic.clean(force=True)
    clock.tick(1)
    topic.append([{"key": "ann", "value": 2, "timestamp": 2}])
    assert topic.merge().late == 1
    assert topic.clean(force=True).expired == 2
    for _ in range(2):
        clock.tick(2 * DAY)
        planned, done = topic.clean(dry_run=True, force=True), topic.clean(force=True)
        assert planned.forgotten == done.forgotten
        assert topic.verify().problems == [], "the late record of ann lies in the active segment"
    (explained,) = topic.explain("ann").partitions
    assert [(one.offset, one.reason) for one in explained.records if one.in_log] == [(5, "older-version")]
    topic.roll()
    done = topic.clean(force=True)
    assert (done.records, done.forgotten) == (1, 1)
    assert topic.repair().problems == [] and topic.verify().problems == []
    assert {row["key"] for row in topic.latest().collect()} == {"bob"}


@pytest.mark.long
def test_of_a_delete_that_has_gone_silver_keeps_the_version_and_nothing_that_it_carried(lake: Lake, clock: Clock) -> None:
    """Under every rule with versions: a flagged delete carries a value and headers for as long as it is a tombstone."""
    rules = {
        "timestamp": {}, "header": {"compaction.strategy.header": "seq"}, "column": {"compaction.strategy.column": "n"},
    }  # fmt: skip
    made = {}
    for name, more in rules.items():
        config = {"compaction.strategy": name, **more, "delete.retention.ms": 0, "min.cleanable.dirty.ratio": 0}
        made[name] = lake.create_topic(name, key="STRING", value="n INT, why STRING", config=config)
        carried = {"value": {"n": 7, "why": "left"}, "headers": [["seq", {"hex": f"{7:016x}"}], ["by", "ann"]]}
        made[name].append([{"key": "ann", "tombstone": True, "timestamp": 7, **carried}])
        made[name].roll()
        made[name].clean()
    (row,) = tables.read(lake.spark, made["column"].silver).filter("bucket >= 0").collect()
    carries = ([one["key"] for one in row["headers"]], row["value"].asDict())
    assert carries == (["seq", "by"], {"n": 7, "why": "left"}), "a tombstone tells who and why"
    clock.tick(1)
    for name, topic in made.items():
        assert topic.clean().expired == 1
        (row,) = tables.read(lake.spark, topic.silver).filter("bucket >= 0").collect()
        version = row["version"].timestamp() * 1000 if name == "timestamp" else row["version"]
        assert (row["key"], row["value"], row["headers"], row["tombstone"]) == ("ann", None, None, True), name
        assert (round(version), json.loads(row["control"])) == (7, json.loads(REMEMBERED)), name
        assert (topic.deleted().count(), topic.read().count(), topic.verify().problems) == (0, 0, []), name


@pytest.mark.long
def test_a_remembered_version_is_no_tombstone_in_sql(lake: Lake, clock: Clock) -> None:
    """Nor in a view of a catalog, once an upgrade has made that anew as this lakelog makes it."""
    schema = f"spark_catalog.{lake.root.split('/')[-2]}"
    lake.spark.sql(f"CREATE SCHEMA {schema}")
    mine = Lake(lake.spark, schema, clock=clock)
    config = {"compaction.strategy": "timestamp", "delete.retention.ms": 0}
    topic = mine.create_topic("t", key="STRING", value="INT", config=config)
    topic.append([{"key": "ann", "tombstone": True, "timestamp": 3}, {"key": "bob", "value": 1, "timestamp": 1}])
    topic.roll()
    topic.clean(force=True)
    assert [row["key"] for row in mine.sql("SELECT key FROM t_deleted").collect()] == ["ann"]
    clock.tick(1)
    topic.clean(force=True)
    assert [topic.rows().count(), topic.deleted().count()] == [1, 0]
    assert mine.sql("SELECT key FROM t_deleted").collect() == []
    assert lake.spark.sql(f"SELECT key FROM {schema}.t_deleted").collect() == []

    lake.spark.sql(f"CREATE OR REPLACE VIEW {schema}.t_deleted AS SELECT key FROM {topic.silver.sql()} WHERE bucket > -1 AND tombstone")
    mine.upgrade()
    assert lake.spark.sql(f"SELECT key FROM {schema}.t_deleted").collect() == []
    assert mine.upgrade().done == []


@pytest.mark.soak
def test_a_version_that_is_not_to_be_remembered_stays_while_the_log_holds_a_record_behind_it(lake: Lake, clock: Clock) -> None:
    """With ``tombstone.version.retention.ms=0`` too: a late record in the active segment does not bring the deleted key back."""
    config = {"compaction.strategy": "timestamp", "delete.retention.ms": 0, "tombstone.version.retention.ms": 0}
    topic = lake.create_topic("t", key="STRING", value="INT", config=config)
    topic.append([{"key": "ann", "value": 1, "timestamp": 1}, {"key": "ann", "tombstone": True, "timestamp": 3}])
    topic.roll()
    topic.clean(force=True)
    clock.tick(1)
    topic.append([{"key": "ann", "value": 2, "timestamp": 2}])
    assert topic.merge().late == 1
    for _ in range(2):
        topic.clean(force=True)
        assert topic.verify().problems == [] and topic.latest().count() == 0
        clock.tick(1)
    topic.roll()
    done = topic.clean(force=True)
    assert (done.records, done.forgotten) == (1, 1)
    topic.append([{"key": "ann", "value": 2, "timestamp": 2}])
    assert (topic.merge().late_after_delete, topic.latest().count(), topic.verify().problems) == (0, 1, [])
