"""Which records of the log go and why, counted; and the segments written again without them, a bounded run of them a commit.

A delete that goes takes something with it that the rest of the log may not tell. That of an expired tombstone: that its key is gone. That of a
barrier (a delete without a version, under ``tombstone.unversioned=win_by_offset``) which a later record of its key superseded: that nothing before
it counts. The record that superseded it may have a lower version than one before the barrier, so it does not tell this by itself: who holds that
earlier record, a reader or a snapshot, must not read on from below the barrier. Both raise the offset from which on the log tells every delete
(``PartitionState.deletes_from``). The cleaner does not ask whether somebody holds such a record, or whether a later barrier tells the same: it
knows of the latest table the offsets alone. Barriers are not kept longer for slow readers: any later record of a key removes a delete before it
(SEMANTICS 36).
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from lakelog.cleaning.plan import Segment, spans
from lakelog.cleaning.segments import by_partition
from lakelog.cleaning.winners import due
from lakelog.delta import past, tables
from lakelog.delta.errors import raised
from lakelog.delta.statement import FEW, interpreted
from lakelog.errors import Conflict, LakelogError
from lakelog.log.guard import STATE_MOVED, states_hold
from lakelog.log.notes import note
from lakelog.log.rows import STATE_SEGMENT, any_of, in_segments
from lakelog.log.tail import LogEnd
from lakelog.model.records import header_octets, looked_up, octets
from lakelog.model.topic_log import TopicLog
from lakelog.model.widening import shaped

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Segments of fewer octets together are written by one task, a file a segment.
SMALL = 8 << 20


@dataclass(frozen=True)
class Drops:
    """What goes from a segment, by reason, in records and in octets; the last offset that goes; of the deletes that the log must not be read
    without, expired tombstones and superseded barriers, the last one's (-1: none)."""

    superseded: int = 0
    expired: int = 0
    unkeyed: int = 0
    superseded_octets: int = 0
    expired_octets: int = 0
    unkeyed_octets: int = 0
    last: int = -1
    last_delete: int = -1

    @property
    def records(self) -> int:
        """All of them."""
        return self.superseded + self.expired + self.unkeyed

    @property
    def octets(self) -> int:
        """Of all of them."""
        return self.superseded_octets + self.expired_octets + self.unkeyed_octets


def drops(
    log: TopicLog, rows: DataFrame, end: LogEnd, to: Mapping[int, int], segments: Mapping[int, Sequence[Segment]], *, now: int
) -> tuple[dict[tuple[int, int], Drops], dict[int, LakelogError]]:
    """(Partition, segment) to what goes from it; segments from which nothing goes are left out; partitions that cannot be read, and why.

    Args:
        log: the topic.
        rows: the latest table (`winners`).
        end: the log's end; it is read at that version.
        to: of the partitions that are cleaned, the end of the cleanable part; of others only expired tombstones go.
        segments: partition to the segments that are looked at.
        now: the time in milliseconds.

    Cost: one Spark job: the records of these segments are read, their offsets joined with those of the latest table. Where
    that fails, one for each partition.
    """
    looked_at = {index: [one.base for one in held] for index, held in segments.items() if held}
    if not looked_at:
        return {}, {}

    def look(chosen: Collection[int]) -> dict[tuple[int, int], Drops]:
        return _counted(log, rows, end, to, {index: looked_at[index] for index in chosen}, now)

    return by_partition(looked_at, look)


def _counted(
    log: TopicLog, rows: DataFrame, end: LogEnd, to: Mapping[int, int], chosen: Mapping[int, Sequence[int]], now: int
) -> dict[tuple[int, int], Drops]:
    """What goes from these segments of partitions."""
    from pyspark.sql import functions as F

    stored = past.pinned(log.spark, log.table, end.version).filter(in_segments(chosen) & F.col("control").isNull())
    stored = stored.withColumn("value", shaped(F.col("value"), stored.schema["value"].dataType, log.types.value))
    barrier = F.col("tombstone") & log.rule.version().isNull() if log.rule.barriers else F.lit(False)
    size = F.expr(f"{octets('key', log.types.key)} + {octets('value', log.types.value)}") + header_octets(F.col("headers"))
    records = stored.select(
        "partition", "segment", "offset", F.col("key").isNull().alias("keyless"), barrier.alias("barrier"), size.alias("octets")
    )
    held = rows.filter(~F.col("remembered") & F.col("partition").isin(sorted(chosen))).select("partition", "offset", due(now).alias("due"))
    joined = records.join(held, ["partition", "offset"], "left")
    below = F.col("offset") < looked_up([to.get(index, -1) for index in range(log.partitions)], F.col("partition"))
    expired = F.coalesce("due", F.lit(False))
    unkeyed = below & F.col("keyless")
    superseded = below & ~F.col("keyless") & F.col("due").isNull()
    goes = expired | unkeyed | superseded
    reasons = {"superseded": superseded, "expired": expired, "unkeyed": unkeyed}
    found = (
        joined.filter(goes).groupBy("partition", "segment")
        .agg(
            *[F.count_if(one).alias(name) for name, one in reasons.items()],
            *[F.coalesce(F.sum(F.when(one, F.col("octets"))), F.lit(0)).alias(f"{name}_octets") for name, one in reasons.items()],
            F.max("offset").alias("last"),
            F.coalesce(F.max(F.when(expired | (superseded & F.col("barrier")), F.col("offset"))), F.lit(-1)).alias("last_delete"),
        )
    )  # fmt: skip
    with tables.door(log.table):
        return {
            (row["partition"], row["segment"]): Drops(**{one.name: int(row[one.name]) for one in fields(Drops)}) for row in found.collect()
        }


