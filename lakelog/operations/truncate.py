"""The log cut off below a snapshot: its start moves to the snapshot's end offsets, and what lies below is removed.

The log start moves in the commit that announces the operation, so a reader sees the log either as it was or as it will be; the files go after
that, closed segments as whole directories. The snapshot and the log from there on hold all that is lost (KIP-630; SEMANTICS 92-94, 101).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from lakelog.delta import frames, past, tables
from lakelog.errors import Conflict, Damaged, OffsetOutOfRange, Refused
from lakelog.latest.progress import progress
from lakelog.log import cut, state
from lakelog.log.notes import note
from lakelog.log.tail import LogEnd, log_end
from lakelog.model import positions
from lakelog.model.log_state import TRUNCATE, Intent, PartitionState
from lakelog.model.positions import SnapshotPlace
from lakelog.model.topic_log import TopicLog
from lakelog.reader_results import Truncated
from lakelog.readers.positions import Registration

Holders = Callable[[], "Held"]
ATTEMPTS = 20


@dataclass(frozen=True)
class Held:
    """Who may need the log: live snapshots, those among them that are kept by name, and registered readers that hold it."""

    snapshots: Sequence[SnapshotPlace]
    kept: Sequence[SnapshotPlace]
    readers: Sequence[Registration]


def new_starts(states: Mapping[int, PartitionState], snapshot: SnapshotPlace) -> dict[int, int]:
    """Partition to the log start after a truncation to a snapshot: its end offset; a start beyond that stays."""
    return {index: max(one.start, snapshot.ends[index]) for index, one in sorted(states.items())}


def blockers(
    states: Mapping[int, PartitionState], log_ends: Mapping[int, int], starts: Mapping[int, int], held: Held, *, versioned: bool
) -> list[str]:
    """Who still needs what would go, a sentence each: it can be read from there now, and could not any more.

    A reader of a history that a restore cut off needs the log from where it has to go back to. A reader or snapshot from which the log does not
    tell everything as it is, or a snapshot of a history that a restore cut off, needs nothing of it.
    """
    found = []
    for reader in held.readers:
        at = {index: reader.position.offsets.get(index, 0) for index in states}
        stands = {
            index: positions.stands(one, log_ends[index], at[index], reader.position.epoch, versioned=versioned)
            for index, one in states.items()
        }
        needed = {index: at[index] if one.offset is None else one.offset for index, one in stands.items()}
        gone = next((index for index, offset in needed.items() if offset < starts[index]), None)
        if gone is not None and all(one.answer != positions.SNAPSHOT for one in stands.values()):
            back = "" if needed[gone] == at[gone] else f", and has to go back to {needed[gone]}"
            found.append(f"the group {reader.group} is at offset {at[gone]} of partition {gone}{back}")
    for one in held.kept:
        lost = [index for index, end in starts.items() if one.ends[index] < end]
        told = all(one.ends[index] >= max(held_.tells_from, held_.deletes_from) for index, held_ in states.items())
        if lost and told and positions.on_history(states, log_ends, one):
            found.append(f"{one} is kept, and needs the log from offset {one.ends[lost[0]]} of partition {lost[0]} on")
    return found


def require_covered(log: TopicLog, end: LogEnd, held: Held) -> None:
    """Refuse to delete anything of a log that lacks records while no snapshot holds them: what went cannot be made up for.

    Under ``cleanup.policy=delete`` records go without a snapshot.

    Raises:
        Damaged: naming the partition. (SEMANTICS 101)
    """
    states = {index: tail.state for index, tail in end.tails.items()}
    gone = next((one for one in states.values() if one.lacks), None)
    if gone is not None and not log.config.policy("delete") and not positions.covering(states, end.ends(), held.snapshots):
        raise Damaged(
            f"{log.name}: {gone.gone}, and no snapshot holds them. Nothing was deleted. Take a snapshot of the latest table first, if it is sound"
            " (verify).", expected=gone.origin, actual=gone.tells_from,
        )  # fmt: skip


def truncate(log: TopicLog, snapshot: SnapshotPlace, holders: Holders, *, dry_run: bool, now: int) -> Truncated:
    """Move the log start of every partition to a snapshot's end offset, and remove what lies below.

    Args:
        log: the topic; what the snapshot holds is merged.
        snapshot: a live one.
        holders: tells who may need the log.
        dry_run: say what would be done.
        now: the time in milliseconds.

    Raises:
        OffsetOutOfRange: the snapshot holds records that the log does not: a restore cut them away. Nothing was changed.
        Refused: somebody still needs what would go (LOG_HELD); all are named. Nothing was changed.
        Damaged: as `require_covered`.
        Conflict: writers were first again and again; nothing was changed.

    Cost: one look at the files below the new start (offsets alone), a small file per partition, the removal of whole directories without reading
    them, and of a segment that lies across the new start a rewrite of the files concerned; a small file per partition.
    """
    for _ in range(ATTEMPTS):
        end = log_end(log, pin=True)
        if not dry_run:
            state.require_writable(log, end)
        planned = _planned(log, end, snapshot, holders())
        if dry_run or planned.from_offsets == planned.to_offsets:
            return planned if dry_run else replace(planned, dry_run=False)
        _refuse(log, planned)
        starts = planned.to_offsets
        merged = progress(log, from_rows=True).next
        if any(merged[index] < start for index, start in starts.items()):
            raise Conflict(
                f"{log.name}: the latest table was taken back meanwhile: it holds less than {snapshot}. Nothing was changed; try again."
            )
        intent = Intent(TRUNCATE, uuid.uuid4().hex, {"snapshot": str(snapshot)})
        states = {index: tail.state.cut_below(starts[index], intent) for index, tail in end.tails.items()}
        if state.change_state(log, end, states, "intent", now=now):
            carry_out(log, log_end(log, pin=True), intent, now=now)
            return replace(planned, dry_run=False)
    raise Conflict(f"{log.name}: other writers were first {ATTEMPTS} times in a row. Nothing was changed; try again later.")


def _require_sound(log: TopicLog, end: LogEnd, snapshot: SnapshotPlace, held: Held) -> None:
    """The log is covered where it begins later, and the snapshot holds records of this log alone."""
    require_covered(log, end, held)
    if not positions.on_history({index: tail.state for index, tail in end.tails.items()}, end.ends(), snapshot):
        raise OffsetOutOfRange(
            f"{log.name}: {snapshot} holds records that the log does not: a restore cut them away. Nothing was changed. Truncate to a snapshot of"
            " the present log.", starts=end.starts(), ends=end.ends(), snapshot=dict(snapshot.ends),
        )  # fmt: skip


def require_possible(log: TopicLog, end: LogEnd, snapshot: SnapshotPlace, held: Held) -> None:
    """Refuse a truncation as `truncate` would, by what log and holders say. Cost: none."""
    states = {index: tail.state for index, tail in end.tails.items()}
    _require_sound(log, end, snapshot, held)
    starts = new_starts(states, snapshot)
    blocking = blockers(states, end.ends(), starts, held, versioned=log.rule.versioned)
    _refuse(log, Truncated(log.name, str(snapshot.point), end.starts(), starts, 0, 0, 0, blocking, True, _refusal(snapshot, blocking)))


def _refusal(snapshot: SnapshotPlace, blocking: Sequence[str]) -> str | None:
    """The words in which a truncation is refused; None where nobody needs what would go."""
    if not blocking:
        return None
    return (
        f"the log is still needed below {snapshot}: {'; '.join(blocking)}. Nothing was changed. Wait until the groups have moved on or take their"
        " registration away (forget), delete the snapshots (delete_snapshot), or truncate to an older one."
    )


def _refuse(log: TopicLog, planned: Truncated) -> None:
    if planned.refusal is not None:
        raise Refused(
            f"{log.name}: {planned.refusal}", name="LOG_HELD", expected=planned.from_offsets, actual=planned.to_offsets,
            blockers=planned.blockers,
        )  # fmt: skip


def _planned(log: TopicLog, end: LogEnd, snapshot: SnapshotPlace, held: Held) -> Truncated:
    _require_sound(log, end, snapshot, held)
    states = {index: tail.state for index, tail in end.tails.items()}
    starts = new_starts(states, snapshot)
    found, blocking = _below(log, end, starts), blockers(states, end.ends(), starts, held, versioned=log.rule.versioned)
    return Truncated(
        log.name, str(snapshot.point), end.starts(), starts, sum(one.records for one in found), sum(one.octets for one in found),
        sum(one.whole for one in found), blocking, True, _refusal(snapshot, blocking),
    )  # fmt: skip


@dataclass(frozen=True)
class _Part:
    """What of a segment lies below the new log start: records, octets of the files (by their share of rows), and whether it is all of it."""

    partition: int
    segment: int
    records: int
    octets: int
    whole: bool


def _below(log: TopicLog, end: LogEnd, starts: Mapping[int, int]) -> list[_Part]:
    """The segments with rows below ``starts``. Cost: one Spark job over the offsets of their files."""
    from pyspark.sql import functions as F

    moved = [index for index, tail in end.tails.items() if tail.end and starts[index] > tail.state.origin]
    if not moved:
        return []
    limits = frames.small_frame(log.spark, "l_partition INT, l_start BIGINT", [(index, starts[index]) for index in moved])
    rows = past.pinned(log.spark, log.table, end.version).filter(F.col("partition").isin(moved) & (F.col("segment") >= 0))
    rows = rows.filter(F.col("segment") < max(starts.values())).join(F.broadcast(limits), F.col("partition") == F.col("l_partition"))
    below = F.col("offset") < F.col("l_start")
    files = rows.groupBy("partition", "segment", "_metadata.file_path", "_metadata.file_size").agg(
        F.count(F.lit(1)).alias("rows"), F.count_if(below).alias("rows_below"),
        F.count_if(below & F.col("control").isNull()).alias("records"), F.max("offset").alias("last"),
    )  # fmt: skip
    share = F.col("file_size") * F.col("rows_below") / F.col("rows")
    parts = files.groupBy("partition", "segment").agg(
        F.sum("records").alias("records"), F.sum("rows_below").alias("below"), F.sum(share).cast("bigint").alias("octets"), F.max("last").alias("last")
    )  # fmt: skip
    with tables.door(log.table):
        found = parts.filter("below > 0").orderBy("partition", "segment").collect()
    # The last append of a partition leaves its batch row in the log, so that the log end can be read.
    return [
        _Part(row["partition"], row["segment"], row["records"], row["octets"],
              row["last"] < starts[row["partition"]] and row["last"] < end.tails[row["partition"]].end - 1)
        for row in found
    ]  # fmt: skip


def carry_out(log: TopicLog, end: LogEnd, intent: Intent, *, now: int) -> int:
    """Finish a truncation that was begun: closed segments below the log start go as directories, then what is left below it, then it is closed.

    Again, and nothing changes. Retention and `delete_records` move the log start by the same intent (`lakelog.cleaning.retention`).

    Returns:
        As `remove_below`.
    """
    gone = remove_below(log, end, intent.id)
    state.close(log, intent, now=now)
    return gone


def remove_below(log: TopicLog, end: LogEnd, identity: str) -> int:
    """Remove what lies below the log starts: whole closed segments as directories, then the rest. Again, and nothing changes.

    Returns:
        How many records lay there.

    Raises:
        Conflict: other writers were first again and again.
    """
    for _ in range(ATTEMPTS):
        starts = end.starts()
        parts = _below(log, end, starts)
        text = note("truncate", id=identity, checked=end.version, ends=end.ends())
        try:
            whole = [(one.partition, one.segment) for one in parts if one.whole]
            if whole and not cut.drop(log, end, whole, user_metadata=text):
                end = log_end(log, pin=True)
                continue
            rest = {
                one.partition for one in parts if not one.whole and (one.records or starts[one.partition] < end.tails[one.partition].end)
            }
            if rest:
                cut.remove(log, _rest(end, sorted(rest)), user_metadata=text)
        except Conflict:
            end = log_end(log, pin=True)
            continue
        return sum(one.records for one in parts)
    raise Conflict(
        f"{log.name}: the log start has moved, but other writers kept what is below it from being removed. Any writing command goes on."
    )


def _rest(end: LogEnd, partitions: Sequence[int]) -> str:
    """The rows below the log starts, but for the batch row of a partition's last append.

    A restore may have begun the log anew below these starts meanwhile: what was appended since is of a later epoch.
    """
    each = [
        f"(partition = {index} AND segment < {end.tails[index].state.start} AND offset < {end.tails[index].state.start}"
        f" AND epoch <= {end.tails[index].state.epoch}"
        f" AND NOT (control IS NOT NULL AND offset = {end.tails[index].end - 1}))"
        for index in partitions
    ]
    return f"partition IN ({', '.join(map(str, partitions))}) AND segment >= 0 AND ({' OR '.join(each)})"
