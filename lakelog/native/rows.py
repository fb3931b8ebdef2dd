"""Rows of this process with the names that lakelog uses of a Spark DataFrame, over an Arrow table: what the reading verbs answer without Spark."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lakelog.arguments import check_whole
from lakelog.errors import InvalidRequest
from lakelog.formats.arrow import as_pandas
from lakelog.model.config import did_you_mean
from lakelog.model.kinds import Kind, struct
from lakelog.native.shapes import arrow_of

if TYPE_CHECKING:
    import pandas
    import pyarrow

ATOMIC = {
    "bool": "boolean", "int8": "byte", "int16": "short", "int32": "integer", "int64": "long", "float": "float", "double": "double",
    "string": "string", "large_string": "string", "string_view": "string", "binary": "binary", "large_binary": "binary",
    "binary_view": "binary", "date32[day]": "date", "null": "void",
}  # fmt: skip


# No answer has more rows; larger numbers Arrow and DataFusion do not take.
MOST = 2**62
# What whoever knows Spark looks for.
OF_FRAMES = ("select", "filter", "where", "show", "groupBy", "join", "withColumn", "drop", "distinct", "agg", "write", "sort", "first", "head",
             "take", "printSchema", "createOrReplaceTempView", "toDF", "union", "alias", "dropDuplicates")  # fmt: skip
# Gives the rows: in the order of these columns, or in none; at most so many.
Reader = Callable[[Sequence[str], int | None], "Iterator[pyarrow.RecordBatch]"]


@dataclass(frozen=True)
class Rows:
    """Rows that are read when they are asked for, each time anew: the types of their columns, and what reads them."""

    schema: Kind
    read: Reader
    ordered: tuple[str, ...] = ()
    most: int | None = None

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return self.schema.names

    def __repr__(self) -> str:
        return f"<Rows {', '.join(f'{field.name}: {field.dataType.simpleString()}' for field in self.schema.fields)}>"

    def __getattr__(self, name: str) -> Any:
        if name in OF_FRAMES:
            raise AttributeError(
                f"These rows are not a DataFrame of Spark's and have no {name}: ask in SQL, lake.sql(…, engine='duckdb'), or take toArrow(),"
                " toPandas(), collect(). Lake(session, root) gives DataFrames."
            )
        raise AttributeError(f"'Rows' object has no attribute {name!r}")

    def count(self) -> int:
        """How many rows there are; they are read."""
        return sum(batch.num_rows for batch in self._batches())

    def limit(self, number: int) -> Rows:
        """At most so many rows.

        Raises:
            InvalidRequest: it is no number, or below 0.
        """
        check_whole("limit", number, least=0, needed=True)
        return replace(self, most=min(number, MOST if self.most is None else self.most))

    def orderBy(self, *columns: str) -> Rows:
        """The rows in the order of columns, NULL first; where there is a `limit` already, the rows that it leaves.

        Raises:
            InvalidRequest: there is no such column, or its values have no order (STRUCT, MAP, ARRAY).
        """
        able = [field.name for field in self.schema.fields if not _is_nested(field.dataType)]
        for name in columns:
            if able.count(name) != 1:
                hint = "" if name in self.columns else did_you_mean(name, able)
                raise InvalidRequest(f"The rows cannot be ordered by {name}.{hint} Order by one or more of: {', '.join(able)}.")
        if self.most is None:
            return replace(self, ordered=columns)
        return Rows(self.schema, self._sorted, columns)

    def collect(self) -> list[Record]:
        """The rows as tuples whose values have names too; a STRUCT is one, a MAP a dict, an ARRAY that is a key of one a tuple."""
        return list(self)

    def toLocalIterator(self) -> Iterator[Record]:
        """The rows, one after the other."""
        return iter(self)

    def __iter__(self) -> Iterator[Record]:
        names = self.columns
        for batch in self._batches():
            columns = [_values(batch.column(index), field.dataType) for index, field in enumerate(self.schema.fields)]
            for values in zip(*columns, strict=True):
                yield Record(values, names)

    def toArrow(self) -> pyarrow.Table:
        """The rows as an Arrow table, in types that every reader of Arrow knows."""
        import pyarrow

        batches = list(self._batches())
        if not batches:
            return pyarrow.table({field.name: pyarrow.array([], arrow_of(field.dataType)) for field in self.schema.fields})
        return _plain(pyarrow.Table.from_batches(batches))

    def toPandas(self) -> pandas.DataFrame:
        """The rows as a pandas DataFrame, in the types of `Topic.to_pandas`."""
        return as_pandas(self.toArrow())

    def _batches(self) -> Iterator[pyarrow.RecordBatch]:
        return (batch for batch in self.read(self.ordered, self.most) if batch.num_rows)

    def _sorted(self, ordered: Sequence[str], most: int | None) -> Iterator[pyarrow.RecordBatch]:
        """A `Reader` of these rows, which are taken as they are first, and then put in order."""
        import pyarrow

        batches = list(self._batches())
        if batches:
            found = in_order(pyarrow.Table.from_batches(batches), ordered)
            yield from (found if most is None else found.slice(0, most)).to_batches(max_chunksize=10_000)


class Record(tuple):  # type: ignore[type-arg]
    """A row: a tuple whose values have names too."""

    names: Sequence[str]

    def __new__(cls, values: Sequence[Any], names: Sequence[str]) -> Record:  # noqa: D102
        made = super().__new__(cls, values)
        made.names = names
        return made

    def __getitem__(self, place: Any) -> Any:
        return super().__getitem__(self.names.index(place) if isinstance(place, str) else place)

    def __getattr__(self, name: str) -> Any:
        names = self.__dict__.get("names", ())
        if name not in names:
            raise AttributeError(name)
        return self[name]

    def __reduce__(self) -> tuple[Any, ...]:
        return Record, (tuple(self), list(self.names))

    def asDict(self) -> dict[str, Any]:
        """The row's values by name."""
        return dict(zip(self.names, self, strict=True))


