"""Which records of a quarantine are meant, and how they are mended: by SQL expressions, or by corrected records in their place."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lakelog.errors import InvalidRequest
from lakelog.formats.fitting import fitted
from lakelog.inputs.keys import named
from lakelog.inputs.staging import partition_of
from lakelog.model.config import did_you_mean
from lakelog.model.names import quoted
from lakelog.model.point_in_time import moment
from lakelog.model.records import HEADERS, flat_columns
from lakelog.model.row_rules import flat
from lakelog.model.topic_log import TopicLog
from lakelog.quality.conditions import first_line

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

# What a fix may set beside the fields of key and value.
MORE = {"_timestamp": "timestamp", "_headers": "headers", "_tombstone": "tombstone", "_partition": "partition"}
KINDS = {"_timestamp": "timestamp", "_headers": HEADERS, "_tombstone": "boolean", "_partition": "int"}
RECORD = ("key", "value", "headers", "timestamp", "tombstone", "partition")


def order(partition: str = "partition") -> list[Column]:
    """The order in which records leave the quarantine, and in which it is listed: that of the log, of what was put aside that of its request.

    Args:
        partition: the column of the partition that a record was in.
    """
    from pyspark.sql import functions as F

    # Records that a gate put aside have no offset: their position is one over all partitions.
    place = F.when(F.col("offset").isNotNull(), F.col(partition))
    return [F.col("time"), F.col("batch"), F.col("epoch"), place, F.col("offset"), F.col("record")]


@dataclass(frozen=True)
class Selection:
    """Records of a quarantine: those that broke a ``rule``, have a ``key``, were in a ``partition``, at old offsets from ``first`` to below ``end``,
    were put there by a ``source``, under a ``token``, or at a time from ``since`` to before ``until``, in UTC where it names no zone. What is None
    excludes nothing.
    """

    rule: str | None = None
    key: Any = None
    partition: int | None = None
    first: int | None = None
    end: int | None = None
    source: str | None = None
    token: str | None = None
    since: datetime.datetime | None = None
    until: datetime.datetime | None = None

    def of(self, rows: DataFrame, key: DataType) -> DataFrame:
        """The chosen ones among the rows of a quarantine.

        Raises:
            InvalidRequest: the key is none of the topic's type.
        """
        from pyspark.sql import functions as F

        tests: list[Column] = []
        if self.rule is not None:
            tests.append(F.array_contains(F.coalesce("rules", F.array().cast("array<string>")), self.rule) | (F.col("reason") == self.rule))
        if self.key is not None:
            tests.append(named(rows.sparkSession, self.key, key).test())
        for name, wanted in (("partition", self.partition), ("source", self.source), ("token", self.token)):
            if wanted is not None:
                tests.append(F.col(name) == F.lit(wanted))
        for name, least, most in (("offset", self.first, self.end), ("time", moment(self.since), moment(self.until))):
            tests += [F.col(name) >= F.lit(least)] * (least is not None) + [F.col(name) < F.lit(most)] * (most is not None)
        for test in tests:
            rows = rows.filter(test)
        return rows


@dataclass(frozen=True)
class Fix:
    """What mends records: a column to an SQL expression over the columns that rules read, and ``_raw``, ``_rules``, ``_reason``, ``_source``."""

    expressions: Mapping[str, str] = field(default_factory=dict)

    def applied(self, log: TopicLog, rows: DataFrame, now: int) -> DataFrame:
        """Rows of a quarantine with key, value and the rest as the fix has them, and the partition of the key; all their other columns stay.

        Raises:
            InvalidRequest: an expression sets no column of the topic, is no SQL over its columns, or gives a value that the column's type would
                round or cut.

        Cost: one small Spark job where an expression is of a type that may hold more than its column's.
        """
        from pyspark.sql import functions as F

        if not self.expressions:
            return rows
        places = {name: (side, inner) for name, side, inner in flat_columns(log.types.key, log.types.value)}
        unknown = [name for name in self.expressions if name not in places and name not in MORE]
        if unknown:
            known = [*places, *MORE]
            raise InvalidRequest(f"fix: there is no column {unknown[0]!r}.{did_you_mean(unknown[0], known)} Columns: {', '.join(known)}.")
        taken = {name.lower() for name in places}
        about = [F.col(name).alias(f"_{name}") for name in ("raw", "rules", "reason", "source") if f"_{name}" not in taken]
        held = [F.col(quoted(name)).alias(f"__lakelog_kept_{name}") for name in rows.columns]
        read = flat(log.types, ["timestamp", "headers", "tombstone", "partition"], now, "__fix_row")
        wide = rows.withColumn("__fix_row", F.lit(0)).select(*held, *about, *read)
        kinds = {name: _kind(log, name, places) for name in self.expressions}
        try:
            wide = wide.select("*", *[F.expr(text).alias(f"__lakelog_said_{name}") for name, text in self.expressions.items()])
            wide = wide.select(
                "*", *[F.col(quoted(f"__lakelog_said_{name}")).cast(kind).alias(f"__lakelog_set_{name}") for name, kind in kinds.items()]
            )
            _require_whole(wide, kinds)
        except InvalidRequest:
            raise
        except Exception as error:
            raise InvalidRequest(f"fix: {first_line(error)}") from error
        columns = {name: F.col(quoted(f"__lakelog_kept_{name}")) for name in rows.columns}
        for name, source in MORE.items():
            if name in self.expressions:
                columns[source] = F.col(f"__lakelog_set_{name}")
        for side, kind in (("key", log.types.key), ("value", log.types.value)):
            touched = {inner: name for name, (where, inner) in places.items() if where == side and name in self.expressions}
            if touched:
                columns[side] = _packed(columns[side], kind, touched, stays=side == "value")
                if side == "key" and "_partition" not in self.expressions:
                    # A record that its key had brought to its partition goes to that of its new key.
                    old, partition = F.col(quoted("__lakelog_kept_key")), columns["partition"]
                    columns["partition"] = F.when(partition == partition_of(log, old), partition_of(log, columns["key"])).otherwise(
                        partition
                    )
        return wide.select(*[column.alias(name) for name, column in columns.items()])

    def text(self) -> str | None:
        """The fix as it is recorded."""
        return "; ".join(f"{name} = {expression}" for name, expression in self.expressions.items()) or None


def _kind(log: TopicLog, name: str, places: Mapping[str, tuple[str, str]]) -> DataType | str:
    """The type of a column that a fix sets."""
    if name in KINDS:
        return KINDS[name]
    side, inner = places[name]
    whole: Any = log.types.key if side == "key" else log.types.value
    kind: DataType = whole[inner].dataType if inner else whole
    return kind


def _require_whole(wide: DataFrame, kinds: Mapping[str, DataType | str]) -> None:
    """Refuse what the types of the columns would round or cut."""
    from pyspark.sql import functions as F

    lost = {}
    for name, kind in kinds.items():
        said = F.col(quoted(f"__lakelog_said_{name}"))
        test = _lost(said, wide.schema[f"__lakelog_said_{name}"].dataType, kind)
        if test is not None:
            lost[name] = F.min(F.when(test, said.cast("string"))).alias(name)
    found = wide.agg(*lost.values()).collect()[0] if lost else None
    for name in lost:
        if found is not None and found[name] is not None:
            kind = kinds[name]
            told = (kind if isinstance(kind, str) else kind.simpleString()).upper()
            raise InvalidRequest(
                f"fix: {name} would be {found[name]}, which is no {told}: it would be rounded or cut. Nothing was written."
                " Say how, for example with round(…, 2) or CAST."
            )


def _lost(said: Column, have: DataType, want: DataType | str) -> Column | None:
    """Whether a value is changed by the type that it gets; None where it never is. What becomes FLOAT or DOUBLE is the nearest such number."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import ByteType, DateType, DecimalType, IntegerType, LongType, NumericType, ShortType, StringType, TimestampType

    if isinstance(want, str):
        want = IntegerType() if want == KINDS["_partition"] else StringType()
    whole = (ByteType, ShortType, IntegerType, LongType, DecimalType)
    if have == want or not isinstance(want, (*whole, DateType)):
        return None
    if isinstance(have, StringType):
        problem = fitted(said, have, want, "", text=True)[1]
        return None if problem is None else problem.isNotNull()
    if isinstance(want, whole) != isinstance(have, NumericType) or not isinstance(have, (NumericType, TimestampType)):
        return None
    return said.isNotNull() & ~F.coalesce(said.cast(want).try_cast(have) == said, F.lit(False))


def _packed(old: Column, kind: DataType, touched: Mapping[str, str], *, stays: bool) -> Column:
    """A key or value with some fields set anew. One of which nothing is left is NULL; where it ``stays`` not if it was none before: only
    ``_tombstone`` makes a delete.
    """
    from pyspark.sql import functions as F
    from pyspark.sql.types import StructType

    if not isinstance(kind, StructType):
        return F.col(f"__lakelog_set_{touched['']}")
    fields = {
        one.name: F.col(quoted(f"__lakelog_set_{touched[one.name]}")) if one.name in touched else old[one.name] for one in kind.fields
    }
    any_set = old.isNotNull() if stays else F.lit(False)
    for column in fields.values():
        any_set = any_set | column.isNotNull()
    return F.when(any_set, F.struct(*[column.alias(name) for name, column in fields.items()]))
