"""The log's state (model/log_state.py): how it is changed, and what may be done in it."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from lakelog.delta import table_properties, tables
from lakelog.delta.lock import LOCKED
from lakelog.errors import Conflict, InvalidConfig, LogIncomplete
from lakelog.log import guard, inspection
from lakelog.log.notes import note
from lakelog.log.rows import STATE_SEGMENT, control_frame
from lakelog.log.tail import LogEnd, log_end
from lakelog.model.log_state import Intent, PartitionState
from lakelog.model.topic_log import TopicLog

ATTEMPTS = 20


def state_row(state: PartitionState, topic: str) -> tuple[Any, ...]:
    """A partition's state as a control row."""
    return (state.partition, STATE_SEGMENT, state.row_offset, True, state.epoch, state.batch, state.to_json(topic))


def state_note(kind: str, states: Mapping[int, PartitionState], *, ends: Mapping[int, int], checked: int, **more: Any) -> str:
    """The note of a commit that writes new state rows: it names one of them."""
    first = min(states)
    return note(
        kind, ends=ends, checked=checked, epoch=max(one.epoch for one in states.values()), state=[first, states[first].batch], **more
    )  # fmt: skip


def change_state(
    log: TopicLog,
    end: LogEnd,
    states: Mapping[int, PartitionState],
    kind: str,
    *,
    now: int,
    more: Sequence[tuple[Any, ...]] = (),
    of_state: bool = True,
) -> int | None:
    """Write new state rows of partitions in one commit; appends that are under way conflict with it.

    Args:
        log: the topic's log.
        end: the log's end as known, with the state rows that the new ones follow.
        states: partition to its new state.
        kind: what the commit is, for its note.
        now: the time in milliseconds.
        more: control rows that go with them.
        of_state: only the state must be as known, not the log's end.

    Returns:
        Bronze's version; None when that is no longer as known, then nothing was written: read it again.

    Raises:
        Conflict: another writer holds the table's lock too long.

    Cost: one Spark job for the guard, one for the write, a small file per partition.
    """
    rows = [*(state_row(state, log.uuid) for state in states.values()), *more]
    text = state_note(kind, states, id=uuid.uuid4().hex, checked=end.version, ends=end.ends())
    known = {index: end.tails[index] for index in states}
    try:
        frame = control_frame(log.spark, log.types, rows, now)
        return guard.insert(log, frame, known, None, now=now, count=len(rows), user_metadata=text, of_state=of_state)
    except Conflict as error:
        if error.name == LOCKED:
            raise
        return None


def require_writable(log: TopicLog, end: LogEnd) -> None:
    """Refuse to write a log of an older format, or one in the middle of an operation over several tables.

    Raises:
        InvalidConfig: the format is 1.
        Conflict: the operation is named; the next writing verb finishes it.
    """
    if end.format < table_properties.FORMAT_VERSION:
        raise InvalidConfig(
            f"{log.table}: the log has the format {end.format}, this lakelog writes format {table_properties.FORMAT_VERSION}. Run lake upgrade"
            " once; until then the topic can be read."
        )
    if end.intent is not None:
        raise Conflict(
            f"{log.table}: the operation {end.intent.operation} is under way, or was cut off. Nothing was written; try again: the next writing"
            " command finishes it."
        )


def require_whole(log: TopicLog, name: str, end: LogEnd, *, remedy: str = "") -> None:
    """Refuse what needs every record ever appended when the log lacks one (SEMANTICS Q17); ``remedy`` is what to do then. Cost: one count over the log.

    Raises:
        LogIncomplete: naming the partition.
    """
    for index, tail in sorted(end.tails.items()):
        state = tail.state
        if not state.whole:
            raise LogIncomplete(
                f"{name}: partition {index} of the log began at offset {state.origin}; it starts at {state.start} now and records below"
                f" {max(state.start, state.cleaned)} were removed: those that could win under another rule may be gone. Nothing was changed.{remedy}",
                expected=state.origin, actual=max(state.start, state.cleaned), partition=index,
            )  # fmt: skip
    with tables.door(log.table):
        _, found = inspection.problems(log)
    if found:
        raise LogIncomplete(f"{name}: the log is not whole: {'; '.join(found[:3])}. Nothing was changed. Run verify.")


def close(log: TopicLog, intent: Intent, *, now: int, known: LogEnd | None = None) -> None:
    """Say that an operation is done; nothing where somebody else has said so. ``known``: the log's end as it was seen last.

    Raises:
        Conflict: other operations were first again and again.
    """
    for _ in range(ATTEMPTS):
        end = log_end(log, known=known)
        if end.intent is None or end.intent.id != intent.id:
            return
        states = {index: tail.state.next(uuid.uuid4().hex, intent=None) for index, tail in end.tails.items()}
        if change_state(log, end, states, "done", now=now):
            return
    raise Conflict(f"{log.name}: {intent.operation} is done, but other writers kept it from saying so. Any writing command goes on.")
