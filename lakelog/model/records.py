"""Records as columns: the types a topic declares, the size of a record, what is wrong with one.

Everything here is a value or a Spark expression; nothing reads or writes.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakelog.errors import InvalidConfig
from lakelog.model.json_values import EPOCH
from lakelog.model.names import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column
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
# The TIMESTAMP that is an instant, whatever a session means by that word (`spark.sql.timestampType`).
LTZ = "timestamp_ltz"


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


def as_datetime(ms: int) -> datetime.datetime:
    """A time in milliseconds since 1970 as a datetime in UTC."""
    return EPOCH + datetime.timedelta(milliseconds=ms)


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


def declared_type(text: str, *, what: str) -> DataType:
    """The type that a topic declares for its key or value: ``BINARY``, any other type, or a list of fields (a STRUCT).

    Raises:
        InvalidConfig: the text is no type, or a type that cannot be that: keys are atomic or STRUCTs of those; VARCHAR and CHAR are STRING.
    """
    from pyspark.sql.types import StructType

    single = _parsed(f"`x` {text}")
    kind = single[0].dataType if single is not None and len(single) == 1 else _parsed(text)
    if kind is None or (isinstance(kind, StructType) and not kind.fields):
        raise InvalidConfig(
            f"{what}: {text!r} is no type. Write BINARY, STRING, another type, or a list of fields: order_id BIGINT, region STRING."
        )
    kind = nullable(kind)
    for inside in kinds_within(kind):
        _refuse_unusable(inside, kind, what)
    if isinstance(kind, StructType) and what == "key" and "key" in [name.lower() for name in kind.names]:
        raise InvalidConfig("key: a field cannot be called key: a table with a key column is taken as records.")
    return kind


def _parsed(ddl: str) -> StructType | None:
    from pyspark.errors import PySparkException
    from pyspark.sql.types import StructType

    try:
        found = StructType.fromDDL(ddl) if isinstance(ddl, str) else None
    except (PySparkException, ValueError):
        return None
    return found if isinstance(found, StructType) else None


# Types that Delta tables hold, that have an equality, and that mean the same in every input format.
ATOMIC = ("boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "decimal", "string", "binary", "date", "timestamp",
          "timestamp_ntz")  # fmt: skip
BEYOND_KEYS = ("struct", "array", "map", "variant")
NOT_IN_NAMES = " ,;{}()\n\t="


def _refuse_unusable(inside: DataType, whole: DataType, what: str) -> None:
    """Refuse a type within a declared one that a key or value cannot have, and names that its fields cannot have."""
    from pyspark.sql.types import StructType

    spelled = inside.simpleString()
    word = "string collate" if "collate" in spelled.split("<")[0] else spelled.split("<")[0].split("(")[0]
    shown = spelled if inside is whole else f"{spelled} in {whole.simpleString()}"
    if word in ("varchar", "char"):
        raise InvalidConfig(f"{what}: {shown[:200]} is not supported: its length would not be enforced everywhere. Use STRING.")
    if word not in ATOMIC and (what == "key" and word != "struct" or word not in BEYOND_KEYS):
        raise InvalidConfig(f"{what}: {shown[:200]} cannot be used: {word} has no usable equality or file format.")
    if isinstance(inside, StructType):
        folded = [name.lower() for name in inside.names]
        if len(set(folded)) < len(folded):
            raise InvalidConfig(f"{what}: field names repeat (case does not count): {', '.join(inside.names)[:300]}.")
        for name in inside.names:
            if not name or any(sign in name for sign in NOT_IN_NAMES):
                raise InvalidConfig(
                    f"{what}: the field name {name!r} cannot be used: Delta allows no blank, line break, tab or any of ,;{{}}()= in it."
                )


def kinds_within(kind: DataType) -> list[DataType]:
    """The type and all types within it."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(kind, StructType):
        return [kind, *[one for field in kind.fields for one in kinds_within(field.dataType)]]
    if isinstance(kind, ArrayType):
        return [kind, *kinds_within(kind.elementType)]
    if isinstance(kind, MapType):
        return [kind, *kinds_within(kind.keyType), *kinds_within(kind.valueType)]
    return [kind]


