"""NDJSON: how a line of JSON, or a record as a Python value, becomes a row of a request. Nothing is rounded, cut or guessed."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lakelog.delta import tables
from lakelog.inputs import values
from lakelog.model.records import MANY, RECORD_FIELDS, Types, ddl, first_problem, from_ms, timestamp_problem

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

# Records of this process are handed to Spark so many at a time.
BATCH = 100_000
# The second field of a framed line. No line can know it.
END = uuid.uuid4().hex
# Octets in hexadecimal: two digits each.
HEX = r"\A([0-9A-Fa-f]{2})*\z"


def from_records(spark: SparkSession, records: Iterable[Mapping[str, Any]], types: Types, *, raw: bool = False) -> DataFrame:
    """Records as Python values, each as an NDJSON line would have it, as a request; consumed in batches."""
    from pyspark.sql import functions as F

    lines, frames = values.lines(records, {"key": types.key, "value": types.value}), []
    while batch := [(line,) for line in itertools.islice(lines, BATCH)]:
        frames.append(tables.small_frame(spark, "text STRING", batch).coalesce(1))
    # Side by side: a union within a union for each batch would be nested too deep.
    while len(frames) > 1:
        frames = [left.unionAll(right) for left, right in zip(frames[::2], frames[1::2])] + frames[len(frames) // 2 * 2 :]  # noqa: B905
    frame = frames[0] if frames else tables.small_frame(spark, "text STRING", [])
    return from_lines(frame.select(F.lit(None).cast("string").alias("src"), F.lit(0).cast("bigint").alias("block"), "text"), types, raw=raw)


def from_lines(lines: DataFrame, types: Types, *, raw: bool = False) -> DataFrame:
    """Lines (``src``, ``block``, ``text``) of one JSON record each as a request; blank lines are passed over. ``raw``: keep lines that are wrong."""
    from pyspark.sql import functions as F

    numbered = lines.withColumn("line", F.monotonically_increasing_id()).filter(F.trim("text") != "")
    # Spark's parser stops where a first value ends: within an object of two fields, with a name that no line knows, the line must be one value.
    framed = F.try_parse_json(F.concat(F.lit('{"":'), "text", F.lit(f',"{END}":0}}')))
    parsed = numbered.select("src", "block", "line", F.monotonically_increasing_id().alias("row_order"), "text", framed.alias("framed"))
    halves = F.try_variant_get(F.col("framed"), "$", "map<string,variant>")
    parsed = parsed.withColumn("halves", halves).withColumn("json", F.when(is_whole(halves), F.try_element_at("halves", F.lit(""))))
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
    problem = F.when(~F.is_valid_utf8("text"), "is not UTF-8 text: NDJSON is UTF-8, convert the file")
    problem = problem.when(
        F.col("json").isNull() & F.try_parse_json("text").isNotNull(), "has text behind its object: NDJSON has one record a line"
    )
    problem = problem.when(F.col("json").isNull(), "is not a line of JSON").when(F.col("fields").isNull(), "is not a JSON object")
    problem = problem.when(lone_surrogate(F.col("text")), "has half of a surrogate pair (\\ud800 to \\udfff), which is no text")
    problem = problem.when(
        F.size(unknown) > 0,
        F.concat(F.lit("has an unknown field "), F.element_at(unknown, 1), F.lit(f"; a record has {', '.join(RECORD_FIELDS)}")),
    )
    problem = problem.when(~F.array_contains("names", "key"), "has no key")
    problem = first_problem([problem, key_problem, value_problem, headers_problem, flag_problem, part_problem, expected_problem])
    said = F.coalesce(F.concat(F.lit("INVALID_RECORD\t"), problem), timestamp_problem(stamp_problem, stamp))
    return parsed.select(
        "src", "block", "line", "row_order", part.alias("partition"), key.alias("key"), value.alias("value"), headers.alias("headers"),
        from_ms(stamp).alias("timestamp"), F.coalesce(flag, F.lit(False)).alias("tombstone"), expected.alias("expected_offset"),
        said.alias("problem"), (F.when(said.isNotNull(), F.col("text")) if raw else F.lit(None).cast("string")).alias("raw"),
    )  # fmt: skip


def is_whole(halves: Column) -> Column:
    """Whether what was framed is one value and nothing else."""
    from pyspark.sql import functions as F

    return (F.size(halves) == 2) & F.map_contains_key(halves, END)


def lone_surrogate(text: Column) -> Column:
    """Whether there is half of a surrogate pair among the escapes of a line of JSON; Spark's parser makes a question mark of it."""
    from pyspark.sql import functions as F

    escapes = F.regexp_replace(text, r"\\\\", "")
    alone = F.regexp_replace(escapes, r"(?i)\\ud[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2}", "").rlike(r"(?i)\\ud[89a-f][0-9a-f]{2}")
    return F.lower(text).contains("\\ud") & alone


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

    return _value(json, kind), _problem(json, kind, F.lit(where))


