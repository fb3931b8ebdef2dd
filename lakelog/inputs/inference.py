"""The types of a topic taken from data that it is to hold: a file, a folder of them, or a frame.

Frames and Parquet files say their types. CSV and NDJSON are read as a whole: a column gets the narrowest of BIGINT, DECIMAL, DOUBLE, BOOLEAN,
DATE, TIMESTAMP that holds each of its texts and gives them back as they were (``007`` is STRING; Python's ``True`` is BOOLEAN), else STRING;
one without a value is STRING.
"""

from __future__ import annotations

import itertools
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from lakelog.delta import frames, tables
from lakelog.errors import InvalidRequest
from lakelog.formats import arrow, csv, parquet
from lakelog.formats.csv import CsvOptions
from lakelog.formats.ndjson import FORM
from lakelog.inputs.sources import FileOptions, file_format, readable
from lakelog.model.config import did_you_mean
from lakelog.model.names import quoted, shown
from lakelog.model.records import FLAT_FIELDS, KAFKA_FIELDS, LTZ, RECORD_FIELDS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

# What a text must look like to be taken for a number or a time; numbers as JSON writes them, so that leading zeros and plus signs stay text.
WHOLE, FRACTION = r"^-?(0|[1-9]\d*)$", r"^-?(0|[1-9]\d*)(\.\d+)?$"
FLOATING = r"^-?(0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?$"
DAY = r"^\d{4}-\d{2}-\d{2}$"
MOMENT = r"^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?(Z|[-+]\d{2}:?\d{2})?$"


def types_like(
    spark: SparkSession,
    source: Any,
    key_columns: Sequence[str] = (),
    *,
    format: str | None = None,
    delimiter: str = ",",
    encoding: str = "utf-8",
) -> dict[str, str]:
    """The ``key`` and ``value`` of a topic that can hold a source's records, as `Lake.create_topic` takes them. Nothing is created.

    Args:
        spark: the session.
        source: a Spark DataFrame, a frame of pandas or polars, an Arrow table, a path or a list of paths (NDJSON, CSV, Parquet).
        key_columns: the columns that become the key's fields; all others become the value's. None for records (a column or field ``key``).
        format: of files whose names do not tell it: ``ndjson``, ``csv`` or ``parquet``.
        delimiter: of CSV.
        encoding: of CSV, as Python names it.

    Gives: the types of frames and Parquet files; those of CSV and NDJSON as this module says.

    Raises:
        InvalidRequest: the source is none of these, is empty or cannot be read, or has no such columns.

    Cost: CSV and NDJSON are read as a whole, in one or two Spark jobs; no data of frames and Parquet files is read.
    """
    key_columns = [key_columns] if isinstance(key_columns, str) else list(key_columns)
    schema = _schema(spark, source, FileOptions(format, CsvOptions(delimiter, encoding)))
    moment = _moment(spark)
    if "key" in schema.names:
        if key_columns:
            raise InvalidRequest("The source has a column key: its records have their key already. Leave out key_columns.")
        _require_known(schema.names, (*RECORD_FIELDS, *KAFKA_FIELDS))
        value = _declared(schema["value"].dataType, moment) if "value" in schema.names else "BINARY"
        return {"key": _declared(schema["key"].dataType, moment), "value": value}
    if not key_columns:
        raise InvalidRequest(f"Name the columns that are the key (key_columns=[…]). Columns: {', '.join(schema.names)}.")
    missing = [name for name in key_columns if name not in schema.names]
    if missing:
        hint = did_you_mean(missing[0], schema.names)
        raise InvalidRequest(f"The source has no column {missing[0]}.{hint} Columns: {', '.join(schema.names)}.", column=missing[0])
    fields = [field for field in schema.fields if field.name not in (*key_columns, *FLAT_FIELDS)]
    if not fields:
        raise InvalidRequest("All columns are the key's: a topic has a value too.")
    return {"key": _fields([schema[name] for name in key_columns], moment), "value": _fields(fields, moment)}


def _require_known(names: Sequence[str], known: Sequence[str]) -> None:
    for name in names:
        if name not in known:
            raise InvalidRequest(
                f"Unknown column {name} beside key.{did_you_mean(name, known)} Known here: {', '.join(known)}.", column=name
            )


def _moment(spark: SparkSession) -> str:
    """What this session calls the type of an instant: TIMESTAMP, where that word is not TIMESTAMP_NTZ to it (`spark.sql.timestampType`)."""
    kind = frames.declared(spark, "TIMESTAMP", what="value")
    return "TIMESTAMP" if kind.simpleString() == "timestamp" else LTZ.upper()


