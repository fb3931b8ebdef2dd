"""Which snapshots go, in values: SEMANTICS 91 and the keep of names."""

from __future__ import annotations

import datetime

import pytest

from lakelog.errors import InvalidRequest
from lakelog.model.snapshot_id import FOREVER, Kept, SnapshotId, common_end, expired, is_due, is_on, keep_ms, until


def held(*created: int, kept: dict[int, int] | None = None) -> list[Kept]:
    """Snapshots taken at these times; those in ``kept`` have names."""
    return [Kept(str(one), SnapshotId(0, {0: one}), one, (kept or {}).get(one)) for one in created]


@pytest.mark.parametrize(
    ("now", "retention", "count", "kept", "gone"),
    [
        (100, -1, -1, {}, ""),
        (100, 90, -1, {}, ""),
        (101, 90, -1, {}, "10"),
        (1000, 90, -1, {}, "10 20 30"),
        (1000, 0, 0, {}, "10 20 30"),
        (100, -1, 1, {}, "10 20 30"),
        (100, -1, 3, {}, "10"),
        (100, -1, 0, {}, "10 20 30"),
        (1000, 90, -1, {20: 2000}, "10 30"),
        (1000, -1, -1, {20: 999, 30: 1001}, "20"),
        (1000, -1, -1, {40: 999}, ""),
        (115, 90, 1, {20: 2000}, "10 30"),
    ],
)
def test_what_expires(now: int, retention: int, count: int, kept: dict[int, int], gone: str) -> None:
    found = expired(held(10, 20, 30, 40, kept=kept), "40", now=now, retention_ms=retention, count=count)
    assert " ".join(sorted(found)) == gone


def test_the_walk_steps_over_the_newest_on_the_present_history_and_stops_at_the_first_that_stays() -> None:
    assert expired(held(10, 20, 30), "20", now=1000, retention_ms=1, count=-1) == ["10", "30"]
    assert expired(held(10, 990, 20), "990", now=1000, retention_ms=100, count=-1) == ["10", "20"]
    assert expired(held(990, 995), None, now=1000, retention_ms=100, count=-1) == []


def test_ids_are_ordered_epoch_first() -> None:
    ids = [SnapshotId(1, {0: 1, 1: 9}), SnapshotId(0, {0: 7, 1: 0}), SnapshotId(0, {0: 5, 1: 9}), SnapshotId(0, {0: 5, 1: 10})]
    assert [one.text for one in sorted(ids, key=lambda one: one.order)] == ["0@5,9", "0@5,10", "0@7,0", "1@1,9"]
    assert [SnapshotId.parse(one.text) for one in ids] == ids
    assert [SnapshotId.parse(text) for text in ("3", "0@", "a@1", "0@1,", "2026-05-06")] == [None] * 5


def test_how_long_to_keep() -> None:
    assert [keep_ms(keep) for keep in (None, 5, "90 days", " 1 Week", "12 hours", "3 minutes", datetime.timedelta(days=2))] == [
        None, 5, 7_776_000_000, 604_800_000, 43_200_000, 180_000, 172_800_000
    ]  # fmt: skip
    assert until(1000, FOREVER) == FOREVER == until(FOREVER, 5)
    for wrong in ("1 month", "90", "days", -1, datetime.timedelta(days=-1)):
        with pytest.raises(InvalidRequest):
            keep_ms(wrong)


def test_when_a_merge_takes_one() -> None:
    assert is_due(since_ms=10, octets=0, interval_ms=10, most_octets=0)
    assert is_due(since_ms=0, octets=5, interval_ms=0, most_octets=5)
    assert not is_due(since_ms=9, octets=4, interval_ms=10, most_octets=5)
    assert not is_due(since_ms=9**9, octets=9**9, interval_ms=0, most_octets=0)


def test_what_lies_on_a_history() -> None:
    history = [(0, 0), (1, 4), (3, 6)]  # epoch 2 began at or beyond 6 and was restored away
    assert [is_on(history, epoch, end) for epoch, end in ((0, 4), (0, 5), (1, 6), (1, 7), (2, 6), (2, 7), (3, 99))] == [
        True, False, True, False, True, False, True
    ]  # fmt: skip
    assert common_end(history, 0, 9) == 4
    # Begun anew at 6 behind a snapshot of epoch 1: what epoch 2 had below 6 is not there.
    assert [is_on(history, epoch, 6, forgotten=6) for epoch in (1, 2, 3)] == [True, False, True]
