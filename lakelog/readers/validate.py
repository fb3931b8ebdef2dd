"""Where a reader at a position stands: it goes on, goes back, or loads a snapshot; and the refusal of a read that would not tell all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lakelog.errors import FencedEpoch, InvalidRequest, OffsetOutOfRange
from lakelog.log.tail import LogEnd
from lakelog.model import positions
from lakelog.model.positions import DIVERGING, SNAPSHOT, VALID, Answer, SnapshotPlace
from lakelog.model.topic_log import TopicLog
from lakelog.reader_results import Position, Validated

Snapshots = Callable[[], Sequence[SnapshotPlace]]


def fetch(log: TopicLog, end: LogEnd, partition: int, offset: int, epoch: int, snapshots: Snapshots) -> Validated:
    """Where a replica of one partition at (next offset, epoch of its last record) stands, as KIP-630 has it (SEMANTICS 95).

    Args:
        log: the topic.
        end: the log's end.
        partition: its number.
        offset: the next offset it would read.
        epoch: of the last record it has read.
        snapshots: the topic's live ones; called where the answer depends on them.

    Raises:
        InvalidRequest: no such partition, or an epoch above the topic's.
        OffsetOutOfRange: the log no longer tells all from there on, and there is no snapshot to load.
    """
    _require_partition(log, partition)
    _require_epoch(log, end, epoch)
    if offset < 0:
        raise _out_of_range(log, end, partition, offset, None)
    tail = end.tails[partition]
    found = positions.fetch(tail.state, tail.end, offset, epoch, lambda: usable(end, snapshots))
    if found.answer == SNAPSHOT and found.snapshot is None:
        raise _out_of_range(log, end, partition, offset, None)
    return _said(log, found)


def validate(log: TopicLog, end: LogEnd, position: Position, snapshots: Snapshots) -> Validated:
    """Where a reader at a position stands, over all partitions: SNAPSHOT where one of them needs it, else DIVERGING where one does.

    Args:
        log: the topic.
        end: the log's end.
        position: of every partition.
        snapshots: the topic's live ones; called where the answer is SNAPSHOT.

    Raises:
        InvalidRequest: the position is another topic's, lacks partitions, or its epoch is above the topic's.
        OffsetOutOfRange: an offset below 0.
    """
    _require_fitting(log, end, position)
    found = {index: _stands(log, position, index, end) for index in end.tails}
    if any(one.answer == SNAPSHOT for one in found.values()):
        return _said(log, Answer(SNAPSHOT, snapshot=next(reversed(usable(end, snapshots)), None)))
    if any(one.answer == DIVERGING for one in found.values()):
        back = {index: position.offsets[index] if one.offset is None else one.offset for index, one in found.items()}
        return Validated(log.name, DIVERGING, position=Position(back, end.epoch, log.uuid))
    return Validated(log.name, VALID)


def require_valid(log: TopicLog, end: LogEnd, position: Position, snapshots: Snapshots) -> None:
    """Refuse a position from which the log does not tell all that came after it.

    Raises:
        FencedEpoch: a restore cut away what was read; ``expected`` is the position to go back to.
        OffsetOutOfRange: records or a delete after the position have left the log; it names the snapshot to load.
        InvalidRequest: as `validate`.
    """
    beyond = [
        (index, offset) for index, offset in position.offsets.items()
        if index in end.tails and position.epoch == end.tails[index].epoch and offset > end.tails[index].end
    ]  # fmt: skip
    _require_fitting(log, end, position)
    if beyond:
        raise _out_of_range(log, end, *beyond[0], None)
    found = validate(log, end, position, snapshots)
    if found.position is not None:
        back = found.position.offsets
        index = next((index for index in sorted(back) if back[index] != position.offsets[index]), min(back))
        raise FencedEpoch(
            f"{log.name}: the log was restored since epoch {position.epoch}: what was read of partition {index} from offset {back[index]} on is no"
            f" longer in it. Undo what came of it and go on from {found.position.to_json()}, or bootstrap anew.",
            expected=found.position.to_dict(), actual=position.to_dict(), partition=index, offset=back[index], epoch=end.epoch,
        )  # fmt: skip
    if found.answer == SNAPSHOT:
        index = next(index for index, tail in sorted(end.tails.items()) if _stands(log, position, index, end).answer == SNAPSHOT)
        place = None if found.ends is None else SnapshotPlace(found.epoch or 0, found.ends, version=found.version, id=found.snapshot)
        raise _out_of_range(log, end, index, position.offsets[index], place)


def require_within(log: TopicLog, end: LogEnd, partition: int | None, offset: int, snapshots: Snapshots) -> None:
    """Refuse an offset that the log of a partition does not reach, or with None that of no partition.

    Args:
        log: the topic.
        end: the log's end.
        partition: its number, or None.
        offset: where the read is to begin.
        snapshots: the topic's live ones; called where the offset lies below the log start.

    Raises:
        OffsetOutOfRange: below the log start it names the snapshot to load.
    """
    wanted = sorted(end.tails) if partition is None else [partition]
    first, last = min(wanted, key=lambda index: end.tails[index].state.start), max(wanted, key=lambda index: end.tails[index].end)
    if offset > end.tails[last].end:
        raise _out_of_range(log, end, last, offset, None)
    if offset < end.tails[first].state.start:
        raise _out_of_range(log, end, first, offset, next(reversed(usable(end, snapshots)), None))


def usable(end: LogEnd, snapshots: Snapshots) -> list[SnapshotPlace]:
    """The snapshots from whose end offsets on the log tells everything, oldest first."""
    return positions.usable({index: tail.state for index, tail in end.tails.items()}, end.ends(), snapshots())


def _stands(log: TopicLog, position: Position, index: int, end: LogEnd) -> Answer:
    tail = end.tails[index]
    return positions.stands(tail.state, tail.end, position.offsets[index], position.epoch, versioned=log.rule.versioned)


def _said(log: TopicLog, found: Answer) -> Validated:
    one = found.snapshot
    if one is None:
        return Validated(log.name, found.answer, found.offset, found.epoch)
    return Validated(
        log.name, found.answer, epoch=one.epoch, snapshot=one.name or one.id, ends=dict(sorted(one.ends.items())), version=one.version
    )


def _require_fitting(log: TopicLog, end: LogEnd, position: Position) -> None:
    if position.uuid is not None and position.uuid != log.uuid:
        raise InvalidRequest(
            f"{log.name}: the position is another topic's (that of {position.uuid}): this one was made anew, or has the same name."
        )
    if set(position.offsets) != set(range(log.partitions)):
        raise InvalidRequest(
            f"{log.name}: a position has an offset for every partition, 0 to {log.partitions - 1}; this one has {sorted(position.offsets)}."
        )
    _require_epoch(log, end, position.epoch)
    for index, offset in sorted(position.offsets.items()):
        if offset < 0:
            raise _out_of_range(log, end, index, offset, None)


def _require_partition(log: TopicLog, partition: int) -> None:
    if not 0 <= partition < log.partitions:
        raise InvalidRequest(f"{log.name}: there is no partition {partition}; partitions are 0 to {log.partitions - 1}.")


def _require_epoch(log: TopicLog, end: LogEnd, epoch: int) -> None:
    if epoch > end.epoch or epoch < 0:
        raise InvalidRequest(f"{log.name}: epoch {epoch}: the topic is in epoch {end.epoch}.")


def _out_of_range(log: TopicLog, end: LogEnd, partition: int, offset: int, snapshot: SnapshotPlace | None) -> OffsetOutOfRange:
    """The refusal of a read, with what is to be done."""
    tail = end.tails[partition]
    start, log_end, deletes_from = tail.state.start, tail.end, tail.state.deletes_from
    why = f"the log of partition {partition} holds offsets [{start}, {log_end})"
    if start <= offset < tail.state.records_from:
        why += f", and records below {tail.state.records_from} are missing from it"
    elif start <= offset < deletes_from:
        why += f", and deletes below {deletes_from} have left it: one may have been missed"
    todo = ""
    if offset < max(tail.state.tells_from, deletes_from):
        todo = (
            " Bootstrap: load the latest table and go on from where it ends."
            if snapshot is None
            else f" Load {snapshot}, and go on from its end."
        )
    more: dict[str, Any] = {}
    if snapshot is not None:
        more = {"snapshot": snapshot.point, "version": snapshot.version, "ends": dict(snapshot.ends), "epoch": snapshot.epoch}
    return OffsetOutOfRange(
        f"{log.name}: offset {offset} is out of range: {why}.{todo}", partition=partition, offset=offset, start=start, end=log_end,
        deletes_from=deletes_from, **more,
    )  # fmt: skip
