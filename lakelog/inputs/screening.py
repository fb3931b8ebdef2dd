"""What row rules found in a request, and the records that are put aside: a staged request whose rows are judged (model/row_rules.py).

The summary counts groups of rows (file, split, Spark partition, partition); what is put aside is told from the same figures, so that a request is
read no more often than without rules, but for the records put aside themselves.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lakelog.model.row_rules import RowRules, counted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row

Group = tuple[Any, ...]
# What an invalid record's problem is called; the text beside it may name the time of the append.
PROBLEM = "split(problem, '\\t')[0]"
ASIDE_COLUMNS = ("partition", "key", "value", "headers", "timestamp", "tombstone", "src", "problem", "raw")


@dataclass(frozen=True)
class Screening:
    """What was found: ``records`` of the request, ``invalid`` ones, how many break each rule (``broken``), how many are kept out (``aside``).

    ``problems``: the first records that are kept out, with the rules that each breaks, where the request is refused for them. ``rows``: the judged
    request; ``rules``: what it was judged by.
    """

    rules: RowRules
    records: int
    invalid: int
    broken: Mapping[str, int]
    aside: int
    rows: DataFrame
    positions: Mapping[Group, tuple[int, int, int]]
    good_before: Mapping[Group, int]
    problems: list[dict[str, Any]] = field(default_factory=list)


def let_in(rules: RowRules) -> Column:
    """Whether a judged row of a request is let in: it can be read, and breaks no rule that keeps it out."""
    from pyspark.sql import functions as F

    return F.col("problem").isNull() & ~rules.kept_out()


def figures(rules: RowRules) -> list[Column]:
    """What the summary of a request counts of judged rows, by group."""
    from pyspark.sql import functions as F

    return [*rules.counts(), F.count_if(~let_in(rules)).alias("aside")]


def digest(found: Screening) -> str:
    """Equal for requests of equal records, of which the same ones are kept out. Cost: one Spark job, which reads the request again."""
    from pyspark.sql import functions as F

    stamp = F.when(F.col("stamped"), F.col("timestamp")).alias("t")
    record = F.to_json(
        F.struct(
            "key",
            "value",
            "headers",
            "tombstone",
            "partition",
            stamp,
            "raw",
            F.expr(PROBLEM).alias("problem"),
            let_in(found.rules).alias("in"),
        )
    )
    # Sums, in which equal records count as often as they are there; of halves, which no request is long enough to make too large.
    number = F.xxhash64(record)
    halves = F.sum(F.shiftright(number, 32)).alias("high"), F.sum(number.bitwiseAND(F.lit(0xFFFFFFFF))).alias("low")
    row = found.rows.agg(*halves).collect()[0]
    total = (((row["high"] or 0) << 32) + (row["low"] or 0)) % 2**64
    return hashlib.sha256(f"{found.records} {found.aside} {total}".encode()).hexdigest()


def screening(rules: RowRules, rows: DataFrame, groups: Sequence[Row], positions: Mapping[Group, tuple[int, int, int]]) -> Screening:
    """The figures of all groups together.

    Args:
        rules: what the rows were judged by.
        rows: the judged request.
        groups: the summary's groups, in input order.
        positions: (src, block, Spark partition) to (position of its first record, its lowest ``row_order``, position of its last record), where
            records put aside count as well.
    """
    broken: dict[str, int] = {}
    good, before = 0, dict[Group, int]()
    for row in groups:
        for name, count in counted(rules, row.asDict()).items():
            broken[name] = broken.get(name, 0) + count
        before.setdefault((row["src"], row["block"], row["task"]), good)
        good += row["all"] - row["aside"]
    records, aside = sum(row["all"] for row in groups), sum(row["aside"] for row in groups)
    invalid = sum(row["problems"] for row in groups)
    return Screening(rules, records, invalid, broken, aside, rows, positions, before)


def renumbered(groups: Sequence[Row]) -> dict[Group, int]:
    """(src, block, Spark partition) to the lowest ``row_order`` of its rows that are let in, when these alone are numbered anew.

    Numbers rise within a Spark partition in the order in which its rows were numbered before.
    """
    sizes: dict[Group, tuple[int, int]] = {}
    for row in groups:
        group = (row["src"], row["block"], row["task"])
        least, count = sizes.get(group, (row["least"], 0))
        sizes[group] = (min(least, row["least"]), count + row["all"] - row["aside"])
    found, inside = dict[Group, int](), dict[int, int]()
    for group, (_, count) in sorted(sizes.items(), key=lambda one: one[1][0]):
        found[group] = (group[2] << 33) + inside.get(group[2], 0)
        inside[group[2]] = inside.get(group[2], 0) + count
    return found


def good_rows(rows: DataFrame, rules: RowRules) -> DataFrame:
    """The judged rows that are let in, numbered anew without gaps (`renumbered`)."""
    from pyspark.sql import functions as F

    return rows.filter(let_in(rules)).withColumn("row_order", F.monotonically_increasing_id())


def aside(found: Screening, *, ordered: bool, partitions: int) -> DataFrame:
    """The records that are kept out.

    Columns: `ASIDE_COLUMNS`, ``rules`` (the names of those that it breaks), ``record`` (its position in the request), ``identity`` (the same for
    the same record when the request is read again, however Spark splits it) and ``position``: how many records of its partition that are let in
    stand before it, where that is ``ordered`` (else NULL).

    Cost, when it is read: the request is read again; the records put aside are sorted. Where a topic has several partitions and
    places are wanted, the places of all records are sorted by partition.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    rules, rows = found.rules, found.rows
    group = F.concat_ws("\t", F.coalesce("src", F.lit("")), "block", F.shiftright("row_order", 33).cast("string"))
    keys = {key: "\t".join([key[0] or "", str(key[1]), str(key[2])]) for key in found.positions}
    out = rows.filter(~let_in(rules)).withColumn("g", group)
    first = _by_group({keys[key]: base - least for key, (base, least, _) in found.positions.items()}, out)
    out = out.withColumn("record", F.col("row_order") + first)
    time = F.when(F.col("problem").isNotNull() & F.col("stamped"), F.unix_micros("timestamp")).alias("time")
    content = F.to_json(F.struct("key", "value", "headers", "tombstone", "partition", "raw", F.expr(PROBLEM).alias("problem"), time))
    same = Window.partitionBy("content").orderBy("record")
    out = out.withColumn("content", F.sha2(content, 256))
    out = out.withColumn("identity", F.concat_ws("#", "content", F.row_number().over(same).cast("string")))
    nowhere = F.lit(None).cast("bigint")
    if not ordered:
        placed = out.withColumn("position", nowhere)
    elif partitions == 1:
        before = _by_group({keys[key]: count for key, count in found.good_before.items()}, out)
        least = _by_group({keys[key]: least for key, (_, least, _) in found.positions.items()}, out)
        inside = F.row_number().over(Window.partitionBy("g").orderBy("row_order")) - 1
        placed = out.withColumn("position", (before + F.col("row_order") - least - inside).cast("bigint"))
    else:
        places = rows.select("src", "block", "row_order", "partition", let_in(rules).alias("good"))
        running = Window.partitionBy("partition").orderBy("src", "block", "row_order").rowsBetween(Window.unboundedPreceding, -1)
        places = places.withColumn("position", F.coalesce(F.count_if("good").over(running), F.lit(0))).filter(~F.col("good"))
        places = places.select(
            F.col("row_order").alias("p_order"), F.col("src").alias("p_src"), F.col("block").alias("p_block"), "position"
        )
        same_row = (F.col("row_order") == F.col("p_order")) & F.col("src").eqNullSafe(F.col("p_src")) & (F.col("block") == F.col("p_block"))
        placed = out.join(places, same_row, "left")
    names = F.when(F.col("problem").isNull(), rules.names()).otherwise(F.array(F.expr(PROBLEM)))
    return placed.select(*ASIDE_COLUMNS, names.alias("rules"), "record", "identity", "position")


def _by_group(numbers: Mapping[str, int], rows: DataFrame) -> Column:
    """A number by the group ``g`` of a row: a literal, or a map of literals where groups have different ones."""
    from pyspark.sql import functions as F

    if len(set(numbers.values())) == 1:
        return F.lit(next(iter(numbers.values()))).cast("bigint")
    text = "\u0001".join(f"{name}\u0002{number}" for name, number in numbers.items())
    return F.element_at(F.str_to_map(F.lit(text), F.lit("\u0001"), F.lit("\u0002")), F.col("g")).cast("bigint")
