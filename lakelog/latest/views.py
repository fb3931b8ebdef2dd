"""What people query: a topic's views over silver and bronze, struct keys and values flattened to columns.

``orders`` (live rows), ``orders_deleted`` (tombstones with their payload) and ``orders_log`` (records without control rows).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence, Set
from typing import TYPE_CHECKING, TypeVar

from lakelog.delta import tables
from lakelog.errors import NotFound
from lakelog.log.rows import RECORD_COLUMNS
from lakelog.model.config import did_you_mean
from lakelog.model.names import TableRef, quoted, schema_sql
from lakelog.model.records import Types, flat_columns
from lakelog.model.widening import shaped_in_sql

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType

Answer = TypeVar("Answer")

DESCRIBED = re.compile(r"\s*DESC(?:RIBE)?(?:\s+TABLE)?(?:\s+EXTENDED)?\s+(`?\w+`?)\s*;?\s*", re.IGNORECASE)
SPACE = r"(?:\s|--[^\n]*\n|/\*.*?\*/)*"
END = re.compile(r";(?:\s|--[^\n]*|/\*.*?\*/)*\Z", re.DOTALL)
QUERY = re.compile(
    rf"(?P<head>{SPACE}(?:(?:EXPLAIN(?:\s+(?:EXTENDED|CODEGEN|COST|FORMATTED))?|DESC(?:RIBE)?\s+QUERY)(?=\W))?)"
    rf"{SPACE}(?P<first>\(|(?:SELECT|WITH|FROM|VALUES|TABLE|MAP|REDUCE)\b)",
    re.IGNORECASE | re.DOTALL,
)


def _columns(types: Types) -> list[str]:
    """The SELECT list of a row shown to people."""
    shown = [
        f"{side}.{quoted(field)} AS {quoted(name)}" if field else quoted(side) for name, side, field in flat_columns(types.key, types.value)
    ]
    return [*shown, "partition AS _partition", "offset AS _offset", "timestamp AS _timestamp", "version AS _version"]


def live(rows: DataFrame, types: Types) -> DataFrame:
    """Silver's live rows as people see them: one row per (partition, key)."""
    from pyspark.sql import functions as F

    return rows.filter(~F.col("tombstone")).selectExpr(*_columns(types))


def deleted(rows: DataFrame, types: Types) -> DataFrame:
    """Silver's tombstones, payload included, in the same columns."""
    from pyspark.sql import functions as F

    return rows.filter(F.col("tombstone")).selectExpr(*_columns(types))


def selects(
    topic: str, silver: TableRef, bronze: TableRef, types: Types, version: int | None = None, have: DataType | None = None
) -> dict[str, str]:
    """The SELECT that each of a topic's views is, by the view's name; of the latest table as it is, or at a version.

    ``have``: the type of the values there, where it may be an older one; they are shown in the type that the topic has now.
    """
    columns, log = ", ".join(_columns(types)), ", ".join(quoted(name) for name in RECORD_COLUMNS)
    table = f"{silver.sql()}{'' if version is None else f' VERSION AS OF {version}'}"
    if have is not None:
        table = f"(SELECT * EXCEPT (value), {shaped_in_sql('value', have, types.value)} AS value FROM {table})"  # noqa: S608
    held = f"FROM {table} WHERE bucket > -1"
    records = f"FROM {bronze.sql()} WHERE segment > -1 AND partition > -1 AND control IS NULL"
    live, gone, of_log = names(topic)
    return {  # every name in them is quoted
        live: f"SELECT {columns} {held} AND NOT tombstone",
        gone: f"SELECT {columns} {held} AND tombstone AND control IS NULL",
        of_log: f"SELECT {log} {records}",
    }


def statements(topic: str, schema: str, silver: TableRef, bronze: TableRef, types: Types) -> list[str]:
    """The statements that keep the views in a catalog, for readers that do not know lakelog."""
    found = selects(topic, silver, bronze, types)
    return [f"CREATE OR REPLACE VIEW {schema_sql(schema)}.{quoted(name)} AS {select}" for name, select in found.items()]


def named(topic: str, query: str, also: Set[str] = frozenset()) -> list[str]:
    """Those of a topic's views that a query may read: their names stand in it as words.

    ``also``: views whose names it computes (``IDENTIFIER``, ``query_table``), as `with_computed` finds them.
    """
    return [view for view in names(topic) if view in also or re.search(rf"(?i)(?<!\w){view}(?!\w)", query)]


def over(known: Mapping[str, str], query: str) -> str:
    """A query in which views are known by name, as common table expressions: the session's own views stay as they are.

    Args:
        known: views by name, each a SELECT.
        query: the query; may be explained or described (``EXPLAIN``, ``DESCRIBE QUERY``). What cannot know views (SHOW) stays as it is.
    """
    described = DESCRIBED.fullmatch(query)
    if described and described[1].strip("`").lower() in known:
        query = f"DESCRIBE QUERY SELECT * FROM {described[1]}"  # noqa: S608 - a view of ours by its name
    found = QUERY.match(query)
    if found is None:
        return query
    if not known:
        return query
    head, rest = query[: found.end("head")], query[found.end("head") :]
    views = ", ".join(f"{quoted(name)} AS ({select})" for name, select in known.items())
    # Definitions of its own go first where names are the same, as for any query within another.
    inner = f"(\n{re.sub(END, '', rest)}\n)" if found["first"].upper() == "WITH" else rest
    return f"{head} WITH {views} {inner}"


def create(spark: SparkSession, topic: str, schema: str, silver: TableRef, bronze: TableRef, types: Types) -> None:
    """Make a topic's views in its catalog schema, or make them anew; nothing under a path."""
    if "/" in schema:
        return
    for statement in statements(topic, schema, silver, bronze, types):
        with tables.door(topic):
            spark.sql(statement)


def names(topic: str) -> tuple[str, str, str]:
    """The names of a topic's three views."""
    return topic, f"{topic}_deleted", f"{topic}_log"


def unknown(said: str, existing: Sequence[str]) -> NotFound:
    """The refusal of a query for a table or view that is not there, by what Spark or DuckDB says of it; the views there are are listed."""
    named = re.search(r"name (\S+) does not exist|`(?:\w+`\.`)*(\w+)`", said)
    found = (named[1] or named[2]).strip('"') if named else ""
    hint = did_you_mean(found, existing) if found else ""
    return NotFound(f"{said}{hint} Views: {', '.join(existing) or 'none'}.", name="UNKNOWN_TABLE", table=found, existing=list(existing))


def with_computed(answer: Callable[[Set[str]], Answer]) -> Answer:
    """What a query is answered, given the views whose names it computes: it is asked again with each that `unknown` said to be missing and is there.

    Args:
        answer: asks the query with such views (`named`).
    """
    also: frozenset[str] = frozenset()
    while True:
        try:
            return answer(also)
        except NotFound as error:
            name = error.details.get("table", "").lower()
            if name in also or name not in error.details.get("existing", ()):
                raise
            also |= {name}


def drop(spark: SparkSession, topic: str, schema: str) -> None:
    """Remove a topic's views from a catalog."""
    for name in names(topic):
        with tables.door(f"{schema}.{name}"):
            spark.sql(f"DROP VIEW IF EXISTS {schema_sql(schema)}.{quoted(name)}")
