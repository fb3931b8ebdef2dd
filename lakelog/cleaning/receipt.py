"""The receipt of an erased key: what was removed where, and what still holds it until when."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from lakelog.cleaning_results import Erased, Holder
from lakelog.delta import past, table_properties, tables
from lakelog.errors import Damaged, NotFound
from lakelog.inputs.keys import NamedKey, literal
from lakelog.latest import erased, silver
from lakelog.latest.erased import digest_sql
from lakelog.model.names import TableRef, quoted
from lakelog.model.records import as_datetime
from lakelog.model.topic_log import TopicLog
from lakelog.operations import erase, quotes
from lakelog.operations.erase import Found, Target
from lakelog.snapshots import maintain, registry
from lakelog.transfer.exports import InExports

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

FILES = "Old files go with maintain, or with erase again, once their retention is over; then erase again says so."
COPIES = "Run maintain, which removes copies that nothing needs; in a catalog or on an object store once they are an hour old."
EDGES = "it is the least or greatest key of a data file"
COMMITS = "Delta removes them when it writes a checkpoint after their retention (delta.logRetentionDuration); then erase again says so."
EDGE_FIELDS, PLACE = ("minValues", "maxValues"), ("file", "written")
# Delta writes so much of a text at most, and times in milliseconds, with their zone.
CUT = 32
TIMES = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSS[XXX]", "timeZone": "UTC"}


def receipt(log: TopicLog, key: NamedKey, target: Target, found: Found, outside: InExports, *, dry_run: bool, now: int) -> Erased:
    """The answer of an erasure.

    Args:
        log: the topic.
        key: the key.
        target: its digest.
        found: what there was of it before.
        outside: what there was of it in exports, and those that may hold it still.
        dry_run: it is there still.
        now: the time in milliseconds.

    Cost: the key column of all files of the topic's tables is read, old ones too, and their commit files (in a catalog that of copies of snapshots
    alone); the registries; verdicts and runs.
    """
    mine = [one for one in erased.entries(log.spark, log.root, log.uuid) if one.digest == target.digest]
    removed = {"log": found.records, "silver": found.silver, "quarantine": found.quarantine, "verdicts": found.verdicts, "runs": found.runs}
    removed["exports"] = outside.rows
    held = [] if dry_run else [*_held(log, key, target, max((one.at for one in mine), default=now), found, now=now), *outside.held]
    first = min((one.at for one in mine), default=None)
    return Erased(
        log.name, target.digest, dry_run, None if first is None else as_datetime(first), removed, found.live > 0, list(found.snapshots), held,
        found.unread,
    )  # fmt: skip


def _held(log: TopicLog, key: NamedKey, target: Target, at: int, found: Found, *, now: int) -> list[Holder]:
    """What still holds the key: old files and commit files, by the tables; snapshots that are versions of silver; old files with texts."""
    held_tables = erase.stored_tables(log)
    files, commits = files_holding(log, target), commit_files_holding(log, key, at)
    held = []
    for name, table in held_tables.items():
        over = at + retention_ms(log, name)
        if name in files:
            held.append(Holder(f"old files of {table}: time travel shows it", files[name], as_datetime(over), FILES))
        elif table.path is None and over > now:
            held.append(Holder(f"old files of {table}, which a catalog manages: not searched", None, as_datetime(over), FILES))
        if name in commits:
            held.append(Holder(f"commit files of {table}: {EDGES}", commits[name], as_datetime(at + log_retention_ms(log, name)), COMMITS))
    held += [
        Holder(f"the table {table}, a copy of a snapshot", files.get(name, commits.get(name)), None, COPIES)
        for name, table in copies(log).items()
        if name in files or name in commits or (table.path is None and _holds_row(log, table, target))
    ]
    quoting = quotes.files(log, target.quoted, at)
    until = as_datetime(at + retention_ms(log, "verdicts"))
    held += [Holder(f"old files of the lake's {name}", count, until, FILES) for name, count in quoting.items()]
    if log.table.path is None and (found.verdicts or found.runs):
        held.append(Holder("old files of the lake's verdicts and runs, which a catalog manages: not searched", None, until, FILES))
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
    """The copies of snapshots, those that nothing needs too."""
    return maintain.copies(log.spark, log.root, log.name, log.uuid)


def _holds_row(log: TopicLog, table: TableRef, target: Target) -> bool:
    """Whether a copy in a catalog holds the key; one that cannot be read may, unless it is gone by now. Cost: its keys are read."""
    try:
        with tables.door(table):
            rows = tables.read(log.spark, table)
            return not rows.filter(f"bucket >= 0 AND {digest_sql(log.uuid, log.types.key)} = '{target.digest}'").isEmpty()
    except (Damaged, NotFound):
        return table in copies(log).values()


def files_holding(log: TopicLog, target: Target) -> dict[str, int]:
    """Table to how many of its data files on storage, those of old versions too, hold a record of the key; catalog tables are left out.

    Files that cannot be read count too, as a writer leaves them that was cut off, or refused while it wrote: what they hold nobody knows.

    Cost: the key column of every file is read.
    """
    from pyspark.sql import functions as F
    from pyspark.sql.types import StructField, StructType

    found = {}
    for name, table in {**erase.stored_tables(log), **copies(log)}.items():
        if table.path is None:
            continue
        every = log.spark.read.options(recursiveFileLookup="true", pathGlobFilter="*.parquet", ignoreCorruptFiles="true")
        files = every.schema(StructType([StructField("key", log.types.key)])).parquet(table.path)
        hit = F.expr(f"{digest_sql(log.uuid, log.types.key)} = '{target.digest}'")
        with tables.door(table):
            rows = files.groupBy(F.col("_metadata.file_name").alias("file")).agg(F.count_if(hit).alias("hits")).collect()
        hits = {row["file"]: row["hits"] for row in rows}
        silent = [address for address in past.files(files) if os.path.basename(address) not in hits]
        found[name] = sum(1 for count in hits.values() if count) + sum(not _is_readable(log, address) for address in silent)
    return {name: count for name, count in found.items() if count}


def _is_readable(log: TopicLog, address: str) -> bool:
    """Whether a file is Parquet. Cost: its footer is read."""
    try:
        log.spark.read.parquet(address).schema  # noqa: B018
    except Exception:
        return False
    return True


def commit_files_holding(log: TopicLog, key: NamedKey, at: int) -> dict[str, int]:
    """Table to how many files of its ``_delta_log`` hold the key as the least or greatest of a data file; catalog tables are left out.

    Delta cuts long texts off there: files that show the beginning of such a key count where they were written up to the erasure (``at``, in
    milliseconds). Of a STRUCT each field stands alone: what counts is a data file of which every field is an edge.

    Cost: commit files and checkpoints of the tables whose statistics take the key are read.
    """
    from pyspark.sql import functions as F
    from pyspark.sql.types import StructField, StructType

    edges = StructType([StructField(edge, StructType([StructField("key", log.types.key)])) for edge in EDGE_FIELDS])
    found = {}
    for name, table in {**erase.stored_tables(log), **copies(log)}.items():
        columns = (table_properties.read(log.spark, table) or {}).get("delta.dataSkippingStatsColumns")
        if table.path is None or (columns is not None and not re.search(r"(^|,)\s*key\s*(,|\.|$)", columns)):
            continue
        shown = F.from_json("stats", edges, TIMES)
        place = (F.col("_metadata.file_path").alias("file"), F.unix_millis("_metadata.file_modification_time").alias("written"))
        with tables.door(table):
            hit = None
            for stats in _statistics(log, f"{table.path}/_delta_log", place):
                rows = stats.select("file", "written", shown.alias("edges")).filter(_is_edge(key, at)).select("file").distinct()
                hit = rows if hit is None else hit.unionAll(rows)
            found[name] = 0 if hit is None else hit.count()
    return {name: count for name, count in found.items() if count}


def _statistics(log: TopicLog, folder: str, place: Sequence[Column]) -> list[DataFrame]:
    """The statistics of data files (``stats``, JSON) that commit files, their checksums and checkpoints hold, beside the ``place`` of the file."""
    from pyspark.sql import functions as F

    texts = log.spark.read.options(pathGlobFilter="*.{json,crc}").text(folder).select("value", *place)
    added = texts.select(*PLACE, F.get_json_object("value", "$.add.stats").alias("stats"))
    listed = texts.select(
        *PLACE, F.explode(F.from_json("value", "allFiles ARRAY<STRUCT<stats: STRING>>")["allFiles"]["stats"]).alias("stats")
    )
    points = log.spark.read.options(pathGlobFilter="*.checkpoint*.parquet").schema("add STRUCT<stats: STRING>").parquet(folder)
    points = points.select(*place, F.col("add.stats").alias("stats"))
    return [rows.filter(F.col("stats").isNotNull()) for rows in (added, listed, points)]


def _is_edge(key: NamedKey, at: int) -> Column:
    """Whether the key is the least or greatest of a data file, by its statistics."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import StructType

    parts = [("", key.value, key.kind)]
    if isinstance(key.kind, StructType):
        parts = [(f".{quoted(one.name)}", key.value[n], one.dataType) for n, one in enumerate(key.kind.fields)]
    found, shown = F.lit(True), F.lit(False)
    for path, value, kind in parts:
        # Delta has no edges of the others, and lakelog asks for none of inner structs.
        if value is None or kind.typeName() in ("binary", "boolean", "struct"):
            continue
        hit = F.lit(False)
        for edge in EDGE_FIELDS:
            there = F.col(f"edges.{edge}.key{path}")
            if kind.simpleString() in ("timestamp", "timestamp_ntz"):
                hit = hit | (F.date_trunc("millisecond", there) == F.date_trunc("millisecond", literal(value, kind)))
                continue
            hit = hit | (there == literal(value, kind))
            if isinstance(value, str) and len(value) > CUT:
                hit = hit | (F.substring(there, 1, CUT) == value[:CUT]) & (F.col("written") <= at)
        found, shown = found & F.coalesce(hit, F.lit(False)), F.lit(True)
    return found & shown


def retention_ms(log: TopicLog, name: str) -> int:
    """For how long a table's removed files stay, in milliseconds; Delta's default is a week."""
    return silver.stored_retention(log.spark, log.silver) if name == "silver" else 7 * 86_400_000


def log_retention_ms(log: TopicLog, name: str) -> int:
    """For how long Delta keeps a table's commit files, in milliseconds; its default is 30 days."""
    return silver.stored_retention(log.spark, log.silver) if name == "silver" else 30 * 86_400_000
