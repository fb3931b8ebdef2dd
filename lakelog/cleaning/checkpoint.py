"""Where the last clean of each partition ended, and how large the segments are that it left: a control row that appends do not read.

(partition, segment -2, offset -1 - sequence): the row with the least offset holds. A checkpoint says how much there is to do; nothing rests on it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lakelog.delta import past, tables
from lakelog.delta.statement import interpreted
from lakelog.log.rows import CLEANER_SEGMENT, control_row
from lakelog.model.topic_log import TopicLog


@dataclass(frozen=True)
class Checkpoint:
    """A partition's checkpoint: the first dirty offset, when, and segment to (records, octets) of what cleans have left below it.

    ``before`` and ``after``: octets of the partition's log before that clean and after it, where they are known.
    """

    sequence: int
    dirty: int
    at: int
    segments: Mapping[int, tuple[int, int]]
    before: int | None = None
    after: int | None = None

    @classmethod
    def none(cls, start: int) -> Checkpoint:
        """That of a log that was never cleaned."""
        return cls(0, start, 0, {})

    def next(self, dirty: int, now: int, segments: Mapping[int, tuple[int, int]], *, before: int, after: int) -> Checkpoint:
        """The one that follows."""
        return Checkpoint(self.sequence + 1, dirty, now, segments, before, after)

    def row(self, partition: int, epoch: int, topic: str, batch: str) -> tuple[Any, ...]:
        """The checkpoint as a control row."""
        held = [[base, *sizes] for base, sizes in sorted(self.segments.items())]
        content: dict[str, Any] = {"type": "checkpoint", "topic": topic, "sequence": self.sequence, "dirty": self.dirty, "at": self.at}
        content |= {"segments": held, "before": self.before, "after": self.after}
        return control_row(partition, CLEANER_SEGMENT, -1 - self.sequence, epoch, content, batch)


def checkpoints(log: TopicLog, at: int) -> dict[int, tuple[int, Checkpoint]]:
    """Partition to the epoch and content of its newest checkpoint, at a version of bronze; partitions without one are left out.

    Cost: one small Spark job over the cleaner's control rows.
    """
    from pyspark.sql import functions as F

    rows = past.pinned(log.spark, log.table, at).filter((F.col("segment") == CLEANER_SEGMENT) & (F.col("partition") >= 0))
    newest = rows.groupBy("partition").agg(F.min_by(F.struct("epoch", "control"), "offset").alias("newest"))
    with tables.door(log.table), interpreted(log.spark):
        found = newest.collect()
    return {row["partition"]: (row["newest"]["epoch"], of_control(row["newest"]["control"])) for row in found}


def of_control(control: str) -> Checkpoint:
    """The checkpoint that a control row says."""
    said = json.loads(control)
    held = {base: (records, octets) for base, records, octets in said["segments"]}
    return Checkpoint(said["sequence"], said["dirty"], said["at"], held, said.get("before"), said.get("after"))
