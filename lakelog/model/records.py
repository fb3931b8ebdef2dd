"""Records as columns: the types a topic declares, the size of a record, what is wrong with one.

Everything here is a value or a Spark expression; nothing reads or writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakelog.errors import InvalidConfig

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession
    from pyspark.sql.types import DataType, StructType

HEADERS = "array<struct<key:string,value:binary>>"
RECORD_FIELDS = ("key", "value", "headers", "timestamp", "tombstone", "partition", "expected_offset")
# Columns of Spark's Kafka source that a log gives itself.
KAFKA_FIELDS = ("topic", "offset", "timestampType")
FLAT_FIELDS = ("_timestamp", "_headers", "_tombstone", "_partition", "_expected_offset")
ROW_FIELDS = ("_partition", "_offset", "_timestamp", "_version")
TIMESTAMP_MS_LEAST, TIMESTAMP_MS_MOST = -62135596800000, 253402300799999
FIXED_OCTETS = {
    "boolean": 1, "tinyint": 1, "smallint": 2, "int": 4, "bigint": 8, "float": 4, "double": 8, "date": 4, "timestamp": 8, "timestamp_ntz": 8,
}  # fmt: skip


@dataclass(frozen=True)
class Types:
    """The types a topic declares."""

    key: DataType
    value: DataType


def columns(**kinds: str | DataType) -> StructType:
    """A table's columns, in this order: types, or the names of atomic ones as Spark's JSON has them (``long``, ``timestamp``), or `HEADERS`."""
    from pyspark.sql.types import ArrayType, StructType

    headers = ArrayType(StructType().add("key", "string").add("value", "binary"))
    table = StructType()
    for name, kind in kinds.items():
        table.add(name, headers if kind == HEADERS else kind)
    return table


def looked_up(numbers: Sequence[int], index: Column) -> Column:
    """One of a few numbers, by the index a row has: what a broadcast join with a small frame would tell, without its Spark job.

    The numbers are data to the code that Spark generates, not part of its text: a statement with other numbers runs code that is compiled
    already.
    """
    from pyspark.sql import functions as F

    return F.get(F.split(F.lit(",".join(map(str, numbers))), ",").cast("array<bigint>"), index)


def constant(number: int, any_row: str) -> Column:
    """A number that differs from statement to statement, as `looked_up`; ``any_row`` is an integer column that is never NULL."""
    return looked_up((number,), zero(any_row))


def instant(ms: int, any_row: str) -> Column:
    """A time in milliseconds that differs from statement to statement, as a timestamp; ``any_row`` as for `constant`."""
    from pyspark.sql import functions as F

    return F.timestamp_millis(constant(ms, any_row))


def zero(any_row: str) -> Column:
    """The number 0, which Spark does not fold into a literal, nor what is looked up by it; ``any_row`` as for `constant`."""
    from pyspark.sql import functions as F

    return F.col(any_row).bitwiseAND(F.lit(0)).cast("int")


def floor_of(offset: int) -> int:
    """A bound a little below an offset: its first six binary digits; 0 below 65536.

    Its text stays the same for many statements, and with it the code that Spark generates for the scan. Not for reading the log, where it
    would let a thirty-second of all files pass.
    """
    if offset < 65536:
        return 0
    digits = offset.bit_length() - 6
    return offset >> digits << digits


def declared_type(spark: SparkSession, text: str, *, what: str) -> DataType:
    """The type that a topic declares for its key or value: ``BINARY``, any other type, or a list of fields (a STRUCT).

    Raises:
        InvalidConfig: the text is no type, or a type that cannot be that: keys are atomic or STRUCTs of those.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql.types import StructType

    def parsed(ddl: str) -> StructType | None:
        try:
            schema: StructType = spark.createDataFrame([], schema=ddl).schema
        except (PySparkException, ValueError):
            return None
        return schema

    single, fields = parsed(f"`x` {text}"), None
    if single is None or len(single) != 1:
        fields = parsed(text)
    kind = single[0].dataType if single is not None and len(single) == 1 else fields
    if kind is None or (isinstance(kind, StructType) and not kind.fields):
        raise InvalidConfig(
            f"{what}: {text!r} is no type. Write BINARY, STRING, another type, or a list of fields: order_id BIGINT, region STRING."
        )
    kind = nullable(kind)
    unusable = ("map", "array", "variant", "interval", "collate") if what == "key" else ("interval", "collate")
    inside = _kinds(kind)
    for word in unusable:
        if any(word in one for one in inside):
            raise InvalidConfig(f"{what}: {kind.simpleString()} cannot be a {what}: {word} has no usable equality or file format.")
    if isinstance(kind, StructType):
        folded = [name.lower() for name in kind.names]
        if len(set(folded)) < len(folded):
            raise InvalidConfig(f"{what}: field names repeat (case does not count): {', '.join(kind.names)}.")
        if what == "key" and "key" in folded:
            raise InvalidConfig("key: a field cannot be called key: a table with a key column is taken as records.")
    return kind


