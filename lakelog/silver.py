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

from lakelog import delta
from lakelog.delta import TableRef
from lakelog.errors import Damaged
from lakelog.fold import COUNTS, Fold, counted, fold, kept
from lakelog.ordering import OrderingRule
from lakelog.staging import Log

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

CONTROL_BUCKET = -1
# Up to this many replaced rows are named by their offsets within the MERGE's statement.
LITERALS = 30_000


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

    @property
    def generation(self) -> int:
        """How often silver was computed anew or changed by other than a merge."""
        return int(next(iter(self.controls.values()))["generation"])

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

    Cost: the slice of the log is read once, silver's keys and ranks once (only the buckets that winners fall into), then a MERGE over
    offsets that rewrites the files with replaced rows, or marks those rows where deletion vectors are on.
    """
    from pyspark.sql import functions as F

    folded = fold(log, state.next, ends)
    matched = _matched(log, table, folded)
    changes = kept(_changes(folded, matched))
    counts = counted(log, folded, matched)
    buckets, least = _changed(changes, counts)
    moved = {index: end - 1 for index, end in ends.items() if end > state.next[index]}
    totals = {index: _added(state.controls[index]["counts"], counts.get(index, {})) for index in moved}
    control = _control_rows(log, moved, state.epochs, totals, uuid, state.generation, now)
    merged_until = F.coalesce(*[F.when(F.col("partition") == index, F.lit(state.offsets[index])) for index in moved])
    source = _stored(log, changes, now).select("*", F.col("old_offset").alias("match_offset")).drop("old_offset")
    source = source.unionAll(control.withColumn("match_offset", merged_until.cast("bigint")).select(*source.columns))
    source = folded.hinted(source.filter(F.expr(_gate(table, state))))
    narrowed = _narrowed(log, changes, counts, least, [state.offsets[index] for index in moved])
    version = delta.merge(
        source,
        table,
        on=(
            f"t.bucket IN ({', '.join(map(str, [CONTROL_BUCKET, *buckets]))}) AND t.bucket = s.bucket{narrowed}"
            " AND t.partition = s.partition AND t.offset = s.match_offset"
        ),
        clauses=f"WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED AND s.bucket > {CONTROL_BUCKET} THEN INSERT *",
        scatter=log.config.number("silver.buckets") > 1,
    )
    return version, Step(state.next, dict(ends), counts)


def _narrowed(log: Log, changes: DataFrame, counts: Mapping[int, Mapping[str, int]], least: int, progress: list[int]) -> str:
    """A condition on silver alone that holds for every row to be replaced, so that the others are dropped where they are read.

    With deletion vectors a MERGE shuffles the whole target to find the new keys (an outer join that cannot broadcast the source); the few
    offsets to be replaced, as literals, leave it nothing to shuffle. Without them every row of a touched file is read and written anyway.
    """
    replaced = sum(mine.get("updated", 0) + mine.get("deleted", 0) + mine.get("inserted", 0) for mine in counts.values())
    if log.config.flag("deletion.vectors") and replaced <= LITERALS:
        rows = changes.select("old_offset").distinct().collect()
        offsets = sorted({*progress, *[row["old_offset"] for row in rows if row["old_offset"] is not None]})
        return f" AND t.offset IN ({', '.join(map(str, offsets))})"
    floor = floor_of(min([least, *progress]))
    return f" AND t.offset >= {floor}" if floor else ""


def floor_of(offset: int) -> int:
    """The largest power of two at or below an offset, 0 below 65536: a bound that skips old files by statistics.

    Its text stays the same from merge to merge, and with it the code that Spark generates for the scan of silver; a bound that differs each
    time would have the scan compiled anew each time.
    """
    return 1 << (offset.bit_length() - 1) if offset >= 65536 else 0


def _stored(log: Log, rows: DataFrame, now: int) -> DataFrame:
    """Winners in silver's columns, and ``old_offset``, the offset of the row they replace, where they have it."""
    from pyspark.sql import functions as F

    fixed = {
        "delete_horizon": F.lit(None).cast("timestamp"),
        "merged_at": F.timestamp_millis(F.lit(now)),
        "control": F.lit(None).cast("string"),
    }
    fields = schema(log.types.key, log.types.value, log.rule.version_type(log.types.value)).fields
    shown = [fixed[field.name].alias(field.name) if field.name in fixed else F.col(field.name) for field in fields]
    return rows.select(*shown, *[name for name in rows.columns if name == "old_offset"])


def _gate(table: TableRef, state: Progress) -> str:
    """Silver's control rows are still those that were read: read inside the MERGE's own transaction."""
    return (
        "(SELECT sum(CAST(xxhash64(partition, offset, epoch, control) AS DECIMAL(38,0)))"  # noqa: S608
        f" FROM {table.sql()} WHERE bucket = {CONTROL_BUCKET}) = {state.digest}"
    )


