"""The latest table computed again by a fold of its own, plain and slow, and compared with silver row by row.

It shares nothing with the merge but the rule's reading of a record's version: all records of a key are numbered in the rule's order, the first
is the latest. Where the log does not hold all records, the rows of a snapshot stand for what came before.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakelog.delta import frames, tables
from lakelog.latest import silver
from lakelog.latest.progress import stored
from lakelog.log import bronze
from lakelog.model.topic_log import TopicLog

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row

# So many differences are named; all are counted.
NAMED = 20
SAYS = {
    "missing": "keys are missing in silver",
    "unknown": "keys of silver are not in the log",
    "other": "keys have another row in silver than the one the rule puts first",
    "changed": "rows of silver differ from their record in the log",
}
PARTS = 1_000_000


@dataclass(frozen=True)
class Comparison:
    """Silver against the fold: keys compared, what is wrong in sentences, and the first differences, each with its partition and key."""

    keys: int
    problems: list[str]
    differences: list[dict[str, Any]]


@dataclass(frozen=True)
class Base:
    """What stands for the records below some offsets: silver's rows of a snapshot that ends there."""

    rows: DataFrame
    ends: Mapping[int, int]


def compared(log: TopicLog, base: Base | None = None, share: float = 1.0) -> Comparison:
    """Silver against a fold of the merged part of the log.

    Args:
        log: the topic.
        base: what stands for the log below its end offsets; None folds the log from its start.
        share: of the keys, those chosen by their hash, the same ones each time.

    Cost: one pass over the log from the base on, a shuffle and sort by key, one full join with silver.
    """
    from pyspark.sql import functions as F

    state = stored(log.spark, log.silver)
    # Versions that were made under another rule say nothing under this one.
    wanted = _sampled(winners(log, state.next, base, share, remembered=state.rule == log.rule), share)
    have = _sampled(silver.rows(log), share).select(
        F.col("partition").alias("s_partition"), F.col("key").alias("s_key"), F.col("offset").alias("s_offset"),
        F.col("tombstone").alias("s_tombstone"), _content().alias("s_content"),
    )  # fmt: skip
    joined = wanted.join(have, (F.col("partition") == F.col("s_partition")) & F.col("key").eqNullSafe(F.col("s_key")), "full")
    same = F.col("offset") == F.col("s_offset")
    difference = (
        F.when(F.col("s_offset").isNull(), "missing").when(F.col("offset").isNull(), "unknown").when(~same, "other")
        .when((F.col("content") != F.col("s_content")) | (F.col("tombstone") != F.col("s_tombstone")), "changed")
    )  # fmt: skip
    judged = frames.kept(
        joined.select(
            F.coalesce("partition", "s_partition").alias("partition"), F.coalesce("key", "s_key").alias("key"), F.col("offset").alias("expected"),
            F.col("s_offset").alias("found"), difference.alias("difference"),
        )
    )  # fmt: skip
    with tables.door(log.silver):
        counts = judged.agg(
            F.count(F.lit(1)).alias("keys"), *[F.count_if(F.col("difference") == name).alias(name) for name in SAYS]
        ).collect()[0]
        problems = [f"{counts[name]} {text}" for name, text in SAYS.items() if counts[name]]
        named = judged.filter("difference IS NOT NULL").orderBy("partition", "expected", "found").limit(NAMED).collect() if problems else []
    return Comparison(counts["keys"], problems, [_named(row) for row in named])


def _named(row: Row) -> dict[str, Any]:
    key = row["key"]
    shown = key.asDict(recursive=True) if hasattr(key, "asDict") else key
    shown = bytes(shown) if isinstance(shown, bytearray) else shown
    if isinstance(shown, datetime.datetime):
        shown = shown.isoformat()
    return {
        "partition": row["partition"],
        "key": shown,
        "difference": row["difference"],
        "expected": row["expected"],
        "found": row["found"],
    }


def _content() -> Column:
    from pyspark.sql import functions as F

    return F.xxhash64(F.to_json(F.struct("value", "headers")))


def _sampled(rows: DataFrame, share: float) -> DataFrame:
    """The rows of a share of the keys."""
    from pyspark.sql import functions as F

    return rows if share >= 1 else rows.filter(F.pmod(F.xxhash64("partition", "key"), F.lit(PARTS)) < round(share * PARTS))


def winners(log: TopicLog, ends: Mapping[int, int], base: Base | None = None, share: float = 1.0, *, remembered: bool = True) -> DataFrame:
    """The first of each key by the rule, of the base's rows and the log's records from there to ``ends``.

    Args:
        log: the topic.
        ends: partition to the end of what is folded.
        base: what stands for the log below its end offsets.
        share: of the keys.
        remembered: records that are older than a delete whose version silver remembers lose to it.

    Cost: one pass over the log from the base on, a shuffle and sort by key.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    starts = dict.fromkeys(ends, 0) if base is None else base.ends
    limits = frames.small_frame(
        log.spark, "l_partition INT, l_start BIGINT, l_end BIGINT", [(i, starts[i], end) for i, end in sorted(ends.items())]
    )
    inside = (F.col("partition") == F.col("l_partition")) & (F.col("offset") >= F.col("l_start")) & (F.col("offset") < F.col("l_end"))
    rows = bronze.records(log).join(F.broadcast(limits), inside, "left_semi").filter(F.col("key").isNotNull())
    columns = ("partition", "key", "value", "headers", "offset", "tombstone", "version")
    rows = _sampled(rows, share).withColumn("version", log.rule.version()).select(*columns)
    if base is not None:
        rows = rows.unionAll(_sampled(base.rows, share).select(*columns))
    # A delete that the cleaner removed is no row of either side, but what is older than it loses to it.
    rows = rows.withColumn("remembered", F.lit(False))
    if remembered and log.rule.versioned:
        rows = rows.unionAll(_sampled(silver.remembered(log), share).select(*columns, F.lit(True)))
    rows = rows.withColumn("content", _content())
    keys = Window.partitionBy("partition", "key")
    order: list[Column] = [F.col("version").isNotNull().desc(), F.col("version").desc_nulls_last(), F.col("offset").desc()]
    if log.rule.barriers:
        last_delete = F.max(F.when(F.col("tombstone") & F.col("version").isNull(), F.col("offset"))).over(keys)
        rows = rows.withColumn("barrier", last_delete)
        order.insert(0, (F.col("barrier").isNull() | (F.col("offset") > F.col("barrier"))).desc())
        rows = rows.filter(F.col("barrier").isNull() | (F.col("offset") >= F.col("barrier")))
    return rows.withColumn("place", F.row_number().over(keys.orderBy(*order))).filter("place = 1 AND NOT remembered")
