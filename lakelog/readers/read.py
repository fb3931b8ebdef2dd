"""The log from a position on: all of it up to the log's present end, or a bounded batch; with the position from which the next read goes on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakelog.delta import tables
from lakelog.log import bronze
from lakelog.log.rows import RECORD_COLUMNS, schema
from lakelog.log.tail import LogEnd
from lakelog.model.positions import next_ends
from lakelog.model.topic_log import TopicLog
from lakelog.reader_results import Position

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Fetched:
    """Records of the log, and where the next read goes on.

    Attributes:
        records: partition, offset, timestamp, key, value, headers, tombstone, epoch; ordered by partition and offset. They are those of one
            version of the log, whenever the frame is evaluated.
        position: where this read began.
        next: where the next one goes on.
    """

    records: DataFrame
    position: Position
    next: Position

    @property
    def moved(self) -> bool:
        """Whether the log went on; if not, there are no records."""
        return self.position.offsets != self.next.offsets


def fetched(log: TopicLog, end: LogEnd, position: Position, max_records: int | None) -> Fetched:
    """The records from a position on, up to the log's end as known. Lazy: the records are read when the frame is evaluated.

    Args:
        log: the topic.
        end: the log's end, at its version exactly.
        position: valid for this log.
        max_records: at most so many; shared evenly among partitions that wait.
    """
    ends = next_ends(position.offsets, end.ends(), max_records)
    following = Position(dict(sorted(ends.items())), end.epoch, log.uuid)
    if ends == position.offsets:
        return Fetched(_none(log), position, following)
    rows = bronze.between(log, position.offsets, ends, end.version)
    return Fetched(rows.orderBy("partition", "offset"), position, following)


def _none(log: TopicLog) -> DataFrame:
    """No records. No Spark job, collected or not."""
    from pyspark.sql import functions as F

    kinds = {field.name: field.dataType for field in schema(log.types)}
    return log.spark.range(1).filter(F.lit(False)).select(*[F.lit(None).cast(kinds[name]).alias(name) for name in RECORD_COLUMNS])


def follow(read: Callable[[Position], Fetched], position: Position, wait: float | None) -> Iterator[Fetched]:
    """Batch after batch from a position on: up to the log's end, or with ``wait`` for ever.

    Args:
        read: a read from a position on.
        position: where it begins.
        wait: seconds to wait before the log is asked again; None ends where there is nothing more.
    """
    while True:
        batch = read(position)
        if batch.moved:
            yield batch
        elif wait is None:
            return
        else:
            time.sleep(wait)
        position = batch.next


def offset_for(log: TopicLog, end: LogEnd, ms: int) -> dict[int, int]:
    """Partition to the first offset whose record has a timestamp at or after a time; the log end where there is none.

    Cost: one small Spark job over the offsets and times of the files whose statistics reach that time.
    """
    from pyspark.sql import functions as F

    rows = bronze.records(log, at=end.version).filter(F.col("timestamp") >= F.timestamp_millis(F.lit(ms)))
    with tables.door(log.table):
        found = {row["partition"]: row["first"] for row in rows.groupBy("partition").agg(F.min("offset").alias("first")).collect()}
    return {index: found.get(index, tail.end) for index, tail in sorted(end.tails.items())}
