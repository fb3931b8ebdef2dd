"""Commits on bronze: the notes of lakelog's own, and what other writers did.

Every lakelog commit carries a note (its user metadata): where the log ends are, up to which version the commits were looked at, how many
attempts an append took (more than one: other writers were first). The ends are a hint where to look, never the truth; commits without a
note that changed data are another writer's and are named.
"""

from __future__ import annotations

import datetime
import json
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lakelog.delta.commits import sign_of
from lakelog.errors import Damaged

if TYPE_CHECKING:
    from pyspark.sql import Row

# So many commits are looked at in one go for other writers; beyond, `verify` does.
LOOK_BACK = 200
# So many appends that a RESTORE takes back are named.
MOST_NAMED = 20
# Delta refuses a version that rested for longer than the log's retention, once another follows.
OLD = (
    " Where Delta finds that version too old, first ALTER TABLE … SET TBLPROPERTIES ('delta.logRetentionDuration' = 'interval 365 days',"
    " 'delta.deletedFileRetentionDuration' = 'interval 365 days')."
)
# All that a table has.
WHOLE_HISTORY = 100_000
# What a clock may differ from UTC by, in Java's time zones.
ZONES = tuple(datetime.timedelta(minutes=minutes) for minutes in range(-18 * 60, 18 * 60 + 1, 15))
# How the names of Delta's operations begin that change no record: properties, columns, constraints, clustering, files rewritten as they are. A table
# that is made over the one there (CREATE OR REPLACE, which is `saveAsTable` in the mode overwrite) is none of them.
HARMLESS = ("OPTIMIZE", "VACUUM", "SET TBLPROPERTIES", "UNSET TBLPROPERTIES", "ADD COLUMN", "CHANGE COLUMN", "UPGRADE PROTOCOL", "COMPUTE STATS",
            "ADD FEATURE", "DROP FEATURE", "REORG", "SET TABLE PROPERTIES", "ADD CONSTRAINT", "DROP CONSTRAINT", "CLUSTER BY",
            "ROW TRACKING")  # fmt: skip


def note(kind: str, *, ends: Mapping[int, int], checked: int, **more: Any) -> str:
    """The user metadata of a lakelog commit on bronze."""
    return json.dumps({"lakelog": kind, **more, "checked": checked, "ends": {str(index): end for index, end in sorted(ends.items())}})


def noted(row: Row) -> dict[str, Any]:
    """The note of a commit; empty where it has none."""
    return parsed(sign_of(row))


def parsed(text: str | None) -> dict[str, Any]:
    """The note that a commit's user metadata are; empty where they are another writer's own, or there are none."""
    try:
        found = json.loads(text or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) and "lakelog" in found else {}


def noted_epoch(rows: Sequence[Row]) -> int:
    """The greatest epoch that any commit began, whatever a RESTORE took back since; 0 where none says so."""
    return max((int(noted(row).get("epoch", 0)) for row in rows), default=0)


def restored_version(row: Row) -> int | None:
    """The version that a RESTORE went back to; None where it names a time (`restored_between`)."""
    version = (row["operationParameters"] or {}).get("version")
    return int(version) if version not in (None, "", "null") else None


def is_restore(row: Row) -> bool:
    """Whether a commit is a RESTORE."""
    return str(row["operation"]).upper().startswith("RESTORE")


def restored_between(row: Row, older: Sequence[Row]) -> tuple[int, int]:
    """The least and the greatest version that a RESTORE may have gone back to: both the one it names.

    Of a time Delta notes a text in the time zone of the Java process that ran it, which no one else knows: it is read in every zone. It was none at
    which the RESTORE would have gone back to the version before its own, or to none: those Delta refuses.

    Args:
        row: the RESTORE.
        older: commits before it, newest first.

    Returns:
        (-1, the version before its own) where times tell nothing.
    """
    to, before = restored_version(row), int(row["version"]) - 1
    if to is not None:
        return to, to
    rows = list(reversed(older))
    try:
        text = str((row["operationParameters"] or {}).get("timestamp")).strip('"')
        said = datetime.datetime.strptime(text, "%Y-%m-%d %H:%M:%S.%f")  # noqa: DTZ007 - in whatever zone
        times = [one["timestamp"].astimezone(datetime.timezone.utc).replace(tzinfo=None) for one in rows]
    except (AttributeError, ValueError):
        return -1, before
    for place in range(1, len(times)):
        # As Delta has them: each later than the one before.
        times[place] = max(times[place], times[place - 1] + datetime.timedelta(milliseconds=1))
    places = {bisect_right(times, said - zone) for zone in ZONES}
    found = {int(rows[place - 1]["version"]) if place else int(rows[0]["version"]) - 1 for place in places} if rows else set()
    found = {version for version in found if 0 <= version < before}
    return (min(found), max(found)) if found else (-1, before)


