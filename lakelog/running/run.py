"""One run of a topic: append from its sources, merge, snapshot, clean, check; reported whatever becomes of it.

A run stops at the first step that is refused, with that refusal's exit code. Every step is safe to run again and safe beside another run's: what
decides is Delta's conflict.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import importlib.metadata
import json
import logging
import platform
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import Any

from lakelog.errors import LakelogError
from lakelog.lake.lake import Lake
from lakelog.latest.progress import progress
from lakelog.log.tail import log_end
from lakelog.model.records import as_datetime
from lakelog.running import report_files, runs
from lakelog.running.interrupt import Signals
from lakelog.running.sources import Source
from lakelog.running.steps import STEPS, Outcome, Tell, Work
from lakelog.running_results import DONE, FAILED, INTERRUPTED, Run, Step
from lakelog.topic import Topic

LOGGER = logging.getLogger("lakelog")


@dataclass(frozen=True)
class Watcher:
    """Who is told how a run goes on: ``during`` a step, which gives a function that is told (done, in all); ``after`` it."""

    during: Callable[[str], AbstractContextManager[Tell]]
    after: Callable[[Step], None]


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

    Gives: the report, of a run that failed or was interrupted too: see its ``outcome``, ``exit_code`` and ``error``.

    Raises:
        InvalidRequest: a file cannot be written; nothing was done.

    Cost: that of its steps; beside them four small Spark jobs and a commit on the lake's table of runs.
    """
    report_files.require_writable("--report", report)
    report_files.require_writable("--metrics-file", metrics)
    course, identity, started, begun = _Course(), uuid.uuid4().hex, lake.clock(), time.monotonic()
    signals = signals or Signals()
    error: LakelogError | None = None
    try:
        with _retries(course):
            _steps(lake, name, sources, course, watcher, signals)
    except BaseException as caught:
        error = (as_error or signals.as_error)(caught)
    after = {} if signals.session_ended() or course.topic is None else _place(course.topic)
    outcome = DONE if error is None else INTERRUPTED if error.name == "INTERRUPTED" else FAILED
    made = Run(
        identity, name, lake.root, outcome, 0 if error is None else error.exit_code, as_datetime(started), as_datetime(lake.clock()),
        round(time.monotonic() - begun, 3), course.configuration, versions(lake, ended=signals.session_ended()), course.before, after, course.steps,
        course.counts, course.octets, course.retries, None if error is None else error.to_dict(), True,
    )  # fmt: skip
    made = replace(made, recorded=runs.record(lake, made, session_ended=signals.session_ended()))
    _write_files(made, report, metrics)
    LOGGER.info("%s: the run %s is %s after %.1f s", name, identity, outcome, made.seconds)
    return made


def _steps(lake: Lake, name: str, sources: Sequence[Source], course: _Course, watcher: Watcher, signals: Signals) -> None:
    """The steps, up to the first that is refused: what refused it is raised."""
    topic = course.topic = lake.topic(name)
    course.configuration = configuration(topic, sources)
    course.before = _place(topic)
    work = Work(topic, sources)
    for step, do in STEPS.items():
        course.step, begun = step, time.monotonic()
        done = Outcome(FAILED)
        try:
            with watcher.during(step) as tell:
                done = do(work, tell)
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


def _place(topic: Topic) -> dict[str, Any]:
    """Where a topic stands; empty where it cannot tell."""
    try:
        end = log_end(topic.log)
        latest = progress(topic.log.spark, topic.log.silver)
    except Exception:
        return {}
    return {
        "bronze": end.version, "silver": latest.version, "epoch": end.epoch,
        "ends": {str(index): offset for index, offset in end.ends().items()},
        "merged": {str(index): offset for index, offset in sorted(latest.next.items())},
    }  # fmt: skip


def configuration(topic: Topic, sources: Sequence[Source]) -> str:
    """SHA-256 of what decides what a run does: the topic's types and effective settings, and its sources."""
    described = topic.describe()
    settings = {one["name"]: one["value"] for one in described.config}
    said = [described.uuid, described.key, described.value, described.partitions, settings, [dataclasses.asdict(one) for one in sources]]
    return hashlib.sha256(json.dumps(said, sort_keys=True, default=str).encode()).hexdigest()


def versions(lake: Lake, *, ended: bool) -> dict[str, str]:
    """The versions of lakelog, of Spark and Delta, and of Python."""
    from lakelog import __version__

    found = {"lakelog": __version__, "python": platform.python_version()}
    for name, package in (("spark", "pyspark"), ("delta", "delta-spark")):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(package)
    if not ended:
        with contextlib.suppress(Exception):
            found["spark"] = lake.spark.version
    return found


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
