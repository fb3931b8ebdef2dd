"""What a restore takes out of the ledger of sources, and what one to a newer snapshot brings back: decided over histories with branches."""

from __future__ import annotations

import json
from typing import Any

from lakelog.log.rows import WITHDRAWN_SEGMENT
from lakelog.log.withdrawn import decided

Rows = list[tuple[dict[str, Any], dict[str, Any]]]


def taken(name: str, epoch: int, low: int, high: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """An entry as an append writes it."""
    said = {"type": "source", "source": "in", "name": name, "digest": name, "offsets": {"0": [low, high]}, "records": high - low}
    return {"segment": 16, "offset": ord(name), "epoch": epoch, "batch": name, "ms": 1}, said


def restored(rows: Rows, *, leave: int, end: int, epoch: int, number: int) -> Rows:
    """The rows after a restore, as the log then holds them."""
    gone, written = decided(rows, {0: (leave, end, epoch)}, number)
    left = [(row, said) for row, said in rows if (row["segment"], row["offset"], row["batch"]) not in gone]
    for _, segment, offset, _, made, batch, control in written:
        left.append(({"segment": segment, "offset": offset, "epoch": made, "batch": batch, "ms": 2}, json.loads(control)))
    return left


def held(rows: Rows) -> list[tuple[str, list[int]]]:
    return sorted((said["name"], said["offsets"]["0"]) for row, said in rows if row["segment"] != WITHDRAWN_SEGMENT)


def test_entries_go_and_come_with_their_records() -> None:
    rows: Rows = [taken("a", 0, 0, 5), taken("b", 0, 5, 10)]
    # Back to 0@5, forth to 0@10: b's records are in it.
    rows = restored(rows, leave=5, end=5, epoch=0, number=1)
    assert held(rows) == [("a", [0, 5])]
    rows = restored(rows, leave=5, end=10, epoch=0, number=2)
    assert held(rows) == [("a", [0, 5]), ("b", [5, 10])]
    assert [said["taken"] for row, said in rows if row["segment"] == 16 and said["name"] == "b"] == [1]

    # Back again; c, and b once more, are taken in this branch, which ends at 3@12.
    rows = restored(rows, leave=5, end=5, epoch=0, number=3)
    rows += [taken("c", 3, 5, 8), taken("b", 3, 8, 12)]
    rows = restored(rows, leave=5, end=10, epoch=0, number=4)
    assert held(rows) == [("a", [0, 5]), ("b", [5, 10])]
    rows = restored(rows, leave=5, end=12, epoch=3, number=5)
    assert held(rows) == [("a", [0, 5]), ("b", [8, 12]), ("c", [5, 8])]
    rows = restored(rows, leave=5, end=8, epoch=3, number=6)
    assert held(rows) == [("a", [0, 5]), ("c", [5, 8])]
    # The first branch, in which b was brought back as generation 2: a snapshot that was taken then holds it.
    rows = restored(rows, leave=5, end=11, epoch=2, number=7)
    assert held(rows) == [("a", [0, 5]), ("b", [5, 10])]
    # An intent of an older lakelog says no generations: nothing comes back.
    rows = restored(rows, leave=0, end=0, epoch=0, number=8)
    assert held(rows) == []
    assert decided(rows, {0: (0, 10, None)}, 9) == ([], [])


def test_tokens_are_forgotten() -> None:
    row = {"segment": 3, "offset": 9, "epoch": 0, "batch": "t", "ms": 1}
    assert decided([(row, {"type": "token", "digest": "t", "offsets": {"0": [5, 6]}})], {0: (5, 5, 0)}, 1) == ([(3, 9, "t")], [])
