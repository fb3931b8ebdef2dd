"""A clean: planned as a value, then carried out exactly so; each step is one commit, and a clean that is cut off is gone on with by the next one.

The order: the log's state says first what will be missing (cleaned up to, deletes from), then segments are written again, run by run, then
silver's tombstones expire and are stamped, then the checkpoint moves. Until then the partition counts as dirty, and the next clean does the same
again. Nothing that a reader can learn depends on where it was cut off. (SEMANTICS 26-40, 51-54)
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from lakelog.cleaning import dropping, forgetting, segments, winners
from lakelog.cleaning.dropping import Drops
from lakelog.cleaning.plan import ERROR, Decision, PartitionLog, Segment, bounded, decide, groups
from lakelog.cleaning.planned import Plan, without
from lakelog.cleaning.segments import Segments
from lakelog.cleaning.tombstones import Tombstones
from lakelog.delta import frames
from lakelog.delta.lock import LOCKED
from lakelog.errors import Conflict, LakelogError
from lakelog.latest.progress import Progress, progress
from lakelog.log import guard, state
from lakelog.log.notes import note
from lakelog.log.rows import control_frame
from lakelog.log.tail import LogEnd, log_end
from lakelog.model.topic_log import TopicLog

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ATTEMPTS = 20
# Octets of records and segments (a file each) that one commit rewrites at most: on a local disk other writers wait so long.
GROUP_OCTETS, GROUP_SEGMENTS = 64 << 20, 200


def plan(
    log: TopicLog,
    end: LogEnd,
    rows: DataFrame,
    merged: Mapping[int, int],
    *,
    starts: Mapping[int, int] | None = None,
    force: bool,
    max_bytes: int | None,
    now: int,
) -> Plan:
    """Decide what a clean does. Nothing is written. A partition of which a file cannot be read is told (`Plan.errors`), and does not stop the others.

    Args:
        log: the topic.
        end: the log's end, pinned.
        rows: the latest table (`winners`).
        merged: partition to the offset up to which it is; a segment that reaches beyond is left alone, what was appended meanwhile is not in it.
        starts: the log starts that retention would give it, where it has not done so yet.
        force: whatever the dirty ratio.
        max_bytes: as for `bounded`; what is beyond is left to the next clean.
        now: the time in milliseconds.

    Cost: two small Spark jobs over control rows, one over silver's flags; where something may go, the records of those segments are read.
    Where a file cannot be read, as much for each partition.
    """
    held, broken = segments.read_each(log, end)
    if starts:
        held = replace(held, logs={index: replace(one, start=starts[index]) for index, one in held.logs.items()})
    decisions = {index: decide(one, log.config, now=now, force=force) for index, one in held.logs.items()}
    decisions = _merged_alone(_unread(decisions, broken), held, merged)
    if max_bytes is not None:
        decisions = bounded(decisions, held.logs, max_bytes)
    to = {index: one.to for index, one in decisions.items() if one.selected}
    figures: dict[int, dict[str, int]] = {}
    withheld: Mapping[int, Sequence[int]] | None = {}
    late: Mapping[int, Sequence[int]] | None = {}
    if log.config.policy("compact"):
        forget = log.config.number("tombstone.version.retention.ms")
        figures = winners.figures(rows, to, log.partitions, now=now, forget_ms=forget)
        dirty = {index: to.get(index, one.first_dirty) for index, one in decisions.items()}
        if forget == 0 and log.rule.versioned and any(one["expired"] for one in figures.values()):
            late = _withheld(log, end, dirty, forgetting.expiring(log, now=now))
        if any(one["forgotten"] for one in figures.values()):
            withheld = _withheld(log, end, dirty, forgetting.due(log, now=now, forget_ms=forget))
            for index, one in figures.items():
                one["forgotten"] = 0 if withheld is None else max(0, one["forgotten"] - len(withheld.get(index, ())))
    looked_at = {
        index: [segment for segment in _looked_at(one, to.get(index), figures.get(index)) if segment.end <= merged[index]]
        for index, one in held.logs.items()
    }
    found, unread = dropping.drops(log, rows, end, to, looked_at, now=now)
    broken |= unread
    return Plan(end, held, _unread(decisions, broken), found, without(figures, broken), now, withheld, late, merged, broken)


def _unread(decisions: Mapping[int, Decision], broken: Mapping[int, LakelogError]) -> dict[int, Decision]:
    """The decisions where some partitions could not be read: those are left alone."""
    return {index: replace(one, selected=False, reason=ERROR) if index in broken else one for index, one in decisions.items()}


def _withheld(log: TopicLog, end: LogEnd, dirty: Mapping[int, int], rows: DataFrame) -> Mapping[int, Sequence[int]] | None:
    """`forgetting.withheld`; None, so that all stay, where the log cannot be read to its end."""
    try:
        return forgetting.withheld(log, end, dirty, rows)
    except LakelogError:
        return None


def _merged_alone(decisions: Mapping[int, Decision], held: Segments, merged: Mapping[int, int]) -> dict[int, Decision]:
    """The decisions with the cleanable part ending before the first segment that holds a record which is not merged."""
    found = dict(decisions)
    for index, one in decisions.items():
        beyond = min((segment.base for segment in held.logs[index].closed if segment.end > merged[index]), default=one.to)
        if one.selected and beyond < one.to:
            found[index] = replace(one, to=max(one.first_dirty, beyond))
    return found


def _looked_at(log: PartitionLog, to: int | None, figures: Mapping[str, int] | None) -> list[Segment]:
    """The closed segments from which something may go: those of the cleanable part, and those with expired tombstones."""
    first, last = (figures["first"], figures["last"]) if figures else (-1, -1)
    return [
        one for one in log.closed
        if one.records and ((to is not None and one.base < to) or (last >= 0 and one.base <= last and first < one.end))
    ]  # fmt: skip


def carry_out(log: TopicLog, made: Plan, rows: DataFrame, require_rule: Callable[[], None]) -> tuple[Plan, dict[int, LakelogError]]:
    """Do what a plan says. A partition that cannot be cleaned does not stop the others.

    Args:
        log: the topic.
        made: the plan.
        rows: the latest table that it was made from.
        require_rule: raises where the topic or its latest table has another rule than the plan. Asked where something goes: first while nothing is
            written, then once the log's state says that records may be missing, for from then on no other rule is taken and no rebuild begins.

    Returns:
        (the plan as far as it was carried out: where silver was merged meanwhile no version is forgotten, partition to what stopped its cleaning).

    Raises:
        Conflict: the log's state was changed by others again and again, or the rule was changed meanwhile; no record was removed.
    """
    errors = dict(made.errors)
    rewritten: set[tuple[int, int]] = set()
    if made.drops:
        require_rule()
    end = _announce(log, made)
    if made.drops:
        require_rule()
    for run in groups(made.going, GROUP_OCTETS, GROUP_SEGMENTS):
        failed, end = _rewritten(log, made, rows, end, [(index, one) for index, one in run if index not in errors])
        rewritten.update((index, one.base) for index, one in run if index not in failed and index not in errors)
        errors |= failed
    done = _write_tombstones(log, made, errors)
    if not _write_checkpoints(log, made, errors, end):
        _write_checkpoints(log, made, errors, log_end(log))
    return done.carried_out(rewritten, errors), errors


def _rewritten(
    log: TopicLog, made: Plan, rows: DataFrame, end: LogEnd, run: Sequence[tuple[int, Segment]]
) -> tuple[dict[int, LakelogError], LogEnd]:
    """Write a run of segments again, in one commit; where that fails, those of each partition in one.

    Returns:
        (what stopped which partitions, the log's end `_after` that).
    """
    errors: dict[int, LakelogError] = {}
    if not run:
        return errors, end
    try:
        return errors, _after(end, dropping.rewrite(log, rows, end, run, made.to, now=made.now))
    except LakelogError as error:
        partitions = sorted({index for index, _ in run})
        if len(partitions) == 1 or error.name == LOCKED:
            return dict.fromkeys(partitions, error), end
        for partition in partitions:
            failed, end = _rewritten(log, made, rows, end, [(index, one) for index, one in run if index == partition])
            errors |= failed
    return errors, end


def _after(end: LogEnd, version: int) -> LogEnd:
    """The log's end after a commit of this clean, which has changed none; as it was seen, where others have committed since."""
    return replace(end, version=version, batch=None, file=None) if version == end.version + 1 else end


def _announce(log: TopicLog, made: Plan) -> LogEnd:
    """Say in the log's state what will be missing, before it is; gives the log's end with the states that were written, whatever came after them."""
    for _ in range(ATTEMPTS):
        end = log_end(log, pin=True, known=made.end)
        state.require_writable(log, end)
        if any(_state(end, index) != _state(made.end, index) for index in made.end.tails):
            break
        states = {}
        for index, tail in end.tails.items():
            last, deletes = _missing(made.drops, index)
            cleaned, deletes_from = max(tail.state.cleaned, last + 1), max(tail.state.deletes_from, deletes + 1)
            if (cleaned, deletes_from) != (tail.state.cleaned, tail.state.deletes_from):
                states[index] = tail.state.next(uuid.uuid4().hex, cleaned=cleaned, deletes_from=deletes_from)
        if not states:
            return end
        version = state.change_state(log, end, states, "clean", now=made.now)
        if version is not None:
            tails = {index: replace(tail, state=states.get(index, tail.state)) for index, tail in end.tails.items()}
            return _after(replace(end, tails=tails), version)
    raise Conflict(f"{log.name}: the log's state was changed by other writers again and again. Nothing was cleaned; try again later.")


def _state(end: LogEnd, partition: int) -> tuple[int, int, str]:
    """What tells a state of a partition's log from any other: a restore that keeps the log changes no epoch."""
    state = end.tails[partition].state
    return state.epoch, state.sequence, state.batch


def _missing(drops: Mapping[tuple[int, int], Drops], partition: int) -> tuple[int, int]:
    """The last offset that goes from a partition, and that of the last delete which the log must not be read without (`dropping`)."""
    mine = [one for (index, _), one in drops.items() if index == partition]
    return max((one.last for one in mine), default=-1), max((one.last_delete for one in mine), default=-1)


def _write_tombstones(log: TopicLog, made: Plan, errors: Mapping[int, LakelogError]) -> Plan:
    """Stamp, expire and forget as planned; gives the plan without the versions that stay because silver was merged since."""
    if not any(made.count(name) for name in ("expired", "stamped", "forgotten")):
        return made
    stamp = {index: to for index, to in made.to.items() if index not in errors}
    expire = {index: one["last"] + 1 for index, one in made.figures.items() if one["expired"] and index not in errors}
    config = log.config
    tombstones = Tombstones(
        stamp,
        expire,
        config.number("delete.retention.ms"),
        config.number("tombstone.version.retention.ms"),
        made.now,
        failed=sorted(errors),
    )
    at_once = log.rule.versioned and tombstones.version_retention_ms == 0 and made.count("expired")
    for attempt in range(ATTEMPTS):
        try:
            # What was merged since the plan may hold late records of keys whose versions were to be forgotten: they wait for the next clean.
            known = progress(log) if made.count("forgotten") or at_once else None
            as_planned = known is None or known.next == dict(made.merged)
            withheld, late = (made.withheld, made.late) if as_planned else (None, None)
            replace(tombstones, withheld=withheld, late=late, known=known).write(log)
            return made if as_planned else replace(made, figures={index: {**one, "forgotten": 0} for index, one in made.figures.items()})
        except Conflict:
            if attempt == ATTEMPTS - 1:
                raise
    raise AssertionError


def _write_checkpoints(log: TopicLog, made: Plan, errors: Mapping[int, LakelogError], end: LogEnd) -> bool:
    """Move the first dirty offsets, and note how large the segments are that were left; nothing where nothing changed, or an epoch began.

    False where the log's state is not as in ``end`` any more; then nothing was written.
    """
    rows = []
    for index, decision in sorted(made.decisions.items()):
        mark, log_ = made.held.checkpoints[index], made.held.logs[index]
        dirty = decision.to if decision.selected else decision.first_dirty
        sizes = {one.base: (one.records, one.octets) for one in log_.closed if one.end <= dirty}
        for base, gone in ((base, gone) for (partition, base), gone in made.drops.items() if partition == index):
            segment = next(one for one in log_.segments if one.base == base)
            sizes[base] = (segment.records - gone.records, segment.octets - gone.octets)
        if index in errors or (dirty, sizes) == (mark.dirty, dict(mark.segments)) or end.tails[index].epoch != made.end.tails[index].epoch:
            continue
        before = sum(one.octets for one in log_.segments if one.end > log_.start)
        after = before - sum(gone.octets for (partition, _), gone in made.drops.items() if partition == index)
        rows.append(
            mark.next(dirty, made.now, sizes, before=before, after=after).row(index, end.tails[index].epoch, log.uuid, uuid.uuid4().hex)
        )
    if not rows:
        return True
    text = note("clean", id=uuid.uuid4().hex, checked=end.version, ends=end.ends())
    frame = control_frame(log.spark, log.types, rows, made.now)
    known = {row[0]: end.tails[row[0]] for row in rows}
    return guard.insert(log, frame, known, None, now=made.now, count=len(rows), user_metadata=text, of_state=True) is not None


def winners_of(log: TopicLog, held: Progress, end: LogEnd, *, ahead: bool) -> DataFrame:
    """The latest table as a clean needs it: as it is, or with ``ahead`` as a merge to the log's end would leave it."""
    if ahead:
        return winners.winners_ahead(log, held, end.ends(), end.version)
    return frames.kept(winners.winners(log, held))
