"""A case in a topic that it shares with others."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.conformance.cases import Case
from tests.conformance.script import Script


def texts(ends: dict[int, int]) -> dict[str, int]:
    """Offsets by partition, as JSON has them."""
    return {str(index): end for index, end in ends.items()}


@dataclass
class Seat:
    """A case in a topic: its first partition there, and what went wrong so far."""

    script: Script
    base: int
    failures: list[str] = field(default_factory=list)

    @property
    def case(self) -> Case:
        """The case."""
        return self.script.case

    def fail(self, number: int, what: str, expected: Any, actual: Any) -> None:
        """Note a difference."""
        self.failures.append(f"step {number}: {what}\n    expected {expected}\n    actual   {actual}")
