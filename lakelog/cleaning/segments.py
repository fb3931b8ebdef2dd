"""The segments of a log with their sizes and times, by its control rows: no record is read."""

from __future__ import annotations

from dataclasses import dataclass

from lakelog.cleaning.checkpoint import Checkpoint, checkpoints
from lakelog.cleaning.plan import PartitionLog, Segment
from lakelog.delta import tables
from lakelog.delta.statement import interpreted
from lakelog.log.tail import LogEnd
from lakelog.model.topic_log import TopicLog


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
    known = checkpoints(log, end.version)
    held = _by_batches(log, end)
    logs, marks = {}, {}
    for index, tail in sorted(end.tails.items()):
        epoch, mark = known.get(index, (tail.epoch, Checkpoint.none(tail.state.start)))
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


def _by_batches(log: TopicLog, end: LogEnd) -> dict[int, list[Segment]]:
    """Partition to its segments as their appends left them."""
    from pyspark.sql import functions as F

    rows = tables.read(log.spark, log.table, end.version)
    rows = rows.filter((F.col("partition") >= 0) & (F.col("segment") >= 0) & F.col("control").isNotNull())
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

    limits = tables.small_frame(log.spark, "partition INT, segment BIGINT", wanted)
    rows = tables.read(log.spark, log.table, at).filter(F.col("control").isNull()).join(F.broadcast(limits), ["partition", "segment"])
    time = F.when(F.unix_millis("timestamp") == -1, F.unix_millis("appended_at")).otherwise(F.unix_millis("timestamp"))
    with tables.door(log.table):
        found = rows.groupBy("partition", "segment").agg(F.max(time).alias("largest")).collect()
    return {(row["partition"], row["segment"]): row["largest"] for row in found}
