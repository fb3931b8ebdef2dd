"""How old a log is, and how large a part of it, by its control rows alone."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from lakelog.delta import tables
from lakelog.delta.statement import interpreted
from lakelog.log.rows import STATE_SEGMENT
from lakelog.model.records import looked_up
from lakelog.model.topic_log import TopicLog


def created_at(log: TopicLog) -> int:
    """When the log was created, in milliseconds: the time of its first state row. Cost: one small Spark job over its state rows."""
    from pyspark.sql import functions as F

    rows = tables.read(log.spark, log.table).filter(F.col("segment") == STATE_SEGMENT)
    with tables.door(log.table), interpreted(log.spark):
        return int(rows.agg(F.coalesce(F.min(F.unix_millis("appended_at")), F.lit(0))).collect()[0][0])


def octets_between(log: TopicLog, first: Mapping[int, int], ends: Mapping[int, int]) -> int:
    """The octets of the records from ``first`` to ``ends``, both between two appends, by the batch rows, which say how large a segment was.

    Cost: one small Spark job; of files with records the control rows are read.
    """
    from pyspark.sql import functions as F

    content = F.get_json_object("control", "$.octets").cast("bigint")
    rows = tables.read(log.spark, log.table).filter((F.col("partition") >= 0) & (F.col("segment") >= 0) & F.col("control").isNotNull())
    rows = rows.filter(F.col("offset") >= min(first.values(), default=0) - 1)
    starts, stops = ([edge.get(index, 0) for index in range(log.partitions)] for edge in (first, ends))
    begin, stop = looked_up(starts, F.col("partition")), looked_up(stops, F.col("partition"))
    grown = F.max(F.when(F.col("offset") >= begin, content)) - F.coalesce(F.max(F.when(F.col("offset") < begin, content)), F.lit(0))
    sizes = (
        rows.filter((F.col("offset") >= begin - 1) & (F.col("offset") < stop)).groupBy("partition", "segment").agg(grown.alias("octets"))
    )
    with tables.door(log.table), interpreted(log.spark):
        return int(sizes.agg(F.coalesce(F.sum("octets"), F.lit(0))).collect()[0][0])


def batch_starts(log: TopicLog, batches: Collection[str]) -> dict[tuple[str, int], int]:
    """(Batch, partition) to the offset where it begins, of those of some appends that are in the log.

    Cost: one small Spark job; of files with records the control rows are read.
    """
    from pyspark.sql import functions as F

    if not batches:
        return {}
    rows = tables.read(log.spark, log.table).filter((F.col("partition") >= 0) & (F.col("segment") >= 0) & F.col("control").isNotNull())
    rows = rows.filter(F.col("batch").isin(sorted(batches)))
    records, holes = (F.coalesce(F.get_json_object("control", f"$.{name}").cast("bigint"), F.lit(0)) for name in ("records", "holes"))
    with tables.door(log.table), interpreted(log.spark):
        found = rows.select("batch", "partition", (F.col("offset") + 1 - records - holes).alias("start")).collect()
    return {(row["batch"], row["partition"]): int(row["start"]) for row in found if row["start"] is not None}
