"""Restore: the latest table as it was, the log cut or replayed, what leaves it kept aside; and what is refused."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakelog import Lake, Position
from lakelog.delta import table_properties
from lakelog.errors import Conflict, Damaged, FencedEpoch, InvalidRequest, LogIncomplete, NotFound, Refused
from lakelog.snapshots import restore
from tests.snapshots.test_snapshots import DAY, live, put, topic
from tests.tables import versions

if TYPE_CHECKING:
    from lakelog import Topic


def aside(topic: Topic) -> list[tuple[Any, ...]]:
    """What the quarantine holds: (partition, offset, epoch, key, value, tombstone, reason)."""
    rows = topic.quarantined().orderBy("epoch", "partition", "offset").collect()
    return [tuple(row[name] for name in ("partition", "offset", "epoch", "key", "value", "tombstone", "reason")) for row in rows]


def test_a_restore_cuts_the_log_and_keeps_what_leaves_it(lake: Lake) -> None:
    orders = topic(lake)
    orders.append([{"key": "a", "value": "1", "partition": 0}, {"key": "b", "value": "1", "partition": 1}], token="first")
    good = orders.snapshot("good", keep="90 days")
    orders.append([{"key": "a", "value": "2", "partition": 0}, {"key": "b", "value": None, "partition": 1}], token="second")
    orders.snapshot()
    orders.append([{"key": "c", "value": "1", "partition": 1}])
    silver = orders.status().silver_version
    before = versions(lake.root, "t")
    orders.commit("ahead", orders.position())
    orders.commit("behind", Position({0: 1, 1: 0}, 0, orders.uuid))
    planned = orders.restore("good", dry_run=True)
    assert planned.readers == ["ahead"]
    assert (planned.records, planned.added, planned.changed, planned.removed) == (3, 1, 1, 0)
    assert (planned.leaving, planned.later, planned.epoch, planned.anew) == ({0: (1, 2), 1: (1, 3)}, ["0@2,2"], 1, [])
    assert versions(lake.root, "t") == before

    done = orders.restore("good")
    assert (done.to, done.id, done.epoch, done.ends) == ("good", good.id, 1, {0: 1, 1: 1})
    assert live(orders) == live(orders, "good") == {"a": "1", "b": "1"}
    assert (orders.ends(), orders.status().epoch, orders.status().unmerged_records) == ({0: 1, 1: 1}, 1, 0)
    assert aside(orders) == [
        (0, 1, 0, "a", "2", False, "RESTORED"), (1, 1, 0, "b", None, True, "RESTORED"), (1, 2, 0, "c", "1", False, "RESTORED"),
    ]  # fmt: skip
    assert orders.verify().problems == []
    assert live(orders, silver) == {"a": "2"}, "other versions stay readable"
    assert [one.id for one in orders.snapshots()] == ["0@1,1", "0@2,2"]
    stored = table_properties.read(lake.spark, orders.silver) or {}
    assert stored["delta.deletedFileRetentionDuration"] == f"interval {91 * DAY // 1000} seconds", "RESTORE had set it back"

    with pytest.raises(FencedEpoch):
        orders.append([{"key": "x", "value": "1"}], epoch=0)
    # A token of records that are in the log is known, one of records that left it is not.
    assert orders.append([{"key": "a", "value": "1", "partition": 0}, {"key": "b", "value": "1", "partition": 1}], token="first").repeated
    again = orders.append([{"key": "a", "value": "2", "partition": 0}, {"key": "b", "value": None, "partition": 1}], token="second")
    assert (again.repeated, again.offsets) == (False, {0: (1, 2), 1: (1, 2)})
    assert orders.merge(max_records=1).records in (1, 2)
    orders.merge()
    assert live(orders) == {"a": "2"}
    assert {(row["offset"], row["epoch"]) for row in orders.read(partition=0).collect()} == {(0, 0), (1, 1)}
    assert orders.snapshot().id == "1@2,2"
    assert orders.verify().problems == []

    # What left the log comes back by hand, in its order, once.
    assert orders.requeue(partition=1, first=2, dry_run=True).records == 1
    assert (orders.requeue(partition=1, first=2).offsets, len(aside(orders))) == ({1: (2, 3)}, 2)
    assert orders.requeue(partition=1, first=2).records == 0
    orders.merge()
    assert live(orders) == {"a": "2", "c": "1"}


@pytest.mark.long
def test_restored_back_and_then_forward_the_topic_can_be_read_on_from_its_snapshot(lake: Lake) -> None:
    """The wrong one was restored first: the log holds nothing of the other any more, and who read in between is told so."""
    orders = topic(lake)
    put(orders, a="1")
    orders.snapshot("first")
    put(orders, b="1")
    second = orders.snapshot("second")
    orders.restore("first")
    put(orders, c="1")
    between = orders.position()
    done = orders.restore("second")
    assert (done.anew, done.epoch, live(orders)) == ([0], 2, {"a": "1", "b": "1"})
    assert orders.validate(between).answer == "SNAPSHOT"
    put(orders, d="1")
    begun = orders.bootstrap()
    followed = {row["key"]: row["value"] for row in begun.rows.filter("NOT tombstone").collect()}
    tail = orders.read(since=begun.position)
    assert followed | {row["key"]: row["value"] for row in tail.records.collect()} == {"a": "1", "b": "1", "d": "1"}
    orders.merge()
    assert (live(orders), orders.verify().problems, second.id) == ({"a": "1", "b": "1", "d": "1"}, [], "0@2,0")


@pytest.mark.long
def test_keep_rewinds_the_table_and_the_next_merge_replays_the_log(lake: Lake) -> None:
    orders = topic(lake)
    put(orders, a="1", b="1")
    orders.snapshot("s")
    put(orders, a=None, b="2")
    orders.merge()
    put(orders, c="1")
    planned = orders.restore("s", log="keep", dry_run=True)
    done = orders.restore("s", log="keep")
    assert (planned.replay, planned.replay_records) == (done.replay, done.replay_records) == ({0: (2, 5)}, 3)
    assert (done.epoch, done.leaving, live(orders)) == (0, {}, {"a": "1", "b": "1"})
    assert (orders.status().unmerged_records, orders.status().epoch) == (3, 0)
    assert orders.merge().records == 3
    assert (live(orders), orders.verify().problems) == ({"b": "2", "c": "1"}, [])
    # To a state whose records an earlier restore took away: its log is no more, the table may come back, and the log starts anew there.
    late = orders.snapshot("late")
    orders.restore("s")
    put(orders, d="1")
    orders.merge()
    with pytest.raises(LogIncomplete, match="other records than the snapshot from offset 2 on, or none"):
        orders.restore(late, log="keep")
    back = orders.restore("late")
    assert (back.replay, back.replay_records) == ({}, 0)
    assert (back.anew, back.ends, back.epoch) == ([0], {0: 5, 1: 0}, 2)
    assert (live(orders), [part.log_start_offset for part in orders.status().partitions]) == ({"b": "2", "c": "1"}, [5, 0])
    put(orders, e="1")
    orders.merge()
    assert live(orders) == {"b": "2", "c": "1", "e": "1"}
    assert orders.ends() == {0: 6, 1: 0}


@pytest.mark.long
def test_what_cannot_be_restored_is_refused_and_nothing_is_written(lake: Lake) -> None:
    orders = topic(lake, **{"compaction.strategy": "timestamp"})
    put(orders, a="1")
    orders.snapshot("s")
    put(orders, a="2")
    orders.merge()
    orders.configure({"compaction.strategy": "offset"})
    before = versions(lake.root, "t")
    with pytest.raises(Refused, match=r"made under the rule timestamp, the topic now says offset: .* Configure the topic") as changed:
        orders.restore("s")
    assert changed.value.name == "RULE_CHANGED"
    for to in ("nosuch", 77, "2001-01-01"):
        with pytest.raises(NotFound) as missing:
            orders.restore(to)
        assert missing.value.name == "SNAPSHOT_NOT_FOUND"
    for wrong in ({"to": "s", "log": "cut"}, {"to": None}, {"to": "now"}):
        with pytest.raises(InvalidRequest):
            orders.restore(**wrong)
    assert versions(lake.root, "t") == before
    orders.configure({"compaction.strategy": "timestamp"})
    orders.restore("s")
    assert live(orders) == {"a": "1"}


@pytest.mark.long
def test_types_and_settings_are_not_rewound(lake: Lake) -> None:
    orders = lake.create_topic("t", key="STRING", value="n INT", partitions=1)
    orders.append([{"key": "a", "value": {"n": 1}}])
    orders.snapshot("narrow")
    orders.configure({"segment.ms": 5000}, value="n BIGINT, m STRING")
    orders.append([{"key": "a", "value": {"n": 2**40, "m": "x"}}])
    orders.merge()
    orders.restore("narrow")
    assert orders.describe().value == "struct<n:bigint,m:string>"
    assert [tuple(row)[:3] for row in orders.latest().collect()] == [("a", 1, None)]
    assert [(row["value"]["n"], row["value"]["m"]) for row in orders.quarantined().collect()] == [(2**40, "x")]
    assert orders.config.number("segment.ms") == 5000
    assert (orders.requeue().records, orders.merge().updated) == (1, 1)
    assert [tuple(row)[:3] for row in orders.latest().collect()] == [("a", 2**40, "x")]


@pytest.mark.long
def test_a_log_restored_by_hand_is_damaged_until_a_restore_begins_a_new_epoch(lake: Lake) -> None:
    orders = topic(lake)
    put(orders, a="1")
    orders.snapshot("s")
    put(orders, a="2")
    orders.merge()
    bronze = versions(lake.root, "t")["bronze"]
    put(orders, a="3")
    lake.spark.sql(f"RESTORE TABLE {orders.bronze.sql()} TO VERSION AS OF {bronze - 1}")
    for call in (lambda: put(orders, b="1"), lambda: orders.restore("s", log="keep"), lambda: orders.snapshot()):
        with pytest.raises(Damaged):
            call()
    assert orders.restore("s", dry_run=True).epoch == 1
    done = orders.restore("s")
    assert (done.epoch, live(orders), orders.ends()) == (1, {"a": "1"}, {0: 1, 1: 0})
    put(orders, b="1")
    orders.merge()
    assert (live(orders), orders.verify().problems) == ({"a": "1", "b": "1"}, [])


def test_whoever_writes_next_finishes_a_restore_and_a_merge_that_knew_the_table_before_cannot_commit(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = topic(lake)
    put(orders, a="1")
    orders.snapshot("s")
    put(orders, a="2")

    def cut_off(*given: Any, **more: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, contextlib.suppress(KeyboardInterrupt):
        patch.setattr(restore, "carry_out", cut_off)
        orders.restore("s")
    other = Lake(lake.spark, lake.root, clock=lake.clock).topic("t")
    assert other.status().intent == "restore"
    with pytest.raises(Conflict, match="the operation restore is under way, or was cut off"):
        other.restore("s", dry_run=True)
    # A merge that had read the state of the table before: the table is at the snapshot, so that RESTORE alone would change nothing.
    from lakelog.latest import upsert
    from lakelog.latest.progress import LogPlace, progress

    known = progress(orders.log)
    version = versions(lake.root, "t")["bronze"] - 1
    put(other, b="1")
    late, _ = upsert.merge(orders.log, known, {0: LogPlace(2, 0, "x"), 1: LogPlace(0, 0, None)}, bronze_version=version, now=0)
    assert late is None, "its gate does not find the control rows that it read"
    other.merge()
    assert (live(other), other.status().epoch, other.ends()) == ({"a": "1", "b": "1"}, 1, {0: 2, 1: 0})
    assert [row[:5] for row in aside(other)] == [(0, 1, 0, "a", "2")]
    assert other.verify().problems == []


@pytest.mark.long
def test_every_topic_that_has_the_snapshot(lake: Lake) -> None:
    """Cut off, the same call goes on: topics that are restored are passed over."""
    orders, other = topic(lake), lake.create_topic("u", key="STRING", value="STRING")
    lake.create_topic("v", key="STRING", value="STRING")
    put(orders, a="1")
    put(other, a="1")
    for one in (orders, other):
        one.snapshot("friday")
        put(one, a="2")
        one.merge()
    orders.restore("friday")
    done = lake.restore("friday")
    assert [(one.topic, one.repeated, one.epoch) for one in done] == [("t", True, 1), ("u", False, 1)]
    assert (live(orders), live(other)) == ({"a": "1"}, {"a": "1"})
    with pytest.raises(NotFound) as missing:
        lake.restore("monday")
    assert missing.value.name == "SNAPSHOT_NOT_FOUND"


@pytest.mark.long
def test_neither_a_snapshot_nor_a_restore_reads_the_rows_of_the_latest_table(lake: Lake) -> None:
    """What they cost does not grow with the number of keys: they work on files that nobody could read."""
    orders = topic(lake)
    put(orders, a="1", b="1")
    orders.merge()
    put(orders, c="1")
    version = orders.merge().version
    put(orders, d="1")
    orders.merge()
    files = {path: path.read_bytes() for path in Path(orders.silver.path or "").glob("bucket=0/*.parquet")}
    for path in files:
        path.write_bytes(b"nothing to be read" * 100)
    early = orders.snapshot("early", at=version)
    orders.snapshot("late")
    assert [one.name for one in orders.snapshots()] == ["early", "late"]
    assert orders.describe_snapshot("early").id == early.id
    orders.restore("early")
    for path, octets in files.items():
        path.write_bytes(octets)
    assert live(orders) == {"a": "1", "b": "1", "c": "1"}
    assert orders.verify().problems == []
