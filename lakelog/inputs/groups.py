"""What a staged request holds, by group: file, split, Spark partition and topic partition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from lakelog.errors import InvalidRequest
from lakelog.inputs import screening
from lakelog.inputs.refusal import file_shown
from lakelog.inputs.request import REST_OF_FILE
from lakelog.inputs.screening import Group
from lakelog.model.expectations import UNCONDITIONAL
from lakelog.model.records import constant
from lakelog.model.row_rules import RowRules

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row


def grouped(rows: DataFrame, now: int, rules: RowRules | None = None) -> list[Row]:
    """Figures by file, split, Spark partition and topic partition, in input order; with ``rules`` ``records`` are those that are let in."""
    from pyspark.sql import functions as F

    time_ms = F.when(F.unix_millis("timestamp") == -1, constant(now, "row_order")).otherwise(F.unix_millis("timestamp"))
    good = F.lit(True) if rules is None or not rules.quarantine else screening.let_in(rules)
    order = F.when(good, F.col("row_order"))
    groups = (
        rows.groupBy("src", "block", F.shiftright("row_order", 33).alias("task"), "partition")
        .agg(
            F.count(order).alias("records"),
            F.count(F.lit(1)).alias("all"),
            F.sum(F.when(good, F.col("octets"))).alias("octets"),
            F.min("row_order").alias("least"),
            F.max("row_order").alias("greatest"),
            F.min_by(time_ms, order).alias("first_ms"),
            F.min_by(F.unix_millis("timestamp") == -1, order).alias("undated"),
            F.max(F.when(good, time_ms)).alias("largest_ms"),
            F.count("problem").alias("problems"),
            F.count_if(of_file()).alias("of_files"),
            F.count_if(F.col("expected_offset") > UNCONDITIONAL).alias("conditional"),
            F.count_if(F.col("expected_offset") < UNCONDITIONAL).alias("below"),
            *([] if rules is None else screening.figures(rules)),
        )
        .collect()
    )
    return sorted(groups, key=lambda row: ((row["src"] or "").encode(), row["block"], row["task"], row["least"]))


def of_file() -> Column:
    """Whether what is wrong with a record hides those behind it."""
    from pyspark.sql import functions as F

    return F.col("problem").startswith(f"{REST_OF_FILE}\t")


def require_each_file_once(groups: list[Row], positions: Mapping[Group, tuple[int, int, int]]) -> None:
    """Refuse a file that one task read twice with another in between: which of its rows come first is told by nothing.

    Args:
        groups: of `grouped`.
        positions: of `positions_of`.

    Raises:
        InvalidRequest: naming it.
    """
    for row in groups:
        first, least, last = positions[(row["src"], row["block"], row["task"])]
        # Rows of another file stand between those of this one.
        if row["src"] is not None and row["greatest"] - least > last - first:
            raise InvalidRequest(f"{file_shown(row['src'])}: the file is named more than once. Name each file once. Nothing was written.")


def positions_of(groups: list[Row], counted: str = "all") -> dict[Group, tuple[int, int, int]]:
    """(src, block, Spark partition) to (position of its first record in the request, its lowest ``row_order``, position of its last record)."""
    least: dict[Group, int] = {}
    sizes: dict[Group, int] = {}
    for row in groups:
        group = (row["src"], row["block"], row["task"])
        least[group] = min(row["least"], least.get(group, row["least"]))
        sizes[group] = sizes.get(group, 0) + row[counted]
    positions: dict[Group, tuple[int, int, int]] = {}
    total = 0
    for group, size in sizes.items():
        positions[group] = (total, least[group], total + size - 1)
        total += size
    return positions