def _fields(fields: Sequence[Any], moment: str) -> str:
    return ", ".join(f"{_name(field.name)} {_declared(field.dataType, moment)}" for field in fields)


def _name(name: str) -> str:
    return name if re.fullmatch(r"[a-z_][a-z0-9_]*", name) else quoted(name)


def _declared(kind: DataType, moment: str) -> str:
    """A type as its owner would declare it; what has no type is STRING, a time without a zone one in UTC (``moment``: the word for an instant)."""
    from pyspark.sql.types import ArrayType, MapType, NullType, StructType, TimestampNTZType, TimestampType

    if isinstance(kind, StructType):
        return f"STRUCT<{', '.join(f'{_name(field.name)}: {_declared(field.dataType, moment)}' for field in kind.fields)}>"
    if isinstance(kind, ArrayType):
        return f"ARRAY<{_declared(kind.elementType, moment)}>"
    if isinstance(kind, MapType):
        return f"MAP<{_declared(kind.keyType, moment)}, {_declared(kind.valueType, moment)}>"
    if isinstance(kind, (TimestampType, TimestampNTZType)):
        return moment
    return "STRING" if isinstance(kind, NullType) else kind.simpleString().upper()


def _schema(spark: SparkSession, source: Any, how: FileOptions) -> StructType:
    if isinstance(source, (str, os.PathLike)):
        source = [source]
    if isinstance(source, (list, tuple)) and source and all(isinstance(item, (str, os.PathLike)) for item in source):
        return _of_files(spark, [os.fspath(item) for item in source], how)
    if hasattr(source, "sparkSession"):
        return _own(source)
    if arrow.is_arrow(source):
        return _own(arrow.frame(spark, source))
    raise InvalidRequest(f"like takes a file or a frame (Spark, pandas, polars, Arrow), not {type(source).__name__}.")


def _own(frame: DataFrame) -> StructType:
    from pyspark.sql.types import StructType

    return StructType([field for field in frame.schema.fields if field.name not in (arrow.SRC, arrow.PROBLEM)])


def _of_files(spark: SparkSession, paths: Sequence[str], how: FileOptions) -> StructType:
    from pyspark.errors import AnalysisException

    form, exact = file_format(paths, how.form), [readable(path) for path in paths]
    with tables.door(", ".join(paths[:3])), tables.source_door(), frames.as_active(spark):
        if form == "parquet":
            try:
                return spark.read.parquet(*exact).schema
            except AnalysisException as error:
                refused = parquet.refusal(error, exact)
                if refused is not None:
                    raise refused from error
                if "PARQUET_TYPE_ILLEGAL" not in str(error):
                    raise
                return _own(arrow.parquet(spark, exact))
        return _of_csv(spark, exact, how) if form == "csv" else _of_ndjson(spark, exact)


def _of_csv(spark: SparkSession, paths: Sequence[str], how: FileOptions) -> StructType:
    from pyspark.sql import functions as F
    from pyspark.sql.types import StructType

    frame, names = csv.frame(spark, paths, how.csv)
    texts = {name: F.when(F.col(f"c{index}") != "", F.col(f"c{index}")) for index, name in enumerate(names)}
    problem = F.min(
        F.when(F.col("problem").isNotNull(), F.concat("src", F.lit(", line "), F.col("line").cast("string"), F.lit(": "), "problem"))
    )
    found = frame.agg(problem.alias("problem"), *_facts(texts.values())).collect()[0]
    if found["problem"] is not None:
        raise InvalidRequest(f"{shown(found['problem'])}.")
    kinds = [_narrowest(found, index).replace("timestamp", LTZ) for index in range(len(names))]
    return cast(StructType, StructType.fromDDL(", ".join(f"{quoted(name)} {kind}" for name, kind in zip(names, kinds, strict=True))))


def _facts(texts: Any) -> Iterator[Column]:
    """What has to be known of columns of text to type them, an aggregate column of counts for each: see `_narrowest`."""
    from pyspark.sql import functions as F

    for index, text in enumerate(texts):
        point = F.instr(text, ".")
        fraction = F.when(point > 0, F.length(text) - point).otherwise(0)
        digits = F.length(F.regexp_replace(F.split_part(text, F.lit("."), F.lit(1)), "-", ""))
        yield F.struct(
            F.count(text).alias("texts"),
            F.count(F.when(text.rlike(WHOLE), text.try_cast("bigint"))).alias("bigint"),
            F.count(F.when(text.rlike(FRACTION), 1)).alias("decimal"),
            F.max(digits).alias("digits"), F.max(fraction).alias("scale"),
            F.count(F.when(text.rlike(FLOATING), text.try_cast("double"))).alias("double"),
            F.count(F.when(text.isin("true", "false", "True", "False"), 1)).alias("boolean"),
            F.count(F.when(text.rlike(DAY), text.try_cast("date"))).alias("date"),
            F.count(F.when(text.rlike(MOMENT), text.try_cast("timestamp"))).alias("timestamp"),
        ).alias(f"f{index}")  # fmt: skip


