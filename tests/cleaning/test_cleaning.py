"""The log kept small: what a clean removes, that nobody can tell by the latest table, and what is refused."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jobs.clean import main
from lakelog import Lake, Merged, Topic
from lakelog.cleaning import dropping
from lakelog.errors import Conflict, InvalidRequest, LogIncomplete, OffsetOutOfRange, Refused
from tests.conftest import NOON, Answer, Clock
from tests.native.damages import data_files
from tests.tables import versions

DAY = 86_400_000
AT_ONCE = {"min.cleanable.dirty.ratio": "0", "delete.retention.ms": str(DAY)}


def log_of(topic: Topic) -> list[Any]:
    return topic.read().select("partition", "offset", "key", "timestamp", "tombstone").collect()


def fold(rows: list[Any], *, versioned: bool) -> dict[bytes, tuple[int, int, bool]]:
    """Key to partition, offset and tombstone of the latest record, by a loop over the log."""
    best: dict[bytes, Any] = {}
    for row in rows:
        key, rank = bytes(row["key"]), (row["timestamp"] if versioned else 0, row["offset"])
        if key not in best or best[key][0] < rank:
            best[key] = (rank, row["partition"], row["offset"], row["tombstone"])
    return {key: found for key, (_, *found) in best.items()}  # type: ignore[misc]


def latest(topic: Topic) -> dict[bytes, int]:
    return {bytes(row["key"]): row["_offset"] for row in topic.latest().select("key", "_offset").collect()}


def live(folded: dict[bytes, tuple[int, int, bool]]) -> dict[bytes, int]:
    return {key: offset for key, (_, offset, tombstone) in folded.items() if not tombstone}


def records(numbers: list[int], *, deletes: float, seed: int) -> list[dict[str, Any]]:
    dice = random.Random(seed)
    return [
        {"key": b"k%d" % number, "value": None if dice.random() < deletes else b"v%d" % place, "timestamp": NOON - dice.randrange(1, 1000)}
        for place, number in enumerate(numbers)
    ]


@pytest.mark.parametrize("strategy", ["timestamp", pytest.param("offset", marks=pytest.mark.long)])
def test_a_cleaned_log_gives_the_same_table_and_shrinks_to_winners_and_the_active_segment(lake: Lake, clock: Clock, strategy: str) -> None:
    versioned = strategy == "timestamp"
    topic = lake.create_topic("t", partitions=2, config={**AT_ONCE, "compaction.strategy": strategy})
    dice = random.Random(3)
    for seed in range(3):
        topic.append(records([dice.randrange(30) for _ in range(60)], deletes=0.3, seed=seed))
        rolled = topic.roll()
    topic.append(records([1, 1, 2], deletes=0, seed=9))
    rows = log_of(topic)
    before = fold(rows, versioned=versioned)
    ends = {part.partition: part.log_end_offset for part in topic.status().partitions}

    planned = topic.plan_cleaning()
    done = topic.clean()

    assert {**planned.to_dict(), "dry_run": False} == done.to_dict(), "a dry run tells exactly what a run does"
    winners = {(partition, offset) for partition, offset, _ in before.values()}
    active = {(row["partition"], row["offset"]) for row in rows if row["offset"] >= rolled.segments[row["partition"]]}
    left = log_of(topic)
    assert {(row["partition"], row["offset"]) for row in left} == winners | active
    assert len(left) == len(winners | active) == len(rows) - done.records < len(rows) - 60
    assert fold(left, versioned=versioned) == before
    assert latest(topic) == live(before)
    assert done.stamped == sum(tombstone for _, _, tombstone in before.values()) > 3
    assert {part.partition: part.log_end_offset for part in topic.status().partitions} == ends
    assert topic.verify().problems == []

    tables = versions(lake.root, "t")
    again = topic.clean()
    assert (again.records, again.stamped, again.expired) == (0, 0, 0)
    assert versions(lake.root, "t") == tables, "a clean with nothing to do writes nothing"

    clock.tick(DAY)
    expired = topic.clean()
    assert expired.expired == done.stamped
    assert fold(log_of(topic), versioned=versioned) == {key: one for key, one in before.items() if not one[2]}
    assert latest(topic) == live(before)
    assert topic.deleted().count() == 0
    assert topic.verify().problems == []

    # What is older than a delete that is gone still loses where versions decide; by offset whatever comes later wins.
    dead = sorted(key for key, (_, _, tombstone) in before.items() if tombstone)[:2]
    late = topic.append([{"key": key, "value": b"late", "timestamp": 0, "partition": before[key][0]} for key in dead])
    merged = topic.merge()
    told = [{"partition": before[key][0], "key": key.decode(), "lost_to": before[key][1]} for key in dead] if versioned else []
    named = [{name: one[name] for name in ("partition", "key", "lost_to")} for one in merged.late_after_delete_examples]
    assert sorted(named, key=lambda one: one["key"]) == told
    held = {part: range(*span) for part, span in late.offsets.items()}
    assert all(one["offset"] in held[one["partition"]] for one in merged.late_after_delete_examples)
    assert merged.late_after_delete == (2 if versioned else 0)
    assert set(latest(topic)) == set(live(before)) | (set() if versioned else set(dead))
    assert topic.verify().problems == []


def test_old_segments_go_by_retention_unless_somebody_needs_them(lake: Lake, clock: Clock) -> None:
    topic = lake.create_topic("t", config={"cleanup.policy": "delete", "retention.ms": str(DAY)})
    topic.append([{"key": None, "value": b"1"}, {"key": b"b", "value": b"1"}])
    topic.roll()
    clock.tick(2 * DAY)
    topic.append([{"key": b"c", "value": b"1"}])
    topic.merge()

    dry = topic.clean(dry_run=True)
    assert [(one.from_start, one.to_start) for one in dry.partitions] == [(0, 2)]
    status = topic.status()
    assert (status.partitions[0].log_start_offset, status.cleaning.past_retention_bytes) == (0, 3)
    assert status.cleaning.to_clean == "3 octets past retention"
    done = topic.clean()
    for one in (dry, done):
        assert (one.records, one.past_retention, one.octets_before, one.octets_after) == (0, 2, 5, 2)
        assert [(part.base, part.end, part.past_retention) for part in one.partitions[0].segments] == [(0, 2, 2), (2, 3, 0)]
    assert topic.status().cleaning.past_retention_bytes == 0
    verified = topic.verify()
    assert (verified.ok, verified.keys, verified.share) == (True, 0, 0.0), "nothing stands for what is gone"
    assert "was not recomputed. Take a snapshot" in verified.unproved
    assert "could not be recomputed" in topic.repair().done[0]
    topic.snapshot("base")
    topic.append([{"key": b"d", "value": b"1"}])
    topic.merge()
    assert (topic.verify().keys, topic.verify().unproved) == (3, None), "from the snapshot on all is proved"
    assert "no other snapshot holds" in topic.delete_snapshot("base", dry_run=True).warning

    assert [row["offset"] for row in topic.read().collect()] == [2, 3]
    assert topic.status().partitions[0].log_start_offset == 2
    assert set(latest(topic)) == {b"b", b"c", b"d"}, "the latest table stays"
    with pytest.raises(OffsetOutOfRange):
        topic.read(offset=0).collect()


def test_delete_records_moves_the_log_start_and_refuses_what_it_must(lake: Lake) -> None:
    topic = lake.create_topic("t", config={"cleanup.policy": "compact,delete"})
    topic.append([{"key": b"%d" % number, "value": b"1"} for number in range(5)])
    topic.merge()
    before = versions(lake.root, "t")
    with pytest.raises(OffsetOutOfRange):
        topic.delete_records(0, 6)
    with pytest.raises(OffsetOutOfRange):
        topic.delete_records(0, -2)
    with pytest.raises(InvalidRequest, match="no partition 1"):
        topic.delete_records(1, 0)
    with pytest.raises(InvalidRequest, match="max_bytes"):
        topic.clean(max_bytes=0)
    assert versions(lake.root, "t") == before

    planned = topic.delete_records(0, 3, dry_run=True)
    assert (planned.records, planned.from_offset, planned.to_offset, topic.start().offsets[0]) == (3, 0, 3, 0)
    assert (topic.delete_records(0, 3).records, topic.delete_records(0, 2).to_offset) == (3, 3)
    assert [row["offset"] for row in topic.read().collect()] == [3, 4]
    assert len(latest(topic)) == 5

    kept = topic.snapshot("monday", keep="90 days")
    topic.append([{"key": b"x", "value": b"1"}])
    with pytest.raises(Refused) as refused:
        topic.delete_records(0, -1)
    assert refused.value.name == "LOG_HELD", kept
    topic.configure({"cleanup.policy": "compact"})
    with pytest.raises(Refused) as policy:
        topic.delete_records(0, -1)
    assert policy.value.name == "POLICY_VIOLATION"


@pytest.mark.long
def test_a_snapshot_taken_before_a_clean_is_restored_after_it(lake: Lake) -> None:
    topic = lake.create_topic("t", config=AT_ONCE)
    topic.append([{"key": b"a", "value": b"1"}, {"key": b"b", "value": b"1"}])
    topic.merge()
    topic.snapshot("before", keep="90 days")
    topic.append([{"key": b"a", "value": b"2"}, {"key": b"b", "value": None}, {"key": b"c", "value": b"1"}])
    topic.roll()
    topic.clean()
    assert [row["offset"] for row in topic.read().collect()] == [2, 3, 4]

    topic.restore("before")

    assert latest(topic) == {b"a": 0, b"b": 1}
    topic.append([{"key": b"c", "value": b"3"}])
    topic.merge()
    assert set(latest(topic)) == {b"a", b"b", b"c"}
    assert topic.verify().problems == []


@pytest.mark.long
def test_the_command_and_the_job_close_idle_segments_and_tell_what_goes(
    lake: Lake, cli: Callable[..., Answer], capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody has rolled: by the machine's clock the records are years old."""
    topic = lake.create_topic("t", config=AT_ONCE)
    topic.append([{"key": b"a", "value": b"1", "timestamp": NOON}, {"key": b"a", "value": b"2", "timestamp": NOON}])
    before = versions(lake.root, "t")
    answer = cli(f"--root {lake.root} clean t --dry-run")
    assert (answer.code, answer.out.splitlines()) == (
        0,
        [
            "t: would clean: 1 record would go; log 4 -> 2 B",
            "  partition 0: cleaned (dirty-ratio), dirty 100% of 4 octets",
            "    segment [0, 2): 1 superseded, 1 stay",
        ],
    )
    assert versions(lake.root, "t") == before

    assert main(["--root", lake.root, "--topic", "t"]) == 0
    assert '"superseded": 1' in capsys.readouterr().out
    assert [row["offset"] for row in topic.read().collect()] == [1]
    topic.append([{"key": b"a", "value": b"3", "timestamp": NOON}])
    answer = cli(f"--root {lake.root} clean t --json")
    assert (answer.code, json.loads(answer.out)["partitions"][0]["to_dirty"]) == (0, 3)
    assert [row["offset"] for row in topic.read().collect()] == [2]
    assert main(["--root", lake.root, "--topic", "nope"]) == 5


