"""Whether a partition is cleaned, by the sizes and times of its segments. No Spark."""

from __future__ import annotations

from lakelog.cleaning.plan import PartitionLog, Segment, decide
from lakelog.model.config import TopicConfig

DAY = 86_400_000


def log(*segments: tuple[int, int, int], checkpoint: int = 0) -> PartitionLog:
    """A log of closed segments, (end, records, octets) each, all of time 1, and an empty active one."""
    base, found = 0, []
    for end, records, octets in segments:
        found.append(Segment(base, end, records, octets, 1, 1))
        base = end
    return PartitionLog(0, 0, base, base, checkpoint, (*found, Segment(base, base, 0, 0, None, -1)))


def test_records_without_octets_are_dirty() -> None:
    """A delete of an empty key, say: in Kafka a record has always a size. Else it would stay in the log until another one comes."""
    always = TopicConfig({"min.cleanable.dirty.ratio": "0"})
    empty = decide(log((3, 2, 20), (4, 1, 0), checkpoint=3), always, now=DAY)
    assert (empty.selected, empty.reason, empty.cleanable_octets, empty.clean_octets) == (True, "dirty-ratio", 1, 20)
    none = decide(log((3, 2, 20), (4, 0, 0), checkpoint=3), always, now=DAY)
    assert (none.selected, none.reason) == (False, "nothing-dirty")
    late = TopicConfig({"max.compaction.lag.ms": "1000"})
    overdue = decide(log((3, 2, 2000), (4, 1, 0), checkpoint=3), late, now=DAY)
    assert (overdue.selected, overdue.reason) == (True, "max-compaction-lag")


def test_the_ratio_is_one_of_octets() -> None:
    half = TopicConfig({"min.cleanable.dirty.ratio": "0.5"})
    assert not decide(log((2, 2, 30), (4, 2, 30), checkpoint=2), half, now=DAY).selected, "greater than, not at least"
    assert decide(log((2, 2, 30), (4, 2, 31), checkpoint=2), half, now=DAY).selected
