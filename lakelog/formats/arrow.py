"""What is Arrow or can be: frames of pandas and polars, Arrow tables and streams, and Parquet files that Spark does not read (nanoseconds).

Times of nanoseconds become microseconds where nothing is lost; a row of which something would be is named in the column `PROBLEM`.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from lakelog.errors import InvalidRequest, NotReady
from lakelog.formats.files import read_by
from lakelog.formats.parquet import different

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow
    from pyspark.sql import DataFrame, SparkSession

SRC, PROBLEM = "__lakelog_src", "__lakelog_corrupt"


def is_arrow(source: Any) -> bool:
    """Whether something holds columns that Arrow can take over: pandas, polars, pyarrow, DuckDB's relations, …."""
    return any(hasattr(source, name) for name in ("__arrow_c_stream__", "__arrow_c_array__")) or _is_lazy(source)


def _is_lazy(source: Any) -> bool:
    return type(source).__module__.startswith("polars") and type(source).__name__ == "LazyFrame"


def frame(spark: SparkSession, source: Any) -> DataFrame:
    """A table that this process holds as a frame, with `PROBLEM` behind its own columns.

    Raises:
        InvalidRequest: a column is of a type that no topic has.
    """
    import pyarrow

    table, problems = _table(source)
    schema = readable(table.schema)
    parts = [normalized(batch, schema) for batch in table.to_batches()]
    whole = pyarrow.Table.from_batches(parts, pyarrow.schema([*schema, pyarrow.field(PROBLEM, pyarrow.string())]))
    if any(problems):
        known = whole.column(PROBLEM).to_pylist()
        merged = [one or other for one, other in zip(known, problems, strict=True)]
        whole = whole.set_column(len(schema), PROBLEM, pyarrow.array(merged, pyarrow.string()))
    return spark.createDataFrame(whole, schema=ddl(whole.schema))


def _table(source: Any) -> tuple[pyarrow.Table, Sequence[str | None]]:
    """A source as an Arrow table, and what is wrong with its rows (empty when nothing is)."""
    import pyarrow

    try:
        if type(source).__module__.startswith("pandas") and hasattr(source, "columns"):
            return _from_pandas(source)
        if hasattr(source, "__arrow_c_array__") and not hasattr(source, "__arrow_c_stream__"):
            return pyarrow.Table.from_batches([pyarrow.record_batch(source)]), ()
        return pyarrow.table(source.collect() if _is_lazy(source) else source), ()
    except (pyarrow.ArrowException, TypeError, ValueError) as error:
        raise InvalidRequest(f"The frame cannot be taken over: {str(error).splitlines()[0][:300]}.") from error


def as_polars(table: pyarrow.Table) -> polars.DataFrame:
    """A table as a polars DataFrame.

    Raises:
        NotReady: polars is not installed.
    """
    try:
        import polars
    except ImportError as error:
        raise NotReady("polars is not installed: pip install polars.") from error
    return polars.DataFrame(table)


def as_pandas(table: pyarrow.Table) -> pandas.DataFrame:
    """A table as a pandas DataFrame: integers and booleans in pandas' types that know NA (``Int64``, ``boolean``), NULL or not, so that a column
    has the same type whatever it holds, and none is rounded to a float; times with their zone, decimals as `Decimal`."""
    import pandas
    import pyarrow

    nullable = {getattr(pyarrow, f"int{bits}")(): getattr(pandas, f"Int{bits}Dtype")() for bits in (8, 16, 32, 64)}
    return table.to_pandas(types_mapper={**nullable, pyarrow.bool_(): pandas.BooleanDtype()}.get)


def _from_pandas(source: Any) -> tuple[pyarrow.Table, Sequence[str | None]]:
    """A pandas DataFrame, with an index that has a name. NaN stays NaN in columns of floats; elsewhere it is NULL, as NA and NaT are, but a delete
    is not guessed from them."""
    import pyarrow

    if any(name is not None for name in source.index.names):
        source = source.reset_index()
    arrays, problems = [], []
    for place in range(source.shape[1]):
        column = source.iloc[:, place]
        floats = getattr(column.dtype, "kind", "") == "f" and type(column.dtype).__module__.startswith("numpy")
        arrays.append(pyarrow.array(column.to_numpy(), from_pandas=False) if floats else pyarrow.Array.from_pandas(column))
        if source.columns[place] == "value" and not floats:
            problems = _guessed_deletes(source, column)
    return pyarrow.Table.from_arrays(arrays, [str(name) for name in source.columns]), problems


