"""Where a topic stands, as `status` answers it: its log, its latest table, what waits, and what there is for the cleaner to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lakelog.results import Result


@dataclass(frozen=True)
class PartitionStatus(Result):
    """One partition: log start and log end offset, the offset up to which it is merged (exclusive), its active segment and that one's octets."""

    partition: int
    log_start_offset: int
    log_end_offset: int
    merged_offset: int
    active_segment: int
    segment_bytes: int


@dataclass(frozen=True)
class CleaningStatus(Result):
    """What there is for the log cleaner to do. Sizes are octets of keys, values and headers; ages are milliseconds.

    ``log_bytes``: of all segments above the log start; ``dirty_ratio``: of the partition that is dirtiest, the share of its closed segments that was
    never cleaned; ``overdue_ms``: for how long a segment waits beyond ``max.compaction.lag.ms``; ``tombstones_due``: tombstones of the latest table
    whose delete horizon has come; ``past_retention_bytes``: of segments that are past ``retention.ms`` or ``retention.bytes``. Of the last clean:
    ``cleaned_age_ms`` (None: there was none), the log's size ``bytes_before`` and ``bytes_after``.
    """

    log_bytes: int
    dirty_ratio: float
    overdue_ms: int
    tombstones_due: int
    cleaned_age_ms: int | None = None
    bytes_before: int | None = None
    bytes_after: int | None = None
    past_retention_bytes: int = 0

    @property
    def to_clean(self) -> str | None:
        """How much of the closed segments is there for the cleaner, in words; None where only tombstones are due."""
        found = [f"{self.dirty_ratio:.0%} of the closed segments not cleaned yet"] * bool(self.dirty_ratio)
        found += [f"{self.past_retention_bytes:,} octets past retention"] * bool(self.past_retention_bytes)
        if found:
            return ", ".join(found)
        return None if self.tombstones_due else "nothing to clean now"


@dataclass(frozen=True)
class TopicStatus(Result):
    """Where a topic stands. Ages are milliseconds; ``counts`` are totals since the topic was created (or rebuilt).

    ``cleaning``: what there is for the cleaner. ``intent``: the operation over several tables that was begun and is not finished; the next
    writing verb finishes it. ``last_verdict``: what
    the newest gate or audit said (run, door, outcome, version, at); ``good_version``: the newest version of the latest table that passed an audit.
    """

    topic: str
    rule: str
    records: int
    keys: int
    live: int
    tombstones: int
    unmerged_records: int
    unmerged_age_ms: int | None
    bronze_version: int
    silver_version: int
    epoch: int
    partitions: list[PartitionStatus]
    counts: dict[str, int]
    intent: str | None = None
    last_verdict: dict[str, Any] | None = None
    good_version: int | None = None
    cleaning: CleaningStatus | None = None
