"""The records of one key against each other under an ordering rule: which is the latest, and why each other is not. Values, no I/O."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

# Why a record is not the latest of its key.
OLDER_VERSION, NO_VERSION, EARLIER_OFFSET, BEFORE_DELETE = "older-version", "no-version", "earlier-offset", "before-unversioned-delete"


@dataclass(frozen=True)
class Contender:
    """A record of the key as the rule sees it: ``version`` is its place among the versions of the key's records, None where it has none."""

    offset: int
    version: int | None
    tombstone: bool


@dataclass(frozen=True)
class Outcome:
    """What became of a contender: None and None for the winner, else why it lost, and the offset of the winner.

    ``late_behind``: the offset of the record that was the latest when this one was appended, where it lost to that one already.
    """

    reason: str | None
    lost_to: int | None
    late_behind: int | None


Rank = tuple[int, bool, int, int]


def outcomes(contenders: Sequence[Contender], *, versioned: bool, barriers: bool) -> dict[int, Outcome]:
    """Offset to outcome, of one key in one partition.

    Args:
        contenders: the records, in any order; their offsets differ.
        versioned: the rule has versions; without, the last offset wins.
        barriers: a delete without a version is one before which nothing counts.
    """
    ranks: dict[int, Rank] = {}
    behind: dict[int, int | None] = {}
    barrier, best = -1, None
    for one in sorted(contenders, key=lambda one: one.offset):
        if barriers and one.tombstone and one.version is None:
            barrier = one.offset
        has = versioned and one.version is not None
        ranks[one.offset] = (barrier, has, (one.version or 0) if has else 0, one.offset)
        behind[one.offset] = best if best is not None and ranks[best] > ranks[one.offset] else None
        best = one.offset if behind[one.offset] is None else best
    found = {}
    for offset, rank in ranks.items():
        reason = None if best is None or offset == best else _reason(rank, ranks[best])
        found[offset] = Outcome(reason, None if reason is None else best, behind[offset])
    return found


def _reason(rank: Rank, winner: Rank) -> str:
    if rank[0] < winner[0]:
        return BEFORE_DELETE
    if rank[1] != winner[1]:
        return NO_VERSION
    return OLDER_VERSION if rank[2] < winner[2] else EARLIER_OFFSET
