"""Registered readers: a table of the lake that says where each group of readers is in each topic, so that the log is not cut off in front of it.

One row per (topic, group), partitioned by topic; a commit replaces it. Rows of a topic that was deleted and made anew do not count: they carry
the identity of the old one. A registration holds the log for ``offsets.retention.ms`` after its last commit; the row stays, so that a reader
that comes back late can still ask whether it may go on.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakelog.delta import tables
from lakelog.delta.small_table import SmallTable
from lakelog.errors import InvalidRequest
from lakelog.model.config import TopicConfig
from lakelog.model.names import TableRef, literal
from lakelog.model.records import as_datetime
from lakelog.model.topic_log import TopicLog
from lakelog.reader_results import Position

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

COLUMNS = "topic STRING, uuid STRING, group_id STRING, offsets STRING, epoch INT, committed_at TIMESTAMP"
GROUP_MOST = 255


@dataclass(frozen=True)
class Registration:
    """A group's position, when it was committed, and until when it holds the log (milliseconds since 1970)."""

    group: str
    position: Position
    committed_ms: int
    expires_ms: int

    @classmethod
    def of(cls, row: Mapping[str, Any], config: TopicConfig) -> Registration:
        """A registration from a row's group_id, offsets, epoch, uuid and ``ms``."""
        position = Position.from_dict({"offsets": json.loads(row["offsets"]), "epoch": row["epoch"], "uuid": row["uuid"]})
        return cls(row["group_id"], position, row["ms"], row["ms"] + config.number("offsets.retention.ms"))

    def holds(self, now: int) -> bool:
        """Whether it still holds the log."""
        return now < self.expires_ms


def table_of(root: str) -> TableRef:
    """The table of a lake."""
    return TableRef.of(root, "_lakelog", "positions")


def require_group(group: str) -> None:
    """Refuse what is no name of a group.

    Raises:
        InvalidRequest: it is empty, too long, or cannot be printed.
    """
    if not group or len(group) > GROUP_MOST or not group.isprintable():
        raise InvalidRequest(f"{group!r} is no name of a group of readers: 1 to {GROUP_MOST} printable characters.")


def registered(log: TopicLog) -> list[Registration]:
    """The topic's groups, by name. Cost: one small Spark job; none where no reader of the lake is registered."""
    rows = _stored(log).read(log.spark)
    if rows is None:
        return []
    with tables.door(table_of(log.root)):
        found = _rows(log, rows).collect()
    return [Registration.of(row.asDict(), log.config) for row in found]


def _rows(log: TopicLog, frame: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    mine = frame.filter((F.col("topic") == log.name) & (F.col("uuid") == log.uuid))
    return mine.select("group_id", "offsets", "epoch", "uuid", F.unix_millis("committed_at").alias("ms")).orderBy("group_id")


def commit(log: TopicLog, group: str, position: Position, *, now: int) -> Registration:
    """Register a group's position, in place of its last one. The same again changes nothing but the time.

    Raises:
        Conflict: other commits were first again and again; nothing was written.

    Cost: one MERGE into a table of a row per group; the first commit of a lake makes the table.
    """
    offsets = json.dumps({str(index): offset for index, offset in sorted(position.offsets.items())})
    clauses = "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    _stored(log).merge(log.spark, [_row(log, group, offsets, position.epoch, now)], on=_is_group(log), clauses=clauses)
    return Registration(group, position, now, now + log.config.number("offsets.retention.ms"))


def _stored(log: TopicLog) -> SmallTable:
    return SmallTable(table_of(log.root), COLUMNS, ("topic",))


def _is_group(log: TopicLog) -> str:
    return f"t.topic = {literal(log.name)} AND t.topic = s.topic AND t.group_id = s.group_id"


def _row(log: TopicLog, group: str, offsets: str, epoch: int, now: int) -> tuple[Any, ...]:
    return (log.name, log.uuid, group, offsets, epoch, as_datetime(now))


def forget(log: TopicLog, group: str) -> bool:
    """Take a group's registration away. Returns whether there was one. Cost: as `commit`."""
    if _stored(log).read(log.spark) is None:
        return False
    return _stored(log).merge(log.spark, [_row(log, group, "", 0, 0)], on=_is_group(log), clauses="WHEN MATCHED THEN DELETE")
