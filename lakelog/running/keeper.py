"""Who prolongs a run's lease while a step goes on, whatever the step waits for: a thread beside it.

It writes with delta-rs: what a commit of Spark carries are settings of the session, which the step uses. Where delta-rs may not write
(`stores.why_not_written`) there is no such thread, and a lease is prolonged between steps alone.
"""

from __future__ import annotations

import contextlib
import json
import logging
import threading
from collections.abc import Iterator
from dataclasses import replace

from lakelog.delta.location import on_this_disk
from lakelog.delta.lock import held
from lakelog.lake.lake import Lake
from lakelog.model.names import local_path
from lakelog.native import table as native
from lakelog.native.stores import why_not_written
from lakelog.running.lease import THERE_MS, VERB, Lease, table_of
from lakelog.running.runs import arrow

# Seconds between two looks at the clock, at most.
EVERY = 30.0


@contextlib.contextmanager
def kept(lake: Lake, mine: Lease, *, lease_ms: int) -> Iterator[None]:
    """Prolong a lease while something goes on, each time when half of it is over; for `THERE_MS` at most, and until another takes the next number.

    Cost: a thread; where something takes longer than half a lease, now and then a query and a small commit by delta-rs.
    """
    # A path is Spark's to understand: it may lie on another machine, or a file system that is its default.
    elsewhere = local_path(lake.root) is not None and on_this_disk(lake.spark, lake.root) is None
    if elsewhere or why_not_written(lake.root):
        yield
        return
    ended = threading.Event()
    keeper = threading.Thread(target=_keep, args=(lake, mine, lease_ms, ended), daemon=True)
    keeper.start()
    try:
        yield
    finally:
        ended.set()
        keeper.join(2)


def _keep(lake: Lake, mine: Lease, lease_ms: int, ended: threading.Event) -> None:
    begun = lake.clock()
    while not ended.wait(min(EVERY, lease_ms / 8000)):
        now = lake.clock()
        if now > begun + THERE_MS:
            return
        if now < mine.until - lease_ms // 2:
            continue
        try:
            if _newest_number(lake.root, mine.topic) > mine.number:
                # The run is told at its next step.
                return
            longer = replace(mine, until=now + lease_ms)
            with held(None, table_of(lake.root)):
                if not ended.is_set():
                    native.append(table_of(lake.root), arrow(longer.row()))
            mine = longer
        except BaseException as error:
            # A lease is a courtesy: it is prolonged at the next look. A panic of delta-rs is no Exception.
            logging.getLogger("lakelog").info("%s: the lease %d was not prolonged: %s", mine.topic, mine.number, error)


def _newest_number(root: str, topic: str) -> int:
    """The greatest number of a lease that a topic had."""
    quoted = topic.replace("'", "''")
    rows = native.Table(table_of(root)).records(f"SELECT report FROM t WHERE verb = '{VERB}' AND topic = '{quoted}'")  # noqa: S608
    return max((int(json.loads(row["report"])["number"]) for row in rows), default=0)