def _added(totals: Mapping[str, int], counts: Mapping[str, int]) -> dict[str, int]:
    return {name: totals.get(name, 0) + counts.get(name, 0) for name in COUNTS}


def _matched(log: Log, table: TableRef, folded: Fold) -> DataFrame:
    """Silver's rows of the winners' keys: (partition, offset of the winner, the row's offset, rank and flag).

    The one scan of silver by key: narrow, the winners broadcast to it.
    """
    from pyspark.sql import functions as F

    rows = delta.read(log.spark, table)
    if log.config.number("silver.buckets") > 1:
        held = [row["bucket"] for row in folded.winners.select("bucket").distinct().collect()]
        rows = rows.filter(F.col("bucket").isin(held))
    rows = rows.filter(F.col("bucket") > CONTROL_BUCKET)
    old = rows.select("partition", "key", "offset", "tombstone", *["version"] * log.rule.versioned)
    keys = folded.winners.select("partition", "key", F.col("offset").alias("new_offset"))
    # The rank is made of the few rows that match, not of all that are scanned.
    found = old.join(folded.hinted(keys), ["partition", "key"]).select(
        "partition",
        "new_offset",
        F.col("offset").alias("old_offset"),
        log.rule.rank().alias("old_rank"),
        F.col("tombstone").alias("old_tombstone"),
    )
    with delta.door(table):
        return kept(found)


def _changes(folded: Fold, matched: DataFrame) -> DataFrame:
    """The winners that beat silver's row of their key, or have none, with the offset and flag of the row they replace."""
    from pyspark.sql import functions as F

    same_row = (F.col("partition") == F.col("m_partition")) & (F.col("offset") == F.col("new_offset"))
    joined = folded.winners.join(folded.hinted(matched.withColumnRenamed("partition", "m_partition")), same_row, "left")
    beats = F.col("old_offset").isNull() | (F.col("rank") > F.col("old_rank"))
    unneeded = ("m_partition", "new_offset", "old_rank", "rank", "before", "best", "barrier", "invalid")
    return joined.filter(beats).drop(*unneeded)


def _changed(changes: DataFrame, counts: dict[int, dict[str, int]]) -> tuple[list[int], int]:
    """Count what the changes do to keys, into ``counts``; returns the buckets they fall into and the least offset of a row to replace."""
    from pyspark.sql import functions as F

    live, was_live = ~F.col("tombstone"), F.col("old_offset").isNotNull() & ~F.col("old_tombstone")
    buckets: set[int] = set()
    least = 2**63 - 1
    for row in (
        changes.groupBy("partition", "bucket")
        .agg(
            F.count_if(live & ~was_live).alias("inserted"),
            F.count_if(live & was_live).alias("updated"),
            F.count_if(F.col("tombstone")).alias("deleted"),
            F.min("old_offset").alias("least"),
        )
        .collect()
    ):
        mine = counts[row["partition"]]
        for name in ("inserted", "updated", "deleted"):
            mine[name] = mine.get(name, 0) + row[name]
        buckets.add(row["bucket"])
        least = min(least, row["least"] if row["least"] is not None else least)
    return sorted(buckets), least


def rebuild(log: Log, table: TableRef, state: Progress, ends: Mapping[int, int], *, uuid: str, now: int) -> tuple[int | None, Step]:
    """Compute silver anew from the whole log under the topic's present rule, in one commit that replaces all rows.

    Cost: the whole log is read, silver is written once. Counts start anew.
    """
    from pyspark.sql import functions as F

    start = dict.fromkeys(ends, 0)
    counts: dict[int, dict[str, int]] = {}
    data = None
    if any(ends.values()):
        folded = fold(log, start, ends)
        counts = counted(log, folded, None)
        data = _stored(log, folded.winners, now)
        _changed(folded.winners.select("*", F.lit(None).cast("bigint").alias("old_offset"), F.lit(None).alias("old_tombstone")), counts)
    offsets = {index: end - 1 for index, end in ends.items()}
    totals = {index: _added({}, counts.get(index, {})) for index in ends}
    control = _control_rows(log, offsets, state.epochs, totals, uuid, state.generation + 1, now)
    version = delta.overwrite(control if data is None else data.unionAll(control), table, partitioned_by="bucket")
    return version, Step(start, dict(ends), counts)


# ---- reading ----


def rows(spark: SparkSession, table: TableRef, at: int | str | None = None) -> DataFrame:
    """Silver without its control rows."""
    from pyspark.sql import functions as F

    return delta.read(spark, table, at).filter(F.col("bucket") > CONTROL_BUCKET).drop("control")