def in_order(rows: pyarrow.Table, ordered: Sequence[str]) -> pyarrow.Table:
    """Rows in the order of columns as Spark has it: NULL first, NaN after every other number."""
    import pyarrow
    from pyarrow import compute

    if not ordered:
        return rows
    rows, keys = _plain(rows), []
    for column in (rows.column(name) for name in ordered):
        if not pyarrow.types.is_null(column.type):
            # Arrow puts NULL and NaN at the same end; a column of its own says which rows are NULL.
            keys += [compute.is_valid(column), column]
    if not keys:
        return rows
    names = [str(place) for place in range(len(keys))]
    return rows.take(compute.sort_indices(pyarrow.table(keys, names), sort_keys=[(name, "ascending") for name in names]))


def kind_of(arrow: pyarrow.DataType) -> Kind:
    """A type of Arrow in Spark's words."""
    from pyarrow import types

    if types.is_struct(arrow):
        return struct([(arrow.field(index).name, kind_of(arrow.field(index).type)) for index in range(arrow.num_fields)])
    if types.is_map(arrow):
        return Kind("map", keyType=kind_of(arrow.key_type), valueType=kind_of(arrow.item_type))
    if types.is_list(arrow) or types.is_large_list(arrow) or types.is_list_view(arrow) or types.is_fixed_size_list(arrow):
        return Kind("array", elementType=kind_of(arrow.value_type))
    if types.is_decimal(arrow):
        return Kind("decimal", f"{arrow.precision},{arrow.scale}")
    if types.is_timestamp(arrow):
        return Kind("timestamp" if arrow.tz else "timestamp_ntz")
    return Kind(ATOMIC.get(str(arrow), str(arrow)))


def _plain(rows: pyarrow.Table) -> pyarrow.Table:
    import pyarrow

    return rows.cast(pyarrow.schema([(field.name, plain_type(field.type)) for field in rows.schema]))


