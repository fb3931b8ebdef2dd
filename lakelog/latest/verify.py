"""Proof by recomputation: is the log as appends leave it, and is silver what an independent fold of the log gives?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakelog.delta import tables
from lakelog.latest import silver
from lakelog.latest.progress import stored
from lakelog.log import bronze
from lakelog.log.tail import describe_foreign, foreign_commits
from lakelog.model.names import TableRef
from lakelog.model.topic_log import TopicLog
from lakelog.results import Verified

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def verify(log: TopicLog, name: str, table: TableRef) -> Verified:
    """Look at every commit, every offset and every row.

    Cost: the history of the log, one pass over the log for its offsets, one fold of the merged part, one full join with silver.
    """
    commits = tables.history(log.spark, log.table, 100_000)
    problems = [f"another writer changed the log: {describe_foreign(row)}" for row in foreign_commits(commits)]
    with tables.door(log.table):
        records, found = _offsets(log)
        problems += found
        keys, wrong = _rows(log, table)
    problems += wrong
    return Verified(name, records, keys, len(commits), problems)


def _offsets(log: TopicLog) -> tuple[int, list[str]]:
    """Every partition's offsets are dense, once each, and end where its last batch says; every record belongs to a lakelog batch."""
    from pyspark.sql import functions as F

    table = tables.read(log.spark, log.table).filter(F.col("partition").isNull() | (F.col("partition") >= 0))
    is_record = F.col("control").isNull()
    rows = (
        table.filter(is_record | (F.col("segment") >= 0))
        .groupBy("partition")
        .agg(
            F.count_if(is_record).alias("records"),
            F.count_distinct(F.when(is_record, F.col("offset"))).alias("distinct"),
            F.max(F.when(is_record, F.col("offset"))).alias("last"),
            F.max(F.when(~is_record, F.col("offset"))).alias("end"),
            F.count_if(is_record & (F.col("batch").isNull() | F.col("segment").isNull() | F.col("epoch").isNull())).alias("unmarked"),
        )
        .orderBy("partition")
        .collect()
    )
    problems = []
    for row in rows:
        where = f"partition {row['partition']}"
        if row["partition"] is None or row["partition"] >= log.partitions:
            problems.append(f"{where}: there is no such partition, yet it holds {row['records']} records")
            continue
        if row["distinct"] < row["records"]:
            problems.append(f"{where}: {row['records'] - row['distinct']} offsets were given twice")
        if row["last"] is not None and row["last"] != row["end"]:
            problems.append(f"{where}: the last record is at offset {row['last']}, the last batch ends at {row['end']}")
        if row["end"] is not None and row["distinct"] != row["end"] + 1:
            problems.append(f"{where}: {row['end'] + 1 - row['distinct']} offsets below the log end {row['end'] + 1} are missing")
        if row["unmarked"]:
            problems.append(f"{where}: {row['unmarked']} records carry no batch, segment or epoch: they were not written by lakelog")
    return sum(row["records"] for row in rows), problems


def _rows(log: TopicLog, table: TableRef) -> tuple[int, list[str]]:
    """Silver against a fold of the merged part of the log by another way: ``row_number`` over the rank."""
    from pyspark.sql import functions as F

    state = stored(log.spark, table)
    wanted = _winners(log, state.next)
    have = silver.rows(log.spark, table).select(
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
        "unknown": "keys stand in silver that the log does not have",
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
