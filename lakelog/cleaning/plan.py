"""What a clean does to a partition, decided from the sizes and times of its segments: values, no I/O.

The rules are Kafka's cleaner's (SEMANTICS 26-30, 52-57, 60): the cleanable part goes from the first dirty offset to the active segment, or to the
first dirty segment that is too young; a partition is selected when enough of it is dirty, when a segment waited too long, or when it is forced.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from lakelog.model.config import LONG_MAX, TopicConfig

# Why a partition is cleaned, or not.
FORCED, RATIO, OVERDUE = "forced", "dirty-ratio", "max-compaction-lag"
NOT_DIRTY, BELOW_RATIO, BEYOND_BYTES, NO_COMPACTION, ERROR = "nothing-dirty", "below-ratio", "max-bytes", "policy", "error"
# Why a segment is not cleaned.
ACTIVE, LAG, NOT_SELECTED = "active", "min-compaction-lag", "not-selected"


@dataclass(frozen=True)
class Segment:
    """A segment as it is: base offset, end offset, records and octets it holds, time of its first record and the largest time.

    ``first_ms`` is None where the first record has no timestamp: such a segment is never overdue. Times are milliseconds.
    """

    base: int
    end: int
    records: int
    octets: int
    first_ms: int | None
    largest_ms: int

    @property
    def weight(self) -> int:
        """What it counts in a dirty ratio: its octets, a record at least one. A delete of an empty key has none, and is dirty all the same."""
        return max(self.octets, self.records)


@dataclass(frozen=True)
class PartitionLog:
    """A partition's log: start, end, base of the active segment, the first dirty offset as the last clean left it, segments in order."""

    partition: int
    start: int
    end: int
    active: int
    checkpoint: int
    segments: tuple[Segment, ...]

    @property
    def first_dirty(self) -> int:
        """The checkpoint; the log start where it lies below that or beyond the log's end (SEMANTICS 28)."""
        return self.checkpoint if self.start <= self.checkpoint <= self.end else self.start

    @property
    def closed(self) -> tuple[Segment, ...]:
        """The segments before the active one that lie above the log start, at least in part."""
        return tuple(one for one in self.segments if one.base < self.active and one.end > self.start)


@dataclass(frozen=True)
class Decision:
    """What is to become of a partition: selected and why, where the cleanable part begins and ends, sizes in octets.

    ``delay_ms``: for how long a segment is overdue (``max.compaction.lag.ms``), 0 where none is. ``first_dirty`` is where the next clean begins,
    ``to`` where it would begin after this one.
    """

    partition: int
    selected: bool
    reason: str
    first_dirty: int
    to: int
    clean_octets: int
    cleanable_octets: int
    delay_ms: int
    held_back: int | None

    @property
    def dirty_ratio(self) -> float:
        """The share of the cleanable octets; 0 where there are none."""
        whole = self.clean_octets + self.cleanable_octets
        return self.cleanable_octets / whole if whole else 0.0

    def why_not(self, segment: Segment, active: int) -> str | None:
        """Why a segment is not cleaned; None where it is."""
        if segment.base >= active:
            return ACTIVE
        if self.held_back is not None and segment.base >= self.held_back:
            return LAG
        return None if self.selected else NOT_SELECTED


def decide(log: PartitionLog, config: TopicConfig, *, now: int, force: bool = False) -> Decision:
    """Whether a partition is cleaned, and up to where.

    Args:
        log: the partition.
        config: the topic's.
        now: the time in milliseconds.
        force: whatever the ratio.
    """
    first, least_lag = log.first_dirty, config.number("min.compaction.lag.ms")
    dirty = [one for one in log.closed if one.end > first]
    young = next((one.base for one in dirty if least_lag > 0 and one.largest_ms > now - least_lag), None)
    to = max(first, min(log.active, log.active if young is None else young))
    cleanable = sum(one.weight for one in dirty if one.base < to)
    clean = sum(one.weight for one in log.closed if one.end <= first)
    delay = _delay(dirty, config.number("max.compaction.lag.ms"), now) if config.policy("compact") else 0
    ratio = cleanable / (clean + cleanable) if clean + cleanable else 0.0
    if not config.policy("compact"):
        selected, reason = False, NO_COMPACTION
    elif force:
        selected, reason = True, FORCED
    elif ratio > config.share("min.cleanable.dirty.ratio"):
        selected, reason = True, RATIO
    elif delay > 0 and cleanable > 0:
        selected, reason = True, OVERDUE
    else:
        selected, reason = False, BELOW_RATIO if cleanable else NOT_DIRTY
    return Decision(log.partition, selected, reason, first, to, clean, cleanable, delay, young)


