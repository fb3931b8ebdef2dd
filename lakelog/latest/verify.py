"""Proof by recomputation: is the log as appends leave it, does it fit what it says of itself, and is silver what an independent fold gives?"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakelog.delta import tables
from lakelog.errors import Damaged, NotFound
from lakelog.latest import merge, recompute
from lakelog.latest.progress import Progress, stored
from lakelog.latest.recompute import Base
from lakelog.log import inspection
from lakelog.log.notes import WHOLE_HISTORY, describe_commit, foreign_commits, since_repair
from lakelog.log.tail import LogEnd, newest_commit, true_end
from lakelog.model import positions
from lakelog.model.log_state import CONFIGURE, TRUNCATE
from lakelog.model.positions import SnapshotPlace
from lakelog.model.segments import Tail
from lakelog.model.topic_log import TopicLog
from lakelog.results import Verified

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Snapshots:
    """A topic's live snapshots, and silver's rows of one of them."""

    live: Sequence[SnapshotPlace]
    rows: Callable[[SnapshotPlace], DataFrame]

    def base(self, end: LogEnd, held: Progress) -> tuple[SnapshotPlace, Base] | None:
        """What stands for the records that the log does not hold: the oldest from whose end it tells everything. None where it holds all,
        or none will do.
        """
        if not end.lacks:
            return None
        states = {index: tail.state for index, tail in end.tails.items()}
        able = [
            one for one in positions.usable(states, end.ends(), self.live) if all(one.ends[index] <= held.next[index] for index in states)
        ]
        for one in able:
            # One whose files are gone proves nothing.
            with contextlib.suppress(NotFound):
                return one, Base(self.rows(one), one.ends)
        return None


def verify(log: TopicLog, snapshots: Snapshots, share: float = 1.0) -> Verified:
    """Look at every commit, every offset, what log and silver say of themselves, and every row, or a share of the keys.

    Args:
        log: the topic.
        snapshots: its live ones; where the log does not hold all records, the oldest from whose end it tells everything stands for what is gone.
            Where deletes beyond each of them have left the log, that is no fault, but nothing is recomputed, and ``unproved`` says so.
        share: of the keys that are recomputed.

    Cost: the history of the log, one pass over the log for its offsets, one fold of the merged part, one full join with silver.
    """
    commits = tables.history(log.spark, log.table, WHOLE_HISTORY)
    problems = [f"another writer changed the log: {describe_commit(row)}" for row in foreign_commits(since_repair(commits))]
    if not problems:
        # What a RESTORE took back, as whoever writes the log next is told.
        problems += _refused(log)
    with tables.door(log.table):
        records, found = inspection.problems(log)
    problems += found
    found, end, base = _state_problems(log, snapshots)
    problems += found
    if end is None or (base is None and end.lacks):
        return Verified(log.name, records, 0, len(commits), problems, share=0.0, unproved=None if problems else _unproved(end))
    compared = recompute.compared(log, base[1] if base else None, share)
    told = str(base[0]) if base else None
    return Verified(log.name, records, compared.keys, len(commits), [*problems, *compared.problems], compared.differences, share, told)


def _refused(log: TopicLog) -> list[str]:
    try:
        newest_commit(log)
    except Damaged as error:
        return [str(error)]
    return []


def _state_problems(log: TopicLog, snapshots: Snapshots) -> tuple[list[str], LogEnd | None, tuple[SnapshotPlace, Base] | None]:
    """What log and silver say of themselves that cannot be; the log's end, None where silver is not to be compared with it; the base."""
    try:
        end = true_end(log)
        held = stored(log.spark, log.silver)
    except (Damaged, NotFound) as error:
        return [str(error)], None, None
    intent = end.intent
    begun = [f"the operation {intent.operation} was begun and is not finished: the next command that writes finishes it"] if intent else []
    if intent is not None and intent.operation not in (CONFIGURE, TRUNCATE):
        return begun, None, None
    found = [f"partition {index}: {text}" for index, tail in sorted(end.tails.items()) for text in _wrong(tail, held.next.get(index))]
    found += begun
    if found:
        return found, end, snapshots.base(end, held)
    try:
        merge.require_same_log(log, held, end)
    except Damaged as error:
        found.append(str(error))
    if held.uuid != log.uuid:
        found.append(f"silver was made for another topic ({held.uuid})")
    if held.rule != log.rule and not held.empty:
        found.append(f"silver was made under the rule {held.rule}, the topic says {log.rule}: run merge with rebuild")
        return found, None, None
    if not log.config.policy("delete"):
        found += _uncovered(end.tails, end, snapshots.live)
    return found, end, snapshots.base(end, held)


def _wrong(tail: Tail, merged: int | None) -> list[str]:
    """What of a partition's state and progress cannot be."""
    state, found = tail.state, []
    firsts = [first for _, first in state.epochs]
    numbers = [number for number, _ in state.epochs]
    if numbers != sorted(set(numbers)) or numbers[-1] != state.epoch or firsts != sorted(firsts) or firsts[-1] > tail.end:
        found.append(f"its epochs {[list(pair) for pair in state.epochs]} do not follow one upon the other up to epoch {state.epoch}")
    if not state.origin <= state.start <= tail.end:
        found.append(f"the log start {state.start} lies outside [{state.origin}, {tail.end}]")
    if max(state.cleaned, state.deletes_from) > tail.end:
        found.append(f"it was cleaned up to {max(state.cleaned, state.deletes_from)}, beyond its end {tail.end}")
    if state.records_from > tail.end:
        found.append(f"it lacks records below {state.records_from}, beyond its end {tail.end}")
    if merged is None:
        found.append("silver has no progress of it")
    elif not state.start <= merged <= tail.end:
        found.append(f"silver holds it up to {merged}, outside the log [{state.start}, {tail.end})")
    return found


def _uncovered(tails: Mapping[int, Tail], end: LogEnd, snapshots: Sequence[SnapshotPlace]) -> list[str]:
    states = {index: tail.state for index, tail in tails.items()}
    gone = [one for one in states.values() if one.lacks]
    if not gone or positions.covering(states, end.ends(), snapshots):
        return []
    return [
        f"{gone[0].gone}, and no snapshot holds them: silver cannot be proved."
        " Take a snapshot of it, if it is sound: what is merged from then on can be proved again"
    ]


def _unproved(end: LogEnd | None) -> str | None:
    gone = [] if end is None else [tail.state for _, tail in sorted(end.tails.items()) if tail.state.lacks]
    if not gone:
        return None
    return (
        f"{gone[0].gone}, and there is no snapshot from whose end on it tells everything:"
        " the latest table was not recomputed. Take a snapshot: what is merged from then on can be proved"
    )
