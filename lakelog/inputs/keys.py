"""One key that somebody names, read as an append reads it."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakelog.delta.frames import in_python
from lakelog.delta.statement import interpreted
from lakelog.errors import InvalidRequest
from lakelog.inputs.sources import requested
from lakelog.model.json_values import plain
from lakelog.model.records import Types

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType


@dataclass(frozen=True)
class NamedKey:
    """A key as the tables hold it, with its type and place: the hash by which a record without a partition finds its own."""

    value: Any
    kind: DataType
    hash: int

    @property
    def shown(self) -> Any:
        """The key as JSON has it."""
        return plain(self.value, self.kind)

    def test(self, column: str = "key") -> Column:
        """Whether a row's key is this one."""
        from pyspark.sql import functions as F
        from pyspark.sql.types import StructType

        if not isinstance(self.kind, StructType):
            return F.col(column).eqNullSafe(literal(self.value, self.kind))
        found = F.col(column).isNotNull()
        for index, one in enumerate(self.kind.fields):
            found = found & F.col(column)[one.name].eqNullSafe(literal(self.value[index], one.dataType))
        return found


def literal(value: Any, kind: DataType) -> Column:
    """A value of a key, as `NamedKey.value` has it, as a column."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import StructType, TimestampType

    if value is None:
        return F.lit(None).cast(kind)
    if isinstance(kind, StructType):
        fields = [literal(value[index], one.dataType).alias(one.name) for index, one in enumerate(kind.fields)]
        return F.struct(*fields).cast(kind)
    if isinstance(kind, TimestampType):
        return F.timestamp_micros(F.lit(value))
    if isinstance(value, datetime.date):
        # As text: Spark takes a time without a zone for one of the machine's zone, and no year before 1000.
        return F.lit(value.isoformat()).cast(kind)
    return F.lit(value).cast(kind)


def frame(spark: SparkSession, values: Sequence[Any], kind: DataType) -> DataFrame:
    """Keys, as `NamedKey.value` has them, as rows in their order, with the one column ``key``."""
    from pyspark.sql import functions as F

    return spark.range(1).select(F.explode(F.array(*[literal(one, kind) for one in values])).alias("key"))


def named(spark: SparkSession, key: Any, kind: DataType) -> NamedKey:
    """A key as a record would have it: a value of Python's or as NDJSON has it, of a STRUCT a dict of all its fields.

    Raises:
        InvalidRequest: it is none of the topic's type.

    Cost: one Spark job over one row.
    """
    from pyspark.sql import functions as F
    from pyspark.sql.types import StringType, StructType

    if isinstance(kind, StructType) and (not isinstance(key, Mapping) or set(key) != set(kind.names)):
        fields = ", ".join(f'"{name}": …' for name in kind.names)
        raise InvalidRequest(f"key={key!r}: a key of this topic has all of these fields: {{{fields}}}.")
    if key is None:
        raise InvalidRequest("key=None: every record of a topic has a key.")
    rows = requested(spark, [{"key": key}], None, Types(kind, StringType())).rows
    with interpreted(spark):
        row = in_python(rows.select("key", "problem", F.xxhash64("key").alias("hash"))).collect()[0]
    if row["problem"] is not None:
        raise InvalidRequest(f"key={key!r}: {row['problem'].partition(chr(9))[2]}")
    return NamedKey(row["key"], kind, row["hash"])
