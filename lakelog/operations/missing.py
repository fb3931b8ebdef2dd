"""What a log that was changed by hand lacks: records, and the batch rows of appends whose records are there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from lakelog.delta import tables
from lakelog.latest.verify import Snapshots
from lakelog.log import inspection
from lakelog.log.rows import control_row
from lakelog.model.topic_log import TopicLog
from lakelog.snapshots.plan import Target

if TYPE_CHECKING:
    from pyspark.sql import Row


def is_missing(problems: Sequence[str]) -> bool:
    """Whether records are missing, or may be, by what `inspection.problems` says."""
    return any("missing" in text for text in problems)


def holes(log: TopicLog, problems: Sequence[str], base: Target | None) -> dict[int, int | None]:
    """`inspection.holes` above what ``base`` holds, where ``problems`` say that there are any."""
    return inspection.holes(log, {} if base is None else base.id.ends) if is_missing(problems) else {}


def lost(holes: Mapping[int, int | None], snapshots: Snapshots) -> list[str]:
    """What the latest table lacks since the log does, in sentences."""
    told = []
    for index, hole in sorted(holes.items()):
        if hole is not None:
            held = [str(one.point) for one in snapshots.live if one.ends.get(index, 0) > hole]
            where = f"; they are in the snapshots {', '.join(held)}" if held else ""
            told.append(f"records are missing from offset {hole} of partition {index} on: the latest table is without them{where}")
    return told


def batches_without_row(log: TopicLog) -> list[Row]:
    """Appends whose records are there and whose batch rows are not: partition, segment, batch, epoch, last offset, number of records."""
    from pyspark.sql import functions as F

    table = tables.read(log.spark, log.table).filter((F.col("partition") >= 0) & (F.col("segment") >= 0))
    is_record = F.col("control").isNull()
    batches = table.groupBy("partition", "batch").agg(
        F.max_by("segment", "offset").alias("segment"), F.max("epoch").alias("epoch"), F.max("offset").alias("last"),
        F.count_if(is_record).alias("records"), F.count_if(~is_record).alias("rows"),
    )  # fmt: skip
    with tables.door(log.table):
        return list(batches.filter((F.col("rows") == 0) & F.col("batch").isNotNull()).orderBy("partition", "last").collect())


def batch_row(row: Row) -> tuple[object, ...]:
    """The batch row that such an append gets back."""
    content = {"type": "batch", "after": -1, "octets": 0, "first": None, "records": row["records"]}
    return control_row(row["partition"], row["segment"], row["last"], row["epoch"], content, row["batch"])
