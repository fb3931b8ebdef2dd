"""A topic's tables removed: the intent first, so that writers see it; then everything else, the log last."""

from __future__ import annotations

import contextlib
import os
import uuid
from typing import TYPE_CHECKING

from lakelog.delta import table_properties, tables
from lakelog.delta.filesystem import is_cut_off, names_in, remove, require_removable
from lakelog.delta.location import on_this_disk
from lakelog.delta.lock import held
from lakelog.delta.table_properties import IDENTITY
from lakelog.errors import Conflict, Damaged, Invalid, InvalidRequest, LakelogError
from lakelog.latest import views
from lakelog.log import state
from lakelog.log.tail import true_end
from lakelog.model.log_state import DELETE, Intent
from lakelog.model.names import TableRef
from lakelog.model.topic_log import TopicLog
from lakelog.operations.configure import ATTEMPTS
from lakelog.operations.create import is_foreign, topic_tables
from lakelog.snapshots import maintain, registry

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def announce(log: TopicLog, *, now: int) -> None:
    """Say in the log that the topic is being deleted: appends under way fail, and whoever writes next finishes the deletion.

    A log that cannot be read, or that is of an older format, is deleted without.

    Raises:
        Conflict: other writers were first again and again; nothing was deleted.

    Cost: a small file per partition, in one commit.
    """
    for _ in range(ATTEMPTS):
        try:
            end = true_end(log)
            if end.format < table_properties.FORMAT_VERSION or (end.intent is not None and end.intent.operation == DELETE):
                return
            intent = Intent(DELETE, uuid.uuid4().hex)
            states = {index: tail.state.next(intent.id, intent=intent) for index, tail in end.tails.items()}
            if state.change_state(log, end, states, "intent", now=now):
                return
        except Conflict:
            raise
        except LakelogError:
            return
    raise Conflict(f"{log.name}: other writers were first {ATTEMPTS} times in a row. Nothing was deleted; try again later.")


def own(spark: SparkSession, root: str, name: str) -> list[TableRef]:
    """The tables that are where a topic's belong, half deleted ones too.

    Raises:
        Invalid: one of them is not lakelog's.
    """
    found = []
    for table in topic_tables(root, name):
        try:
            stored = table_properties.read(spark, table)
        except Damaged:  # half deleted
            found.append(table)
            continue
        if is_foreign(spark, table, stored):
            raise Invalid(f"{table} is not lakelog's. Nothing was deleted.", name="NOT_A_TOPIC")
        if stored is not None or (table.path is not None and is_cut_off(spark, table.path)):
            found.append(table)
    return found


def identity(spark: SparkSession, root: str, name: str) -> str | None:
    """The identity of the topic whose log is there now; None where there is none, or it cannot be read. No Spark job."""
    try:
        return (table_properties.read(spark, topic_tables(root, name)[0]) or {}).get(IDENTITY)
    except Damaged:
        return None


def require_droppable(spark: SparkSession, root: str, found: list[TableRef]) -> None:
    """Check, before the deletion is announced, that the folders of tables under a path can be removed from here.

    Raises:
        InvalidRequest: nothing here can remove folders at that place; nothing was deleted.
    """
    if "/" in root:
        for table in found:
            require_removable(spark, str(table))


def drop(spark: SparkSession, root: str, name: str, deleted: str | None) -> None:
    """Remove a topic's views and tables with all their files, the log last: while it exists, nobody else makes a topic of that name.

    What is gone already, or half gone, is passed over. Temporary views of the session are the caller's and stay.

    Args:
        spark: the session.
        root: of the lake.
        name: of the topic.
        deleted: its identity; None where its log was gone, or could not be read. Where the log is another topic's by now, somebody else has
            finished the deletion, and the name is taken again: that topic stays.

    Raises:
        InvalidRequest: nothing here can remove folders at that place, or they stood after that all the same.
    """
    log, latest = topic_tables(root, name)

    def is_another() -> bool:
        return identity(spark, root, name) not in (None, deleted)

    if "/" not in root:
        if not is_another():
            views.drop(spark, name, root)
        copies = {one.copy for one in registry.entries(spark, root) if one.topic == name and one.copy is not None}
        if deleted is not None:
            # Nobody maintains a topic that is gone: copies that the registry does not know go with it.
            copies |= set(maintain.copies(spark, root, name, deleted))
        for table in [*(TableRef.of(root, name, copy) for copy in (*sorted(copies), "quarantine")), latest, log]:
            if not is_another():
                tables.drop(spark, table)
        return
    # Not the folder as a whole: after the log is gone, another process may have begun a topic in it.
    for entry in sorted(names_in(spark, f"{root}/{name}"), key=lambda entry: entry == "bronze"):
        table = TableRef.of(root, name, entry)
        # Looked at under the lock: another topic's table comes to be only after its log, and waits for this lock.
        with held(spark, table), tables.door(table):
            if is_another():
                return
            remove(spark, str(table))
            if table in (log, latest) and table_properties.read(spark, table) is not None and not is_another():
                raise InvalidRequest(f"{table} is still there after its deletion: Spark did not remove it and raised no error. Remove it with the"
                                     " tools of its storage, then delete the topic again.", name="NOT_REMOVABLE")  # fmt: skip
    folder = on_this_disk(spark, f"{root}/{name}")
    if folder is not None:
        with contextlib.suppress(OSError):
            os.rmdir(folder)
