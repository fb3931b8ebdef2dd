"""A folded slice next to silver: which winners change a row, what became of every record, and which rows are to be replaced."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lakelog.delta import frames, past, tables
from lakelog.errors import Damaged
from lakelog.latest.control_rows import CONTROL_BUCKET
from lakelog.latest.fold import Fold
from lakelog.latest.progress import COUNTS, REBUILD
from lakelog.model.json_values import plain
from lakelog.model.topic_log import TopicLog

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

# Of a slice of at most so many records, the offsets of the rows to be replaced are told one by one.
LISTED = 300_000
# So many records that were late after a delete are named.
NAMED = 20
FILE = "struct<id:bigint,size:bigint>"


@dataclass(frozen=True)
class Compared:
    """What a slice does to silver.

    ``changes``: the winners that beat silver's row of their key or have none, with ``old_offset``, the offset of the row they replace.
    ``counts``: what became of the records, by partition. ``buckets`` the changes fall into. ``least``: no row below that offset is
    replaced (None: no row is); ``replaced``: the offsets of those rows, None where the slice is too large to list them; ``touched``: octets
    of the files they lie in (0 with deletion vectors, which rewrite none). ``late_after_delete``: the first of the records that lost to the remembered
    version of a deleted key: partition, key, offset, and the offset they ``lost_to``.
    """

    changes: DataFrame
    counts: dict[int, dict[str, int]]
    buckets: list[int]
    least: int | None
    replaced: list[int] | None
    touched: int
    late_after_delete: list[dict[str, Any]] = field(default_factory=list)


def compare(log: TopicLog, folded: Fold, at: int | None) -> Compared:
    """Put every row of a fold next to silver's row of its key.

    Args:
        log: the topic's log.
        folded: the slice.
        at: the version of silver; None when it holds no rows yet, or is computed anew.

    Raises:
        Damaged: silver holds a key of the slice more than once; in a slice of more than `LISTED` records that is not seen.

    Cost: one narrow scan of silver (only the buckets that winners fall into), the winners broadcast to it; one small aggregation. Where records
    were late after a delete, one small Spark job more.
    """
    from pyspark.sql import functions as F

    with tables.door(log.silver):
        rows = frames.kept(_beside(log, folded, at)) if at is not None else alone(folded)
        change = folded.winning() & (F.col("old_rank").isNull() | (F.col("rank") > F.col("old_rank")))
        found = figures(log, folded, rows, change)
        require_once(log, found)
        counts = {row["partition"]: {name: int(row[name] or 0) for name in COUNTS} for row in found}
        late = late_after_delete(log, rows) if any(one["late_after_delete"] for one in counts.values()) else []
    listed = folded.size <= LISTED
    least = [row["least"] for row in found if row["least"] is not None]
    return Compared(
        rows.filter(change),
        counts,
        sorted({bucket for row in found for bucket in row["buckets"] or []}),
        min(least) if least else None,
        sorted({offset for row in found for offset in row["replaced"] or []}) if listed else None,
        sum({file["id"]: file["size"] for row in found for file in row["files"] or []}.values()),
        late,
    )


def require_once(log: TopicLog, found: list[Any]) -> None:
    """Refuse a silver that holds a key more than once, by `figures`: each of its rows would become the new record.

    Raises:
        Damaged: naming the partition.
    """
    for row in found:
        if row["again"]:
            raise more_than_once(log, f"partition {row['partition']}: {row['again']} rows more than keys among those to be merged")


def more_than_once(log: TopicLog, told: str) -> Damaged:
    """The refusal of a silver that holds a key more than once."""
    return Damaged(
        f"{log.name}: the latest table holds a key more than once ({told}): another writer was here. Nothing was changed. {REBUILD}"
    )


def alone(folded: Fold) -> DataFrame:
    """The fold's rows as `_beside`, where silver holds none."""
    from pyspark.sql import functions as F

    nothing = [F.lit(None).cast("bigint").alias("old_offset")]
    nothing += [F.lit(None).cast("boolean").alias(name) for name in ("old_tombstone", "old_remembered")]
    rank = F.when(F.lit(False), F.col("rank")).alias("old_rank")
    return folded.rows.select("*", *nothing, rank, F.lit(None).cast(FILE).alias("old_file"))


