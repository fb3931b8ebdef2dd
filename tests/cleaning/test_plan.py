"""Whether a partition is cleaned, by the sizes and times of its segments. No Spark."""

from __future__ import annotations

from dataclasses import replace

from lakelog.cleaning.plan import Decision, PartitionLog, Segment, bounded, decide
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


def decided(*given: PartitionLog, most: int) -> list[Decision]:
    always = TopicConfig({"min.cleanable.dirty.ratio": "0"})
    logs = {place: replace(one, partition=place) for place, one in enumerate(given)}
    return list(bounded({index: decide(one, always, now=DAY) for index, one in logs.items()}, logs, most).values())


def test_a_bounded_clean_goes_on_however_large_the_clean_part_is() -> None:
    sixties = [(end, 1, 60) for end in range(1, 9)]
    ends: list[int] = []
    while not ends or ends[-1] < 8:
        ends.append(decided(log(*sixties, checkpoint=ends[-1] if ends else 3), most=100)[0].to)
    assert ends == [4, 5, 6, 7, 8]
    assert decided(log(*sixties, checkpoint=3), most=10)[0].to == 4, "a segment at least"
    assert decided(log(*sixties, checkpoint=3), most=120)[0].to == 5


def test_of_a_bounded_clean_a_partition_that_has_no_share_is_left_alone() -> None:
    """Else its clean segments would be written again, and it would be as dirty as before."""
    dirtiest, other = decided(log((1, 1, 60), (2, 1, 60)), log((1, 1, 60), (2, 1, 60), checkpoint=1), most=120)
    assert (dirtiest.selected, dirtiest.to) == (True, 2)
    assert (other.selected, other.reason) == (False, "max-bytes")