def rewrite(log: TopicLog, rows: DataFrame, end: LogEnd, run: Sequence[tuple[int, Segment]], to: Mapping[int, int], *, now: int) -> int:
    """Write closed segments again without what goes, in one commit. Batch rows stay, so that the log's places can be found.

    The commit holds only if the state of these partitions is still as in ``end``: a restore or truncation that was begun meanwhile stops it.
    Appends to the active segments go on beside it.

    Args:
        log: the topic.
        rows: the latest table (`winners`).
        end: the log's end, with the state that a clean wrote before.
        run: closed segments, each with its partition.
        to: of the partitions that are cleaned, the end of the cleanable part: of segments that begin below it superseded records and those without
            a key go too, of others expired tombstones alone.
        now: the time in milliseconds.

    Returns:
        Bronze's version.

    Raises:
        Conflict: another writer touched these segments, or changed the log's state.

    Cost: the segments are read and written once, however many partitions they are of; the offsets of their winners, as many as their records at
    most, are broadcast.
    """
    from pyspark.sql import functions as F

    held = {index: [one for place, one in run if place == index] for index, _ in run}
    cleanable = looked_up([to.get(index, -1) for index in range(log.partitions)], F.col("partition"))
    marks = F.broadcast(_marks(log, rows, held, to, now))
    table = tables.read(log.spark, log.table)
    where = in_segments({index: [one.base for one in segments] for index, segments in held.items()})
    same = (F.col("partition") == F.col("m_partition")) & (F.col("offset") == F.col("m_offset")) & F.col("control").isNull()
    joined = table.filter(where).join(marks, same, "left")
    goes, stays = F.coalesce("m_due", F.lit(False)), F.col("m_due").isNotNull() & F.col("key").isNotNull()
    keep = F.col("control").isNotNull() | (~goes & (stays | (F.col("segment") >= cleanable)))
    kept = joined.filter(keep).select(*table.columns)
    gated = _gated(kept, log, end, list(held))
    small = sum(one.octets for _, one in run) <= SMALL
    written = gated.coalesce(1) if small else gated
    text = note("clean", id=uuid.uuid4().hex, checked=end.version, ends=end.ends())
    try:
        with interpreted(log.spark, small and sum(one.records for _, one in run) <= FEW):
            return tables.replace(written, log.table, where, user_metadata=text)
    except Exception as error:
        if not raised(error, STATE_MOVED):
            raise
        raise Conflict(
            f"{log.name}: the log's state was changed while it was cleaned. What was cleaned before stays so; clean again."
        ) from error


def _marks(log: TopicLog, rows: DataFrame, held: Mapping[int, Sequence[Segment]], to: Mapping[int, int], now: int) -> DataFrame:
    """The winners that tell what goes from segments: ``m_partition``, ``m_offset``, and whether it is a tombstone that is due (``m_due``).

    Of segments that begin in the cleanable part all winners, since what is none goes too; of others those that are due.
    """
    from pyspark.sql import functions as F

    partition, offset = F.col("partition"), F.col("offset")
    inside = [(partition == index) & (offset >= low) & (offset < high) for index, segments in held.items() for low, high in spans(segments)]
    reach = {index: max((one.end for one in segments if one.base < to.get(index, -1)), default=-1) for index, segments in held.items()}
    below = offset < looked_up([reach.get(index, -1) for index in range(log.partitions)], partition)
    found = rows.filter(any_of(inside) & ~F.col("remembered")).withColumn("m_due", due(now)).filter(below | F.col("m_due"))
    return found.select(partition.alias("m_partition"), offset.alias("m_offset"), "m_due")


def _gated(rows: DataFrame, log: TopicLog, end: LogEnd, partitions: Sequence[int]) -> DataFrame:
    """Rows that stop the statement unless the newest state row of each partition, read in the same transaction, is the one known."""
    from pyspark.sql import functions as F

    tails = {index: end.tails[index] for index in partitions}
    states = tables.read(log.spark, log.table).filter(F.col("partition").isin(partitions) & (F.col("segment") == STATE_SEGMENT))
    known = F.broadcast(states.agg(F.expr(states_hold(tails)).alias("g_held")))
    stop = F.raise_error(F.lit(STATE_MOVED)).cast("int")
    checked = rows.join(known, F.lit(True), "left").withColumn("epoch", F.when(F.col("g_held"), F.col("epoch")).otherwise(stop))
    return checked.select(*rows.columns)