def _narrowest(found: Any, index: int) -> str:
    """The narrowest type that holds all texts of a column."""
    facts = found[f"f{index}"]
    for kind in ("bigint", "decimal", "double", "boolean", "date", "timestamp"):
        if facts["texts"] and facts[kind] == facts["texts"]:
            if kind != "decimal":
                return kind
            if facts["digits"] + facts["scale"] <= 38:
                return f"decimal({facts['digits'] + facts['scale']},{facts['scale']})"
    return "string"


def _of_ndjson(spark: SparkSession, paths: Sequence[str]) -> StructType:
    """The schema that Spark sees in the lines, with fields in the order of the first lines and texts that are all dates or times typed so."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import StringType, StructType

    text = spark.read.text(list(paths)).filter(F.trim("value") != "")
    lines = text.select(F.try_parse_json("value").alias("json"), F.col("value").alias("text"), F.col("_metadata.file_path").alias("src"))
    broken = F.min(F.when(F.col("json").isNull(), F.concat("src", F.lit(": "), F.substring("text", 1, 60))))
    found = lines.agg(broken.alias("broken"), F.schema_of_variant_agg("json").alias("seen")).collect()[0]
    if found["broken"] is not None:
        raise InvalidRequest(f"{shown(found['broken'])} is not a line of JSON.")
    if not str(found["seen"]).startswith("OBJECT<"):
        raise InvalidRequest(f"{shown(paths[0])}: NDJSON is a JSON object a line; here is {found['seen']}.")
    seen = str(found["seen"]).replace("OBJECT<", "STRUCT<")
    schema = cast(StructType, cast(StructType, StructType.fromDDL(f"x {seen}"))["x"].dataType)
    if "key" not in schema.names:
        raise InvalidRequest(
            f"{shown(paths[0])}: a record in NDJSON has a field key, with the key in it. {FORM} Fields: {', '.join(schema.names)}."
        )
    schema = StructType([field for field in schema.fields if field.name in ("key", "value")])
    schema = _in_order(schema, [json.loads(row["text"]) for row in lines.limit(100).collect()])
    leaves = [path for path, kind in _leaves(schema, ()) if isinstance(kind, StringType)]
    typed: dict[tuple[str, ...], Any] = {}
    if leaves:
        texts = [F.try_variant_get("json", "$" + "".join(f"[{json.dumps(name)}]" for name in path), "string") for path in leaves]
        facts = lines.agg(*_facts(texts)).collect()[0]
        typed = {path: kind for index, path in enumerate(leaves) if (kind := _narrowest(facts, index)) in ("date", "timestamp")}
    return _typed(schema, (), typed)


def _leaves(schema: StructType, above: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], DataType]]:
    """The fields that are no STRUCTs, with their names from the top."""
    from pyspark.sql.types import StructType

    for field in schema.fields:
        path = (*above, field.name)
        if isinstance(field.dataType, StructType):
            yield from _leaves(field.dataType, path)
        else:
            yield path, field.dataType


def _in_order(schema: StructType, examples: Sequence[Any]) -> StructType:
    """The schema with its fields in the order in which examples name them first."""
    from pyspark.sql.types import StructField, StructType

    objects = [one for one in examples if isinstance(one, Mapping)]
    order = list(dict.fromkeys(itertools.chain.from_iterable(objects)))
    fields = []
    for field in sorted(schema.fields, key=lambda field: order.index(field.name) if field.name in order else len(order)):
        kind = field.dataType
        if isinstance(kind, StructType):
            kind = _in_order(kind, [one.get(field.name) for one in objects])
        fields.append(StructField(field.name, kind))
    return StructType(fields)


def _typed(schema: StructType, above: tuple[str, ...], typed: Mapping[tuple[str, ...], str]) -> StructType:
    """The schema with texts that are dates or times typed so, and octets written as ``{"hex": …}`` as BINARY."""
    from pyspark.sql.types import BinaryType, DateType, StructField, StructType, TimestampType

    fields = []
    for field in schema.fields:
        kind, path = field.dataType, (*above, field.name)
        if isinstance(kind, StructType):
            kind = BinaryType() if kind.simpleString() == "struct<hex:string>" else _typed(kind, path, typed)
        elif path in typed:
            kind = DateType() if typed[path] == "date" else TimestampType()
        fields.append(StructField(field.name, kind))
    return StructType(fields)