def _kinds(kind: DataType) -> list[str]:
    """The type and all types within it, as Spark spells them, without the names of fields."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(kind, StructType):
        return ["struct", *[name for field in kind.fields for name in _kinds(field.dataType)]]
    if isinstance(kind, ArrayType):
        return ["array", *_kinds(kind.elementType)]
    if isinstance(kind, MapType):
        return ["map", *_kinds(kind.keyType), *_kinds(kind.valueType)]
    return [kind.simpleString()]


def nullable(kind: DataType) -> DataType:
    """The type with every field and element nullable, metadata dropped."""
    from pyspark.sql.types import ArrayType, MapType, StructField, StructType

    if isinstance(kind, StructType):
        return StructType([StructField(field.name, nullable(field.dataType)) for field in kind.fields])
    if isinstance(kind, ArrayType):
        return ArrayType(nullable(kind.elementType))
    if isinstance(kind, MapType):
        return MapType(nullable(kind.keyType), nullable(kind.valueType))
    return kind


def flat_columns(key: DataType, value: DataType) -> list[tuple[str, str, str]]:
    """How a row is shown to people: (column, side, field) for each field of key and value; atomic ones are ``key`` and ``value``.

    Raises:
        InvalidConfig: two columns would have one name.
    """
    from pyspark.sql.types import StructType

    columns: list[tuple[str, str, str]] = []
    for side, kind in (("key", key), ("value", value)):
        columns += [(field, side, field) for field in kind.names] if isinstance(kind, StructType) else [(side, side, "")]
    seen: set[str] = {name.lower() for name in (*ROW_FIELDS, *FLAT_FIELDS)}
    for name, _, _ in columns:
        if name.lower() in seen:
            raise InvalidConfig(f"Two columns of the topic's view would be called {name}: rename a field of the key or of the value.")
        seen.add(name.lower())
    return columns


def octets(column: Column, kind: DataType) -> Column:
    """The size of a key or value: octets of text and binary, fixed widths of numbers, the sum over a STRUCT, JSON of nested collections."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import StructType

    name = kind.simpleString()
    if name in ("string", "binary"):
        return F.coalesce(F.octet_length(column), F.lit(0)).cast("bigint")
    if isinstance(kind, StructType):
        total = F.lit(0).cast("bigint")
        for field in kind.fields:
            total = total + octets(column.getField(field.name), field.dataType)
        return total
    width = FIXED_OCTETS.get(name, 16 if name.startswith("decimal") else None)
    if width is not None:
        return F.when(column.isNull(), F.lit(0)).otherwise(F.lit(width)).cast("bigint")
    return F.coalesce(F.octet_length(F.to_json(F.struct(column))), F.lit(0)).cast("bigint")


def header_octets(headers: Column) -> Column:
    """Octets of header names and values."""
    from pyspark.sql import functions as F

    def one(total: Column, header: Column) -> Column:
        return total + F.coalesce(F.octet_length(header["key"]), F.lit(0)) + F.coalesce(F.octet_length(header["value"]), F.lit(0))

    return F.when(headers.isNull() | (F.size(headers) == 0), F.lit(0).cast("bigint")).otherwise(
        F.aggregate(headers, F.lit(0).cast("bigint"), one)
    )


def first_problem(problems: Sequence[Column]) -> Column:
    """The first problem that is not NULL."""
    from pyspark.sql import functions as F

    return F.coalesce(*problems, F.lit(None).cast("string"))


def timestamp_problem(problem: Column, ms: Column) -> Column:
    """What is wrong with a timestamp in milliseconds: the problem it has already, or years that no log holds."""
    from pyspark.sql import functions as F

    far = ~ms.between(TIMESTAMP_MS_LEAST, TIMESTAMP_MS_MOST)
    text = F.coalesce(problem, F.when(far, F.concat(F.lit("timestamp is not in the years 1 to 9999: "), ms.cast("string"))))
    return F.concat(F.lit("INVALID_TIMESTAMP\t"), text)


def from_ms(ms: Column) -> Column:
    """Milliseconds since 1970 as a timestamp; NULL where `timestamp_problem` names one."""
    from pyspark.sql import functions as F

    return F.when(ms.between(TIMESTAMP_MS_LEAST, TIMESTAMP_MS_MOST), F.timestamp_millis(ms))
