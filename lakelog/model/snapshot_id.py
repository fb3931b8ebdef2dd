"""What names a snapshot and for how long it is kept: values and decisions, no I/O (KIP-630; SEMANTICS 84-92)."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lakelog.errors import InvalidRequest

# For ever, as far as tables and calendars go: 9999-12-31T00:00:00Z.
FOREVER = 253402214400000
NAME = re.compile(r"[A-Za-z][A-Za-z0-9._-]{0,199}")
ID = re.compile(r"(\d+)@(\d+(?:,\d+)*)")
# What stands for a snapshot without being its name.
WORDS = ("latest", "earliest", "now")
UNITS = {"minute": 60_000, "hour": 3_600_000, "day": 86_400_000, "week": 604_800_000}
Keep = str | int | datetime.timedelta | None


@dataclass(frozen=True)
class SnapshotId:
    """The end offsets (exclusive) of all partitions and the epoch of the last record contained; ordered epoch first (SEMANTICS 84, 85)."""

    epoch: int
    ends: Mapping[int, int]

    def __hash__(self) -> int:
        return hash(self.text)

    @property
    def text(self) -> str:
        """``0@120,98``: the epoch, then the end offset of each partition in order."""
        return f"{self.epoch}@{','.join(str(end) for _, end in sorted(self.ends.items()))}"

    @property
    def order(self) -> tuple[int, ...]:
        """What ids are sorted by: the epoch, then the end offsets."""
        return (self.epoch, *(end for _, end in sorted(self.ends.items())))

    @classmethod
    def parse(cls, text: str) -> SnapshotId | None:
        """The id that a text like ``0@120,98`` is; None for another text."""
        found = ID.fullmatch(text)
        return cls(int(found[1]), dict(enumerate(map(int, found[2].split(","))))) if found else None


def check_name(name: str) -> str:
    """Refuse a name that could be taken for a version, a time or an id.

    Raises:
        InvalidRequest: saying what a name looks like.
    """
    if not isinstance(name, str) or not NAME.fullmatch(name) or name.lower() in WORDS:
        raise InvalidRequest(
            f"{name!r} is no name of a snapshot: letters, digits, '.', '_' and '-', beginning with a letter, and none of"
            f" {', '.join(WORDS)}. Nothing was created.", name="INVALID_SNAPSHOT_NAME",
        )  # fmt: skip
    return name


def keep_ms(keep: Keep, *, what: str = "keep") -> int | None:
    """How long to keep, in milliseconds: ``90 days``, ``12 hours``, ``2 weeks``, ``forever``, a timedelta, or a number of milliseconds.

    Raises:
        InvalidRequest: it is none of these; a month is none, since months differ.
    """
    if isinstance(keep, datetime.timedelta):
        keep = keep // datetime.timedelta(milliseconds=1)
    if isinstance(keep, str):
        if keep.strip().lower() == "forever":
            return FOREVER
        found = re.fullmatch(r"\s*(\d+)\s*(minute|hour|day|week)s?\s*", keep.lower())
        if not found:
            raise InvalidRequest(f"{what}={keep!r}: write a number of minutes, hours, days or weeks, such as '90 days', or 'forever'.")
        keep = int(found[1]) * UNITS[found[2]]
    if keep is not None and keep < 0:
        raise InvalidRequest(f"{what}={keep}: a snapshot cannot be kept for less than no time.")
    return keep


def until(now: int, keep: int) -> int:
    """The time (milliseconds) at which a keep that begins now ends."""
    return min(now + keep, FOREVER)


@dataclass(frozen=True)
class Kept:
    """A snapshot as retention sees it: its key, its id, when it was taken, until when its name is kept (None: it has no name)."""

    key: str
    id: SnapshotId
    created: int
    kept_until: int | None


def expired(held: Sequence[Kept], newest: str | None, *, now: int, retention_ms: int, count: int) -> list[str]:
    """The keys of the snapshots that go (SEMANTICS 91).

    Named ones go when their keep has ended. Of the others, from the oldest on, each goes while it is older than ``retention_ms`` or more than
    ``count`` are left; the walk ends at the first that neither condemns. -1 switches a limit off.

    Args:
        held: the topic's snapshots.
        newest: the key of the newest on the log's present history, which always stays and is stepped over.
        now: the time in milliseconds.
        retention_ms: ``snapshot.retention.ms``.
        count: ``snapshot.retention.count``.
    """
    gone = [one.key for one in held if one.kept_until is not None and one.kept_until <= now and one.key != newest]
    unnamed = sorted((one for one in held if one.kept_until is None), key=lambda one: one.id.order)
    left = len(unnamed)
    for one in unnamed:
        if one.key == newest:
            continue
        if (retention_ms < 0 or now - one.created <= retention_ms) and (count < 0 or left <= count):
            break
        gone.append(one.key)
        left -= 1
    return gone


def is_due(*, since_ms: int, octets: int, interval_ms: int, most_octets: int) -> bool:
    """Whether a merge that folded new records takes a snapshot at its end; 0 switches a trigger off (SEMANTICS 90).

    Args:
        since_ms: time since the last snapshot, or the topic's creation.
        octets: of the records merged since then.
        interval_ms: ``max.snapshot.interval.ms``.
        most_octets: ``max.record.bytes.between.snapshots``.
    """
    return (interval_ms > 0 and since_ms >= interval_ms) or (most_octets > 0 and octets >= most_octets)


def is_on(epochs: Sequence[tuple[int, int]], epoch: int, end: int, *, forgotten: int = 0) -> bool:
    """Whether the offsets below ``end``, the last of them of ``epoch``, belong to a log with this history (`common_end`)."""
    return end <= common_end(epochs, epoch, end, forgotten=forgotten)


def common_end(epochs: Sequence[tuple[int, int]], epoch: int, end: int, *, forgotten: int = 0) -> int:
    """Up to which offset a snapshot that ends at ``end`` in ``epoch`` has its records in common with a log of this history.

    Args:
        epochs: the history, (epoch, first offset), oldest first.
        epoch: of the snapshot's last record.
        end: the snapshot's end offset.
        forgotten: up to this offset, epochs that are not among these may have had other records (`PartitionState`).
    """
    if 0 < end <= forgotten and epoch not in dict(epochs):
        return min(end, epochs[0][1])
    later = [first for number, first in epochs if number > epoch]
    return min([end, *later])
