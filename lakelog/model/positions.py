"""Where a reader stands on a partition's log, and how far its next batch goes. Decisions as values; no I/O.

A reader is at (next offset, epoch). Three things can have happened to what it read before: nothing (VALID), a restore cut some of it away
(DIVERGING: go back to where the histories part), or the log no longer tells all that came after it (SNAPSHOT: load one, then go on from its
end offsets). SEMANTICS 95; the tests are the cases of FORMAT.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from lakelog.model.log_state import PartitionState

VALID, DIVERGING, SNAPSHOT = "VALID", "DIVERGING", "SNAPSHOT"


@dataclass(frozen=True)
class SnapshotPlace:
    """A snapshot as readers need to know it: its epoch and end offsets (exclusive), silver's version; where it is registered its id and name."""

    epoch: int
    ends: Mapping[int, int]
    name: str | None = None
    version: int | None = None
    id: str | None = None

    @property
    def point(self) -> str | int | None:
        """By what it is found: its name, its id, or silver's version."""
        return self.name or self.id or self.version

    @property
    def order(self) -> tuple[int, list[int]]:
        """Snapshots are ordered by epoch, then by end offsets (SEMANTICS 85)."""
        return self.epoch, [end for _, end in sorted(self.ends.items())]

    def __str__(self) -> str:
        """The snapshot as messages name it."""
        ends = ", ".join(f"{index}: {end}" for index, end in sorted(self.ends.items()))
        called = f"the snapshot {self.point}" if self.id else f"version {self.version} of the latest table"
        return f"{called} (epoch {self.epoch}, end offsets {ends})"


@dataclass(frozen=True)
class Answer:
    """Where a reader stands: ``answer``; of DIVERGING the offset and epoch to go back to; of SNAPSHOT the one to load, None where none will do."""

    answer: str
    offset: int | None = None
    epoch: int | None = None
    snapshot: SnapshotPlace | None = None


def epoch_end(state: PartitionState, log_end: int, epoch: int) -> int | None:
    """The offset behind the last record of an epoch; None where the partition's log has no such epoch."""
    for number, (known, _) in enumerate(state.epochs):
        if known == epoch:
            return state.epochs[number + 1][1] if number + 1 < len(state.epochs) else log_end
    return None


def diverged(state: PartitionState, log_end: int, offset: int, epoch: int) -> tuple[int, int] | None:
    """Where a reader's history and the log's part: (offset, epoch) of the largest place both have; None where they do not.

    A reader that shares nothing with the log goes back to its origin.
    """
    end = epoch_end(state, log_end, epoch)
    if end is not None and offset <= end:
        return None
    shared = [known for known, _ in state.epochs if known <= epoch]
    if not shared:
        return state.epochs[0][1], state.epochs[0][0]
    return min(epoch_end(state, log_end, shared[-1]) or 0, offset), shared[-1]


def cut_off(state: PartitionState, log_end: int, offset: int, epoch: int) -> tuple[int, int] | None:
    """`diverged` of a partition of a topic whose epoch is ``epoch``: None where nothing that was read of it is gone.

    A restore leaves an epoch out of a partition's history in which it got no records that stand: who has read no further than its predecessor's
    end has lost nothing, unless there may have been other records in it (`forgotten`).
    """
    back = diverged(state, log_end, offset, epoch)
    return None if back is None or (back[0] == offset and not forgotten(state, offset, epoch)) else back


def forgotten(state: PartitionState, offset: int, epoch: int) -> bool:
    """Whether what a reader of an epoch read below an offset may be other records than the log has, or had, there."""
    return 0 < offset <= state.forgotten and epoch not in dict(state.epochs)


def on_history(states: Mapping[int, PartitionState], log_ends: Mapping[int, int], snapshot: SnapshotPlace) -> bool:
    """Whether a snapshot holds records of the log as it is, and none that a restore cut away."""
    return all(
        index in snapshot.ends and cut_off(state, log_ends[index], snapshot.ends[index], snapshot.epoch) is None
        for index, state in states.items()
    )


def usable(states: Mapping[int, PartitionState], log_ends: Mapping[int, int], snapshots: Sequence[SnapshotPlace]) -> list[SnapshotPlace]:
    """The snapshots from whose end offsets on the log tells everything, oldest first.

    They are `covering`, and end above every delete that left the log and that its other records do not tell.
    """
    found = covering(states, log_ends, snapshots)
    return [one for one in found if all(one.ends[index] >= state.deletes_from for index, state in states.items())]


