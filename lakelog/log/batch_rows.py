"""Batch rows that were deleted by hand, to be written again: without them records belong to no append, and nobody sees where an append ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lakelog.delta import tables
from lakelog.log.rows import control_row
from lakelog.model.topic_log import TopicLog

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

# Partition to where an append ends there: (its last offset, its identity, its generation).
Last = Mapping[int, tuple[int, str, int]]
Lost = Sequence[tuple[Any, ...]]


def lost(log: TopicLog, last: Last) -> Lost:
    """Control rows for the appends whose records are there and whose batch rows are not; and for the ``last`` ones, be their records gone.

    Cost: one pass over the log's offsets with a shuffle of one row per batch.
    """
    from pyspark.sql import functions as F

    table = tables.read(log.spark, log.table).filter((F.col("partition") >= 0) & (F.col("segment") >= 0))
    with tables.door(log.table):
        found = {(row["partition"], row["batch"]): row for row in _without(table).collect()}
        below = {index: offset for index, (offset, _, _) in last.items() if (index, last[index][1]) not in found}
        segments = _segments(table, below) if below else {}
    rows = []
    for index, (offset, batch, epoch) in sorted(last.items()):
        held = found.pop((index, batch), None)
        rows.append(row(index, held["segment"] if held else segments.get(index, 0), offset, epoch, held["records"] if held else 0, batch))
    rows += [row(one["partition"], one["segment"], one["last"], one["epoch"], one["records"], one["batch"]) for one in found.values()]
    return rows


def _without(table: DataFrame) -> DataFrame:
    """Appends with records and without a batch row: partition, batch, segment, epoch, last offset, number of records."""
    from pyspark.sql import functions as F

    is_record = F.col("control").isNull()
    batches = table.groupBy("partition", "batch").agg(
        F.max_by("segment", "offset").alias("segment"), F.max("epoch").alias("epoch"), F.max("offset").alias("last"),
        F.count_if(is_record).alias("records"), F.count_if(~is_record).alias("rows"),
    )  # fmt: skip
    return batches.filter((F.col("rows") == 0) & F.col("batch").isNotNull()).orderBy("partition", "last")


def _segments(table: DataFrame, offsets: Mapping[int, int]) -> dict[int, int]:
    """Partition to the segment that an offset of it lies in."""
    from pyspark.sql import functions as F

    here = F.lit(False)
    for index, offset in sorted(offsets.items()):
        here |= (F.col("partition") == index) & (F.col("offset") <= offset)
    rows: list[Row] = table.filter(here).groupBy("partition").agg(F.max("segment").alias("segment")).collect()
    return {row["partition"]: row["segment"] for row in rows}


def row(partition: int, segment: int, offset: int, epoch: int, records: int, batch: str) -> tuple[Any, ...]:
    """The batch row that ends an append of which nothing else is known but how many records it has."""
    content = {"type": "batch", "after": -1, "octets": 0, "first": None, "records": records}
    return control_row(partition, segment, offset, epoch, content, batch)