def _beside(log: TopicLog, folded: Fold, at: int) -> DataFrame:
    """The fold's rows with silver's row of their key, or NULLs: ``old_offset``, ``old_rank``, ``old_tombstone``, ``old_remembered``, ``old_file``."""
    from pyspark.sql import functions as F

    old = past.pinned(log.spark, log.silver, at).filter(F.col("bucket") > CONTROL_BUCKET)
    winners = folded.rows.filter(folded.winning())
    if log.config.number("silver.buckets") > 1:
        held = [row["bucket"] for row in winners.select("bucket").distinct().collect()]
        old = old.filter(F.col("bucket").isin(held))
    place = [F.col("_metadata.file_path").alias("file_path"), F.col("_metadata.file_size").alias("file_size")]
    file = F.struct(F.xxhash64("file_path").alias("id"), F.col("file_size").alias("size"))
    if log.config.flag("deletion.vectors"):
        place, file = [], F.lit(None).cast(FILE)
    remembered = F.col("control").isNotNull().alias("remembered")
    old = old.select("partition", "key", "offset", "tombstone", remembered, *["version"] * log.rule.versioned, *place)
    keys = winners.select("partition", "key", F.col("offset").alias("new_offset"))
    # Rank and file are made of the few rows that match, not of all that are scanned.
    found = old.join(folded.hinted(keys, "key"), ["partition", "key"]).select(
        F.col("partition").alias("m_partition"),
        "new_offset",
        F.col("offset").alias("old_offset"),
        log.rule.rank().alias("old_rank"),
        F.col("tombstone").alias("old_tombstone"),
        F.col("remembered").alias("old_remembered"),
        file.alias("old_file"),
    )
    winner = F.col("best.offset") if log.rule.versioned else F.col("best")
    same_key = (F.col("partition") == F.col("m_partition")) & (winner == F.col("new_offset"))
    # A version may be a text of the value; silver's is taken to be about as long as the slice's.
    carried = ["value"] * (log.rule.strategy == "column")
    return folded.rows.join(folded.hinted(found, *carried), same_key, "left").drop("m_partition", "new_offset")


def figures(log: TopicLog, folded: Fold, rows: DataFrame, change: Column) -> list:  # type: ignore[type-arg]
    """By partition: the counts, what `Compared` says of buckets and replaced rows, and how many rows of silver stand ``again`` for a key; one Spark
    action."""
    from pyspark.sql import functions as F

    none = F.lit(0).cast("bigint")
    late, after_delete, ties, ignored = none, none, none, none
    keyed = F.col("key").isNotNull()
    if log.rule.versioned:
        best, lost, no_version, forgotten = _lost(log)
        tie = keyed & F.col("version").isNotNull() & best.isNotNull() & (best["version"] == F.col("version")) & ~lost
        late, after_delete = F.count_if(lost & ~no_version & ~forgotten), F.count_if(lost & ~no_version & forgotten)
        ties, ignored = F.count_if(tie), F.count_if(lost & no_version)
    live, was_live = ~F.col("tombstone"), F.col("old_offset").isNotNull() & ~F.col("old_tombstone")
    whole = [F.count(F.lit(1)).alias("records"), F.count_if(~keyed).alias("unkeyed")]
    listed, beside = folded.size <= LISTED, folded.winning() & F.col("old_offset").isNotNull()
    replaced = F.collect_list(F.when(change, F.col("old_offset"))) if listed else F.lit(None).cast("array<bigint>")
    again = F.count_if(beside) - F.size(F.collect_set(F.when(beside, F.col("offset")))) if listed else none
    compared = rows.groupBy("partition").agg(
        F.count_if(change & live & ~was_live).alias("inserted"),
        F.count_if(change & live & was_live).alias("updated"),
        F.count_if(change & F.col("tombstone")).alias("deleted"),
        late.alias("late"),
        after_delete.alias("late_after_delete"),
        ties.alias("duplicates"),
        (F.count_if(F.col("invalid")) if log.rule.strategy == "header" else none).alias("invalid_versions"),
        ignored.alias("ignored_deletes"),
        F.collect_set(F.when(change, F.col("bucket"))).alias("buckets"),
        F.min(F.when(change, F.col("old_offset"))).alias("least"),
        replaced.alias("replaced"),
        again.alias("again"),
        F.collect_set(F.when(change, F.col("old_file"))).alias("files"),
        *(whole if folded.records is None else []),
    )
    if folded.records is not None:
        compared = folded.records.groupBy("partition").agg(*whole).join(compared, "partition", "left")
    return compared.collect()


def _lost(log: TopicLog) -> tuple[Column, Column, Column, Column]:
    """Of a row under a rule with versions: the best rank before it, whether it lost to that, whether it is a delete without a version, whether what
    it lost to is a remembered version."""
    from pyspark.sql import functions as F

    best = F.greatest("before", "old_rank")
    lost = F.col("key").isNotNull() & best.isNotNull() & (F.col("rank") < best)
    no_version = F.col("tombstone") & F.col("version").isNull() & F.lit(log.rule.strategy != "timestamp")
    return best, lost, no_version, F.coalesce(F.col("old_remembered") & (F.col("old_rank") == best), F.lit(False))


def late_after_delete(log: TopicLog, rows: DataFrame) -> list[dict[str, Any]]:
    """The first records that were late after a delete, in the log's order, as `Compared` has them. Cost: one small Spark job over kept rows."""
    from pyspark.sql import functions as F

    _, lost, no_version, forgotten = _lost(log)
    named = rows.filter(lost & ~no_version & forgotten).select("partition", "key", "offset", "old_offset").orderBy("partition", "offset")
    first = named.limit(NAMED)
    try:
        found = [(row, plain(row["key"], log.types.key)) for row in frames.in_python(first).collect()]
    except (OverflowError, ValueError):
        # A key with a date or time that Python does not know, as Spark writes it: it stops no merge.
        found = [(row, row["key"]) for row in first.withColumn("key", F.col("key").cast("string")).collect()]
    return [{"partition": row["partition"], "key": key, "offset": row["offset"], "lost_to": row["old_offset"]} for row, key in found]