def standing(rows: Sequence[Row], *, surely: bool = False) -> list[Row]:
    """Of commits, newest first, those that no later RESTORE took back.

    Where one went back to a time, all that it may have left; or, ``surely``, only what it cannot have taken back.
    """
    found: list[Row] = []
    most: int | None = None
    for place, row in enumerate(rows):
        if most is not None and row["version"] > most:
            continue
        found.append(row)
        if is_restore(row):
            least, greatest = restored_between(row, rows[place + 1 :])
            to = least if surely else greatest
            most = to if most is None else min(most, to)
    return found


def is_harmless(row: Row) -> bool:
    """Whether a commit changes no record, by the name of its operation (`HARMLESS`)."""
    return str(row["operation"]).upper().startswith(HARMLESS)


def is_foreign(row: Row) -> bool:
    """Whether a commit may have changed records and is not lakelog's; a RESTORE is judged by what it took back (`lost_appends`)."""
    return row["version"] != 0 and not noted(row) and not is_restore(row) and not is_harmless(row)


def foreign_commits(rows: Sequence[Row]) -> list[Row]:
    """The commits among these, newest first, that changed records, may stand and are not lakelog's."""
    return [row for row in standing(rows) if is_foreign(row)]


def since_repair(rows: Sequence[Row]) -> list[Row]:
    """Of commits, newest first, those after the newest repair that no RESTORE took back: what was done before it was looked at then."""
    repaired = next((row["version"] for row in standing(rows, surely=True) if noted(row).get("lakelog") == "repair"), -1)
    return [row for row in rows if row["version"] > repaired]


def lost_appends(rows: Sequence[Row]) -> Row | None:
    """The newest RESTORE among commits, newest first, that took back commits of lakelog; None where there is none.

    What those commits gave are offsets that readers and silver may know; given again, they would mean other records.
    """
    for place, row in enumerate(rows):
        to = restored_version(row)
        if is_restore(row) and to is not None and any(noted(older) and older["version"] > to for older in rows[place + 1 :]):
            return row
    return None


def appends_above(rows: Sequence[Row], version: int) -> str:
    """The appends among commits, newest first, that a RESTORE to a version takes back, oldest first, in words; empty where there are none.

    Without those that a restore of lakelog's had cut away by then.
    """
    found: list[str] = []
    least: dict[str, int] = {}
    for row in rows:
        said = noted(row)
        ends = said.get("ends", {})
        if (
            row["version"] > version
            and said.get("lakelog") == "append"
            and any(ends[index] <= least.get(index, ends[index]) for index in said.get("tails", ends))
        ):
            spans = [f"up to offset {ends[index]} of partition {index}" for index in said.get("tails", ends)]
            found.append(f"version {row['version']} (batch {said.get('batch')}: {', '.join(spans)})")
        if said.get("lakelog") == "restore":
            least |= {index: min(end, least.get(index, end)) for index, end in ends.items()}
    found.reverse()
    more = f" and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
    return f"{'; '.join(found[:MOST_NAMED])}{more}"


def _asked_again(what: str, rows: Sequence[Row], version: int) -> str:
    """What to do about `appends_above`, as a sentence that follows another; empty where there are none."""
    appends = appends_above(rows, version)
    return f" {what}: {appends}. Append their records again; these versions still hold them." if appends else ""


def names_rows(said: Mapping[str, Any]) -> bool:
    """Whether a note names rows that its commit left in the log: an append's batch rows, or a change's state rows."""
    return bool(said.get("tails") or said.get("state"))


