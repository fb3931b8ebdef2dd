"""What a caller means by a point of a topic's past: a snapshot's name or id, a version of silver, or a time; and what silver held there."""

from __future__ import annotations

import contextlib
import datetime
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from lakelog.delta import past, tables
from lakelog.delta.errors import files_removed, lost_file
from lakelog.delta.location import on_this_disk
from lakelog.errors import Damaged, LakelogError, NotFound
from lakelog.latest import erased, silver
from lakelog.latest.control_rows import control_rows_of
from lakelog.model.names import TableRef, shown
from lakelog.model.point_in_time import At, is_name, moment
from lakelog.model.positions import SnapshotPlace
from lakelog.model.records import as_datetime
from lakelog.model.topic_log import TopicLog
from lakelog.results import Snapshot
from lakelog.snapshots import registry
from lakelog.snapshots.registry import Entry

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Point = Snapshot | At


@dataclass(frozen=True)
class Place:
    """Where a state of silver is: a version of it (None: as it is), or a copy; ``entry`` where a registered snapshot was named."""

    version: int | None
    copy: TableRef | None = None
    entry: Entry | None = None


def find(log: TopicLog, point: Point) -> Place:
    """Where the state is that a caller means.

    Raises:
        NotFound: there is no such snapshot, or silver's history does not go back so far (SNAPSHOT_NOT_FOUND).
        InvalidRequest: text that is no version, no time, no name and no id.

    Cost: for a name one small Spark job over the registry, for a time one that opens silver's commit files, for a version none.
    """
    if isinstance(point, Snapshot):
        point = point.name or point.id
    if isinstance(point, str) and point.lower() == "now":
        point = None
    if is_name(point):
        entry = named(log, str(point), any_point=True)
        return of(log, entry)
    at = moment(point)
    if isinstance(at, datetime.datetime):
        at = tables.version_at(log.spark, log.silver, at)
    return Place(at)


def place_of(entry: Entry) -> SnapshotPlace:
    """A registered snapshot as readers need to know it."""
    return SnapshotPlace(entry.id.epoch, entry.id.ends, entry.name, entry.version, entry.id.text)


def named(log: TopicLog, text: str, *, any_point: bool = False) -> Entry:
    """The snapshot of a name or an id, or the ``latest`` or ``earliest`` one; ``any_point`` as `registry.named`.

    Raises:
        NotFound: there is none; lists what there is.
    """
    return registry.named(log.name, registry.entries(log.spark, log.root, log.uuid), text, any_point=any_point)


def same(log: TopicLog, snapshot: Snapshot) -> Entry:
    """The very entry that was answered as a snapshot.

    Raises:
        NotFound: it was deleted since (SNAPSHOT_NOT_FOUND).
    """
    wanted = (snapshot.name, snapshot.id, snapshot.created_at)
    for one in registry.entries(log.spark, log.root, log.uuid):
        if (one.name, one.id.text, as_datetime(one.created)) == wanted:
            return one
    raise NotFound(
        f"{log.name}: the snapshot {snapshot.name or snapshot.id} was deleted meanwhile. Nothing was changed.",
        name="SNAPSHOT_NOT_FOUND",
    )


def stored(log: TopicLog, place: Place) -> DataFrame:
    """Silver as it was, all rows and columns, control rows too."""
    if place.copy is not None:
        return tables.read(log.spark, place.copy)
    if place.entry is not None and place.version is not None:
        rows = past.pinned(log.spark, log.silver, place.version)
        _require_same(log, place.entry, rows)
        return rows
    return tables.read(log.spark, log.silver, place.version)


def of(log: TopicLog, entry: Entry) -> Place:
    """Where the state of a registered snapshot is."""
    return Place(entry.version, entry.table(log.root), entry)


