"""The fold of a slice of the log: which record of each key wins, and what became of the others.

Counts are told by comparing each record with the best one *before it* in the log, in the slice or in silver: a record that lost to an
earlier one was late. So they do not depend on how merges cut the log.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakelog import bronze, delta
from lakelog.staging import Log

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

COUNTS = ("records", "inserted", "updated", "deleted", "late", "duplicates", "invalid_versions", "ignored_deletes", "unkeyed")
# Up to this many winners are broadcast to the scan of silver; beyond, both sides are shuffled.
BROADCAST = 1_000_000


@dataclass(frozen=True)
class Fold:
    """A slice folded: all ``records`` (kept on disk), the ``winners``, one row a key with ``bucket`` and ``rank``, and at most how many."""

    records: DataFrame
    winners: DataFrame
    size: int

    def hinted(self, frame: DataFrame) -> DataFrame:
        """A frame of at most as many rows as there are winners, with the hint to broadcast it where that pays."""
        from pyspark.sql import functions as F

        return F.broadcast(frame) if self.size <= BROADCAST else frame


def kept(frame: DataFrame) -> DataFrame:
    """The frame evaluated once and kept on local disk: what is counted is what is written, and it is read several times."""
    from pyspark import StorageLevel

    return frame.localCheckpoint(eager=True, storageLevel=StorageLevel.DISK_ONLY)


def bucket_of(log: Log) -> Column:
    """A key's bucket: ``pmod(xxhash64(key), silver.buckets)``."""
    from pyspark.sql import functions as F

    buckets = log.config.number("silver.buckets")
    return (F.lit(0) if buckets == 1 else F.pmod(F.xxhash64("key"), F.lit(buckets))).cast("int")


def fold(log: Log, start: Mapping[int, int], ends: Mapping[int, int]) -> Fold:
    """The log from ``start`` to ``ends`` (exclusive), one row per (partition, key): the record with the greatest rank.

    Cost: the slice is read once and kept on local disk. Offset order: an aggregation over (partition, key) and a semi-join on
    (partition, offset); other rules: one shuffle and sort by key and offset.
    """
    from pyspark.sql import functions as F

    rows = _slice(log, start, ends).withColumn("bucket", bucket_of(log))
    size = sum(end - start[index] for index, end in ends.items())
    if log.rule.versioned:
        records = kept(_ranked(log, rows))
        return Fold(records, records.filter(F.col("key").isNotNull() & (F.col("rank") == F.col("best"))), size)
    records = kept(rows)
    last = records.filter(F.col("key").isNotNull()).groupBy("partition", "key").agg(F.max("offset").alias("offset"))
    last = last.select("partition", "offset")
    last = F.broadcast(last) if size <= BROADCAST else last
    winners = records.join(last, ["partition", "offset"], "left_semi").withColumn("rank", F.col("offset"))
    return Fold(records, kept(winners), size)


def _slice(log: Log, start: Mapping[int, int], ends: Mapping[int, int]) -> DataFrame:
    """The log's records from ``start`` to ``ends`` (exclusive), with version and flags as the rule sees them."""
    from pyspark.sql import functions as F

    spans = {index: (start[index], end) for index, end in ends.items() if end > start[index]}
    low, high = min(low for low, _ in spans.values()), max(high for _, high in spans.values())
    rows = bronze.records(log).filter(F.col("partition").isin(list(spans)) & F.col("offset").between(low, high - 1))
    if len(set(spans.values())) > 1:
        table = [(index, *span) for index, span in spans.items()]
        frame = delta.small_frame(log.spark, "s_partition INT, s_low BIGINT, s_high BIGINT", table)
        inside = (F.col("partition") == F.col("s_partition")) & (F.col("offset") >= F.col("s_low")) & (F.col("offset") < F.col("s_high"))
        rows = rows.join(F.broadcast(frame), inside, "left_semi")
    rows = rows.withColumn("version", log.rule.version())
    return rows.withColumn("invalid", log.rule.invalid_version()) if log.rule.strategy == "header" else rows


def _ranked(log: Log, rows: DataFrame) -> DataFrame:
    """The rows with their ``rank``, the best rank of their key ``before`` them, and the ``best`` of all."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    whole = Window.partitionBy("partition", "key")
    ordered = whole.orderBy("offset")
    barrier = None
    if log.rule.barriers:
        until_now = ordered.rowsBetween(Window.unboundedPreceding, Window.currentRow)
        unversioned_delete = F.when(F.col("tombstone") & F.col("version").isNull(), F.col("offset"))
        rows = rows.withColumn("barrier", F.coalesce(F.max(unversioned_delete).over(until_now), F.lit(-1).cast("bigint")))
        barrier = F.col("barrier")
    rows = rows.withColumn("rank", log.rule.rank(barrier=barrier))
    before = F.max("rank").over(ordered.rowsBetween(Window.unboundedPreceding, -1))
    return rows.withColumn("before", before).withColumn("best", F.max("rank").over(whole))


def counted(log: Log, folded: Fold, matched: DataFrame | None) -> dict[int, dict[str, int]]:
    """What became of the slice's records, by partition: how many, unkeyed, late, ties, ignored deletes, unusable versions.

    Args:
        log: the topic's log.
        folded: the slice.
        matched: silver's rows of the winners' keys (``partition``, ``new_offset``, ``old_rank``); None when silver is computed anew.
    """
    from pyspark.sql import functions as F

    none = F.lit(0).cast("bigint")
    records, late, ties, ignored = folded.records, none, none, none
    if log.rule.versioned:
        best = F.col("before")
        if matched is not None:
            silver = matched.select(F.col("partition").alias("m_partition"), "new_offset", "old_rank")
            same_key = (F.col("partition") == F.col("m_partition")) & (F.col("best.offset") == F.col("new_offset"))
            records = records.join(folded.hinted(silver), same_key, "left")
            best = F.greatest("before", "old_rank")
        lost = F.col("key").isNotNull() & best.isNotNull() & (F.col("rank") < best)
        no_version = F.col("tombstone") & F.col("version").isNull() & F.lit(log.rule.strategy != "timestamp")
        tie = F.col("key").isNotNull() & F.col("version").isNotNull() & best.isNotNull() & (best["version"] == F.col("version")) & ~lost
        late, ties, ignored = F.count_if(lost & ~no_version), F.count_if(tie), F.count_if(lost & no_version)
    invalid = F.count_if(F.col("invalid")) if log.rule.strategy == "header" else none
    rows = (
        records.groupBy("partition")
        .agg(
            F.count(F.lit(1)).alias("records"),
            F.count_if(F.col("key").isNull()).alias("unkeyed"),
            late.alias("late"),
            ties.alias("duplicates"),
            ignored.alias("ignored_deletes"),
            invalid.alias("invalid_versions"),
        )
        .collect()
    )
    return {row["partition"]: {name: row[name] for name in row.asDict() if name != "partition"} for row in rows}
