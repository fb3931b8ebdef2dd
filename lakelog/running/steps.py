"""The steps of a run, in their order: what each does, and when there is nothing to do. Each is a verb of the topic, and safe to run again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lakelog.cleaning_results import Cleaned
from lakelog.errors import Conflict, LakelogError
from lakelog.quality import folder, judgement
from lakelog.results import Merged
from lakelog.running_results import DONE, FAILED, NOTHING, SKIPPED
from lakelog.snapshots import take
from lakelog.sources.append import append_from
from lakelog.sources.configured import Lookup, Source
from lakelog.sources.unconfigured import require_configured
from lakelog.topic import Topic

# Whoever names no sources in Python has none.
NOWHERE = Lookup()
Tell = Callable[[int, int], None]


@dataclass(frozen=True)
class Outcome:
    """What became of a step: its report, why there was nothing to do, what refused it; figures for the run's report."""

    outcome: str
    report: Any = None
    why: str | None = None
    error: LakelogError | None = None
    counts: Mapping[str, int] = field(default_factory=dict)
    octets: Mapping[str, int] = field(default_factory=dict)


@dataclass
class Work:
    """A run's topic and sources, and what its steps know of each other."""

    topic: Topic
    sources: Sequence[Source]
    lookup: Lookup = NOWHERE
    merged: Merged | None = None


def append(work: Work, tell: Tell) -> Outcome:
    """Append what the sources hold."""
    if not work.sources:
        require_configured(work.topic, work.lookup)
        return Outcome(SKIPPED, why="the topic has no sources")
    error: LakelogError | None = None
    try:
        taken = [one.to_dict() for one in append_from(work.topic, work.sources, tell=tell)]
    except LakelogError as caught:
        # What came in before the refusal stays in the log.
        error, last = caught, caught.details.get("taken")
        taken = [*caught.details.get("sources", []), *([last] if last is not None else [])]
        caught.details = {name: value for name, value in caught.details.items() if name not in ("taken", "sources")}
    files = sum(one["files"] for one in taken)
    counts = {
        "files": files, "appended": sum(one["records"] for one in taken),
        "quarantined": sum(batch["quarantined"] for one in taken for batch in one["batches"]),
    }  # fmt: skip
    outcome = FAILED if error is not None else DONE if files else NOTHING
    return Outcome(
        outcome,
        {"sources": taken},
        None if files or error else "nothing new",
        error,
        counts,
        {"taken": sum(one["octets"] for one in taken)},
    )


def merge(work: Work, tell: Tell) -> Outcome:
    """Fold what was appended, by this run or others, into the latest table."""
    merged = work.topic.merge()
    work.merged = merged
    if merged.version is None:
        return Outcome(NOTHING, merged.to_dict(), "nothing to merge")
    kinds = ("inserted", "updated", "deleted", "late", "late_after_delete", "duplicates", "invalid_versions", "ignored_deletes", "unkeyed")
    # Reports of runs are kept, and quote no keys that an erasure would have to find there.
    told = {name: value for name, value in merged.to_dict().items() if name != "late_after_delete_examples"}
    return Outcome(DONE, told, counts={"merged": merged.records, **{kind: getattr(merged, kind) for kind in kinds}})


def snapshot(work: Work, tell: Tell) -> Outcome:
    """Tell of the snapshot that the merge took, where one was due; where it could not be taken, the run fails with that.

    One that an earlier run could not take is taken where this one had nothing to merge.
    """
    if not take.takes_any(work.topic.log):
        return Outcome(SKIPPED, why="max.snapshot.interval.ms and max.record.bytes.between.snapshots are 0")
    merged = work.merged
    if merged is None or merged.version is None:
        taken = take.overdue(work.topic.log, now=work.topic.clock())
        if taken is None:
            return Outcome(NOTHING, why="nothing was merged, and none was due")
        return Outcome(DONE, {"id": taken.id}, counts={"snapshots": int(taken.created)})
    if merged.snapshot_error is not None:
        said = merged.snapshot_error
        error = LakelogError(f"{merged.topic}: the snapshot that was due could not be taken: {said['message']}", name=said["error"])
        error.exit_code, error.retryable = said["exit_code"], said["exit_code"] == Conflict.exit_code
        return Outcome(FAILED, said, said["message"], error)
    if merged.snapshot is None:
        return Outcome(NOTHING, why="none was due")
    return Outcome(DONE, {"id": merged.snapshot}, counts={"snapshots": 1})


def clean(work: Work, tell: Tell) -> Outcome:
    """Clean the log where the cleaner's plan has something to do."""
    plan = work.topic.plan_cleaning(roll_idle=True)
    if not is_due(plan):
        reasons = ", ".join(f"{one.partition}: {one.reason}" for one in plan.partitions)
        return Outcome(NOTHING, plan.to_dict(), f"nothing is due (partition {reasons})", octets={"log": plan.octets_before})
    done = work.topic.clean(roll_idle=True)
    counts = {"removed": done.records, "expired": done.expired, "forgotten": done.forgotten}
    octets = {"log_before": done.octets_before, "log": done.octets_after}
    return Outcome(DONE if done.failure is None else FAILED, done.to_dict(), None, done.failure, counts, octets)


def is_due(plan: Cleaned) -> bool:
    """Whether a clean would do something: a partition is dirty enough or overdue, old segments go, tombstones expire; or say why it cannot."""
    return any(one.selected or one.error or one.to_start > one.from_start for one in plan.partitions) or bool(
        plan.expired or plan.forgotten
    )


def check(work: Work, tell: Tell) -> Outcome:
    """Audit the latest table where the topic has a suite for it."""
    if folder.gating(work.topic.log, "table") is None:
        return Outcome(SKIPPED, why="the topic has no table suite (quality.suites)")
    verdict = work.topic.check()
    error = judgement.of_audit(verdict)
    return Outcome(DONE if error is None else FAILED, verdict.to_dict(), error=error)


# What runs, in this order.
STEPS: dict[str, Callable[[Work, Tell], Outcome]] = {"append": append, "merge": merge, "snapshot": snapshot, "clean": clean, "check": check}