def note_before(history: Callable[[int], Sequence[Row]], version: int) -> dict[str, Any]:
    """The newest note before a version that names rows, or, of an older lakelog, an epoch; else the newest note, empty where there is none."""
    found: list[dict[str, Any]] = []
    for most in (LOOK_BACK, WHOLE_HISTORY):
        found = [said for row in history(most) if row["version"] < version and (said := noted(row))]
        named = next((said for said in found if names_rows(said) or "epoch" in said), None)
        if named is not None:
            return named
    return found[0] if found else {}


def describe_commit(row: Row) -> str:
    """A commit in words: version, time, operation, engine, user."""
    who = row["userName"] or row["userId"]
    by = f"{row['engineInfo'] or 'an unknown engine'}{f', user {who}' if who else ''}"
    return f"version {row['version']} of {row['timestamp']} ({row['operation']} by {by})"


def newest_note(
    table: object, history: Callable[[int], Sequence[Row]], is_whole: Callable[[Mapping[str, Any]], bool]
) -> tuple[int, dict[str, Any]]:
    """Bronze's version and the newest note among its commits (empty where there is none); refuses what other writers did since that note.

    Args:
        table: bronze, as messages name it.
        history: gives the newest commits, newest first, as many as it is asked for.
        is_whole: whether the log's rows are as appends leave them, and the commit with a note is among them; asked only after a RESTORE to a time.

    Raises:
        Damaged: a commit that is not lakelog's changed records, or a RESTORE took back records; it is named.
    """
    newest = history(1)[0]
    version, found = int(newest["version"]), noted(newest)
    checked = int(found.get("checked", -1)) if found else -1
    unseen = version - checked - 1 if found else version
    rows: Sequence[Row] = [newest]
    if (found and unseen > 0) or not found:
        rows = history(min(max(unseen, 1) + 1, LOOK_BACK))
        last = next((row for row in rows if noted(row)), None)
        found = noted(last) if last else {}
        reached = int(found.get("checked", -1))
        # The commit with the note itself too, whatever it had seen: a RESTORE may have taken it back.
        rows = [row for row in rows if row["version"] > reached or (last is not None and row["version"] >= last["version"])]
    back_to = [to for row in rows if is_restore(row) and (to := restored_version(row)) is not None]
    if back_to and min(back_to) < rows[-1]["version"]:
        rows = history(version - min(back_to))
    _refuse_foreign(table, rows, history, is_whole)
    return version, found


def _refuse_foreign(
    table: object, rows: Sequence[Row], history: Callable[[int], Sequence[Row]], is_whole: Callable[[Mapping[str, Any]], bool]
) -> None:
    """Raise `Damaged` where other writers changed the log in these commits, newest first."""
    rows = since_repair(rows)
    strange = foreign_commits(rows)
    if strange:
        back = int(strange[-1]["version"]) - 1
        doubt = "" if strange[-1] in standing(rows, surely=True) else " A RESTORE to a time came after it, and may have left it."
        raise Damaged(
            f"{table}: another writer changed the log: {describe_commit(strange[-1])}.{doubt} lakelog gives the offsets itself; take that commit"
            f" back (RESTORE to version {back}), append its records with lakelog, and run verify."
            f"{_asked_again('That RESTORE takes back appends too', rows, back)}{OLD} Or run"
            " verify with repair: where it can, it keeps what the log holds now, begins a new epoch at its end and computes the latest table anew.",
            version=strange[-1]["version"],
        )
    lost = lost_appends(rows)
    to_times = [row for row in rows if is_restore(row) and restored_version(row) is None]
    if lost is None and to_times:
        # What it took back is not known. Where the newest rows of lakelog's own from before it are there, it was nothing that gave offsets.
        if not all(is_whole(note_before(history, row["version"])) for row in to_times):
            lost = to_times[0]
    if lost is not None:
        to = restored_version(lost)
        gone = "" if to is None else _asked_again("It took back appends", [row for row in rows if row["version"] < lost["version"]], to)
        raise Damaged(
            f"{table}: the log was restored by hand: {describe_commit(lost)}. Offsets that readers and the latest table may know would be"
            " given again for other records. Run verify with repair: it begins a new epoch at the log's end and computes the latest table"
            f" anew.{gone}",
            version=lost["version"],
        )
