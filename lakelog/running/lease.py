"""The lease of a run: one run of a topic at a time, as a courtesy to whoever reads the reports. What decides about tables is Delta's conflict.

A lease is a row of the lake's table of runs (verb ``lease``): whose run, since when, until when, and a number that rises by one with each run. It
is over when the run's own row is there, which every run writes at its end, whatever became of it; when its time is over, unless its process is
another one of this machine that is still there; or when its process is gone from this machine, as after ``kill -9``. The next run then takes
the next number. A run that goes on longer prolongs its lease (within a step keeper.py does), and stops at its next step where another has taken
the next number meanwhile.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lakelog.delta import frames, tables
from lakelog.delta.lock import LOCKED
from lakelog.delta.statement import interpreted
from lakelog.errors import Conflict
from lakelog.lake.lake import Lake
from lakelog.lake.lake_table import RUNS
from lakelog.model.names import TableRef
from lakelog.model.records import as_datetime
from lakelog.running.holder import Holder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VERB = "lease"
# For how long a lease holds; it is prolonged when half of that is over.
LEASE_MS = 30 * 60_000
# For how long beyond that it is believed of a process that is there, and prolonged within one step: later it hangs.
THERE_MS = 6 * 60 * 60_000
ATTEMPTS = 20
# Seconds between two looks of a run that waits.
PAUSE = 5.0
NAME, LOST = "RUN_IN_PROGRESS", "LEASE_LOST"


@dataclass(frozen=True)
class Lease:
    """A run's hold on a topic: its number, the run, who holds it, since when and until when (milliseconds); ``ended``: the run has."""

    topic: str
    number: int
    run: str
    holder: Holder
    since: int
    until: int
    ended: bool = False

    def is_live(self, now: int) -> bool:
        """Whether others are to wait for it. One that begins in the future is of a clock that is wrong, and nobody waits for that."""
        if self.ended or self.since > now + LEASE_MS or self.holder.is_gone():
            return False
        return self.until > now or (self.until + THERE_MS > now and self.holder.is_beside())

    def told(self) -> dict[str, Any]:
        """What an error says of it."""
        return {
            "lease": self.number, "run": self.run, "host": self.holder.host, "pid": self.holder.pid,
            "since": as_datetime(self.since).isoformat(), "until": as_datetime(self.until).isoformat(),
        }  # fmt: skip

    def row(self) -> tuple[Any, ...]:
        """The lease in the columns of the table."""
        report = json.dumps({"number": self.number, **self.holder.to_dict()})
        return (as_datetime(self.since), as_datetime(self.until), self.run, VERB, self.topic, None, report)


def acquire(
    lake: Lake, topic: str, run: str, *, lease_ms: int = LEASE_MS, wait_ms: int = 0, tell: Callable[[str], None] = lambda text: None
) -> Lease:
    """Take a topic's lease.

    Args:
        lake: the lake.
        topic: the topic.
        run: the identity of the run that takes it.
        lease_ms: for how long it holds.
        wait_ms: for how long to wait where another run holds it.
        tell: is told once for whom it waits.

    Raises:
        Conflict: another run holds it (RUN_IN_PROGRESS; ``host``, ``pid``, ``since``, ``until``, ``lease``), or other writers of the lake's table
            of runs were first again and again.

    Cost: one small Spark query over the topic's rows in the table of runs, and one small MERGE; while it waits, the query every five seconds.
    """
    until, waiting = time.monotonic() + wait_ms / 1000, False
    for _ in range(ATTEMPTS):
        while (last := newest(lake.spark, table_of(lake.root), topic)) is not None and last.is_live(lake.clock()):
            if time.monotonic() >= until:
                raise under_way(last, lake.clock(), waited=wait_ms > 0)
            if not waiting:
                tell(f"{topic}: waiting for {last.holder}, which runs it since {as_datetime(last.since):%Y-%m-%d %H:%M:%S} UTC")
            waiting = True
            time.sleep(min(PAUSE, max(until - time.monotonic(), 0.1)))
        now = lake.clock()
        mine = Lease(topic, 1 if last is None else last.number + 1, run, Holder.here(), now, now + lease_ms)
        if last is not None and not last.ended:
            logging.getLogger("lakelog").warning(
                "%s: the lease %d of %s was not given back; this run takes the next", topic, last.number, last.holder
            )
        if _written(lake, mine):
            return mine
    raise Conflict(f"{topic}: other writers of {table_of(lake.root)} were first {ATTEMPTS} times. Nothing was done; try again later.")


