"""Conditions on an append as values: the offsets a request expects (KIP-27), checked against the log's end without touching it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lakelog.errors import InvalidRequest

UNCONDITIONAL = -1


@dataclass(frozen=True)
class Expectation:
    """What a request expects of one partition: the log end that its conditions imply, as least and most; they differ where it contradicts itself.

    A record that expects offset e at position i of its partition's share implies the log end e - i.
    """

    partition: int
    least: int
    most: int

    def holds(self, end: int) -> bool:
        """Whether every condition on the partition holds for a log that ends at ``end`` (SEMANTICS 70)."""
        return self.least == self.most == end

    def and_end(self, end: int) -> Expectation:
        """The expectation with the condition added that the log ends at ``end``."""
        return Expectation(self.partition, min(self.least, end), max(self.most, end))


def stated(expected_offset: Mapping[int, int] | None, partitions: int) -> dict[int, int]:
    """The per-partition conditions of a call, without the unconditional ones.

    Raises:
        InvalidRequest: a partition that does not exist, or an expected offset below -1 (SEMANTICS Q12).
    """
    conditions = {}
    for partition, offset in (expected_offset or {}).items():
        if not 0 <= partition < partitions:
            raise InvalidRequest(f"expected_offset names partition {partition}; partitions are 0 to {partitions - 1}.")
        if offset < UNCONDITIONAL:
            raise InvalidRequest(f"expected_offset={offset} for partition {partition}: an offset is 0 or more, -1 is unconditional.")
        if offset != UNCONDITIONAL:
            conditions[partition] = offset
    return conditions


def combined(of_records: Mapping[int, Expectation], of_call: Mapping[int, int]) -> dict[int, Expectation]:
    """The conditions of the records and those of the call together, by partition."""
    every = dict(of_records)
    for partition, end in of_call.items():
        every[partition] = every[partition].and_end(end) if partition in every else Expectation(partition, end, end)
    return every
