"""A log that was changed by hand brought back into order: a new epoch at its true end, silver computed anew, and a report of what was done.

Where the log alone cannot give the latest table, a snapshot is brought back and the log from there merged again (replay.py).

What readers, writers and silver know of the log may no longer be so after a RESTORE or a DELETE of bronze: offsets would be given again for
other records. A new epoch tells them apart (SEMANTICS Q19).
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace

from lakelog.delta import tables
from lakelog.errors import Conflict, Damaged, NotFound
from lakelog.latest import erased, evolution, merge, rebuild, recompute
from lakelog.latest.progress import progress
from lakelog.latest.verify import Chosen, Snapshots, View
from lakelog.log import inspection, state
from lakelog.log.tail import LogEnd, log_end, newest_commit, true_end
from lakelog.model.log_state import REPAIR, RESTORE, Intent, PartitionState
from lakelog.model.topic_log import TopicLog
from lakelog.operations import missing, replay
from lakelog.operations.configure import ATTEMPTS
from lakelog.operations.missing import Missing, Spans
from lakelog.readers import positions
from lakelog.results import Repaired
from lakelog.snapshots import epochs, restore
from lakelog.snapshots.plan import KEEP, Target

UNPROVED = (
    "the log does not hold all records, and no snapshot stands for what is gone: the latest table could not be recomputed. Take a snapshot of it, if it"
    " is sound: what is merged from then on can be proved"
)


def new_epoch(log: TopicLog, snapshots: Snapshots, *, now: int) -> Repaired | None:
    """Begin a new epoch at the true end of a log that was changed by hand while an operation is open on it, so that this can be finished on it.

    Returns None, and nothing is changed, where the log is as lakelog left it, or no operation is open but a restore, which a repair gives up.

    Raises:
        Damaged: as `repair`.
        Conflict: writers were first again and again.
    """
    for _ in range(ATTEMPTS):
        try:
            log_end(log)
            return None
        except Damaged as error:
            end, found = true_end(log, error), str(error)
        if end.intent is None or end.intent.operation == RESTORE:
            return None
        records, problems = inspection.problems(log)
        _refuse_foreign(log, problems)
        spans = missing.spans(log, end, problems)
        base = replay.target(log, end, snapshots.live, spans.all) if end.lacks else None
        lacks = Missing(spans, base, alone=not end.lacks)
        epoch, states = _next_epoch(log, end, lacks, uuid.uuid4().hex)
        rows, told = lacks.batch_rows(log, end), lacks.told(log, end, snapshots, now=now)
        if state.change_state(log, end, states, "repair", now=now, more=rows):
            done = [*_begun(epoch, states, rows), f"the operation {end.intent.operation}, which was begun, was finished"]
            done += told
            return Repaired(log.name, [found, *problems], done, epoch, end.ends(), records, None)
    raise Conflict(f"{log.name}: other writers were first {ATTEMPTS} times in a row. Nothing was changed; try again later.")


def repair(
    log: TopicLog, snapshots: Snapshots, *, now: int, unfinished: str | None = None, begun: Repaired | None = None
) -> Repaired:  # fmt: skip
    """Look at everything, and mend what is wrong; nothing is changed where nothing is.

    Args:
        log: the topic.
        snapshots: its live ones.
        now: the time in milliseconds.
        unfinished: why a restore that was begun cannot be finished; it is given up, and the latest table computed anew.
        begun: the new epoch that was begun already (`new_epoch`): the latest table may be of the old one.

    Raises:
        Damaged: records of another writer are in the log; they are named. Nothing was changed.
        LogIncomplete: the log does not begin at its origin, and no snapshot stands for what is gone. Nothing was changed.
        Conflict: writers were first again and again, or began an operation over several tables meanwhile.

    Cost: as `Topic.verify`; then a commit on bronze and a rebuild of silver, or a restore and a merge.
    """
    changed = _changed_by_hand(log, with_silver=unfinished is None and begun is None)
    records, problems = inspection.problems(log)
    changed += problems
    if not changed and unfinished is None:
        return _after(begun, _silver_alone(log, snapshots, now=now))
    _refuse_foreign(log, problems)
    found = [*changed, *([unfinished] if unfinished else [])]
    for _ in range(ATTEMPTS):
        end = true_end(log)
        if end.intent is not None and not (unfinished is not None and end.intent.operation == RESTORE):
            # It would be given up, and whoever carries it out take the repair for its end.
            raise Conflict(f"{log.name}: the operation {end.intent.operation} was begun meanwhile. Nothing was changed; repair again.")
        spans = missing.spans(log, end, problems) if changed else Spans()
        base, forgotten = _base(log, end, snapshots, spans)
        lacks = Missing(spans, base)
        intent = Intent(REPAIR, uuid.uuid4().hex, {}) if base is None else replay.intent_of(base)
        if changed:
            epoch, states = _next_epoch(log, end, lacks, intent.id, intent=intent)
        else:
            epoch, states = end.epoch, {index: tail.state.next(intent.id, intent=intent) for index, tail in end.tails.items()}
        rows, told = lacks.batch_rows(log, end), lacks.told(log, end, snapshots, now=now) if changed else []
        if state.change_state(log, end, states, "repair", now=now, more=rows):
            version = carry_out(log, intent, now=now) if base is None else replay.carry_out(log, intent, now=now)[1]
            done = _begun(epoch if changed else None, states, rows)
            done += ["the restore that was begun was given up: the log stays as it is"] * (unfinished is not None)
            done += [*_told(base, end.ends(), forgotten), *told]
            return _after(begun, Repaired(log.name, found, done, epoch, end.ends(), records, version))
    raise Conflict(f"{log.name}: other writers were first {ATTEMPTS} times in a row. Nothing was changed; try again later.")


def _after(begun: Repaired | None, done: Repaired) -> Repaired:
    """Two parts of one repair as one."""
    if begun is None:
        return done
    return replace(done, problems=[*begun.problems, *done.problems], done=[*begun.done, *done.done], records=begun.records)


def _refuse_foreign(log: TopicLog, problems: Sequence[str]) -> None:
    """Refuse a log that holds records of another writer: they have no place in it."""
    foreign = [text for text in problems if "another writer" in text or "given twice" in text or "no such partition" in text]
    if foreign:
        raise Damaged(
            f"{log.name}: {'; '.join(foreign[:3])}. Take those records out first: RESTORE bronze to the version before the other writer's"
            " commit (DESCRIBE HISTORY names it), append them with lakelog, then repair again. Nothing was changed."
        )


def _next_epoch(
    log: TopicLog, end: LogEnd, lacks: Missing, identity: str, **more: Intent
) -> tuple[int, dict[int, PartitionState]]:  # fmt: skip
    """The epoch that begins at the log's end, above every one that anybody may know, and the state of each partition in it.

    New records must not be taken for others. An operation that is open stays so, unless ``intent`` is another one. Where records are missing in the
    middle, the epochs before it end there: readers that may have read them go back to there. Not below the snapshot that holds them: readers that are
    below its end have to load it, or a later one.
    """
    epoch = 1 + max([epochs.greatest(log, end), *(one.position.epoch for one in positions.registered(log))])
    firsts = {index: tail.end if (hole := lacks.hole(index)) is None else min(hole, tail.end) for index, tail in end.tails.items()}
    return epoch, {
        index: tail.state.next_epoch(
            identity,
            firsts[index],
            number=epoch,
            rolled=min(tail.state.rolled, tail.end),
            cleaned=tail.end if index in lacks.spans.all else tail.state.cleaned,
            records_from=max(tail.state.records_from, lacks.records_from(index)),
            deletes_from=max(tail.state.deletes_from, lacks.records_from(index)),
            # What a RESTORE by hand took away, or brought back, somebody may have read otherwise.
            forgotten=tail.end,
            **more,
        )
        for index, tail in end.tails.items()
    }


def _begun(epoch: int | None, states: Mapping[int, PartitionState], rows: Sequence[object]) -> list[str]:
    """What was done to the log, in sentences: the epoch that was begun, if one was, and the batch rows that were written."""
    done = [
        f"epoch {epoch} begins at offset {one.epochs[-1][1]} of partition {index}"
        for index, one in sorted(states.items())
        if epoch is not None
    ]
    return done + [f"{len(rows)} appends that had lost their batch rows got them back"] * bool(rows)


def carry_out(log: TopicLog, intent: Intent, *, now: int) -> int | None:
    """Finish a repair that was begun, unless somebody else has: silver anew under the log's new epoch. Returns silver's version."""
    for _ in range(ATTEMPTS):
        known = rebuild.found(log)
        end = log_end(log, pin=True)
        if end.intent is None or end.intent.id != intent.id:
            return tables.newest_version(log.spark, log.silver)
        version, _ = rebuild.rebuild(
            log, end.starts(), merge.places(end), known, bronze_version=end.version, now=now, remember=end.deletes_from()
        )
        if version is not None:
            state.close(log, intent, now=now)
            return version
    raise Conflict(f"{log.name}: merges kept the latest table from being computed anew; try again: any writing command goes on.")


def _base(log: TopicLog, end: LogEnd, snapshots: Snapshots, spans: Spans) -> tuple[Target | None, bool]:
    """The snapshot that the latest table must be computed from (None: from the log alone), and whether versions of deleted keys may be forgotten so.

    Where the log is missing records in ``spans``, one that holds them, if there is one.

    Raises:
        LogIncomplete: the log does not hold all records, and no snapshot stands for what is gone.
    """
    states = [tail.state for tail in end.tails.values()]
    expired = log.rule.versioned and any(one.deletes_from > one.origin for one in states) and not _remembers(log, end)
    base = replay.target(log, end, snapshots.live, spans.all) if end.lacks or expired else None
    replay.require_possible(log, end, base)
    return base, expired and base is None


def _remembers(log: TopicLog, end: LogEnd) -> bool:
    """Whether silver is this log's, as far as the deletes that expired, and no further than the log: it remembers their versions."""
    try:
        held = progress(log, from_rows=True)
    except Damaged:
        return False
    return all(tail.state.deletes_from <= held.next[index] <= tail.end for index, tail in end.tails.items())


