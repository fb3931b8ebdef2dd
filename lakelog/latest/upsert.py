"""One commit on silver: the changes of a fold and all control rows, by a MERGE, by overwriting buckets, or by computing silver anew.

The costly part of an upsert is to find the rows to replace by key in a large table, three times over in a MERGE. Here one narrow scan
finds them (key and rank only) and drops what loses; the MERGE then joins on the offset of the row to be replaced, a number. Records that
all lose touch no data file.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lakelog.delta import tables
from lakelog.delta.errors import condition_of, raised
from lakelog.delta.lock import LOCKED
from lakelog.errors import Conflict
from lakelog.latest import silver
from lakelog.latest.compare import Compared, compare, more_than_once
from lakelog.latest.control_rows import CONTROL_BUCKET, fingerprint_of
from lakelog.latest.fill import fill, large
from lakelog.latest.fold import Fold, fold
from lakelog.latest.progress import LogPlace, Progress, digest_sql
from lakelog.model.names import TableRef
from lakelog.model.records import floor_of
from lakelog.model.topic_log import TopicLog

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# The gate: a control row that does not find the one it replaces stops the MERGE before anything is committed. It costs no look at the table.
PROGRESS_MOVED = "LAKELOG_PROGRESS_MOVED"
# From this share of the touched buckets' octets on, they are overwritten rather than merged.
MOSTLY = 0.5
STOP = f"WHEN NOT MATCHED THEN INSERT (bucket) VALUES (CAST(raise_error('{PROGRESS_MOVED}') AS INT))"  # noqa: S608


@dataclass(frozen=True)
class Step:
    """What a merge step is about to do: where it goes to, counts per partition, and the first records that were late after a delete."""

    start: dict[int, int]
    ends: dict[int, int]
    counts: dict[int, dict[str, int]]
    late_after_delete: list[dict[str, Any]] = field(default_factory=list)

    def total(self, name: str) -> int:
        """A count over all partitions."""
        return sum(counts.get(name, 0) for counts in self.counts.values())


@dataclass(frozen=True)
class Winners:
    """What a merge is about to write: the changed ``rows``, the ``step``, and the version of silver it begins at (None: there is no silver).

    ``places``: up to where in the log it goes. ``rows`` have the record's columns, the version, and unless ``anew`` (silver is computed anew) or
    silver holds none, ``old_offset`` and ``old_tombstone`` of the row that each replaces.
    """

    rows: DataFrame
    step: Step
    version: int | None
    places: Mapping[int, LogPlace]
    anew: bool = False


Admit = Callable[[Winners], None]


def merge(
    log: TopicLog, state: Progress, places: Mapping[int, LogPlace], *, bronze_version: int, now: int, admit: Admit | None = None
) -> tuple[int | None, Step]:
    """Fold the log up to ``places`` into silver, in one commit.

    Bronze is read at ``bronze_version``, silver at the version of ``state``. The commit holds only if every control row of silver is still
    as in ``state``: whatever changes silver or rewrites the log (a merge, a rebuild, a restore) changes those. ``admit`` is shown what is about
    to be written, and raises where that must not be.

    Returns:
        (silver's version, or None when another merge was first: read the progress again; what the step did).

    Raises:
        Conflict: another commit touched the same buckets meanwhile.
        Damaged: silver holds a key of the slice more than once.

    Cost: the slice of the log is read once, silver's keys and ranks once (only the buckets that winners fall into), then a MERGE over
    offsets that rewrites the files with replaced rows, or marks those rows where deletion vectors are on. Where most of the touched buckets
    would be rewritten, they are overwritten in one pass instead of the three of a MERGE. The first merge of a topic reads no silver, and
    where it is large the log twice (fill.py).
    """
    table, ends = log.silver, {index: place.end for index, place in places.items()}
    whole = state.empty and large(state.next, ends)
    folded = None if whole else fold(log, state.next, ends, bronze_version)
    silver_version = None if state.empty else state.version
    compared = fill(log, state.next, ends, bronze_version) if folded is None else compare(log, folded, silver_version)
    if admit is not None:
        admit(Winners(compared.changes, Step(state.next, ends, compared.counts), state.version, places))
    after = state.after(places, compared.counts)
    upsert = Upsert(log, table, folded, compared, state, after, now)
    try:
        version = upsert.overwritten() if whole or _mostly_touched(log, table, compared) else upsert.merged()
    except Exception as error:
        if condition_of(error).startswith("DELTA_MULTIPLE_SOURCE_ROW"):
            raise more_than_once(log, "two rows alike") from error
        if not raised(error, PROGRESS_MOVED):
            raise
        version = None
    return version, Step(state.next, ends, compared.counts, compared.late_after_delete)


def write_progress(log: TopicLog, before: Progress, after: Progress, *, now: int) -> bool:
    """Replace silver's control rows in one commit and nothing else. Returns False when they are no longer as in ``before``."""
    control = silver.control_frame(log, after, now, replaces=before)
    try:
        tables.merge(
            control,
            log.silver,
            on=f"t.bucket = {CONTROL_BUCKET} AND t.bucket = s.bucket AND t.partition = s.partition AND s.match_digest = {digest_sql('t')}",
            clauses=f"WHEN MATCHED THEN UPDATE SET * {STOP}",
            scatter=False,
            user_metadata=after.note(),
        )
    except Conflict as error:
        if error.name == LOCKED:
            raise
        return False
    except Exception as error:
        if not raised(error, PROGRESS_MOVED):
            raise
        return False
    return True


def _mostly_touched(log: TopicLog, table: TableRef, compared: Compared) -> bool:
    """Whether rows are to be replaced in files that make up most of the touched buckets: then these are written anew in one pass."""
    if compared.least is None or log.config.flag("deletion.vectors"):
        return False
    share = len(compared.buckets) / log.config.number("silver.buckets")
    return compared.touched >= MOSTLY * share * tables.size(log.spark, table)


@dataclass(frozen=True)
class Upsert:
    """One commit on silver, ready to be written in either of two ways: the changes, and all control rows before and after it."""

    log: TopicLog
    table: TableRef
    folded: Fold | None
    compared: Compared
    before: Progress
    after: Progress
    now: int

    def merged(self) -> int | None:
        """One MERGE over the offsets of the rows to be replaced."""
        from pyspark.sql import functions as F

        match = F.col("old_offset").alias("match_offset"), F.lit(None).cast("string").alias("match_digest")
        control = silver.control_frame(self.log, self.after, self.now, replaces=self.before)
        source = silver.stored_rows(self.log, self.compared.changes, self.now, *match).unionAll(control)
        return tables.merge(
            source if self.folded is None else self.folded.hinted(source, "key", "value"),
            self.table,
            on=(
                f"t.bucket IN ({', '.join(map(str, [CONTROL_BUCKET, *self.compared.buckets]))}) AND t.bucket = s.bucket"
                f"{_narrowed(self.log, self.compared, [mark.offset for mark in self.before.marks.values()])}"
                " AND t.partition = s.partition AND t.offset = s.match_offset"
                f" AND (s.match_digest IS NULL OR s.match_digest = {digest_sql('t')})"
            ),
            clauses=f"WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED AND s.bucket > {CONTROL_BUCKET} THEN INSERT * {STOP}",
            scatter=self.log.config.number("silver.buckets") > 1,
            user_metadata=self.after.note(),
        )

    def overwritten(self) -> int | None:
        """The touched buckets written anew: the rows that stay, read in the same transaction, and the changes. No shuffle, no outer join.

        The gate is the same: the control rows, read in that transaction, must be those that were known.
        """
        from pyspark.sql import functions as F

        log, compared = self.log, self.compared
        held = tables.read(log.spark, self.table)
        names = silver.schema(log.types.key, log.types.value, log.rule.version_type(log.types.value)).names
        places = ("bucket", "partition", "offset")
        stays = held.filter(F.col("bucket").isin(compared.buckets))
        if self.folded is not None:
            replaced = compared.changes.filter("old_offset IS NOT NULL").select("bucket", "partition", F.col("old_offset").alias("offset"))
            stays = stays.join(self.folded.hinted(replaced), list(places), "left_anti")
        rows = stays.select(*names).unionAll(silver.stored_rows(log, compared.changes, self.now))
        rows = rows.unionAll(gated(silver.control_frame(log, self.after, self.now), held, self.before.fingerprint))
        where = F.col("bucket").isin([CONTROL_BUCKET, *compared.buckets])
        return tables.replace(rows, self.table, where, user_metadata=self.after.note())


def gated(control: DataFrame, held: DataFrame, known: str) -> DataFrame:
    """Control rows that stop the statement unless silver's, read in the same transaction, are those known by their fingerprint."""
    from pyspark.sql import functions as F

    stop = F.raise_error(F.lit(PROGRESS_MOVED)).cast("int")
    gate = F.when(F.col("fingerprint") == F.lit(known), F.col("bucket")).otherwise(stop)
    rows = control.join(F.broadcast(fingerprint_of(held)), F.lit(True), "left").withColumn("bucket", gate)
    return rows.select(*control.columns)


def _narrowed(log: TopicLog, compared: Compared, progress: list[int]) -> str:
    """A condition on silver alone that holds for every row to be replaced, so that the others are dropped where they are read.

    With deletion vectors a MERGE shuffles the whole target to find the new keys (an outer join that cannot broadcast the source); a bitmap
    of the offsets to be replaced leaves it little to shuffle. Without them every row of a touched file is read and written anyway.
    """
    if log.config.flag("deletion.vectors") and compared.replaced is not None:
        return f" AND {bitmap('t.offset', {*progress, *compared.replaced})}"
    floor = floor_of(min([*([compared.least] if compared.least is not None else []), *progress]))
    return f" AND t.offset >= {floor}" if floor else ""


def bitmap(column: str, offsets: Collection[int]) -> str:
    """A condition that holds for all of some offsets and for few others: one bit for each offset, by its lowest binary digits.

    One literal, however many offsets there are: thousands of literals in an ``IN`` cost more to plan than the statement to run.
    """
    bits = min(max(64, 1 << (64 * len(offsets) - 1).bit_length()), 1 << 21)
    words = [0] * (bits // 64)
    for offset in offsets:
        words[(offset & (bits - 1)) >> 6] |= 1 << (offset & 63)
    signed = ",".join(str(word - (1 << 64) if word >> 63 else word) for word in words)
    word = f"CAST(split('{signed}', ',') AS ARRAY<BIGINT>)[CAST(shiftright({column} & {bits - 1}, 6) AS INT)]"
    return f"getbit({word}, CAST({column} & 63 AS INT)) = 1"
