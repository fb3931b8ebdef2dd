"""One run of a topic: append from its sources, merge, snapshot, clean, check; reported whatever becomes of it.

A run stops at the first step that is refused, with that refusal's exit code. Of two runs of a topic at the same time the second is refused, or
waits (lease.py). That is a courtesy: every step is safe to run again and safe beside another run's, what decides is Delta's conflict.
"""

from __future__ import annotations

import contextlib
import logging
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import Any

from lakelog.errors import LakelogError
from lakelog.lake.lake import Lake
from lakelog.model.records import as_datetime
from lakelog.running import keeper, lease, report_files, runs
from lakelog.running.interrupt import Signals
from lakelog.running.lease import LEASE_MS, Lease
from lakelog.running.provenance import configuration, place, versions
from lakelog.running.steps import NOWHERE, STEPS, Outcome, Tell, Work
from lakelog.running_results import DONE, FAILED, INTERRUPTED, Run, Step
from lakelog.sources.configured import Lookup, Source
from lakelog.topic import Topic

LOGGER = logging.getLogger("lakelog")


@dataclass(frozen=True)
class Watcher:
    """Who is told how a run goes on: ``during`` a step, which gives a function that is told (done, in all); ``after`` it; for whom it ``waits``."""

    during: Callable[[str], AbstractContextManager[Tell]]
    after: Callable[[Step], None]
    waits: Callable[[str], None] = lambda text: None


@contextlib.contextmanager
def _quiet(step: str) -> Iterator[Tell]:
    yield lambda done, total: None


QUIET = Watcher(_quiet, lambda step: None)


@dataclass
class _Course:
    """What is known of a run so far."""

    topic: Topic | None = None
    steps: list[Step] = field(default_factory=list)
    before: dict[str, Any] = field(default_factory=dict)
    configuration: str | None = None
    counts: dict[str, int] = field(default_factory=dict)
    octets: dict[str, int] = field(default_factory=dict)
    retries: list[dict[str, str]] = field(default_factory=list)
    step: str = ""
    lease: Lease | None = None


def run(
    lake: Lake,
    name: str,
    sources: Sequence[Source] = (),
    *,
    watcher: Watcher = QUIET,
    signals: Signals | None = None,
    as_error: Callable[[BaseException], LakelogError] | None = None,
    report: str | PathLike[str] | None = None,
    metrics: str | PathLike[str] | None = None,
    wait_ms: int = 0,
    lease_ms: int = LEASE_MS,
    lookup: Lookup = NOWHERE,
) -> Run:
    """Do what is due for a topic.

    Args:
        lake: the lake.
        name: the topic.
        sources: where its records come from.
        watcher: who is told how it goes on.
        signals: those that may end it.
        as_error: makes an error with an exit code of whatever ended it; else ``signals`` do.
        report: a file that gets the report as JSON.
        metrics: a file that gets figures for node-exporter.
        wait_ms: for how long to wait where another run of the topic is under way; 0 is refused at once (Conflict, RUN_IN_PROGRESS).
        lease_ms: for how long others are to wait for this one, unless it prolongs that: a run that vanishes without a word holds up no longer.
        lookup: where ``sources`` were looked for: where that says nothing of the topic, and its log was filled by some, the run is refused.

    Gives: the report, of a run that failed or was interrupted too: see its ``outcome``, ``exit_code`` and ``error``. A signal that comes when
    every step is done changes nothing any more.

    Raises:
        InvalidRequest: a file cannot be written; nothing was done.

    Cost: that of its steps; beside them six small Spark jobs and two commits on the lake's table of runs.
    """
    report_files.require_writable("report=", report)
    report_files.require_writable("metrics=", metrics)
    course, identity, started, begun = _Course(), uuid.uuid4().hex, lake.clock(), time.monotonic()
    signals = signals or Signals()
    error: LakelogError | None = None
    try:
        try:
            with _retries(course):
                _steps(lake, name, sources, course, watcher, signals, identity, lookup, wait_ms=wait_ms, lease_ms=lease_ms)
        finally:
            # What is left is to tell of it.
            signals.defer()
    except BaseException as caught:
        error = (as_error or signals.as_error)(caught)
    after = {} if signals.session_ended() or course.topic is None else place(course.topic)
    outcome = DONE if error is None else INTERRUPTED if error.name == "INTERRUPTED" else FAILED
    made = Run(
        identity, name, lake.root, outcome, 0 if error is None else error.exit_code, as_datetime(started), as_datetime(lake.clock()),
        round(time.monotonic() - begun, 3), course.configuration, versions(None if signals.session_ended() else lake), course.before, after,
        course.steps, course.counts, course.octets, course.retries, None if error is None else error.to_dict(), True,
        None if course.lease is None else course.lease.number, lookup.file,
    )  # fmt: skip
    recorded = runs.record(lake.root, made, None if signals.session_ended() else lake.spark)
    if isinstance(recorded, str) and signals.late is not None:
        # Ctrl-C ends Spark's process too.
        recorded = runs.record(lake.root, made, None)
    made = replace(made, recorded=recorded)
    _write_files(made, report, metrics)
    LOGGER.info("%s: the run %s is %s after %.1f s", name, identity, outcome, made.seconds)
    return made