def test_an_idle_segment_that_is_old_is_closed_and_cleaned(lake: Lake, clock: Clock) -> None:
    topic = lake.create_topic("t", config={**AT_ONCE, "segment.ms": str(DAY)})
    topic.append([{"key": b"a", "value": b"1"}, {"key": b"a", "value": b"2"}])
    assert topic.clean().records == 0, "the active segment is never cleaned"
    clock.tick(DAY + 1)

    assert topic.clean(force=True).records == 0, "nor, unasked, is one that is old: in Kafka it takes an append to close it"
    planned = topic.plan_cleaning(roll_idle=True)
    done = topic.clean(roll_idle=True)

    assert {**planned.to_dict(), "dry_run": False} == done.to_dict()
    assert done.records == 1
    assert [row["offset"] for row in topic.read().collect()] == [1]


def test_what_is_appended_between_the_merge_and_the_clean_is_not_taken_for_superseded(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = lake.create_topic("t", config={"segment.bytes": 14, "min.cleanable.dirty.ratio": 0})
    for value in (b"1" * 20, b"2" * 20):
        topic.append([{"key": b"a", "value": value}])
    merge, later = topic.merge, iter([b"3" * 20, b"4" * 20, b"5" * 20])

    def overtaken() -> Merged:
        merged = merge()
        for value in later:
            topic.append([{"key": b"a", "value": value}, {"key": b"k" + value[:1], "value": value}])
        return merged

    monkeypatch.setattr(topic, "merge", overtaken)
    assert topic.clean(force=True).records == 1
    monkeypatch.undo()
    assert [row["offset"] for row in topic.read().orderBy("offset").collect()] == [1, *range(2, 8)]
    topic.merge()
    assert latest(topic) == {b"a": 6, b"k3": 3, b"k4": 5, b"k5": 7}
    assert topic.verify().problems == []


@pytest.mark.long
def test_a_partition_that_could_not_be_cleaned_counts_as_it_still_is(lake: Lake, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = lake.create_topic("t", partitions=2, config={**AT_ONCE, "segment.bytes": 14})
    both = [(b"a", b"1" * 20), (b"a", b"2" * 20), (b"d", None), (b"e", b"3" * 20)]
    for key, value in both:
        topic.append([{"key": key, "value": value, "partition": partition} for partition in (0, 1)])
    topic.clean()
    topic.append([{"key": b"e", "value": b"4" * 20, "partition": partition} for partition in (0, 1)])
    topic.append([{"key": b"z", "value": b"5" * 20, "partition": partition} for partition in (0, 1)])
    clock.now += DAY
    planned = topic.plan_cleaning()
    assert (planned.records, planned.expired) == (4, 2), "of each partition an earlier e, and the tombstone"
    rewrite = dropping.rewrite

    def stopped(log: Any, rows: Any, end: Any, partition: int, *given: Any, **more: Any) -> int:
        if partition == 1:
            raise Conflict("Another writer was first.")
        return rewrite(log, rows, end, partition, *given, **more)

    monkeypatch.setattr(dropping, "rewrite", stopped)
    done = topic.clean()
    failed = done.partitions[1]
    assert (failed.error, failed.to_dirty, failed.total("dropped")) == ("Another writer was first.", failed.from_dirty, 0)
    assert (done.records, done.expired) == (2, 1)
    assert done.octets_before == planned.octets_before
    assert done.octets_before - done.octets_after == (planned.octets_before - planned.octets_after) // 2
    monkeypatch.undo()
    again = topic.clean()
    assert (again.records, again.expired, again.octets_before, again.octets_after) == (2, 1, done.octets_after, planned.octets_after)


@pytest.mark.long
def test_a_partition_that_cannot_be_read_is_named_and_the_others_are_cleaned(lake: Lake, clock: Clock) -> None:
    config = {
        **AT_ONCE,
        "segment.bytes": 14,
        "cleanup.policy": "compact,delete",
        "retention.ms": 9 * DAY,
        "compaction.strategy": "timestamp",
    }
    topic = lake.create_topic("t", partitions=2, config={**config, "delete.retention.ms": 0, "tombstone.version.retention.ms": 1})
    for key, value in [(b"a", b"1" * 20), (b"a", b"2" * 20), (b"d", None), (b"e", b"3" * 20)]:
        topic.append([{"key": key, "value": value, "partition": partition, "timestamp": clock.now} for partition in (0, 1)])
    topic.clean()
    clock.tick(1)
    (closed,) = data_files(Path(lake.root, "t", "bronze", "partition=0", "segment=1"))
    closed.write_bytes(b"garbage")
    planned = topic.plan_cleaning(force=True)
    done = topic.clean(force=True)
    assert {**planned.to_dict(), "dry_run": False} == done.to_dict()
    failed, cleaned = done.partitions
    assert (failed.selected, failed.reason, failed.segments, failed.error_code) == (False, "error", [], 70)
    assert closed.name in str(failed.error)
    assert (cleaned.error, cleaned.reason, cleaned.total("expired"), done.records, done.expired) == (None, "forced", 1, 1, 1)
    assert done.failure is not None and (done.failure.exit_code, "partition 0: " in str(done.failure)) == (70, True)
    assert done.metrics["uncleanable-partitions-count"] == 1
    log = topic.read().filter("partition = 1").select("offset", "key").collect()
    assert [(row["offset"], bytes(row["key"])) for row in log] == [(1, b"a"), (3, b"e")]
    assert [row["_partition"] for row in topic.deleted().collect()] == [0], "its tombstone waits for the clean that can read the log"
    clock.tick(DAY)
    again = topic.clean(force=True)
    # Whether the log still holds a record of the key is asked of all partitions at once: what is due stays until that can be answered.
    assert (again.forgotten, again.partitions[0].reason) == (0, "error")


@pytest.mark.long
def test_who_holds_what_a_superseded_barrier_deleted_begins_anew_once_the_barrier_has_left_the_log(lake: Lake) -> None:
    """The record after the barrier has a lower version than the one before it: without the barrier, a reader would keep that one."""
    config = {"compaction.strategy": "column", "compaction.strategy.column": "v", "min.cleanable.dirty.ratio": "0"}
    topic = lake.create_topic("t", key="STRING", value="v INT", config=config)
    topic.append([{"key": "a", "value": {"v": 5}}])
    topic.merge()
    topic.snapshot("s", keep="9 days")
    position = topic.bootstrap("s").position
    topic.truncate("s")
    topic.append([{"key": "a", "tombstone": True}])
    topic.append([{"key": "a", "value": {"v": 3}}])
    topic.merge()
    assert topic.validate(position).answer == "VALID", "the log still has the barrier"
    topic.roll()
    assert topic.clean().records == 1
    assert [row["v"] for row in topic.latest().collect()] == [3]

    assert topic.validate(position).answer == "SNAPSHOT"
    with pytest.raises(OffsetOutOfRange, match="deletes below 2 have left it"):
        topic.read(since=position)
    with pytest.raises(LogIncomplete):
        topic.restore("s", log="keep")
    verified = topic.verify()
    assert (verified.problems, verified.share, verified.base) == ([], 0.0, None), (
        "no snapshot stands for what is gone, and nothing is wrong"
    )
    (told,) = topic.repair().done
    assert "could not be recomputed. Take a snapshot of it" in told

    topic.snapshot("later")
    verified = topic.verify()
    assert (verified.problems, verified.share, verified.keys) == ([], 1.0, 1)
    assert topic.validate(position).snapshot == "later"
    assert topic.truncate("later").to_offsets == {0: 3}
    assert [row["v"] for row in topic.latest().collect()] == [3]
