"""What the commits of bronze tell, newest first, of what other writers did: decided from the history alone."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lakelog.errors import Damaged
from lakelog.log.notes import newest_note


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
