"""The log start moved up: by ``cleanup.policy=delete`` over whole segments, or to an offset that somebody names (Kafka's DeleteRecords)."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import or_

from lakelog.cleaning import segments
from lakelog.cleaning.plan import PartitionLog, Segment, retained_from
from lakelog.delta import tables
from lakelog.errors import Conflict, OffsetOutOfRange, Refused
from lakelog.log import state
from lakelog.log.tail import LogEnd, log_end
from lakelog.model.log_state import TRUNCATE, Intent
from lakelog.model.topic_log import TopicLog
from lakelog.operations import truncate
from lakelog.operations.truncate import Held

ATTEMPTS = 20


@dataclass(frozen=True)
class Moves:
    """Partition to the log start it is to have, of all; of those that are held, who needs what would go; the logs, where retention looked at them."""

    starts: dict[int, int]
    blocked: dict[int, list[str]]
    logs: Mapping[int, PartitionLog] = field(default_factory=dict)

    def retired(self, before: Mapping[int, int], starts: Mapping[int, int]) -> dict[int, list[Segment]]:
        """The segments that lie between two log starts of each partition: they go as a whole."""
        return {index: [one for one in log.segments if before[index] < one.end <= starts[index]] for index, log in self.logs.items()}


def moves(log: TopicLog, end: LogEnd, held: Held, *, now: int) -> Moves:
    """The log starts that retention asks for. Cost: as `segments.read` under the policy ``delete``; else none."""
    starts = end.starts()
    if not log.config.policy("delete"):
        return Moves(starts, {})
    # A partition that cannot be read has no segments here, and stays as it is: the plan of the clean tells why.
    logs = segments.read_each(log, end)[0].logs
    found = allowed(log, end, {index: retained_from(one, log.config, now=now) for index, one in logs.items()}, held)
    return replace(found, logs=logs)


def allowed(log: TopicLog, end: LogEnd, wanted: Mapping[int, int], held: Held) -> Moves:
    """The log starts that may be: a partition whose log a kept snapshot or a registered reader needs stays as it is."""
    states = {index: tail.state for index, tail in end.tails.items()}
    starts, blocked = end.starts(), dict[int, list[str]]()
    for index, start in sorted(wanted.items()):
        if start > states[index].start:
            found = truncate.blockers(states, end.ends(), {**end.starts(), index: start}, held, versioned=log.rule.versioned)
            if found:
                blocked[index] = found
            else:
                starts[index] = start
    return Moves(starts, blocked)


def move(log: TopicLog, end: LogEnd, starts: Mapping[int, int], merged: Mapping[int, int], *, now: int) -> int:
    """Give partitions their new log starts, then remove what lies below. What is there of records below an earlier start goes too.

    The commit that moves the starts holds the intent of a truncation: where this is cut off behind it, the next writing verb removes the rest.

    Args:
        log: the topic.
        end: the log's end for which the starts were decided; ``merged`` was read after it. A start holds for these states alone: after a restore
            the same offset may lie beyond the log's end, or be that of another record.
        starts: partition to its log start; where none lies above the present one, what is below that is removed, and the state stays.
        merged: partition to the offset up to which the latest table is.
        now: the time in milliseconds.

    Returns:
        How many records went.

    Raises:
        Conflict: other writers changed the log's state since ``end``, were first again and again, or appended what would go and is not merged
            yet; nothing was changed. Or they kept what lies below the new starts from being removed: the message says so.

    Cost: a small file per partition twice; in between as the removal of a truncation.
    """
    if any(start > merged[index] for index, start in starts.items()):
        raise Conflict(f"{log.name}: records were appended meanwhile that are not merged yet. Nothing was changed; try again.")
    state.require_writable(log, end)
    if starts == end.starts():
        return truncate.remove_below(log, end, uuid.uuid4().hex)
    intent = Intent(TRUNCATE, uuid.uuid4().hex)
    known = end
    for _ in range(ATTEMPTS):
        states = {index: tail.state.cut_below(starts[index], intent) for index, tail in known.tails.items()}
        changed = state.change_state(log, known, states, "intent", now=now)
        known = log_end(log, pin=True)
        found = {index: tail.state for index, tail in known.tails.items()}
        # Written all the same where its answer was lost; by now another may have finished it.
        if changed or all(one in (states[index], states[index].next(one.batch, intent=None)) for index, one in found.items()):
            return truncate.carry_out(log, known, intent, now=now)
        if any(one != end.tails[index].state for index, one in found.items() if starts[index] > end.tails[index].state.start):
            raise Conflict(f"{log.name}: the log's state was changed meanwhile. Nothing was changed; try again.")
        state.require_writable(log, known)
    raise Conflict(f"{log.name}: other writers were first {ATTEMPTS} times in a row. Nothing was changed; try again later.")


def lies_below(log: TopicLog, end: LogEnd) -> bool:
    """Whether a log under the policy ``delete`` holds records below its start: an older lakelog left them when it was cut off.

    Cost: none where no log start has moved; else one Spark job over the statistics of the files, which reads those that hold such records.
    """
    moved = {index: tail.state.start for index, tail in end.tails.items() if tail.state.start > tail.state.origin}
    return log.config.policy("delete") and _records_below(log, moved) > 0


def records_below(log: TopicLog, partition: int, start: int) -> int:
    """How many records of a partition lie below an offset. Cost: the offsets of those segments are read."""
    return _records_below(log, {partition: start})


def _records_below(log: TopicLog, starts: Mapping[int, int]) -> int:
    from pyspark.sql import functions as F

    if not starts:
        return 0
    below = [
        (F.col("partition") == index) & F.col("segment").between(0, start) & (F.col("offset") < start) for index, start in starts.items()
    ]
    with tables.door(log.table):
        return tables.read(log.spark, log.table).filter(reduce(or_, below) & F.col("control").isNull()).count()


def require_deletable(log: TopicLog, end: LogEnd, held: Held, partition: int, offset: int) -> int:
    """The log start that `delete_records` is to give a partition.

    Raises:
        Refused: the policy has no ``delete`` (POLICY_VIOLATION), or somebody needs what would go (LOG_HELD).
        OffsetOutOfRange: below -1 or beyond the log's end (SEMANTICS 64).
    """
    if not log.config.policy("delete"):
        policy = log.config.text("cleanup.policy")
        raise Refused(
            f"{log.name}: cleanup.policy={policy}: records are deleted from logs with the policy delete alone. Nothing was changed. Set"
            " cleanup.policy=compact,delete, or truncate to a snapshot.", name="POLICY_VIOLATION", expected="delete", actual=policy,
        )  # fmt: skip
    tail = end.tails[partition]
    if not -1 <= offset <= tail.end:
        raise OffsetOutOfRange(
            f"{log.name}: offset {offset} of partition {partition} lies outside the log [{tail.state.start}, {tail.end}]; -1 is its end. Nothing"
            " was changed.", expected=tail.end, actual=offset,
        )  # fmt: skip
    wanted = tail.end if offset == -1 else offset
    blocked = allowed(log, end, {partition: wanted}, held).blocked.get(partition)
    if blocked:
        raise Refused(
            f"{log.name}: the log is still needed below offset {wanted} of partition {partition}: {'; '.join(blocked)}. Nothing was changed."
            " Wait until the groups have moved on or take their registration away (forget), or delete the snapshots (delete_snapshot).",
            name="LOG_HELD", expected=tail.state.start, actual=wanted, blockers=blocked,
        )  # fmt: skip
    return max(wanted, tail.state.start)
