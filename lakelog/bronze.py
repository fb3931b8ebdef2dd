"""Bronze, a topic's log: an append gives every record its permanent (partition, offset) in one atomic commit.

Layout: partitioned by (partition, segment); a segment is a directory named by its base offset. Beside the records stand *control rows*
(``control`` is JSON), committed with the data they speak of:

- every append writes a ``batch`` row per partition at its last offset: octets of the segment so far, time of its first record;
  the newest is never removed, so the log end can be read even where a clean has emptied the log;
- segment -1 of a partition holds what changes seldom: epochs, and the base of each new active segment.

An append is one INSERT whose guard reads the tail of every partition it touches inside the same transaction: the newest offset must still
be the one before ours and the epoch the one we know. Plain Delta appends never conflict with each other; this one does (KIP-27, SEMANTICS 81).
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lakelog import delta
from lakelog.delta import TableRef
from lakelog.errors import Conflict, Damaged, InvalidRequest
from lakelog.segments import Piece, Tail, place
from lakelog.sources import ORDER, Types
from lakelog.staging import Batch, Log

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession
    from pyspark.sql.types import StructType

RECORD_COLUMNS = ("partition", "offset", "timestamp", "key", "value", "headers", "tombstone", "epoch")
ATTEMPTS = 60
# Below this many records a batch is written as one file.
SMALL = 100_000


def schema(types: Types) -> StructType:
    """Bronze's columns; what skips files comes first."""
    from pyspark.sql.types import (
        ArrayType,
        BinaryType,
        BooleanType,
        IntegerType,
        LongType,
        StringType,
        StructField,
        StructType,
        TimestampType,
    )

    headers = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
    columns = [
        ("partition", IntegerType()), ("segment", LongType()), ("offset", LongType()), ("timestamp", TimestampType()), ("key", types.key),
        ("value", types.value), ("headers", headers), ("tombstone", BooleanType()), ("epoch", IntegerType()), ("batch", StringType()),
        ("appended_at", TimestampType()), ("control", StringType()),
    ]  # fmt: skip
    return StructType([StructField(name, kind) for name, kind in columns])


def create(spark: SparkSession, table: TableRef, types: Types, *, partitions: int, now: int, properties: Mapping[str, str]) -> None:
    """Create the log: per partition epoch 0 and an empty active segment at offset 0, in the table's first commit."""
    rows = [_control(index, -1, -1, 0, {"type": "epoch", "start": 0}) for index in range(partitions)]
    delta.create(
        _control_frame(spark, types, rows, now),
        table,
        partitioned_by=("partition", "segment"),
        properties={
            "delta.dataSkippingStatsColumns": "offset,timestamp",
            "delta.enableDeletionVectors": "false",
            "delta.enableChangeDataFeed": "false",
            "delta.isolationLevel": "Serializable",
            **properties,
        },
    )


def _control(
    partition: int, segment: int, offset: int, epoch: int, content: Mapping[str, Any], batch: str | None = None
) -> tuple[Any, ...]:
    return (partition, segment, offset, True, epoch, batch, json.dumps(content, sort_keys=True))


def _control_frame(spark: SparkSession, types: Types, rows: list[tuple[Any, ...]], now: int) -> DataFrame:
    from pyspark.sql import functions as F

    ddl = "partition INT, segment BIGINT, offset BIGINT, tombstone BOOLEAN, epoch INT, batch STRING, control STRING"
    frame = delta.small_frame(spark, ddl, rows).coalesce(1).withColumn("appended_at", F.timestamp_millis(F.lit(now)))
    return frame.select(
        *[
            F.col(field.name) if field.name in frame.columns else F.lit(None).cast(field.dataType).alias(field.name)
            for field in schema(types)
        ]
    )


# ---- the log's end ----


def tails(log: Log, partitions: list[int] | None = None) -> dict[int, Tail]:
    """The end of each partition's log (of all, when none are named).

    Cost: two small Spark queries; what they read does not grow with the log: the newest commit's note says where the ends were, and the
    files before them are skipped by their statistics. Where there is no note (another writer's commit), the active segment is scanned.
    """
    wanted = partitions if partitions is not None else list(range(log.partitions))
    hints = _noted_ends(log)
    found = _read_tails(log, wanted, {index: hints.get(index, 0) for index in wanted})
    wrong = [index for index in wanted if found[index].end < hints.get(index, 0)]
    if wrong:
        found |= _read_tails(log, wrong, dict.fromkeys(wrong, 0))
    return found


def _noted_ends(log: Log) -> dict[int, int]:
    """Log ends as the newest append noted them in its commit: a hint where to look, never the truth."""
    for row in delta.history(log.spark, log.table, 1):
        try:
            return {int(index): int(end) for index, end in json.loads(row["userMetadata"] or "{}").get("ends", {}).items()}
        except (ValueError, AttributeError):
            return {}
    return {}


