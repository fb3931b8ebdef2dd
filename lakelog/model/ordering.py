"""The ordering rule: which of two records of a key is the latest.

The whole rule in one sentence: **the record with the greatest (has_version, version, offset) is the latest, absent below present**
(KIP-280; SEMANTICS 20). Under ``tombstone.unversioned=win_by_offset`` a delete without a version is a *barrier*: of the records of its
key only those after it count, so the tuple is led by the offset of the key's last barrier.

It is a total order, so any cut of the log into batches and any order of merges ends in the same winner. One `OrderingRule` gives the
version and the rank used by the fold of a batch and by the comparison with silver alike.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from lakelog.errors import InvalidConfig
from lakelog.model.config import TopicConfig

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType

UNORDERABLE = ("map", "variant", "interval")


@dataclass(frozen=True)
class OrderingRule:
    """A topic's rule: the strategy after fall-back, the header or the value's fields that carry the version, and what an unversioned delete does."""

    strategy: str
    header: str = ""
    encoding: str = "int64"
    columns: tuple[str, ...] = ()
    unversioned: str = "lose"

    @classmethod
    def from_config(cls, config: TopicConfig) -> OrderingRule:
        """The rule a configuration describes; ``header`` with a blank name is ``offset`` (SEMANTICS Q6)."""
        strategy = config.text("compaction.strategy")
        if strategy == "header" and config.text("compaction.strategy.header").strip():
            return cls(
                "header",
                header=config.text("compaction.strategy.header"),
                encoding=config.text("compaction.header.encoding"),
                unversioned=config.text("tombstone.unversioned"),
            )
        if strategy == "column":
            columns = tuple(name.strip() for name in config.text("compaction.strategy.column").split(",") if name.strip())
            return cls("column", columns=columns, unversioned=config.text("tombstone.unversioned"))
        return cls("timestamp" if strategy == "timestamp" else "offset")

    @classmethod
    def from_json(cls, text: str) -> OrderingRule:
        """The rule as `to_json` wrote it."""
        stored = json.loads(text)
        return cls(**{**stored, "columns": tuple(stored.get("columns", ()))})

    def to_json(self) -> str:
        """The rule as stored in silver's control rows: a silver table knows the rule it was made under."""
        return json.dumps(asdict(self), sort_keys=True)

    def __str__(self) -> str:
        """The rule as people write it: ``offset``, ``timestamp``, ``header(seq)``, ``column(updated_at, revision)``."""
        inside = self.header or ", ".join(self.columns)
        return f"{self.strategy}({inside})" if inside else self.strategy

    @property
    def versioned(self) -> bool:
        """Whether records carry versions at all; under ``offset`` no record can be late."""
        return self.strategy != "offset"

    @property
    def barriers(self) -> bool:
        """Whether a delete without a version is a barrier."""
        return self.strategy in ("header", "column") and self.unversioned == "win_by_offset"

    def version_type(self, value: DataType) -> DataType:
        """The type of silver's ``version`` column for a topic whose value has the given type.

        Raises:
            InvalidConfig: under ``column``, a field that the value does not have or whose type has no order.
        """
        from pyspark.sql.types import LongType, StructField, StructType, TimestampType

        if self.strategy == "timestamp":
            return TimestampType()
        if self.strategy != "column":
            return LongType()
        fields = [_orderable(name, value) for name in self.columns]
        if len(fields) == 1:
            return fields[0]
        return StructType([StructField(f"v{index}", kind) for index, kind in enumerate(fields)])

    def version(self) -> Column:
        """The version of a log record (columns ``timestamp``, ``headers``, ``value`` as in bronze); NULL where it has none."""
        from pyspark.sql import functions as F

        if self.strategy == "timestamp":
            return F.col("timestamp")
        if self.strategy == "header":
            return _decoded(_last_header(self.header), self.encoding)
        if self.strategy == "column":
            fields = [F.col("value").getField(name) for name in self.columns]
            if len(fields) == 1:
                return fields[0]
            absent = fields[0].isNull()
            for field in fields[1:]:
                absent = absent & field.isNull()
            return F.when(~absent, F.struct(*[field.alias(f"v{index}") for index, field in enumerate(fields)]))
        return F.lit(None).cast("bigint")

    def invalid_version(self) -> Column:
        """Whether a log record carries a version header that cannot be used (null, empty, wrong length; SEMANTICS Q3)."""
        from pyspark.sql import functions as F

        if self.strategy != "header":
            return F.lit(False)
        present = F.exists(F.coalesce(F.col("headers"), F.array()), lambda header: header["key"] == F.lit(self.header))
        return present & self.version().isNull()

    def rank(self, row: str = "", *, barrier: Column | None = None) -> Column:
        """The value by which two records of a key are compared as a whole: the greater one is the latest.

        Args:
            row: the alias of the side whose ``version`` and ``offset`` are meant.
            barrier: offset of the key's last barrier, -1 for none; leads the tuple where the rule has barriers.
        """
        from pyspark.sql import functions as F

        prefix = f"{row}." if row else ""
        version, offset = F.col(f"{prefix}version"), F.col(f"{prefix}offset")
        tail = [version.isNotNull().alias("has_version"), version.alias("version"), offset.alias("offset")]
        if not self.versioned:
            return offset
        if self.barriers:
            return F.struct((barrier if barrier is not None else F.lit(-1).cast("bigint")).alias("barrier"), *tail)
        return F.struct(*tail)


