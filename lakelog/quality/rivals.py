"""Newer records of the keys that are to be requeued: those that win now, and would lose against a record that is older but appended again.

Whether an offset decides between two records of a key is a matter of the topic's rule. Under ``offset`` it always does; under the others where both
have the same version, or none; where a delete without a version is a barrier, between it and every other record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakelog.delta import past, tables
from lakelog.latest import silver
from lakelog.latest.progress import progress
from lakelog.log import bronze, extent
from lakelog.log.tail import LogEnd
from lakelog.model.names import key_text
from lakelog.model.topic_log import TopicLog

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

# So many keys are named in a refusal.
NAMED = 10_000


def newer(log: TopicLog, mended: DataFrame, end: LogEnd) -> list[str]:
    """The keys of which the log holds a record that is newer than one to be requeued, and that would lose to it.

    Newer is what stands behind the place that the record had, or would have had. A record that a restore took out of the log is older than all of a
    later epoch, and so is one that a gate put aside, unless the log holds records of its batch: then it stood behind those that were let in before
    it. Where its partition has changed, the whole batch counts as newer; where that is not in the log, or the place not known, all of it does.

    Args:
        log: the topic's log.
        mended: rows of the quarantine with ``old_partition``, as `requeue.Mending` gives them.
        end: the log's end.

    Cost: one small Spark job for the batches; one scan of silver's keys and of the part of the log that is not merged; of the whole log where deletes
    without a version are barriers.
    """
    from pyspark.sql import functions as F

    wanted = _placed(log, mended)
    held = _held(log, end)
    if log.rule.versioned:
        held = held.join(wanted.select("partition", "key").distinct(), ["partition", "key"], "left_semi")
    found = wanted.join(_newest(log, held), ["partition", "key"]).filter(F.coalesce(_overwrites(log), F.lit(False)))
    with tables.door(log.silver):
        rows = found.select(F.to_json(F.struct("key")).alias("key")).distinct().orderBy("key").limit(NAMED).collect()
    return [key_text(row["key"]) for row in rows]


def _placed(log: TopicLog, mended: DataFrame) -> DataFrame:
    """Of each record key and partition, and what tells its place: ``start`` of its batch with what stood before it, ``log_end``, and the rest."""
    from pyspark.sql import functions as F

    batches = [row["batch"] for row in mended.filter(F.col("batch").isNotNull()).select("batch").distinct().collect()]
    starts = extent.batch_starts(log, batches)
    text = "\u0001".join(f"{batch}/{index}\u0002{start}" for (batch, index), start in starts.items())
    start = F.lit(None).cast("bigint")
    if starts:
        start = F.element_at(F.str_to_map(F.lit(text), F.lit("\u0001"), F.lit("\u0002")), F.concat_ws("/", "batch", "partition")).cast(
            "bigint"
        )
    moved = F.col("partition") != F.col("old_partition")
    inside = F.when(moved, F.lit(0)).otherwise(F.coalesce("position", F.lit(0)))
    version = log.rule.version().cast(log.rule.version_type(log.types.value))
    return mended.select(
        "partition", "key", (start + inside).alias("start"), moved.alias("moved"), F.coalesce("log_end", F.lit(0)).alias("log_end"),
        F.col("epoch").alias("old_epoch"), F.col("offset").alias("old_offset"), version.alias("own_version"),
        (F.col("tombstone") & version.isNull()).alias("own_barrier"),
    )  # fmt: skip


def _held(log: TopicLog, end: LogEnd) -> DataFrame:
    """What silver and the log hold: ``partition``, ``key``, ``offset``, ``epoch``, ``version``, and whether it is a ``barrier``."""
    from pyspark.sql import functions as F

    kind = log.rule.version_type(log.types.value)

    def seen(rows: DataFrame, version: Column) -> DataFrame:
        barrier = F.col("tombstone") & version.isNull()
        return rows.select("partition", "key", "offset", "epoch", version.cast(kind).alias("version"), barrier.alias("barrier"))

    state, ends = progress(log), end.ends()
    stored = silver.with_remembered(log, past.pinned(log.spark, log.silver, state.version))
    held = seen(stored, F.col("version") if state.rule == log.rule and log.rule.versioned else log.rule.version())
    # Silver does not tell of a barrier that a later record won against, nor of what lost to a record before the barrier.
    first = end.starts() if log.rule.barriers else state.next
    if any(stop > first[index] for index, stop in ends.items()):
        held = held.unionAll(seen(bronze.between(log, first, ends, end.version), log.rule.version()))
    return held


def _newest(log: TopicLog, held: DataFrame) -> DataFrame:
    """By partition and key: the ``last`` record, the last ``wall`` (a barrier), and the ``best`` of those that it does not shut out."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    place = F.struct("offset", "epoch")
    if log.rule.barriers:
        wall = F.max(F.when(F.col("barrier"), F.col("offset"))).over(Window.partitionBy("partition", "key"))
        held = held.withColumn("wall", wall).filter(F.col("wall").isNull() | (F.col("offset") >= F.col("wall")))
    rank = F.struct(F.col("version").isNotNull().alias("has_version"), "version", "offset", "epoch")
    return held.groupBy("partition", "key").agg(
        F.max(place).alias("last"), F.max(F.when(F.col("barrier"), place)).alias("wall"), F.max(rank).alias("best")
    )


def _overwrites(log: TopicLog) -> Column:
    """Whether a placed record, appended again, wins against a newer one of its key."""
    from pyspark.sql import functions as F

    def later(one: str) -> Column:
        offset, epoch = F.col(f"{one}.offset"), F.col(f"{one}.epoch")
        behind = F.col("old_offset").isNull() & (offset >= F.col("log_end"))
        beyond = F.when(F.col("moved"), F.lit(True)).otherwise((epoch > F.col("old_epoch")) | behind)
        return F.when(F.col("start").isNotNull(), offset >= F.col("start")).otherwise(beyond)

    stamped_anew = log.rule.strategy == "timestamp" and log.config.text("message.timestamp.type") != "CreateTime"
    if not log.rule.versioned or stamped_anew:
        return later("last")
    tie = F.col("own_version").eqNullSafe(F.col("best.version")) & later("best")
    if not log.rule.barriers:
        return tie
    behind_wall = F.coalesce(F.col("wall").isNotNull() & later("wall"), F.lit(False))
    return F.when(F.col("own_barrier"), later("last")).otherwise(tie | behind_wall)
