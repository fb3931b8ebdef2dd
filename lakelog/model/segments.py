"""Where a batch goes in a partition's log: the next offsets, and the segment that takes them. Decisions as values; no I/O."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lakelog.model.log_state import PartitionState


@dataclass(frozen=True)
class Tail:
    """The end of a partition's log: log end offset, active segment, its octets and the time of its first record.

    ``batch`` is the identity of the last append (None: nothing was appended since the log's start), ``state`` what the log says of itself.
    """

    partition: int
    end: int
    segment: int
    octets: int
    first_ms: int | None
    batch: str | None
    state: PartitionState

    @property
    def active(self) -> int:
        """The base offset of the active segment: the last one, which no append may have begun yet."""
        return max(self.segment, min(self.state.rolled, self.end))

    @property
    def epoch(self) -> int:
        """The generation of the log."""
        return self.state.epoch

    def to_note(self) -> list[int | None]:
        """What the note of the append that ended here says of it."""
        return [self.end, self.segment, self.octets, self.first_ms]

    def appended(self, batch: str, noted: Sequence[int | None]) -> Tail:
        """The end after an append, by its note; an append changes no state."""
        end, segment, octets, first_ms = noted
        return Tail(self.partition, end or 0, segment or 0, octets or 0, first_ms, batch, self.state)

    @classmethod
    def empty(cls, state: PartitionState) -> Tail:
        """The end of a log that holds no append: its start."""
        return cls(state.partition, state.start, state.start, 0, None, None, state)


@dataclass(frozen=True)
class Share:
    """A batch's share of one partition: records, octets, the time of the first record and the largest time (milliseconds).

    ``undated``: the first record has no timestamp of its own (-1); its time is that of its append.
    """

    partition: int
    records: int
    octets: int
    first_ms: int
    largest_ms: int
    undated: bool = False


@dataclass(frozen=True)
class Piece:
    """A share with its place: first offset, end offset (exclusive), segment, whether that segment begins here, the segment's new state.

    ``largest_ms`` and ``undated`` are the share's own. ``holes``: of a mirrored log, how many of the offsets hold no record.
    """

    partition: int
    start: int
    end: int
    segment: int
    rolls: bool
    octets: int
    first_ms: int | None
    records: int
    largest_ms: int
    undated: bool
    holes: int = 0

    def row(self, after: int) -> dict[str, Any]:
        """What the batch row says; ``after`` is the version of bronze that the append read."""
        sizes = {"octets": self.octets, "first": self.first_ms, "largest": self.largest_ms, "records": self.records}
        more = {**({"undated": True} if self.undated else {}), **({"holes": self.holes} if self.holes else {})}
        return {"type": "batch", "after": after, **sizes, **more}


def place(tail: Tail, share: Share, *, segment_bytes: int, segment_ms: int) -> Piece:
    """Give a share its offsets and its segment.

    A non-empty active segment is closed first when it would grow past ``segment_bytes``, when the share's largest time is more than
    ``segment_ms`` after the segment's first record (Kafka's roll at append), or where it was closed by a roll. A batch is never split over
    segments.
    """
    empty = tail.first_ms is None or tail.end == tail.segment
    too_large = tail.octets + share.octets > segment_bytes
    too_old = tail.first_ms is not None and share.largest_ms - tail.first_ms > segment_ms
    rolls = not empty and (too_large or too_old or tail.active > tail.segment)
    fresh = rolls or empty
    return Piece(
        partition=share.partition,
        start=tail.end,
        end=tail.end + share.records,
        segment=tail.end if rolls else tail.segment,
        rolls=rolls,
        octets=share.octets + (0 if fresh else tail.octets),
        first_ms=share.first_ms if fresh or tail.first_ms is None else tail.first_ms,
        records=share.records,
        largest_ms=share.largest_ms,
        undated=share.undated,
    )
