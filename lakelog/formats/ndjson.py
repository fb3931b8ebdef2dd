"""NDJSON: how a line of JSON, or a record as a Python value, becomes a row of a request. Nothing is rounded, cut or guessed."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from lakelog.delta import frames
from lakelog.formats import values
from lakelog.formats.texts import as_text, reads_in_utc
from lakelog.formats.variant import from_variant, headers_from_variant
from lakelog.model.records import RECORD_FIELDS, Types, first_problem, from_ms, timestamp_problem

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

# How a record is written whose fields lie flat.
FORM = 'The fields of key and value go inside them: {"key": {…}, "value": {…}}; frames, CSV and Parquet may have them as flat columns.'
# Records of this process are handed to Spark so many at a time.
BATCH = 100_000
# The second field of a framed line. No line can know it.
END = uuid.uuid4().hex


def from_records(spark: SparkSession, records: Iterable[Mapping[str, Any]], types: Types, *, raw: bool = False) -> DataFrame:
    """Records as Python values, each as an NDJSON line would have it, as a request; consumed in batches."""
    from pyspark.sql import functions as F

    lines, parts = values.lines(records, {"key": types.key, "value": types.value}), []
    while batch := [(line,) for line in itertools.islice(lines, BATCH)]:
        parts.append(frames.small_frame(spark, "text STRING", batch).coalesce(1))
    # Side by side: a union within a union for each batch would be nested too deep.
    while len(parts) > 1:
        parts = [left.unionAll(right) for left, right in zip(parts[::2], parts[1::2])] + parts[len(parts) // 2 * 2 :]  # noqa: B905
    frame = parts[0] if parts else frames.small_frame(spark, "text STRING", [])
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

    zoned = not reads_in_utc(lines.sparkSession)
    key, key_problem = from_variant(field("key"), types.key, "key", zoned=zoned)
    value, value_problem = from_variant(field("value"), types.value, "value", zoned=zoned)
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
    problem = problem.when(F.col("json").isNull(), no_json(F.col("text"))).when(F.col("fields").isNull(), "is not a JSON object")
    problem = problem.when(lone_surrogate(F.col("text")), "has half of a surrogate pair (\\ud800 to \\udfff), which is no text")
    problem = problem.when(
        F.size(unknown) > 0,
        F.concat(F.lit("has an unknown field "), F.element_at(unknown, 1), F.lit(f"; a record has {', '.join(RECORD_FIELDS)}. {FORM}")),
    )
    problem = problem.when(~F.array_contains("names", "key"), "has no key")
    problem = first_problem([problem, key_problem, value_problem, headers_problem, flag_problem, part_problem, expected_problem])
    said = F.coalesce(F.concat(F.lit("INVALID_RECORD\t"), problem), timestamp_problem(stamp_problem, stamp))
    return parsed.select(
        "src", "block", "line", "row_order", part.alias("partition"), key.alias("key"), value.alias("value"), headers.alias("headers"),
        from_ms(stamp).alias("timestamp"), F.coalesce(flag, F.lit(False)).alias("tombstone"), expected.alias("expected_offset"),
        said.alias("problem"), (F.when(said.isNotNull(), as_text(F.col("text"))) if raw else F.lit(None).cast("string")).alias("raw"),
    )  # fmt: skip


def is_whole(halves: Column) -> Column:
    """Whether what was framed is one value and nothing else."""
    from pyspark.sql import functions as F

    return (F.size(halves) == 2) & F.map_contains_key(halves, END)


def no_json(text: Column) -> Column:
    """What is said of a line that is no JSON: the cause where it is a mark that no line begins with, or a name that stands twice in an object."""
    from pyspark.sql import functions as F

    says = F.when(text.startswith("\ufeff"), "begins with a byte order mark, and NDJSON has none: save the file as UTF-8 without it")
    for where, json in (
        ("", text),
        (" in its key", F.get_json_object(text, "$.key")),
        (" in its value", F.get_json_object(text, "$.value")),
    ):
        again = _named_twice(F.json_object_keys(json))
        says = says.when(again.isNotNull(), F.concat(F.lit("names "), again, F.lit(f" twice{where}")))
    return says.otherwise("is not a line of JSON")


def _named_twice(names: Column) -> Column:
    """The first name that stands in a list a second time."""
    from pyspark.sql import functions as F

    def again(every: Column) -> Column:
        return F.try_element_at(F.filter(every, lambda name, at: F.array_position(every, name) <= at), F.lit(1))

    # As an element of an array: the list is made once, not once for each of its names.
    return F.get(F.transform(F.array(names), again), 0)


def lone_surrogate(text: Column) -> Column:
    """Whether there is half of a surrogate pair among the escapes of a line of JSON; Spark's parser makes a question mark of it."""
    from pyspark.sql import functions as F

    # Something stays in the place of an escaped backslash, or what stands on its two sides would look like one pair.
    escapes = F.regexp_replace(text, r"\\\\", "_")
    alone = F.regexp_replace(escapes, r"(?i)\\ud[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2}", "").rlike(r"(?i)\\ud[89a-f][0-9a-f]{2}")
    return F.lower(text).contains("\\ud") & alone


def _json_scalar(json: Column, kind: str, tag: str, says: str) -> tuple[Column, Column]:
    from pyspark.sql import functions as F

    value, found = F.try_variant_get(json, "$", kind), F.schema_of_variant(json)
    wrong = json.isNotNull() & (found != "VOID") & ((found != tag) | value.isNull())
    return value, F.when(wrong, F.lit(says))
