"""Silver, the latest table: exactly one row per (partition, key), the record the ordering rule puts first.

A merge folds the log from the last merged offset on into silver in **one** MERGE that carries its own progress: control rows in the
reserved bucket -1 hold, per partition, the last merged offset, the epoch, the rule and the counts. The progress commits with the data,
travels back with a RESTORE, and gates the merge: it runs only if the control rows are still what it read, so of two merges at once one
wins and the other starts over. Control rows have ``tombstone = true``: ``WHERE NOT tombstone`` is the live table for any engine.

The costly part of an upsert is to find the rows to replace by key in a large table, three times over in a MERGE. Here one narrow scan
finds them (key and rank only) and drops what loses; the MERGE then joins on the offset of the row to be replaced, a number. Records that
all lose touch no data file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakelog import bronze, delta
from lakelog.bronze import Log
from lakelog.delta import TableRef
from lakelog.errors import Damaged
from lakelog.ordering import OrderingRule

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

COUNTS = ("records", "inserted", "updated", "deleted", "late", "duplicates", "invalid_versions", "ignored_deletes", "unkeyed")
# Up to this many winners are broadcast to the scan of silver; beyond, both sides are shuffled.
BROADCAST = 2_000_000
CONTROL_BUCKET = -1


@dataclass(frozen=True)
class Progress:
    """What silver's control rows say: last merged offset per partition, epoch, rule, totals, and a digest of all of it (the gate)."""

    offsets: dict[int, int]
    controls: dict[int, dict[str, Any]]
    epochs: dict[int, int]
    digest: int

    @property
    def rule(self) -> OrderingRule:
        """The rule silver was made under."""
        return OrderingRule.from_json(next(iter(self.controls.values()))["rule"])

    @property
    def next(self) -> dict[int, int]:
        """Partition to the first offset that is not merged yet."""
        return {index: offset + 1 for index, offset in self.offsets.items()}

    def totals(self) -> dict[str, int]:
        """Counts since the topic was created or rebuilt, over all partitions."""
        return {name: sum(control["counts"].get(name, 0) for control in self.controls.values()) for name in COUNTS}


def schema(key: DataType, value: DataType, version: DataType) -> StructType:
    """Silver's columns."""
    from pyspark.sql.types import (
        ArrayType,
        BinaryType,
        BooleanType,
        IntegerType,
        LongType,
        StringType,
        StructField,
        StructType,
        TimestampType,
    )

    headers = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
    columns = [
        ("bucket", IntegerType()), ("partition", IntegerType()), ("key", key), ("value", value), ("headers", headers), ("timestamp", TimestampType()),
        ("version", version), ("offset", LongType()), ("epoch", IntegerType()), ("tombstone", BooleanType()), ("delete_horizon", TimestampType()),
        ("merged_at", TimestampType()), ("control", StringType()),
    ]  # fmt: skip
    return StructType([StructField(name, kind) for name, kind in columns])


def skipping_columns(key: DataType) -> str:
    """The columns whose statistics skip files: keys where Delta can, then the numbers merges look for."""
    from pyspark.sql.types import StructType

    def able(kind: DataType) -> bool:
        return not kind.simpleString().startswith(("binary", "boolean", "struct"))

    if isinstance(key, StructType):
        keys = [f"key.{delta.quoted(field.name)}" for field in key.fields if able(field.dataType)]
    else:
        keys = ["key"] if able(key) else []
    return ",".join(["partition", *keys, "offset", "timestamp"])


def create(log: Log, table: TableRef, *, uuid: str, now: int, properties: Mapping[str, str]) -> None:
    """Create an empty latest table whose progress stands before the log's first record; a leftover of a broken creation is replaced."""
    frame = _control_rows(log, dict.fromkeys(range(log.partitions), -1), dict.fromkeys(range(log.partitions), 0), {}, uuid, 0, now)
    properties = {"delta.dataSkippingStatsColumns": skipping_columns(log.types.key), **properties}
    delta.create(frame, table, partitioned_by=("bucket",), properties=properties, replace=delta.exists(log.spark, table))


