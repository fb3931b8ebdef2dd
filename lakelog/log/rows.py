"""Bronze's rows: their columns, the control rows among them, and the table as the statements of this wing read it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lakelog.delta import frames, tables
from lakelog.model.records import HEADERS, Types, columns, instant
from lakelog.model.topic_log import TopicLog

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType


RECORD_COLUMNS = ("partition", "offset", "timestamp", "key", "value", "headers", "tombstone", "epoch")
# Of each partition: rows that fence appends (`PartitionState`), and what changes without disturbing them.
STATE_SEGMENT, CLEANER_SEGMENT = -1, -2
# Of partition -1: entries of the ledger that a restore took out.
WITHDRAWN_SEGMENT = -4


def log_rows(log: TopicLog) -> DataFrame:
    """All rows of bronze, control rows too, as they are whenever a statement reads them (`tables.analysed`)."""
    return tables.analysed(log.spark, log.table, (log.uuid, log.types))


def in_segments(chosen: Mapping[int, Sequence[int]]) -> Column:
    """Whether a row lies in one of these segments (partition to base offsets): by partition columns alone, so that other folders are not opened."""
    from pyspark.sql import functions as F

    each = [(F.col("partition") == F.lit(index)) & F.col("segment").isin(list(bases)) for index, bases in sorted(chosen.items())]
    return any_of(each) if each else F.lit(False)


def any_of(conditions: Sequence[Column]) -> Column:
    """Whether one of the conditions holds; of little depth, however many there are: Connect and Delta's parser take it apart by recursion."""
    if len(conditions) == 1:
        return conditions[0]
    middle = len(conditions) // 2
    return any_of(conditions[:middle]) | any_of(conditions[middle:])


def schema(types: Types) -> StructType:
    """Bronze's columns; what skips files comes first."""
    return columns(
        partition="integer", segment="long", offset="long", timestamp="timestamp", key=types.key, value=types.value, headers=HEADERS,
        tombstone="boolean", epoch="integer", batch="string", appended_at="timestamp", control="string",
    )  # fmt: skip


def control_row(
    partition: int, segment: int, offset: int, epoch: int, content: Mapping[str, Any], batch: str | None = None
) -> tuple[Any, ...]:
    """A control row as `control_frame` takes it."""
    return (partition, segment, offset, True, epoch, batch, json.dumps(content, sort_keys=True))


def control_frame(spark: SparkSession, types: Types, rows: list[tuple[Any, ...]], now: int) -> DataFrame:
    """Control rows in bronze's columns, in one file per directory. No Spark job."""
    from pyspark.sql import functions as F

    ddl = "partition INT, segment BIGINT, offset BIGINT, tombstone BOOLEAN, epoch INT, batch STRING, control STRING"
    frame = frames.small_frame(spark, ddl, rows).coalesce(1).withColumn("appended_at", instant(now, "segment"))
    return frame.select(
        *[
            F.col(field.name) if field.name in frame.columns else F.lit(None).cast(field.dataType).alias(field.name)
            for field in schema(types)
        ]
    )
