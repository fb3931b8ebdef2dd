"""Where a topic stands: what its log and its latest table hold, and what waits for a merge."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from lakelog.delta import commit_file, frames, tables
from lakelog.delta.commit_file import CommitFile
from lakelog.errors import Damaged
from lakelog.latest import silver
from lakelog.latest.progress import Progress, progress
from lakelog.log import bronze
from lakelog.log.tail import LogEnd, log_end
from lakelog.model.names import TableRef
from lakelog.model.topic_log import TopicLog
from lakelog.status_results import PartitionStatus, TopicStatus

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


# Latest tables that this process found as lakelog leaves them, and at which commit.
_sound: dict[TableRef, CommitFile] = {}


def require_sound(log: TopicLog) -> None:
    """Refuse to read a latest table that does not know how far it is: what it holds is not what the log says.

    Raises:
        Damaged: its control rows are missing, or two for a partition.

    Cost: as `progress`; for a table of this machine that is as it was, two files are looked at.
    """
    if commit_file.is_current(log.spark, log.silver, _sound.get(log.silver)):
        return
    newest = commit_file.newest(log.spark, log.silver)
    progress(log)
    if newest is not None:
        _sound[log.silver] = newest


def outdated(log: TopicLog, name: str) -> dict[str, str]:
    """A warning that the latest table was made under another rule than the topic's, by the setting; empty where it was not.

    Cost: as `progress`.
    """
    try:
        state = progress(log)
    except Damaged:
        return {}
    if state.empty or state.rule == log.rule:
        return {}
    says = (
        f"{name}: silver was made under the rule {state.rule}, the topic now says {log.rule}. Merges are refused until then: run merge with"
    )
    return {"compaction.strategy": f"{says} rebuild once."}


def status(log: TopicLog, name: str, *, known: LogEnd | None, now: int) -> tuple[TopicStatus, int, LogEnd]:
    """Counts, log ends and progress; how many tombstones are at their delete horizon; and the log's end that this is about, pinned.

    Args:
        log: the topic's log.
        name: the topic's.
        known: the log's end as this process last saw it.
        now: in milliseconds.

    Cost: as `progress` and `log_end`, and two small Spark queries, for silver's flags and the number of records; where something waits one
    more, for the waiting records' times.
    """
    from pyspark.sql import functions as F

    # In this order: an end read first could lie before what a merge has folded meanwhile.
    state = progress(log)
    end = log_end(log, known=known, pin=True)
    ends = end.ends()
    with tables.door(log.silver):
        flags = (
            silver.rows(log)
            .groupBy("tombstone")
            .agg(F.count(F.lit(1)).alias("n"), F.count_if(F.unix_millis("delete_horizon") <= now).alias("due"))
            .collect()
        )
        held, due = {row["tombstone"]: row["n"] for row in flags}, sum(row["due"] for row in flags)
        records = bronze.records(log).count()
        age = _oldest_age(log, state.next, ends, now)
    return status_of(log, name, state, end, held, records, age), due, end


def tombstones_due(log: TopicLog, *, now: int) -> int:
    """How many of silver's tombstones are at their delete horizon. Cost: one small Spark job, over that column."""
    from pyspark.sql import functions as F

    with tables.door(log.silver):
        return silver.rows(log).filter(F.unix_millis("delete_horizon") <= now).count()


def status_of(
    log: TopicLog, name: str, state: Progress, end: LogEnd, held: Mapping[bool, int], records: int, age: int | None
) -> TopicStatus:
    """Where a topic stands, by silver's progress, the log's end, silver's rows by their tombstone flag, and the log's records and oldest age."""
    ends = end.ends()
    partitions = [
        PartitionStatus(
            index, tail.state.start, tail.end, state.next[index], tail.active, tail.octets if tail.active == tail.segment else 0
        )
        for index, tail in sorted(end.tails.items())
    ]
    return TopicStatus(
        topic=name,
        rule=str(log.rule),
        records=records,
        keys=sum(held.values()),
        live=held.get(False, 0),
        tombstones=held.get(True, 0),
        unmerged_records=sum(ends[index] - state.next[index] for index in ends),
        unmerged_age_ms=age,
        bronze_version=end.version,
        silver_version=state.version or 0,
        epoch=end.epoch,
        partitions=partitions,
        counts=state.totals(),
        intent=end.intent.operation if end.intent else None,
    )


def _oldest_age(log: TopicLog, start: Mapping[int, int], ends: Mapping[int, int], now: int) -> int | None:
    """How long the oldest record that is not merged has waited, in milliseconds; None when none waits."""
    from pyspark.sql import functions as F

    waiting = [(index, start[index]) for index, end in sorted(ends.items()) if end > start[index]]
    if not waiting:
        return None
    rows: DataFrame = tables.read(log.spark, log.table).filter((F.col("segment") >= 0) & F.col("control").isNull())
    rows = rows.filter(F.col("partition").isin([index for index, _ in waiting]) & (F.col("offset") >= min(low for _, low in waiting)))
    limits = frames.small_frame(log.spark, "w_partition INT, w_low BIGINT", waiting)
    behind = (F.col("partition") == F.col("w_partition")) & (F.col("offset") >= F.col("w_low"))
    first = rows.join(F.broadcast(limits), behind, "left_semi").agg(F.min(F.unix_millis("appended_at"))).collect()[0][0]
    return None if first is None else now - int(first)
