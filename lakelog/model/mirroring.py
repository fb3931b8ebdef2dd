"""Records that keep the partitions, offsets and timestamps of the log that they come from. Values; no I/O.

A mirrored log ends where the reading of its source ended: that is the reader's checkpoint, committed with the records. Between its records there may
be holes: what a source's cleaner removed, markers of transactions, records that were put aside.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from lakelog.errors import ExpectedOffsetMismatch, InvalidRequest, Refused
from lakelog.model.segments import Piece, Share, Tail, place


@dataclass(frozen=True)
class Mirrored:
    """What was read of a source: ``spans`` are partition to [first offset, end offset); a record's own offset is its place in the log.

    ``source`` is the identity that the log knows it by. ``ends``: where the log ended, in partitions of which nothing was read too.
    """

    source: str
    spans: Mapping[int, tuple[int, int]]
    ends: Mapping[int, int] = field(default_factory=dict)

    @property
    def token(self) -> str:
        """A name for the append: the same for each try on the same log, whichever partitions have moved at the source since, and wherever it ends."""
        places = {**self.ends, **{index: first for index, (first, _) in self.spans.items()}}
        return f"mirror of {self.source} from {','.join(f'{index}:{first}' for index, first in sorted(places.items()))}"

    def pieces(self, tails: Mapping[int, Tail], shares: Mapping[int, Share], *, segment_bytes: int, segment_ms: int) -> dict[int, Piece]:
        """Where the records go: each partition that was read ends at its span's end, with or without records.

        Raises:
            ExpectedOffsetMismatch: a partition's log does not end where the reading began: another process was first.
            InvalidRequest: there are records of a partition that was not read.
        """
        strange = sorted(set(shares) - set(self.spans))
        if strange:
            raise InvalidRequest(f"There are records of partition {strange[0]}, of which nothing was to be read. Nothing was written.")
        found = {}
        for index, (first, end) in sorted(self.spans.items()):
            tail = tails[index]
            if tail.end != first:
                raise ExpectedOffsetMismatch(
                    f"partition {index} of the log ends at {tail.end}, what was read of its source begins at {first}: another process was first."
                    " Nothing was written; run again.", partition=index, record=0, expected=first, actual=tail.end, duplicate_of=None,
                )  # fmt: skip
            if end > first:
                share = shares.get(index, Share(index, 0, 0, 0, 0))
                piece = place(tail, share, segment_bytes=segment_bytes, segment_ms=segment_ms)
                if not share.records:
                    # Its times are those of no record.
                    piece = replace(piece, first_ms=None if piece.rolls or tail.first_ms is None else tail.first_ms)
                found[index] = replace(piece, end=end, holes=end - first - share.records)
        return found


def placed(
    tails: Mapping[int, Tail], shares: Mapping[int, Share], mirrored: Mirrored | None, *, segment_bytes: int, segment_ms: int
) -> dict[int, Piece]:
    """Where a batch's share of each partition goes: behind the log's end, or to the offsets of its source."""
    if mirrored is not None:
        return mirrored.pieces(tails, shares, segment_bytes=segment_bytes, segment_ms=segment_ms)
    return {
        index: place(tails[index], share, segment_bytes=segment_bytes, segment_ms=segment_ms) for index, share in sorted(shares.items())
    }


def require_writer(log: object, tails: Mapping[int, Tail], mirrored: Mirrored | None) -> None:
    """Refuse what would give a mirrored log offsets that its source gives too, and records of one source in the mirror of another.

    Raises:
        Refused: LOG_MIRRORED.
    """
    for tail in tails.values():
        known = tail.state.mirror
        if known == (None if mirrored is None else mirrored.source):
            continue
        if known is None:
            raise Refused(
                f"{log}: the log is no mirror of {mirrored.source if mirrored else ''}: its records have offsets of their own. Nothing was written."
                " Mirror the source into a topic that is new and empty.", name="LOG_MIRRORED", expected=None, actual=None,
            )  # fmt: skip
        raise Refused(
            f"{log}: the log mirrors {known}, whose offsets its records keep: other records would take offsets that the source gives too. Nothing was"
            " written. Append at the source, or to another topic.", name="LOG_MIRRORED", expected=known,
            actual=None if mirrored is None else mirrored.source,
        )  # fmt: skip
