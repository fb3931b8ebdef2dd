"""What the status page tells, put together: where each topic stands, its last runs, snapshots, verdicts, readers, and how its tables grew."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from lakelog.errors import LakelogError
from lakelog.lake.lake import Lake
from lakelog.model.names import TableRef, literal
from lakelog.model.snapshot_id import FOREVER
from lakelog.page import growth
from lakelog.page.growth import Series
from lakelog.page.table_reader import TableReader
from lakelog.status_results import TopicStatus

# So many runs, commits and verdicts of a topic are shown at most.
RUNS, COMMITS, VERDICTS = 200, 500, 30
Made = TypeVar("Made")


@dataclass(frozen=True)
class SnapshotLife:
    """A snapshot: how it is called, from when on, until when (None: for ever), whether that is a promise (``kept``) or retention's."""

    name: str
    id: str
    version: int
    created: datetime.datetime
    until: datetime.datetime | None
    kept: bool
    form: str
    automatic: bool
    note: str


@dataclass(frozen=True)
class Reader:
    """A registered group of readers: offsets behind the log's end, when it committed, whether it still holds the log."""

    group: str
    behind: int
    committed: datetime.datetime
    holds: bool


@dataclass
class TopicView:
    """A topic as the page shows it; ``error`` in place of its ``status`` where it cannot tell. ``unread``: what could not be read, and why.

    ``runs`` and ``verdicts`` are newest first, ``growth`` is the octets of bronze's and silver's files by table.
    """

    name: str
    status: TopicStatus | None = None
    error: LakelogError | None = None
    runs: list[dict[str, Any]] = field(default_factory=list)
    snapshots: list[SnapshotLife] = field(default_factory=list)
    verdicts: list[dict[str, Any]] = field(default_factory=list)
    readers: list[Reader] = field(default_factory=list)
    growth: dict[str, Series] = field(default_factory=dict)
    unread: list[str] = field(default_factory=list)

    @property
    def oldest_first(self) -> list[dict[str, Any]]:
        """The runs in their order."""
        return self.runs[::-1]


@dataclass(frozen=True)
class Overview:
    """The whole page: the lake, when it was looked at, its topics."""

    root: str
    at: datetime.datetime
    topics: list[TopicView]


def overview(lake: Lake, reader: TableReader, found: Mapping[str, TopicStatus | LakelogError]) -> Overview:
    """Look at all that the page tells.

    Args:
        lake: the lake.
        reader: how its tables are read.
        found: topic to where it stands, or why it cannot tell.

    Cost: per topic four small queries over the lake's own tables and the history of two tables: commit files are opened, no data of topics
    is read.
    """
    now = lake.clock()
    return Overview(lake.root, growth.moment(now), [_topic(lake, reader, name, status, now) for name, status in found.items()])


def _topic(lake: Lake, reader: TableReader, name: str, status: TopicStatus | LakelogError, now: int) -> TopicView:
    made = TopicView(name)

    def tried(what: str, read: Callable[[], Made], none: Made) -> Made:
        try:
            return read()
        except LakelogError as error:
            made.unread.append(f"{what}: {error}")
            return none

    made.runs = tried("runs", lambda: _runs(lake.root, reader, name), [])
    try:
        if isinstance(status, LakelogError):
            raise status
        topic = lake.topic(name)
    except LakelogError as error:
        made.error = error
        return made
    made.status, mine = status, f"uuid = {literal(topic.uuid)}"
    retention = topic.config.number("snapshot.retention.ms")
    made.snapshots = tried("snapshots", lambda: _snapshots(lake.root, reader, mine, retention), [])
    made.verdicts = tried("verdicts", lambda: _verdicts(lake.root, reader, mine), [])
    holds = topic.config.number("offsets.retention.ms")
    made.readers = tried("readers", lambda: _readers(lake.root, reader, mine, status, now, holds), [])
    for table in ("bronze", "silver"):
        ref = TableRef.of(lake.root, name, table)
        made.growth[table] = tried(f"the history of {table}", partial(_sizes, reader, ref), [])
    return made


def _runs(root: str, reader: TableReader, topic: str) -> list[dict[str, Any]]:
    table, mine = TableRef.of(root, "_lakelog", "runs"), f"verb = 'run' AND topic = {literal(topic)}"
    found = []
    for row in reader.rows(table, "report", mine, f"ORDER BY started_at DESC LIMIT {RUNS}"):
        try:
            said = json.loads(row["report"])
            growth.started(said), growth.ended(said), said["steps"], said["outcome"], float(said["seconds"])
        except (ValueError, KeyError, TypeError):
            # Not a report of ours.
            continue
        found.append(said)
    return found


def _snapshots(root: str, reader: TableReader, mine: str, retention: int) -> list[SnapshotLife]:
    times = f"{reader.ms('created_at')} AS created, {reader.ms('kept_until')} AS until"
    table = TableRef.of(root, "_lakelog", "snapshots")
    rows = reader.rows(table, f"name, id, version, form, automatic, note, {times}", mine, "ORDER BY created, id")
    named = {row["id"] for row in rows if row["name"] is not None}
    found = []
    for row in rows:
        if row["name"] is None and row["id"] in named:
            continue
        created, kept = int(row["created"]), row["until"] is not None
        until = int(row["until"]) if kept else FOREVER if retention < 0 else created + retention
        found.append(
            SnapshotLife(
                row["name"] or row["id"], row["id"], row["version"], growth.moment(created), None if until >= FOREVER else growth.moment(until),
                kept, row["form"], bool(row["automatic"]), row["note"] or "",
            )
        )  # fmt: skip
    return found


def _verdicts(root: str, reader: TableReader, mine: str) -> list[dict[str, Any]]:
    table, ms = TableRef.of(root, "_lakelog", "verdicts"), reader.ms("at")
    newest = f"ORDER BY ms DESC LIMIT {VERDICTS}"
    runs = reader.rows(table, f"run, door, outcome, version, {ms} AS ms", f"{mine} AND rule IS NULL", newest)
    if not runs:
        return []
    shown = f"{mine} AND rule IS NOT NULL AND {ms} >= {min(int(row['ms']) for row in runs)}"
    rules = reader.rows(table, "run, outcome, severity, count(*) AS n", shown, "GROUP BY run, outcome, severity")
    for row in runs:
        own = [one for one in rules if one["run"] == row["run"]]
        row["passed"] = sum(one["n"] for one in own if one["outcome"] == "passed")
        row["critical"] = sum(one["n"] for one in own if one["outcome"] != "passed" and one["severity"] == "critical")
        row["warnings"] = sum(one["n"] for one in own if one["outcome"] != "passed" and one["severity"] != "critical")
    return runs


def _readers(root: str, reader: TableReader, mine: str, status: TopicStatus, now: int, holds: int) -> list[Reader]:
    table = TableRef.of(root, "_lakelog", "positions")
    found = []
    for row in reader.rows(table, f"group_id, offsets, {reader.ms('committed_at')} AS ms", mine, "ORDER BY group_id"):
        offsets = json.loads(row["offsets"])
        behind = sum(max(one.log_end_offset - offsets.get(str(one.partition), 0), 0) for one in status.partitions)
        found.append(Reader(row["group_id"], behind, growth.moment(int(row["ms"])), now < int(row["ms"]) + holds))
    return found


def _sizes(reader: TableReader, table: TableRef) -> Series:
    commits = reader.commits(table, COMMITS)
    return growth.sizes(commits, reader.octets(table)) if commits else []