def _guessed_deletes(source: Any, column: Any) -> list[str | None]:
    """By row what is missing in the column ``value`` of a pandas frame otherwise than by None, and not flagged as a delete."""
    import pandas

    flag = next((source[name] for name in ("tombstone", "_tombstone") if name in source.columns), None)
    flagged = [False] * len(column) if flag is None else [one is True or str(one) == "True" for one in flag]
    missing = {pandas.NA: "NA", pandas.NaT: "NaT"}
    found: list[str | None] = []
    for value, lost, said in zip(column, column.isna(), flagged, strict=True):
        guessed = lost and value is not None and not said
        name = next((name for sign, name in missing.items() if value is sign), "NaN")
        found.append(f"value is {name}: a delete is not guessed; a value of None, or a tombstone flag, says it" if guessed else None)
    return found


def readable(schema: pyarrow.Schema) -> pyarrow.Schema:
    """The schema in types that Spark knows.

    Raises:
        InvalidRequest: naming a column that has no such type, or two of one name.
    """
    import pyarrow

    require_once(schema.names)
    return pyarrow.schema([pyarrow.field(field.name, _readable(field.type, field.name)) for field in schema])


def require_once(names: Sequence[str]) -> None:
    """Refuse columns of one name, or of names that differ in case alone: which of them is meant is not guessed.

    Raises:
        InvalidRequest: naming them.
    """
    seen: dict[str, str] = {}
    for name in names:
        if name.lower() in seen:
            raise InvalidRequest(
                f"Two columns have one name: {seen[name.lower()]} and {name}. Rename or drop one of them. Nothing was written.",
                columns=[name],
            )
        seen[name.lower()] = name


def _readable(kind: Any, where: str) -> Any:
    import pyarrow
    from pyarrow import types as are

    wider = {"uint8": "int16", "uint16": "int32", "uint32": "int64", "halffloat": "float32", "date64[ms]": "date32"}
    if str(kind) in wider:
        return getattr(pyarrow, wider[str(kind)])()
    if are.is_uint64(kind):
        return pyarrow.decimal128(20, 0)
    if are.is_dictionary(kind):
        return _readable(kind.value_type, where)
    if are.is_string(kind) or are.is_large_string(kind) or str(kind) == "string_view":
        return pyarrow.string()
    if are.is_binary(kind) or are.is_large_binary(kind) or are.is_fixed_size_binary(kind) or str(kind) == "binary_view":
        return pyarrow.binary()
    if are.is_decimal(kind) and kind.precision <= 38 and 0 <= kind.scale <= kind.precision:
        return pyarrow.decimal128(kind.precision, kind.scale)
    if are.is_timestamp(kind):
        return pyarrow.timestamp("us", "UTC" if kind.tz else None)
    if are.is_struct(kind):
        return pyarrow.struct([pyarrow.field(field.name, _readable(field.type, f"{where}.{field.name}")) for field in kind])
    if are.is_map(kind):
        return pyarrow.map_(_readable(kind.key_type, where), _readable(kind.item_type, where))
    if are.is_list(kind) or are.is_large_list(kind) or are.is_fixed_size_list(kind) or "list_view" in str(kind):
        return pyarrow.list_(_readable(kind.value_type, f"{where}[]"))
    if are.is_boolean(kind) or are.is_integer(kind) or are.is_floating(kind) or are.is_date(kind) or are.is_null(kind):
        return kind
    raise InvalidRequest(f"Column {where} is {kind}, which no topic has. Cast it before the append.", column=where)


def ddl(schema: pyarrow.Schema) -> str:
    """A readable schema as Spark's DDL."""
    return ", ".join(f"{_quoted(field.name)} {_sql(field.type)}" for field in schema)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _sql(kind: Any) -> str:
    from pyarrow import types as are

    names = {"bool": "BOOLEAN", "int8": "TINYINT", "int16": "SMALLINT", "int32": "INT", "int64": "BIGINT", "float": "FLOAT", "double": "DOUBLE",
             "string": "STRING", "binary": "BINARY", "date32[day]": "DATE", "null": "VOID"}  # fmt: skip
    if are.is_decimal(kind):
        return f"DECIMAL({kind.precision},{kind.scale})"
    if are.is_timestamp(kind):
        return "TIMESTAMP_LTZ" if kind.tz else "TIMESTAMP_NTZ"
    if are.is_struct(kind):
        return f"STRUCT<{', '.join(f'{_quoted(field.name)}: {_sql(field.type)}' for field in kind)}>"
    if are.is_map(kind):
        return f"MAP<{_sql(kind.key_type)}, {_sql(kind.item_type)}>"
    return f"ARRAY<{_sql(kind.value_type)}>" if are.is_list(kind) else names[str(kind)]


