"""How columns of frames and files become those of a topic, where nothing can be lost."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING

from lakelog.errors import InvalidRequest
from lakelog.formats.texts import NO_ZONE, abbreviates_zone, has_more_places, instant_of, spells, spells_number
from lakelog.model.config import did_you_mean
from lakelog.model.records import LTZ, first_problem, from_ms, kinds_within, nullable, timestamp_problem

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType, StructType

# Types of numbers, beside DECIMAL; and what looks like one with a decimal comma.
NUMBERS, COMMA = ("tinyint", "smallint", "int", "bigint", "float", "double"), r"\A\s*[+-]?\d+,\d+\s*\z"
WIDER = {"tinyint": 1, "smallint": 2, "int": 3, "bigint": 4}


def in_utc(column: Column) -> Column:
    """A time without a zone as one in UTC, whatever zone the session is in."""
    from pyspark.sql import functions as F

    return F.concat(column.cast("string"), F.lit("Z")).try_cast(LTZ)


def fitted(column: Column, have: DataType, want: DataType | str, name: str, *, text: bool) -> tuple[Column, Column | None]:
    """A column as the topic's type, where nothing can be lost: (the column, a problem of single records where there can be one)."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import DecimalType, StructType

    source, target = nullable(have).simpleString(), want if isinstance(want, str) else want.simpleString()
    if source == target and not text:
        wrong = no_text(column, have)
        return _without_nulls(column, have), None if wrong is None else F.when(wrong, F.lit(f"{name} is not UTF-8 text"))
    if source in (target, "void"):
        return column if source == target else column.cast(want), None
    if text and any(word in target for word in ("struct<", "array<", "map<", "variant")):
        raise InvalidRequest(
            f"Column {name}: a field of CSV cannot be {target}. Give its fields columns of their own, or use NDJSON.", column=name
        )
    if text or (source == "string" and target == "binary"):
        if target == "binary":
            return F.encode(column, "UTF-8"), None
        cast = instant_of(column) if target == "timestamp" else column.try_cast(want)
        unread = cast.isNull() | ~spells(column, target)
        rounded = spells(column, target) & has_more_places(column, want.scale) if isinstance(want, DecimalType) else F.lit(False)
        if isinstance(want, DecimalType):
            unread = unread | rounded
        elif target in ("float", "double"):
            unread = unread | ~spells_number(column, cast)
        hint = F.when(rounded, ": it has more decimal places than that")
        hint = hint.when(
            F.lit(target in NUMBERS or isinstance(want, DecimalType)) & column.rlike(COMMA), ": write a decimal point, not a comma"
        )
        if target == "timestamp":
            hint = hint.when(abbreviates_zone(column), NO_ZONE)
        says = F.concat(F.lit(f"{name} should be {target} but is "), F.substring(column, 1, 60), F.coalesce(hint, F.lit("")))
        return cast, F.when(column.isNotNull() & unread, says)
    if source == "binary" and target == "string":
        return column.cast("string"), F.when(~F.is_valid_utf8(column.cast("string")), F.lit(f"{name} is not UTF-8 text"))
    if WIDER.get(source, 9) < WIDER.get(target, 0):
        return column.cast(want), None
    if source in WIDER and target in WIDER:
        cast = column.try_cast(want)
        says = F.concat(F.lit(f"{name} should be {target} but is "), column.cast("string"))
        return cast, F.when(column.isNotNull() & cast.isNull(), says)
    if (source, target) == ("timestamp_ntz", "timestamp"):
        return in_utc(column), None
    if (source, target) == ("float", "double"):
        return column.cast(want), None
    if (
        isinstance(have, DecimalType)
        and isinstance(want, DecimalType)
        and have.scale <= want.scale
        and have.precision - have.scale <= want.precision - want.scale
    ):
        return column.cast(want), None
    if isinstance(have, StructType) and isinstance(want, StructType):
        return _fitted_struct(column, have, want, name)
    gaps = " pandas makes double of whole numbers where one is missing: astype('Int64')." if source == "double" and target in WIDER else ""
    raise InvalidRequest(f"Column {name} is {source}, the topic has {target}. Cast it before the append.{gaps}", column=name)


