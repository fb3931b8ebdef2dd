"""A large slice folded for a silver that holds no rows: a first merge, or silver computed anew.

There is nothing to compare with, and most keys have one record. So the log is read twice in the place of a sort of whole rows: first a hash of
each key, to find the keys that have several records, then to be written. Only records of those keys are ranked, without their values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lakelog.delta import frames, tables
from lakelog.latest.compare import Compared, alone, figures
from lakelog.latest.fold import BROADCAST, SMALL, Fold, ranked, sliced
from lakelog.latest.progress import COUNTS
from lakelog.model.topic_log import TopicLog

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

ONE, SEVERAL = "hash IS NOT NULL AND records = 1", "hash IS NOT NULL AND records > 1"
# What becomes of the records of a key: told by the ranking of those of keys with several, and by their tombstones of all others.
RANKED = ("inserted", "deleted", "late", "duplicates", "ignored_deletes")


def large(start: Mapping[int, int], ends: Mapping[int, int]) -> bool:
    """Whether a slice has more records than one task folds."""
    return sum(end - start[index] for index, end in ends.items()) > SMALL


def fill(log: TopicLog, start: Mapping[int, int], ends: Mapping[int, int], at: int) -> Compared:
    """What the log, at a version of bronze, from ``start`` to ``ends`` (exclusive) does to a silver that holds no rows: `compare`, for a large slice.

    Cost: the slice is read twice, first the keys alone; an aggregation over a hash of the keys. Where keys have several records, once more
    without values, and those records are shuffled and sorted; then the second reading is joined with (partition, offset) of records.
    """
    size = sum(end - start[index] for index, end in ends.items())
    rows = sliced(log, start, ends, at)
    with tables.door(log.silver):
        seen = _seen(rows)
        totals = {row["partition"]: row.asDict() for row in _totals(log, seen)}
        repeated = sum(total["repeated"] for total in totals.values())
        if repeated:
            best = _best(log, rows, seen, repeated, size)
            for row in figures(log, best, alone(best), best.winning()):
                totals[row["partition"]] |= {name: totals[row["partition"]][name] + (row[name] or 0) for name in RANKED}
            rows = _winners(rows, seen, best, totals)
        else:
            rows = rows.filter("key IS NOT NULL")
    counts = {index: {name: int(total.get(name) or 0) for name in COUNTS} for index, total in totals.items()}
    return Compared(rows, counts, list(range(log.config.number("silver.buckets"))), least=None, replaced=None, touched=0)


def _hash() -> Column:
    """A number that records of one key share, and hardly any others; NULL without a key."""
    from pyspark.sql import functions as F

    return F.when(F.col("key").isNotNull(), F.xxhash64("key"))


def _seen(rows: DataFrame) -> DataFrame:
    """By partition and hash: how many ``records``, whether one is a tombstone, the last ``offset``, and how many versions are ``invalid``."""
    from pyspark.sql import functions as F

    invalid = F.col("invalid") if "invalid" in rows.columns else F.lit(False)
    narrow = rows.select("partition", _hash().alias("hash"), "tombstone", "offset", invalid.cast("int").alias("invalid"))
    return narrow.groupBy("partition", "hash").agg(
        F.count(F.lit(1)).alias("records"),
        F.max("tombstone").alias("tombstone"),
        F.max("offset").alias("offset"),
        F.sum("invalid").alias("invalid"),
    )


def _totals(log: TopicLog, seen: DataFrame) -> list[Any]:
    """By partition: counts of the keys with one record, how many have several (``repeated``) and how many records those have."""
    from pyspark.sql import functions as F

    none = F.lit(0).cast("bigint")
    return seen.groupBy("partition").agg(
        F.sum("records").alias("records"),
        F.coalesce(F.sum(F.expr("if(hash IS NULL, records, 0)")), none).alias("unkeyed"),
        F.sum("invalid").alias("invalid_versions") if log.rule.strategy == "header" else none.alias("invalid_versions"),
        F.expr(f"count_if({ONE} AND NOT tombstone)").alias("inserted"),
        F.expr(f"count_if({ONE} AND tombstone)").alias("deleted"),
        *[none.alias(name) for name in RANKED[2:]],
        F.expr(f"count_if({SEVERAL})").alias("repeated"),
    ).collect()  # fmt: skip


def _best(log: TopicLog, rows: DataFrame, seen: DataFrame, repeated: int, size: int) -> Fold:
    """The records of keys that have several, ranked, without their values."""
    from pyspark.sql import functions as F

    keys = seen.filter(SEVERAL).select("partition", "hash")
    keys = F.broadcast(keys) if repeated <= BROADCAST else keys
    invalid = ["invalid"] * ("invalid" in rows.columns)
    narrow = rows.select("partition", "offset", "key", "tombstone", "version", "bucket", *invalid, _hash().alias("hash"))
    narrow = narrow.join(keys, ["partition", "hash"], "left_semi").drop("hash")
    return Fold(log.types, frames.kept(ranked(log, narrow)), size)


def _winners(rows: DataFrame, seen: DataFrame, best: Fold, totals: Mapping[int, Mapping[str, int]]) -> DataFrame:
    """The slice without the records that lose: by what loses, or by what wins where that is less and few enough to be broadcast."""
    from pyspark.sql import functions as F

    place = ["partition", "offset"]
    win = sum(total["inserted"] + total["deleted"] for total in totals.values())
    lose = sum(total["records"] - total["unkeyed"] for total in totals.values()) - win
    if lose > BROADCAST >= win:
        winning = seen.filter(ONE).select(*place).unionAll(best.rows.filter(best.winning()).select(*place))
        return rows.join(F.broadcast(winning), place, "left_semi")
    losing = best.rows.filter(~best.winning()).select(*place)
    return rows.filter("key IS NOT NULL").join(F.broadcast(losing) if lose <= BROADCAST else losing, place, "left_anti")