# ---- here, and within Spark's tasks ----


def normalized(batch: pyarrow.RecordBatch, schema: pyarrow.Schema) -> pyarrow.RecordBatch:
    """A batch in the types of a readable schema, with `PROBLEM`: what of a row those types cannot hold. A column that it lacks is NULL."""
    import pyarrow
    from pyarrow import compute

    problems: list[str | None] = [None] * batch.num_rows
    arrays = []
    for field in schema:
        place = batch.schema.get_field_index(field.name)
        if place < 0:
            arrays.append(pyarrow.nulls(batch.num_rows, field.type))
            continue
        column = batch.column(place)
        if pyarrow.types.is_timestamp(column.type) and column.type.unit == "ns":
            whole = compute.multiply(compute.divide(column.cast(pyarrow.int64()), 1000), 1000)
            for row in compute.indices_nonzero(compute.not_equal(column.cast(pyarrow.int64()), whole)).to_pylist():
                problems[row] = problems[row] or f"{field.name} has nanoseconds, a timestamp has microseconds: {column[row]}"
            column = whole.cast(column.type)
        try:
            arrays.append(column.cast(field.type))
        except pyarrow.ArrowException as error:
            problems = [problem or f"{field.name}: {error}" for problem in problems]
            arrays.append(pyarrow.nulls(batch.num_rows, field.type))
    return pyarrow.RecordBatch.from_arrays([*arrays, pyarrow.array(problems, pyarrow.string())], [*schema.names, PROBLEM])


# ---- Parquet ----


def parquet(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """Parquet files, read by pyarrow, as a frame: `SRC`, their columns, `PROBLEM`. A column that only some files have is NULL in the others.

    Raises:
        InvalidRequest: a column is of a type that no topic has, or has different types in two files.

    Cost: two small Spark jobs here, one of which reads the footer of each file (a file elsewhere than on this machine's disk is fetched for
    that); the files are read when the frame is evaluated, each by one task.
    """
    import pyarrow

    found = [bytes(row["schema"]) for row in read_by(spark, paths, schema_of, "schema BINARY").collect()]
    schema = united([pyarrow.ipc.read_schema(pyarrow.py_buffer(one)) for one in found])
    read = functools.partial(parquet_batches, schema=schema, src=SRC)
    whole = pyarrow.schema([pyarrow.field(SRC, pyarrow.string()), *schema, pyarrow.field(PROBLEM, pyarrow.string())])
    return read_by(spark, paths, read, ddl(whole))


def united(schemas: Sequence[pyarrow.Schema]) -> pyarrow.Schema:
    """The columns of several files, in types that Spark knows; one without a value in a file (Arrow's null) has its type from the others.

    Raises:
        InvalidRequest: a column is of a type that no topic has, or has different types in two files.
    """
    import pyarrow

    found: dict[str, Any] = {}
    for field in (field for schema in schemas for field in readable(schema)):
        known = found.setdefault(field.name, field.type)
        if pyarrow.types.is_null(known):
            found[field.name] = field.type
        elif known != field.type and not pyarrow.types.is_null(field.type):
            raise different(f"column {field.name}: {_sql(known)} and {_sql(field.type)}")
    return readable(pyarrow.schema(found.items()))


def schema_of(_: str, data: Any) -> Iterator[pyarrow.RecordBatch]:
    """A Parquet file's schema, as Arrow writes it."""
    import pyarrow
    from pyarrow import parquet as files

    yield pyarrow.RecordBatch.from_arrays([pyarrow.array([files.read_schema(data).serialize().to_pybytes()], pyarrow.binary())], ["schema"])


def parquet_batches(uri: str, data: Any, *, schema: pyarrow.Schema, src: str) -> Iterator[pyarrow.RecordBatch]:
    """The rows of a Parquet file in the types of `united`."""
    import pyarrow
    from pyarrow import parquet as files

    for batch in files.ParquetFile(data).iter_batches(batch_size=20_000):
        made = normalized(batch, schema)
        yield pyarrow.RecordBatch.from_arrays([pyarrow.array([uri] * batch.num_rows), *made.columns], [src, *made.schema.names])
