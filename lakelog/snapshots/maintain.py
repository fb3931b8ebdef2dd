"""A topic's tables kept in shape: small files written together, snapshots whose time is over removed, old files vacuumed, never past a kept snapshot.

A snapshot that lives on beyond ``snapshot.retention.ms`` would keep every file that was removed since; it is copied into a table of its own, and
silver's retention may go back to what is configured.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from lakelog.delta import filesystem, past, table_properties, tables
from lakelog.delta.lock import held, lock_file
from lakelog.delta.table_properties import IDENTITY
from lakelog.errors import Conflict, Damaged, NotFound
from lakelog.latest import erased, silver
from lakelog.log.notes import note
from lakelog.log.tail import LogEnd
from lakelog.model.names import TableRef
from lakelog.model.topic_log import TopicLog
from lakelog.results import Maintained
from lakelog.snapshots import keeping, point, registry
from lakelog.snapshots.registry import Entry

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COPY, COPY_NAME = "snapshot_", re.compile("snapshot_[0-9a-f]{12}")
# The lake's own tables, to which every run, verdict and position adds a small file; written together where there are many.
OF_LAKE = ("runs", "snapshots", "verdicts", "positions", "erased", "exports")
MANY_FILES = 32
# For how long a copy that nobody entered is left alone where no lock arbitrates.
FRESH_MS = 3_600_000
ATTEMPTS = 20


def maintain(log: TopicLog, end: LogEnd, expired: Sequence[str], *, now: int) -> Maintained:
    """Everything but the expiry of snapshots, which comes before it; each part passes over what is done. See `SnapshotVerbs.maintain`."""
    compacted = {"bronze": _optimized_log(log, end), "silver": _optimized_silver(log)}
    promoted = promote(log, now=now)
    keeping.follow(log, log.config, now=now)
    dropped = drop_unneeded(log)
    vacuumed = [log.table, log.silver]
    if (table_properties.read(log.spark, log.quarantine) or {}).get(IDENTITY) == log.uuid:
        vacuumed.append(log.quarantine)
    for table in vacuumed:
        past.vacuum(log.spark, table, user_metadata=_note(end) if table == log.table else None)
    compacted |= _compacted_lake(log)
    files = {name: (removed, added) for name, (removed, added) in compacted.items() if removed}
    return Maintained(log.name, files, list(expired), promoted, dropped, [str(table) for table in vacuumed])


def _note(end: LogEnd) -> str:
    """The note of a commit on bronze that changes no record."""
    return note("maintain", checked=end.version, ends=end.ends())


def _optimized_log(log: TopicLog, end: LogEnd) -> tuple[int, int]:
    """Bronze's closed segments: nobody appends to them."""
    closed = [
        f"(partition = {index} AND segment >= 0 AND segment < {tail.active})" for index, tail in sorted(end.tails.items()) if tail.active
    ]
    return past.optimize(log.spark, log.table, " OR ".join(closed), user_metadata=_note(end)) if closed else (0, 0)


def _optimized_silver(log: TopicLog) -> tuple[int, int]:
    """The rows, without the progress, which every merge writes anew; a table that lost its partitioning (someone overwrote it) as a whole."""
    parted = tables.partition_columns(log.spark, log.silver) == ("bucket",)
    return past.optimize(log.spark, log.silver, "bucket >= 0" if parted else None)


def _compacted_lake(log: TopicLog) -> dict[str, tuple[int, int]]:
    """Write the files of the lake's own tables together, and vacuum those tables. One that others write meanwhile is left to the next time."""
    compacted = {}
    for name in OF_LAKE:
        table = TableRef.of(log.root, "_lakelog", name)
        if table_properties.read(log.spark, table) is None or len(past.files(tables.read(log.spark, table))) < MANY_FILES:
            continue
        try:
            compacted[f"_lakelog/{name}"] = past.optimize(log.spark, table)
            past.vacuum(log.spark, table)
        except Conflict as error:
            logging.getLogger("lakelog").warning(
                "%s: %s is written by others, its files are left to the next time: %s", log.name, table, error
            )
    return compacted


def promote(log: TopicLog, *, now: int) -> list[str]:
    """Copy the snapshots that have outlived ``snapshot.retention.ms`` into tables of their own. Returns their names, or ids.

    Cost: the copy is as large as the snapshot.
    """
    here = [one for one in registry.entries(log.spark, log.root, log.uuid) if one.copy is None]
    if not here:
        return []
    ages, retention, done = past.ages(log.spark, log.silver), silver.retention(log.config), []
    for one in here:
        if ages.get(one.version, 0) <= retention:
            continue
        # A copy that was cut off before a key was erased is not taken for this one.
        text = f"{one.uuid} {one.id.text} {one.version} {len(erased.entries(log.spark, log.root, log.uuid)) or ''}".rstrip()
        try:
            if own_table(log, one, copy_name(text)):
                done.append(one.name or one.id.text)
        except NotFound as error:
            logging.getLogger("lakelog").warning("%s", error)
    return done