def not_begun(
    root: str,
    name: str,
    error: LakelogError,
    *,
    clock: Callable[[], int],
    report: str | PathLike[str] | None = None,
    metrics: str | PathLike[str] | None = None,
) -> Run:
    """The report of a run that could not begin: the lake cannot be opened, the configuration is wrong, a signal came first.

    Args:
        root: the lake, as far as it is known.
        name: the topic.
        error: why.
        clock: milliseconds since 1970.
        report: as of `run`.
        metrics: as of `run`.

    Gives: the report; its row is written where the root is a lake that delta-rs writes (runs.record).
    """
    # As a lake's root is written: figures of another one are other figures.
    root, now = root.rstrip("/") or root, as_datetime(clock())
    made = Run(
        uuid.uuid4().hex, name, root, INTERRUPTED if error.name == "INTERRUPTED" else FAILED, error.exit_code, now, now, 0.0, None, versions(None),
        {}, {}, [], {}, {}, [], error.to_dict(), True,
    )  # fmt: skip
    made = replace(made, recorded=runs.record(root, made, None))
    _write_files(made, report, metrics)
    return made


def _steps(
    lake: Lake,
    name: str,
    sources: Sequence[Source],
    course: _Course,
    watcher: Watcher,
    signals: Signals,
    run: str,
    lookup: Lookup,
    *,
    wait_ms: int,
    lease_ms: int,
) -> None:
    """The steps, up to the first that is refused: what refused it is raised."""
    topic = course.topic = lake.topic(name)
    course.lease = lease.acquire(lake, name, run, lease_ms=lease_ms, wait_ms=wait_ms, tell=watcher.waits)
    course.configuration = configuration(topic, sources)
    course.before = place(topic)
    work = Work(topic, sources, lookup)
    for step, do in STEPS.items():
        course.step, begun = step, time.monotonic()
        done = Outcome(FAILED)
        try:
            course.lease = lease.prolonged(lake, course.lease, lease_ms=lease_ms)
            with keeper.kept(lake, course.lease, lease_ms=lease_ms), watcher.during(step) as tell:
                done = do(work, _prolonging(lake, course, tell, lease_ms))
        except BaseException as error:
            if signals.session_ended() or not isinstance(error, Exception):
                done = Outcome(INTERRUPTED)
            raise
        finally:
            course.counts.update({kind: number for kind, number in done.counts.items() if number})
            course.octets.update(done.octets)
            course.steps.append(Step(step, done.outcome, round(time.monotonic() - begun, 3), done.report, done.why))
            watcher.after(course.steps[-1])
        if done.error is not None:
            raise done.error


def _prolonging(lake: Lake, course: _Course, tell: Tell, lease_ms: int) -> Tell:
    """``tell``, which also prolongs the lease within a long step."""

    def told(done: int, total: int) -> None:
        tell(done, total)
        if course.lease is not None:
            course.lease = lease.prolonged(lake, course.lease, lease_ms=lease_ms)

    return told


@contextlib.contextmanager
def _retries(course: _Course) -> Iterator[None]:
    """Take note of what verbs log when they try again."""

    class Listening(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            # Other warnings are no retries.
            if "; try " in record.getMessage():
                course.retries.append({"step": course.step, "reason": record.getMessage()})

    listening = Listening(logging.WARNING)
    LOGGER.addHandler(listening)
    try:
        yield
    finally:
        LOGGER.removeHandler(listening)


def _write_files(made: Run, report: str | PathLike[str] | None, metrics: str | PathLike[str] | None) -> None:
    """The report and the figures; where one cannot be written the run's result stands."""
    for what, file in (("report", report), ("metrics", metrics)):
        if file is None:
            continue
        try:
            if what == "report":
                report_files.write(file, made.to_json() + "\n")
            else:
                report_files.write_metrics(file, made)
        except OSError as error:
            LOGGER.warning("%s: the %s of the run %s cannot be written: %s", made.topic, what, made.run, error)
