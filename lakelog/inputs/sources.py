"""What an append takes in, whatever its shape, as one kind of frame: the request (request.py)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakelog.delta import tables
from lakelog.delta.filesystem import is_file
from lakelog.errors import InvalidRequest
from lakelog.formats import arrow, csv, parquet, values
from lakelog.formats.csv import CsvOptions
from lakelog.formats.fitting import fitted, fitted_timestamp
from lakelog.formats.ndjson import from_lines, from_records
from lakelog.inputs.identity import is_hidden
from lakelog.inputs.plans import repeats
from lakelog.inputs.request import REST_OF_FILE, Request, Requesting
from lakelog.model.config import did_you_mean
from lakelog.model.names import local_path
from lakelog.model.records import (
    FLAT_FIELDS,
    HEADERS,
    KAFKA_FIELDS,
    RECORD_FIELDS,
    Types,
    any_set,
    first_problem,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

FORMATS = {"ndjson": "ndjson", "jsonl": "ndjson", "json": "ndjson", "csv": "csv", "parquet": "parquet"}
ORDER = ("src", "block", "row_order")
# Columns of `Topic.latest` that an append gives itself.
TOLD = ("_offset", "_version")
# Signs of Hadoop's patterns.
PATTERN = re.compile(r"([\[\]{}*?\\])")
# Columns put beside those of a frame or file, whose fields may have any name.
SRC, BLOCK, ROW_ORDER, LINE, CORRUPT, SET, REST, RAW = (
    f"__lakelog_{name}" for name in ("src", "block", "row_order", "line", "corrupt", "set", "rest", "raw")
)


@dataclass(frozen=True)
class FileOptions:
    """How files are to be read: their format, where their names do not tell it, and how CSV is written."""

    form: str | None = None
    csv: CsvOptions = CsvOptions()


def requested(spark: SparkSession, source: Any, how: FileOptions | None, types: Types, *, raw: bool = False) -> Request:
    """What an append was given (see `Topic.append`) as a request; ``raw``: with the input of records that cannot be read.

    Raises:
        InvalidRequest: it is none of these, or its columns, its files or their format do not fit.
        NotFound: what it reads is not there.
    """
    how = how or FileOptions()
    if isinstance(source, (str, os.PathLike)):
        source = [source]
    if isinstance(source, (list, tuple)) and source and all(isinstance(item, (str, os.PathLike)) for item in source):
        return _of_files(spark, [os.fspath(item) for item in source], how, types, raw)
    if how != FileOptions():
        raise InvalidRequest("format, delimiter, encoding and null are for files; the source is none.")
    if isinstance(source, Requesting):
        return source.request(types, raw=raw)
    if hasattr(source, "sparkSession"):
        # Spark Connect looks for what a frame reads when it is first asked about the frame.
        with tables.source_door():
            if source.isStreaming:
                raise InvalidRequest("append takes no streaming frame: append each batch of it, in foreachBatch. Nothing was written.")
            level = source.storageLevel
            return Request(from_frame(source, types, raw), repeatable=level.useMemory or level.useDisk or repeats(source))
    if arrow.is_arrow(source):
        return Request(from_frame(arrow.frame(spark, source), types, raw), repeatable=True, held=True)
    if isinstance(source, Iterable) and not isinstance(source, (bytes, bytearray)):
        _require_json(types)
        records = [source] if isinstance(source, Mapping) else source
        return Request(from_records(spark, records, types, raw=raw), repeatable=True, held=True)
    raise InvalidRequest(
        f"append takes no {type(source).__name__}, but a frame (Spark, pandas, polars, Arrow), a path or a list of paths, or records: a dict, or"
        " a list or any other iterable of dicts."
    )


def _of_files(spark: SparkSession, paths: Sequence[str], how: FileOptions, types: Types, raw: bool) -> Request:
    named = file_format(paths, how.form)
    if named != "csv" and how.csv != CsvOptions():
        raise InvalidRequest(f"delimiter, encoding and null say how CSV is written; these files are {named}.")
    exact = [readable(path) for path in paths]
    with tables.door(", ".join(paths[:3])), tables.source_door():
        if named == "csv":
            return Request(from_csv(spark, exact, types, how.csv, raw), numbered=True)
        if named == "parquet":
            rows, repeatable = from_parquet(spark, exact, types, raw)
            return Request(rows, repeatable)
        from pyspark.sql import functions as F

        _require_json(types)
        path, start = F.col("_metadata.file_path"), F.col("_metadata.file_block_start")
        lines = spark.read.text(exact).select(path.alias("src"), start.alias("block"), F.col("value").alias("text"))
        return Request(from_lines(lines, types, raw=raw), text_files=tuple(exact))


def _require_json(types: Types) -> None:
    values.require_names_of_text(types.key, "key")
    values.require_names_of_text(types.value, "value")


def file_format(paths: Sequence[str], stated: str | None) -> str:
    """``ndjson``, ``csv`` or ``parquet``: as stated, else by the files' names.

    Raises:
        InvalidRequest: a name that tells no format, or files of different formats.
    """
    if stated is not None:
        if not isinstance(stated, str) or stated not in FORMATS:
            raise InvalidRequest(f"There is no file format {stated!r}.{did_you_mean(str(stated), FORMATS)} Formats: ndjson, csv, parquet.")
        return FORMATS[stated]
    found = set()
    for path in paths:
        ending = path.rstrip("/").removesuffix(".gz").rsplit(".", 1)[-1].lower()
        if ending not in FORMATS:
            raise InvalidRequest(f"{path}: the name does not tell the format. Name it: format='ndjson', 'csv' or 'parquet'.")
        found.add(FORMATS[ending])
    if len(found) != 1:
        raise InvalidRequest(f"Files of one append have one format, these have {', '.join(sorted(found)) or 'none'}.")
    return found.pop()


def readable(path: str) -> str:
    """A path as Spark reads exactly this one, where there is a file or folder of that name; else it may be a pattern.

    Raises:
        InvalidRequest: a name that Spark takes for hidden: it would read nothing, and say nothing.
    """
    name = os.path.basename(path.rstrip("/"))
    if is_hidden(name) and name.strip("."):
        raise InvalidRequest(
            f"{path}: Spark passes over files whose names begin with _ or a dot, or end in ._COPYING_. Give it another name."
        )
    escaped = PATTERN.sub(r"\\\1", path)
    return escaped if escaped != path and (os.path.exists(local_path(path) or "") or is_file(path)) else path


def from_csv(spark: SparkSession, paths: Sequence[str], types: Types, how: CsvOptions, raw: bool = False) -> DataFrame:
    """CSV files as a request: of records or of flat columns, as a frame has them."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import StringType, StructField, StructType

    frame, names = csv.frame(spark, paths, how)
    schema = StructType([StructField(name, StringType()) for name in names])
    shown = frame.select(
        F.col("src").alias(SRC), F.lit(0).cast("bigint").alias(BLOCK), F.col("line").alias(LINE), F.col("problem").alias(CORRUPT),
        F.col("rest").alias(REST), F.col("raw").alias(RAW), *[F.col(f"c{index}").alias(name) for index, name in enumerate(names)],
    )  # fmt: skip
    return _request(shown, schema, types, text=True, nulls_stated=how.null is not None, raw=raw)


