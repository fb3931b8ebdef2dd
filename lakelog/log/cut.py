"""The end of the log taken away and its state changed, in one commit, as a restore does to bronze; and rows below its start removed."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakelog.delta import frames, tables
from lakelog.delta.commits import carries, carrying, marked, signed
from lakelog.delta.errors import raised
from lakelog.delta.lock import LOCKED
from lakelog.delta.statement import committing, during
from lakelog.errors import Conflict
from lakelog.log import withdrawn
from lakelog.log.guard import STATE_MOVED, insisted, state_condition
from lakelog.log.rows import control_frame, in_segments, log_rows
from lakelog.log.state import state_note, state_row
from lakelog.log.tail import LogEnd
from lakelog.log.tokens import TOKEN_PARTITION
from lakelog.model.log_state import PartitionState
from lakelog.model.names import quoted
from lakelog.model.topic_log import TopicLog

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MOST = 2**63 - 1
Range = tuple[int, int, int, int, int, str | None]


@dataclass(frozen=True)
class Cut:
    """What happens to a partition's log: records from ``leave`` on leave it, rows from ``drop`` on go, it ends at ``end``.

    ``start``: the log start offset after it; ``end`` where the log no longer holds every row of a snapshot and starts anew there (``drop`` is
    then 0, and what lies below ``leave`` is not lost: the snapshot has it).
    """

    leave: int
    drop: int
    start: int
    end: int

    @property
    def anew(self) -> bool:
        """Whether the log begins anew behind the snapshot."""
        return self.drop < self.end and self.start == self.end


def cut(
    log: TopicLog,
    end: LogEnd,
    states: Mapping[int, PartitionState],
    cuts: Mapping[int, Cut],
    more: Sequence[tuple[Any, ...]],
    epochs: Mapping[int, int],
    *,
    now: int,
) -> bool:
    """Remove all rows at and beyond an offset of each partition and write new state rows, in one MERGE.

    Tokens whose records go are forgotten with them: their batches may be appended again. Entries of the ledger of sources are put aside, and
    come back with their records (withdrawn.py).

    Args:
        log: the topic's log.
        end: the log's end as known, with the state rows that the new ones follow.
        states: partition to its new state.
        cuts: partition to what happens to it.
        more: control rows that come with it.
        epochs: partition to the generation of the last record that is restored.
        now: the time in milliseconds.

    Returns:
        False when the state is no longer as known, then nothing was written: read it again.

    Raises:
        Conflict: another writer holds the table's lock too long.

    Cost: the files with what goes are read, and written again where other rows are in them; the token rows are read.
    """
    places = {index: (one.leave, one.end, epochs.get(index)) for index, one in cuts.items()}
    gone, ledger = withdrawn.changes(log, places, max(state.epoch for state in states.values()))
    rows = [*(state_row(state, log.uuid) for state in states.values()), *more, *ledger]
    kinds = "m_segment_low BIGINT, m_segment_high BIGINT, m_low BIGINT, m_high BIGINT"
    ranges: list[Range] = [(index, 0, MOST, one.drop, MOST, None) for index, one in sorted(cuts.items())]
    ranges += [(TOKEN_PARTITION, segment, segment, place, place, batch) for segment, place, batch in gone]
    never = [f"CAST({number} AS BIGINT) AS {name}" for number, name in zip((1, 0, 1, 0), _names(kinds), strict=True)]
    written = control_frame(log.spark, log.types, rows, now)
    source = written.selectExpr("*", *never).unionByName(
        frames.small_frame(log.spark, f"partition INT, {kinds}, m_batch STRING", ranges).coalesce(1), allowMissingColumns=True
    )
    columns = ", ".join(quoted(name) for name in written.columns)
    values = ", ".join(f"s.{quoted(name)}" for name in written.columns)
    touched = ", ".join(str(index) for index in sorted({*cuts, TOKEN_PARTITION}))
    known = {index: end.tails[index] for index in states}
    view = f"lakelog_{uuid.uuid4().hex}"
    log_rows(log).createOrReplaceTempView(view)
    try:
        source.createOrReplaceTempView(f"{view}_source")
        holds = state_condition(quoted(view), log, known)
        guarded: DataFrame = log.spark.sql(f"SELECT * FROM {quoted(f'{view}_source')} WHERE {holds}")  # noqa: S608
        ends = {**end.ends(), **{index: one.end for index, one in cuts.items()}}
        return (
            tables.merge(
                guarded,
                log.table,
                on=f"t.partition IN ({touched}) AND t.segment >= 0 AND t.offset >= {min(one.drop for one in cuts.values())}"
                " AND t.partition = s.partition AND t.segment BETWEEN s.m_segment_low AND s.m_segment_high"
                " AND t.offset BETWEEN s.m_low AND s.m_high AND (s.m_batch IS NULL OR t.batch = s.m_batch)",
                clauses=f"WHEN MATCHED THEN DELETE WHEN NOT MATCHED AND s.control IS NOT NULL THEN INSERT ({columns}) VALUES ({values})",  # noqa: S608
                user_metadata=state_note("restore", states, checked=end.version, ends=ends),
            )
            is not None
        )
    except Conflict as error:
        if error.name == LOCKED:
            raise
        return False
    finally:
        log.spark.catalog.dropTempView(view)
        log.spark.catalog.dropTempView(f"{view}_source")


def drop(log: TopicLog, end: LogEnd, segments: Sequence[tuple[int, int]], *, user_metadata: str) -> bool:
    """Remove whole segments (partition, segment) in one commit, if the log's state is as known: a log that began anew may use them again.

    Returns:
        False when the state is no longer as known, then nothing was removed: read it again.

    Raises:
        Conflict: a commit of another writer touched what this one read.

    Cost: one small Spark job over the state rows; no file of the segments is read.
    """
    known = {index: end.tails[index] for index, _ in segments}
    by_partition: dict[int, list[int]] = {}
    for index, segment in sorted(segments):
        by_partition.setdefault(index, []).append(segment)
    view = f"lakelog_{uuid.uuid4().hex}"
    log_rows(log).createOrReplaceTempView(view)
    try:
        # One row, of which nothing is left where the condition holds: the segments are overwritten by none.
        row = control_frame(log.spark, log.types, [state_row(tail.state, log.uuid) for tail in known.values()][:1], 0)
        row.createOrReplaceTempView(f"{view}_row")
        none = log.spark.sql(f"SELECT * FROM {quoted(f'{view}_row')} WHERE NOT {insisted(quoted(view), known)}")  # noqa: S608
        tables.replace(none, log.table, in_segments(by_partition), user_metadata=user_metadata)
    except Exception as error:
        if not raised(error, STATE_MOVED):
            raise
        return False
    finally:
        log.spark.catalog.dropTempView(view)
        log.spark.catalog.dropTempView(f"{view}_row")
    return True


def remove(log: TopicLog, where: str, *, user_metadata: str) -> None:
    """DELETE rows in one commit, whatever was committed before: the condition must not hold for rows that came since it was decided.

    Raises:
        Conflict: a commit of another writer touched what this one read.
    """
    sign = signed(user_metadata)
    with committing(log.spark, log.table), tables.door(log.table), during(log.spark, carrying(sign)):
        condition = where if carries(log.spark, sign) else f"({where}) AND {marked('segment', sign)}"
        log.spark.sql(f"DELETE FROM {log.table.sql()} WHERE {condition}").collect()  # noqa: S608 - conditions of ours, names quoted


def _names(ddl: str) -> list[str]:
    return [column.split()[0] for column in ddl.split(",")]