def _require_same(log: TopicLog, entry: Entry, rows: DataFrame) -> None:
    """Refuse a version of silver that is not the snapshot: a latest table that was lost and computed anew counts its versions from 0 again.

    Raises:
        NotFound: its control rows do not say the snapshot's end offsets (SNAPSHOT_NOT_FOUND).

    Cost: one small Spark job over one small file.
    """
    require_same(log.name, entry, [row.asDict() for row in control_rows_of(rows, log.silver)])


def require_files(log: TopicLog, rows: DataFrame, version: int) -> None:
    """Refuse a version of silver whose files were removed, where they can be looked for.

    Args:
        log: the topic.
        rows: silver's at that version.
        version: for the message.

    Raises:
        NotFound: a file is not there (SNAPSHOT_NOT_FOUND).

    Cost: Delta's list of the version's files, and a look at each.
    """
    if log.silver.path is None or on_this_disk(log.spark, log.silver.path) is None:
        return
    for address in past.files(rows):
        path = re.sub(r"^file:(//)?(?=/)", "", address)
        if path.startswith("/") and not os.path.exists(unquote(path)):
            raise files_removed(log.silver, version)


@contextlib.contextmanager
def reading(logs: Callable[[str], Iterable[TopicLog]], points: Sequence[Point], table: object) -> Iterator[None]:
    """`tables.door` around what is read of silver at some points: a file that is missing is no damage where only older versions need it.

    Args:
        logs: opens the topics that a file which is missing, given by its path, may belong to.
        points: the points.
        table: for the messages.

    Raises:
        NotFound: in place of `Damaged`: files of an older version were removed (SNAPSHOT_NOT_FOUND).

    Cost: none; where a file is missing, Delta's lists of the versions' files, and a look into that file where the newest version has it too.
    """
    try:
        with tables.door(table):
            yield
    except Damaged as error:
        lost = lost_file(error.__cause__)
        if lost is None:
            raise
        for log in logs(lost):
            version = None
            # A topic of which nothing can be said is not that of the file.
            with contextlib.suppress(LakelogError):
                version = _older_with(log, points, lost)
            if version is not None:
                raise files_removed(log.silver, version) from error
        raise


def _older_with(log: TopicLog, points: Sequence[Point], lost: str) -> int | None:
    """The older version of silver, of those at some points, that needs a file, or a deletion vector of it, without which the newest version can be
    read; None where there is none."""
    newest = tables.newest_version(log.spark, log.silver)
    for point in points:
        try:
            place = find(log, point)
        except NotFound:
            continue
        if place.copy is not None or place.version is None or place.version >= newest:
            continue
        with tables.door(log.silver):
            needs = lost in _files(past.pinned(log.spark, log.silver, place.version))
        if needs:
            return place.version if _is_read_without(log, lost) else None
    return None


def _files(rows: DataFrame) -> set[str]:
    """The files of a version by their paths, as `lost_file` gives one."""
    return {unquote(shown(address)) for address in past.files(rows)}


def _is_read_without(log: TopicLog, lost: str) -> bool:
    """Whether the newest version of silver can be read where something of a file is missing: it has the file no more, or another deletion vector."""
    from pyspark.sql import functions as F

    with tables.door(log.silver):
        rows = tables.read(log.spark, log.silver)
        if lost not in _files(rows):
            return True
    with contextlib.suppress(Damaged), tables.door(log.silver):
        rows.filter(F.col("_metadata.file_name") == os.path.basename(lost)).agg(F.max(F.xxhash64("key"))).collect()
        return True
    return False


def holds(log: TopicLog, entry: Entry, condition: str) -> bool:
    """Whether a snapshot has rows for which a condition of SQL holds.

    One that is lost has none: its version of silver is no more, or is that of a latest table made anew, and nobody can read anything from it.

    Raises:
        Damaged: naming the snapshot: a file of it is missing or broken.
    """
    try:
        held = stored(log, of(log, entry))
    except NotFound:
        return False
    with naming(log, entry):
        return not held.filter(condition).isEmpty()


