"""A topic's tables brought up from an older format to this one; again, and nothing changes.

Format 1 (lakelog 0.1) says a log's state by single rows per epoch and does not know which append ends at silver's progress. Until a topic is
upgraded it can be read, but not written: an older lakelog may still be writing it.
"""

from __future__ import annotations

import dataclasses
import json
import uuid

from lakelog.delta import table_properties
from lakelog.delta.table_properties import FORMAT, FORMAT_VERSION
from lakelog.errors import Conflict
from lakelog.latest import upsert, views
from lakelog.latest.progress import Progress, progress
from lakelog.log import bronze, state
from lakelog.log.tail import log_end
from lakelog.model.topic_log import TopicLog
from lakelog.operations.configure import ATTEMPTS


def upgrade(log: TopicLog, *, now: int) -> list[str]:
    """Bring a topic's tables up to this format.

    The log first: state rows, then the property by which an older lakelog refuses to write. Then silver: the appends that end at its
    progress, then its property. In a catalog the topic's views are made as this lakelog makes them, whatever the format. Cut off at any place, the
    topic can be read as before, and the next call goes on.

    Returns:
        What was done, in sentences; empty where nothing was to do.

    Raises:
        Conflict: writers were first again and again; try again.

    Cost: per table one commit of rows and one of properties; a small file per partition; in a catalog a statement per view.
    """
    done = []
    if _give_states(log, now=now):
        done.append(f"{log.table}: a state row for each partition")
    if _format(log, silver_too=False) < FORMAT_VERSION:
        table_properties.change(log.spark, log.table, {FORMAT: str(FORMAT_VERSION)})
        done.append(f"{log.table}: format {FORMAT_VERSION}")
    if _format(log, silver_too=True) < FORMAT_VERSION:
        _give_batches(log, now=now)
        table_properties.change(log.spark, log.silver, {FORMAT: str(FORMAT_VERSION)})
        done.append(f"{log.silver}: format {FORMAT_VERSION}")
    views.create(log.spark, log.name, log.root, log.silver, log.table, log.types)
    return done


def _format(log: TopicLog, *, silver_too: bool) -> int:
    tables = [log.table, log.silver] if silver_too else [log.table]
    return min(int((table_properties.read(log.spark, table) or {}).get(FORMAT, "1")) for table in tables)


def _give_states(log: TopicLog, *, now: int) -> bool:
    """Write the state of every partition that has none as a row. Returns whether there was one."""
    for _ in range(ATTEMPTS):
        end = log_end(log)
        old = {index: tail.state for index, tail in end.tails.items() if not tail.state.sequence}
        if not old:
            return False
        identity = uuid.uuid4().hex
        if state.change_state(log, end, {index: one.next(identity) for index, one in old.items()}, "upgrade", now=now):
            return True
    raise Conflict(f"{log.name}: other writers were first {ATTEMPTS} times in a row. Nothing was changed; try again later.")


def _give_batches(log: TopicLog, *, now: int) -> None:
    """Note in silver's control rows which append ends at the progress."""
    for _ in range(ATTEMPTS):
        before = progress(log, from_rows=True)
        end = log_end(log, pin=True)
        merged = {index: place - 1 for index, place in before.next.items() if place > 0}
        batches = bronze.batches_at(log, merged, end.version) if merged else {}
        marks = {
            index: dataclasses.replace(mark, control=json.dumps({**before.controls[index], "batch": batches.get(index)}, sort_keys=True))
            for index, mark in before.marks.items()
        }
        if upsert.write_progress(log, before, Progress(marks, by_hand=before.by_hand), now=now):
            return
    raise Conflict(f"{log.name}: merges were first {ATTEMPTS} times in a row. Try again later.")
