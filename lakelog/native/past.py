"""A table as it was, while the files of that version are kept."""

from __future__ import annotations

import datetime
import re

from lakelog.errors import Damaged, NotFound
from lakelog.model.names import TableRef
from lakelog.native.table import Table

# For how long a table keeps the files that were removed from it, and what Delta takes where it does not say.
RETENTION, DEFAULT = "delta.deletedFileRetentionDuration", "interval 1 week"
SECONDS = {"week": 604_800.0, "day": 86_400.0, "hour": 3600.0, "minute": 60.0, "second": 1.0, "millisecond": 1e-3, "microsecond": 1e-6}
STEP = re.compile(rf"(\d+)\s+({'|'.join(SECONDS)})s?\s*")


def table_at(ref: TableRef, point: int | datetime.datetime, *, now: int) -> Table:
    """A table at a version or a time that no snapshot was registered for.

    Args:
        ref: the table.
        point: when.
        now: the clock in milliseconds.

    Raises:
        NotFound: there is no such version, or it is older than removed files are kept, and not the newest one (SNAPSHOT_NOT_FOUND).

    Cost: the newest version is opened too, and the commit file of the version that is asked for.
    """
    found = Table(ref, Table(ref).version_at(point) if isinstance(point, datetime.datetime) else point)
    try:
        newest = Table(ref)
    except Damaged:
        return found
    said = newest.properties.get(RETENTION, DEFAULT)
    kept, committed = seconds(said), found.committed()
    if found.version >= newest.version or kept is None or committed is None or committed >= now / 1000 - kept:
        return found
    raise NotFound(
        f"{ref}: that version cannot be read any more or does not exist: version {found.version} is older than {RETENTION} ({said}), and not the"
        " newest one. Name a snapshot, or a later version or time.", name="SNAPSHOT_NOT_FOUND",
    )  # fmt: skip


def seconds(interval: str) -> float | None:
    """The length of an interval as Delta's properties have it; None where it is written in another way."""
    text = re.sub(r"^\s*interval\s+", "", interval.lower())
    if not re.fullmatch(rf"(?:{STEP.pattern})+", text):
        return None
    return sum(int(number) * SECONDS[unit] for number, unit in STEP.findall(text))
