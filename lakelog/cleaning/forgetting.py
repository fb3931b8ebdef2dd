"""Which versions of deleted keys may not be forgotten yet: those of keys of which the log still holds a record.

Such a record came late, behind the delete. Forgotten, the version would leave it the only one of its key: a fold of the log, a repair, and whoever
asks why the key is gone would take it for the latest. It leaves the log with a clean of its segment, and the version with the next one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from lakelog.delta import tables
from lakelog.latest import silver
from lakelog.latest.control_rows import CONTROL_BUCKET
from lakelog.log import bronze
from lakelog.log.tail import LogEnd
from lakelog.model.records import looked_up
from lakelog.model.topic_log import TopicLog

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

# Where more are to be kept, none is forgotten this time.
MOST = 10_000


def is_due(now: int, forget_ms: int) -> Column:
    """Whether a remembered version has been remembered for long enough."""
    from pyspark.sql import functions as F

    return F.unix_millis("delete_horizon") <= F.lit(now - forget_ms) if forget_ms >= 0 else F.lit(False)


def due(log: TopicLog, *, now: int, forget_ms: int) -> DataFrame:
    """Silver's remembered versions that have been remembered for long enough."""
    return silver.remembered(log).filter(is_due(now, forget_ms))


def expiring(log: TopicLog, *, now: int) -> DataFrame:
    """Silver's tombstones at their horizon: where no version is to be remembered, they are forgotten at once."""
    rows = tables.read(log.spark, log.silver).filter(f"bucket > {CONTROL_BUCKET} AND tombstone AND control IS NULL")
    return rows.filter(f"unix_millis(delete_horizon) <= {now}")


def withheld(log: TopicLog, end: LogEnd, dirty: Mapping[int, int], rows: DataFrame) -> dict[int, list[int]] | None:
    """The versions that stay, by partition, each by its offset; None where they are too many to be named.

    Args:
        log: the topic.
        end: the log's end, pinned.
        dirty: partition to the offset from which on the log may still hold records that are not the latest of their keys, after the clean.
        rows: silver's rows that are to be forgotten: `due` or `expiring`.

    Cost: one Spark job over the keys of the versions that are due, and over those of the log from ``dirty`` on.
    """
    from pyspark.sql import functions as F

    from_ = looked_up([dirty[index] for index in range(log.partitions)], F.col("partition"))
    held = bronze.records(log, at=end.version).filter(F.col("offset") >= from_)
    held = held.select(F.col("partition").alias("h_partition"), F.col("key").alias("h_key"))
    same = (F.col("partition") == F.col("h_partition")) & (F.col("key") == F.col("h_key"))
    with tables.door(log.table):
        found = (
            rows.select("partition", "key", "offset").join(held, same, "left_semi").select("partition", "offset").limit(MOST + 1).collect()
        )
    if len(found) > MOST:
        return None
    by_partition: dict[int, list[int]] = {}
    for row in found:
        by_partition.setdefault(row["partition"], []).append(row["offset"])
    return by_partition
