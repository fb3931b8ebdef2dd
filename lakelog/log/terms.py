"""What an append asks beside its records: what must hold of the log for them to be written, and the token that they are known by."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from lakelog.errors import Conflict
from lakelog.log.tail import LogEnd
from lakelog.log.tokens import Token
from lakelog.model.expectations import Expectation
from lakelog.model.mirroring import Mirrored

# The log is no longer as an append was decided on.
LOG_MOVED = "LOG_MOVED"


@dataclass(frozen=True)
class Terms:
    """The terms of an append: expected log ends by partition, the conditions per key, a token; whether records keep offsets.

    ``as_of``: the log must still end there in every partition, in the same state.
    """

    expectations: Mapping[int, Expectation] = field(default_factory=dict)
    per_key: bool = False
    token: Token | None = None
    mirrored: Mirrored | None = None
    as_of: LogEnd | None = None

    def touched(self, shares: Collection[int]) -> list[int]:
        """The partitions that an append of records to some of them looks at; of no records one, for its token."""
        known = () if self.as_of is None else self.as_of.tails
        return sorted({*shares, *self.expectations, *(self.mirrored.spans if self.mirrored else ()), *known}) or [0]

    def require_unmoved(self, current: LogEnd) -> None:
        """Refuse an append that was decided on another log.

        Raises:
            Conflict: LOG_MOVED; nothing was written.
        """
        if self.as_of is None or all(
            (tail.end, tail.state) == (current.tails[index].end, current.tails[index].state) for index, tail in self.as_of.tails.items()
        ):
            return
        raise Conflict(
            "Others wrote to the log, or changed its state, while it was looked at. Nothing was written; try again.", name=LOG_MOVED,
            expected=self.as_of.ends(), actual=current.ends(),
        )  # fmt: skip