def _read_tails(log: Log, partitions: list[int], hints: Mapping[int, int]) -> dict[int, Tail]:
    from pyspark.sql import functions as F

    table = delta.read(log.spark, log.table)
    columns = ["partition", "segment", "offset", "epoch", "control"]
    mine = F.col("partition").isin(partitions)
    state = table.filter(mine & (F.col("segment") == -1)).select(*columns)
    least = min(hints.values(), default=0) - 1
    batches = table.filter(mine & (F.col("segment") >= 0) & (F.col("offset") >= least) & F.col("control").isNotNull()).select(*columns)
    with delta.door(log.table):
        rows = state.unionAll(batches).collect()
    ends: dict[int, Row] = {}
    bases: dict[int, int] = dict.fromkeys(partitions, 0)
    epochs: dict[int, int] = {}
    for row in rows:
        index = row["partition"]
        if row["segment"] == -1:
            epochs[index] = max(row["epoch"], epochs.get(index, 0))
            bases[index] = max(bases[index], json.loads(row["control"]).get("base", 0))
        elif index not in ends or row["offset"] > ends[index]["offset"]:
            ends[index] = row
    found = {}
    for index in partitions:
        if index not in epochs:
            raise Damaged(f"{log.table}: partition {index} has no epoch row. The log is not as lakelog left it.")
        if index not in ends:
            found[index] = Tail(index, 0, 0, 0, None, epochs[index])
            continue
        newest = ends[index]
        content = json.loads(newest["control"])
        found[index] = Tail(index, newest["offset"] + 1, newest["segment"], content["octets"], content["first"], epochs[index])
    return found


# ---- the append ----


def append(
    log: Log, batch: Batch, *, batch_id: str, now: int, known: Mapping[int, Tail] | None = None
) -> tuple[int, dict[int, Piece], dict[int, Tail]]:
    """Write a staged batch at the end of its partitions, in one commit; renumber and try again when another writer was there first.

    Args:
        batch_id: stands in every row of the batch; a lost answer of the storage is settled by it.
        known: tails as this process last saw them, tried first without a look at the log; the guard proves them.

    Returns:
        (bronze's version, the placed pieces, the new tails).

    Raises:
        Conflict: others won again and again; nothing was written.

    Cost: one look at the tails unless known, one Spark job for the guard, one for the write; more per lost race.
    """
    partitions = sorted(batch.shares)
    current = dict(known) if known and all(index in known for index in partitions) else tails(log)
    for attempt in range(ATTEMPTS):
        pieces = {
            index: place(current[index], batch.shares[index], segment_bytes=log.config.number("segment.bytes"),
                         segment_ms=log.config.number("segment.ms"))
            for index in partitions
        }  # fmt: skip
        after = {index: _after(current[index], pieces.get(index)) for index in current}
        note = json.dumps({"lakelog": "append", "batch": batch_id, "ends": {index: tail.end for index, tail in sorted(after.items())}})
        rows = _rows(log, batch, pieces, current, batch_id, now)
        try:
            version = delta.insert_guarded(rows, log.table, _guard(log, pieces, current), user_metadata=note)
        except Conflict:
            version = _landed(log, pieces, batch_id)
            if version is None:
                time.sleep(random.uniform(0, min(4.0, 0.25 * 2 ** min(attempt, 4))))
        if version is not None:
            return version, pieces, after
        current = tails(log)
    raise Conflict(f"{log.table}: other writers were first {ATTEMPTS} times in a row. Nothing was written; try again later.")


def _after(tail: Tail, piece: Piece | None) -> Tail:
    return tail if piece is None else Tail(tail.partition, piece.end, piece.segment, piece.octets, piece.first_ms, tail.epoch)


def _landed(log: Log, pieces: Mapping[int, Piece], batch_id: str) -> int | None:
    """The version in which our own batch stands where we meant it to, after an answer was lost; None when it does not."""
    from pyspark.sql import functions as F

    piece = next(iter(pieces.values()))
    with delta.door(log.table):
        table = delta.read(log.spark, log.table)
        mine = (F.col("partition") == piece.partition) & (F.col("segment") == piece.segment) & (F.col("offset") == piece.end - 1)
        if not table.filter(mine & (F.col("batch") == batch_id)).limit(1).collect():
            return None
    return int(delta.history(log.spark, log.table, 1)[0]["version"])


def _guard(log: Log, pieces: Mapping[int, Piece], current: Mapping[int, Tail]) -> str:
    """The condition of the INSERT, one scalar subquery over bronze with literal partitions: newest offsets and epochs are as we know them.

    ``segment >= s`` and not a list of segments: a racer that rolls to a new one must be seen. It reads the tail record itself:
    "nothing at or above" would read no file and let a truncation slip in between.
    """
    from_segment = min(current[index].segment for index in pieces)
    starts = " ".join(f"WHEN {index} THEN {piece.start}" for index, piece in pieces.items())
    epochs = " ".join(f"WHEN {index} THEN {current[index].epoch}" for index in pieces)
    begun = sum(1 for piece in pieces.values() if piece.start > 0)
    beyond = f"offset - CASE `partition` {starts} END"
    return (
        f"(SELECT coalesce(max(if(segment >= 0, {beyond}, NULL)), -1) = -1"  # noqa: S608
        f" AND count(DISTINCT if(segment >= 0, `partition`, NULL)) = {begun}"
        f" AND max(if(segment = -1, epoch - CASE `partition` {epochs} END, NULL)) = 0"
        f" FROM {log.table.sql()} WHERE partition IN ({', '.join(map(str, pieces))}) AND (segment = -1 OR segment >= {from_segment})"
        f" AND (segment = -1 OR {beyond} >= -1) AND (offset = -1 OR offset >= {min(piece.start for piece in pieces.values()) - 1}))"
    )