def _control_rows(
    log: Log,
    offsets: Mapping[int, int],
    epochs: Mapping[int, int],
    counts: Mapping[int, Mapping[str, int]],
    uuid: str,
    generation: int,
    now: int,
) -> DataFrame:
    """Control rows in silver's columns: progress per partition."""
    from pyspark.sql import functions as F

    rows = []
    for index, offset in sorted(offsets.items()):
        content = {"topic": uuid, "rule": log.rule.to_json(), "generation": generation, "counts": dict(counts.get(index, {}))}
        rows.append((CONTROL_BUCKET, index, offset, epochs[index], True, json.dumps(content, sort_keys=True)))
    ddl = "bucket INT, partition INT, offset BIGINT, epoch INT, tombstone BOOLEAN, control STRING"
    frame = delta.small_frame(log.spark, ddl, rows).coalesce(1)
    frame = frame.withColumn("merged_at", F.timestamp_millis(F.lit(now)))
    fields = schema(log.types.key, log.types.value, log.rule.version_type(log.types.value)).fields
    return frame.select(
        *[F.col(field.name) if field.name in frame.columns else F.lit(None).cast(field.dataType).alias(field.name) for field in fields]
    )


def _digest() -> Column:
    from pyspark.sql import functions as F

    return F.xxhash64("partition", "offset", "epoch", "control").cast("decimal(38,0)")


def progress(spark: SparkSession, table: TableRef, at: int | str | None = None) -> Progress:
    """Silver's control rows. Cost: one Spark job over one small file.

    Raises:
        Damaged: there are none, or two for a partition.
    """
    from pyspark.sql import functions as F

    with delta.door(table):
        rows = (
            delta.read(spark, table, at)
            .filter(F.col("bucket") == CONTROL_BUCKET)
            .select("partition", "offset", "epoch", "control", _digest().alias("digest"))
            .collect()
        )
    if not rows or len({row["partition"] for row in rows}) < len(rows):
        raise Damaged(f"{table}: the control rows of silver are not as lakelog left them. Rebuild with merge(rebuild=True).")
    return Progress(
        {row["partition"]: row["offset"] for row in rows},
        {row["partition"]: json.loads(row["control"]) for row in rows},
        {row["partition"]: row["epoch"] for row in rows},
        int(sum(row["digest"] for row in rows)),
    )


# ---- the fold: which record of each key wins, and what became of the others ----


def _slice(log: Log, start: Mapping[int, int], ends: Mapping[int, int]) -> DataFrame:
    """The log's records from ``start`` to ``ends`` (exclusive), with version and flags as the rule sees them."""
    from pyspark.sql import functions as F

    spans = {index: (start[index], end) for index, end in ends.items() if end > start[index]}
    rows = bronze.records(log).filter(F.col("partition").isin(list(spans)))
    rows = rows.filter(F.col("offset").between(min(low for low, _ in spans.values()), max(high for _, high in spans.values()) - 1))
    if len(set(spans.values())) > 1:
        frame = delta.small_frame(
            log.spark, "s_partition INT, s_low BIGINT, s_high BIGINT", [(index, *span) for index, span in spans.items()]
        )
        inside = (F.col("partition") == F.col("s_partition")) & (F.col("offset") >= F.col("s_low")) & (F.col("offset") < F.col("s_high"))
        rows = rows.join(F.broadcast(frame), inside, "left_semi")
    rows = rows.withColumn("version", log.rule.version())
    return rows.withColumn("invalid", log.rule.invalid_version()) if log.rule.strategy == "header" else rows


def _ranked(log: Log, rows: DataFrame) -> DataFrame:
    """The rows with their ``rank`` and the best rank of their key before them (``before``), for rules under which a record can be late."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    keys = Window.partitionBy("partition", "key").orderBy("offset")
    until_now = keys.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    barrier = None
    if log.rule.barriers:
        unversioned_delete = F.when(F.col("tombstone") & F.col("version").isNull(), F.col("offset"))
        rows = rows.withColumn("barrier", F.coalesce(F.max(unversioned_delete).over(until_now), F.lit(-1).cast("bigint")))
        barrier = F.col("barrier")
    rows = rows.withColumn("rank", log.rule.rank(barrier=barrier))
    return rows.withColumn("before", F.max("rank").over(keys.rowsBetween(Window.unboundedPreceding, -1)))


@dataclass(frozen=True)
class Fold:
    """A slice of the log folded: one winner a key, and (for rules under which a record can be late) every record's rank."""

    winners: DataFrame
    ranked: DataFrame | None
    rows: DataFrame