def _orderable(name: str, value: DataType) -> DataType:
    from pyspark.sql.types import StructType

    if not isinstance(value, StructType) or name not in value.names:
        has = f"its fields are {', '.join(value.names)}" if isinstance(value, StructType) else "it has no fields"
        raise InvalidConfig(f"compaction.strategy.column: the value has no field {name!r}; {has}.")
    kind = value[name].dataType
    if _has_no_order(kind):
        raise InvalidConfig(f"compaction.strategy.column: {name} is {kind.simpleString()}, which has no order.")
    return kind


def _has_no_order(kind: DataType) -> bool:
    """Whether a type, or one within it, cannot be compared."""
    from pyspark.sql.types import ArrayType, StructType

    if isinstance(kind, StructType):
        return any(_has_no_order(field.dataType) for field in kind.fields)
    return _has_no_order(kind.elementType) if isinstance(kind, ArrayType) else kind.simpleString().startswith(UNORDERABLE)


def _last_header(name: str) -> Column:
    """The value of the last header of exactly that name (SEMANTICS Q1, Q5); NULL when there is none."""
    from pyspark.sql import functions as F

    named = F.filter(F.coalesce(F.col("headers"), F.array()), lambda header: header["key"] == F.lit(name))
    return F.try_element_at(named, F.lit(-1))["value"]


def _decoded(octets: Column, encoding: str) -> Column:
    """A header value as a signed 64-bit version; NULL where it is none in that encoding (SEMANTICS Q2)."""
    from pyspark.sql import functions as F

    if encoding == "text":
        text = octets.cast("string")
        return F.when(text.rlike(r"\A[+-]?[0-9]{1,19}\z"), text.try_cast("bigint"))
    if encoding == "varlong":
        return _varlong(octets)
    digits = F.hex(octets)
    # conv() reads 16 hexadecimal digits as an unsigned 64-bit number; a negative target base gives it back signed.
    return F.when(F.octet_length(octets) == 8, F.conv(digits, 16, -10).cast("bigint"))


def _varlong(octets: Column) -> Column:
    """Kafka's zig-zag varlong: groups of 7 bits, least first, the high bit set on all but the last; 1 to 10 octets."""
    from pyspark.sql import functions as F

    size = F.octet_length(octets)

    def octet(index: Column) -> Column:
        return F.conv(F.hex(F.substring(octets, index + 1, 1)), 16, 10).cast("bigint")

    indexes = F.sequence(F.lit(0), size - 1)
    well_formed = F.forall(indexes, lambda index: (octet(index) >= 128) == (index < size - 1)) & ((size < 10) | (octet(F.lit(9)) <= 1))
    raw = F.aggregate(
        indexes,
        F.lit(0).cast("bigint"),
        lambda sum, index: sum.bitwiseOR(F.call_function("shiftleft", octet(index).bitwiseAND(F.lit(127)), index * 7)),
    )
    zigzag = F.call_function("shiftrightunsigned", raw, F.lit(1)).bitwiseXOR(-(raw.bitwiseAND(F.lit(1))))
    return F.when((size >= 1) & (size <= 10), F.when(well_formed, zigzag))
