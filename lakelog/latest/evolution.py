"""A topic's tables are given a wider value type, and silver the types that its topic has."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from lakelog.delta import past, table_properties, tables
from lakelog.delta.statement import committing
from lakelog.errors import Damaged, InvalidConfig
from lakelog.latest import silver
from lakelog.model.names import TableRef, quoted
from lakelog.model.records import ddl
from lakelog.model.topic_log import TopicLog
from lakelog.model.widening import Change, plan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import DataType, StructType


def apply(spark: SparkSession, table: TableRef, changes: list[Change]) -> None:
    """Run the changes on a table, passing over those it already has; each is one metadata commit, no file is rewritten.

    Several may do so at once, as those do who finish a change of types: whose statement fails since another one was first has what it wants.
    """
    for change in changes:
        try:
            with committing(spark, table), tables.door(table):
                if not _has(spark, table, change):
                    _run(spark, table, change)
        except Exception:
            if not _has(spark, table, change):
                raise


def _has(spark: SparkSession, table: TableRef, change: Change) -> bool:
    from pyspark.sql.types import StructType

    kind: DataType | None = tables.read(spark, table).schema
    for name in change.path:
        kind = kind[name].dataType if isinstance(kind, StructType) and name in kind.names else None
    return kind is not None and ddl(kind) == change.kind


def _run(spark: SparkSession, table: TableRef, change: Change) -> None:
    column = ".".join(quoted(name) for name in change.path)
    if change.added:
        spark.sql(f"ALTER TABLE {table.sql()} ADD COLUMNS ({column} {change.kind})")
    else:
        table_properties.change(spark, table, {"delta.enableTypeWidening": "true"})
        spark.sql(f"ALTER TABLE {table.sql()} ALTER COLUMN {column} TYPE {change.kind}")


def reconcile(log: TopicLog, schema: StructType) -> bool:
    """Give silver the columns that its topic's types and rule ask for, where it lacks them: the value's, and the version's under ``column``.

    Silver falls behind when a change of types was cut off, or when it was restored to before one. A version of another kind, as after a
    change of the rule, is left to a rebuild.

    Args:
        log: the topic.
        schema: silver's columns as they are.

    Returns:
        Whether anything was changed; then each change was one metadata commit.
    """
    wanted = {"value": log.types.value, "version": log.rule.version_type(log.types.value)}
    changes: list[Change] = []
    for name, kind in wanted.items():
        with contextlib.suppress(InvalidConfig):
            changes += plan(schema[name].dataType, kind, (name,))
    apply(log.spark, log.silver, changes)
    return bool(changes)


def require_own(log: TopicLog, at: int | None = None) -> StructType:
    """Refuse a silver with columns of another writer: a merge has nothing to put there. Gives its columns, at a version or as it is.

    Raises:
        Damaged: naming them.
    """
    schema = past.pinned(log.spark, log.silver, at).schema
    own = silver.schema(log.types.key, log.types.value, log.rule.version_type(log.types.value)).names
    strange = [name for name in schema.names if name not in own]
    if strange:
        raise Damaged(
            f"{log.silver}: the latest table has columns that are not lakelog's: {', '.join(strange)}. A merge has nothing to put there. Run"
            " verify with repair: it computes the latest table anew, without them. Keep such columns in a table of your own."
        )
    return schema


def types_json(key: DataType, value: DataType) -> str:
    """The declared types as a topic stores them."""
    from pyspark.sql.types import StructField, StructType

    return str(StructType([StructField("key", key), StructField("value", value)]).json())