def _written(lake: Lake, mine: Lease) -> bool:
    """Write a lease if nobody has its number. Returns whether it was written."""
    number = "get_json_object({}.report, '$.number')"
    try:
        done = tables.merge(
            frames.small_frame(lake.spark, RUNS, [mine.row()]).coalesce(1), table_of(lake.root),
            on=f"t.verb = '{VERB}' AND t.topic = s.topic AND {number.format('t')} = {number.format('s')}",
            clauses="WHEN NOT MATCHED THEN INSERT *", scatter=False,
        )  # fmt: skip
    except Conflict as error:
        if error.name == LOCKED:
            raise
        return False
    return done is not None


def prolonged(lake: Lake, mine: Lease, *, lease_ms: int = LEASE_MS) -> Lease:
    """The lease, for longer where half of its time is over; as it was where another commit to the table of runs was first.

    Raises:
        Conflict: another run took the next number meanwhile (LEASE_LOST): it does what is left. Or another process holds the table's lock
            (TABLE_LOCKED).

    Cost: nothing in its first half; else one small Spark query and a small commit.
    """
    now = lake.clock()
    if now < mine.until - lease_ms // 2:
        return mine
    last = newest(lake.spark, table_of(lake.root), mine.topic)
    if last is not None and last.number > mine.number:
        raise Conflict(
            f"{mine.topic}: this run went on for longer than its lease, and {last.holder} has taken the next one. This one stops: every step that"
            " is done stands, the other run does the rest.", name=LOST, **last.told(),
        )  # fmt: skip
    longer = replace(mine, until=now + lease_ms)
    try:
        tables.append(frames.small_frame(lake.spark, RUNS, [longer.row()]).coalesce(1), table_of(lake.root))
    except Conflict as error:
        if error.name == LOCKED:
            raise
        # A lease is a courtesy: it is prolonged at the next look.
        logging.getLogger("lakelog").warning("%s: another commit was before the lease %d was prolonged", mine.topic, mine.number)
        return mine
    return longer


def newest(spark: SparkSession, table: TableRef, topic: str) -> Lease | None:
    """The lease with the greatest number that a topic had; None where it never had one. Cost: one small Spark query."""
    from pyspark.sql import functions as F

    rows = tables.read(spark, table).filter(F.col("topic") == topic)
    number = F.get_json_object("report", "$.number").cast("bigint").alias("number")
    leases = rows.filter(F.col("verb") == VERB).select(
        number, "run_id", "report", F.unix_millis("started_at").alias("since"), F.unix_millis("ended_at").alias("until")
    )
    last = leases.orderBy(F.col("number").desc(), F.col("until").desc()).limit(1)
    ended = rows.filter(F.col("verb") == "run").select("run_id", F.lit(True).alias("ended"))
    with tables.door(table), interpreted(spark):
        found = last.join(ended, "run_id", "left").collect()
    if not found:
        return None
    row = found[0]
    return Lease(topic, row["number"], row["run_id"], Holder.of(json.loads(row["report"])), row["since"], row["until"], bool(row["ended"]))


def table_of(root: str) -> TableRef:
    """Where leases are: the lake's table of runs."""
    return TableRef.of(root, "_lakelog", "runs")


def under_way(last: Lease, now: int, *, waited: bool) -> Conflict:
    """The refusal of a run while another one holds the lease."""
    since, until = (f"{as_datetime(ms):%Y-%m-%d %H:%M:%S} UTC" for ms in (last.since, last.until))
    if last.until > now:
        term, remedy = f"until {until} if it does not prolong it", ""
    else:
        term, remedy = f"prolonged it until {until}, and its process is still there", " If it hangs, end it."
    again = "Run again later." if waited else "Run again later, or let this one wait (wait_ms=600_000)."
    return Conflict(
        f"{last.topic}: another run is under way: {last.holder} holds lease {last.number} since {since}, {term}. Nothing was done. {again}{remedy}",
        name=NAME, **last.told(),
    )  # fmt: skip
