"""The merge job: how far the log is to be folded into silver, whether it may be, and what became of its records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lakelog import bronze, silver
from lakelog.errors import Damaged, Refused, VersionMismatch
from lakelog.progress import COUNTS, Progress
from lakelog.results import Merged
from lakelog.staging import Log
from lakelog.steps import step_ends
from lakelog.tail import LogEnd


@dataclass(frozen=True)
class Terms:
    """What a merge was asked: about so many records (rounded up to whole commits), silver anew, only if silver is at this version."""

    max_records: int | None = None
    rebuild: bool = False
    expected_version: int | None = None


def merge(log: Log, name: str, state: Progress, end: LogEnd, terms: Terms, *, uuid: str, now: int) -> Merged | None:
    """One try of a merge; None when another merge moved the progress since ``state`` was read.

    Args:
        log: the topic's log.
        name: the topic's name.
        state: silver's progress, read before ``end``.
        end: the end of the log, all partitions.
        terms: what was asked.
        uuid: the topic's identity, for a silver that is computed anew.
        now: the merge's time in milliseconds.

    Raises:
        VersionMismatch: silver is at another version.
        Refused: silver was made under another rule (RULE_CHANGED).
        LogIncomplete: a rebuild needs records that are gone.
        Damaged: silver is beyond the log.
        Conflict: another commit touched the same buckets meanwhile.
        After any of them silver is as it was.
    """
    if terms.expected_version is not None and state.version != terms.expected_version:
        raise VersionMismatch(
            f"{name}: silver is at version {state.version}, not at {terms.expected_version}. Nothing was changed. Look at it, then decide.",
            expected=terms.expected_version, actual=state.version,
        )  # fmt: skip
    all_ends = {index: tail.end for index, tail in end.tails.items()}
    if terms.rebuild or (state.rule != log.rule and state.empty):
        bronze.require_whole(log, name, all_ends)
        version, step = silver.rebuild(log, log.silver, state, all_ends, uuid=uuid, now=now)
        return _merged(name, version, step, all_ends)
    if state.rule != log.rule:
        raise Refused(
            f"{name}: silver was made under the rule {state.rule}, the topic now says {log.rule}. Run merge with rebuild once.",
            name="RULE_CHANGED", expected=str(log.rule), actual=str(state.rule),
        )  # fmt: skip
    ends = _up_to(log, name, state, all_ends, terms.max_records)
    if ends == state.next:
        return Merged(name, None, ends, ends)
    version, step = silver.merge(log, log.silver, state, ends, now=now)
    return None if version is None else _merged(name, version, step, all_ends)


def _up_to(log: Log, name: str, state: Progress, all_ends: Mapping[int, int], max_records: int | None) -> dict[int, int]:
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