def bounded(decisions: Mapping[int, Decision], logs: Mapping[int, PartitionLog], max_bytes: int) -> dict[int, Decision]:
    """The decisions with as many octets of dirty segments as ``max_bytes`` allow, the dirtiest partitions first; of the first one segment at least.

    A partition that has no share is left for the next clean. Segments below the first dirty offset do not count: most lose nothing and stay as they
    are, and those that do must lose it before a tombstone above them can expire. Counted, they would keep a clean from ever getting beyond them.
    """
    found, left, first = dict(decisions), max_bytes, True
    for index, one in sorted(decisions.items(), key=lambda item: -item[1].dirty_ratio):
        dirty = [segment for segment in logs[index].closed if segment.base < one.to and one.first_dirty < min(segment.end, one.to)]
        if not (one.selected and dirty):
            continue
        to = one.first_dirty
        for segment in dirty:
            if segment.octets > left and not first:
                break
            first, left, to = False, left - segment.octets, min(segment.end, one.to)
        found[index] = replace(one, to=to) if to > one.first_dirty else replace(one, selected=False, reason=BEYOND_BYTES)
    return found


def _delay(dirty: Sequence[Segment], lag: int, now: int) -> int:
    """For how long the dirty segment that began first is overdue (SEMANTICS 54: times of 0 and below are never)."""
    begun = [one.first_ms for one in dirty if one.first_ms is not None and one.first_ms > 0]
    return max(0, now - lag - min(begun)) if begun and lag < LONG_MAX else 0


def retained_from(log: PartitionLog, config: TopicConfig, *, now: int) -> int:
    """The log start that ``cleanup.policy=delete`` asks for: whole closed segments go from the old end while they are too old, or the log too large.

    (SEMANTICS 60: strictly older than ``retention.ms``; while the size less ``retention.bytes`` is at least the segment's.)
    """
    if not config.policy("delete"):
        return log.start
    keep_ms, keep_bytes = config.number("retention.ms"), config.number("retention.bytes")
    start, size = log.start, sum(one.octets for one in log.segments if one.end > log.start)
    closed = list(log.closed)
    for place, one in enumerate(closed):
        too_old = keep_ms >= 0 and now - one.largest_ms > keep_ms
        too_large = keep_bytes >= 0 and size - keep_bytes >= one.octets
        if not (too_old or too_large):
            break
        size -= one.octets
        start = closed[place + 1].base if place + 1 < len(closed) else log.active
    return max(start, log.start)


def groups(places: Sequence[tuple[int, Segment]], octets: int, count: int) -> list[list[tuple[int, Segment]]]:
    """Segments, each with its partition, in runs of at most so many octets and segments, a larger one alone: a run is rewritten by one commit."""
    found: list[list[tuple[int, Segment]]] = []
    size = 0
    for index, one in places:
        if not found or size + one.octets > octets or len(found[-1]) == count:
            found.append([])
            size = 0
        found[-1].append((index, one))
        size += one.octets
    return found


def spans(segments: Sequence[Segment]) -> list[tuple[int, int]]:
    """The offsets that segments hold, those of neighbours together: nothing between them, of which the records may be far more than theirs."""
    found: list[tuple[int, int]] = []
    for one in sorted(segments, key=lambda one: one.base):
        if found and found[-1][1] == one.base:
            found[-1] = (found[-1][0], one.end)
        else:
            found.append((one.base, one.end))
    return found