def leave_out_erased(log: TopicLog, name: str | None) -> None:
    """Copy a snapshot that was named just now, of a version from before a key was erased, into a table of its own without that key.

    Cost: none where the topic has no erasures; else the keys of the version are read, and it is copied where it holds an erased one.
    """
    gone = erased.entries(log.spark, log.root, log.uuid)
    if name is None or not gone:
        return
    for one in registry.entries(log.spark, log.root, log.uuid):
        if one.name == name and one.copy is None:
            rows = past.pinned(log.spark, log.silver, one.version).filter("bucket >= 0")
            with tables.door(log.silver):
                if rows.count() > erased.without(rows, log.uuid, gone).count():
                    own_table(log, one, copy_name(f"{one.uuid} {one.id.text} {one.version} {len(gone)}"))


def copy_name(text: str) -> str:
    """The name of the table for a copy, from what tells that copy from every other one."""
    return f"{COPY}{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def own_table(log: TopicLog, one: Entry, name: str) -> bool:
    """Copy a snapshot into a table of its own, and enter that in the registry. Returns False where the snapshot was changed or deleted meanwhile.

    A `drop_copy` that looked at the registry before the entry removes the table: so it is looked for once more after it, when such a one is done.

    Raises:
        NotFound: the snapshot cannot be read.
        Conflict: the copy was removed again and again.
    """
    table = TableRef.of(log.root, log.name, name)
    _copy(log, one, table)
    if not registry.copied(log.spark, log.root, one, name):
        return False
    for _ in range(ATTEMPTS):
        with held(log.spark, table):
            if _is_there(log, table):
                return True
        _copy(log, one, table)
    raise Conflict(f"{log.name}: others removed the copy of the snapshot {one.name or one.id.text} again and again. Try again.")


def _is_there(log: TopicLog, table: TableRef) -> bool:
    return (table_properties.read(log.spark, table) or {}).get(IDENTITY) == log.uuid


def _copy(log: TopicLog, one: Entry, table: TableRef) -> None:
    """Copy a snapshot into a table, in one commit, without keys that were erased since; one that is there already is whole."""
    if _is_there(log, table):
        return
    rows = point.stored(log, point.of(log, one))
    rows = erased.without(rows, log.uuid, erased.entries(log.spark, log.root, log.uuid))
    try:
        tables.create(rows, table, partitioned_by=("bucket",), properties=silver.table_settings(log))
    except Conflict:
        table_properties.wait_for(log.spark, table, IDENTITY, log.uuid)


def copies(spark: SparkSession, root: str, topic: str, uuid: str) -> dict[str, TableRef]:
    """The copies of a topic's snapshots (``snapshot_…``) by name, whether the registry knows them or not.

    In a catalog tables of others may have such names, and so may the view of another topic: only those with the topic's identity are its copies, and
    those that cannot be read may be.

    Cost: the names in the topic's folder, or those in the schema and a look at the properties of each table with such a name.
    """
    if "/" in root:
        names = [name for name in filesystem.names_in(spark, f"{root}/{topic}") if name.startswith(COPY)]
        return {name: TableRef.of(root, topic, name) for name in names}
    names = [name.removeprefix(f"{topic}_") for name in tables.names(spark, root, f"{topic}_{COPY}")]
    found = {name: TableRef.of(root, topic, name) for name in names if COPY_NAME.fullmatch(name)}
    return {name: table for name, table in found.items() if _may_be_of(spark, table, uuid)}


def _may_be_of(spark: SparkSession, table: TableRef, uuid: str) -> bool:
    try:
        return (table_properties.read(spark, table) or {}).get(IDENTITY) == uuid
    except Damaged:
        return True


def drop_unneeded(log: TopicLog) -> list[str]:
    """Remove copies that no snapshot needs any more. Returns their names. One of unknown age, as it cannot be read, is left with a warning."""
    # The copies before the registry: what is entered while this goes on is in it.
    found = copies(log.spark, log.root, log.name, log.uuid)
    needed = {one.copy for one in registry.entries(log.spark, log.root, log.uuid)}
    dropped = []
    for name in found:
        try:
            if name not in needed and drop_copy(log, name):
                dropped.append(name)
        except Damaged as error:
            logging.getLogger("lakelog").warning("%s: a copy that no snapshot needs is left: %s", log.name, error)
    return dropped


def drop_copy(log: TopicLog, name: str) -> bool:
    """Remove a copy with its files, if no snapshot needs it. Returns whether it did.

    Where nothing arbitrates between two processes (no `lock`: in a catalog, on an object store), a copy of the last hour stays, and one that is no
    table yet: somebody may be about to enter it (`own_table`).
    """
    table = TableRef.of(log.root, log.name, name)
    try:
        with held(log.spark, table), tables.door(table):
            if name in {one.copy for one in registry.entries(log.spark, log.root, log.uuid)}:
                return False
            if lock_file(log.spark, table) is None and min(past.ages(log.spark, table).values()) < FRESH_MS:
                return False
            if table.path is None:
                tables.drop(log.spark, table)
            else:
                filesystem.remove(log.spark, table.path)
    except NotFound:
        return False
    return True
