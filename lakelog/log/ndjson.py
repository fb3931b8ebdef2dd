"""NDJSON: how a line of JSON, or a record as a Python value, becomes a row of a request. Nothing is rounded, cut or guessed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lakelog.delta import tables
from lakelog.errors import InvalidRequest
from lakelog.model.records import RECORD_FIELDS, Types, first_problem, from_ms, timestamp_problem

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType


def from_records(spark: SparkSession, records: Sequence[Mapping[str, Any]], types: Types) -> DataFrame:
    """Records as Python values, each as an NDJSON line would have it, as a request."""
    from pyspark.sql import functions as F

    try:
        lines = [(json.dumps(record, ensure_ascii=False, allow_nan=False),) for record in records]
    except (TypeError, ValueError) as error:
        raise InvalidRequest(f"A record holds a value that JSON cannot carry ({error}); octets are written {{'hex': '…'}}.") from error
    frame = tables.small_frame(spark, "text STRING", lines).coalesce(1)
    return from_lines(frame.select(F.lit(None).cast("string").alias("src"), F.lit(0).cast("bigint").alias("block"), "text"), types)


def from_lines(lines: DataFrame, types: Types) -> DataFrame:
    """Lines (``src``, ``block``, ``text``) of one JSON record each as a request; blank lines are passed over."""
    from pyspark.sql import functions as F

    numbered = lines.withColumn("line", F.monotonically_increasing_id()).filter(F.trim("text") != "")
    parsed = numbered.select("src", "block", "line", F.monotonically_increasing_id().alias("mid"), F.try_parse_json("text").alias("json"))
    fields = F.try_variant_get(F.col("json"), "$", "map<string,variant>")
    parsed = parsed.withColumn("fields", fields).withColumn("names", F.map_keys("fields"))

    def field(name: str) -> Column:
        return F.try_element_at(F.col("fields"), F.lit(name))

    key, key_problem = from_variant(field("key"), types.key, "key")
    value, value_problem = from_variant(field("value"), types.value, "value")
    headers, headers_problem = headers_from_variant(field("headers"))
    stamp, stamp_problem = _json_scalar(
        field("timestamp"), "bigint", "BIGINT", "timestamp should be milliseconds since 1970, a whole number"
    )
    flag, flag_problem = _json_scalar(field("tombstone"), "boolean", "BOOLEAN", "tombstone should be true or false")
    part, part_problem = _json_scalar(field("partition"), "int", "BIGINT", "partition should be a whole number")
    expected, expected_problem = _json_scalar(field("expected_offset"), "bigint", "BIGINT", "expected_offset should be a whole number")
    unknown = F.array_except(F.col("names"), F.array(*[F.lit(name) for name in RECORD_FIELDS]))
    problem = F.when(F.col("json").isNull(), "is not a line of JSON").when(F.col("fields").isNull(), "is not a JSON object")
    problem = problem.when(
        F.size(unknown) > 0,
        F.concat(F.lit("has an unknown field "), F.element_at(unknown, 1), F.lit(f"; a record has {', '.join(RECORD_FIELDS)}")),
    )
    problem = problem.when(~F.array_contains("names", "key"), "has no key")
    problem = first_problem([problem, key_problem, value_problem, headers_problem, flag_problem, part_problem, expected_problem])
    return parsed.select(
        "src", "block", "line", "mid", part.alias("partition"), key.alias("key"), value.alias("value"), headers.alias("headers"),
        from_ms(stamp).alias("timestamp"), F.coalesce(flag, F.lit(False)).alias("tombstone"), expected.alias("expected_offset"),
        F.coalesce(F.concat(F.lit("INVALID_RECORD\t"), problem), timestamp_problem(stamp_problem, stamp)).alias("problem"),
    )  # fmt: skip


def _json_scalar(json: Column, kind: str, tag: str, says: str) -> tuple[Column, Column]:
    from pyspark.sql import functions as F

    value, found = F.try_variant_get(json, "$", kind), F.schema_of_variant(json)
    wrong = json.isNotNull() & (found != "VOID") & ((found != tag) | value.isNull())
    return value, F.when(wrong, F.lit(says))


def from_variant(json: Column, kind: DataType, where: str) -> tuple[Column, Column]:
    """A JSON value (a VARIANT column) as a declared type, strictly: nothing is rounded, cut or guessed.

    Returns:
        (the value, NULL for null; a problem as text, NULL when the value fits).
    """
    from pyspark.sql import functions as F
    from pyspark.sql.types import ArrayType, MapType, StructType

    tag = F.schema_of_variant(json)
    absent = json.isNull() | (tag == "VOID")
    name = kind.simpleString()
    if name == "variant":
        return json, F.lit(None).cast("string")

    def wrong(fits: Column) -> Column:
        return F.when(
            ~absent & ~F.coalesce(fits, F.lit(False)),
            F.concat(F.lit(f"{where} should be {name} but is "), F.lower(F.substring(tag, 1, 60))),
        )

    if isinstance(kind, StructType):
        return _struct_from_variant(json, kind, where, absent, wrong(tag.startswith("OBJECT")))
    if isinstance(kind, ArrayType) or (isinstance(kind, MapType) and kind.keyType.simpleString() == "string"):
        return _elements_from_variant(json, kind, where, absent, wrong)
    if isinstance(kind, MapType):
        value = F.try_variant_get(json, "$", name)
        return value, wrong(value.isNotNull())
    if name == "binary":
        text = F.try_variant_get(json, "$", "string")
        hexed = F.try_variant_get(json, "$.hex", "string")
        is_hex = tag == "OBJECT<hex: STRING>"
        value = F.when(tag == "STRING", F.encode(text, "UTF-8")).when(is_hex, F.unhex(hexed))
        return value, wrong(value.isNotNull())
    value = F.try_variant_get(json, "$", name)
    fits = value.isNotNull()
    if name in ("tinyint", "smallint", "int", "bigint"):
        fits = fits & (tag == "BIGINT")
    elif name.startswith("decimal"):
        exact = not_rounded(F.try_variant_get(json, "$", "string"), value, kind)
        fits = fits & ((tag == "BIGINT") | ((tag.startswith("DECIMAL") | (tag == "STRING")) & exact))
    elif name in ("double", "float"):
        fits = fits & (tag.startswith("DECIMAL") | tag.isin("BIGINT", "DOUBLE"))
    elif name == "boolean":
        fits = fits & (tag == "BOOLEAN")
    else:
        fits = fits & (tag == "STRING")
    return value, wrong(fits)


def not_rounded(text: Column, value: Column, kind: DataType) -> Column:
    """Whether a number's text has no more digits than the decimal that was made of it."""
    from pyspark.sql import functions as F

    scale: int = kind.scale  # type: ignore[attr-defined]
    fraction = F.regexp_extract(text, r"\.([0-9]*?)0*$", 1)
    return F.when(F.lower(text).contains("e"), text.try_cast("decimal(38,18)") == value).otherwise(F.length(fraction) <= scale)


