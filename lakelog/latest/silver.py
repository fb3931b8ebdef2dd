"""Silver, the latest table: exactly one row per (partition, key), the record the ordering rule puts first.

A merge folds the log from the last merged offset on into silver in **one** MERGE that carries its own progress: control rows in the
reserved bucket -1 hold, per partition, the last merged offset, the epoch, the rule and the counts. The progress commits with the data,
travels back with a RESTORE, and gates the merge: it runs only if the control rows are still what it read, so of two merges at once one
wins and the other starts over. Control rows have ``tombstone = true``: ``WHERE NOT tombstone`` is the live table for any engine.

The costly part of an upsert is to find the rows to replace by key in a large table, three times over in a MERGE. Here one narrow scan
finds them (key and rank only) and drops what loses; the MERGE then joins on the offset of the row to be replaced, a number. Records that
all lose touch no data file.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakelog.delta import table_properties, tables
from lakelog.delta.errors import raised
from lakelog.delta.table_properties import FORMAT, FORMAT_VERSION, IDENTITY
from lakelog.latest.compare import Compared, compare
from lakelog.latest.fill import fill, large
from lakelog.latest.fold import Fold, fold
from lakelog.latest.progress import CONTROL_BUCKET, Progress, digest_sql
from lakelog.model.config import TopicConfig
from lakelog.model.names import TableRef, quoted
from lakelog.model.records import HEADERS, columns, floor_of, instant
from lakelog.model.topic_log import TopicLog

if TYPE_CHECKING:
    import datetime

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

# The gate: a control row that does not find the one it replaces stops the MERGE before anything is committed. It costs no look at the table.
PROGRESS_MOVED = "LAKELOG_PROGRESS_MOVED"
# From this share of the touched buckets' octets on, they are overwritten rather than merged.
MOSTLY = 0.5
STOP = f"WHEN NOT MATCHED THEN INSERT (bucket) VALUES (CAST(raise_error('{PROGRESS_MOVED}') AS INT))"  # noqa: S608


def schema(key: DataType, value: DataType, version: DataType) -> StructType:
    """Silver's columns."""
    return columns(
        bucket="integer", partition="integer", key=key, value=value, headers=HEADERS, timestamp="timestamp", version=version, offset="long",
        epoch="integer", tombstone="boolean", delete_horizon="timestamp", merged_at="timestamp", control="string",
    )  # fmt: skip


def skipping_columns(key: DataType) -> str:
    """The columns whose statistics skip files: keys where Delta can, then the numbers merges look for."""
    from pyspark.sql.types import StructType

    def able(kind: DataType) -> bool:
        return not kind.simpleString().startswith(("binary", "boolean", "struct"))

    if isinstance(key, StructType):
        keys = [f"key.{quoted(field.name)}" for field in key.fields if able(field.dataType)]
    else:
        keys = ["key"] if able(key) else []
    return ",".join(["partition", *keys, "offset", "timestamp"])


# The settings that silver carries as properties of its own.
SHAPING = {"snapshot.retention.ms", "deletion.vectors"}


