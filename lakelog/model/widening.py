"""How a type may change: nullable fields are added, types are widened; and values of an older type as the newer one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakelog.errors import InvalidConfig
from lakelog.model.names import quoted
from lakelog.model.records import ddl

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType

WIDENINGS = {("tinyint", "smallint"), ("tinyint", "int"), ("smallint", "int"), ("float", "double"), ("tinyint", "bigint"), ("smallint", "bigint"),
             ("int", "bigint")}  # fmt: skip


@dataclass(frozen=True)
class Change:
    """One statement's worth: a field ``path`` (below ``value``) that gets a type (``kind``, as SQL reads it), added or widened."""

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
        return changes + [Change((*path, field.name), ddl(field.dataType), True) for field in new.fields if field.name not in old.names]
    before, after = ddl(old), ddl(new)
    if before == after:
        return []
    wider = (before, after) in WIDENINGS
    if isinstance(old, DecimalType) and isinstance(new, DecimalType):
        wider = new.scale >= old.scale and new.precision - new.scale >= old.precision - old.scale
    if not wider:
        raise InvalidConfig(
            f"{where}: {old.simpleString()} cannot become {new.simpleString()}. Fields can be added and types widened; all else is a new topic."
        )
    return [Change(path, after, False)]


def shaped(column: Column, have: DataType, want: DataType) -> Column:
    """A column of one type as another that fields were added to or that is wider; as it is where the types are equal.

    Fields that are missing become NULL, fields that are not wanted are dropped.
    """
    from pyspark.sql import functions as F
    from pyspark.sql.types import StructType

    if have.simpleString() == want.simpleString():
        return column
    if not (isinstance(have, StructType) and isinstance(want, StructType)):
        return column.cast(want)
    fields = [
        shaped(column.getField(field.name), have[field.name].dataType, field.dataType).alias(field.name)
        if field.name in have.names
        else F.lit(None).cast(field.dataType).alias(field.name)
        for field in want.fields
    ]
    return F.when(column.isNotNull(), F.struct(*fields))


def shaped_in_sql(column: str, have: DataType, want: DataType) -> str:
    """`shaped` as an expression of Spark SQL; ``column`` is one, its names quoted."""
    from pyspark.sql.types import StructType

    if have.simpleString() == want.simpleString():
        return column
    if not (isinstance(have, StructType) and isinstance(want, StructType)):
        return f"CAST({column} AS {ddl(want)})"
    fields = [
        shaped_in_sql(f"{column}.{quoted(field.name)}", have[field.name].dataType, field.dataType)
        if field.name in have.names
        else f"CAST(NULL AS {ddl(field.dataType)})"
        for field in want.fields
    ]
    named = ", ".join(f"{field} AS {quoted(name)}" for field, name in zip(fields, want.names, strict=True))
    return f"CASE WHEN {column} IS NOT NULL THEN struct({named}) END"
