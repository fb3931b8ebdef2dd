"""Conditional publish (KIP-27): the offsets a request expects, held against the log; nothing is written here.

Scope ``partition``: a record's expected offset must be the one it would get. Scope ``key``: it must be greater than the last offset of its
key (rule 78), which is looked up in the log and silver: a late record that lost under a versioned rule, and that the cleaner removed, does not
count any more; the key's latest record is the same with it and without.
A check holds for the log as it ends now; the append's guard makes sure that it still ends there when it commits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from lakelog.delta import frames, tables
from lakelog.errors import ExpectedOffsetMismatch
from lakelog.inputs.staging import Batch
from lakelog.log.rows import log_rows
from lakelog.model.expectations import UNCONDITIONAL, Expectation
from lakelog.model.topic_log import TopicLog

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType


def expectations(batch: Batch) -> dict[int, Expectation]:
    """The log ends that the records' expected offsets imply, by partition. Cost: one Spark job where records expect any, none else."""
    from pyspark.sql import functions as F

    if not batch.conditional:
        return {}
    implied = F.col("expected_offset") - F.col("position")
    rows = (
        batch.located()
        .filter(F.col("expected_offset") > UNCONDITIONAL)
        .groupBy("partition")
        .agg(F.min(implied).alias("least"), F.max(implied).alias("most"))
        .collect()
    )
    return {row["partition"]: Expectation(row["partition"], row["least"], row["most"]) for row in rows}


def check(log: TopicLog, batch: Batch, expected: Mapping[int, Expectation], ends: Mapping[int, int], *, per_key: bool) -> None:
    """Hold a request's conditions against a log that ends at ``ends``.

    Raises:
        ExpectedOffsetMismatch: naming the first record, in request order, that does not fit.

    Cost: none where the conditions hold, but per key one scan of the keys of the partitions concerned.
    """
    broken = [one for one in expected.values() if not one.holds(ends[one.partition])]
    if broken:
        raise _mismatch(log, batch, broken, ends, of_records=not per_key)
    if per_key:
        _check_keys(log, batch, ends)


def _mismatch(
    log: TopicLog, batch: Batch, broken: list[Expectation], ends: Mapping[int, int], *, of_records: bool
) -> ExpectedOffsetMismatch:
    """The refusal of a request whose conditions on some partitions do not hold; ``of_records``: the records' own are among them."""
    from pyspark.sql import functions as F

    rows = _with_offsets(batch, ends).filter(F.col("partition").isin([one.partition for one in broken]))
    wrong = (F.col("expected_offset") > UNCONDITIONAL) & (F.col("expected_offset") != F.col("offset"))
    shown = rows.filter(wrong).orderBy("record").select("record", "partition", "expected_offset", "offset").limit(1)
    first = shown.collect() if of_records else []
    if first:
        record, partition, expected, actual = first[0]
    else:
        partition = broken[0].partition
        own = rows.filter(F.col("partition") == partition).agg(F.min("record")).collect()[0][0]
        record, expected, actual = 0 if own is None else own, broken[0].least, ends[partition]
        if expected == actual:
            expected = broken[0].most
    start = next(one.least for one in broken if one.partition == partition)
    copy = _duplicate_of(log, batch, partition, start)
    known = f" The log holds these very records from offset {copy} on: they were written before." if copy is not None else ""
    return ExpectedOffsetMismatch(
        f"{log.table}: record {record} expected offset {expected} of partition {partition}, it would get {actual}: the log ends at"
        f" {ends[partition]}.{known} Nothing was written. Read from the offset you expected, then decide again.",
        partition=partition, record=record, expected=expected, actual=actual, duplicate_of=copy,
    )  # fmt: skip


def _with_offsets(batch: Batch, ends: Mapping[int, int]) -> DataFrame:
    """The located rows with the ``offset`` each would get."""
    from pyspark.sql import functions as F

    starts = frames.small_frame(batch.rows.sparkSession, "e_partition INT, e_end BIGINT", sorted(ends.items()))
    rows = batch.located().join(F.broadcast(starts), F.col("partition") == F.col("e_partition"))
    return rows.withColumn("offset", F.col("e_end") + F.col("position"))


