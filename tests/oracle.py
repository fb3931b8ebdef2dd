"""lakelog as a list and a dict: the oracle of the property tests.

Slow, complete and obviously right: a list of records per partition, and a fold over it. It shares no code with lakelog.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

Header = tuple[str, "bytes | None"]


@dataclass(frozen=True)
class Record:
    """A record as a producer sends it. ``value`` is octets, or a tuple of fields where the topic declares a STRUCT; None is null."""

    key: bytes
    value: Any
    timestamp: int
    headers: tuple[Header, ...] = ()
    tombstone: bool = False

    @property
    def deletes(self) -> bool:
        """A tombstone: flagged, or without a value."""
        return self.tombstone or self.value is None


@dataclass(frozen=True)
class Rule:
    """An ordering rule by its settings; ``columns`` are positions in the value's tuple."""

    strategy: str = "offset"
    header: str = ""
    columns: tuple[int, ...] = ()
    barriers: bool = False

    def version(self, record: Record) -> Any:
        """The record's version as a tuple that Python compares like the rule does, or None."""
        if self.strategy == "timestamp":
            return (record.timestamp,)
        if self.strategy == "header":
            named = [value for name, value in record.headers if name == self.header]
            usable = bool(named) and named[-1] is not None and len(named[-1]) == 8
            return (int.from_bytes(named[-1], "big", signed=True),) if usable else None
        if self.strategy == "column" and record.value is not None:
            fields = [record.value[index] for index in self.columns]
            return (
                tuple((item is not None, item if item is not None else 0) for item in fields)
                if any(f is not None for f in fields)
                else None
            )
        return None

    def invalid(self, record: Record) -> bool:
        """Whether the record carries the version header, and the last one is unusable."""
        return self.strategy == "header" and any(name == self.header for name, _ in record.headers) and self.version(record) is None

    def is_barrier(self, record: Record) -> bool:
        """A delete without a version, where such a delete beats all that came before it."""
        return self.barriers and record.deletes and self.version(record) is None

    def rank(self, record: Record, offset: int) -> tuple[Any, ...]:
        """(has_version, version, offset)."""
        version = self.version(record)
        return (version is not None, version or (), offset)


@dataclass
class Model:
    """A topic: its log, a list of records per partition."""

    rule: Rule
    log: dict[int, list[Record]] = field(default_factory=dict)

    def append(self, batch: Mapping[int, Iterable[Record]]) -> None:
        """Add records to the ends of partitions."""
        for partition, records in batch.items():
            self.log.setdefault(partition, []).extend(records)

    def latest(self, ends: Mapping[int, int] | None = None) -> dict[tuple[int, bytes], tuple[int, Record]]:
        """(partition, key) to (offset, record) of the winner, deletes included; of the log below ``ends`` where given."""
        won: dict[tuple[int, bytes], tuple[int, Record]] = {}
        for partition, records in self.log.items():
            for offset, record in enumerate(records[: ends.get(partition, 0) if ends is not None else None]):
                best = won.get((partition, record.key))
                if best is None or self.beats(offset, record, best):
                    won[partition, record.key] = (offset, record)
        return won

    def beats(self, offset: int, record: Record, best: tuple[int, Record]) -> bool:
        """Whether a record beats the best one before it in its log."""
        return self.rule.is_barrier(record) or self.rule.rank(record, offset) > self.rule.rank(best[1], best[0])

    def counts(self) -> dict[str, int]:
        """What became of the losers: compared with the best record of their key before them."""
        counts = {"late": 0, "ignored_deletes": 0, "invalid_versions": 0}
        for records in self.log.values():
            best: dict[bytes, tuple[int, Record]] = {}
            for offset, record in enumerate(records):
                counts["invalid_versions"] += self.rule.invalid(record)
                if record.key not in best or self.beats(offset, record, best[record.key]):
                    best[record.key] = (offset, record)
                elif record.deletes and self.rule.version(record) is None:
                    counts["ignored_deletes"] += 1
                else:
                    counts["late"] += 1
        return counts
