"""A JSON value (a VARIANT) as a value of a declared type, strictly: nothing is rounded, cut or guessed; and what is wrong where it is none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lakelog.formats.texts import NO_ZONE, TIMES, abbreviates_zone, has_more_places, instant_of, is_finite, spells
from lakelog.model.records import MANY, ddl

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType, StructType

# Octets in hexadecimal: two digits each.
HEX = r"\A([0-9A-Fa-f]{2})*\z"


def from_variant(json: Column, kind: DataType, where: str, *, zoned: bool) -> tuple[Column, Column]:
    """A JSON value (a VARIANT column) as a declared type, strictly: nothing is rounded, cut or guessed.

    Args:
        json: the value.
        kind: the type.
        where: what messages call it.
        zoned: the session would read times without a zone in a zone of its own.

    Returns:
        (the value, NULL for null; a problem as text, NULL when the value fits).
    """
    from pyspark.sql import functions as F

    return _value(json, kind, zoned), _problem(json, kind, F.lit(where))


def _absent(json: Column) -> Column:
    from pyspark.sql import functions as F

    return json.isNull() | (F.schema_of_variant(json) == "VOID")


def _value(json: Column, kind: DataType, zoned: bool) -> Column:
    """The value of a JSON value with no problem: Spark's own conversion, but for octets written in hexadecimal, times where it reads them in
    another zone than UTC (``zoned``), and null where any value may stand (VARIANT): a null is none, there as elsewhere."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import ArrayType, MapType, StructType

    if kind.simpleString() == "variant":
        return F.when(~F.is_variant_null(json), json)
    whole = F.try_variant_get(json, "$", ddl(kind))
    if not _holds_own(kind, zoned):
        return whole
    if isinstance(kind, StructType):
        fields = F.try_variant_get(json, "$", "map<string,variant>")
        values = [
            _value(F.try_element_at(fields, F.lit(field.name)), field.dataType, zoned)
            if _holds_own(field.dataType, zoned)
            else whole.getField(field.name)
            for field in kind.fields
        ]
        return F.when(fields.isNotNull(), F.struct(*[value.alias(field.name) for value, field in zip(values, kind.fields, strict=True)]))
    if isinstance(kind, ArrayType):
        return F.transform(F.try_variant_get(json, "$", "array<variant>"), lambda one: _value(one, kind.elementType, zoned))
    if isinstance(kind, MapType):
        return F.transform_values(F.try_variant_get(json, "$", "map<string,variant>"), lambda _, one: _value(one, kind.valueType, zoned))
    if kind.simpleString() == "timestamp":
        return instant_of(F.try_variant_get(json, "$", "string"))
    return F.when(F.schema_of_variant(json) == "STRING", whole).otherwise(F.unhex(F.try_variant_get(json, "$.hex", "string")))


def _holds_own(kind: DataType, zoned: bool) -> bool:
    """Whether there is a BINARY, a VARIANT, or where times are ``zoned`` a TIMESTAMP, in a type, other than in a map whose keys are no text."""
    from pyspark.sql.types import ArrayType, BinaryType, MapType, StructType, TimestampType, VariantType

    if isinstance(kind, StructType):
        return any(_holds_own(field.dataType, zoned) for field in kind.fields)
    if isinstance(kind, ArrayType):
        return _holds_own(kind.elementType, zoned)
    if isinstance(kind, MapType):
        return kind.keyType.simpleString() == "string" and _holds_own(kind.valueType, zoned)
    return isinstance(kind, (BinaryType, VariantType)) or (zoned and isinstance(kind, TimestampType))


