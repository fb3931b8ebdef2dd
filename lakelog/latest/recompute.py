"""The latest table computed again by a fold of its own, plain and slow, and compared with silver row by row.

It shares nothing with the merge but the rule's reading of a record's version: all records of a key are numbered in the rule's order, the first
is the latest. Where the log does not hold all records, the rows of a snapshot stand for what came before.
"""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakelog.delta import frames, past, tables
from lakelog.errors import InvalidConfig
from lakelog.latest import erased, silver
from lakelog.latest.progress import Progress
from lakelog.log import bronze
from lakelog.log.tail import LogEnd
from lakelog.model.records import looked_up
from lakelog.model.topic_log import TopicLog
from lakelog.model.widening import plan, shaped

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row
    from pyspark.sql.types import DataType

# So many differences are named; all are counted.
NAMED = 20
SAYS = {
    "twice": "keys stand more than once in silver",
    "missing": "keys are missing in silver",
    "unknown": "keys of silver are not in the log",
    "other": "keys have another row in silver than the one the rule puts first",
    "changed": "rows of silver differ from their record in the log",
    "version": "rows of silver have another version than their record in the log",
    "time": "rows of silver have another timestamp or epoch than their record in the log",
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


def compared(log: TopicLog, held: Progress, end: LogEnd, base: Base | None = None, share: float = 1.0) -> Comparison:
    """Silver against a fold of the merged part of the log.

    Args:
        log: the topic.
        held: silver's progress, and its version: silver is read at that one.
        end: the log's end; the log is read at its version, which holds what silver does.
        base: what stands for the log below its end offsets; None folds the log from its start.
        share: of the keys, those chosen by their hash, the same ones each time.

    Cost: one pass over the log from the base on, a shuffle and sort by key, a shuffle of silver's keys, one full join. Where differences may be
    those of a latest table that was brought back, one pass over the log's keys more.
    """
    from pyspark.sql import functions as F

    # Versions that were made under another rule say nothing under this one.
    same_rule = held.rule == log.rule
    base = None if base is None else _unexpired(log, held, end, base)
    wanted = winners(
        log, held.next, base, share, remembered=same_rule, deletes_from=end.deletes_from(), at=end.version, silver_at=held.version
    )
    have = _stored(log, held, wanted.schema["version"].dataType if same_rule else None, share)
    joined = wanted.join(have, (F.col("partition") == F.col("s_partition")) & (F.col("key") == F.col("s_key")), "full")
    changed = ~F.col("content").eqNullSafe(F.col("s_content")) | ~F.col("tombstone").eqNullSafe(F.col("s_tombstone"))
    difference = (
        F.when(F.col("copies") > 1, "twice").when(F.col("copies").isNull(), "missing").when(F.col("offset").isNull(), "unknown")
        .when(~F.col("offset").eqNullSafe(F.col("s_offset")), "other").when(changed, "changed")
        .when(F.xxhash64("version") != F.col("s_version"), "version").when(F.col("time") != F.col("s_time"), "time")
    )  # fmt: skip
    judged = frames.kept(
        joined.select(
            F.coalesce("partition", "s_partition").alias("partition"), F.coalesce("key", "s_key").alias("key"), F.col("offset").alias("expected"),
            F.col("s_offset").alias("found"), difference.alias("difference"),
        )
    )  # fmt: skip
    with tables.door(log.silver):
        counts = _counts(judged)
        if (counts["unknown"] or counts["other"]) and _may_be_back(held, end):
            place = ["partition", "key"]
            judged = judged.join(_replaced_since(log, judged, held, end), place, "left_anti")
            counts = _counts(judged)
        problems = [f"{counts[name]} {text}" for name, text in SAYS.items() if counts[name]]
        named = _first(judged) if problems else []
    return Comparison(counts["keys"], problems, [_named(row) for row in named])


def twice(log: TopicLog, held: Progress) -> list[str]:
    """What can be said of a latest table that nothing proves: that all its files are there, and how many keys stand more than once in it.

    Cost: one pass over silver's keys, a shuffle of them.
    """
    from pyspark.sql import functions as F

    rows = silver.with_remembered(log, past.pinned(log.spark, log.silver, held.version))
    with tables.door(log.silver):
        count = rows.groupBy("partition", "key").count().agg(F.count_if(F.col("count") > 1)).collect()[0][0]
    return [f"{count} {SAYS['twice']}"] if count else []


def _stored(log: TopicLog, held: Progress, version: DataType | None, share: float) -> DataFrame:
    """Silver's keys: how many rows each has (``copies``), and what is compared of it; of remembered versions, which are no rows, the count alone.

    ``version``: the type of the versions that they are compared with; NULL in the place of what cannot be compared.
    """
    from pyspark.sql import functions as F

    rows = _sampled(silver.with_remembered(log, past.pinned(log.spark, log.silver, held.version)), share)
    is_row = F.col("control").isNull()
    parts = {
        "offset": F.col("offset"), "tombstone": F.col("tombstone"), "content": _content(), "version": _version(rows, version), "time": _time(),
    }  # fmt: skip
    keys = rows.groupBy(F.col("partition").alias("s_partition"), F.col("key").alias("s_key")).agg(
        F.count(F.lit(1)).alias("copies"), F.count_if(is_row).alias("rows"),
        *[F.min(F.when(is_row, part)).alias(f"s_{name}") for name, part in parts.items()],
    )  # fmt: skip
    return keys.filter("rows > 0 OR copies > 1")


def _unexpired(log: TopicLog, held: Progress, end: LogEnd, base: Base) -> Base:
    """A base without the tombstones that may have expired since: those that silver does not hold any more. Their versions it remembers, or forgot.

    They lie below what the log says of deletes, or below its start: of what is in no segment it says nothing.

    Cost: nothing where none can have expired; else silver's flags and offsets are read, and joined with the base's.
    """
    from pyspark.sql import functions as F

    states = [end.tails[index].state for index in range(log.partitions)]
    below = [min(base.ends[index], max(state.deletes_from, state.start)) for index, state in enumerate(states)]
    if not any(below):
        return base
    old = F.col("tombstone") & (F.col("offset") < looked_up(below, F.col("partition")))
    place = [F.col("partition").alias("h_partition"), F.col("offset").alias("h_offset")]
    there = silver.rows(log, held.version).filter("tombstone").select(*place).distinct()
    same = (F.col("partition") == F.col("h_partition")) & (F.col("offset") == F.col("h_offset"))
    rows = base.rows.join(there, same, "left").filter(~old | F.col("h_offset").isNotNull()).select(*base.rows.columns)
    return Base(rows, base.ends)


def _version(rows: DataFrame, wanted: DataType | None) -> Column:
    """The version of silver's rows as a number, in the type ``wanted``: silver's may not have been widened yet."""
    from pyspark.sql import functions as F

    held = rows.schema["version"].dataType
    if wanted is not None:
        # One of another kind is another writer's: nothing can be compared with it.
        with contextlib.suppress(InvalidConfig):
            plan(held, wanted, ("version",))
            return F.xxhash64(shaped(F.col("version"), held, wanted))
    return F.lit(None).cast("bigint")


def _counts(judged: DataFrame) -> Row:
    """How many keys were compared, and how many differ in which way."""
    from pyspark.sql import functions as F

    kinds = [F.count_if(F.col("difference") == name).alias(name) for name in SAYS]
    return judged.agg(F.count(F.lit(1)).alias("keys"), *kinds).collect()[0]


def _may_be_back(held: Progress, end: LogEnd) -> bool:
    """Whether silver may have been brought back to before what the cleaner went by: the log was cleaned, and goes on behind silver."""
    return any(tail.state.cleaned > tail.state.origin and tail.end > held.next.get(index, 0) for index, tail in end.tails.items())


def _replaced_since(log: TopicLog, judged: DataFrame, held: Progress, end: LogEnd) -> DataFrame:
    """The keys whose row of silver the cleaner removed from the log, since a record that silver does not hold, or no longer holds, replaced it.

    Of those the log says no more what silver has to hold; the next merge replaces them.
    """
    from pyspark.sql import functions as F

    cleaned = looked_up([end.tails[index].state.cleaned for index in range(log.partitions)], F.col("partition"))
    merged = looked_up([held.next.get(index, 0) for index in range(log.partitions)], F.col("partition"))
    doubtful = judged.filter(F.col("difference").isin("unknown", "other") & (F.col("found") < cleaned))
    doubtful = doubtful.select(F.col("partition").alias("d_partition"), F.col("key").alias("d_key"), "found")
    same = (F.col("partition") == F.col("d_partition")) & (F.col("key") == F.col("d_key"))
    beside = bronze.records(log, at=end.version).select("partition", "key", "offset").join(doubtful, same)
    seen = beside.groupBy("d_partition", "d_key").agg(
        F.max(F.col("offset") >= merged).alias("behind"), F.max(F.col("offset") == F.col("found")).alias("there")
    )
    return seen.filter("behind AND NOT there").select(F.col("d_partition").alias("partition"), F.col("d_key").alias("key"))


def _first(judged: DataFrame) -> list[Row]:
    """The first differences, in the log's order."""
    from pyspark.sql import functions as F

    first = judged.filter("difference IS NOT NULL").orderBy("partition", "expected", "found").limit(NAMED)
    try:
        return list(first.collect())
    except (OverflowError, ValueError):
        # A key with a date or time that Python does not know, as Spark writes it.
        return list(first.withColumn("key", F.col("key").cast("string")).collect())


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

    return F.xxhash64(F.to_json(F.struct("value", "headers"), erased.JSON))


def _time() -> Column:
    from pyspark.sql import functions as F

    return F.xxhash64("timestamp", "epoch")


def _sampled(rows: DataFrame, share: float) -> DataFrame:
    """The rows of a share of the keys."""
    from pyspark.sql import functions as F

    return rows if share >= 1 else rows.filter(F.pmod(F.xxhash64("partition", "key"), F.lit(PARTS)) < round(share * PARTS))


def winners(
    log: TopicLog, ends: Mapping[int, int], base: Base | None = None, share: float = 1.0, *, remembered: bool = True,
    deletes_from: Mapping[int, int] | None = None, at: int | None = None, silver_at: int | None = None,
) -> DataFrame:  # fmt: skip
    """The first of each key by the rule, of the base's rows and the log's records from there to ``ends``.

    Args:
        log: the topic.
        ends: partition to the end of what is folded.
        base: what stands for the log below its end offsets.
        share: of the keys.
        remembered: records that are older than a delete whose version silver remembers lose to it.
        deletes_from: partition to the offset below which tombstones may have left the log: a clean takes them out of it first, and out of silver in
            a second commit. Until then those that silver has stamped stand for them.
        at: a version of bronze; None: as it is.
        silver_at: a version of silver; None: as it is.

    Cost: one pass over the log from the base on, a shuffle and sort by key.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    starts = dict.fromkeys(ends, 0) if base is None else base.ends
    limits = frames.small_frame(
        log.spark, "l_partition INT, l_start BIGINT, l_end BIGINT", [(i, starts[i], end) for i, end in sorted(ends.items())]
    )
    inside = (F.col("partition") == F.col("l_partition")) & (F.col("offset") >= F.col("l_start")) & (F.col("offset") < F.col("l_end"))
    rows = bronze.records(log, at=at).join(F.broadcast(limits), inside, "left_semi").filter(F.col("key").isNotNull())
    columns = ("partition", "key", "value", "headers", "offset", "tombstone", "version", "timestamp", "epoch")
    rows = _sampled(rows, share).withColumn("version", log.rule.version()).select(*columns)
    if base is not None:
        rows = rows.unionAll(_sampled(base.rows, share).select(*columns))
    # A delete that the cleaner removed is no row of either side, but what is older than it loses to it.
    rows = rows.withColumn("remembered", F.lit(False)).withColumn("stamped", F.lit(False))
    if remembered and log.rule.versioned:
        rows = rows.unionAll(_sampled(silver.remembered(log, silver_at), share).select(*columns, F.lit(True), F.lit(False)))
    if remembered and deletes_from is not None and any(deletes_from.values()):
        stamped = _sampled(silver.stamped(log, deletes_from, silver_at), share)
        rows = rows.unionAll(stamped.select(*columns, F.lit(False), F.lit(True)))
    rows = rows.withColumn("content", _content()).withColumn("time", _time())
    keys = Window.partitionBy("partition", "key")
    order: list[Column] = [F.col("version").isNotNull().desc(), F.col("version").desc_nulls_last(), F.col("offset").desc()]
    # The log's own record is compared, where it has it.
    order.append(F.col("stamped").asc())
    if log.rule.barriers:
        last_delete = F.max(F.when(F.col("tombstone") & F.col("version").isNull(), F.col("offset"))).over(keys)
        rows = rows.withColumn("barrier", last_delete)
        order.insert(0, (F.col("barrier").isNull() | (F.col("offset") > F.col("barrier"))).desc())
        rows = rows.filter(F.col("barrier").isNull() | (F.col("offset") >= F.col("barrier")))
    return rows.withColumn("place", F.row_number().over(keys.orderBy(*order))).filter("place = 1 AND NOT remembered")
