"""The merge job: how far the log is to be folded into silver, whether it may be, and what became of its records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from lakelog.errors import Damaged, Refused, VersionMismatch
from lakelog.latest import evolution, rebuild, upsert
from lakelog.latest.progress import COUNTS, REPAIR, LogPlace, Progress, progress, require_held
from lakelog.log import bronze
from lakelog.log.state import require_whole, require_writable
from lakelog.log.tail import LogEnd, log_end
from lakelog.model.snapshot_id import common_end
from lakelog.model.steps import step_ends
from lakelog.model.topic_log import TopicLog
from lakelog.results import Merged

# Where the log lacks records, a rebuild may not be: another rule could have kept others.
NOT_WHOLE = (
    " Where the latest table is not as it was left, run verify with repair: it begins with what a snapshot holds, or silver remembers."
)


def not_whole(log: TopicLog, state: Progress | None) -> str:
    """What to do where silver is to be computed anew, and the log lacks records."""
    if state is None or state.rule == log.rule:
        return NOT_WHOLE
    return (
        f" Configure the topic back to the rule {state.rule}: the latest table was made under it, nothing has to be computed anew for that."
    )


@dataclass(frozen=True)
class Span:
    """What one merge folds: from the offsets ``start`` to ``ends``, of the log that has, where it moves a partition, these ``epochs`` and ``batches``
    of the last records there."""

    start: Mapping[int, int]
    ends: Mapping[int, int]
    epochs: Mapping[int, int] = field(default_factory=dict)
    batches: Mapping[int, str | None] = field(default_factory=dict)

    @classmethod
    def of(cls, start: Mapping[int, int], places: Mapping[int, LogPlace]) -> Span:
        """The span from some offsets to places in the log."""
        moved = {index: place for index, place in sorted(places.items()) if place.end > start[index]}
        return cls(
            dict(start), {index: place.end for index, place in places.items()}, {index: place.epoch for index, place in moved.items()},
            {index: place.batch for index, place in moved.items()},
        )  # fmt: skip


@dataclass(frozen=True)
class MergeOptions:
    """What a merge is asked: about so many records (rounded up to whole commits), silver anew, only if silver is at this version.

    ``admit``: is shown what is about to be written, and raises where that must not be. ``span``: fold exactly this, or refuse.
    """

    max_records: int | None = None
    rebuild: bool = False
    expected_version: int | None = None
    admit: upsert.Admit | None = None
    span: Span | None = None


def merge(
    log: TopicLog, options: MergeOptions, *, now: int, known: LogEnd | None, from_rows: bool = False
) -> tuple[Merged | None, LogEnd | None]:
    """One try of a merge, under one pinned view: silver's progress is read first, then bronze at one version.

    Args:
        log: the topic's log.
        options: what was asked.
        now: the merge's time in milliseconds.
        known: the log's end as this process last saw it.
        from_rows: read silver's progress from its rows, whatever the newest commit's note says; after a try that failed.

    Returns:
        (what was merged, or None when silver changed meanwhile; the log's end).

    Raises:
        VersionMismatch: silver is at another version.
        Refused: silver was made under another rule (RULE_CHANGED).
        LogIncomplete: a rebuild needs records that are gone.
        Damaged: silver is gone, another log's, or holds records that the log no longer holds.
        Conflict: another commit touched the same buckets meanwhile, or an operation over several tables is not finished.
        After any of them silver is as it was.
    """
    known_rows = rebuild.found(log) if options.rebuild else None
    state = _progress(log, options, from_rows)
    if state is not None and options.expected_version is not None and state.version != options.expected_version:
        raise VersionMismatch(
            f"{log.name}: silver is at version {state.version}, not at {options.expected_version}. Nothing was changed. Look at it, then decide.",
            expected=options.expected_version, actual=state.version,
        )  # fmt: skip
    anew = state is None or options.rebuild or (state.rule != log.rule and state.empty)
    if anew and not options.rebuild:
        known_rows = rebuild.found(log)
    # In this order: a log end read first could lie before what another merge has folded meanwhile.
    end = log_end(log, known=known, pin=True)
    require_writable(log, end)
    if state is None or anew:
        require_whole(log, log.name, end, remedy=not_whole(log, state))
        _require_span(log, options, Span.of(end.starts(), places(end)))
        version, step = rebuild.rebuild(
            log, end.starts(), places(end), known_rows, bronze_version=end.version, now=now, admit=options.admit
        )
        return (None if version is None else _merged(log.name, version, step, end.ends())), end
    require_rule(log, state)
    require_same_log(log, state, end)
    require_reached(log, state, end)
    if evolution.reconcile(log, evolution.require_own(log)):
        return None, end
    if options.span is None:
        step_places = _up_to(log, state, end, options.max_records)
    else:
        step_places = _exactly(log, state, end, options.span.ends)
        _require_span(log, options, Span.of(state.next, step_places))
    ends = {index: place.end for index, place in step_places.items()}
    if ends == state.next:
        return Merged(log.name, None, ends, ends), end
    version, step = upsert.merge(log, state, step_places, bronze_version=end.version, now=now, admit=options.admit)
    return (None if version is None else _merged(log.name, version, step, end.ends())), end


def _require_span(log: TopicLog, options: MergeOptions, found: Span) -> None:
    """Refuse a merge that is to fold one span alone where it would fold another: other offsets, or other records at them."""
    wanted = options.span
    if wanted is None or wanted == found:
        return
    now = f"now they are {dict(found.start)} to {dict(found.ends)}"
    if (wanted.start, wanted.ends) == (found.start, found.ends):
        now = "the log was restored since, and holds others there"
    raise Refused(
        f"{log.name}: the run that is to be accepted was about the records at offsets {dict(wanted.start)} to {dict(wanted.ends)}, {now}. Nothing was"
        " changed. Merge again: what is to be written now is judged anew.",
        name="RUN_OUTDATED",
        expected=dict(wanted.ends),
        actual=dict(found.ends),
    )


def _exactly(log: TopicLog, state: Progress, end: LogEnd, ends: Mapping[int, int]) -> dict[int, LogPlace]:
    """The places at these ends, as far as appends end there; else the log's end."""
    last, start = places(end), state.next
    inside = {index: stop for index, stop in ends.items() if index in last and start[index] < stop < last[index].end}
    known = bronze.batches_at(log, {index: stop - 1 for index, stop in inside.items()}, end.version) if inside else {}
    found = {
        index: LogPlace(stop, end.tails[index].state.epoch_at(stop - 1), known[index]) for index, stop in inside.items() if index in known
    }
    kept = {
        index: LogPlace(stop, end.tails[index].state.epoch_at(stop - 1), state.batches.get(index))
        for index, stop in ends.items()
        if index in last and stop == start[index] < last[index].end
    }
    return {**last, **found, **kept}


def _progress(log: TopicLog, options: MergeOptions, from_rows: bool) -> Progress | None:
    """Silver's progress; None where it cannot be read and silver is to be computed anew."""
    try:
        return progress(log, from_rows=from_rows)
    except Damaged:
        if options.rebuild and options.expected_version is None:
            return None
        raise


def require_rule(log: TopicLog, state: Progress) -> None:
    """Refuse a silver that was made under another rule than the topic's.

    Raises:
        Refused: naming both (RULE_CHANGED).
    """
    if state.rule != log.rule:
        raise Refused(
            f"{log.name}: silver was made under the rule {state.rule}, the topic now says {log.rule}. Run merge with rebuild once.",
            name="RULE_CHANGED", expected=str(log.rule), actual=str(state.rule),
        )  # fmt: skip


def require_same_log(log: TopicLog, state: Progress, end: LogEnd) -> None:
    """Refuse a silver that holds what the log does not: at each merged offset, the log must still hold the append that ended there. Where it begins
    there, its epochs tell whether it did.

    Raises:
        Damaged: naming the partition.

    Cost: one small Spark job where something was appended since the last merge; else none.
    """
    require_held(log.name, state, end.ends())
    for index, one in other_appends(log, state, end).items():
        raise Damaged(
            f"{log.name}: silver holds partition {index} up to offset {state.next[index]} of the append {one.merged}, but the log holds"
            f" {one.held or 'none'} there: offsets were given a second time. {REPAIR}", expected=one.merged, actual=one.held,
        )  # fmt: skip
    for index, shared in parted(state, end).items():
        raise Damaged(
            f"{log.name}: silver holds partition {index} up to offset {state.next[index]}, of epoch {state.marks[index].epoch}, but shares only what is"
            f" below offset {shared} with the log: a restore or a repair began another history there. {REPAIR}",
            expected=state.next[index], actual=shared,
        )  # fmt: skip


def parted(state: Progress, end: LogEnd) -> dict[int, int]:
    """The partitions whose log begins at silver's progress and had other records below it, by its epochs; with the offset where they part."""
    found = {}
    for index, mark in sorted(state.marks.items()):
        told, stop = end.tails[index].state, state.next[index]
        shared = common_end(told.epochs, mark.epoch, stop)
        if told.origin < stop == told.start and shared < stop:
            found[index] = shared
    return found


class Appends(NamedTuple):
    """The append that silver holds last of a partition, and the one that ends there in the log; None where none does."""

    merged: str
    held: str | None


def other_appends(log: TopicLog, state: Progress, end: LogEnd) -> dict[int, Appends]:
    """The partitions in which the last append that silver holds is not the one that ends there in the log. Cost: as `require_same_log`."""
    wanted = {index: batch for index, batch in state.batches.items() if state.next[index] > end.tails[index].state.start}
    found = {index: end.tails[index].batch for index in wanted if end.tails[index].end == state.next[index]}
    behind = {index: state.next[index] - 1 for index in wanted if index not in found}
    if behind:
        found |= bronze.batches_at(log, behind, end.version)
    return {index: Appends(batch, found.get(index)) for index, batch in sorted(wanted.items()) if found.get(index) != batch}


def require_reached(log: TopicLog, state: Progress, end: LogEnd) -> None:
    """Refuse a silver that was brought back by hand to before what the log still tells: what lies between would be lost without a word.

    Raises:
        Damaged: the log of a partition begins above silver's progress, or deletes beyond it have left it.
    """
    for index, tail in sorted(end.tails.items()):
        # A log that begins at its origin lost nothing, wherever that is.
        start = tail.state.tells_from if tail.state.lacks else 0
        least = max(start, tail.state.deletes_from if state.by_hand else 0)
        if state.next[index] < least:
            what = {tail.state.start: "begins", tail.state.records_from: "holds every record"}.get(least, "holds every delete")
            raise Damaged(
                f"{log.name}: silver holds partition {index} up to offset {state.next[index]}, but the log {what} from offset {least} on: silver was"
                " brought back by hand to before that. Restore the topic to a later version of silver, or to a snapshot, with the log truncated.",
                expected=least, actual=state.next[index],
            )  # fmt: skip


def places(end: LogEnd) -> dict[int, LogPlace]:
    """Partition to the log's end as a place."""
    return {index: LogPlace(tail.end, tail.state.epoch_at(tail.end - 1), tail.batch) for index, tail in sorted(end.tails.items())}


def _up_to(log: TopicLog, state: Progress, end: LogEnd, max_records: int | None) -> dict[int, LogPlace]:
    """Where this merge is to end, by partition: at the log's end, or after about ``max_records``, on whole commits."""
    start, all_ends = state.next, end.ends()
    last = places(end)
    if max_records is None or sum(all_ends[index] - start[index] for index in all_ends) <= max_records:
        return last
    batches = bronze.batch_ends(log, start, end.version)
    steps, known = step_ends(start, batches, max_records), {(one.partition, one.end): one.batch for one in batches}
    return {
        index: last[index]
        if step == all_ends[index]
        else LogPlace(step, end.tails[index].state.epoch_at(step - 1), known.get((index, step)) or state.batches.get(index))
        for index, step in steps.items()
    }


def _merged(name: str, version: int | None, step: upsert.Step, all_ends: Mapping[int, int]) -> Merged:
    remaining = sum(all_ends[index] - end for index, end in step.ends.items())
    counts: dict[str, Any] = {count: step.total(count) for count in COUNTS}
    counts |= {"remaining": remaining, "late_after_delete_examples": step.late_after_delete}
    return Merged(name, version, dict(sorted(step.start.items())), dict(sorted(step.ends.items())), **counts)
