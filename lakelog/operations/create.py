"""A topic's tables: how they come into being.

The log is made first, in one commit that only one creator wins; it says what the topic is. All else follows from it and is made the same by
whoever comes by, so a creation that was cut off is completed by the next.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING

from lakelog.delta import past, table_properties, tables
from lakelog.delta.filesystem import holds_files
from lakelog.delta.lock import LOCKED, held
from lakelog.delta.table_properties import FORMAT, FORMAT_VERSION, IDENTITY, PARTITIONS, PREFIX, TYPES
from lakelog.errors import Conflict, Damaged, InvalidRequest, NotFound
from lakelog.latest import evolution, rebuild, views
from lakelog.latest.progress import LOOK_BACK, LogPlace, stored
from lakelog.log import bronze
from lakelog.log.tail import LogEnd, log_end
from lakelog.model.names import TableRef
from lakelog.model.records import Types
from lakelog.model.topic_log import TopicLog
from lakelog.snapshots import restore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ATTEMPTS = 20

# Says of a log that it was made of an export: silver's version that holds the export's snapshot, and the export's identity.
IMPORTED = f"{PREFIX}topic.imported"


def make_log(spark: SparkSession, root: str, name: str, types: Types, *, partitions: int, settings: Mapping[str, str], now: int) -> bool:
    """Make a topic's log, empty, with what the topic is in its properties: types, partitions, settings, a new identity.

    Returns:
        False when a log of that name is there already, or another creator was first.

    Raises:
        InvalidRequest: a name that the topic needs is taken by what is not lakelog's; nothing was created.
        Conflict: another creator was first, and its log cannot be read yet; or it was cut off before it had one.
    """
    table = TableRef.of(root, name, "bronze")
    if IDENTITY in (table_properties.read(spark, table) or {}):
        return False
    refuse_foreign(spark, root, name)
    properties = {
        FORMAT: str(FORMAT_VERSION),
        IDENTITY: str(uuid.uuid4()),
        PARTITIONS: str(partitions),
        TYPES: evolution.types_json(types.key, types.value),
        **{PREFIX + setting: text for setting, text in settings.items()},
    }
    try:
        bronze.create(spark, table, types, partitions=partitions, now=now, properties=properties)
    except Conflict:
        # A path counts as taken from the first data file on, before there is a table.
        table_properties.wait_for(spark, table, IDENTITY)
        return False
    return True


def complete(log: TopicLog, *, now: int) -> None:
    """Make what a topic has beside its log: the latest table and, in a catalog, the views. Again, and nothing changes.

    The latest table of a topic whose deletion was cut off is replaced; where an import that lost to this topic replaced the topic's own, that is
    brought back (`bring_back`). One that is gone is made anew only where the log never held anything: what it cannot give would be lost without
    a word.

    Raises:
        Damaged: the latest table is gone, and the log holds records or was imported: an empty table would not be what the log says.
        InvalidRequest: there is a table that is not lakelog's.
        Conflict: another process is completing it, or was cut off before there was a table.
    """
    found = table_properties.read(log.spark, log.silver)
    if is_foreign(log.spark, log.silver, found):
        raise _taken(str(log.silver), log.name)
    # Before it is judged: what somebody else puts in its place from now on is seen when it is replaced.
    known = rebuild.found(log) if found is not None and IDENTITY in found else None
    if not bring_back(log, now=now):
        end = log_end(log)
        _require_empty(log, end)
        places = {index: LogPlace(tail.end, tail.epoch, None) for index, tail in end.tails.items()}
        if not rebuild.create(log, places, known, replace=found is not None, now=now):
            # Whoever else completes it makes it of the same log.
            table_properties.wait_for(log.spark, log.silver, IDENTITY, log.uuid)
    views.create(log.spark, log.name, log.root, log.silver, log.table, log.types)


def _require_empty(log: TopicLog, end: LogEnd) -> None:
    """Refuse to make an empty latest table for a log that held records, or that was imported behind a latest table.

    Raises:
        Damaged: naming what gives the latest table again.
    """
    if imported(table_properties.read(log.spark, log.table) or {}) is not None:
        raise Damaged(
            f"{log.silver}: the latest table that was imported with the topic {log.name} is gone, and its log begins behind that table: it cannot give"
            " it. Nothing was changed. Delete the topic (delete_topic; what was appended to it since goes too), then import the export again."
        )
    if any(tail.end > tail.state.origin for tail in end.tails.values()):
        raise Damaged(
            f"{log.silver}: the latest table of the topic {log.name} is gone, but its log holds records, or held them. Nothing was changed. Run verify"
            " with repair: it computes the latest table anew, from the log or from a snapshot and the log behind it."
        )


def bring_back(log: TopicLog, *, now: int) -> bool:
    """Bring the latest table back to its newest version that is this topic's, where an import that lost to the topic has replaced it.

    An import writes the latest table first, and then the log, which only one can make. Where no lock keeps two apart, the slower one may replace
    the table of the one that makes the log, before or after that.

    Returns:
        Whether the latest table is the topic's now; False where it is gone, or none of its versions is.

    Raises:
        Conflict: other writers were first again and again.

    Cost: nothing where it is the topic's; else the newest commits are listed, and the control rows of a few versions read.
    """
    for _ in range(ATTEMPTS):
        held = table_properties.read(log.spark, log.silver)
        if held is None or held.get(IDENTITY) == log.uuid:
            return held is not None
        newest, own = _own_version(log)
        if own is None:
            return False
        try:
            made = past.restore(log.spark, log.silver, own)
            # Else somebody else did the same first, and the topic may have gone on since.
            if restore.stands(log, newest, made, now=now):
                restore.settle(log, [made], now=now)
        except NotFound:
            return False
        except Conflict as error:
            if error.name == LOCKED:
                raise
    raise Conflict(f"{log.silver}: other writers kept the latest table of {log.name} from being brought back. Try again.")


def _own_version(log: TopicLog) -> tuple[int, int | None]:
    """Silver's version, and the newest before it that is this topic's: it was the last before a commit that put another table in its place."""
    commits = tables.history(log.spark, log.silver, LOOK_BACK)
    for row in commits:
        if row["version"] > 0 and row["operation"].upper().startswith(("REPLACE", "CREATE OR REPLACE", "RESTORE")):
            with contextlib.suppress(NotFound, Damaged):
                if stored(log.spark, log.silver, row["version"] - 1).uuid == log.uuid:
                    return commits[0]["version"], row["version"] - 1
    return commits[0]["version"], None


def imported(stored: Mapping[str, str]) -> tuple[int, str] | None:
    """Of a topic that was made of an export, by its log's properties: silver's version that holds the export's snapshot, and which export."""
    version, _, export = stored.get(IMPORTED, "").partition(" ")
    return (int(version), export) if export else None


