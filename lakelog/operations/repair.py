"""A log that was changed by hand brought back into order: a new epoch at its true end, silver computed anew, and a report of what was done.

What readers, writers and silver know of the log may no longer be so after a RESTORE or a DELETE of bronze: offsets would be given again for
other records. A new epoch tells them apart (SEMANTICS Q19).
"""

from __future__ import annotations

import contextlib
import uuid
from typing import TYPE_CHECKING

from lakelog.delta import tables
from lakelog.errors import Conflict, Damaged, LogIncomplete
from lakelog.latest import merge, recompute, upsert
from lakelog.latest.progress import progress, stored
from lakelog.latest.verify import Snapshots
from lakelog.log import inspection, state
from lakelog.log.rows import control_row
from lakelog.log.tail import LogEnd, log_end, newest_commit, true_end
from lakelog.model.log_state import REPAIR, Intent
from lakelog.model.topic_log import TopicLog
from lakelog.operations.configure import ATTEMPTS
from lakelog.readers import positions
from lakelog.results import Repaired
from lakelog.snapshots import epochs

if TYPE_CHECKING:
    from pyspark.sql import Row


def repair(log: TopicLog, snapshots: Snapshots, *, now: int) -> Repaired:
    """Look at everything, and mend what is wrong; nothing is changed where nothing is.

    Raises:
        Damaged: records of another writer are in the log; they are named. Nothing was changed.
        LogIncomplete: the log does not begin at its origin: silver cannot be computed from it. Nothing was changed.
        Conflict: writers were first again and again.

    Cost: as `Topic.verify`; then a commit on bronze and a rebuild of silver.
    """
    found = _damage(log)
    records, problems = inspection.problems(log)
    found += problems
    if not found:
        return _silver_alone(log, snapshots, now=now)
    foreign = [text for text in problems if "another writer" in text or "given twice" in text or "no such partition" in text]
    if foreign:
        raise Damaged(
            f"{log.name}: {'; '.join(foreign[:3])}. Take those records out first: RESTORE bronze to the version before the other writer's"
            " commit (DESCRIBE HISTORY names it), append them with lakelog, then repair again. Nothing was changed."
        )
    identity = uuid.uuid4().hex
    for _ in range(ATTEMPTS):
        end = true_end(log)
        _require_origin(log, end)
        intent = Intent(REPAIR, identity, {})
        # Above every epoch that anybody may know: new records must not be taken for others.
        epoch = 1 + max([epochs.greatest(log, end), *(one.position.epoch for one in positions.registered(log))])
        states = {
            index: tail.state.next_epoch(
                identity,
                tail.end,
                number=epoch,
                intent=intent,
                # What a RESTORE by hand took away, or brought back, somebody may have read otherwise.
                forgotten=tail.end,
                cleaned=tail.end if any("missing" in text for text in problems) else tail.state.cleaned,
            )
            for index, tail in end.tails.items()
        }
        rows = [_batch_row(row) for row in _batches_without_row(log)]
        if state.change_state(log, end, states, "repair", now=now, more=rows):
            version = carry_out(log, log_end(log), intent, now=now)
            ends = end.ends()
            done = [f"epoch {epoch} begins at offset {ends[index]} of partition {index}" for index in sorted(ends)]
            done += [f"{len(rows)} appends that had lost their batch rows got them back"] * bool(rows)
            return Repaired(log.name, found, [*done, "the latest table was computed anew"], epoch, ends, records, version)
    raise Conflict(f"{log.name}: other writers were first {ATTEMPTS} times in a row. Nothing was changed; try again later.")


def carry_out(log: TopicLog, end: LogEnd, intent: Intent, *, now: int) -> int | None:
    """Finish a repair that was begun: silver anew under the log's new epoch. Returns silver's version."""
    for _ in range(ATTEMPTS):
        version, _ = upsert.rebuild(log, end.starts(), merge.places(end), bronze_version=end.version, now=now)
        if version is not None:
            state.close(log, intent, now=now)
            return version
        end = log_end(log)
    raise Conflict(f"{log.name}: merges kept the latest table from being computed anew; try again: any writing command goes on.")


def _damage(log: TopicLog) -> list[str]:
    """What the log's commits say is wrong, or silver, which remembers what the log held."""
    found = []
    try:
        newest_commit(log)
    except Damaged as error:
        found.append(str(error))
    with contextlib.suppress(Damaged):
        merged = progress(log.spark, log.silver, from_rows=True)
        try:
            merge.require_same_log(log, merged, true_end(log))
        except Damaged as error:
            found.append(str(error))
    return found


def _silver_alone(log: TopicLog, snapshots: Snapshots, *, now: int) -> Repaired:
    """The log is in order: silver is computed anew where it is not what the log gives."""
    end = log_end(log, pin=True)
    state.require_writable(log, end)
    try:
        base = snapshots.base(end, stored(log.spark, log.silver))
        problems = recompute.compared(log, base[1] if base else None).problems
    except Damaged as error:
        problems = [str(error)]
    if not problems:
        return Repaired(log.name, [], [], end.epoch, end.ends(), 0, None)
    merged = None
    for _ in range(ATTEMPTS):
        merged, _ = merge.merge(log, merge.MergeOptions(rebuild=True), now=now, known=None)
        if merged is not None:
            return Repaired(
                log.name, problems, ["the latest table was computed anew"], end.epoch, merged.to_offsets, merged.records, merged.version
            )
    raise Conflict(f"{log.name}: merges kept the latest table from being computed anew; try again.")


def _require_origin(log: TopicLog, end: LogEnd) -> None:
    for index, tail in sorted(end.tails.items()):
        if tail.state.start != tail.state.origin:
            raise LogIncomplete(
                f"{log.name}: partition {index} of the log starts at offset {tail.state.start}, its records from {tail.state.origin} on were"
                " removed: the latest table cannot be computed from it. Nothing was changed.", expected=tail.state.origin,
                actual=tail.state.start, partition=index,
            )  # fmt: skip


def _batches_without_row(log: TopicLog) -> list[Row]:
    """Appends whose records are there and whose batch rows are not: partition, segment, batch, epoch, last offset, number of records."""
    from pyspark.sql import functions as F

    table = tables.read(log.spark, log.table).filter((F.col("partition") >= 0) & (F.col("segment") >= 0))
    is_record = F.col("control").isNull()
    batches = table.groupBy("partition", "batch").agg(
        F.max_by("segment", "offset").alias("segment"), F.max("epoch").alias("epoch"), F.max("offset").alias("last"),
        F.count_if(is_record).alias("records"), F.count_if(~is_record).alias("rows"),
    )  # fmt: skip
    with tables.door(log.table):
        return list(batches.filter((F.col("rows") == 0) & F.col("batch").isNotNull()).orderBy("partition", "last").collect())


def _batch_row(row: Row) -> tuple[object, ...]:
    content = {"type": "batch", "after": -1, "octets": 0, "first": None, "records": row["records"]}
    return control_row(row["partition"], row["segment"], row["last"], row["epoch"], content, row["batch"])