def _told(base: Target | None, ends: Mapping[int, int], forgotten: bool) -> list[str]:
    if base is not None:
        return [replay.done(base, ends)]
    lost = "versions of deleted keys whose tombstones had expired may be forgotten: a late older record of such a key could bring it back"
    return ["the latest table was computed anew", *[lost] * forgotten]


def _changed_by_hand(log: TopicLog, *, with_silver: bool) -> list[str]:
    """What the log's commits say is wrong, or silver, which remembers what the log held."""
    found = []
    try:
        newest_commit(log)
    except Damaged as error:
        found.append(str(error))
    if with_silver:
        with contextlib.suppress(Damaged):
            merged = progress(log, from_rows=True)
            try:
                merge.require_same_log(log, merged, true_end(log))
            except Damaged as error:
                found.append(str(error))
    return found


def _silver_alone(log: TopicLog, snapshots: Snapshots, *, now: int) -> Repaired:
    """The log is in order: silver is computed anew where it is not what the log gives."""
    for _ in range(ATTEMPTS):
        known = rebuild.found(log)
        end = log_end(log, pin=True)
        state.require_writable(log, end)
        problems, unproved = _of_silver(log, end, snapshots)
        if not problems:
            return Repaired(log.name, [], [UNPROVED] if unproved else [], end.epoch, end.ends(), 0, None)
        base, forgotten = _base(log, end, snapshots, Spans())
        told = _told(base, end.ends(), forgotten)
        if base is not None:
            rows = Missing(Spans(), base).batch_rows(log, end)
            intent = restore.begin(log, base, {}, end, mode=KEEP, now=now, more=rows)
            if intent is not None:
                merged, version = replay.carry_out(log, intent, now=now)
                return Repaired(log.name, problems, told, end.epoch, merged.to_offsets, merged.records, version)
            continue
        version, step = rebuild.rebuild(
            log, end.starts(), merge.places(end), known, bronze_version=end.version, now=now, remember=end.deletes_from()
        )
        if version is not None:
            return Repaired(log.name, problems, told, end.epoch, step.ends, step.total("records"), version)
    raise Conflict(f"{log.name}: merges kept the latest table from being computed anew; try again.")


def _of_silver(log: TopicLog, end: LogEnd, snapshots: Snapshots) -> tuple[list[str], bool]:
    """What is wrong with silver, where the log is in order; where nothing stands for what the log lacks, what silver says of itself, and True.

    Raises:
        LogIncomplete: silver was made under another rule, and the log was cleaned since: it cannot be computed under the present one.
    """
    try:
        held = progress(log, from_rows=True)
        merge.require_same_log(log, held, end)
        merge.require_reached(log, held, end)
        if held.rule != log.rule:
            state.require_whole(log, log.name, end, remedy=merge.not_whole(log, held))
        evolution.require_own(log, held.version)
        chosen = snapshots.base(log, View(end, held, erased.entries(log.spark, log.root, log.uuid))) if end.lacks else Chosen()
        if chosen.base is None and end.lacks:
            problems = recompute.twice(log, held)
            return problems, not problems
        with tables.door(log.silver):
            return recompute.compared(log, held, end, chosen.base).problems, False
    except (Damaged, NotFound) as error:
        return [str(error)], False
