"""What an append asks beside its records: what must hold of the log, and of the topic's settings, for them to be written, and the token that they are
known by."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from lakelog.delta import table_properties
from lakelog.errors import Conflict
from lakelog.log.tail import LogEnd
from lakelog.log.tokens import Token
from lakelog.model.config import SETTINGS
from lakelog.model.expectations import Expectation
from lakelog.model.mirroring import Mirrored
from lakelog.model.topic_log import TopicLog

# The settings that decide whether records are let in.
DECIDING = (
    "check.expected.offsets", "check.expected.offsets.scope", "cleanup.policy", "compaction.header.invalid", "compaction.header.encoding",
    "compaction.strategy", "compaction.strategy.header", "max.message.bytes", "message.timestamp.type", "message.timestamp.before.max.ms",
    "message.timestamp.after.max.ms", "tombstone.strict", "quality.suites", "quality.on.failure",
)  # fmt: skip
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


def require_same_settings(log: TopicLog) -> None:
    """Refuse an append whose records were checked under settings that the topic no longer has.

    Raises:
        Conflict: naming them; nothing was written.

    Cost: a look at the table's properties, none where they were read since the newest commit.
    """
    stored = table_properties.read(log.spark, log.table)
    if stored is None:
        return
    now = table_properties.settings(log.table, stored, {name: SETTINGS[name] for name in DECIDING})
    before = {one.name: one.value for one in log.config.effective() if one.name in DECIDING and one.origin == "topic"}
    changed = [name for name in DECIDING if (SETTINGS[name].parse(now[name]) if name in now else None) != before.get(name)]
    if changed:
        raise Conflict(
            f"{log.name}: settings by which records are let in were changed while the append ran: {', '.join(changed)}. Nothing was written; try again."
        )
