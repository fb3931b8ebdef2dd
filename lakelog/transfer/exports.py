"""The exports that a lake knows of: its table ``_lakelog/exports`` (in a catalog ``lakelog_exports``), by which an erased key leaves them too.

A row per topic and directory, entered before the first file of the export is written, and kept: a directory that is not there today, such as one of
a disk that is not mounted, may be there when a key is erased next. What was moved or copied elsewhere is not known.

An export without a key is made beside the old one, file by file, and becomes the export by one move of its manifest; the old files go last. Cut off
before that, the files that the manifest does not name make an import refuse the export (Damaged) until the key is erased again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lakelog.cleaning_results import Holder
from lakelog.delta import frames, tables
from lakelog.delta.lock import held
from lakelog.delta.small_table import SmallTable
from lakelog.delta.statement import interpreted, writing
from lakelog.errors import Conflict, NotFound
from lakelog.latest.erased import digest_sql
from lakelog.model.names import TableRef
from lakelog.model.records import as_datetime
from lakelog.model.topic_log import TopicLog
from lakelog.transfer import manifest
from lakelog.transfer.manifest import LOG, SILVER, Manifest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

COLUMNS = "uuid STRING, topic STRING, directory STRING, exported_at TIMESTAMP"
REMEDY = "Remove the directory, or erase again once it can be read and written from here."


@dataclass(frozen=True)
class InExports:
    """What the exports of a topic hold of a key: how many rows, and what could not be searched, or not be written without it."""

    rows: int
    held: Sequence[Holder]


def table_of(root: str) -> TableRef:
    """Where a lake's list is."""
    return TableRef.of(root, "_lakelog", "exports")


def enter(log: TopicLog, directory: str, *, now: int) -> None:
    """Enter an export that is about to be written. Cost: one small MERGE; the first one of a lake makes the table.

    Raises:
        Conflict: other writers were first again and again.
    """
    row = (log.uuid, log.name, directory, as_datetime(now))
    clauses = "WHEN MATCHED THEN UPDATE SET t.exported_at = s.exported_at WHEN NOT MATCHED THEN INSERT *"
    _stored(log).merge(log.spark, [row], on="t.uuid = s.uuid AND t.directory = s.directory", clauses=clauses)


def find(log: TopicLog, digest: str) -> InExports:
    """How many rows of a key the topic's exports hold. Cost: their keys are read once."""
    return _each(log, lambda directory, said: sum(rows for rows, _ in _held(log, directory, digest).values()))


def remove(log: TopicLog, digest: str) -> InExports:
    """Write the topic's exports without a key; again, and nothing changes. Returns how many rows went, and what still may hold it.

    Cost: the keys of all exports are read; one that holds the key is read and written once, and its new files are read for their checksums.
    """
    # On a disk of this machine one process at a time; elsewhere the second one finds files gone, and is told.
    with held(log.spark, table_of(log.root)):
        return _each(log, lambda directory, said: _without(log, directory, said, digest))


def _stored(log: TopicLog) -> SmallTable:
    return SmallTable(table_of(log.root), COLUMNS)


def _directories(log: TopicLog) -> list[str]:
    from pyspark.sql import functions as F

    rows = _stored(log).read(log.spark)
    if rows is None:
        return []
    with tables.door(table_of(log.root)), interpreted(log.spark):
        return sorted(row[0] for row in rows.filter(F.col("uuid") == log.uuid).select("directory").collect())


def _each(log: TopicLog, of: Callable[[str, Manifest], int]) -> InExports:
    """Something of every export that is there; one that is not whole, or cannot be opened, may hold any key."""
    rows, unknown = 0, []
    for directory in _directories(log):
        try:
            said = manifest.read(directory)
            rows += of(directory, said) if said.uuid == log.uuid else 0
        except NotFound:
            left = manifest.files(directory)
            if left:
                why = "Export to it again, or remove the directory."
                unknown.append(Holder(f"the export {directory}, which was cut off: not searched", len(left), None, why))
        except Exception as error:
            told = str(error).splitlines()[0]
            unknown.append(
                Holder(f"the export {directory}, which could not be searched, or not be written without it: {told}", None, None, REMEDY)
            )
    return InExports(rows, unknown)


def _rows(log: TopicLog, directory: str, side: str) -> DataFrame:
    return log.spark.read.parquet(f"{directory.rstrip('/')}/{side}")


def _is_key(log: TopicLog, digest: str) -> str:
    return f"{digest_sql(log.uuid, log.types.key)} = '{digest}'"


def _held(log: TopicLog, directory: str, digest: str) -> dict[str, tuple[int, int]]:
    """By side how many rows of the key there are, and how many of them the manifest counts."""
    from pyspark.sql import functions as F

    found = {}
    for side in (SILVER, LOG):
        hits = _rows(log, directory, side).filter(_is_key(log, digest))
        sums = frames.sums(hits, held=F.lit(1), counted=F.when(F.col("control").isNull(), 1).otherwise(0))
        found[side] = (sums["held"], sums["counted"])
    return found


def _without(log: TopicLog, directory: str, said: Manifest, digest: str) -> int:
    """Write an export without a key. Returns how many rows went."""
    known = {one.path for one in said.files}
    # What an erasure left that was cut off.
    manifest.remove(directory, [one for one in manifest.files(directory) if one.path not in known])
    gone = _held(log, directory, digest)
    changed = [side for side, (rows, _) in gone.items() if rows]
    if not changed:
        return 0
    for side in changed:
        kept = _rows(log, directory, side).filter(f"NOT {_is_key(log, digest)}")
        with writing(log.spark):
            kept.write.mode("append").parquet(f"{directory.rstrip('/')}/{side}")
    old = [one for one in said.files if one.path.split("/")[0] in changed]
    new = [one for one in manifest.files(directory) if one not in old]
    made = replace(
        said, files=new, rows=said.rows - gone[SILVER][1], records=said.records - gone[LOG][1],
        states={index: _with_holes(state) for index, state in said.states.items()} if LOG in changed else said.states,
    )  # fmt: skip
    manifest.write(directory, made)
    if not {one.path for one in new} <= {one.path for one in manifest.files(directory)}:
        raise Conflict(f"{directory}: another process wrote this export meanwhile.")
    manifest.remove(directory, old)
    return sum(rows for rows, _ in gone.values())


def _with_holes(state: Mapping[str, Any]) -> dict[str, Any]:
    """A partition's state where records may be missing anywhere: readers below its end begin anew, as in a log from which a key was erased."""
    return {**state, "cleaned": state["end"], "deletes_from": state["end"]}