def fold(log: Log, rows: DataFrame) -> Fold:
    """One row per (partition, key): the record with the greatest rank.

    Takes: records with ``version``, any number per key, in any order. Gives: as many columns, one row per key.
    Cost: offset order, an aggregation over (partition, key) and a semi-join on (partition, offset); other rules, one sort by key and offset.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    keyed = rows.filter(F.col("key").isNotNull())
    if not log.rule.versioned:
        last = keyed.groupBy("partition", "key").agg(F.max("offset").alias("offset")).select("partition", "offset")
        return Fold(keyed.join(last, ["partition", "offset"], "left_semi").withColumn("rank", F.col("offset")), None, rows)
    from pyspark import StorageLevel

    ranked = _ranked(log, keyed).localCheckpoint(eager=True, storageLevel=StorageLevel.DISK_ONLY)
    best = Window.partitionBy("partition", "key").orderBy(F.col("rank").desc())
    winners = ranked.withColumn("place", F.row_number().over(best)).filter("place = 1").drop("place", "before")
    return Fold(winners, ranked, rows)


def bucket_of(log: Log) -> Column:
    """A key's bucket: ``pmod(xxhash64(key), silver.buckets)``."""
    from pyspark.sql import functions as F

    buckets = log.config.number("silver.buckets")
    return (F.lit(0) if buckets == 1 else F.pmod(F.xxhash64("key"), F.lit(buckets))).cast("int")


# ---- the merge ----


@dataclass(frozen=True)
class Step:
    """What a merge step is about to do: where it goes to, and counts per partition."""

    start: dict[int, int]
    ends: dict[int, int]
    counts: dict[int, dict[str, int]]

    def total(self, name: str) -> int:
        """A count over all partitions."""
        return sum(counts.get(name, 0) for counts in self.counts.values())


def merge(log: Log, table: TableRef, state: Progress, ends: Mapping[int, int], *, uuid: str, now: int) -> tuple[int | None, Step]:
    """Fold the log up to ``ends`` into silver, in one commit.

    Returns:
        (silver's version, or None when another merge was first: read the progress again; what the step did).

    Raises:
        Conflict: another commit touched the same buckets meanwhile.

    Cost: the slice of the log is read once or twice, silver's keys and ranks once (only the buckets that winners fall into), then a MERGE
    over offsets that rewrites the files with replaced rows, or marks those rows where deletion vectors are on.
    """
    from pyspark import StorageLevel
    from pyspark.sql import functions as F

    start = state.next
    folded = fold(log, _slice(log, start, ends))
    winners = folded.winners.withColumn("bucket", bucket_of(log)).localCheckpoint(eager=True, storageLevel=StorageLevel.DISK_ONLY)
    matched, size = _matched(log, table, winners)
    changes = _changes(log, winners, matched)
    changes = changes.localCheckpoint(eager=True, storageLevel=StorageLevel.DISK_ONLY)
    counts, buckets, least = _counts(log, folded, matched, changes, start, ends)
    step = Step(start, dict(ends), counts)
    moved = {index: end - 1 for index, end in ends.items() if end > start[index]}
    totals = {index: _added(state.controls[index]["counts"], counts.get(index, {})) for index in moved}
    generation = next(iter(state.controls.values()))["generation"]
    control = _control_rows(log, moved, state.epochs, totals, uuid, generation, now)
    match = F.coalesce(*[F.when(F.col("partition") == index, F.lit(state.offsets[index])) for index in moved]) if moved else F.lit(None)
    fields = [field.name for field in schema(log.types.key, log.types.value, log.rule.version_type(log.types.value)).fields]
    stamped = {
        "delete_horizon": F.lit(None).cast("timestamp"),
        "merged_at": F.timestamp_millis(F.lit(now)),
        "control": F.lit(None).cast("string"),
    }
    data = changes.select(
        *[stamped[name].alias(name) if name in stamped else F.col(name) for name in fields], F.col("old_offset").alias("match_offset")
    )
    source = data.unionAll(control.select(*fields, match.cast("bigint").alias("match_offset")))
    source = source.filter(F.expr(_gate(table, state)))
    if size <= BROADCAST:
        source = F.broadcast(source)
    least = min([least, *[state.offsets[index] for index in moved]])
    version = delta.merge(
        source,
        table,
        on=(
            f"t.bucket IN ({', '.join(map(str, [CONTROL_BUCKET, *buckets]))}) AND t.bucket = s.bucket AND t.offset >= {least}"
            " AND t.partition = s.partition AND t.offset = s.match_offset"
        ),
        clauses=f"WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED AND s.bucket > {CONTROL_BUCKET} THEN INSERT *",
    )
    return version, step


