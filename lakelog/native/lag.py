"""How far registered readers are behind the log's end, without a JVM."""

from __future__ import annotations

from collections.abc import Sequence

from lakelog.log.tail import LogEnd
from lakelog.model.config import TopicConfig
from lakelog.native.log import within
from lakelog.native.snapshots import registered
from lakelog.native.table import Table
from lakelog.reader_results import Lag
from lakelog.readers import lag, positions
from lakelog.readers.positions import Registration


def registrations(root: str, topic: str, uuid: str, config: TopicConfig) -> list[Registration]:
    """As `readers.positions.registered`."""
    table = registered(positions.table_of(root))
    if table is None:
        return []
    columns = "group_id, offsets, epoch, uuid, arrow_cast(committed_at, 'Int64') / 1000 AS ms"
    rows = table.records(f"SELECT {columns} FROM t WHERE topic = '{topic}' AND uuid = '{uuid}' ORDER BY group_id")
    return [Registration.of(row, config) for row in rows]


def of(topic: str, bronze: Table, end: LogEnd, groups: Sequence[Registration], *, versioned: bool, now: int) -> Lag:
    """As `readers.lag.lag`. Cost: as `log.within`."""
    behind = within(bronze, lag.unread(end, groups))
    return lag.told(topic, end, groups, behind, versioned=versioned, now=now)
