"""Proof by recomputation: is the log as appends leave it, and is silver what an independent fold of the log gives?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakelog.delta import tables
from lakelog.latest import silver
from lakelog.latest.progress import stored
from lakelog.log import bronze, inspection
from lakelog.log.notes import describe_commit, foreign_commits, since_repair
from lakelog.model.topic_log import TopicLog
from lakelog.results import Verified

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def verify(log: TopicLog) -> Verified:
    """Look at every commit, every offset and every row.

    Cost: the history of the log, one pass over the log for its offsets, one fold of the merged part, one full join with silver.
    """
    commits = tables.history(log.spark, log.table, 100_000)
    problems = [f"another writer changed the log: {describe_commit(row)}" for row in foreign_commits(since_repair(commits))]
    with tables.door(log.table):
        records, found = inspection.problems(log)
        problems += found
        keys, wrong = compared(log)
    problems += wrong
    return Verified(log.name, records, keys, len(commits), problems)


def compared(log: TopicLog) -> tuple[int, list[str]]:
    """Silver against a fold of the merged part of the log by another way: ``row_number`` over the rank."""
    from pyspark.sql import functions as F

    state = stored(log.spark, log.silver)
    wanted = _winners(log, state.next)
    have = silver.rows(log).select(
        F.col("partition").alias("s_partition"), F.col("key").alias("s_key"), F.col("offset").alias("s_offset"),
        F.col("tombstone").alias("s_tombstone"),
        F.xxhash64(F.to_json(F.struct("value", "headers"))).alias("s_content"),
    )  # fmt: skip
    joined = wanted.join(have, (F.col("partition") == F.col("s_partition")) & (F.col("key") == F.col("s_key")), "full")
    content = F.xxhash64(F.to_json(F.struct("value", "headers")))
    counts = joined.agg(
        F.count(F.lit(1)).alias("keys"),
        F.count_if(F.col("s_offset").isNull()).alias("missing"),
        F.count_if(F.col("offset").isNull()).alias("unknown"),
        F.count_if(F.col("offset") != F.col("s_offset")).alias("other"),
        F.count_if(
            (F.col("offset") == F.col("s_offset")) & ((content != F.col("s_content")) | (F.col("tombstone") != F.col("s_tombstone")))
        ).alias("changed"),
    ).collect()[0]
    says = {
        "missing": "keys are missing in silver",
        "unknown": "silver has keys that the log does not have",
        "other": "keys have another row in silver than the one the rule puts first",
        "changed": "rows of silver differ from their record in the log",
    }
    return counts["keys"], [f"{counts[name]} {text}" for name, text in says.items() if counts[name]]


def _winners(log: TopicLog, ends: dict[int, int]) -> DataFrame:
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    limits = tables.small_frame(log.spark, "l_partition INT, l_end BIGINT", sorted(ends.items()))
    inside = (F.col("partition") == F.col("l_partition")) & (F.col("offset") < F.col("l_end"))
    rows = bronze.records(log).join(F.broadcast(limits), inside, "left_semi").filter(F.col("key").isNotNull())
    rows = rows.withColumn("version", log.rule.version())
    keys = Window.partitionBy("partition", "key")
    order: list[Column] = [F.col("version").isNotNull().desc(), F.col("version").desc_nulls_last(), F.col("offset").desc()]
    if log.rule.barriers:
        last_delete = F.max(F.when(F.col("tombstone") & F.col("version").isNull(), F.col("offset"))).over(keys)
        rows = rows.withColumn("barrier", last_delete)
        order.insert(0, (F.col("barrier").isNull() | (F.col("offset") > F.col("barrier"))).desc())
        rows = rows.filter(F.col("barrier").isNull() | (F.col("offset") >= F.col("barrier")))
    return rows.withColumn("place", F.row_number().over(keys.orderBy(*order))).filter("place = 1")