def delta_properties(settings: TopicConfig) -> dict[str, str]:
    """The Delta properties of silver that follow from a configuration; its versions stay readable for ``snapshot.retention.ms``."""
    seconds = max(1, -(-settings.number("snapshot.retention.ms") // 1000))
    # Delta wants both of them, together.
    kept = dict.fromkeys(("delta.logRetentionDuration", "delta.deletedFileRetentionDuration"), f"interval {seconds} seconds")
    return {**kept, "delta.enableDeletionVectors": str(settings.flag("deletion.vectors")).lower()}


def follow(spark: SparkSession, table: TableRef, settings: TopicConfig) -> None:
    """Give silver the Delta properties that follow from a configuration, where it has others: a lake's default may have changed."""
    stored, wanted = table_properties.read(spark, table) or {}, delta_properties(settings)
    if any(stored.get(name) != text for name, text in wanted.items()):
        # All of them: Delta wants the retentions together.
        table_properties.change(spark, table, wanted)


def create(log: TopicLog, table: TableRef, *, now: int, replace: bool) -> None:
    """Create an empty latest table whose progress stands before the log's first record, or ``replace`` the table there by it."""
    nothing = dict.fromkeys(range(log.partitions), 0)
    state = Progress.start(nothing, nothing, {}, rule=log.rule, uuid=log.uuid, generation=0)
    frame = _control_rows(log, state, list(nothing), now)
    tables.create(frame, table, partitioned_by=("bucket",), properties=_properties(log), replace=replace, user_metadata=state.note())


def _properties(log: TopicLog) -> dict[str, str]:
    """All properties of a latest table."""
    skipping = {"delta.dataSkippingStatsColumns": skipping_columns(log.types.key)}
    return {FORMAT: str(FORMAT_VERSION), IDENTITY: log.uuid, **skipping, **delta_properties(log.config)}


def _control_rows(log: TopicLog, state: Progress, partitions: Sequence[int], now: int, replaces: Progress | None = None) -> DataFrame:
    """Control rows of some partitions in silver's columns; then, where wanted, the offset and digest of the rows they replace."""
    from pyspark.sql import functions as F

    rows = []
    for index in sorted(partitions):
        mark = state.marks[index]
        before = (replaces.marks[index].offset, replaces.marks[index].digest) if replaces else (None, None)
        rows.append((CONTROL_BUCKET, index, mark.offset, mark.epoch, True, mark.control, *before))
    ddl = "bucket INT, partition INT, offset BIGINT, epoch INT, tombstone BOOLEAN, control STRING, match_offset BIGINT, match_digest STRING"
    frame = tables.small_frame(log.spark, ddl, rows).coalesce(1)
    given = {**{name: F.col(name) for name in frame.columns}, "merged_at": instant(now, "partition")}
    fields = schema(log.types.key, log.types.value, log.rule.version_type(log.types.value)).fields
    columns = [given.get(field.name, F.lit(None).cast(field.dataType)).alias(field.name) for field in fields]
    return frame.select(*columns, *(["match_offset", "match_digest"] if replaces else []))


# ---- the merge ----


@dataclass(frozen=True)
class Step:
    """What a merge step is about to do: where it goes to, and counts per partition."""

    start: dict[int, int]
    ends: dict[int, int]
    counts: dict[int, dict[str, int]]

    def total(self, name: str) -> int:
        """A count over all partitions."""
        return sum(counts.get(name, 0) for counts in self.counts.values())


def merge(log: TopicLog, table: TableRef, state: Progress, ends: Mapping[int, int], *, now: int) -> tuple[int | None, Step]:
    """Fold the log up to ``ends`` into silver, in one commit.

    Returns:
        (silver's version, or None when another merge was first: read the progress again; what the step did).

    Raises:
        Conflict: another commit touched the same buckets meanwhile.

    Cost: the slice of the log is read once, silver's keys and ranks once (only the buckets that winners fall into), then a MERGE over
    offsets that rewrites the files with replaced rows, or marks those rows where deletion vectors are on. Where most of the touched buckets
    would be rewritten, they are overwritten in one pass instead of the three of a MERGE. The first merge of a topic reads no silver, and
    where it is large the log twice (fill.py).
    """
    whole = state.empty and large(state.next, ends)
    folded = None if whole else fold(log, state.next, ends)
    compared = fill(log, state.next, ends) if folded is None else compare(log, folded, None if state.empty else table)
    after = state.after(ends, compared.counts)
    moved = [index for index, end in ends.items() if end > state.next[index]]
    control = _control_rows(log, after, moved, now, replaces=state)
    upsert = Upsert(log, table, folded, compared, control, {index: state.marks[index].offset for index in moved}, after.note(), now)
    try:
        version = upsert.overwritten() if whole or _mostly_touched(log, table, compared) else upsert.merged()
    except Exception as error:
        if not raised(error, PROGRESS_MOVED):
            raise
        version = None
    return version, Step(state.next, dict(ends), compared.counts)


def _mostly_touched(log: TopicLog, table: TableRef, compared: Compared) -> bool:
    """Whether rows are to be replaced in files that make up most of the touched buckets: then these are written anew in one pass."""
    if compared.least is None or log.config.flag("deletion.vectors"):
        return False
    share = len(compared.buckets) / log.config.number("silver.buckets")
    return compared.touched >= MOSTLY * share * tables.size(log.spark, table)


@dataclass(frozen=True)
class Upsert:
    """One commit on silver, ready to be written in either of two ways: changes, control rows and the offsets those replace, by partition."""

    log: TopicLog
    table: TableRef
    folded: Fold | None
    compared: Compared
    control: DataFrame
    moved: dict[int, int]
    note: str | None
    now: int

    def merged(self) -> int | None:
        """One MERGE over the offsets of the rows to be replaced."""
        from pyspark.sql import functions as F

        match = F.col("old_offset").alias("match_offset"), F.lit(None).cast("string").alias("match_digest")
        source = _stored(self.log, self.compared.changes, self.now, *match).unionAll(self.control)
        return tables.merge(
            source if self.folded is None else self.folded.hinted(source, "key", "value"),
            self.table,
            on=(
                f"t.bucket IN ({', '.join(map(str, [CONTROL_BUCKET, *self.compared.buckets]))}) AND t.bucket = s.bucket"
                f"{_narrowed(self.log, self.compared, list(self.moved.values()))}"
                " AND t.partition = s.partition AND t.offset = s.match_offset"
                f" AND (s.match_digest IS NULL OR s.match_digest = {digest_sql('t')})"
            ),
            clauses=f"WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED AND s.bucket > {CONTROL_BUCKET} THEN INSERT * {STOP}",
            scatter=self.log.config.number("silver.buckets") > 1,
            user_metadata=self.note,
        )

    def overwritten(self) -> int | None:
        """The touched buckets written anew: the rows that stay, read in the same transaction, and the changes. No shuffle, no outer join.

        The gate is the same: the control rows' digests, read in that transaction, must be those that were known.
        """
        from pyspark.sql import functions as F

        log, compared = self.log, self.compared
        silver = tables.read(log.spark, self.table)
        names = schema(log.types.key, log.types.value, log.rule.version_type(log.types.value)).names
        places = ("bucket", "partition", "offset")
        stays = silver.filter(F.col("bucket").isin(compared.buckets))
        if self.folded is not None:
            replaced = compared.changes.filter("old_offset IS NOT NULL").select("bucket", "partition", F.col("old_offset").alias("offset"))
            stays = stays.join(self.folded.hinted(replaced), list(places), "left_anti")
        controls = silver.filter(F.col("bucket") == CONTROL_BUCKET)
        known = controls.select(F.col("partition").alias("k_partition"), F.expr(digest_sql()).alias("digest"))
        stop = F.raise_error(F.lit(PROGRESS_MOVED)).cast("int")
        gate = F.when(F.col("digest") == F.col("match_digest"), F.lit(CONTROL_BUCKET)).otherwise(stop)
        gated = self.control.join(F.broadcast(known), F.col("partition") == F.col("k_partition"), "left").withColumn("bucket", gate)
        rows = stays.select(*names).unionAll(_stored(log, compared.changes, self.now)).unionAll(gated.select(*names))
        rows = rows.unionAll(controls.filter(~F.col("partition").isin(list(self.moved))).select(*names))
        where = F.col("bucket").isin([CONTROL_BUCKET, *compared.buckets])
        return tables.replace(rows, self.table, where, user_metadata=self.note)


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


def _stored(log: TopicLog, rows: DataFrame, now: int, *more: Column) -> DataFrame:
    """Winners in silver's columns, and then ``more``."""
    from pyspark.sql import functions as F

    fixed = {
        "delete_horizon": F.lit(None).cast("timestamp"),
        "merged_at": instant(now, "partition"),
        "control": F.lit(None).cast("string"),
    }
    fields = schema(log.types.key, log.types.value, log.rule.version_type(log.types.value)).fields
    return rows.select(*[fixed.get(field.name, F.col(field.name)).alias(field.name) for field in fields], *more)


def rebuild(
    log: TopicLog, table: TableRef, state: Progress, ends: Mapping[int, int], *, epochs: Mapping[int, int], now: int
) -> tuple[int | None, Step]:
    """Compute silver anew from the whole log under the topic's present rule, in one commit that replaces all rows.

    A silver that was another log's is replaced, with its columns and properties.

    Cost: the whole log is read, silver is written once. Counts start anew.
    """
    start = dict.fromkeys(ends, 0)
    counts: dict[int, dict[str, int]] = {}
    data = None
    if any(ends.values()):
        compared = fill(log, start, ends) if large(start, ends) else compare(log, fold(log, start, ends), None)
        counts, data = compared.counts, _stored(log, compared.changes, now)
    after = Progress.start(ends, epochs, counts, rule=log.rule, uuid=log.uuid, generation=state.generation + 1)
    control = _control_rows(log, after, list(ends), now)
    rows = control if data is None else data.unionAll(control)
    if state.uuid != log.uuid:
        version = tables.create(
            rows, table, partitioned_by=("bucket",), properties=_properties(log), replace=True, user_metadata=after.note()
        )
    else:
        version = tables.overwrite(rows, table, partitioned_by="bucket", user_metadata=after.note())
    return version, Step(start, dict(ends), counts)


# ---- reading ----


def rows(spark: SparkSession, table: TableRef, at: int | datetime.datetime | None = None) -> DataFrame:
    """Silver without its control rows."""
    from pyspark.sql import functions as F

    return tables.read(spark, table, at).filter(F.col("bucket") > CONTROL_BUCKET).drop("control")
