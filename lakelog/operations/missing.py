"""What a log that was changed by hand lacks, which snapshot holds it, and what still says that it is there."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lakelog.delta import tables
from lakelog.errors import Damaged, NotFound
from lakelog.latest import erased, merge, silver
from lakelog.latest.progress import progress
from lakelog.latest.verify import Snapshots
from lakelog.log import batch_rows, bronze, inspection, withdrawn
from lakelog.log.cut import MOST
from lakelog.log.tail import LogEnd
from lakelog.model import positions
from lakelog.model.log_state import PartitionState
from lakelog.model.records import looked_up
from lakelog.model.topic_log import TopicLog
from lakelog.snapshots.plan import Target

Places = Mapping[int, tuple[int, int]]
# So many tokens are named.
MOST_NAMED = 20


@dataclass(frozen=True)
class Spans:
    """Partition to the offsets between which all that is missing lies.

    Attributes:
        counted: by the counts of appends, which say nothing below the offset up to which the log was cleaned.
        unheld: below that offset: what the latest table has and the log lacks; a clean leaves the latest record of a key.
    """

    counted: Places = field(default_factory=dict)
    unheld: Places = field(default_factory=dict)

    @property
    def all(self) -> Places:
        """Both."""
        found = dict(self.counted)
        for index, (first, below) in self.unheld.items():
            before = found.get(index, (first, below))
            found[index] = (min(first, before[0]), max(below, before[1]))
        return found


def spans(log: TopicLog, end: LogEnd, problems: Sequence[str]) -> Spans:
    """What is missing from a log that was changed by hand.

    Args:
        log: the topic's log.
        end: its end by its rows.
        problems: what `inspection.problems` found.

    Cost: one pass over the log's offsets where ``problems`` say that records are missing; where it was cleaned, one over the latest table's too.
    """
    return Spans(inspection.missing(log) if any("missing" in text for text in problems) else {}, _unheld(log, end))


def _unheld(log: TopicLog, end: LogEnd) -> Places:
    """`Spans.unheld`; nothing where the latest table is not as merges left it, or cannot be read."""
    from pyspark.sql import functions as F

    cleaned = {index: (tail.state.tells_from, min(tail.state.cleaned, tail.end)) for index, tail in end.tails.items()}
    if all(first >= below for first, below in cleaned.values()):
        return {}
    place = ["partition", "offset"]
    with contextlib.suppress(Damaged, NotFound), tables.door(log.silver):
        held = progress(log, from_rows=True)
        if held.by_hand:
            return {}
        first, below = (looked_up([cleaned[index][part] for index in range(log.partitions)], F.col("partition")) for part in (0, 1))
        rows = silver.rows(log).filter(~F.col("tombstone") & (F.col("offset") >= first) & (F.col("offset") < below))
        rows = erased.without(rows, log.uuid, erased.entries(log.spark, log.root, log.uuid)).select(place)
        lost = rows.join(bronze.records(log).select(place), place, "left_anti").groupBy("partition")
        found = lost.agg(F.min("offset").alias("first"), (F.max("offset") + 1).alias("below")).collect()
        return {row["partition"]: (row["first"], row["below"]) for row in found}
    return {}


@dataclass(frozen=True)
class Missing:
    """What a log lacks, and the snapshot from which its latest table is computed.

    Attributes:
        spans: where that lies.
        base: the snapshot; None where there is none.
        alone: without one the latest table is computed from the log; else it stays as it is.
    """

    spans: Spans
    base: Target | None
    alone: bool = True

    @property
    def kept(self) -> bool:
        """Whether the latest table stays as it is."""
        return self.base is None and not self.alone

    def hole(self, index: int) -> int | None:
        """From which offset of a partition on the latest table may lack records, since the log does; None where it lacks none."""
        first, below = self.spans.all.get(index, (0, 0))
        held = 0 if self.base is None else self.base.id.ends[index]
        return None if self.kept or held >= below else max(first, held)

    def records_from(self, index: int) -> int:
        """From which offset on the log of a partition holds all records that the latest table is made of; 0 where that is all it has."""
        first, below = self.spans.all.get(index, (0, 0))
        held = 0 if self.base is None else self.base.id.ends[index]
        return below if self.kept else held if first < min(held, below) else 0

    def batch_rows(self, log: TopicLog, end: LogEnd) -> batch_rows.Lost:
        """The batch rows that appends have lost; that with which ``base`` ends among them: merges go on behind it."""
        last = {}
        if self.base is not None:
            for index, one in merge.other_appends(log, self.base.state, end).items():
                offset = self.base.id.ends[index] - 1
                last[index] = (offset, one.merged, end.tails[index].state.epoch_at(offset))
        return batch_rows.lost(log, last)

    def told(self, log: TopicLog, end: LogEnd, snapshots: Snapshots, *, now: int) -> list[str]:
        """What the latest table lacks, where that is held, and which tokens say otherwise, in sentences. Cost: that of `withdrawn.claimed`."""
        lost = self.spans.all
        told = [f"records are missing from partition {index}; the latest table was left as it is" for index in sorted(lost) if self.kept]
        holes = {index: hole for index in sorted(lost) if (hole := self.hole(index)) is not None}
        for index, hole in holes.items():
            held = [str(one.point) for one in snapshots.live if one.ends.get(index, 0) > hole]
            where = f"; they are in the snapshots {', '.join(held)}" if held else ""
            told.append(f"records are missing from offset {hole} of partition {index} on: the latest table is without them{where}")
        for index, tail in sorted(end.tails.items()):
            held = [str(one.point) for one in snapshots.live if _reached(tail.state, tail.end, one, index)]
            if held:
                told.append(f"what came behind the end of partition {index}, offset {tail.end}, is in the snapshots {', '.join(held)}")
        # Of mirrors nobody else may append what is missing.
        own = {index: tail.end for index, tail in end.tails.items() if tail.state.mirror is None}
        firsts = {index: max(hole, self.spans.counted[index][0]) for index, hole in holes.items() if index in self.spans.counted}
        claimed = withdrawn.claimed(log, {index: (firsts.get(index, at), MOST) for index, at in own.items()}, now=now)
        if claimed:
            told.append(
                f"what was written under {_listed(claimed)} is missing in part or whole, and still taken for written: the same again writes nothing."
                " Append what is missing under another token"
            )
        return told


def _reached(state: PartitionState, end: int, one: positions.SnapshotPlace, index: int) -> bool:
    """Whether a snapshot holds records of a partition's history from beyond its log's end."""
    stop = one.ends.get(index, 0)
    return stop > end and positions.diverged(state, stop, stop, one.epoch) is None


def _listed(names: Sequence[str]) -> str:
    return f"{', '.join(names[:MOST_NAMED])}{f' and {len(names) - MOST_NAMED} more' if len(names) > MOST_NAMED else ''}"
