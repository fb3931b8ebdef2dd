"""The segments of a log with their sizes and times, by its control rows: no record is read."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from lakelog.cleaning.checkpoint import Checkpoint, checkpoints, of_control
from lakelog.cleaning.plan import PartitionLog, Segment, decide, retained_from
from lakelog.delta import frames, past, tables
from lakelog.delta.statement import interpreted
from lakelog.errors import LakelogError
from lakelog.log.rows import CLEANER_SEGMENT
from lakelog.log.tail import LogEnd
from lakelog.model.config import TopicConfig
from lakelog.model.topic_log import TopicLog
from lakelog.status_results import CleaningStatus

Place = TypeVar("Place")
Look = TypeVar("Look")


@dataclass(frozen=True)
class Segments:
    """Partition to its log, and to its checkpoint."""

    logs: dict[int, PartitionLog]
    checkpoints: dict[int, Checkpoint]


def read(log: TopicLog, end: LogEnd) -> Segments:
    """The segments at the version of ``end``.

    Cost: two small Spark jobs: of files with records the control rows are read. Where appends of an older lakelog wrote no largest time, the times
    of those segments' records.
    """
    return assembled(_by_batches(log, end, end.tails), checkpoints(log, end.version), end)


def read_each(log: TopicLog, end: LogEnd) -> tuple[Segments, dict[int, LakelogError]]:
    """As `read`; a partition of which a file cannot be read has no segments, and is told with what stopped it."""
    held, broken = by_partition(end.tails, lambda chosen: _by_batches(log, end, chosen))
    return assembled(held, checkpoints(log, end.version), end), broken


def by_partition(
    partitions: Collection[int], look: Callable[[Collection[int]], dict[Place, Look]]
) -> tuple[dict[Place, Look], dict[int, LakelogError]]:
    """What a look at all partitions finds; where it fails, what looks at each of them find, and what stopped those that found nothing."""
    try:
        return look(partitions), {}
    except LakelogError as error:
        if len(partitions) == 1:
            return {}, dict.fromkeys(partitions, error)
    found, broken = dict[Place, Look](), dict[int, LakelogError]()
    for index in sorted(partitions):
        try:
            found |= look([index])
        except LakelogError as error:
            broken[index] = error
    return found, broken


def assembled(held: Mapping[int, Sequence[Segment]], known: Mapping[int, tuple[int, Checkpoint]], end: LogEnd) -> Segments:
    """The segments as their appends left them and the newest checkpoints (with their epochs), put together."""
    logs, marks = {}, {}
    for index, tail in sorted(end.tails.items()):
        epoch, mark = known.get(index, (tail.epoch, Checkpoint.none(tail.state.start)))
        # What was appended after a restore is dirty, wherever the clean before it ended.
        mark = replace(mark, dirty=min([mark.dirty, *(first for number, first in tail.state.epochs if number > epoch)]))
        # What a clean left before a restore is no measure of the log after it.
        left = mark.segments if epoch == tail.epoch else {}
        found = [
            Segment(one.base, one.end, *left.get(one.base, (one.records, one.octets)), one.first_ms, one.largest_ms)
            for one in held.get(index, [])
            if one.end > one.base
        ]
        logs[index] = PartitionLog(index, tail.state.start, tail.end, tail.active, mark.dirty, tuple(found))
        marks[index] = mark
    return Segments(logs, marks)


def _by_batches(log: TopicLog, end: LogEnd, chosen: Collection[int]) -> dict[int, list[Segment]]:
    """Of all partitions, or some, the segments as their appends left them."""
    from pyspark.sql import functions as F

    rows = past.pinned(log.spark, log.table, end.version)
    wanted = F.col("partition") >= 0 if len(chosen) == len(end.tails) else F.col("partition").isin(sorted(chosen))
    rows = rows.filter(wanted & (F.col("segment") >= 0) & F.col("control").isNotNull())
    said = rows.select(
        "partition", "segment", "offset",
        *[F.get_json_object("control", f"$.{name}").cast("bigint").alias(name) for name in ("records", "octets", "first", "largest")],
        F.coalesce(F.get_json_object("control", "$.undated") == "true", F.lit(False)).alias("undated"),
    )  # fmt: skip
    first = F.when(F.col("first").isNotNull(), F.col("offset"))
    by_segment = said.groupBy("partition", "segment").agg(
        (F.max("offset") + 1).alias("end"), F.coalesce(F.sum("records"), F.lit(0)).alias("records"),
        F.max_by("octets", "offset").alias("octets"), F.min_by("first", first).alias("first"), F.min_by("undated", first).alias("undated"),
        F.max("largest").alias("largest"), F.count_if(F.col("largest").isNull() & (F.col("records") > 0)).alias("unknown"),
    )  # fmt: skip
    with tables.door(log.table), interpreted(log.spark):
        found = by_segment.orderBy("partition", "segment").collect()
    missing = [(row["partition"], row["segment"]) for row in found if row["unknown"]]
    times = _largest_times(log, end.version, missing) if missing else {}
    segments: dict[int, list[Segment]] = {}
    for row in found:
        largest = times.get((row["partition"], row["segment"]), row["largest"])
        first_ms = None if row["undated"] else row["first"]
        one = Segment(row["segment"], row["end"], row["records"], row["octets"] or 0, first_ms, largest or 0)
        segments.setdefault(row["partition"], []).append(one)
    return segments


def _largest_times(log: TopicLog, at: int, wanted: list[tuple[int, int]]) -> dict[tuple[int, int], int]:
    """The largest time of the records of some segments, in milliseconds."""
    from pyspark.sql import functions as F

    limits = frames.small_frame(log.spark, "partition INT, segment BIGINT", wanted)
    rows = past.pinned(log.spark, log.table, at).filter(F.col("control").isNull()).join(F.broadcast(limits), ["partition", "segment"])
    time = F.when(F.unix_millis("timestamp") == -1, F.unix_millis("appended_at")).otherwise(F.unix_millis("timestamp"))
    with tables.door(log.table):
        found = rows.groupBy("partition", "segment").agg(F.max(time).alias("largest")).collect()
    return {(row["partition"], row["segment"]): row["largest"] for row in found}


def of_control_rows(rows: Iterable[tuple[int, int, int, int, str]], end: LogEnd) -> Segments:
    """`read`, of a log's control rows that are at hand: (partition, segment, offset, epoch, control).

    Where appends of an older lakelog wrote no largest time, the first record's stands for it.
    """
    batches: dict[tuple[int, int], list[tuple[int, dict[str, Any]]]] = {}
    marks: dict[int, tuple[int, int, str]] = {}
    for partition, segment, offset, epoch, control in rows:
        if segment >= 0:
            batches.setdefault((partition, segment), []).append((offset, json.loads(control)))
        elif segment == CLEANER_SEGMENT and offset < marks.get(partition, (0,))[0]:
            marks[partition] = (offset, epoch, control)
    held: dict[int, list[Segment]] = {}
    for (partition, base), said in sorted(batches.items()):
        ordered = [content for _, content in sorted(said, key=lambda one: one[0])]
        first = next((one for one in ordered if one.get("first") is not None), {})
        largest = max((one.get("largest") or 0 for one in ordered), default=0) or first.get("first") or 0
        first_ms = None if str(first.get("undated", False)).lower() == "true" else first.get("first")
        size = ordered[-1].get("octets") or 0
        records = sum(one.get("records") or 0 for one in ordered)
        held.setdefault(partition, []).append(Segment(base, max(offset for offset, _ in said) + 1, records, size, first_ms, largest))
    return assembled(held, {index: (epoch, of_control(text)) for index, (_, epoch, text) in marks.items()}, end)


def cleaning_status(held: Segments, config: TopicConfig, *, due: int, now: int) -> CleaningStatus:
    """What there is for the cleaner to do, with ``due`` tombstones of silver. A value; no I/O."""
    # Without the policy ``compact`` nothing is ever dirty.
    decisions = [decide(one, config, now=now) for one in held.logs.values()] if config.policy("compact") else []
    marks = [one for one in held.checkpoints.values() if one.sequence]
    known = [one for one in marks if one.before is not None and one.after is not None]
    retained = {index: retained_from(one, config, now=now) for index, one in held.logs.items()}
    return CleaningStatus(
        sum(one.octets for log in held.logs.values() for one in log.segments if one.end > log.start),
        round(max((one.dirty_ratio for one in decisions), default=0.0), 6), max((one.delay_ms for one in decisions), default=0), due,
        now - max(one.at for one in marks) if marks else None,
        sum(one.before or 0 for one in known) if known else None, sum(one.after or 0 for one in known) if known else None,
        sum(one.octets for index, log in held.logs.items() for one in log.segments if log.start < one.end <= retained[index]),
    )  # fmt: skip
