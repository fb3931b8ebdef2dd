"""Whether a partition is cleaned, by the sizes and times of its segments. No Spark."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lakelog.cleaning.plan import Decision, PartitionLog, Segment, bounded, decide, groups, spans
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


def test_what_one_commit_rewrites_is_bounded_in_octets_and_in_segments() -> None:
    places = [
        (partition, one) for partition, octets in ((0, 30), (1, 60)) for one in log((2, 2, octets), (4, 2, octets), (6, 2, octets)).closed
    ]

    def runs(octets: int, count: int) -> list[list[tuple[int, int]]]:
        return [[(partition, one.base) for partition, one in run] for run in groups(places, octets, count)]

    assert runs(1000, 4) == [[(0, 0), (0, 2), (0, 4), (1, 0)], [(1, 2), (1, 4)]]
    assert runs(90, 4) == [[(0, 0), (0, 2), (0, 4)], [(1, 0)], [(1, 2)], [(1, 4)]]
    assert runs(10, 4) == [[place] for place in ((0, 0), (0, 2), (0, 4), (1, 0), (1, 2), (1, 4))], "a segment at least"


def test_of_the_winners_those_in_the_segments_alone_are_looked_at() -> None:
    """Between the first and the last segment of a log may lie any number of them."""
    first, second, third, fourth = log((2, 2, 30), (5, 2, 30), (7, 2, 30), (9, 2, 30)).closed
    assert spans([first, second, third, fourth]) == [(0, 9)]
    assert spans([fourth, first, second]) == [(0, 5), (7, 9)]


def test_of_a_bounded_clean_a_partition_that_has_no_share_is_left_alone() -> None:
    """Else its clean segments would be written again, and it would be as dirty as before."""
    dirtiest, other = decided(log((1, 1, 60), (2, 1, 60)), log((1, 1, 60), (2, 1, 60), checkpoint=1), most=120)
    assert (dirtiest.selected, dirtiest.to) == (True, 2)
    assert (other.selected, other.reason) == (False, "max-bytes")


def aged(log: PartitionLog, base: int, largest_ms: int) -> PartitionLog:
    """The log with another largest time of one segment."""
    return replace(log, segments=tuple(replace(one, largest_ms=largest_ms) if one.base == base else one for one in log.segments))


CLEAN, HALF, NOTHING = log((2, 2, 30), (4, 2, 30)), log((2, 2, 30), (4, 2, 30), checkpoint=2), log((2, 2, 30), (4, 2, 30), checkpoint=4)
ALWAYS, YOUNG = {"min.cleanable.dirty.ratio": "0"}, {"min.cleanable.dirty.ratio": "0", "min.compaction.lag.ms": "10"}


@pytest.mark.parametrize(
    ("config", "given", "force", "decided", "why"),
    [
        (ALWAYS, CLEAN, False, (True, "dirty-ratio", 0, 4), (None, None, "active")),
        (ALWAYS, HALF, False, (True, "dirty-ratio", 2, 4), (None, None, "active")),
        (ALWAYS, NOTHING, False, (False, "nothing-dirty", 4, 4), ("not-selected", "not-selected", "active")),
        ({"min.cleanable.dirty.ratio": "0.5"}, HALF, False, (False, "below-ratio", 2, 4), ("not-selected", "not-selected", "active")),
        ({"min.cleanable.dirty.ratio": "0.5"}, HALF, True, (True, "forced", 2, 4), (None, None, "active")),
        ({"min.cleanable.dirty.ratio": "1"}, CLEAN, False, (False, "below-ratio", 0, 4), ("not-selected", "not-selected", "active")),
        ({**ALWAYS, "cleanup.policy": "delete"}, CLEAN, True, (False, "policy", 0, 4), ("not-selected", "not-selected", "active")),
        (YOUNG, aged(CLEAN, 2, DAY - 9), False, (True, "dirty-ratio", 0, 2), (None, "min-compaction-lag", "active")),
        (YOUNG, aged(CLEAN, 2, DAY - 10), False, (True, "dirty-ratio", 0, 4), (None, None, "active")),
        (YOUNG, aged(HALF, 2, DAY - 9), False, (False, "nothing-dirty", 2, 2), ("not-selected", "min-compaction-lag", "active")),
        (YOUNG, aged(CLEAN, 0, DAY + 5), False, (False, "nothing-dirty", 0, 0), ("min-compaction-lag", "min-compaction-lag", "active")),
        (YOUNG, aged(HALF, 0, DAY + 5), False, (True, "dirty-ratio", 2, 4), (None, None, "active")),
        (
            {**YOUNG, "max.compaction.lag.ms": "20"}, aged(CLEAN, 0, DAY), False, (False, "nothing-dirty", 0, 0),
            ("min-compaction-lag", "min-compaction-lag", "active"),
        ),
        ({"max.compaction.lag.ms": str(DAY - 2)}, HALF, False, (True, "max-compaction-lag", 2, 4), (None, None, "active")),
        ({"max.compaction.lag.ms": str(DAY - 1)}, HALF, False, (False, "below-ratio", 2, 4), ("not-selected", "not-selected", "active")),
    ],
)  # fmt: skip
def test_what_is_cleaned_and_why_not(
    config: dict[str, str], given: PartitionLog, force: bool, decided: tuple[bool, str, int, int], why: tuple[str | None, ...]
) -> None:
    """The lags by exact times: young is later than now less the least lag, overdue earlier than now less the greatest."""
    found = decide(given, TopicConfig(config), now=DAY, force=force)
    assert (found.selected, found.reason, found.first_dirty, found.to) == decided
    assert tuple(found.why_not(one, given.active) for one in given.segments) == why
