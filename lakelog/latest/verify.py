"""Proof by recomputation: is the log as appends leave it, does it fit what it says of itself, and is silver what an independent fold gives?"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakelog.delta import past, tables
from lakelog.errors import Damaged, NotFound
from lakelog.latest import erased, evolution, merge, recompute
from lakelog.latest.control_rows import control_rows_of
from lakelog.latest.erased import Erasure
from lakelog.latest.progress import Progress, from_control_rows
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


# So often a moment is looked for at which nobody writes silver.
LOOKS = 5


@dataclass(frozen=True)
class View:
    """Log and latest table of one moment, each at a version, and the keys that were erased by then."""

    end: LogEnd
    held: Progress
    gone: Sequence[Erasure]

    @classmethod
    def of(cls, log: TopicLog) -> View:
        """The log's end by its rows (`true_end`), and how far silver is by its own.

        Raises:
            NotFound: silver is gone.
            Damaged: the log has no state, or silver does not say how far it is.

        Cost: looks at newest commits; where the lake has erasures a small Spark job; as `true_end`, and two small Spark jobs.
        """
        for _ in range(LOOKS):
            version = tables.newest_version(log.spark, log.silver)
            gone, at = erased.entries(log.spark, log.root, log.uuid), tables.newest_version(log.spark, log.table)
            if tables.newest_version(log.spark, log.silver) == version:
                break
        # Where others write silver again and again: it was looked at before the log, which so holds what silver does.
        rows = control_rows_of(past.pinned(log.spark, log.silver, version), log.silver)
        return cls(true_end(log, at=at), from_control_rows(log.silver, rows, version), gone)


@dataclass(frozen=True)
class Chosen:
    """The snapshot that stands for what the log does not hold, None where it holds all, or none will do; ``lost``: those that cannot be read."""

    place: SnapshotPlace | None = None
    base: Base | None = None
    lost: Sequence[SnapshotPlace] = ()


@dataclass(frozen=True)
class Snapshots:
    """A topic's live snapshots, and silver's rows of one of them, which raise `NotFound` where they are gone, `Damaged` where its control rows are."""

    live: Sequence[SnapshotPlace]
    rows: Callable[[SnapshotPlace], DataFrame]

    def base(self, log: TopicLog, view: View) -> Chosen:
        """What stands for the records that the log does not hold: the oldest from whose end it tells everything, without keys erased since."""
        end, held = view.end, view.held
        if not end.lacks:
            return Chosen()
        states = {index: tail.state for index, tail in end.tails.items()}
        able = [
            one
            for one in positions.usable(states, end.ends(), self.live)
            if all(one.ends[index] <= held.next.get(index, -1) for index in states)
        ]
        for tried, one in enumerate(able):
            # One whose files are gone proves nothing, be they its rows' or those that say how far it is.
            with contextlib.suppress(NotFound, Damaged):
                return Chosen(one, Base(erased.without(self.rows(one), log.uuid, view.gone), one.ends), able[:tried])
        return Chosen(lost=able)


def verify(log: TopicLog, snapshots: Snapshots, share: float = 1.0) -> Verified:
    """Look at every commit, every offset, what log and silver say of themselves, and every row, or a share of the keys.

    Args:
        log: the topic.
        snapshots: its live ones; where the log does not hold all records, the oldest from whose end it tells everything stands for what is gone.
            Where deletes beyond each of them have left the log, that is no fault, but nothing is recomputed, and ``unproved`` says so: only that the
            files of silver are there is looked at, and that no key stands twice.
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
    found, view = _state_problems(log)
    problems += found
    if view is None:
        return Verified(log.name, records, 0, len(commits), problems, share=0.0)
    chosen = snapshots.base(log, view)
    if not log.config.policy("delete"):
        problems += _uncovered(view.end, [one for one in snapshots.live if one not in chosen.lost], chosen.lost)
    if chosen.base is None and view.end.lacks:
        problems += recompute.twice(log, view.held)
        unproved = None if problems else _unproved(view.end, chosen.lost)
        return Verified(log.name, records, 0, len(commits), problems, share=0.0, unproved=unproved)
    compared = recompute.compared(log, view.held, view.end, chosen.base, share)
    told = None if chosen.place is None else str(chosen.place)
    return Verified(log.name, records, compared.keys, len(commits), [*problems, *compared.problems], compared.differences, share, told)


def _refused(log: TopicLog) -> list[str]:
    try:
        newest_commit(log)
    except Damaged as error:
        return [str(error)]
    return []


def _state_problems(log: TopicLog) -> tuple[list[str], View | None]:
    """What log and silver say of themselves that cannot be; both as they were looked at, None where they are not to be compared."""
    try:
        view = View.of(log)
    except (Damaged, NotFound) as error:
        return [str(error)], None
    end, held = view.end, view.held
    intent = end.intent
    begun = [f"the operation {intent.operation} was begun and is not finished: the next command that writes finishes it"] if intent else []
    if intent is not None and intent.operation not in (CONFIGURE, TRUNCATE):
        return begun, None
    found = [f"partition {index}: {text}" for index, tail in sorted(end.tails.items()) for text in _wrong(tail, held.next.get(index))]
    found += begun
    if found:
        return found, view
    for look in (lambda: merge.require_same_log(log, held, end), lambda: evolution.require_own(log, held.version)):
        try:
            look()
        except Damaged as error:
            found.append(str(error))
    if held.uuid != log.uuid:
        found.append(f"silver was made for another topic ({held.uuid})")
    if held.rule != log.rule and not held.empty:
        found.append(f"silver was made under the rule {held.rule}, the topic says {log.rule}: run merge with rebuild")
        return found, None
    return found, view


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


def _uncovered(end: LogEnd, snapshots: Sequence[SnapshotPlace], lost: Sequence[SnapshotPlace]) -> list[str]:
    """That nothing stands for what the log does not hold: no snapshot, or ``lost`` ones alone."""
    states = {index: tail.state for index, tail in end.tails.items()}
    gone = [one for one in states.values() if one.lacks]
    if not gone or positions.covering(states, end.ends(), snapshots):
        return []
    return [
        f"{gone[0].gone}, and {_no_snapshot(lost)} holds them: silver cannot be proved."
        " Take a snapshot of it, if it is sound: what is merged from then on can be proved again"
    ]


def _no_snapshot(lost: Sequence[SnapshotPlace]) -> str:
    """What sentences call the snapshot that is missing: there is none, or the files of those that there are (``lost``) are gone."""
    named = ", ".join(str(one.point) for one in lost)
    return f"no snapshot whose files are there (those of {named} are gone, some or all)" if lost else "no snapshot"


def _unproved(end: LogEnd, lost: Sequence[SnapshotPlace]) -> str | None:
    gone = [tail.state for _, tail in sorted(end.tails.items()) if tail.state.lacks]
    if not gone:
        return None
    return (
        f"{gone[0].gone}, and there is {_no_snapshot(lost)} from whose end on it tells everything:"
        " the latest table was not recomputed. Take a snapshot: what is merged from then on can be proved"
    )
