"""The log kept small: what a clean removes, that nobody can tell by the latest table, and what is refused."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import pytest

from jobs.clean import main
from lakelog import Lake, Merged, Topic
from lakelog.errors import LogIncomplete, OffsetOutOfRange
from tests.conftest import NOON, Answer, Clock
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


@pytest.mark.soak
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
