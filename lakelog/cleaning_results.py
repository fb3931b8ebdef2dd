"""What the cleaner answers: what a clean did to each partition and segment, or would do, in the words and figures of Kafka's cleaner."""

from __future__ import annotations

from dataclasses import dataclass, field

from lakelog.results import Result


@dataclass(frozen=True)
class SegmentCleaning(Result):
    """A segment: base and end offset (exclusive), records and octets it holds, why it is not cleaned (None: it is), and what goes, by reason."""

    base: int
    end: int
    records: int
    octets: int
    kept_because: str | None
    superseded: int = 0
    expired: int = 0
    unkeyed: int = 0
    dropped_octets: int = 0

    @property
    def dropped(self) -> int:
        """The records that go."""
        return self.superseded + self.expired + self.unkeyed


@dataclass(frozen=True)
class PartitionCleaning(Result):
    """A partition: selected or not and why, its first dirty offset before and after, its log start before and after, and what goes.

    ``reason``: ``forced``, ``dirty-ratio``, ``max-compaction-lag``; or ``nothing-dirty``, ``below-ratio``, ``policy`` where it is not selected.
    ``kept_because`` of a segment: ``active``, ``min-compaction-lag``, ``not-selected``. ``overdue_ms``: for how long a segment waits beyond
    ``max.compaction.lag.ms``. ``blocked_by``: who needs what retention would drop. ``error``: why its cleaning stopped; the others went on.
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
    def blocked(self) -> list[str]:
        """Who needs what retention would drop."""
        return sorted({text for one in self.partitions for text in one.blocked_by})

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
    """The log start of a partition, before and after, and how many records below it went."""

    topic: str
    partition: int
    from_offset: int
    to_offset: int
    records: int
