"""What the cleaner answers: what a clean did to each partition and segment, or would do, in the words and figures of Kafka's cleaner."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lakelog.errors import Conflict, Damaged, LakelogError
from lakelog.results import Result


@dataclass(frozen=True)
class SegmentCleaning(Result):
    """A segment: base and end offset (exclusive), records and octets it holds, why it is not cleaned (None: it is), and what goes, by reason.

    ``dropped_octets``: of all records that go, and by reason: ``superseded_octets``, ``expired_octets``, ``unkeyed_octets``. ``past_retention``: the
    records of a segment that goes as a whole (``cleanup.policy=delete``).
    """

    base: int
    end: int
    records: int
    octets: int
    kept_because: str | None
    superseded: int = 0
    expired: int = 0
    unkeyed: int = 0
    dropped_octets: int = 0
    past_retention: int = 0
    superseded_octets: int = 0
    expired_octets: int = 0
    unkeyed_octets: int = 0

    @property
    def dropped(self) -> int:
        """The records that go, retention's not counted."""
        return self.superseded + self.expired + self.unkeyed


def still_overdue_ms(partition: Mapping[str, Any]) -> int:
    """``overdue_ms`` of a partition (`PartitionCleaning`, as a dict), where it is not cleaned: it was not selected, or its cleaning stopped."""
    return int(partition["overdue_ms"]) if partition["error"] is not None or not partition["selected"] else 0


@dataclass(frozen=True)
class PartitionCleaning(Result):
    """A partition: selected or not and why, its first dirty offset before and after, its log start before and after, and what goes.

    ``reason``: ``forced``, ``dirty-ratio``, ``max-compaction-lag``; or ``nothing-dirty``, ``below-ratio``, ``max-bytes``, ``policy``, ``error``
    (the plan could not read it) where it is not selected.
    ``kept_because`` of a segment: ``active``, ``min-compaction-lag``, ``not-selected``. ``overdue_ms``: for how long a segment waits beyond
    ``max.compaction.lag.ms``. ``blocked_by``: who needs what retention would drop. ``error``: why its cleaning stopped; what went before
    that is counted, and the others went on; ``error_code``: the exit code of that.
    """

    partition: int
    selected: bool
    reason: str
    from_dirty: int
    to_dirty: int
    from_start: int
    to_start: int
    clean_octets: int
    cleanable_octets: int
    dirty_ratio: float
    overdue_ms: int
    segments: list[SegmentCleaning] = field(default_factory=list)
    blocked_by: list[str] = field(default_factory=list)
    error: str | None = None
    error_code: int | None = None

    def total(self, name: str) -> int:
        """A count over the segments."""
        return sum(getattr(one, name) for one in self.segments)