def plain_type(arrow: pyarrow.DataType) -> pyarrow.DataType:
    """A type without views, which not every reader of Arrow knows."""
    import pyarrow
    from pyarrow import types

    if types.is_struct(arrow):
        return pyarrow.struct([(arrow.field(index).name, plain_type(arrow.field(index).type)) for index in range(arrow.num_fields)])
    if types.is_map(arrow):
        return pyarrow.map_(plain_type(arrow.key_type), plain_type(arrow.item_type))
    if types.is_list(arrow) or types.is_large_list(arrow) or types.is_fixed_size_list(arrow):
        return pyarrow.list_(plain_type(arrow.value_type))
    return {"string_view": pyarrow.string(), "binary_view": pyarrow.binary()}.get(str(arrow), arrow)


EPOCH = datetime.datetime(1970, 1, 1)  # noqa: DTZ001


def _values(column: pyarrow.Array, kind: Kind) -> list[Any]:
    """A column's values as Spark's Python has them, but for a TIMESTAMP, which names its zone, UTC: Spark's is in this process' one, unnamed.

    Times are taken as numbers: Arrow's own way to Python's times imports pandas, which takes longer than all else; its casts import all that it
    computes, a twentieth of a second.
    """
    import pyarrow

    if pyarrow.types.is_timestamp(column.type) and column.type.unit == "us":
        column = column.view(pyarrow.int64())
    elif "timestamp" in kind.simpleString():
        from pyarrow.compute import CastOptions

        micros = CastOptions(_with_times(column.type, pyarrow.timestamp("us")), allow_time_truncate=True)
        column = column.cast(options=micros).cast(_with_times(column.type, pyarrow.int64()))
    elif not _is_nested(kind):
        return list(column.to_pylist())
    return [_value(value, kind) for value in column.to_pylist()]


def _with_times(arrow: pyarrow.DataType, time: pyarrow.DataType) -> pyarrow.DataType:
    """A type with another one for its times."""
    import pyarrow
    from pyarrow import types

    if types.is_struct(arrow):
        return pyarrow.struct([(arrow.field(index).name, _with_times(arrow.field(index).type, time)) for index in range(arrow.num_fields)])
    if types.is_map(arrow):
        return pyarrow.map_(_with_times(arrow.key_type, time), _with_times(arrow.item_type, time))
    if types.is_list(arrow) or types.is_large_list(arrow) or types.is_fixed_size_list(arrow):
        return pyarrow.list_(_with_times(arrow.value_type, time))
    return time if types.is_timestamp(arrow) else plain_type(arrow)


def _is_nested(kind: Kind) -> bool:
    return kind.word in ("struct", "map", "array")


def _value(value: Any, kind: Kind) -> Any:
    if value is None:
        return None
    if kind.word == "timestamp":
        return (EPOCH + datetime.timedelta(microseconds=value)).replace(tzinfo=datetime.timezone.utc)
    if kind.word == "timestamp_ntz":
        return EPOCH + datetime.timedelta(microseconds=value)
    if kind.word == "struct":
        return Record([_value(value[field.name], field.dataType) for field in kind.fields], kind.names)
    if kind.elementType is not None:
        return [_value(one, kind.elementType) for one in value]
    if kind.keyType is not None and kind.valueType is not None:
        return {_as_key(_value(key, kind.keyType)): _value(one, kind.valueType) for key, one in value}
    return value


def _as_key(value: Any) -> Any:
    """A value as the key of a dict: an ARRAY as a tuple, a MAP as one of its entries, also within a STRUCT."""
    if isinstance(value, dict):
        return tuple((key, _as_key(one)) for key, one in value.items())
    if isinstance(value, Record):
        return Record([_as_key(one) for one in value], value.names)
    return tuple(_as_key(one) for one in value) if isinstance(value, list) else value