def _gate(table: TableRef, state: Progress) -> str:
    """Silver's control rows are still those that were read: read inside the MERGE's own transaction."""
    return (
        "(SELECT sum(CAST(xxhash64(partition, offset, epoch, control) AS DECIMAL(38,0)))"  # noqa: S608
        f" FROM {table.sql()} WHERE bucket = {CONTROL_BUCKET}) = {state.digest}"
    )


def _added(totals: Mapping[str, int], counts: Mapping[str, int]) -> dict[str, int]:
    return {name: totals.get(name, 0) + counts.get(name, 0) for name in COUNTS}


def _matched(log: Log, table: TableRef, winners: DataFrame) -> tuple[DataFrame, int]:
    """Silver's rows of the winners' keys: (partition, offset of the winner, offset, rank, version, flag of the row); how many winners there are.

    The one scan of silver by key: narrow, the winners broadcast to it.
    """
    from pyspark import StorageLevel
    from pyspark.sql import functions as F

    held = winners.groupBy("bucket").count().collect()
    size = sum(row["count"] for row in held)
    rows = delta.read(log.spark, table).filter(F.col("bucket").isin([row["bucket"] for row in held]))
    old = rows.select("partition", "key", *["version"] * log.rule.versioned, "offset", "tombstone")
    old = old.select(
        "partition",
        "key",
        F.col("offset").alias("old_offset"),
        log.rule.rank().alias("old_rank"),
        F.col("tombstone").alias("old_tombstone"),
    )
    keys = winners.select("partition", "key", F.col("offset").alias("new_offset"))
    keys = F.broadcast(keys) if size <= BROADCAST else keys
    found = old.join(keys, ["partition", "key"]).select("partition", "new_offset", "old_offset", "old_rank", "old_tombstone")
    with delta.door(table):
        return found.localCheckpoint(eager=True, storageLevel=StorageLevel.DISK_ONLY), size


def _changes(log: Log, winners: DataFrame, matched: DataFrame) -> DataFrame:
    """The winners that beat silver's row of their key, or have none, with the offset of the row they replace."""
    from pyspark.sql import functions as F

    joined = winners.join(
        matched.withColumnRenamed("partition", "m_partition"),
        (F.col("partition") == F.col("m_partition")) & (F.col("offset") == F.col("new_offset")),
        "left",
    )
    return joined.filter(F.col("old_offset").isNull() | (F.col("rank") > F.col("old_rank"))).drop(
        "m_partition", "new_offset", "old_rank", "rank"
    )


def _counts(
    log: Log, folded: Fold, matched: DataFrame, changes: DataFrame, start: Mapping[int, int], ends: Mapping[int, int]
) -> tuple[dict[int, dict[str, int]], list[int], int]:
    """What became of the records, by partition; the buckets that change; the least offset of a row to be replaced."""
    from pyspark.sql import functions as F

    counts: dict[int, dict[str, int]] = {index: {} for index, end in ends.items() if end > start[index]}
    live = ~F.col("tombstone")
    was_live = F.col("old_offset").isNotNull() & ~F.col("old_tombstone")
    buckets: set[int] = set()
    least = 2**63 - 1
    for row in (
        changes.groupBy("partition", "bucket")
        .agg(F.count_if(live & ~was_live).alias("inserted"), F.count_if(live & was_live).alias("updated"),
             F.count_if(F.col("tombstone")).alias("deleted"), F.min("old_offset").alias("least"))
        .collect()
    ):  # fmt: skip
        mine = counts[row["partition"]]
        for name in ("inserted", "updated", "deleted"):
            mine[name] = mine.get(name, 0) + row[name]
        buckets.add(row["bucket"])
        least = min(least, row["least"] if row["least"] is not None else least)
    invalid = F.count_if(F.col("invalid")) if "invalid" in folded.rows.columns else F.lit(0)
    for row in (
        folded.rows.groupBy("partition")
        .agg(F.count(F.lit(1)).alias("records"), F.count_if(F.col("key").isNull()).alias("unkeyed"), invalid.alias("invalid_versions"))
        .collect()
    ):
        counts[row["partition"]] |= {name: row[name] for name in ("records", "unkeyed", "invalid_versions")}
    if folded.ranked is not None:
        for row in _losers(log, folded.ranked, matched).collect():
            counts[row["partition"]] |= {name: row[name] for name in ("late", "duplicates", "ignored_deletes")}
    return counts, sorted(buckets), least


