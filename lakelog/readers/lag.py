"""How far registered readers are behind the end of the log: in offsets, in records that exist, and in time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from lakelog.delta import frames, past, tables
from lakelog.errors import InvalidRequest
from lakelog.log.tail import LogEnd
from lakelog.model import positions
from lakelog.model.positions import DIVERGING, SNAPSHOT, VALID
from lakelog.model.topic_log import TopicLog
from lakelog.reader_results import GroupLag, Lag, Position
from lakelog.readers.positions import Registration

if TYPE_CHECKING:
    from pyspark.sql import Row


def lag(log: TopicLog, end: LogEnd, groups: Sequence[Registration], *, now: int) -> Lag:
    """Every group's distance from the log's end, those farthest behind first.

    Cost: one small Spark job where a group is behind: the offsets and append times from the farthest position on.
    """
    behind = {name: (row["records"], row["first"]) for name, row in _behind(log, end, groups).items()}
    return told(log.name, end, groups, behind, versioned=log.rule.versioned, now=now)


def told(
    topic: str, end: LogEnd, groups: Sequence[Registration], behind: Mapping[str, tuple[int, int | None]], *, versioned: bool, now: int
) -> Lag:  # fmt: skip
    """`lag`, of what is known: of a group that is behind, how many records it has not read, and when the first of them was appended."""
    found = [_lag_of(end, group, *behind.get(group.group, (0, None)), now, versioned) for group in groups]
    return Lag(topic, end.ends(), end.epoch, sorted(found, key=lambda one: (-sum(one.offsets.values()), one.group)))


def _lag_of(end: LogEnd, group: Registration, records: int, first: int | None, now: int, versioned: bool) -> GroupLag:
    distance = {index: max(tail.end - group.position.offsets.get(index, 0), 0) for index, tail in sorted(end.tails.items())}
    age = None if first is None else now - first
    return GroupLag(
        group.group, group.position, distance, records, age, group.committed_ms, group.expires_ms, not group.holds(now),
        _answer(end, group.position, versioned),
    )  # fmt: skip


def _answer(end: LogEnd, position: Position, versioned: bool) -> str:
    answers = {
        positions.stands(tail.state, tail.end, position.offsets.get(index, 0), position.epoch, versioned=versioned).answer
        for index, tail in end.tails.items()
    }
    return next(answer for answer in (SNAPSHOT, DIVERGING, VALID) if answer in answers)


def unread(end: LogEnd, groups: Sequence[Registration]) -> list[tuple[str, int, int, int]]:
    """What groups have not read: (group, partition, from offset, up to offset)."""
    return [
        (group.group, index, group.position.offsets.get(index, 0), tail.end)
        for group in groups
        for index, tail in end.tails.items()
        if group.position.offsets.get(index, 0) < tail.end
    ]


def _behind(log: TopicLog, end: LogEnd, groups: Sequence[Registration]) -> dict[str, Row]:
    """Group to the number of records it has not read and when the first of them was appended."""
    from pyspark.sql import functions as F

    waiting = unread(end, groups)
    if not waiting:
        return {}
    if len(waiting) > 100_000:
        raise InvalidRequest(
            f"{log.name}: {len(groups)} groups are registered: more than can be told at once. Take away those that are no more."
        )
    spans = frames.small_frame(log.spark, "w_group STRING, w_partition INT, w_low BIGINT, w_high BIGINT", waiting)
    rows = past.pinned(log.spark, log.table, end.version).filter((F.col("segment") >= 0) & F.col("control").isNull())
    rows = rows.filter(F.col("partition").isin(sorted({one[1] for one in waiting})) & (F.col("offset") >= min(one[2] for one in waiting)))
    inside = (F.col("partition") == F.col("w_partition")) & (F.col("offset") >= F.col("w_low")) & (F.col("offset") < F.col("w_high"))
    joined = rows.select("partition", "offset", F.unix_millis("appended_at").alias("ms")).join(F.broadcast(spans), inside)
    with tables.door(log.table):
        counted = joined.groupBy("w_group").agg(F.count(F.lit(1)).alias("records"), F.min("ms").alias("first")).collect()
    return {row["w_group"]: row for row in counted}
