"""The latest table of a log that cannot give it alone: a snapshot brought back, and the log from its end on merged again.

What it does is a restore that keeps the log: cut off, the next writing verb finishes it, and the next merge goes on from there.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Mapping, Sequence

from lakelog.errors import Conflict, Damaged, LogIncomplete, NotFound, Refused
from lakelog.latest import merge
from lakelog.latest.progress import progress
from lakelog.log import inspection
from lakelog.log.tail import LogEnd, log_end
from lakelog.model import positions
from lakelog.model.log_state import RESTORE, Intent
from lakelog.model.positions import SnapshotPlace
from lakelog.model.topic_log import TopicLog
from lakelog.results import Merged
from lakelog.snapshots import plan, restore
from lakelog.snapshots.plan import Target

ATTEMPTS = 20


def target(log: TopicLog, end: LogEnd, snapshots: Sequence[SnapshotPlace], missing: Mapping[int, tuple[int, int]]) -> Target | None:
    """The oldest snapshot from whose end the log tells everything, that can be read, and whose last records the log holds; None without one.

    The oldest of those that hold all that is ``missing`` from the log (partition to the offsets between which that lies); where none does, the
    newest, which holds most of it. The last append that a snapshot holds may be missing, too, but no other one may lie there.

    Cost: for each that is looked at three small Spark jobs, or four.
    """
    newest = None
    states = {index: tail.state for index, tail in end.tails.items()}
    for one in positions.usable(states, end.ends(), snapshots):
        with contextlib.suppress(NotFound, Refused, Damaged):
            found = plan.target_of(log, one.point)
            if not _is_of(log, found, end):
                continue
            if all(one.ends[index] >= below for index, (_, below) in missing.items()):
                return found
            newest = found
    return newest


def _is_of(log: TopicLog, found: Target, end: LogEnd) -> bool:
    """Whether the log holds the last append of a snapshot in each partition, or none where that was."""
    others = merge.other_appends(log, found.state, end)
    absent = {index: (found.id.ends[index] - 1, one.merged) for index, one in others.items() if one.held is None}
    return len(absent) == len(others) and not (absent and inspection.across(log, absent))


def require_possible(log: TopicLog, end: LogEnd, found: Target | None) -> None:
    """Refuse where neither the log nor a snapshot gives what the latest table was made of.

    Raises:
        LogIncomplete: naming the partition, and what can be done.
    """
    for index, tail in sorted(end.tails.items()):
        if found is None and tail.state.lacks:
            raise LogIncomplete(
                f"{log.name}: {tail.state.gone}, and there is no snapshot to begin with: one that can be read, from whose end on the log tells"
                " everything. The latest table cannot be computed. Nothing was changed. Restore the topic to a snapshot or an earlier"
                " version of silver, with the log truncated; where none can be read, import an export of the topic under another name.",
                expected=tail.state.origin, actual=tail.state.tells_from, partition=index,
            )  # fmt: skip


def intent_of(found: Target) -> Intent:
    """What is begun: a restore to the snapshot that keeps the log."""
    return Intent(RESTORE, uuid.uuid4().hex, restore.order_of(found, {}, None).to_arguments())


def carry_out(log: TopicLog, intent: Intent, *, now: int) -> tuple[Merged, int | None]:
    """Bring the snapshot back, and merge the log from its end on. Returns what was merged, and silver's version."""
    restore.carry_out(log, log_end(log), intent, now=now)
    for attempt in range(ATTEMPTS):
        merged, _ = merge.merge(log, merge.MergeOptions(), now=now, known=None, from_rows=attempt > 0)
        if merged is not None:
            version = merged.version if merged.version is not None else progress(log).version
            return merged, version
    raise Conflict(f"{log.name}: the latest table was brought back, but other merges were first {ATTEMPTS} times in a row. Merge again.")


def done(found: Target, ends: Mapping[int, int]) -> str:
    """What was done, in a sentence."""
    behind = sum(end - found.id.ends[index] for index, end in ends.items())
    return (
        f"the latest table was brought back to the snapshot {found.text}, and the {behind} offsets of the log behind it were merged again"
    )