def _without_nulls(column: Column, kind: DataType) -> Column:
    """A column in which a null where any value may stand (VARIANT) is none, as in a line of NDJSON."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import ArrayType, MapType, StructType

    if "variant" not in (one.simpleString() for one in kinds_within(kind)):
        return column
    if isinstance(kind, StructType):
        fields = [_without_nulls(column.getField(field.name), field.dataType).alias(field.name) for field in kind.fields]
        return F.when(column.isNotNull(), F.struct(*fields))
    if isinstance(kind, ArrayType):
        return F.transform(column, lambda one: _without_nulls(one, kind.elementType))
    if isinstance(kind, MapType):
        return F.transform_values(column, lambda _, one: _without_nulls(one, kind.valueType))
    return F.when(~F.is_variant_null(column), column)


def no_text(column: Column, kind: DataType) -> Column | None:
    """Whether a text in a value is not UTF-8: Spark keeps it, and no other reader of the table reads on from there. None where it holds no text."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import ArrayType, MapType, StringType, StructType

    if isinstance(kind, StringType):
        return ~F.is_valid_utf8(column)
    if isinstance(kind, StructType):
        found = [no_text(column.getField(field.name), field.dataType) for field in kind.fields]
        return _any([one for one in found if one is not None])
    if isinstance(kind, MapType):
        sides = [(F.map_keys(column), kind.keyType), (F.map_values(column), kind.valueType)]
        return _any([one for one in (no_text(part, ArrayType(of)) for part, of in sides) if one is not None])
    if isinstance(kind, ArrayType):
        element = kind.elementType
        if no_text(column, element) is not None:
            return F.exists(column, lambda one: no_text(one, element))  # type: ignore[arg-type, return-value]
    return None


def _any(conditions: Sequence[Column]) -> Column | None:
    """Whether one of the conditions holds; NULL ones do not."""
    return reduce(operator.or_, conditions) if conditions else None


def _fitted_struct(column: Column, have: StructType, want: StructType, name: str) -> tuple[Column, Column | None]:
    from pyspark.sql import functions as F

    unknown = [field for field in have.names if field not in want.names]
    if unknown:
        raise InvalidRequest(
            f"Unknown column {name}.{unknown[0]}.{did_you_mean(unknown[0], want.names)} Known here: {', '.join(want.names)}."
        )
    values, problems = [], []
    for field in want.fields:
        if field.name in have.names:
            value, problem = fitted(
                column.getField(field.name), have[field.name].dataType, field.dataType, f"{name}.{field.name}", text=False
            )
            problems.extend([] if problem is None else [problem])
        else:
            value = F.lit(None).cast(field.dataType)
        values.append(value.alias(field.name))
    return F.when(column.isNotNull(), F.struct(*values)), first_problem(problems) if problems else None


def fitted_timestamp(column: Column, kind: DataType | None, name: str, *, text: bool) -> tuple[Column, Column]:
    """A record's timestamp, and its problem: TIMESTAMP as it is, whole numbers as milliseconds since 1970, in CSV (``text``) either of the two as
    text; ``kind`` is None where there is no such column.

    Raises:
        InvalidRequest: the column is of another type.
    """
    from pyspark.sql import functions as F

    if kind is None:
        return F.lit(None).cast(LTZ), F.lit(None).cast("string")
    source = kind.simpleString()
    if source in ("timestamp", "timestamp_ntz"):
        stamp = column if source == "timestamp" else in_utc(column)
        return stamp, timestamp_problem(F.lit(None).cast("string"), F.unix_millis(stamp))
    if source in WIDER or source == "void":
        ms = column.cast("bigint")
        return from_ms(ms), timestamp_problem(F.lit(None).cast("string"), ms)
    if source == "string" and text:
        ms = column.try_cast("bigint")
        stamp = F.coalesce(from_ms(ms), F.when(spells(column, "timestamp"), instant_of(column)))
        unread = F.when(column.isNotNull() & ms.isNull() & stamp.isNull(), F.concat(F.lit("timestamp cannot be read: "), column))
        return stamp, timestamp_problem(unread, ms)
    raise InvalidRequest(f"Column {name} is {source}; a timestamp is a TIMESTAMP or a whole number of milliseconds since 1970.")