def _losers(log: Log, ranked: DataFrame, matched: DataFrame) -> DataFrame:
    """By partition: records that an earlier record of their key beat (late, or deletes ignored for want of a version), and ties.

    Each record is compared with the best before it, in the slice and in silver, so the counts do not depend on how merges cut the log.
    """
    from pyspark.sql import functions as F

    winning_offset = ranked.groupBy("partition", "key").agg(F.max_by("offset", "rank").alias("new_offset"))
    silver = winning_offset.join(matched, ["partition", "new_offset"]).select("partition", "key", "old_rank")
    compared = ranked.join(silver, ["partition", "key"], "left")
    best = F.greatest("before", "old_rank")
    lost = best.isNotNull() & (F.col("rank") < best)
    ignored = lost & F.col("tombstone") & F.col("version").isNull() & F.lit(log.rule.strategy in ("header", "column"))
    same = F.col("version").isNotNull() & best.isNotNull() & (best["version"] == F.col("version"))
    return compared.groupBy("partition").agg(
        F.count_if(lost & ~ignored).alias("late"),
        F.count_if(same & ~lost).alias("duplicates"),
        F.count_if(ignored).alias("ignored_deletes"),
    )


def rebuild(log: Log, table: TableRef, state: Progress, ends: Mapping[int, int], *, uuid: str, now: int) -> tuple[int | None, Step]:
    """Compute silver anew from the whole log under the topic's present rule, in one commit that replaces all rows.

    Cost: the whole log is read, silver is written once. Counts start anew.
    """
    from pyspark.sql import functions as F

    start = dict.fromkeys(ends, 0)
    fields = schema(log.types.key, log.types.value, log.rule.version_type(log.types.value)).fields
    counts: dict[int, dict[str, int]] = {}
    data = None
    if any(ends.values()):
        folded = fold(log, _slice(log, start, ends))
        winners = folded.winners.withColumn("bucket", bucket_of(log)).withColumn("merged_at", F.timestamp_millis(F.lit(now)))
        nothing = F.lit(None)
        old = winners.withColumn("old_offset", nothing.cast("bigint")).withColumn("old_tombstone", nothing.cast("boolean"))
        matched = winners.select(
            "partition",
            F.col("offset").alias("new_offset"),
            F.lit(None).cast("bigint").alias("old_offset"),
            F.col("rank").alias("old_rank"),
        ).limit(0)
        counts, _, _ = _counts(log, folded, matched, old, start, ends)
        data = winners.select(
            *[F.col(field.name) if field.name in winners.columns else nothing.cast(field.dataType).alias(field.name) for field in fields]
        )
    generation = next(iter(state.controls.values()))["generation"] + 1
    offsets = {index: end - 1 for index, end in ends.items()}
    control = _control_rows(log, offsets, state.epochs, {index: _added({}, counts.get(index, {})) for index in ends}, uuid, generation, now)
    version = delta.overwrite(control if data is None else data.unionAll(control), table, partitioned_by="bucket")
    return version, Step(start, dict(ends), counts)


# ---- reading ----


def rows(spark: SparkSession, table: TableRef, at: int | str | None = None) -> DataFrame:
    """Silver without its control rows."""
    from pyspark.sql import functions as F

    return delta.read(spark, table, at).filter(F.col("bucket") > CONTROL_BUCKET).drop("control")
