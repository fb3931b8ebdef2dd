"""A clean as it was planned, a value: by partition what is cleaned and why, what goes from which segment, what becomes of tombstones."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from lakelog.cleaning.dropping import Drops
from lakelog.cleaning.plan import Decision, PartitionLog, Segment
from lakelog.cleaning.segments import Segments
from lakelog.cleaning_results import Cleaned, PartitionCleaning, SegmentCleaning
from lakelog.errors import LakelogError
from lakelog.log.tail import LogEnd


@dataclass(frozen=True)
class Plan:
    """What a clean does: by partition the log, the decision, and what goes from its segments; what becomes of silver's tombstones.

    ``withheld``: remembered versions that are due and stay (`forgetting`); ``late``: where none is to be remembered, expired tombstones whose version
    is all the same; None: all. ``merged``: partition to the offset up to which the latest table was;
    ``errors``: partitions that could not be read, of which nothing goes, and what stopped that.
    """

    end: LogEnd
    held: Segments
    decisions: Mapping[int, Decision]
    drops: Mapping[tuple[int, int], Drops]
    figures: Mapping[int, Mapping[str, int]]
    now: int
    withheld: Mapping[int, Sequence[int]] | None
    late: Mapping[int, Sequence[int]] | None
    merged: Mapping[int, int]
    errors: Mapping[int, LakelogError]

    @property
    def to(self) -> dict[int, int]:
        """Of the selected partitions, the end of the cleanable part."""
        return {index: one.to for index, one in self.decisions.items() if one.selected}

    def count(self, name: str) -> int:
        """How many of silver's tombstones are ``expired``, ``stamped`` or ``forgotten``."""
        return sum(one[name] for one in self.figures.values())

    @property
    def going(self) -> list[tuple[int, Segment]]:
        """The segments from which something goes, each with its partition."""
        logs = sorted(self.held.logs.items())
        return [(index, one) for index, log in logs for one in log.segments if (index, one.base) in self.drops]

    def carried_out(self, rewritten: Collection[tuple[int, int]], failed: Collection[int]) -> Plan:
        """What was done of the plan: nothing went from segments that were not written again, nor of the tombstones of partitions that failed."""
        figures = without(self.figures, failed)
        return replace(self, drops={place: gone for place, gone in self.drops.items() if place in rewritten}, figures=figures)

    def result(
        self,
        topic: str,
        *,
        dry_run: bool,
        starts: Mapping[int, int],
        retired: Mapping[int, Sequence[Segment]],
        errors: Mapping[int, LakelogError],
        blocked: Mapping[int, list[str]],
    ) -> Cleaned:
        """The plan as the answer of a clean.

        Args:
            topic: its name.
            dry_run: nothing was done.
            starts: the log starts before retention.
            retired: partition to the segments that go with it as a whole.
            errors: partition to what stopped its cleaning, once it was planned.
            blocked: partition to who needs what retention would drop.
        """
        logs, errors = self.held.logs, {**self.errors, **errors}
        partitions = [
            PartitionCleaning(
                index, one.selected, one.reason, one.first_dirty, one.to if one.selected and index not in errors else one.first_dirty, starts[index],
                logs[index].start,
                one.clean_octets, one.cleanable_octets, round(one.dirty_ratio, 6), one.delay_ms,
                [*_retired(retired.get(index, [])), *self._segments(logs[index], one)],
                blocked.get(index, []), None if index not in errors else str(errors[index]), None if index not in errors else errors[index].exit_code,
            )
            for index, one in sorted(self.decisions.items())
        ]  # fmt: skip
        before = sum(one.octets for log in logs.values() for one in log.segments if one.end > log.start)
        after = before - sum(one.octets for one in self.drops.values())
        before += sum(one.octets for gone in retired.values() for one in gone)
        last = max((mark.at for mark in self.held.checkpoints.values() if mark.sequence), default=None)
        return Cleaned(
            topic, dry_run, partitions, self.count("stamped"), self.count("expired"), self.count("forgotten"), before, after,
            None if last is None else self.now - last,
        )  # fmt: skip

    def _segments(self, log: PartitionLog, decision: Decision) -> list[SegmentCleaning]:
        found = []
        for one in log.segments:
            if one.end <= log.start:
                continue
            gone = self.drops.get((log.partition, one.base), Drops())
            found.append(
                SegmentCleaning(
                    one.base, one.end, one.records, one.octets, decision.why_not(one, log.active), gone.superseded, gone.expired, gone.unkeyed,
                    gone.octets, 0, gone.superseded_octets, gone.expired_octets, gone.unkeyed_octets,
                )
            )  # fmt: skip
        return found


def without(figures: Mapping[int, Mapping[str, int]], failed: Collection[int]) -> dict[int, Mapping[str, int]]:
    """What becomes of tombstones, where nothing does in some partitions."""
    nothing = {"expired": 0, "stamped": 0, "forgotten": 0}
    return {index: {**one, **nothing} if index in failed else one for index, one in figures.items()}


def _retired(gone: Sequence[Segment]) -> list[SegmentCleaning]:
    return [
        SegmentCleaning(one.base, one.end, one.records, one.octets, None, dropped_octets=one.octets, past_retention=one.records)
        for one in gone
    ]
