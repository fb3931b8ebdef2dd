"""Frames that belong to no table: a few rows of the driver's, sums, and what is computed once and kept."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterator, Sequence, Set
from typing import TYPE_CHECKING, Any

from lakelog.delta.location import over_connect
from lakelog.model.records import declared_type, kinds_within

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession, WindowSpec
    from pyspark.sql.types import DataType

# Over Spark Connect the plan of a frame that is kept tells the server, when it is collected, that it is no longer needed, and waits for the
# answer. Collected as part of a cycle, while gRPC starts a thread and holds its lock, it would wait for ever (seen with pyspark 4.1.3). So the
# last plans stay until they go one by one, from here; what else referred to them has been collected by then.
_remembered: deque[object] = deque(maxlen=32)
# Spark takes no larger number of rows.
MOST = 2**31 - 1


def small_frame(spark: SparkSession, ddl: str, rows: Sequence[tuple[Any, ...]]) -> DataFrame:
    """A few rows of the driver's as a frame (a local relation: no Spark job and no Python worker, which a list of tuples would start).

    Args:
        spark: the session.
        ddl: ``name TYPE, …`` of INT, BIGINT, STRING, BOOLEAN and TIMESTAMP.
        rows: the values, in the order of the columns.
    """
    import pyarrow

    kinds = {
        "INT": pyarrow.int32(),
        "BIGINT": pyarrow.int64(),
        "STRING": pyarrow.string(),
        "BOOLEAN": pyarrow.bool_(),
        "TIMESTAMP": pyarrow.timestamp("us", "UTC"),
    }
    columns = [column.strip().rsplit(" ", 1) for column in ddl.split(",")]
    schema = pyarrow.schema([(name, kinds[kind]) for name, kind in columns])
    table = pyarrow.table([[row[index] for row in rows] for index in range(len(schema))], schema=schema)
    # Spark Connect asks for the schema of an empty table, although Arrow has it. What TIMESTAMP means is a setting of the session.
    return spark.createDataFrame(table) if rows else spark.createDataFrame(table, schema=ddl.replace("TIMESTAMP", "TIMESTAMP_LTZ"))


def at_most(rows: DataFrame, number: int) -> DataFrame:
    """At most so many rows; of a number that Spark does not take, as many as it does."""
    return rows.limit(min(number, MOST))


def whole(*order: Column | str) -> WindowSpec:
    """The window of all rows, in an order: one partition by its name, for Spark Connect warns its user of a window without. Cost: one task for all."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    return Window.partitionBy(F.lit(0)).orderBy(*order)


def in_python(rows: DataFrame) -> DataFrame:
    """Rows as Python can hold them, for `json_values.plain`; rows that are none of Spark's are returned as they are.

    A TIMESTAMP is its microseconds since 1970: PySpark makes a time of the machine's zone of it, which has no year 0 and no year 10000. A MAP with
    times in it, or whose keys hold arrays, for which there is no dict, is the array of its entries. Of a text that is not UTF-8 a Connect session
    hands on nothing: there its octets are U+FFFD, about as PySpark shows them on any other session, and any MAP with texts is the array of its entries.
    """
    fields = rows.schema.fields
    if not hasattr(rows, "sparkSession"):
        return rows
    changed = {"timestamp", "string"} if over_connect(rows.sparkSession) else {"timestamp"}
    if not any(_is_changed(field.dataType, changed) for field in fields):
        return rows
    from pyspark.sql import functions as F

    # Names of columns may be there twice.
    numbered = rows.toDF(*[f"_{place}" for place in range(len(fields))])
    return numbered.select(*[_changed(F.col(f"_{place}"), field.dataType, changed).alias(field.name) for place, field in enumerate(fields)])


def _is_changed(kind: Any, changed: Set[str]) -> bool:
    within: list[Any] = kinds_within(kind)
    maps = [one for one in within if one.typeName() == "map"]
    arrays = (one.typeName() == "array" for found in maps for one in kinds_within(found.keyType))
    return any(one.typeName() in changed for one in within) or any(arrays)


def _changed(column: Column, kind: Any, changed: Set[str]) -> Column:
    from pyspark.sql import functions as F

    name = kind.typeName()
    # Of a struct with one name twice no field can be told from the other.
    if not _is_changed(kind, changed) or name == "struct" and len({one.lower() for one in kind.names}) < len(kind.names):
        return column
    if name == "timestamp":
        return F.unix_micros(column)
    if name == "string":
        return F.make_valid_utf8(column)
    if name == "array":
        return F.transform(column, lambda one: _changed(one, kind.elementType, changed))
    if name == "map":
        return F.transform(
            F.map_entries(column),
            lambda one: F.struct(_changed(one["key"], kind.keyType, changed), _changed(one["value"], kind.valueType, changed)),
        )
    fields = [_changed(column[field.name], field.dataType, changed).alias(field.name) for field in kind.fields]
    return F.when(column.isNotNull(), F.struct(*fields))


def sums(rows: DataFrame, **columns: Column) -> dict[str, int]:
    """The sums of some columns over all rows; 0 of none. Cost: one Spark job."""
    from pyspark.sql import functions as F

    found = rows.agg(*[F.coalesce(F.sum(column), F.lit(0)).alias(name) for name, column in columns.items()]).collect()[0]
    return {name: int(found[name]) for name in columns}


@contextlib.contextmanager
def as_active(spark: SparkSession) -> Iterator[None]:
    """What asks for this thread's active session in here gets a Connect session, whether it is that or not; a classic session is left as it is.

    pyspark 4.1.3 gives a frame that is kept to the active session, whose server may know of no such frame, and has that session parse the text of
    a type.
    """
    session: Any = spark
    if not over_connect(session):
        yield
        return
    active = type(session)._active_session
    before = getattr(active, "session", None)
    active.session = session
    try:
        yield
    finally:
        active.session = before


def declared(spark: SparkSession, text: str, *, what: str) -> DataType:
    """`declared_type`, parsed by this session. Over Spark Connect the server parses it; no Spark job."""
    with as_active(spark):
        return declared_type(text, what=what)


def kept(frame: DataFrame) -> DataFrame:
    """The frame, to be evaluated once, by the first Spark job that reads all of it, and kept from then on in memory or on local disk.

    What is counted is what is written, and what is read several times is computed once. A Spark job of its own would only take longer.
    """
    from pyspark import StorageLevel

    def found() -> DataFrame:
        return frame.localCheckpoint(eager=False, storageLevel=StorageLevel.MEMORY_AND_DISK)

    session: Any = frame.sparkSession
    if not over_connect(session):
        return found()
    with as_active(session):
        rows: Any = found()
    _remembered.append(rows._plan)
    return rows  # type: ignore[no-any-return]
