"""The registry: a lake's table of snapshots, ``_lakelog/snapshots`` (in a catalog ``lakelog_snapshots``).

A row per name, and one per snapshot that was taken without a name. It is written after the state that it names is there, in one commit, so a
snapshot can be seen only when it is complete. A MERGE by (topic's identity, key) decides between two writers: one of them inserts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lakelog.arguments import check_text
from lakelog.delta import tables
from lakelog.delta.small_table import SmallTable
from lakelog.delta.statement import interpreted
from lakelog.errors import NotFound
from lakelog.model.config import did_you_mean
from lakelog.model.names import TableRef, literal
from lakelog.model.point_in_time import TIME
from lakelog.model.records import as_datetime
from lakelog.model.snapshot_id import Kept, SnapshotId
from lakelog.results import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = (
    "uuid STRING, key STRING, topic STRING, name STRING, id STRING, epoch INT, ends STRING, version BIGINT, generation BIGINT, rule STRING,"
    " created_at TIMESTAMP, kept_until TIMESTAMP, note STRING, form STRING, copy STRING, automatic BOOLEAN"
)
# What an entry is made of, but for its times.
READ = ("topic", "uuid", "name", "epoch", "ends", "version", "generation", "rule", "note", "copy", "automatic")
# Where its state is.
STATE = ("version", "generation", "rule", "form", "copy")
# Of two snapshots of one name, deleted and taken again, they are the same one.
SAME = "t.created_at = s.created_at"


@dataclass(frozen=True)
class Entry:
    """A row: a topic's snapshot under one name, or without one.

    ``topic`` and ``uuid``: whose it is. ``version``: silver's. ``generation``: silver's (`Progress.generation`). ``copy``: the name of the
    table that it was copied to (``snapshot_…``), None where it is a version of silver. Times are milliseconds.
    """

    topic: str
    uuid: str
    name: str | None
    id: SnapshotId
    version: int
    generation: int
    rule: str
    created: int
    kept_until: int | None = None
    note: str | None = None
    copy: str | None = None
    automatic: bool = False

    @property
    def key(self) -> str:
        """What the row is found by among those of its topic."""
        return f"name {self.name}" if self.name is not None else f"id {self.id.text}"

    @property
    def kept(self) -> Kept:
        """The row as retention sees it."""
        return Kept(self.key, self.id, self.created, self.kept_until)

    def table(self, root: str) -> TableRef | None:
        """The table of its own; None where it is a version of silver."""
        return None if self.copy is None else TableRef.of(root, self.topic, self.copy)

    def result(self, root: str, *, created: bool = False) -> Snapshot:
        """The row as it is answered."""
        from lakelog.model.ordering import OrderingRule

        own = self.table(root)
        return Snapshot(
            self.topic, self.id.text, self.id.epoch, dict(sorted(self.id.ends.items())), self.version, self.name, as_datetime(self.created),
            None if self.kept_until is None else as_datetime(self.kept_until), self.note, str(OrderingRule.from_json(self.rule)),
            "version" if own is None else "table", None if own is None else str(own), self.automatic, created,
        )  # fmt: skip

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Entry:
        """An entry from a row's `READ`, with ``created`` and ``kept_until`` in milliseconds."""
        ends = {int(index): end for index, end in json.loads(row["ends"]).items()}
        values = {name: row[name] for name in READ if name not in ("epoch", "ends")}
        return cls(id=SnapshotId(row["epoch"], ends), created=row["created"], kept_until=row["kept_until"], **values)

    def row(self) -> tuple[Any, ...]:
        """The row in the table's columns."""
        ends = json.dumps({str(index): end for index, end in sorted(self.id.ends.items())})
        times = [None if ms is None else as_datetime(ms) for ms in (self.created, self.kept_until)]
        return (
            self.uuid, self.key, self.topic, self.name, self.id.text, self.id.epoch, ends, self.version, self.generation, self.rule, *times,
            self.note, "version" if self.copy is None else "table", self.copy, self.automatic,
        )  # fmt: skip


def table_of(root: str) -> TableRef:
    """Where a lake's registry is."""
    return TableRef.of(root, "_lakelog", "snapshots")


def entries(spark: SparkSession, root: str, uuid: str | None = None) -> list[Entry]:
    """The snapshots of a topic, or of all topics, lowest epoch first, then lowest end offsets; none where there is no registry yet.

    Cost: at most one small Spark job; no look at the topic's tables.
    """
    from pyspark.sql import functions as F

    rows = _stored(root).read(spark)
    if rows is None:
        return []
    if uuid is not None:
        rows = rows.filter(F.col("uuid") == uuid)
    shown = rows.select(*READ, F.unix_millis("created_at").alias("created"), F.unix_millis("kept_until").alias("kept_until"))
    with tables.door(table_of(root)), interpreted(spark):
        found = shown.collect()
    return in_order(Entry.of(row.asDict()) for row in found)


