"""Conditions on the rows of the log."""

from __future__ import annotations

from dataclasses import dataclass

from lakelog.log.rows import any_of


@dataclass(frozen=True)
class Condition:
    """A condition that knows how deep it is, and how many there are in it."""

    depth: int = 0
    count: int = 1

    def __or__(self, other: Condition) -> Condition:
        return Condition(1 + max(self.depth, other.depth), self.count + other.count)


def test_many_conditions_are_of_little_depth() -> None:
    """Spark Connect refuses an expression of some fifty levels; a log may have thousands of partitions."""
    for count in (1, 2, 3, 50, 5000):
        found = any_of([Condition()] * count)  # type: ignore[list-item]
        assert (found.count, found.depth) == (count, (count - 1).bit_length())  # type: ignore[attr-defined]
