"""Active segments closed without an append: by hand, or because they are old and nothing is appended to them."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace

from lakelog.errors import Conflict
from lakelog.log import state
from lakelog.log.tail import LogEnd, log_end
from lakelog.model.segments import Tail
from lakelog.model.topic_log import TopicLog

ATTEMPTS = 20


def has_records(tail: Tail) -> bool:
    """Whether the active segment holds an append."""
    return tail.batch is not None and tail.active < tail.end


def is_old(tail: Tail, roll_ms: int, now: int) -> bool:
    """Whether the active segment began longer ago than segments last (``segment.ms``, ``max.compaction.lag.ms``)."""
    return tail.first_ms is not None and now - tail.first_ms > roll_ms


def closed(end: LogEnd, which: Callable[[Tail], bool]) -> dict[int, Tail]:
    """The tails whose active segment holds records and is meant."""
    return {index: tail for index, tail in end.tails.items() if has_records(tail) and which(tail)}


def rolled(end: LogEnd, which: Callable[[Tail], bool]) -> LogEnd:
    """The log's end as `roll` would leave it; nothing is written."""
    tails = {index: replace(tail, state=replace(tail.state, rolled=tail.end)) for index, tail in closed(end, which).items()}
    return replace(end, tails={**end.tails, **tails})


def roll(log: TopicLog, which: Callable[[Tail], bool], *, now: int) -> dict[int, int]:
    """Close the active segments that hold records and are meant; the next append begins a new one.

    Returns:
        Partition to the base offset of the next segment.

    Raises:
        Conflict: other writers were first again and again; nothing was changed.

    Cost: where a segment is closed a small file per partition; appends under way try again.
    """
    for _ in range(ATTEMPTS):
        end = log_end(log, pin=True)
        state.require_writable(log, end)
        tails = closed(end, which)
        states = {index: tail.state.next(uuid.uuid4().hex, rolled=tail.end) for index, tail in tails.items()}
        if not states or state.change_state(log, end, states, "roll", now=now):
            return {index: tail.end for index, tail in sorted(tails.items())}
    raise Conflict(f"{log.name}: other writers were first {ATTEMPTS} times in a row. Nothing was changed; try again later.")