def covering(states: Mapping[int, PartitionState], log_ends: Mapping[int, int], snapshots: Sequence[SnapshotPlace]) -> list[SnapshotPlace]:
    """The snapshots that hold every record that the log does not, oldest first: they are on this history, and end where it tells all, or above."""
    found = [one for one in snapshots if on_history(states, log_ends, one)]
    found = [one for one in found if all(one.ends[index] >= state.tells_from for index, state in states.items())]
    return sorted(found, key=lambda one: one.order)


def missed(state: PartitionState, offset: int, *, versioned: bool) -> bool:
    """Whether the log no longer tells all that came at or after an offset: records are gone there, or a delete at or after the offset left it.

    A reader at the very beginning of a whole log has seen nothing that could have been deleted. Under a rule with versions that does not help it:
    a record that is older than such a delete may come after it, and the log alone does not tell that it lost.
    """
    if offset == state.origin == state.start and not versioned:
        return offset < state.tells_from
    return offset < max(state.tells_from, state.deletes_from)


def stands(state: PartitionState, log_end: int, offset: int, epoch: int, *, versioned: bool) -> Answer:
    """Where a reader at a position stands, by all that the log says of itself; ``versioned``: whether the topic's rule compares versions.

    Unlike Kafka's log, which forgets the epochs below its start, lakelog's keeps all of them: whoever stands at the log start with an epoch
    whose history is the log's goes on, whatever epoch the oldest snapshot is of (compare `fetch`). SNAPSHOT comes without one: which it is, is
    asked when it is needed.
    """
    if missed(state, offset, versioned=versioned):
        return Answer(SNAPSHOT)
    if offset == state.origin == state.start:
        return Answer(VALID)
    back = cut_off(state, log_end, offset, epoch)
    if back is None:
        return Answer(VALID)
    return Answer(SNAPSHOT) if missed(state, back[0], versioned=versioned) or forgotten(state, back[0], epoch) else Answer(DIVERGING, *back)


def fetch(state: PartitionState, log_end: int, offset: int, epoch: int, snapshots: Callable[[], Sequence[SnapshotPlace]]) -> Answer:
    """Where a replica at (next offset, epoch of its last record) stands, as KIP-630 has it (SEMANTICS 95).

    By its letter a replica at the very beginning of a whole log is VALID, whatever the topic's rule (compare `missed`).

    Args:
        state: of the partition.
        log_end: of the partition.
        offset: the next offset it would read.
        epoch: of the last record it read.
        snapshots: those that are `usable`, oldest first; called where they matter.

    Returns:
        The answer; SNAPSHOT without one where none will do.
    """
    if missed(state, offset, versioned=False):
        return Answer(SNAPSHOT, snapshot=next(reversed(snapshots()), None))
    if offset == state.origin == state.start:
        return Answer(VALID)
    if (offset == state.start or epoch < state.epoch) and (known := snapshots()):
        oldest = known[0].epoch
        if epoch < oldest or (offset == state.start and epoch != oldest):
            return Answer(SNAPSHOT, snapshot=known[-1])
    back = diverged(state, log_end, offset, epoch)
    if back is not None and forgotten(state, back[0], epoch):
        return Answer(SNAPSHOT, snapshot=next(reversed(snapshots()), None))
    return Answer(VALID) if back is None else Answer(DIVERGING, *back)


def next_ends(starts: Mapping[int, int], log_ends: Mapping[int, int], most: int | None) -> dict[int, int]:
    """Where the next batch of a reader ends: at the log's end, or after at most ``most`` offsets, shared evenly among partitions that wait.

    Where records were removed an offset holds none, so that a batch may have fewer.
    """
    waiting = {index: log_ends[index] - start for index, start in starts.items() if log_ends[index] > start}
    if most is None or sum(waiting.values()) <= most:
        return {index: max(log_ends[index], start) for index, start in starts.items()}
    given, left = dict.fromkeys(waiting, 0), most
    for place, (index, size) in enumerate(sorted(waiting.items(), key=lambda item: (item[1], item[0]))):
        share = -(-left // (len(waiting) - place))
        given[index] = min(size, share)
        left -= given[index]
    return {index: start + given.get(index, 0) for index, start in starts.items()}
