"""How a topic's value type may change: nullable fields are added, types are widened. All else is a new topic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakelog.delta import table_properties, tables
from lakelog.delta.statement import committing
from lakelog.errors import InvalidConfig
from lakelog.model.names import TableRef, quoted
from lakelog.model.records import Types, flat_columns, nullable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import DataType

WIDENINGS = {("tinyint", "smallint"), ("tinyint", "int"), ("smallint", "int"), ("float", "double"), ("tinyint", "bigint"), ("smallint", "bigint"),
             ("int", "bigint")}  # fmt: skip


@dataclass(frozen=True)
class Change:
    """One statement's worth: a field ``path`` (below ``value``) that gets a type, added or widened."""

    path: tuple[str, ...]
    kind: str
    added: bool


def plan(old: DataType, new: DataType, path: tuple[str, ...] = ("value",)) -> list[Change]:
    """The changes that lead from one value type to another.

    Raises:
        InvalidConfig: a field is missing or its type is not wider; nothing was changed.
    """
    from pyspark.sql.types import DecimalType, StructType

    where = ".".join(path)
    if isinstance(old, StructType) and isinstance(new, StructType):
        changes = []
        for name in old.names:
            if name not in new.names:
                raise InvalidConfig(
                    f"{where}: the field {name} is missing. Fields can be added and types widened; all else is a new topic."
                )
            changes += plan(old[name].dataType, new[name].dataType, (*path, name))
        return changes + [
            Change((*path, field.name), field.dataType.simpleString(), True) for field in new.fields if field.name not in old.names
        ]
    before, after = old.simpleString(), new.simpleString()
    if before == after:
        return []
    wider = (before, after) in WIDENINGS
    if isinstance(old, DecimalType) and isinstance(new, DecimalType):
        wider = new.scale >= old.scale and new.precision - new.scale >= old.precision - old.scale
    if not wider:
        raise InvalidConfig(f"{where}: {before} cannot become {after}. Fields can be added and types widened; all else is a new topic.")
    return [Change(path, after, False)]


def apply(spark: SparkSession, table: TableRef, changes: list[Change]) -> None:
    """Run the changes on a table, passing over those it already has; each is one metadata commit, no file is rewritten."""
    from pyspark.sql.types import StructType

    for change in changes:
        kind: DataType | None = tables.read(spark, table).schema
        for name in change.path:
            kind = kind[name].dataType if isinstance(kind, StructType) and name in kind.names else None
        if kind is not None and kind.simpleString() == change.kind:
            continue
        column = ".".join(quoted(name) for name in change.path)
        with committing(spark, table), tables.door(table):
            if change.added:
                spark.sql(f"ALTER TABLE {table.sql()} ADD COLUMNS ({column} {change.kind})")
            else:
                table_properties.change(spark, table, {"delta.enableTypeWidening": "true"})
                spark.sql(f"ALTER TABLE {table.sql()} ALTER COLUMN {column} TYPE {change.kind}")


def widen(spark: SparkSession, refs: Sequence[TableRef], types: Types, value: DataType) -> str:
    """Give tables a wider value type, and what a topic is to store of it afterwards.

    Raises:
        InvalidConfig: the type is not wider, or its columns clash with the key's; nothing was changed.
    """
    changes = plan(types.value, value)
    flat_columns(types.key, value)
    for table in refs:
        apply(spark, table, changes)
    # New fields stand last in the tables, wherever they were named.
    stored = tables.read(spark, refs[-1]).schema["value"].dataType
    return types_json(types.key, nullable(stored))


def types_json(key: DataType, value: DataType) -> str:
    """The declared types as a topic stores them."""
    from pyspark.sql.types import StructField, StructType

    return str(StructType([StructField("key", key), StructField("value", value)]).json())
