"""The rows of the latest table as the cleaner needs them: where each winner lies in the log, and which tombstones are due."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from lakelog.cleaning.forgetting import is_due
from lakelog.delta import frames, past
from lakelog.latest.compare import compare
from lakelog.latest.control_rows import CONTROL_BUCKET
from lakelog.latest.fold import fold
from lakelog.latest.progress import Progress
from lakelog.model.records import looked_up
from lakelog.model.topic_log import TopicLog

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

COLUMNS = ("partition", "offset", "tombstone", "delete_horizon", "remembered")


def winners(log: TopicLog, state: Progress) -> DataFrame:
    """Silver at a version: `COLUMNS` of each row, remembered versions among them; control rows are left out."""
    rows = past.pinned(log.spark, log.silver, state.version).filter(f"bucket > {CONTROL_BUCKET}")
    return rows.withColumn("remembered", _remembered()).select(*COLUMNS)


def winners_ahead(log: TopicLog, state: Progress, ends: Mapping[int, int], at: int) -> DataFrame:
    """`winners` as a merge up to ``ends`` would leave them; nothing is written. Cost: as the reading half of that merge."""
    from pyspark.sql import functions as F

    if dict(ends) == state.next:
        return winners(log, state)
    slice_ = fold(log, state.next, ends, at)
    changes = compare(log, slice_, None if state.empty else state.version).changes
    replaced = changes.filter("old_offset IS NOT NULL").select("partition", F.col("old_offset").alias("offset"))
    stays = winners(log, state).join(replaced, ["partition", "offset"], "left_anti")
    new = changes.select(
        "partition", "offset", "tombstone", F.lit(None).cast("timestamp").alias("delete_horizon"), F.lit(False).alias("remembered")
    )
    return frames.kept(stays.unionAll(new))


def _remembered() -> Column:
    from pyspark.sql import functions as F

    return F.col("control").isNotNull()


def due(now: int) -> Column:
    """Whether a row is a tombstone whose delete horizon is reached."""
    from pyspark.sql import functions as F

    horizon = F.coalesce(F.unix_millis("delete_horizon") <= F.lit(now), F.lit(False))
    return F.col("tombstone") & ~F.col("remembered") & horizon


def figures(rows: DataFrame, to: Mapping[int, int], partitions: int, *, now: int, forget_ms: int) -> dict[int, dict[str, int]]:
    """By partition what becomes of silver's tombstones.

    Args:
        rows: `winners`.
        to: of the partitions that are cleaned, the end of the cleanable part.
        partitions: how many there are.
        now: the time in milliseconds.
        forget_ms: how long versions are remembered; below 0 for ever.

    Returns:
        Partition to ``expired``, ``stamped``, ``forgotten``, and the least and largest offset of expired tombstones (``first``, ``last``, -1 for none).

    Cost: one Spark job over silver's flags and offsets.
    """
    from pyspark.sql import functions as F

    below = looked_up([to.get(index, -1) for index in range(partitions)], F.col("partition"))
    expires = due(now)
    stamp = F.col("tombstone") & ~F.col("remembered") & F.col("delete_horizon").isNull() & (F.col("offset") < below)
    forget = F.col("remembered") & is_due(now, forget_ms)
    found = (
        rows.filter("tombstone").groupBy("partition")
        .agg(
            F.count_if(expires).alias("expired"), F.count_if(stamp).alias("stamped"), F.count_if(forget).alias("forgotten"),
            F.coalesce(F.min(F.when(expires, F.col("offset"))), F.lit(-1)).alias("first"),
            F.coalesce(F.max(F.when(expires, F.col("offset"))), F.lit(-1)).alias("last"),
        )
        .collect()
    )  # fmt: skip
    return {row["partition"]: {name: int(row[name]) for name in ("expired", "stamped", "forgotten", "first", "last")} for row in found}