def _elements_from_variant(
    json: Column, kind: DataType, where: str, absent: Column, wrong: Callable[[Column], Column]
) -> tuple[Column, Column]:
    """A JSON array, or an object as a map with text for keys, each element as strictly as a value of its own."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import ArrayType, MapType

    if isinstance(kind, ArrayType):
        elements = F.try_variant_get(json, "$", "array<variant>")
        value = F.transform(elements, lambda one: from_variant(one, kind.elementType, f"{where}[]")[0])
        problems = F.transform(elements, lambda one: from_variant(one, kind.elementType, f"{where}[]")[1])
    else:
        assert isinstance(kind, MapType)
        elements, inside = F.try_variant_get(json, "$", "map<string,variant>"), kind.valueType
        value = F.transform_values(elements, lambda _, one: from_variant(one, inside, f"{where}[]")[0])
        problems = F.transform(F.map_values(elements), lambda one: from_variant(one, inside, f"{where}[]")[1])
    first = F.try_element_at(F.filter(problems, lambda one: one.isNotNull()), F.lit(1))
    return F.when(~absent & first.isNull(), value), first_problem([wrong(elements.isNotNull()), first])


def _struct_from_variant(json: Column, kind: StructType, where: str, absent: Column, wrong: Column) -> tuple[Column, Column]:
    from pyspark.sql import functions as F

    fields = F.try_variant_get(json, "$", "map<string,variant>")
    values, problems = [], [wrong]
    unknown = F.array_except(F.map_keys(fields), F.array(*[F.lit(name) for name in kind.names]))
    problems.append(F.when(F.size(unknown) > 0, F.concat(F.lit(f"{where} has an unknown field "), F.element_at(unknown, 1))))
    for field in kind.fields:
        value, problem = from_variant(F.try_element_at(fields, F.lit(field.name)), field.dataType, f"{where}.{field.name}")
        values.append(value.alias(field.name))
        problems.append(problem)
    return F.when(~absent & wrong.isNull(), F.struct(*values)), F.coalesce(*problems)


def headers_from_variant(json: Column) -> tuple[Column, Column]:
    """``[[name, value], …]`` as headers: integers become 8 octets big-endian, text UTF-8, ``{"hex": …}`` octets, null stays null."""
    from pyspark.sql import functions as F

    absent = json.isNull() | (F.schema_of_variant(json) == "VOID")
    pairs = F.try_variant_get(json, "$", "array<array<variant>>")

    def header(pair: Column) -> Column:
        value = F.try_element_at(pair, F.lit(2))
        tag = F.schema_of_variant(value)
        number = F.try_variant_get(value, "$", "bigint")
        data = (
            F.when(tag == "BIGINT", F.unhex(F.lpad(F.hex(number), 16, "0")))
            .when(tag == "STRING", F.encode(F.try_variant_get(value, "$", "string"), "UTF-8"))
            .when(tag == "OBJECT<hex: STRING>", F.unhex(F.try_variant_get(value, "$.hex", "string")))
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