def topic_tables(root: str, name: str) -> tuple[TableRef, TableRef]:
    """The log and the latest table."""
    return TableRef.of(root, name, "bronze"), TableRef.of(root, name, "silver")


def is_foreign(spark: SparkSession, table: TableRef, stored: Mapping[str, str] | None) -> bool:
    """Whether a table that is there, by its properties, is no topic's; nor one that a writer of lakelog made in the place of a deleted one."""
    if stored is None or IDENTITY in stored:
        return False
    return '"lakelog' not in (tables.history(spark, table, 1)[0]["userMetadata"] or "")


def refuse_foreign(spark: SparkSession, root: str, name: str) -> None:
    """Refuse to create a topic over what is not lakelog's: the tables and views of a schema are everybody's."""
    taken = [str(table) for table in topic_tables(root, name) if is_foreign(spark, table, table_properties.read(spark, table))]
    if "/" not in root:
        taken += [view for view in views.names(name) if spark.catalog.tableExists(f"{root}.{view}")]
    if taken:
        raise _taken(taken[0], name)


def require_not_lost(spark: SparkSession, root: str, name: str) -> None:
    """Refuse to make a topic anew that the lake lists, while its log is gone and something of its tables is there: that may be all there is of it.

    A deletion that another process is at is waited for.

    Raises:
        Damaged: naming what is there. Nothing was changed.
    """
    if _left(spark, root, name):
        log, _ = topic_tables(root, name)
        with held(spark, log):
            left = _left(spark, root, name)
        if left:
            raise Damaged(
                f"The topic {name} is listed in {root}, but the Delta log of {log} is gone, and what it held is not: {', '.join(map(str, left))}."
                f" Nothing was changed. Put {log} back from a copy. If the deletion of the topic was cut off, or nothing of it is wanted,"
                " delete_topic removes what is there; then create it."
            )


def _left(spark: SparkSession, root: str, name: str) -> list[TableRef]:
    """The tables of a topic whose log is gone that are there, or of which files are; empty where there is a log."""

    def is_left(table: TableRef) -> bool:
        stored = table_properties.read(spark, table)
        return IDENTITY in stored if stored is not None else table.path is not None and holds_files(spark, table.path)

    log, latest = topic_tables(root, name)
    if IDENTITY in (table_properties.read(spark, log) or {}):
        return []
    return [table for table in (log, latest) if is_left(table)]


def _taken(what: str, name: str) -> InvalidRequest:
    return InvalidRequest(
        f"{what} is there already and is not lakelog's: the topic {name} needs that name. Choose another name for the topic. Nothing was"
        " created.", name="TOPIC_ALREADY_EXISTS",
    )  # fmt: skip
