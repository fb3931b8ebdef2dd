"""A partition that cannot be cleaned, or not even read, is named; the others are cleaned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lakelog import Lake
from lakelog.cleaning import dropping
from lakelog.errors import Conflict
from tests.cleaning.test_cleaning import AT_ONCE, DAY
from tests.conftest import Clock
from tests.native.damages import data_files

pytestmark = pytest.mark.long


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
    rewrite, asked = dropping.rewrite, []

    def stopped(log: Any, rows: Any, end: Any, run: Any, *given: Any, **more: Any) -> int:
        asked.append(sorted({index for index, _ in run}))
        if 1 in asked[-1]:
            raise Conflict("Another writer was first.")
        return rewrite(log, rows, end, run, *given, **more)

    monkeypatch.setattr(dropping, "rewrite", stopped)
    done = topic.clean()
    assert asked == [[0, 1], [0], [1]], "all at once, then each by itself"
    failed = done.partitions[1]
    assert (failed.error, failed.to_dirty, failed.total("dropped")) == ("Another writer was first.", failed.from_dirty, 0)
    assert (done.records, done.expired) == (2, 1)
    assert done.octets_before == planned.octets_before
    assert done.octets_before - done.octets_after == (planned.octets_before - planned.octets_after) // 2
    monkeypatch.undo()
    again = topic.clean()
    assert (again.records, again.expired, again.octets_before, again.octets_after) == (2, 1, done.octets_after, planned.octets_after)


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