def _comparable(column: str, kind: DataType) -> Column:
    from pyspark.sql import functions as F

    text = kind.simpleString()
    return F.to_json(F.struct(column)) if "map<" in text or "variant" in text else F.col(column)


def _duplicate_of(log: TopicLog, batch: Batch, partition: int, start: int) -> int | None:
    """``start``, when the log holds exactly the request's records of a partition from there on (key, value, headers, flag, given times)."""
    from pyspark.sql import functions as F

    share = batch.shares.get(partition)
    if share is None or start < 0:
        return None
    compared = {"key": log.types.key, "value": log.types.value}
    mine = batch.located().filter(F.col("partition") == partition)
    mine = mine.select(
        (F.col("position") + F.lit(start)).alias("offset"),
        *[_comparable(name, kind).alias(name) for name, kind in compared.items()],
        "headers", "tombstone", "timestamp", "stamped",
    )  # fmt: skip
    held = (
        log_rows(log)
        .filter((F.col("partition") == partition) & (F.col("segment") >= 0) & F.col("control").isNull())
        .filter(F.col("offset").between(start, start + share.records - 1))
    )
    held = held.select(
        F.col("offset").alias("o"),
        *[_comparable(name, kind).alias(f"h_{name}") for name, kind in compared.items()],
        F.col("headers").alias("h_headers"), F.col("tombstone").alias("h_tombstone"), F.col("timestamp").alias("h_timestamp"),
    )  # fmt: skip
    same = ~F.col("stamped") | (F.col("timestamp") == F.col("h_timestamp"))
    for name in (*compared, "tombstone"):
        same = same & F.col(name).eqNullSafe(F.col(f"h_{name}"))
    none = F.array().cast("array<struct<key:string,value:binary>>")
    same = same & F.coalesce("headers", none).eqNullSafe(F.coalesce("h_headers", none))
    with tables.door(log.table):
        equal = mine.join(held, F.col("offset") == F.col("o")).filter(same).count()
    return start if equal == share.records else None


def _check_keys(log: TopicLog, batch: Batch, ends: Mapping[int, int]) -> None:
    """Refuse the first record whose expected offset is not greater than its key's last one: in the log, in silver, or earlier in the request.

    A late record that lost under a versioned rule counts until the cleaner removes it, so the same request may be refused before a clean and
    accepted after it: the key's latest record did not change.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    if not batch.conditional:
        return
    earlier = Window.partitionBy("partition", "key").orderBy("record").rowsBetween(Window.unboundedPreceding, -1)
    rows = _with_offsets(batch, ends).withColumn("predecessor", F.max("offset").over(earlier))
    rows = rows.filter(F.col("expected_offset") > UNCONDITIONAL)
    keys = rows.select("partition", "key").distinct()
    table = log_rows(log)
    records_held = table.filter(F.col("partition").isin(sorted(batch.shares)) & (F.col("segment") >= 0) & F.col("control").isNull())
    silver = tables.read(log.spark, log.silver).filter(F.col("bucket") >= 0)
    known = records_held.select("partition", "key", "offset").unionAll(silver.select("partition", "key", "offset"))
    last = known.join(F.broadcast(keys), ["partition", "key"]).groupBy("partition", "key").agg(F.max("offset").alias("last"))
    compared = rows.join(last, ["partition", "key"], "left")
    actual = F.greatest(F.coalesce("last", F.lit(-1)), F.coalesce("predecessor", F.lit(-1)))
    with tables.door(log.table):
        first = (
            compared.withColumn("actual", actual)
            .filter(F.col("expected_offset") <= F.col("actual"))
            .orderBy("record")
            .select("record", "partition", "expected_offset", "actual")
            .limit(1)
            .collect()
        )
    if first:
        record, partition, expected, last_offset = first[0]
        raise ExpectedOffsetMismatch(
            f"{log.table}: record {record} of partition {partition} expects an offset greater than its key's last, {last_offset}, but states"
            f" {expected}. Nothing was written. Read the key again, then decide.",
            partition=partition, record=record, expected=expected, actual=last_offset, duplicate_of=None,
        )  # fmt: skip