def in_order(found: Iterable[Entry]) -> list[Entry]:
    """Entries by topic, lowest epoch first, then lowest end offsets."""
    return sorted(found, key=lambda one: (one.topic, one.id.order, one.name or ""))


def listed(held: Sequence[Entry]) -> list[Entry]:
    """Entries as they are shown: those without a name are left out where the same snapshot has one."""
    named = {(one.uuid, one.id.text) for one in held if one.name is not None}
    return [one for one in held if one.name is not None or (one.uuid, one.id.text) not in named]


def named(topic: str, held: Sequence[Entry], text: str, *, any_point: bool = False) -> Entry:
    """Of a topic's entries that of a name or an id, or the ``latest`` or ``earliest`` one.

    Args:
        topic: its name.
        held: its entries.
        text: the name or id.
        any_point: a version or a time would do as well; the error tells so.

    Raises:
        NotFound: there is none; lists what there is.
    """
    check_text("snapshot", text)
    shown = listed(held)
    wanted = {"latest": shown[-1:], "earliest": shown[:1]}.get(text.lower())
    found = [one for one in shown if text in (one.name, one.id.text)] if wanted is None else wanted
    if found:
        return found[0]
    names = [one.name or one.id.text for one in shown]
    others = f" A version of the latest table is possible too, or a time like {TIME}." if any_point else ""
    raise NotFound(
        f"{topic}: there is no snapshot {text}.{did_you_mean(text, names)} Snapshots: {', '.join(names) or 'none'}.{others}",
        name="SNAPSHOT_NOT_FOUND", existing=names,
    )  # fmt: skip


def add(spark: SparkSession, root: str, entry: Entry) -> bool:
    """Write an entry if there is none of its key. Returns whether it was written: of several writers one is told so.

    Raises:
        Conflict: writers of other snapshots were first again and again.

    Cost: one small MERGE; the first one of a lake makes the table.
    """
    return _merged(spark, root, [entry], "WHEN NOT MATCHED THEN INSERT *")


def change(spark: SparkSession, root: str, *changed: Entry, when: str, columns: Sequence[str] = ()) -> bool:
    """Give entries that are there other ``columns``, and the later of two ends of their keep; what others write meanwhile in the rest stays.

    Args:
        spark: the session.
        root: the lake.
        changed: the entries.
        when: a condition on the row that is there (``t``) and the new one (``s``); others stay, as those do that were deleted meanwhile.
        columns: those to be written.

    Returns:
        Whether any was written. Cost and errors as `add`.
    """
    if not changed:
        return False
    values = ", ".join([f"t.{name} = s.{name}" for name in columns] + ["t.kept_until = greatest(t.kept_until, s.kept_until)"])
    return _merged(spark, root, changed, f"WHEN MATCHED AND {SAME} AND {when} THEN UPDATE SET {values}")


def keep_longer(spark: SparkSession, root: str, entry: Entry) -> bool:
    """Keep an entry that is there until its ``kept_until``. Returns False where it was deleted, or kept as long, meanwhile."""
    return change(spark, root, entry, when="t.kept_until < s.kept_until")


def put_in_place(spark: SparkSession, root: str, *changed: Entry) -> bool:
    """Put a state of a silver that was computed anew, or brought back since, in the place of an older one's. Returns False where none was older."""
    other, older = "(t.generation <> s.generation OR t.rule <> s.rule)", "(t.generation < s.generation OR t.version < s.version)"
    return change(spark, root, *changed, when=f"{other} AND {older}", columns=STATE)


def copied(spark: SparkSession, root: str, before: Entry, name: str) -> bool:
    """Say that an entry's state is in a table of its own. Returns False where it is no longer where it was ``before``."""
    held = "NULL" if before.copy is None else literal(before.copy)
    same = f"t.version = s.version AND t.generation = s.generation AND t.copy <=> {held}"
    return change(spark, root, replace(before, copy=name), when=same, columns=("form", "copy"))


def remove(spark: SparkSession, root: str, gone: Sequence[Entry], *, as_known: bool = False) -> None:
    """Take entries out; those that are not there are passed over, ``as_known`` also those whose keep was extended. Cost and errors as `add`."""
    if gone:
        _merged(spark, root, gone, f"WHEN MATCHED AND {SAME}{' AND t.kept_until <=> s.kept_until' if as_known else ''} THEN DELETE")


def forget(spark: SparkSession, root: str, uuid: str) -> None:
    """Take all entries of a topic out that is being deleted."""
    remove(spark, root, entries(spark, root, uuid))


def kept_longer(entry: Entry, kept_until: int | None) -> Entry:
    """The entry with the later of two ends of its keep."""
    later = max(entry.kept_until or 0, kept_until or 0)
    return replace(entry, kept_until=later if entry.name is not None else None)


def _merged(spark: SparkSession, root: str, changed: Sequence[Entry], clauses: str) -> bool:
    return _stored(root).merge(spark, [one.row() for one in changed], on="t.uuid = s.uuid AND t.key = s.key", clauses=clauses)


def _stored(root: str) -> SmallTable:
    return SmallTable(table_of(root), COLUMNS)