def _problem(json: Column, kind: DataType, where: Column) -> Column:
    """Why a JSON value is not of a declared type; NULL when it is. ``where`` names it."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import ArrayType, DecimalType, MapType, StructType

    tag, name = F.schema_of_variant(json), kind.simpleString()

    def wrong(fits: Column, more: Column | None = None) -> Column:
        says = F.concat(where, F.lit(f" should be {name} but is "), F.lower(F.substring(tag, 1, 60)), F.lit("") if more is None else more)
        return F.when(~_absent(json) & ~F.coalesce(fits, F.lit(False)), says)

    if name == "variant":
        return F.lit(None).cast("string")
    if isinstance(kind, StructType):
        return F.coalesce(wrong(tag.startswith("OBJECT")), _fields_problem(json, kind, where))
    if isinstance(kind, ArrayType):
        elements, inside = F.try_variant_get(json, "$", "array<variant>"), kind.elementType
    elif isinstance(kind, MapType) and kind.keyType.simpleString() == "string":
        elements_by_name = F.try_variant_get(json, "$", "map<string,variant>")
        elements, inside = F.map_values(elements_by_name), kind.valueType
    elif isinstance(kind, DecimalType):
        text = F.try_variant_get(json, "$", "string")
        rounded = (tag.startswith("DECIMAL") | (tag == "STRING")) & spells(text, name) & has_more_places(text, kind.scale)
        return wrong(_fits(json, tag, kind), F.when(rounded, ": it has more decimal places than that").otherwise(""))
    elif name == "timestamp":
        guessed = abbreviates_zone(F.try_variant_get(json, "$", "string"))
        return wrong(_fits(json, tag, kind), F.when(guessed, NO_ZONE).otherwise(""))
    else:
        return wrong(_fits(json, tag, kind))
    problems = F.transform(elements, lambda one: _problem(one, inside, F.concat(where, F.lit("[]"))))
    return F.coalesce(wrong(elements.isNotNull()), _first_of(problems))


def _first_of(problems: Column) -> Column:
    """The first element that is not NULL."""
    from pyspark.sql import functions as F

    return F.try_element_at(F.array_compact(problems), F.lit(1))


def _fields_problem(json: Column, kind: StructType, where: Column) -> Column:
    """What is wrong with the fields of a JSON object: one expression for each field, or for each type where a type has many fields."""
    from pyspark.sql import functions as F

    fields = F.try_variant_get(json, "$", "map<string,variant>")
    unknown = F.array_except(F.map_keys(fields), _texts(kind.names))
    problems = [F.when(F.size(unknown) > 0, F.concat(where, F.lit(" has an unknown field "), F.element_at(unknown, 1)))]
    by_type: dict[str, list[str]] = {}
    for field in kind.fields:
        by_type.setdefault(field.dataType.simpleString(), []).append(field.name)
    for names in by_type.values():
        inside = kind[names[0]].dataType
        if len(names) > MANY:
            problems.append(_problem_of_many(fields, names if len(by_type) > 1 else None, inside, where))
            continue
        for name in names:
            problems.append(_problem(F.try_element_at(fields, F.lit(name)), inside, F.concat(where, F.lit(f".{name}"))))
    return F.coalesce(*problems)


def _texts(texts: Sequence[str]) -> Column:
    """Some texts as an array, in one literal: each of thousands would be a call to Java."""
    from pyspark.sql import functions as F

    return F.split(F.lit("\n".join(texts)), "\n")


def _problem_of_many(fields: Column, names: list[str] | None, kind: DataType, where: Column) -> Column:
    """The first problem of the fields of those names (None: of all), which have one type."""
    from pyspark.sql import functions as F

    some = F.map_entries(fields)
    if names is not None:
        some = F.filter(some, lambda entry: F.array_contains(_texts(names), entry["key"]))
    return _first_of(F.transform(some, lambda entry: _problem(entry["value"], kind, F.concat(where, F.lit("."), entry["key"]))))


def _fits(json: Column, tag: Column, kind: DataType) -> Column:
    """Whether a JSON value that is neither null nor nested is of a type, with nothing lost."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import DecimalType

    name = kind.simpleString()
    if name == "binary":
        hexed = F.try_variant_get(json, "$.hex", "string")
        return (tag == "STRING") | ((tag == "OBJECT<hex: STRING>") & hexed.rlike(HEX))
    value = F.try_variant_get(json, "$", ddl(kind))
    fits = value.isNotNull()
    if name in ("tinyint", "smallint", "int", "bigint"):
        return fits & (tag == "BIGINT")
    if isinstance(kind, DecimalType):
        text = F.try_variant_get(json, "$", "string")
        exact = spells(text, name) & ~has_more_places(text, kind.scale)
        return fits & ((tag == "BIGINT") | ((tag.startswith("DECIMAL") | (tag == "STRING")) & exact))
    if name in ("double", "float"):
        number = (tag.startswith("DECIMAL") | tag.isin("BIGINT", "DOUBLE")) & is_finite(value)
        return fits & (number | ((tag == "STRING") & F.try_variant_get(json, "$", "string").isin("NaN", "Infinity", "-Infinity")))
    if name == "boolean":
        return fits & (tag == "BOOLEAN")
    if name in TIMES:
        return fits & (tag == "STRING") & spells(F.try_variant_get(json, "$", "string"), name)
    return fits & ((tag == "STRING") | F.lit(name.startswith("map")))


def headers_from_variant(json: Column) -> tuple[Column, Column]:
    """``[[name, value], …]`` as headers: integers become 8 octets big-endian, text UTF-8, ``{"hex": …}`` octets, null stays null."""
    from pyspark.sql import functions as F

    absent = json.isNull() | (F.schema_of_variant(json) == "VOID")
    pairs = F.try_variant_get(json, "$", "array<array<variant>>")

    def header(pair: Column) -> Column:
        value = F.try_element_at(pair, F.lit(2))
        tag = F.schema_of_variant(value)
        number, hexed = F.try_variant_get(value, "$", "bigint"), F.try_variant_get(value, "$.hex", "string")
        data = (
            F.when(tag == "BIGINT", F.unhex(F.lpad(F.hex(number), 16, "0")))
            .when(tag == "STRING", F.encode(F.try_variant_get(value, "$", "string"), "UTF-8"))
            .when((tag == "OBJECT<hex: STRING>") & hexed.rlike(HEX), F.unhex(hexed))
        )
        return F.struct(F.try_variant_get(F.try_element_at(pair, F.lit(1)), "$", "string").alias("key"), data.alias("value"))

    def fits(pair: Column) -> Column:
        name, value = F.try_element_at(pair, F.lit(1)), F.try_element_at(pair, F.lit(2))
        known = value.isNull() | (F.schema_of_variant(value) == "VOID") | header(pair)["value"].isNotNull()
        return (F.size(pair) == 2) & F.coalesce(F.schema_of_variant(name) == "STRING", F.lit(False)) & known

    problem = F.when(
        ~absent & ~F.coalesce(F.forall(pairs, fits), F.lit(False)),
        F.lit('headers should be [["name", value], …] with values that are integers, text, {"hex": "…"} or null'),
    )
    return F.when(problem.isNull(), F.transform(pairs, header)), problem
