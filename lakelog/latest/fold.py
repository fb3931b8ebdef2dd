"""The fold of a slice of the log: which record of each key wins, and which was the best before each record.

Counts are told by comparing each record with the best one *before it* in the log, in the slice or in silver: a record that lost to an
earlier one was late. So they do not depend on how merges cut the log.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from lakelog.delta import frames
from lakelog.delta.statement import FEW, interpreted
from lakelog.log import bronze
from lakelog.log.rows import RECORD_COLUMNS
from lakelog.model.records import Types, header_octets, octets
from lakelog.model.topic_log import TopicLog

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

# Up to this many winners are broadcast to the scan of silver, and up to this many octets of them; beyond, both sides are shuffled.
BROADCAST, BROADCAST_OCTETS = 1_000_000, 64 << 20
# A slice of at most so many records is folded by one task, without a shuffle.
SMALL = 100_000


@dataclass(frozen=True)
class Fold:
    """A slice folded: ``rows`` is what is to be compared with silver.

    As a rule every record with its ``rank``, the ``best`` rank of its key and, where records have versions, the best one ``before`` it. Of a
    large slice under ``offset`` the winners alone; then ``records`` are all of it. Both are kept. ``size``: at most so many records.
    ``types``: the topic's.
    """

    types: Types
    rows: DataFrame
    size: int
    records: DataFrame | None = None

    def winning(self) -> Column:
        """Whether a row is the winner of its key within the slice."""
        from pyspark.sql import functions as F

        return F.col("key").isNotNull() & (F.col("rank") == F.col("best"))

    def hinted(self, frame: DataFrame, *carried: str) -> DataFrame:
        """A frame of at most as many rows as there are winners, with the hint to broadcast it where that pays.

        Args:
            frame: numbers, beside what is ``carried``.
            carried: ``key`` and ``value`` of the winners, where the rows hold them: the driver's memory must take them.
        """
        from pyspark.sql import functions as F

        small = self.size <= BROADCAST and sum(self.octets[side] for side in carried) <= BROADCAST_OCTETS
        return F.broadcast(frame) if small else frame

    @cached_property
    def octets(self) -> dict[str, int]:
        """Octets of all winners' keys (``key``) and of their values and headers (``value``). Cost: one small Spark job."""
        from pyspark.sql import functions as F

        key = F.expr(octets("key", self.types.key))
        value = F.expr(octets("value", self.types.value)) + header_octets(F.col("headers"))
        with interpreted(self.rows.sparkSession, self.size <= FEW):
            return frames.sums(self.rows.filter(self.winning()), key=key, value=value)


def fold(log: TopicLog, start: Mapping[int, int], ends: Mapping[int, int], at: int) -> Fold:
    """The log, at a version of bronze, from ``start`` to ``ends`` (exclusive), and of each (partition, key) the record with the greatest rank.

    Cost: the slice is read once and kept, up to 100 thousand records with one sort by key and offset in one task. Beyond, offset
    order: an aggregation over (partition, key) and a semi-join on (partition, offset); other rules: a shuffle and sort.
    """
    from pyspark.sql import functions as F

    size = sum(end - start[index] for index, end in ends.items())
    rows = sliced(log, start, ends, at)
    if size <= SMALL:
        with interpreted(log.spark, size <= FEW):
            return Fold(log.types, frames.kept(ranked(log, rows.coalesce(1))), size)
    if log.rule.versioned:
        return Fold(log.types, frames.kept(ranked(log, rows)), size)
    records = frames.kept(rows)
    last = records.filter("key IS NOT NULL").groupBy("partition", "key").agg(F.max("offset").alias("offset")).select("partition", "offset")
    last = F.broadcast(last) if size <= BROADCAST else last
    winners = records.join(last, ["partition", "offset"], "left_semi")
    return Fold(log.types, frames.kept(winners.select("*", F.col("offset").alias("rank"), F.col("offset").alias("best"))), size, records)


def sliced(log: TopicLog, start: Mapping[int, int], ends: Mapping[int, int], at: int) -> DataFrame:
    """The log's records from ``start`` to ``ends`` (exclusive), with bucket, version and flags as the rule sees them."""
    from pyspark.sql import functions as F

    rows = bronze.between(log, start, ends, at)
    buckets = log.config.number("silver.buckets")
    bucket = F.lit(0) if buckets == 1 else F.pmod(F.xxhash64("key"), F.lit(buckets))
    invalid = [log.rule.invalid_version().alias("invalid")] * (log.rule.strategy == "header")
    return rows.select(*RECORD_COLUMNS, bucket.cast("int").alias("bucket"), log.rule.version().alias("version"), *invalid)


def ranked(log: TopicLog, rows: DataFrame) -> DataFrame:
    """The rows with their ``rank``, the ``best`` of their key, and, where there are versions, the best one ``before`` them."""
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
    if not log.rule.versioned:
        return rows.select("*", F.max("rank").over(whole).alias("best"))
    before = F.max("rank").over(ordered.rowsBetween(Window.unboundedPreceding, -1))
    return rows.select("*", before.alias("before"), F.max("rank").over(whole).alias("best"))