def from_parquet(spark: SparkSession, paths: Sequence[str], types: Types, raw: bool = False) -> tuple[DataFrame, bool]:
    """Parquet files as a request, and whether it is repeatable. Those with nanoseconds, which Spark does not read, are read by pyarrow.

    Raises:
        InvalidRequest: a column has different types in two files.
    """
    from pyspark.sql import functions as F

    frame = parquet.frame(spark, paths)
    if frame is None:
        return from_frame(arrow.parquet(spark, paths), types, raw), False
    place = [F.col("_metadata.file_path").alias(SRC), F.col("_metadata.file_block_start").alias(BLOCK)]
    return _request(frame.select(*place, *[F.col(_tick(name)) for name in frame.columns]), frame.schema, types, text=False, raw=raw), True


def from_frame(frame: DataFrame, types: Types, raw: bool = False) -> DataFrame:
    """A DataFrame of records (it has a ``key`` column) or of flat columns to be packed, as a request."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import StructType

    arrow.require_once(frame.columns)
    schema, added = frame.schema, [name for name in (SRC, CORRUPT) if name in frame.columns]
    place = [F.col(SRC) if SRC in added else F.lit(None).cast("string").alias(SRC), F.lit(0).cast("bigint").alias(BLOCK)]
    own = StructType([field for field in schema.fields if field.name not in added])
    shown = frame.select(*place, *[CORRUPT] * (CORRUPT in added), *[F.col(_tick(name)) for name in own.names])
    return _request(shown, own, types, text=False, raw=raw)


def _tick(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _require_known(names: Sequence[str], types: Types, *, flat: bool) -> None:
    """Refuse columns that are no part of a record, or none for the key.

    Raises:
        InvalidRequest: naming them, and those that are known.
    """
    from pyspark.sql.types import StructType

    known: tuple[str, ...] = (*RECORD_FIELDS, *KAFKA_FIELDS)
    if flat:
        keys = types.key.names if isinstance(types.key, StructType) else []
        values = types.value.names if isinstance(types.value, StructType) else ["value"]
        missing = [name for name in keys if name not in names] if keys else ["key"]
        if missing:
            near = [name for name in names if name.strip().lower() == missing[0].lower()]
            hint = f" The column {near[0]!r} must be called {missing[0]!r}." if near else ""
            raise InvalidRequest(
                f"The records have no column {', '.join(missing)}: every record of a topic has a key.{hint} Columns: {', '.join(names)}."
                " Nothing was written."
            )
        known = (*keys, *values, *FLAT_FIELDS)
    unknown = [name for name in names if name not in known]
    if unknown and all(name in TOLD for name in unknown):
        raise InvalidRequest(
            f"Columns that lakelog gives are no part of a record: leave out {', '.join(unknown)}. Nothing was written.", columns=unknown
        )
    if unknown:
        hint = did_you_mean(unknown[0], known)
        raise InvalidRequest(f"Unknown column {unknown[0]}.{hint} Known here: {', '.join(known)}.", columns=unknown)


def _request(frame: DataFrame, schema: StructType, types: Types, *, text: bool, nulls_stated: bool = True, raw: bool = False) -> DataFrame:
    """A frame with `SRC` and `BLOCK` in front of its own columns, checked against the topic and brought to the request's columns.

    Of CSV (``text``) with `LINE`, `CORRUPT`, `REST` and `RAW` too; ``nulls_stated``: the caller has said what means NULL, so it may be a delete.
    """
    from pyspark.sql import functions as F
    from pyspark.sql.types import StructType

    prefix = "" if "key" in schema.names else "_"
    _require_known(schema.names, types, flat=bool(prefix))
    problems: list[Column] = []

    def taken(name: str, kind: DataType | str) -> Column:
        if name not in schema.names:
            return F.lit(None).cast(kind)
        column, problem = fitted(F.col(_tick(name)), schema[name].dataType, kind, name, text=text)
        problems.extend([] if problem is None else [problem])
        return column

    def side(name: str, kind: DataType) -> Column:
        if not prefix or not isinstance(kind, StructType):
            return taken(name, kind)
        return F.struct(*[taken(field.name, field.dataType).alias(field.name) for field in kind.fields])

    key, value, headers = side("key", types.key), side("value", types.value), taken(f"{prefix}headers", HEADERS)
    flag = F.coalesce(taken(f"{prefix}tombstone", "boolean"), F.lit(False))
    part, expected = taken(f"{prefix}partition", "int"), taken(f"{prefix}expected_offset", "bigint")
    timed = f"{prefix}timestamp"
    stamp, stamp_problem = fitted_timestamp(
        F.col(_tick(timed)), schema[timed].dataType if timed in schema.names else None, timed, text=text
    )
    if CORRUPT in frame.columns:
        problems.insert(0, F.col(CORRUPT))
    if not nulls_stated and not isinstance(types.value, StructType):
        problems.append(_guessed_delete(value, flag, [name for name in ("value", f"{prefix}tombstone") if name in schema.names]))
    given = StructType([field for field in schema.fields if isinstance(types.value, StructType) and field.name in types.value.names])
    numbered = frame.withColumn(ROW_ORDER, F.monotonically_increasing_id())
    named = F.concat(
        F.when(F.col(REST), f"{REST_OF_FILE}\t").otherwise("INVALID_RECORD\t") if text else F.lit("INVALID_RECORD\t"),
        first_problem(problems),
    )
    said, kept = F.coalesce(named, stamp_problem), F.lit(None).cast("string")
    if raw:
        as_json = F.to_json(F.struct(*[F.col(_tick(name)) for name in schema.names]))
        kept = F.when(said.isNotNull(), F.coalesce(F.col(RAW), as_json) if text else as_json)
    request = numbered.select(
        F.col(SRC).alias("src"), F.col(BLOCK).alias("block"), F.col(LINE if text else ROW_ORDER).alias("line"), F.col(ROW_ORDER).alias("row_order"),
        part.alias("partition"), key.alias("key"), value.alias("value"), headers.alias("headers"),
        stamp.alias("timestamp"), flag.alias("tombstone"), expected.alias("expected_offset"),
        said.alias("problem"), kept.alias("raw"),
        F.expr(any_set("", given)).alias(SET),
    )  # fmt: skip
    if not prefix or not isinstance(types.value, StructType):
        return request.drop(SET)
    # A delete of flat columns whose value's fields are all NULL carries no value. The condition is always there, or Spark would put the whole
    # STRUCT in the place of each of its fields where they are looked at: thousands of times thousands.
    return request.withColumn("value", F.when((F.col("row_order") >= 0) & (~F.col("tombstone") | F.col(SET)), F.col("value"))).drop(SET)


def _guessed_delete(value: Column, flag: Column, columns: list[str]) -> Column:
    """The problem of a CSV record that has no value and does not say that it is a delete."""
    from pyspark.sql import functions as F

    if not columns:
        raise InvalidRequest("The file has neither a column value nor a column that flags tombstones: every record would be a delete.")
    says = (
        'the value is empty: a delete is not guessed. Quote an empty text (""), flag deletes in a column tombstone,'
        " or say what means NULL: null=''"
    )
    return F.when(value.isNull() & ~flag, F.lit(says))