@dataclass(frozen=True)
class Cleaned(Result):
    """A clean, or with ``dry_run`` what it would do: partitions, and what becomes of silver's tombstones.

    ``stamped``: tombstones that were given their delete horizon; ``expired``: tombstones that went; ``forgotten``: remembered versions that went.
    ``octets_before`` and ``octets_after``: the log's size, in octets of keys, values and headers. ``idle_ms``: since the last clean.
    """

    topic: str
    dry_run: bool
    partitions: list[PartitionCleaning]
    stamped: int
    expired: int
    forgotten: int
    octets_before: int
    octets_after: int
    idle_ms: int | None

    @property
    def records(self) -> int:
        """The records that go, retention's not counted."""
        return sum(one.total("dropped") for one in self.partitions)

    @property
    def past_retention(self) -> int:
        """The records that go with segments past ``retention.ms`` or ``retention.bytes``."""
        return sum(one.total("past_retention") for one in self.partitions)

    @property
    def blocked(self) -> list[str]:
        """Who needs what retention would drop."""
        return sorted({text for one in self.partitions for text in one.blocked_by})

    @property
    def failure(self) -> LakelogError | None:
        """What stopped partitions from being cleaned, as one error: `Damaged` where a table is, `Conflict` where others were first; None: nothing."""
        stopped = [one for one in self.partitions if one.error is not None]
        if not stopped:
            return None
        told = "; ".join(f"partition {one.partition}: {one.error}" for one in stopped)
        codes = {one.error_code for one in stopped}
        if Damaged.exit_code in codes:
            return Damaged(f"{self.topic}: not every partition could be cleaned: {told} Look at that table before the next clean.")
        if codes <= {Conflict.exit_code}:
            return Conflict(f"{self.topic}: not every partition could be cleaned: {told} The next clean goes on with them.")
        error = LakelogError(f"{self.topic}: not every partition could be cleaned: {told}", name="NOT_CLEANED")
        error.exit_code = max(code for code in codes if code not in (None, Conflict.exit_code))
        return error

    @property
    def metrics(self) -> dict[str, int]:
        """The figures that Kafka's cleaner reports, by its names."""
        return {
            "max-dirty-percent": max((int(100 * one.dirty_ratio) for one in self.partitions), default=0),
            "uncleanable-partitions-count": sum(one.error is not None for one in self.partitions),
            "max-compaction-delay-secs": max((one.overdue_ms // 1000 for one in self.partitions), default=0),
            "time-since-last-run-ms": -1 if self.idle_ms is None else self.idle_ms,
        }

    def to_dict(self) -> dict[str, object]:
        """As `Result.to_dict`, with the ``metrics``."""
        return {**super().to_dict(), "metrics": self.metrics}


@dataclass(frozen=True)
class Rolled(Result):
    """Partitions whose active segment was closed, each with the base offset of the next one."""

    topic: str
    segments: dict[int, int]


@dataclass(frozen=True)
class RecordsDeleted(Result):
    """The log start of a partition, before and after, and how many records below it went; with ``dry_run`` would go."""

    topic: str
    partition: int
    from_offset: int
    to_offset: int
    records: int
    dry_run: bool = False


@dataclass(frozen=True)
class ExplainedRecord(Result):
    """A record of a key, and what became of it.

    ``segment``: the base offset of its segment, None where the log holds it no more (``in_log``). ``version``: as the rule reads it;
    ``invalid``: there is one that cannot be used. ``merged``: the latest table knows of it. ``reason``: why it is not the latest, None where it
    is: ``older-version``, ``no-version``, ``earlier-offset`` (of equal versions, or without versions), ``before-unversioned-delete``; ``lost_to``:
    the offset of the latest. ``late_behind``: it was late: the offset of the one that was the latest when it was appended. ``cleaner``: what
    becomes of it: ``latest-stays``, ``tombstone-waits-for-a-clean``, ``tombstone-goes-at``, ``goes-with-the-next-clean``,
    ``goes-when-dirty-enough``, ``active``, ``min-compaction-lag``, ``policy``, ``gone``; ``cleaner_at``: from when on, where a time decides.
    """

    offset: int
    epoch: int
    segment: int | None
    timestamp: datetime.datetime
    tombstone: bool
    value: Any
    headers: list[Any]
    version: Any
    invalid: bool
    merged: bool
    in_log: bool
    reason: str | None
    lost_to: int | None
    late_behind: int | None
    cleaner: str
    cleaner_at: datetime.datetime | None


@dataclass(frozen=True)
class ExplainedPartition(Result):
    """A key in a partition: how far the latest table is, the offset of the key's row in it (None: no row), and the records by offset.

    ``cleaned``: below this offset records that are not the latest may have left the log.
    """

    partition: int
    merged_to: int
    latest_offset: int | None
    cleaned: int
    records: list[ExplainedRecord]


@dataclass(frozen=True)
class Explained(Result):
    """Why a key has the row it has, by partition. ``hypothetical``: under another rule than the topic's; no partitions: no such key."""

    topic: str
    key: Any
    rule: str
    hypothetical: bool
    partitions: list[ExplainedPartition]


@dataclass(frozen=True)
class WhatIf(Result):
    """What another rule would change, up to the log's end: how many keys there are, how many would have another record.

    Of those ``deleted``: live now and deleted then; ``live_again``: the other way round. ``examples``: the first of them. ``incomplete``:
    partitions whose log no longer holds every record; there only what is left could be compared.
    """

    topic: str
    from_rule: str
    to_rule: str
    keys: int
    changed: int
    deleted: int
    live_again: int
    examples: list[dict[str, Any]]
    incomplete: Sequence[int]


@dataclass(frozen=True)
class Holder(Result):
    """What still holds an erased key: where, in how many files (None: not counted), until when, and what is to be done."""

    where: str
    files: int | None
    until: datetime.datetime | None
    remedy: str


@dataclass(frozen=True)
class Erased(Result):
    """The receipt of an erased key, which is named by its digest alone; with ``dry_run`` what would be removed.

    ``erased_at``: when it was erased first; None where it never was. ``removed``: table to rows: ``log``, ``silver``, ``quarantine``, ``verdicts``
    (rules whose verdict quoted it, or may have), ``runs`` (runs whose report did), ``exports``. ``was_live``: it had a live row. ``snapshots``:
    those that became tables of their own without it. ``held``: what still holds it; ``complete``: nothing does. ``unread``: rows of the quarantine
    that are no records, which are not searched.
    """

    topic: str
    digest: str
    dry_run: bool
    erased_at: datetime.datetime | None
    removed: dict[str, int]
    was_live: bool
    snapshots: list[str]
    held: list[Holder]
    unread: int

    @property
    def complete(self) -> bool:
        """Whether no table, snapshot or old file holds the key any more, as far as lakelog knows them."""
        return self.erased_at is not None and not self.dry_run and not self.held

    def to_dict(self) -> dict[str, object]:
        """As `Result.to_dict`, with ``complete``."""
        return {**super().to_dict(), "complete": self.complete}
