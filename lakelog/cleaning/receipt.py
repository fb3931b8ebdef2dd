"""The receipt of an erased key: what was removed where, and what still holds it until when."""

from __future__ import annotations

from lakelog.cleaning_results import Erased, Holder
from lakelog.delta import filesystem, tables
from lakelog.latest import erased, silver
from lakelog.latest.erased import digest_sql
from lakelog.model.names import TableRef
from lakelog.model.records import as_datetime
from lakelog.model.topic_log import TopicLog
from lakelog.operations import erase
from lakelog.operations.erase import Found, Target
from lakelog.snapshots import maintain, registry

FILES = "Old files go with maintain, or with erase again, once their retention is over; then erase again says so."


def receipt(log: TopicLog, target: Target, found: Found, *, dry_run: bool, now: int) -> Erased:
    """The answer of an erasure.

    Args:
        log: the topic.
        target: the key's digest.
        found: what there was of it before.
        dry_run: it is there still.
        now: the time in milliseconds.

    Cost: the key column of all files of the topic's tables is read, old ones too; the registries.
    """
    mine = [one for one in erased.entries(log.spark, log.root, log.uuid) if one.digest == target.digest]
    removed = {"log": found.records, "silver": found.silver, "quarantine": found.quarantine, "verdicts": found.verdicts}
    held = [] if dry_run else _held(log, target, max((one.at for one in mine), default=now), quoted=found.verdicts > 0, now=now)
    first = min((one.at for one in mine), default=None)
    return Erased(
        log.name, target.digest, dry_run, None if first is None else as_datetime(first), removed, found.live > 0, list(found.snapshots), held,
        found.unread,
    )  # fmt: skip


def _held(log: TopicLog, target: Target, at: int, *, quoted: bool, now: int) -> list[Holder]:
    """What still holds the key: old files, by the tables; snapshots that are versions of silver."""
    held_tables = erase.stored_tables(log)
    files = files_holding(log, target)
    held = []
    for name, table in held_tables.items():
        over = at + retention_ms(log, name)
        if name in files:
            held.append(Holder(f"old files of {table}: time travel shows it", files[name], as_datetime(over), FILES))
        elif table.path is None and over > now:
            held.append(Holder(f"old files of {table}, which a catalog manages: not searched", None, as_datetime(over), FILES))
    held += [
        Holder(
            f"the table {table}, a copy of a snapshot",
            files[name],
            None,
            "Run maintain, which removes copies that nothing needs.",
        )
        for name, table in copies(log).items()
        if name in files
    ]
    if quoted:
        until = as_datetime(at + retention_ms(log, "verdicts"))
        held.append(Holder("old files of the lake's verdicts", None, until, FILES))
    if "silver" in files:
        versions = [one for one in registry.entries(log.spark, log.root, log.uuid) if one.copy is None and one.created <= at]
        held += [
            Holder(
                f"snapshot {one.id.text}, silver version {one.version}", None,
                None if one.kept_until is None else as_datetime(one.kept_until), "It expires by snapshot.retention.ms; delete it to be done sooner.",
            )
            for one in versions
        ]  # fmt: skip
    return held


def copies(log: TopicLog) -> dict[str, TableRef]:
    """The copies of snapshots, those that nothing needs too; in a catalog none, they go with their snapshots."""
    if log.table.path is None:
        return {}
    names = filesystem.names_in(log.spark, f"{log.root}/{log.name}")
    return {name: TableRef.of(log.root, log.name, name) for name in names if name.startswith(maintain.COPY)}


def files_holding(log: TopicLog, target: Target) -> dict[str, int]:
    """Table to how many of its data files on storage, those of old versions too, hold a record of the key; catalog tables are left out.

    Cost: the key column of every file is read.
    """
    from pyspark.sql import functions as F
    from pyspark.sql.types import StructField, StructType

    found = {}
    for name, table in {**erase.stored_tables(log), **copies(log)}.items():
        if table.path is None:
            continue
        every = log.spark.read.options(recursiveFileLookup="true", pathGlobFilter="*.parquet")
        files = every.schema(StructType([StructField("key", log.types.key)])).parquet(table.path)
        with tables.door(table):
            hit = files.filter(f"{digest_sql(log.uuid, log.types.key)} = '{target.digest}'").select(F.col("_metadata.file_path").alias("file")).distinct()
            found[name] = hit.count()
    return {name: count for name, count in found.items() if count}


def retention_ms(log: TopicLog, name: str) -> int:
    """For how long a table's removed files stay, in milliseconds; Delta's default is a week."""
    return silver.stored_retention(log.spark, log.silver) if name == "silver" else 7 * 86_400_000
