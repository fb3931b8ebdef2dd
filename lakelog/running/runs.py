"""The lake's table of runs: ``_lakelog/runs`` (in a catalog ``lakelog_runs``), a row per run, whether it succeeded or not.

Those of ``verb`` run are runs; lease.py and keeper.py write those of ``verb`` lease. The rows are bookkeeping: where one cannot be written, the run's
own result stands, and its report says why there is no row.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from lakelog.delta import frames, tables
from lakelog.delta.lock import LOCKED, held
from lakelog.errors import Conflict, NotReady
from lakelog.lake.lake_table import RUNS
from lakelog.model.names import TableRef
from lakelog.native import table as native
from lakelog.native.stores import why_not_written
from lakelog.running_results import Run

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import SparkSession

VERB = "run"
ATTEMPTS = 10
# Seconds within which delta-rs writes a row.
PATIENCE = 20.0


def table_of(root: str) -> TableRef:
    """Where a lake's runs are."""
    return TableRef.of(root, "_lakelog", "runs")


def record(root: str, made: Run, spark: SparkSession | None) -> bool | str:
    """Add the row of a run. Returns True, or why it was not written; raises nothing.

    Args:
        root: the lake.
        made: the run.
        spark: the session; None where there is none, or a signal ended it: then delta-rs writes the row where it may (`stores.why_not_written`).

    Cost: one small commit.
    """
    try:
        if spark is not None:
            _by_spark(spark, table_of(root), made)
        elif why := why_not_written(root):
            return f"there is no Spark, and {why}"
        else:
            _in_time(lambda: _by_delta_rs(table_of(root), made))
    except Exception as error:
        why = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        logging.getLogger("lakelog").warning("%s: the run %s was not recorded: %s", made.topic, made.run, why)
        return why
    return True


def _by_spark(spark: SparkSession, table: TableRef, made: Run) -> None:
    rows = frames.small_frame(spark, RUNS, [_row(made)]).coalesce(1)
    for attempt in range(ATTEMPTS):
        try:
            tables.append(rows, table)
            return
        except Conflict as error:
            # The list of topics, or a default of the lake, was changed meanwhile.
            if error.name == LOCKED or attempt == ATTEMPTS - 1:
                raise


def _by_delta_rs(table: TableRef, made: Run) -> None:
    """Spark may have written it before it ended."""
    with held(None, table):
        known = native.Table(table).records(f"SELECT count(*) AS n FROM t WHERE verb = '{VERB}' AND run_id = '{made.run}'")  # noqa: S608
        if not known[0]["n"]:
            native.append(table, arrow(_row(made)))


def _in_time(write: Callable[[], None]) -> None:
    """Do it within `PATIENCE`: a command that was told to end does not wait for a store that does not answer."""
    failed: list[BaseException] = []

    def attempt() -> None:
        try:
            write()
        except BaseException as error:
            # A panic of delta-rs is no Exception.
            failed.append(error)

    writing = threading.Thread(target=attempt, daemon=True)
    writing.start()
    writing.join(PATIENCE)
    if failed:
        raise failed[0] if isinstance(failed[0], Exception) else NotReady(f"{type(failed[0]).__name__}: {failed[0]}")
    if writing.is_alive():
        raise NotReady(f"the lake did not answer within {PATIENCE:.0f} seconds")


def _row(made: Run) -> tuple[Any, ...]:
    error = None if made.error is None else str(made.error.get("error"))
    return (made.started_at, made.ended_at, made.run, VERB, made.topic, error, made.to_json())


def arrow(row: tuple[Any, ...]) -> pyarrow.Table:
    """A row of the table as delta-rs takes it."""
    import pyarrow

    kinds = {"TIMESTAMP": pyarrow.timestamp("us", "UTC"), "STRING": pyarrow.string()}
    columns = [column.strip().split(" ") for column in RUNS.split(",")]
    return pyarrow.table(
        [[value] for value in row], schema=pyarrow.schema([(name, kinds[kind]) for name, kind in columns])
    )  # fmt: skip