def _rows(log: Log, batch: Batch, pieces: Mapping[int, Piece], current: Mapping[int, Tail], batch_id: str, now: int) -> DataFrame:
    """The batch's records with their offsets, and the control rows that go with them, in bronze's columns."""
    from pyspark.sql import functions as F

    numbered = _numbered(log, batch, pieces)
    columns = {
        "timestamp": F.col("timestamp"), "key": F.col("key"), "value": F.col("value"), "headers": F.col("headers"), "tombstone": F.col("tombstone"),
        "epoch": F.lit(next(iter(current.values())).epoch), "batch": F.lit(batch_id), "appended_at": F.timestamp_millis(F.lit(now)),
        "control": F.lit(None).cast("string"),
    }  # fmt: skip
    records = numbered.select(
        *[F.col(field.name) if field.name not in columns else columns[field.name].alias(field.name) for field in schema(log.types)]
    )
    control = []
    for index, piece in pieces.items():
        epoch = current[index].epoch
        content = {"type": "batch", "octets": piece.octets, "first": piece.first_ms, "records": piece.records}
        control.append(_control(index, piece.segment, piece.end - 1, epoch, content, batch_id))
        if piece.rolls:
            control.append(_control(index, -1, -1, epoch, {"type": "segment", "base": piece.segment}, batch_id))
    rows = records.unionAll(_control_frame(log.spark, log.types, control, now))
    return rows.coalesce(1) if batch.records <= SMALL else rows


def _numbered(log: Log, batch: Batch, pieces: Mapping[int, Piece]) -> DataFrame:
    """The batch's rows with ``partition``, ``segment`` and ``offset``.

    One partition: the position in the request is the position in the partition, no shuffle. Several: numbered by a window per partition.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    if len(pieces) == 1:
        (piece,) = pieces.values()
        if len(batch.bases) == 1:
            place_in_request = F.col("mid") + F.lit(batch.bases[0][3])
            rows = batch.rows
        else:
            frame = delta.small_frame(log.spark, "b_src STRING, b_block BIGINT, b_task BIGINT, b_base BIGINT", batch.bases)
            same = (
                F.col("src").eqNullSafe(F.col("b_src"))
                & (F.col("block") == F.col("b_block"))
                & (F.shiftright("mid", 33) == F.col("b_task"))
            )
            rows = batch.rows.join(F.broadcast(frame), same)
            place_in_request = F.col("mid") + F.col("b_base")
        return rows.withColumn("segment", F.lit(piece.segment).cast("bigint")).withColumn("offset", place_in_request + F.lit(piece.start))
    placed = delta.small_frame(
        log.spark,
        "p_partition INT, segment BIGINT, p_start BIGINT",
        [(piece.partition, piece.segment, piece.start) for piece in pieces.values()],
    )
    position = F.row_number().over(Window.partitionBy("partition").orderBy(*ORDER)).cast("bigint") - 1
    rows = batch.rows.withColumn("position", position)
    rows = rows.join(F.broadcast(placed), F.col("partition") == F.col("p_partition"))
    return rows.withColumn("offset", F.col("p_start") + F.col("position"))


# ---- reading ----


def records(log: Log, *, partition: int | None = None, offset: int | None = None) -> DataFrame:
    """The log's records (no control rows) from an offset, unordered: partition, offset, timestamp, key, value, headers, tombstone, epoch."""
    from pyspark.sql import functions as F

    rows = delta.read(log.spark, log.table).filter((F.col("partition") >= 0) & (F.col("segment") >= 0) & F.col("control").isNull())
    if partition is not None:
        if not 0 <= partition < log.partitions:
            raise InvalidRequest(f"{log.table}: there is no partition {partition}; partitions are 0 to {log.partitions - 1}.")
        rows = rows.filter(F.col("partition") == partition)
    if offset is not None:
        rows = rows.filter(F.col("offset") >= offset)
    return rows.select(*RECORD_COLUMNS)


def batch_ends(log: Log, after: Mapping[int, int]) -> list[tuple[str, int, int]]:
    """(batch, partition, end offset) of every append that ends beyond the given offsets, in the order of partition and offset."""
    from pyspark.sql import functions as F

    rows = (
        delta.read(log.spark, log.table)
        .filter((F.col("segment") >= 0) & (F.col("offset") >= min(after.values(), default=0)) & (F.col("partition") >= 0))
        .filter(F.get_json_object("control", "$.type") == "batch")
        .select("batch", "partition", "offset")
        .orderBy("partition", "offset")
    )
    with delta.door(log.table):
        return [
            (row["batch"], row["partition"], row["offset"] + 1) for row in rows.collect() if row["offset"] >= after.get(row["partition"], 0)
        ]
