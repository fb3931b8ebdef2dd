"""Whether row rules can be evaluated: against the topic's columns, without a Spark job; and which of them raise, after a pass over records failed."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from lakelog.errors import LakelogError
from lakelog.model.names import quoted
from lakelog.model.records import columns
from lakelog.model.row_rules import RowRule, flat
from lakelog.model.topic_log import TopicLog
from lakelog.quality.suites import Check

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

HEADERS = "array<struct<key:string,value:binary>>"
# What an error of Spark says behind the name of its condition.
CONDITION = re.compile(r"\[[A-Z][A-Z0-9_.]+\] .+")
# What stands between quotes, and comments, of an SQL condition.
QUOTED = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`|--[^\n]*|/\*.*?\*/", re.DOTALL)
# A window function would bring rows into another order than that in which they are numbered.
OVER = re.compile(r"\bover\s*\(", re.IGNORECASE)
# Records are judged when they are counted, when they are put aside and when they are written: what gives another result each time would let
# one be lost or be there twice.
CHANGING = re.compile(
    r"\b(?:(?:now|curdate|current_date|current_time|current_timestamp|localtimestamp|rand|randn|random|randstr|uniform|uuid|shuffle"
    r"|monotonically_increasing_id|spark_partition_id|input_file_name|input_file_block_start|input_file_block_length"
    r"|reflect|try_reflect|java_method)\s*\(|(?:to_)?unix_timestamp\s*\(\s*\))",
    re.IGNORECASE,
)
# Without parentheses they are columns where there are such.
BARE = re.compile(r"(?<!\.)\b(?:current_date|current_time|current_timestamp|localtimestamp)\b(?!\s*[.(])", re.IGNORECASE)
# The columns that rows have at every door, and those of winners and of the latest table.
HELD = {"partition": "integer", "timestamp": "timestamp", "headers": HEADERS, "tombstone": "boolean"}


def flat_rows(log: TopicLog, rows: DataFrame, now: int) -> DataFrame:
    """Rows in the columns that rules read."""
    return rows.select(*flat(log.types, rows.columns, now, "partition"))


def empty(log: TopicLog, *, placed: bool) -> DataFrame:
    """No rows, in the columns that rules read; ``placed``: offset and version too, as at the doors merge and table. No Spark job."""
    held: dict[str, str | DataType] = {**HELD, "key": log.types.key, "value": log.types.value}
    if placed:
        held |= {"offset": "long", "version": log.rule.version_type(log.types.value)}
    schema = columns(**held)
    return flat_rows(log, log.spark.createDataFrame([], schema), 0)


def unsound(rules: Sequence[RowRule], rows: DataFrame) -> dict[str, str]:
    """Rules that are no condition on these columns: name to what is wrong. No Spark job.

    A column is missing, it is no condition, it is no SQL, it looks at other rows, it gives another result at each evaluation. Of the last kind
    Spark's own functions are known, a user-defined one is taken to be deterministic.
    """
    from pyspark.sql import functions as F

    known = {name.lower() for name in rows.columns}

    def wrong(some: Sequence[RowRule]) -> str | None:
        for text in (QUOTED.sub("''", rule.condition) for rule in some):
            if OVER.search(text):
                return "it looks at other rows: write expect_groups_to_be_unique or expect_query_to_return_no_rows"
            bare = next((found for found in BARE.finditer(text) if found[0].lower() not in known), None)
            if found := CHANGING.search(text) or bare:
                name = found[0].split("(")[0].strip()
                return f"{name} gives another result at each evaluation: for the time of the append, merge or check write _now"
        try:
            # Beside a column, or an aggregate would be one over all rows.
            schema = rows.select(
                F.col("_tombstone").alias("c"), *[F.expr(rule.condition).alias(f"c{index}") for index, rule in enumerate(some)]
            ).schema
        except Exception as error:
            return first_line(error)
        kinds = [field.dataType.simpleString() for field in schema.fields]
        return next((f"it is {kind}, not a condition" for kind in kinds if kind != "boolean"), None)

    if not rules or wrong(rules) is None:
        return {}
    return {rule.name: says for rule in rules if (says := wrong([rule])) is not None}


def missing_columns(checks: Sequence[Check], rows: DataFrame) -> dict[str, str]:
    """Checks about columns that there are not: name to what is wrong. Not those that ask just that."""
    known = {name.lower() for name in rows.columns}
    found = {}
    for check in checks:
        if check.type == "expect_column_to_exist":
            continue
        named = [check.kwargs[name] for name in ("column", "column_A", "column_B") if isinstance(check.kwargs.get(name), str)]
        named += [one for name in ("columns",) for one in check.kwargs.get(name, []) if isinstance(check.kwargs.get(name), list)]
        absent = [name for name in named if name.lower() not in known]
        if absent:
            found[check.name] = f"there is no column {quoted(absent[0])}; there are {', '.join(rows.columns)}"
    return found


def raising(rules: Sequence[RowRule], evaluate: Callable[[Sequence[RowRule]], object]) -> dict[str, str]:
    """The rules that raise when they are evaluated alone: name to what they raised. Cost: an evaluation each."""
    found: dict[str, str] = {}
    for rule in rules:
        try:
            evaluate([rule])
        except LakelogError:
            raise
        except Exception as error:
            found[rule.name] = first_line(error)
    return found


def first_line(error: Exception) -> str:
    """What an error of Spark says, without the plan and the stack; of one that Java passed on, what it was at first."""
    if found := CONDITION.search(str(error)):
        return found[0][:300]
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0][:300] if lines else type(error).__name__


def told(wrong: Mapping[str, str]) -> str:
    """Rules and what is wrong with them, as text."""
    return "; ".join(f"{name}: {says}" for name, says in wrong.items())
