"""What the commits of bronze tell, newest first, of what other writers did: decided from the history alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from lakelog.errors import Damaged
from lakelog.log.notes import newest_note
from lakelog.log.tail import is_newest
from lakelog.model.log_state import PartitionState
from lakelog.model.segments import Tail


def commit(version: int, operation: str = "WRITE", kind: str | None = None, to: int | None = None, **said: Any) -> dict[str, Any]:
    note = None if kind is None else json.dumps({"lakelog": kind, "checked": version - 1, "ends": {"0": version}, **said})
    return {
        "version": version, "operation": operation, "operationParameters": {"version": None if to is None else str(to)}, "userMetadata": note,
        "timestamp": "then", "engineInfo": "Spark", "userName": None, "userId": None,
    }  # fmt: skip


def looked_at(*commits: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    rows = sorted(commits, key=lambda row: -row["version"])
    return newest_note("bronze", lambda most: rows[:most], lambda _: True)  # type: ignore[arg-type]


APPENDS = [commit(0, "CREATE TABLE"), *(commit(version, kind="append") for version in range(1, 6))]
BROKEN = [*APPENDS, commit(6, "RESTORE", to=4)]
REPAIR = commit(7, kind="repair")
DONE = commit(8, kind="done")


@pytest.mark.parametrize("to", [1, 4, 6])
def test_a_repair_that_was_taken_back_hides_nothing(to: int) -> None:
    """Cut off or done, the epoch it began is gone, and appends would give its offsets and those before it again."""
    with pytest.raises(Damaged, match=r"restored by hand: version 8 .*repair"):
        looked_at(*BROKEN, REPAIR, commit(8, "RESTORE", to=to))
    with pytest.raises(Damaged, match="restored by hand: version 9"):
        looked_at(*BROKEN, REPAIR, DONE, commit(9, "RESTORE", to=to))


def test_a_repair_that_stands_settles_what_was_before_it() -> None:
    with pytest.raises(Damaged, match="restored by hand: version 6"):
        looked_at(*BROKEN)
    assert looked_at(*BROKEN, REPAIR)[0] == 7
    assert looked_at(*BROKEN, REPAIR, commit(8, "RESTORE", to=7))[0] == 8, "nothing was taken back"
    assert looked_at(*BROKEN, REPAIR, DONE, commit(9, kind="append"))[0] == 9


def append(version: int, batch: str, *, end: int) -> dict[str, Any]:
    return commit(version, kind="append", batch=batch, tails={"0": [end, 0, 0, None]}, ends={"0": end})


def log_of(batch: str, *, end: int, epoch: int = 0, state: str = "made") -> dict[int, Tail]:
    return {0: Tail(0, end, 0, 0, None, batch, PartitionState(0, 1, state, epoch, ((epoch, 0),)))}


CREATED = commit(0, "CREATE TABLE")
A, B = append(1, "a", end=3), append(2, "b", end=5)
# A restore to behind a, then an append that ends where b did.
CUT = commit(3, "MERGE", kind="restore", epoch=1, state=[0, "cut"], ends={"0": 3})
Z = append(4, "z", end=5)
OLD_CUT = commit(3, "MERGE", kind="restore", epoch=1, ends={"0": 3})
MAINTAINED = commit(3, "OPTIMIZE", kind="maintain", ends={"0": 3})


@pytest.mark.parametrize(
    ("commits", "rows", "sound"),
    [
        ([A, B], log_of("b", end=5), True),
        ([A, B], log_of("a", end=3), False),
        ([A, B, CUT, Z], log_of("z", end=5, epoch=1, state="cut"), True),
        ([A, B, CUT, Z], log_of("b", end=5), False),
        ([A, B, CUT], log_of("a", end=3), False),
        ([A, B, CUT], log_of("a", end=3, epoch=1, state="cut"), True),
        # The note of a commit that gives no offsets may be of an end that was read before the append.
        ([A, B, MAINTAINED], log_of("b", end=5), True),
        ([A, B, MAINTAINED], log_of("a", end=3), False),
        # The restore of an older lakelog names no rows, but the epoch that it began.
        ([A, B, OLD_CUT], log_of("a", end=3, epoch=1), True),
        ([A, B, OLD_CUT], log_of("b", end=5), False),
    ],
)
def test_a_restore_to_a_time_is_judged_by_the_newest_rows_before_it(
    commits: list[dict[str, Any]], rows: Mapping[int, Tail], sound: bool
) -> None:
    """The same end offsets are not the same log."""
    history = sorted([CREATED, *commits, commit(9, "RESTORE")], key=lambda row: -row["version"])

    def look() -> tuple[int, dict[str, Any]]:
        return newest_note("bronze", lambda most: history[:most], lambda said: is_newest(rows, said))  # type: ignore[arg-type]

    if sound:
        assert look()[0] == 9
        return
    with pytest.raises(Damaged, match="restored by hand: version 9"):
        look()


def test_a_note_that_names_no_rows_is_held_against_its_ends_and_epoch() -> None:
    assert is_newest(log_of("a", end=3), {"ends": {"0": 3}})
    assert not is_newest(log_of("a", end=3), {"ends": {"0": 3}, "epoch": 1})
    assert not is_newest(log_of("a", end=3), {"ends": {"0": 5}, "epoch": 0})
    assert not is_newest(log_of("a", end=3), {})
