"""What people query: a topic's views over silver and bronze, struct keys and values flattened to columns.

``orders`` (live rows), ``orders_deleted`` (tombstones with their payload) and ``orders_log`` (records without control rows).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakelog.delta import tables
from lakelog.log.rows import RECORD_COLUMNS
from lakelog.model.names import TableRef, quoted
from lakelog.model.records import Types, flat_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


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


def statements(topic: str, schema: str, silver: TableRef, bronze: TableRef, types: Types) -> list[str]:
    """The statements that keep the views in a catalog, for readers that do not know lakelog."""
    prefix = ".".join(quoted(part) for part in schema.split("."))
    columns, log = ", ".join(_columns(types)), ", ".join(quoted(name) for name in RECORD_COLUMNS)
    held = f"FROM {silver.sql()} WHERE bucket > -1"
    records = f"FROM {bronze.sql()} WHERE segment > -1 AND partition > -1 AND control IS NULL"
    return [  # every name in them is quoted
        f"CREATE OR REPLACE VIEW {prefix}.{quoted(topic)} AS SELECT {columns} {held} AND NOT tombstone",
        f"CREATE OR REPLACE VIEW {prefix}.{quoted(topic + '_deleted')} AS SELECT {columns} {held} AND tombstone",
        f"CREATE OR REPLACE VIEW {prefix}.{quoted(topic + '_log')} AS SELECT {log} {records}",
    ]


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


def drop(spark: SparkSession, topic: str, schema: str) -> None:
    """Remove a topic's views from a catalog."""
    prefix = ".".join(quoted(part) for part in schema.split("."))
    for name in names(topic):
        with tables.door(f"{schema}.{name}"):
            spark.sql(f"DROP VIEW IF EXISTS {prefix}.{quoted(name)}")
