"""Keys that were erased, by digest: a lake's table ``_lakelog/erased`` (in a catalog ``lakelog_erased``), and rows left out by it.

A row per erasure: the topic's identity, the digest of the key, and how far the log went then (epoch and end offset of each partition). A record of
the key below that is erased data, wherever it comes from: a version of silver that is restored, a copy, an export. One that is appended later is
a new record, and stays. The digest is salted with the topic's identity; a key that can be guessed can be guessed from it, so the list names no key
but is no secret store either.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakelog.delta import frames, tables
from lakelog.delta.small_table import SmallTable
from lakelog.delta.statement import interpreted
from lakelog.model.names import TableRef, literal, quoted
from lakelog.model.records import as_datetime

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType

COLUMNS = "uuid STRING, id STRING, digest STRING, epoch INT, ends STRING, erased_at TIMESTAMP"
MARKS = "e_digest STRING, e_partition INT, e_epoch INT, e_end BIGINT"
# How values are written that are to be told apart, a key for its digest among them: with all microseconds, in no time zone of a session's.
JSON = {
    "timeZone": "UTC", "ignoreNullFields": "false", "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}  # fmt: skip


@dataclass(frozen=True)
class Erasure:
    """One key of a topic erased: ``id`` of the operation, the key's digest, the log's epoch and its ends then; ``at`` in milliseconds."""

    uuid: str
    id: str
    digest: str
    epoch: int
    ends: Mapping[int, int]
    at: int

    def row(self) -> tuple[Any, ...]:
        """The row in the table's columns."""
        ends = json.dumps({str(index): end for index, end in sorted(self.ends.items())})
        return (self.uuid, self.id, self.digest, self.epoch, ends, as_datetime(self.at))


def digest_sql(uuid: str, kind: DataType, key: str = "key") -> str:
    """The digest of a row's key, in SQL: SHA-256 of the topic's identity and the key as JSON, the same whatever the session's settings.

    Keys that are one to the fold have one digest: -0.0 is 0.0, within a STRUCT too.
    """
    options = ", ".join(literal(text) for pair in JSON.items() for text in pair)
    return f"sha2(concat({literal(f'{uuid} ')}, to_json(struct({_one_zero(key, kind)} AS key), map({options}))), 256)"


def _one_zero(column: str, kind: DataType) -> str:
    """A column with 0.0 for every -0.0 in it, in SQL; the column itself where its type has no floating numbers."""
    from pyspark.sql.types import StructType

    name = kind.simpleString()
    if name in ("float", "double"):
        return f"IF({column} = 0, CAST(0 AS {name}), {column})"
    if not isinstance(kind, StructType):
        return column
    fields = {field.name: (f"{column}.{quoted(field.name)}", field.dataType) for field in kind.fields}
    changed = {name: _one_zero(*held) for name, held in fields.items()}
    if all(changed[name] == column for name, (column, _) in fields.items()):
        return column
    packed = ", ".join(f"{literal(name)}, {inner}" for name, inner in changed.items())
    return f"IF({column} IS NULL, NULL, named_struct({packed}))"


def text_digest(uuid: str, text: str) -> str:
    """The digest of a key's text, as verdicts quote it."""
    return hashlib.sha256(f"{uuid} {text}".encode()).hexdigest()


def _table(root: str) -> SmallTable:
    return SmallTable(TableRef.of(root, "_lakelog", "erased"), COLUMNS)


def add(spark: SparkSession, root: str, erasure: Erasure) -> None:
    """Enter an erasure; one whose ``id`` is there stays as it is. Cost: one small MERGE; the first one of a lake makes the table."""
    _table(root).merge(spark, [erasure.row()], on="t.id = s.id", clauses="WHEN NOT MATCHED THEN INSERT *")


def entries(spark: SparkSession, root: str, uuid: str) -> list[Erasure]:
    """The erasures of a topic, oldest first; none where the lake has no list. Cost: at most one small Spark job."""
    from pyspark.sql import functions as F

    rows = _table(root).read(spark)
    if rows is None:
        return []
    mine = rows.filter(F.col("uuid") == uuid).withColumn("at", F.unix_millis("erased_at"))
    with tables.door(_table(root).table), interpreted(spark):
        found = mine.orderBy("at", "id").collect()
    return [
        Erasure(
            row["uuid"],
            row["id"],
            row["digest"],
            row["epoch"],
            {int(index): end for index, end in json.loads(row["ends"]).items()},
            row["at"],
        )
        for row in found
    ]


def without(rows: DataFrame, uuid: str, held: Sequence[Erasure]) -> DataFrame:
    """Rows (``key``, ``partition``, ``epoch``, ``offset``) without the erased ones. Cost: none for no erasures; else a digest a row."""
    from pyspark.sql import functions as F

    if not held:
        return rows
    marks = F.broadcast(_marks(rows.sparkSession, held))
    within = F.expr(f"e_digest = {digest_sql(uuid, rows.schema['key'].dataType)} AND {_below('partition', 'epoch', 'offset')}")
    return rows.join(marks, within, "left_anti")


def sweep(spark: SparkSession, table: TableRef, uuid: str, held: Sequence[Erasure], *, user_metadata: str | None = None) -> int | None:
    """Delete the erased rows of silver or of a copy of it. Returns the version, None where there were none.

    Raises:
        Conflict: a commit of another writer touched what this one read.

    Cost: the keys are read; the files with such rows are written again.
    """
    if not held:
        return None
    kind = tables.read(spark, table).schema["key"].dataType
    return tables.merge(
        _marks(spark, held), table,
        on=f"t.bucket >= 0 AND s.e_digest = {digest_sql(uuid, kind, 't.key')} AND {_below('t.partition', 't.epoch', 't.offset')}",
        clauses="WHEN MATCHED THEN DELETE", scatter=False, user_metadata=user_metadata,
    )  # fmt: skip


def _below(partition: str, epoch: str, offset: str) -> str:
    return f"e_partition = {partition} AND ({epoch} < e_epoch OR ({epoch} = e_epoch AND {offset} < e_end))"


def _marks(spark: SparkSession, held: Sequence[Erasure]) -> DataFrame:
    """A row per erased key and partition: the furthest of its erasures."""
    most: dict[tuple[str, int], tuple[int, int]] = {}
    for one in held:
        for index, end in one.ends.items():
            place = (one.digest, index)
            most[place] = max(most.get(place, (-1, -1)), (one.epoch, end))
    return frames.small_frame(spark, MARKS, [(*place, *end) for place, end in sorted(most.items())]).coalesce(1)