def _absent(json: Column) -> Column:
    from pyspark.sql import functions as F

    return json.isNull() | (F.schema_of_variant(json) == "VOID")


def _value(json: Column, kind: DataType) -> Column:
    """The value of a JSON value with no problem: Spark's own conversion, but for octets written in hexadecimal."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import ArrayType, MapType, StructType

    if kind.simpleString() == "variant":
        return json
    whole = F.try_variant_get(json, "$", ddl(kind))
    if not _holds_octets(kind):
        return whole
    if isinstance(kind, StructType):
        fields = F.try_variant_get(json, "$", "map<string,variant>")
        values = [
            _value(F.try_element_at(fields, F.lit(field.name)), field.dataType)
            if _holds_octets(field.dataType)
            else whole.getField(field.name)
            for field in kind.fields
        ]
        return F.when(fields.isNotNull(), F.struct(*[value.alias(field.name) for value, field in zip(values, kind.fields, strict=True)]))
    if isinstance(kind, ArrayType):
        return F.transform(F.try_variant_get(json, "$", "array<variant>"), lambda one: _value(one, kind.elementType))
    if isinstance(kind, MapType):
        return F.transform_values(F.try_variant_get(json, "$", "map<string,variant>"), lambda _, one: _value(one, kind.valueType))
    return F.when(F.schema_of_variant(json) == "STRING", whole).otherwise(F.unhex(F.try_variant_get(json, "$.hex", "string")))


def _holds_octets(kind: DataType) -> bool:
    """Whether there is a BINARY in a type, other than in a map whose keys are no text."""
    from pyspark.sql.types import ArrayType, BinaryType, MapType, StructType

    if isinstance(kind, StructType):
        return any(_holds_octets(field.dataType) for field in kind.fields)
    if isinstance(kind, ArrayType):
        return _holds_octets(kind.elementType)
    if isinstance(kind, MapType):
        return kind.keyType.simpleString() == "string" and _holds_octets(kind.valueType)
    return isinstance(kind, BinaryType)


def _problem(json: Column, kind: DataType, where: Column) -> Column:
    """Why a JSON value is not of a declared type; NULL when it is. ``where`` names it."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import ArrayType, MapType, StructType

    tag, name = F.schema_of_variant(json), kind.simpleString()

    def wrong(fits: Column) -> Column:
        says = F.concat(where, F.lit(f" should be {name} but is "), F.lower(F.substring(tag, 1, 60)))
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
        exact = not_rounded(F.try_variant_get(json, "$", "string"), value, kind)
        return fits & ((tag == "BIGINT") | ((tag.startswith("DECIMAL") | (tag == "STRING")) & exact))
    if name in ("double", "float"):
        finite = tag.startswith("DECIMAL") | tag.isin("BIGINT", "DOUBLE")
        return fits & (finite | ((tag == "STRING") & F.try_variant_get(json, "$", "string").isin("NaN", "Infinity", "-Infinity")))
    if name == "boolean":
        return fits & (tag == "BOOLEAN")
    return fits & ((tag == "STRING") | F.lit(name.startswith("map")))


def not_rounded(text: Column, value: Column, kind: DataType) -> Column:
    """Whether a number's text has no more digits than the decimal that was made of it."""
    from pyspark.sql import functions as F

    scale: int = kind.scale  # type: ignore[attr-defined]
    fraction = F.regexp_extract(text, r"\.([0-9]*?)0*$", 1)
    return F.when(F.lower(text).contains("e"), text.try_cast("decimal(38,18)") == value).otherwise(F.length(fraction) <= scale)


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
