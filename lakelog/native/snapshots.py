"""Registered snapshots without a JVM: the lake's table of them, and silver as a snapshot has it."""

from __future__ import annotations

from lakelog.delta import table_properties
from lakelog.errors import NotFound
from lakelog.model.names import TableRef
from lakelog.native import latest
from lakelog.native.table import Table
from lakelog.snapshots import point, registry
from lakelog.snapshots.registry import Entry


def entries(root: str, uuid: str | None = None) -> list[Entry]:
    """As `snapshots.registry.entries`."""
    table = registered(registry.table_of(root))
    if table is None:
        return []
    times = [
        f"arrow_cast({column}, 'Int64') / 1000 AS {name}" for column, name in (("created_at", "created"), ("kept_until", "kept_until"))
    ]
    where = "" if uuid is None else f" WHERE uuid = '{uuid}'"
    return registry.in_order(Entry.of(row) for row in table.records(f"SELECT {', '.join([*registry.READ, *times])} FROM t{where}"))


def registered(ref: TableRef) -> Table | None:
    """A table of the lake's own; None where nothing was registered in it yet.

    Raises:
        InvalidConfig: a newer lakelog wrote it.
    """
    try:
        table = Table(ref)
    except NotFound:
        return None
    table_properties.require_readable(str(ref), table.properties)
    return table


def state(topic: str, root: str, silver: TableRef, entry: Entry) -> Table:
    """Silver as a snapshot has it: a version of it, or the copy.

    Raises:
        NotFound: it is no more, or the latest table was made anew since (SNAPSHOT_NOT_FOUND).
    """
    copy = entry.table(root)
    if copy is not None:
        return Table(copy)
    table = Table(silver, entry.version)
    point.require_same(topic, entry, latest.control_rows(table))
    return table
