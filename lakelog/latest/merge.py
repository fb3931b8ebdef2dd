"""The merge job: how far the log is to be folded into silver, whether it may be, and what became of its records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lakelog.errors import Damaged, Refused, VersionMismatch
from lakelog.latest import silver
from lakelog.latest.progress import COUNTS, Progress, progress
from lakelog.log import bronze
from lakelog.log.tail import LogEnd, log_end
from lakelog.model.steps import step_ends
from lakelog.model.topic_log import TopicLog
from lakelog.results import Merged


@dataclass(frozen=True)
class Asked:
    """What a merge is asked: about so many records (rounded up to whole commits), silver anew, only if silver is at this version."""

    max_records: int | None = None
    rebuild: bool = False
    expected_version: int | None = None


def merge(log: TopicLog, name: str, asked: Asked, *, now: int, known: LogEnd | None) -> tuple[Merged | None, LogEnd]:
    """One try of a merge.

    Args:
        log: the topic's log.
        name: the topic's name.
        asked: what was asked.
        now: the merge's time in milliseconds.
        known: the log's end as this process last saw it.

    Returns:
        (what was merged, or None when another merge moved the progress meanwhile; the log's end).

    Raises:
        VersionMismatch: silver is at another version.
        Refused: silver was made under another rule (RULE_CHANGED).
        LogIncomplete: a rebuild needs records that are gone.
        Damaged: silver is beyond the log, or another log's.
        Conflict: another commit touched the same buckets meanwhile.
        After any of them silver is as it was.
    """
    state = progress(log.spark, log.silver)
    if asked.expected_version is not None and state.version != asked.expected_version:
        raise VersionMismatch(
            f"{name}: silver is at version {state.version}, not at {asked.expected_version}. Nothing was changed. Look at it, then decide.",
            expected=asked.expected_version, actual=state.version,
        )  # fmt: skip
    if state.uuid != log.uuid and not asked.rebuild:
        raise Damaged(
            f"{name}: {log.silver} is the latest table of another log. Compute it anew with merge(rebuild=True), or bring the right one back.",
            expected=log.uuid, actual=state.uuid,
        )  # fmt: skip
    # In this order: a log end read first could lie before what another merge has folded meanwhile.
    end = log_end(log, known=known)
    all_ends = end.ends()
    if asked.rebuild or (state.rule != log.rule and state.empty):
        bronze.require_whole(log, name, all_ends)
        epochs = {index: tail.epoch for index, tail in end.tails.items()}
        version, step = silver.rebuild(log, log.silver, state, all_ends, epochs=epochs, now=now)
        return _merged(name, version, step, all_ends), end
    if state.rule != log.rule:
        raise Refused(
            f"{name}: silver was made under the rule {state.rule}, the topic now says {log.rule}. Run merge with rebuild once.",
            name="RULE_CHANGED", expected=str(log.rule), actual=str(state.rule),
        )  # fmt: skip
    ends = _up_to(log, name, state, all_ends, asked.max_records)
    if ends == state.next:
        return Merged(name, None, ends, ends), end
    version, step = silver.merge(log, log.silver, state, ends, now=now)
    return (None if version is None else _merged(name, version, step, all_ends)), end


def _up_to(log: TopicLog, name: str, state: Progress, all_ends: Mapping[int, int], max_records: int | None) -> dict[int, int]:
    """Where this merge is to end, by partition: at the log's end, or after ``max_records``."""
    start = state.next
    beyond = [index for index in all_ends if all_ends[index] < start[index]]
    if beyond:
        raise Damaged(
            f"{name}: silver holds partition {beyond[0]} up to offset {start[beyond[0]]}, its log ends at {all_ends[beyond[0]]}: the log lost"
            " records. Bring bronze back (RESTORE to a later version), or take silver back to a version of that time.",
            expected=start[beyond[0]], actual=all_ends[beyond[0]],
        )  # fmt: skip
    if max_records is not None and sum(all_ends[index] - start[index] for index in all_ends) > max_records:
        return step_ends(start, bronze.batch_ends(log, start), max_records)
    return dict(all_ends)


def _merged(name: str, version: int | None, step: silver.Step, all_ends: Mapping[int, int]) -> Merged:
    remaining = sum(all_ends[index] - end for index, end in step.ends.items())
    counts = {count: step.total(count) for count in COUNTS}
    return Merged(name, version, dict(sorted(step.start.items())), dict(sorted(step.ends.items())), remaining=remaining, **counts)
