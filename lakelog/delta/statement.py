"""How a statement is run: one commit at a time, session settings for its length, and small ones without generated code."""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from lakelog.delta.location import over_connect
from lakelog.delta.lock import held
from lakelog.delta.object_store import warn_of_two_writers
from lakelog.delta.session import setting
from lakelog.model.names import TableRef

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Spark writes a class for each statement whose numbers are new, and compiles it twice (for the planner and for its tasks): for few rows that
# takes longer than to run without.
INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
# Up to so many records a statement is one over few rows.
FEW = 10_000
# Rows for few partitions go to a file each as they come; Spark would sort all of them by partition first, whole rows, even for one.
# Times as 64-bit numbers: the 96-bit ones that Spark writes by default are larger, slower, and read by others as nanoseconds, of which 64 bits
# hold the years 1677 to 2262.
# Zstandard at level 1: less CPU than Snappy, Spark's default, and half of its octets (Delta has no table property for it, only its kernel has).
WRITERS = {
    "spark.sql.maxConcurrentOutputFileWriters": "16",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.compression.codec": "zstd",
    "parquet.compression.codec.zstd.level": "1",
}
# Delta refuses versions older than the retention of removed files, whether their files are there or not; lakelog decides which are kept.
ENFORCE_RETENTION = "spark.databricks.delta.vacuum.enforceTimeTravelWithinDeletedFileRetentionDuration"
# Under these Delta passes over a write without a word, once one with the same number was committed to the table: a caller's are of its own writes.
WRITTEN_ONCE = ("spark.databricks.delta.write.txnAppId", "spark.databricks.delta.write.txnVersion")
# What it was in Connect sessions before lakelog changed it; None where it was not set.
_enforced_before: weakref.WeakKeyDictionary[SparkSession, str | None] = weakref.WeakKeyDictionary()
# What a commit carries and how it is written are settings of the Spark session.
_settings_in_use = threading.RLock()
# Held while a Connect session plans versions of tables under one setting or the other. No other lock is taken in here.
_planning = threading.RLock()
_sharing = threading.Lock()
# By session and settings: how many threads are at statements under them, and how they are set back.
_shared: dict[tuple[int, tuple[str, ...]], tuple[int, contextlib.ExitStack]] = {}


@contextlib.contextmanager
def committing(spark: SparkSession, table: TableRef, *, creating: bool = False) -> Iterator[None]:
    """Every commit that lakelog makes is made in here: one at a time to a table (lock.py), and one at a time in this process. Where nothing
    arbitrates writers of several processes, the first one warns (object_store.py).

    What it writes is written as by `writing`.

    Raises:
        Conflict: another process is at the table, and takes too long.
    """
    warn_of_two_writers(spark, table)
    with held(spark, table, creating=creating), writing(spark):
        yield


@contextlib.contextmanager
def writing(spark: SparkSession) -> Iterator[None]:
    """Every Parquet file that lakelog writes is written in here: as `WRITERS` say, without `WRITTEN_ONCE`, whatever the session's settings are."""
    with _settings_in_use:
        lifted = {name: None for name in WRITTEN_ONCE if setting(spark, name) is not None}
        with during(spark, {**WRITERS, **lifted}):
            yield


@contextlib.contextmanager
def interpreted(spark: SparkSession, when: bool = True) -> Iterator[None]:
    """Statements planned in here are run without generated code; for few rows. Threads of one session may be in here at once."""
    with _together(spark, INTERPRETED) if when else contextlib.nullcontext():
        yield


@contextlib.contextmanager
def _together(spark: SparkSession, wanted: Mapping[str, str]) -> Iterator[None]:
    """`during` for statements that threads of one session may be at together: the first one sets, the last one sets back."""
    place = (id(spark), tuple(wanted))
    with _sharing:
        inside, settings = _shared.get(place, (0, contextlib.ExitStack()))
        if not inside:
            settings.enter_context(during(spark, wanted))
        _shared[place] = (inside + 1, settings)
    try:
        yield
    finally:
        with _sharing:
            inside, settings = _shared.pop(place)
            if inside > 1:
                _shared[place] = (inside - 1, settings)
            else:
                settings.close()


@contextlib.contextmanager
def during(spark: SparkSession, wanted: Mapping[str, str | None]) -> Iterator[None]:
    """Session settings for the length of a statement, None for one that is unset, where the session may be told (serverless sessions go on without)."""
    before = {name: setting(spark, name) for name in wanted}
    with contextlib.ExitStack() as back:
        for name, old in before.items():
            back.callback(_set_back, spark, name, old)
        for name, value in wanted.items():
            _put(spark, name, value)
        yield


def _set_back(spark: SparkSession, name: str, value: str | None) -> None:
    """Set or unset one setting; what interrupts it (Ctrl-C) is raised once it is done."""
    try:
        _put(spark, name, value)
    except BaseException:
        _put(spark, name, value)
        raise


def _put(spark: SparkSession, name: str, value: str | None) -> None:
    with contextlib.suppress(Exception):
        spark.conf.set(name, value) if value is not None else spark.conf.unset(name)


@contextlib.contextmanager
def beyond_retention(spark: SparkSession) -> Iterator[None]:
    """Statements in here may read versions older than their table's retention, where the session's settings may be changed (not serverless).
    Threads of one session may be in here at once; a version that is not kept is then not refused to the others either.

    On a Connect session the setting stays changed for the rest of its life, for its user's own statements too, and for sessions cloned from it: the
    server analyses a frame that is made in here again whenever it is run. What `tables.read` reads there is asked for by `within_retention`.
    """
    if not over_connect(spark):
        with _together(spark, {ENFORCE_RETENTION: "false"}):
            yield
        return
    with _planning:
        if spark not in _enforced_before:
            _enforced_before[spark] = setting(spark, ENFORCE_RETENTION)
        with contextlib.suppress(Exception):
            spark.conf.set(ENFORCE_RETENTION, "false")
    yield


def within_retention(rows: DataFrame) -> DataFrame:
    """The rows of a version that lakelog does not keep: Delta refuses one that is older than its table's retention, when the rows are planned.

    A Connect session plans them here, under the setting that its caller had, at the cost of four messages to the server; no Spark job. The rows of
    a version that is kept are refused if another thread runs them in just that moment.
    """
    spark = rows.sparkSession
    if over_connect(spark):
        with _planning, during(spark, {ENFORCE_RETENTION: _enforced_before[spark] or "true"} if spark in _enforced_before else {}):
            rows.schema  # noqa: B018
    return rows


@contextlib.contextmanager
def planned_beyond_retention(spark: SparkSession) -> Iterator[None]:
    """`beyond_retention` around what is only planned, not run: on a Connect session `within_retention` waits for its end."""
    with _planning if over_connect(spark) else contextlib.nullcontext(), beyond_retention(spark):
        yield