def ddl(kind: DataType) -> str:
    """The type as SQL reads it, whatever the names of its fields, and whatever the session means by TIMESTAMP."""
    from pyspark.sql.types import ArrayType, MapType, StructType, TimestampType

    if isinstance(kind, StructType):
        return f"struct<{', '.join(f'{quoted(field.name)}: {ddl(field.dataType)}' for field in kind.fields)}>"
    if isinstance(kind, ArrayType):
        return f"array<{ddl(kind.elementType)}>"
    if isinstance(kind, MapType):
        return f"map<{ddl(kind.keyType)}, {ddl(kind.valueType)}>"
    return LTZ if isinstance(kind, TimestampType) else kind.simpleString()


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
    columns: list[tuple[str, str, str]] = []
    for side, kind in (("key", key), ("value", value)):
        columns += [(field, side, field) for field in kind.names] if kind.typeName() == "struct" else [(side, side, "")]  # type: ignore[attr-defined]
    seen: set[str] = {name.lower() for name in (*ROW_FIELDS, *FLAT_FIELDS)}
    for name, _, _ in columns:
        if name.lower() in seen:
            raise InvalidConfig(f"Two columns of the topic's view would be called {name}: rename a field of the key or of the value.")
        seen.add(name.lower())
    return columns


# From so many fields of one type on, they are taken together as an array: Spark follows expressions recursively and rewrites them many times
# over, which takes minutes where each of two thousand fields has a few of its own.
MANY = 8


def octets(path: str, kind: DataType) -> str:
    """The size of a key or value, as SQL: octets of text and binary, fixed widths of numbers, the sum over a STRUCT, JSON of nested collections.

    Args:
        path: the column as SQL names it.
        kind: its type.
    """
    from pyspark.sql.types import StructType

    if isinstance(kind, StructType):
        return " + ".join(_octets_of_many(inside, paths) for inside, paths in _by_type(path, kind))
    name = kind.simpleString()
    if name in ("string", "binary"):
        return f"CAST(coalesce(octet_length({path}), 0) AS BIGINT)"
    width = FIXED_OCTETS.get(name, 16 if name.startswith("decimal") else None)
    if width is not None:
        return f"if({path} IS NULL, 0L, {width}L)"
    return f"CAST(coalesce(octet_length(to_json(struct({path}))), 0) AS BIGINT)"


def _by_type(path: str, kind: StructType) -> list[tuple[DataType, list[str]]]:
    """The fields of a STRUCT by their type: (type, the columns of that type as SQL names them)."""
    found: dict[str, tuple[DataType, list[str]]] = {}
    for field in kind.fields:
        found.setdefault(field.dataType.simpleString(), (field.dataType, []))[1].append(f"{path}.{quoted(field.name)}".lstrip("."))
    return list(found.values())


def _octets_of_many(kind: DataType, paths: Sequence[str]) -> str:
    if len(paths) <= MANY:
        return " + ".join(octets(path, kind) for path in paths)
    return f"aggregate(array({', '.join(paths)}), 0L, (sum, one) -> sum + {octets('one', kind)})"


def any_set(path: str, kind: DataType) -> str:
    """Whether a value is there, as SQL: for a STRUCT, whether any of its fields is; never NULL.

    ``path`` as for `octets`, empty for the columns of a frame.
    """
    from pyspark.sql.types import StructType

    if not isinstance(kind, StructType):
        return f"{path} IS NOT NULL"
    found = [
        any_set(one, inside) if isinstance(inside, StructType) else f"coalesce({', '.join(paths)}) IS NOT NULL"
        for inside, paths in _by_type(path, kind)
        for one in (paths if isinstance(inside, StructType) else paths[:1])
    ]
    return f"({' OR '.join(found or ['false'])})"


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
