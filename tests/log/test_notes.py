"""What the commits of bronze tell, newest first, of what other writers did: decided from the history alone."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from typing import Any

import pytest

from lakelog.errors import Damaged
from lakelog.log.notes import foreign_commits, newest_note, restored_between, since_repair
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


@pytest.mark.parametrize(
    ("operation", "is_harmless"),
    [
        *((name, True) for name in ("OPTIMIZE", "VACUUM START", "VACUUM END", "SET TBLPROPERTIES", "UNSET TBLPROPERTIES", "ADD COLUMNS")),
        *(
            (name, True)
            for name in ("CHANGE COLUMN", "CHANGE COLUMNS", "UPGRADE PROTOCOL", "DROP FEATURE", "REORG", "ROW TRACKING BACKFILL")
        ),
        *(
            (name, False)
            for name in ("WRITE", "STREAMING UPDATE", "DELETE", "UPDATE", "MERGE", "TRUNCATE", "CLONE", "CONVERT", "DROP COLUMNS")
        ),
        *(
            (name, False)
            for name in ("CREATE TABLE", "CREATE TABLE AS SELECT", "CREATE OR REPLACE TABLE", "CREATE OR REPLACE TABLE AS SELECT")
        ),
        *((name, False) for name in ("REPLACE TABLE", "REPLACE TABLE AS SELECT", "REPLACE COLUMNS", "RENAME COLUMN", "UPDATE SCHEMA")),
    ],
)
def test_only_what_moves_no_rows_is_harmless(operation: str, is_harmless: bool) -> None:
    rows = [*APPENDS, commit(6, operation)]
    if is_harmless:
        assert looked_at(*rows)[0] == 6
        return
    with pytest.raises(Damaged, match="another writer changed the log: version 6"):
        looked_at(*rows)


# In the time zone of this process, as Spark's rows have it.
NOON = datetime.datetime(2026, 5, 6, 12)


def at(version: int, minutes: float, operation: str = "WRITE", *, ours: bool = False, text: str | None = None) -> dict[str, Any]:
    row = commit(version, operation, "append" if ours else None)
    parameters = {"version": None, "timestamp": text}
    return {**row, "timestamp": NOON + datetime.timedelta(minutes=minutes), "operationParameters": parameters}


def as_java_says(minutes: float, *, hours: float) -> str:
    """A time in a zone that is so far from UTC."""
    told = (NOON + datetime.timedelta(minutes=minutes)).astimezone(datetime.timezone.utc) + datetime.timedelta(hours=hours)
    return f"{told:%Y-%m-%d %H:%M:%S}.0"


@pytest.mark.parametrize("hours", [-12, -3.5, 0, 5.75, 14])
@pytest.mark.parametrize(
    ("to", "minutes", "found"),
    [
        # Appends at 0 and 1, another writer's at 2 and 3, all within the steps of zones: there is one version for the time.
        (2.5, (0, 1, 2, 3), (2, 2)),
        (1.5, (0, 1, 2, 3), (1, 1)),
        # An hour between two: in another zone it is one before, or behind.
        (150, (0, 60, 120, 180), (0, 2)),
        # After the last but one: nothing before the RESTORE but its own version is later.
        (130, (0, 1, 120, 240), (1, 2)),
    ],
)
def test_a_restore_to_a_time_went_to_one_of_these_versions(
    hours: float, to: float, minutes: tuple[int, ...], found: tuple[int, int]
) -> None:
    """Whatever the zone is in which Delta notes the time; the last commit before it is none it went to."""
    older = [at(version, minute) for version, minute in enumerate(minutes)][::-1]
    restore = at(4, minutes[-1] + 1, "RESTORE", text=as_java_says(to, hours=hours))
    least, greatest = restored_between(restore, older)
    assert least <= found[0] and greatest == found[1]
    # Of a history that goes back further, what lies before it may be meant as well.
    assert restored_between({**restore, "version": 5}, [{**row, "version": row["version"] + 1} for row in older])[1] == found[1] + 1
    # Where nothing is known of times, nothing is known.
    assert restored_between({**restore, "operationParameters": {"version": None}}, older) == (-1, 3)


def test_a_commit_is_taken_back_by_a_restore_to_a_time_below_it_alone() -> None:
    log = [{**CREATED, "timestamp": NOON}, at(1, 1, ours=True)]
    for to, is_sound in ((1.5, True), (2.5, False)):
        rows = [*log, at(2, 2, "UPDATE"), at(3, 3), at(4, 4, "RESTORE", text=as_java_says(to, hours=2))]
        if is_sound:
            assert looked_at(*rows)[0] == 4
            continue
        with pytest.raises(Damaged, match=r"another writer changed the log: version 2 .*RESTORE to version 1\)") as found:
            looked_at(*rows)
    assert "A RESTORE to a time came after it, and may have left it." in str(found.value)


def test_a_repair_that_a_restore_to_a_time_may_have_taken_back_settles_nothing() -> None:
    repaired = {**at(3, 3), "userMetadata": REPAIR["userMetadata"]}
    older = [at(4, 4, "UPDATE"), repaired, at(2, 2, "UPDATE"), at(1, 1, ours=True), {**CREATED, "timestamp": NOON}]
    for text, foreign in ((None, [4, 2]), (as_java_says(3.5, hours=1), []), (as_java_says(2.5, hours=1), [2])):
        rows: Any = [at(5, 5, "RESTORE", text=text), *older]
        assert [row["version"] for row in foreign_commits(since_repair(rows))] == foreign
