"""Bronze, a topic's log: an append gives every record its permanent (partition, offset) in one atomic commit.

Layout: partitioned by (partition, segment); a segment is a directory named by its base offset. Beside the records stand *control rows*
(``control`` is JSON), committed with the data they speak of:

- every append writes a ``batch`` row per partition at its last offset: how many records it has there, octets of the segment so far, time of
  its first record, the version of the log that its writer had seen (``after``); the newest is never removed, so the log end can be read
  even where a clean has emptied the log;
- segment -1 of a partition holds its state rows (model/log_state.py), the newest of which says everything.

An append is one INSERT under a guard (guard.py): the log must still end where the offsets of the batch were counted from.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from lakelog.delta import commit_file, past, table_properties, tables
from lakelog.delta.statement import interpreted
from lakelog.errors import Conflict, Damaged, FencedEpoch, InvalidRequest, TopicNotFound
from lakelog.inputs.staging import Batch
from lakelog.log import guard
from lakelog.log.conditions import check
from lakelog.log.notes import note
from lakelog.log.rows import RECORD_COLUMNS, control_frame, control_row, schema
from lakelog.log.state import require_writable, state_row
from lakelog.log.tail import LogEnd, log_end
from lakelog.log.terms import Terms as Terms
from lakelog.log.terms import require_same_settings
from lakelog.log.tokens import TokenKnown
from lakelog.model.log_state import PartitionState
from lakelog.model.mirroring import placed, require_writer
from lakelog.model.names import TableRef
from lakelog.model.records import Types, instant, looked_up, zero
from lakelog.model.segments import Piece, Tail
from lakelog.model.steps import BatchEnd
from lakelog.model.topic_log import TopicLog
from lakelog.model.widening import shaped

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ATTEMPTS = 60
# Below this many records a batch is written as one file.
SMALL = 100_000


def create(
    spark: SparkSession,
    table: TableRef,
    types: Types,
    *,
    partitions: int,
    now: int,
    properties: Mapping[str, str],
    origins: Mapping[int, int] = MappingProxyType({}),
    states: Mapping[int, PartitionState] | None = None,
    rows: DataFrame | None = None,
) -> None:
    """Create the log: per partition a state row (epoch 0, log start 0 or the partition's of ``origins``), in the table's first commit.

    An imported log has ``states`` of its own, and ``rows`` from its start on. State rows bear the topic's identity: an append looks at it.
    """
    topic = properties[table_properties.IDENTITY]
    firsts = {index: PartitionState.first(index, topic, origin=origins.get(index, 0)) for index in range(partitions)}
    frame = control_frame(spark, types, [state_row(one, topic) for one in (states or firsts).values()], now)
    tables.create(
        frame if rows is None else frame.unionAll(rows),
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


# ---- the append ----


def append(
    log: TopicLog, batch: Batch, *, batch_id: str, now: int, terms: Terms, captured: LogEnd
) -> tuple[int, dict[int, Piece], LogEnd | None]:
    """Write a staged batch at the end of its partitions, in one commit; renumber and try again when another writer was there first.

    Args:
        log: the topic's log.
        batch: the staged records.
        batch_id: is in every row of the batch: whatever the statement raises, they are looked for before it is raised, or tried again.
        now: the append's time in milliseconds.
        terms: conditions, token.
        captured: the log's end when the call began; its epoch is the writer's, retries included.

    Returns:
        (bronze's version, the placed pieces, the log's new end unless other writers committed meanwhile).

    Raises:
        ExpectedOffsetMismatch: a condition does not hold; nothing was written.
        FencedEpoch: the log was restored since the call began; nothing was written.
        Refused: the log mirrors a source, or is no mirror of this one; nothing was written.
        TokenKnown: another writer wrote the token meanwhile; it carries the first answer.
        Conflict: others won again and again, changed the settings by which records are let in, or the log is not as of when it was to be
            (LOG_MOVED); nothing was written.
        TopicNotFound: the topic was deleted meanwhile; nothing was written.
        Damaged: as `guard.insert` (then the log is not asked for the batch), or nobody can tell whether it was written (OUTCOME_UNKNOWN).

    Cost: one Spark job for the guard, one for the write; for each lost race, or other failure, a look for the batch and at the log's end more.
    Conditions per key: a scan of the partition's keys for those of the batch.
    """
    touched = terms.touched(batch.shares)
    epoch, current = captured.epoch, captured
    for attempt in range(ATTEMPTS):
        for index in touched:
            if current.tails[index].epoch != epoch:
                raise FencedEpoch(
                    f"{log.table}: the log was restored while the append ran: epoch {current.tails[index].epoch} instead of {epoch}. Nothing was"
                    " written. Read again, then decide.", expected=epoch, actual=current.tails[index].epoch,
                )  # fmt: skip
        require_writable(log, current)
        terms.require_unmoved(current)
        require_writer(log.table, {index: current.tails[index] for index in touched}, terms.mirrored)
        ends = {index: current.tails[index].end for index in touched}
        check(log, batch, terms.expectations, ends, per_key=terms.per_key)
        limits = {"segment_bytes": log.config.number("segment.bytes"), "segment_ms": log.config.roll_ms()}
        pieces = placed(current.tails, batch.shares, terms.mirrored, **limits)
        after = {index: _after(tail, pieces.get(index), batch_id) for index, tail in current.tails.items()}
        text = note(
            "append", batch=batch_id, attempts=attempt + 1, checked=current.version, ends=LogEnd(0, after, current.noted).ends(),
            tails={index: after[index].to_note() for index in pieces},
        )  # fmt: skip
        rows, count = _rows(log, batch, pieces, epoch, batch_id, now, current, terms)
        tails = {index: current.tails[index] for index in touched}
        try:
            version = guard.insert(log, rows, tails, terms.token, now=now, count=count, user_metadata=text)
        except (Damaged, TopicNotFound):
            raise
        except Exception as error:
            # What was raised may have been raised after the commit: the storage's answer was lost, or the commit met itself.
            version = guard.landed(log, pieces, terms.token, batch_id, user_metadata=text, error=error)
            if version is None:
                if not isinstance(error, Conflict):
                    raise
                logging.getLogger("lakelog").warning("%s: another writer was first; try %d of %d", log.table, attempt + 2, ATTEMPTS)
                time.sleep(random.uniform(0, min(4.0, 0.25 * 2 ** min(attempt, 4))))
        if version is not None:
            return version, pieces, _end_after(log, version, batch_id, current, after)
        if terms.token is not None:
            answer = terms.token.remembered(log, now)
            if answer is not None:
                raise TokenKnown(answer)
        current = log_end(log, sorted(current.tails))
        require_same_settings(log)
    raise Conflict(f"{log.table}: other writers were first {ATTEMPTS} times in a row. Nothing was written; try again later.")


def _end_after(log: TopicLog, version: int, batch_id: str, before: LogEnd, tails: dict[int, Tail]) -> LogEnd | None:
    """The log's end after a commit of our own; None where others committed in between, perhaps to partitions we did not touch."""
    if version != before.version + 1:
        return None
    file = commit_file.at(log.spark, log.table, version)
    table_properties.still_hold(log.table, file)
    return LogEnd(version, tails, before.noted, batch_id, file)


def _after(tail: Tail, piece: Piece | None, batch_id: str) -> Tail:
    return tail if piece is None else Tail(tail.partition, piece.end, piece.segment, piece.octets, piece.first_ms, batch_id, tail.state)


def version_of(log: TopicLog, batch_id: str) -> int | None:
    """The version that wrote a batch; None where its commit is gone from the table's history (`tables.version_with`)."""
    return tables.version_with(log.spark, log.table, f'"{batch_id}"')


def _rows(
    log: TopicLog, batch: Batch, pieces: Mapping[int, Piece], epoch: int, batch_id: str, now: int, captured: LogEnd, terms: Terms
) -> tuple[DataFrame, int]:
    """The batch's records with their offsets, and the control rows that go with them, in bronze's columns; and how many these are."""
    from pyspark.sql import functions as F

    given = {
        "epoch": F.lit(epoch),
        "batch": F.lit(batch_id),
        "appended_at": instant(now, "row_order"),
        "control": F.lit(None).cast("string"),
    }
    numbered = _numbered(log, batch, pieces, keeping=terms.mirrored is not None)
    records = numbered.select(
        *[given[column.name].alias(column.name) if column.name in given else F.col(column.name) for column in schema(log.types)]
    )
    after = captured.version
    control = [control_row(index, piece.segment, piece.end - 1, epoch, piece.row(after), batch_id) for index, piece in pieces.items()]
    if terms.token is not None:
        spans = {index: (piece.start, piece.end) for index, piece in pieces.items()}
        control += terms.token.rows(batch_id, epoch, spans, batch.records, captured.ends())
    rows = records.unionAll(control_frame(log.spark, log.types, control, now))
    return rows.coalesce(1) if batch.records <= SMALL else rows, batch.records + len(control)


def _numbered(log: TopicLog, batch: Batch, pieces: Mapping[int, Piece], *, keeping: bool) -> DataFrame:
    """The batch's rows with ``partition``, ``segment`` and ``offset``; ``keeping``: the offset of the record's source, its ``line``."""
    from pyspark.sql import functions as F

    places = [pieces.get(index) for index in range(log.partitions)]
    # Where every record has the same partition, it is a literal, and with it everything that is looked up by it alone.
    index = F.col("partition") + zero("row_order")
    segment = looked_up([piece.segment if piece else -1 for piece in places], index)
    start = looked_up([piece.start if piece else -1 for piece in places], index)
    size = looked_up([piece.end - piece.start if piece else 0 for piece in places], index)
    # A source that gives other rows when it is read again may give them to other partitions.
    changed = F.raise_error(F.lit(tables.SOURCE_CHANGED)).cast("bigint")
    if keeping:
        own = F.when(F.col("line").between(start, start + size - 1) & F.col("problem").isNull(), F.col("line")).otherwise(changed)
        return batch.rows.select("*", segment.alias("segment"), own.alias("offset"))
    offset = F.when(F.col("position") < size, F.col("position") + start).otherwise(changed)
    return batch.located().select("*", segment.alias("segment"), offset.alias("offset"))


# ---- reading ----


def records(log: TopicLog, *, partition: int | None = None, offset: int | None = None, at: int | None = None) -> DataFrame:
    """The log's records (no control rows) from an offset, at a version of bronze or now, unordered, with the columns of `RECORD_COLUMNS`."""
    from pyspark.sql import functions as F

    rows = past.pinned(log.spark, log.table, at).filter((F.col("partition") >= 0) & (F.col("segment") >= 0) & F.col("control").isNull())
    if partition is not None:
        if not 0 <= partition < log.partitions:
            raise InvalidRequest(f"{log.table}: there is no partition {partition}; partitions are 0 to {log.partitions - 1}.")
        rows = rows.filter(F.col("partition") == partition)
    if offset is not None:
        rows = rows.filter(F.col("offset") >= offset)
    value = shaped(F.col("value"), rows.schema["value"].dataType, log.types.value).alias("value")
    return rows.select(*[value if name == "value" else F.col(name) for name in RECORD_COLUMNS])


def between(log: TopicLog, starts: Mapping[int, int], ends: Mapping[int, int], at: int) -> DataFrame:
    """The log's records from ``starts`` to ``ends`` (exclusive) at a version of bronze, as `records`; partitions that do not move are left out.

    Files outside are skipped by their statistics; at least one partition must move.
    """
    from pyspark.sql import functions as F

    spans = {index: (starts[index], end) for index, end in ends.items() if end > starts[index]}
    low, high = min(low for low, _ in spans.values()), max(high for _, high in spans.values())
    first, beyond = ([spans.get(index, (0, 0))[place] for index in range(log.partitions)] for place in (0, 1))
    index, offset = F.col("partition"), F.col("offset")
    # Bounds that skip files by their statistics (a rounded one would read a share of the whole log), then each partition's exact ones.
    rows = records(log, at=at).filter(index.isin(list(spans)) & (offset >= low) & (offset < high))
    return rows.filter((offset >= looked_up(first, index)) & (offset < looked_up(beyond, index)))


def batch_ends(log: TopicLog, after: Mapping[int, int], at: int) -> list[BatchEnd]:
    """Where every append that goes beyond the given offsets ends at a version of bronze, by partition and offset."""
    from pyspark.sql import functions as F

    rows = (
        past.pinned(log.spark, log.table, at)
        .filter((F.col("segment") >= 0) & (F.col("offset") >= min(after.values(), default=0)) & (F.col("partition") >= 0))
        .filter(F.get_json_object("control", "$.type") == "batch")
        # Where a restore cut the log, its last append has a second row.
        .groupBy("batch", "partition", "offset")
        .agg(F.max(F.get_json_object("control", "$.after").cast("bigint")).alias("after"))
        .orderBy("partition", "offset")
    )
    with tables.door(log.table):
        found = rows.collect()
    return [
        BatchEnd(row["batch"], row["partition"], row["offset"] + 1, -1 if row["after"] is None else row["after"])
        for row in found
        if row["offset"] >= after.get(row["partition"], 0)
    ]


def batches_at(log: TopicLog, offsets: Mapping[int, int], at: int) -> dict[int, str]:
    """Partition to the identity of the append that ends at an offset, at a version of bronze; partitions where none does are left out.

    Cost: one small Spark job; files without those offsets are skipped by their statistics.
    """
    from pyspark.sql import functions as F

    table = past.pinned(log.spark, log.table, at).filter((F.col("segment") >= 0) & F.col("control").isNotNull())
    wanted = F.col("partition").isin(sorted(offsets)) & F.col("offset").isin(sorted(set(offsets.values())))
    with tables.door(log.table), interpreted(log.spark):
        rows = table.filter(wanted).select("partition", "offset", "batch").collect()
    return {row["partition"]: row["batch"] for row in rows if offsets[row["partition"]] == row["offset"]}