def require_whole(log: TopicLog, entry: Entry) -> None:
    """Refuse a snapshot that cannot be copied.

    Raises:
        Damaged: as `holds`.

    Cost: all of its rows and columns are read once.
    """
    with naming(log, entry):
        stored(log, of(log, entry)).write.format("noop").mode("overwrite").save()


@contextlib.contextmanager
def naming(log: TopicLog, entry: Entry) -> Iterator[None]:
    """Errors about files of a snapshot name it, with the remedy.

    Raises:
        Damaged: in their place.
    """
    try:
        with tables.door(log.silver):
            yield
    except (Damaged, NotFound) as error:
        name = entry.name or entry.id.text
        raise Damaged(
            f"{log.name}: the snapshot {name} cannot be read as a whole. Bring its files back, or delete it (delete_snapshot), then try again."
            f" The error: {error}", snapshot=name,
        ) from error  # fmt: skip


def require_same(topic: str, entry: Entry, held: Sequence[Mapping[str, Any]]) -> None:
    """Refuse the control rows of a version of silver that are not the snapshot's; as `_require_same`."""
    ends = {row["partition"]: row["offset"] + 1 for row in held}
    if ends != dict(entry.id.ends) or max((row["epoch"] for row in held), default=None) != entry.id.epoch:
        raise NotFound(
            f"{topic}: the snapshot {entry.name or entry.id.text} is lost: silver's version {entry.version} holds another state. The latest table"
            " was made anew since, and counts its versions from 0 again. Delete the snapshot, and take a new one.", name="SNAPSHOT_NOT_FOUND",
            expected=entry.id.text, version=entry.version,
        )  # fmt: skip


def rows(log: TopicLog, point: Point) -> DataFrame:
    """Silver's rows as they were, without control rows, values in the types that the topic has now."""
    return silver.without_control(log, stored(log, find(log, point)))


def rows_to_read_on(log: TopicLog, point: Point) -> DataFrame:
    """`rows`, with the versions of deleted keys whose tombstones have expired, as tombstones without value and headers: a late record loses to them."""
    return silver.with_remembered(log, stored(log, find(log, point))).drop("control")


def diff(log: TopicLog, before: Point, after: Point) -> DataFrame:
    """The live rows that differ between two points: a row per (partition, key) that was added, changed or removed.

    Columns: ``partition``, ``key``, ``change`` (added, changed, removed), ``before`` and ``after`` (the values; NULL where there was no row),
    ``before_offset`` and ``after_offset``. A key whose record was replaced by one with an equal value did not change.

    Cost: two reads of silver and one join by key.
    """
    return compared(log, find(log, before), find(log, after))


def compared(log: TopicLog, before: Place, after: Place) -> DataFrame:
    """`diff` of two places."""
    from pyspark.sql import functions as F

    def side(place: Place, name: str) -> DataFrame:
        live = silver.without_control(log, stored(log, place)).filter(~F.col("tombstone"))
        text = F.to_json(F.struct("value"), erased.JSON).alias(f"{name}_text")
        kept = [F.col("value").alias(name), F.col("offset").alias(f"{name}_offset"), text]
        return live.select(F.col("partition").alias(f"{name}_partition"), F.col("key").alias(f"{name}_key"), *kept)

    old, new = side(before, "before"), side(after, "after")
    same = (F.col("before_partition") == F.col("after_partition")) & F.col("before_key").eqNullSafe(F.col("after_key"))
    joined = old.join(new, same, "full")
    added, removed = F.col("before_offset").isNull(), F.col("after_offset").isNull()
    changed = F.col("before_text") != F.col("after_text")
    place = [F.coalesce(f"after_{name}", f"before_{name}").alias(name) for name in ("partition", "key")]
    kind = F.when(added, "added").when(removed, "removed").otherwise("changed").alias("change")
    shown = ["before", "after", "before_offset", "after_offset"]
    return joined.filter(added | removed | changed).select(*place, kind, *shown)
