"""Is the log as appends leave it? Every record belongs to a batch, every batch holds its records, no offset is given twice."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from lakelog.delta import tables
from lakelog.log.rows import STATE_SEGMENT
from lakelog.model.log_state import PartitionState
from lakelog.model.records import looked_up
from lakelog.model.topic_log import TopicLog

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def problems(log: TopicLog) -> tuple[int, list[str]]:
    """Look at every offset of the log.

    Returns:
        (number of records, what is wrong in sentences; empty where nothing is).

    A log may begin above 0 and may have holes where records were removed (`PartitionState.start`, ``cleaned``) or where a mirrored source
    has them; so a batch's records are counted, not its offsets.

    Cost: one pass over the log's offsets with two shuffles of one row per batch.
    """
    rows = _by_partition(log).collect()
    return sum(row["records"] for row in rows), told(rows, log.partitions)


def told(rows: Iterable[Any], partitions: int) -> list[str]:
    """What the figures of each partition say is wrong, in sentences."""
    found = []
    for row in rows:
        where = f"partition {row['partition']}"
        if row["partition"] is None or row["partition"] >= partitions:
            found.append(f"{where}: there is no such partition, yet it holds {row['records']} records")
            continue
        if row["state"] is None:
            found.append(f"{where}: there is no state row")
            continue
        state = PartitionState.from_row(row["partition"], row["state"]["epoch"], "", row["state"]["control"])
        start = state.start
        if row["twice"]:
            found.append(f"{where}: {row['twice']} offsets were given twice")
        if row["strange"]:
            found.append(f"{where}: {row['strange']} records carry no batch of lakelog's: another writer wrote them")
        if row["unended"]:
            found.append(f"{where}: {row['unended']} records belong to appends whose batch rows are missing")
        if row["missing"]:
            found.append(f"{where}: {row['missing']} records of its batches are missing")
        if row["between"]:
            found.append(f"{where}: {row['between']} offsets below its end belong to no append: whole appends are missing")
        if row["outside"]:
            found.append(f"{where}: {row['outside']} batches hold records beyond their last offset")
        if row["first"] is not None and row["first"] < start:
            found.append(f"{where}: holds offset {row['first']} below the log start {start}")
    return found


def missing(log: TopicLog) -> dict[int, tuple[int, int]]:
    """Partition to the offsets between which all lies that is missing: from the first append that lacks records, or before which whole appends are
    missing, to the end of the last one (exclusive). Partitions that miss nothing are left out. Cost: as `problems`."""
    return {row["partition"]: (row["hole"], row["below"]) for row in _by_partition(log).collect() if row["missing"] or row["between"]}


def across(log: TopicLog, places: Mapping[int, tuple[int, str]]) -> list[int]:
    """The partitions in which another append lies across an offset than should: ``places`` is partition to the offset and that append.

    Cost: one small Spark job over the offsets of those partitions.
    """
    from pyspark.sql import functions as F

    here = looked_up([places.get(index, (-1, ""))[0] for index in range(log.partitions)], F.col("partition"))
    rows = tables.read(log.spark, log.table).filter(F.col("partition").isin(sorted(places)) & (F.col("segment") >= 0))
    first = F.least(F.col("first"), F.col("end") + 1 - F.col("claimed") - F.coalesce("holes", F.lit(0)))
    found = _batches(rows).filter((first <= here) & (F.greatest("last", "end") >= here)).select("partition", "batch")
    with tables.door(log.table):
        return sorted({row["partition"] for row in found.collect() if row["batch"] != places[row["partition"]][1]})


def _by_partition(log: TopicLog) -> DataFrame:
    """Figures of each partition, from those of each batch; ``hole`` and ``below`` as `missing` gives them."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    table = tables.read(log.spark, log.table).filter(F.col("partition").isNull() | (F.col("partition") >= 0))
    kind = F.get_json_object("control", "$.type")
    states = table.filter((F.col("segment") == STATE_SEGMENT) & (kind != "segment")).groupBy("partition")
    newest = states.agg(F.max(F.struct(-F.col("offset"), "epoch", "control")).alias("state"))
    # Records below this offset may have been removed.
    floor = F.greatest(
        *[F.coalesce(F.get_json_object("state.control", f"$.{name}").cast("bigint"), F.lit(0)) for name in ("cleaned", "start")]
    )
    batches = _batches(table.filter(F.col("segment").isNull() | (F.col("segment") >= 0)))
    # An offset given twice by two batches overlaps: the batch behind begins before the one in front ends.
    before = Window.partitionBy("partition").orderBy("first", "last").rowsBetween(Window.unboundedPreceding, -1)
    batches = batches.withColumn("reached", F.max("last").over(before))
    overlap = F.when(F.col("first") <= F.col("reached"), F.least("last", "reached") - F.col("first") + 1).otherwise(0)
    ours = F.col("batch").isNotNull() & F.col("end").isNotNull()
    joined = batches.join(newest, "partition", "full")
    reach = F.coalesce("end", "last")
    joined = joined.withColumn(
        "behind", F.coalesce(F.lag(reach).over(Window.partitionBy("partition").orderBy(reach.asc_nulls_last())) + 1, F.lit(0))
    )
    own = F.col("end") + 1 - F.coalesce("claimed", "records") - F.coalesce("holes", F.lit(0))
    # Of a batch that lies across the floor as many records may be gone as it has offsets below.
    owed, gap = F.col("claimed") - F.greatest(floor - own, F.lit(0)) - F.col("records"), own - F.greatest("behind", floor)
    counted = ours & (F.col("end") >= floor)
    lacking, between = F.when(counted & (owed > 0), owed), F.when(counted & (gap > 0), gap)
    hole = F.when(between.isNotNull(), F.greatest("behind", floor)).when(lacking.isNotNull(), F.greatest(own, floor))
    return (
        joined.groupBy("partition")
        .agg(
            F.coalesce(F.sum("records"), F.lit(0)).alias("records"),
            F.coalesce(F.sum((F.col("records") - F.col("offsets")) + overlap), F.lit(0)).alias("twice"),
            F.coalesce(F.sum(F.when(F.col("batch").isNull(), F.col("records")).otherwise(F.col("unmarked"))), F.lit(0)).alias("strange"),
            F.coalesce(
                F.sum(F.when(F.col("batch").isNotNull() & F.col("end").isNull(), F.col("records") - F.col("unmarked"))), F.lit(0)
            ).alias("unended"),
            F.coalesce(F.sum(lacking), F.lit(0)).alias("missing"),
            F.coalesce(F.sum(between), F.lit(0)).alias("between"),
            F.min(hole).alias("hole"),
            F.max(F.when(lacking.isNotNull(), F.col("end") + 1).when(between.isNotNull(), own)).alias("below"),
            F.count_if(ours & (F.col("last") > F.col("end"))).alias("outside"),
            F.min("first").alias("first"),
            F.first("state", ignorenulls=True).alias("state"),
        )
        .orderBy("partition")
    )


def _batches(rows: DataFrame) -> DataFrame:
    """What is there of each append in each partition, and what its batch row claims."""
    from pyspark.sql import functions as F

    is_record = F.col("control").isNull()
    kind = F.get_json_object("control", "$.type")
    end = F.when(kind == "batch", F.col("offset"))
    return (
        rows.withColumn("is_record", is_record)
        .groupBy("partition", "batch")
        .agg(
            F.count_if("is_record").alias("records"),
            F.count_distinct(F.when(is_record, F.col("offset"))).alias("offsets"),
            F.min(F.when(is_record, F.col("offset"))).alias("first"),
            F.max(F.when(is_record, F.col("offset"))).alias("last"),
            F.max(end).alias("end"),
            F.max(F.when(kind == "batch", F.get_json_object("control", "$.records").cast("bigint"))).alias("claimed"),
            F.max(F.when(kind == "batch", F.get_json_object("control", "$.holes").cast("bigint"))).alias("holes"),
            F.count_if(is_record & (F.col("segment").isNull() | F.col("epoch").isNull())).alias("unmarked"),
        )
    )
