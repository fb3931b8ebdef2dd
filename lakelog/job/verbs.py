"""The verbs of jobs: parsed parameters in, the verb of `Topic`, and what to report."""

from __future__ import annotations

import json
import sys
import traceback
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakelog.errors import InvalidRequest, LakelogError
from lakelog.model.snapshot_id import keep_ms
from lakelog.running.interrupt import Signals
from lakelog.terminal.named import messages_of, sources_of
from lakelog.terminal.settings import load, stated_root
from lakelog.terminal.words import in_cli

if TYPE_CHECKING:
    from lakelog.lake.lake import Lake
    from lakelog.sources.configured import Source
    from lakelog.terminal.settings import Settings
    from lakelog.topic import Topic


@dataclass(frozen=True)
class Outcome:
    """What a job reports: a line of JSON and an exit code; where that is not 0, the error's name and message."""

    report: str
    exit_code: int = 0
    error: str = ""
    message: str = ""


@dataclass(frozen=True)
class Work:
    """What a verb works with: its parameters, the lake, and where an append takes its records from."""

    given: Namespace
    lake: Lake
    sources: Sequence[Source] = ()

    @property
    def topic(self) -> Topic:
        """The topic."""
        return self.lake.topic(self.given.topic)


def perform(given: Namespace, signals: Signals | None = None) -> Outcome:
    """Open the lake and run the verb; an error of lakelog's is an outcome too."""
    if given.verb == "run":
        return _run(given, signals or Signals())
    try:
        settings = load(root=given.root, config=given.config)
        sources = _sources(given, settings) if given.verb == "append" else []
        return _VERBS[given.verb](Work(given, settings.reading(sources).open_lake(), sources))
    except LakelogError as error:
        return failed(error, given.topic)


def failed(error: LakelogError, topic: str | None = None, report: str | None = None) -> Outcome:
    """An error as a report, or with the ``report`` that there is, in the words of the command line: a job's parameters are its options."""
    error = in_cli(error, topic)
    return Outcome(report or json.dumps(error.to_dict(), default=str), error.exit_code, error.name, str(error))


def _run(given: Namespace, signals: Signals) -> Outcome:
    """All that is due; reported by the run itself, where it could not begin too."""
    from lakelog.lake.lake import system_clock
    from lakelog.running import report_files
    from lakelog.running.run import not_begun, run

    def as_error(error: BaseException) -> LakelogError:
        # A defect: whoever mends it needs to know where.
        if isinstance(error, Exception) and not isinstance(error, LakelogError) and signals.received is None:
            traceback.print_exception(error)
        return in_cli(signals.as_error(error), given.topic)

    files = {"report": given.report, "metrics": given.metrics_file}
    root = stated_root(given.root)
    try:
        settings = load(root=given.root, config=given.config)
        root = settings.root or root
        report_files.require_writable("report=", given.report)
        report_files.require_writable("metrics=", given.metrics_file)
        wait_ms = keep_ms(given.wait, what="--wait") or 0
        sources = settings.sources.get(given.topic, ())
        lake = settings.reading(sources).open_lake()
        signals.started(lake.spark)
        for sentence in settings.unknown_topics(lake):
            sys.stderr.write(f"Warning: {sentence}\n")
    except BaseException as error:
        signals.defer()
        made = not_begun(root, given.topic, as_error(error), clock=system_clock, **files)
    else:
        made = run(
            lake, given.topic, sources, signals=signals, as_error=as_error, wait_ms=wait_ms, lookup=settings.lookup(given.topic), **files
        )
    said = made.error or {}
    return Outcome(made.to_json(), made.exit_code, str(said.get("error", "")), str(said.get("message", "")))


def _written(given: Namespace) -> dict[str, Any]:
    """How files are written, where the parameters say it."""
    return {name: getattr(given, name) for name in ("format", "delimiter", "encoding", "null") if getattr(given, name) is not None}


def _sources(given: Namespace, settings: Settings) -> list[Source]:
    """Where an append takes its records from; none where it is files that are named."""
    if given.files and given.sources:
        raise InvalidRequest("--from takes the files or messages of a source once each: name no FILE beside it.")
    messages = messages_of(given.mirror, given.decode)
    if given.files and messages:
        raise InvalidRequest("--mirror and --decode are about messages of Kafka: name no FILE beside them.")
    if given.files:
        return []
    if given.token is not None:
        raise InvalidRequest("--token is the name of a batch of files: name some. What sources hold is appended once without it.")
    return sources_of(settings, given.topic, given.sources or (), _written(given), messages)


def _append(work: Work) -> Outcome:
    from lakelog.inputs.identity import matched, of_files
    from lakelog.log.ledger import InputToken
    from lakelog.sources.append import append_from

    topic, given = work.topic, work.given
    if not given.files:
        return Outcome(json.dumps({"sources": [one.to_dict() for one in append_from(topic, work.sources)]}))
    files = [path for named in given.files for path in matched(named)]
    token = given.token or InputToken.of(of_files(files))
    return Outcome(topic.append(files, **_written(given), token=token).to_json())


def _merge(work: Work) -> Outcome:
    topic, given = work.topic, work.given
    return Outcome(topic.merge(max_records=given.max_records, rebuild=given.rebuild).to_json())


def _snapshot(work: Work) -> Outcome:
    topic, given = work.topic, work.given
    return Outcome(topic.snapshot(given.name, keep=given.keep, note=given.note).to_json())


def _restore(work: Work) -> Outcome:
    topic, given = work.topic, work.given
    return Outcome(topic.restore(given.to, log=given.log, dry_run=given.dry_run, unless_there=True).to_json())


def _check(work: Work) -> Outcome:
    from lakelog.quality.judgement import of_audit

    topic, given = work.topic, work.given
    verdict = topic.check(page=given.page)
    error = of_audit(verdict)
    return Outcome(verdict.to_json()) if error is None else failed(error, given.topic, verdict.to_json())


def _clean(work: Work) -> Outcome:
    topic, given = work.topic, work.given
    cleaned = topic.clean(dry_run=given.dry_run, force=given.force, max_bytes=given.max_bytes, roll_idle=True)
    # A partition that could not be cleaned is named in the report; where others were first, a run again goes on with it.
    stopped = cleaned.failure
    return Outcome(cleaned.to_json()) if stopped is None else failed(stopped, given.topic, cleaned.to_json())


def _maintain(work: Work) -> Outcome:
    return Outcome(work.topic.maintain().to_json())


# Beside `_run`.
_VERBS: dict[str, Callable[[Work], Outcome]] = {
    "append": _append, "merge": _merge, "snapshot": _snapshot, "restore": _restore,
    "check": _check, "clean": _clean, "maintain": _maintain,
}  # fmt: skip
