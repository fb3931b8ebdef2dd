"""The lake's table of runs: ``_lakelog/runs`` (in a catalog ``lakelog_runs``), a row per run, whether it succeeded or not.

Those of ``verb`` run are runs; lease.py writes those of ``verb`` lease. The rows are bookkeeping: where one cannot be written, the run's own result
stands, and its report says why there is no row.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from lakelog.delta import frames, tables
from lakelog.delta.lock import LOCKED, held
from lakelog.errors import Conflict
from lakelog.lake.lake_table import RUNS
from lakelog.model.names import TableRef, local_path
from lakelog.native import table as native
from lakelog.running_results import Run

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import SparkSession

VERB = "run"
ATTEMPTS = 10


def table_of(root: str) -> TableRef:
    """Where a lake's runs are."""
    return TableRef.of(root, "_lakelog", "runs")


def record(root: str, made: Run, spark: SparkSession | None) -> bool | str:
    """Add the row of a run. Returns True, or why it was not written; raises nothing.

    Args:
        root: the lake.
        made: the run.
        spark: the session; None where there is none, or a signal ended it: then delta-rs writes the row, in a lake on this machine.

    Cost: one small commit.
    """
    try:
        if spark is not None:
            _by_spark(spark, table_of(root), made)
        elif "/" not in root or local_path(root) is None:
            return "there is no Spark, and without one only a lake on this machine is written"
        else:
            _by_delta_rs(table_of(root), made)
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
            native.append(table, _arrow(made))


def _row(made: Run) -> tuple[object, ...]:
    error = None if made.error is None else str(made.error.get("error"))
    return (made.started_at, made.ended_at, made.run, VERB, made.topic, error, made.to_json())


def _arrow(made: Run) -> pyarrow.Table:
    import pyarrow

    kinds = {"TIMESTAMP": pyarrow.timestamp("us", "UTC"), "STRING": pyarrow.string()}
    columns = [column.strip().split(" ") for column in RUNS.split(",")]
    return pyarrow.table(
        [[value] for value in _row(made)], schema=pyarrow.schema([(name, kinds[kind]) for name, kind in columns])
    )  # fmt: skip
