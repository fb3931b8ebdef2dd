"""The verbs of jobs: parsed parameters in, the verb of `Topic`, and what to report."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakelog.cli.settings import load
from lakelog.errors import Conflict, GateFailed, LakelogError

if TYPE_CHECKING:
    from lakelog.topic import Topic


@dataclass(frozen=True)
class Outcome:
    """What a job reports: a line of JSON and an exit code; where that is not 0, the error's name and message."""

    report: str
    exit_code: int = 0
    error: str = ""
    message: str = ""


def perform(given: Namespace) -> Outcome:
    """Open the lake and run the verb; an error of lakelog's is an outcome too."""
    try:
        lake = load(root=given.root, config=given.config).open_lake()
        return _VERBS[given.verb](lake.topic(given.topic), given)
    except LakelogError as error:
        return failed(error)


def failed(error: LakelogError) -> Outcome:
    """An error as a report."""
    return Outcome(json.dumps(error.to_dict(), default=str), error.exit_code, error.name, str(error))


def _append(topic: Topic, given: Namespace) -> Outcome:
    from lakelog.inputs.identity import of_files

    token = given.token or of_files(given.files)
    written = {"format": given.format, "delimiter": given.delimiter, "encoding": given.encoding, "null": given.null}
    return Outcome(topic.append(given.files, **written, token=token).to_json())


def _merge(topic: Topic, given: Namespace) -> Outcome:
    return Outcome(topic.merge(max_records=given.max_records, rebuild=given.rebuild).to_json())


def _snapshot(topic: Topic, given: Namespace) -> Outcome:
    return Outcome(topic.snapshot(given.name, keep=given.keep, note=given.note).to_json())


def _restore(topic: Topic, given: Namespace) -> Outcome:
    return Outcome(topic.restore(given.to, log=given.log, dry_run=given.dry_run, unless_there=True).to_json())


def _check(topic: Topic, given: Namespace) -> Outcome:
    verdict = topic.check(page=given.page)
    if verdict.ok:
        return Outcome(verdict.to_json())
    return Outcome(verdict.to_json(), GateFailed.exit_code, GateFailed.name, f"{given.topic}: the latest table breaks its expectations.")


def _clean(topic: Topic, given: Namespace) -> Outcome:
    cleaned = topic.clean(dry_run=given.dry_run, force=given.force, max_bytes=given.max_bytes)
    # A partition that could not be cleaned is named in the report; a run again goes on with it.
    stopped = [f"partition {one.partition}: {one.error}" for one in cleaned.partitions if one.error]
    if not stopped:
        return Outcome(cleaned.to_json())
    return Outcome(cleaned.to_json(), Conflict.exit_code, Conflict.name, f"{given.topic}: {'; '.join(stopped)}")


def _maintain(topic: Topic, given: Namespace) -> Outcome:
    return Outcome(topic.maintain().to_json())


_VERBS: dict[str, Callable[[Topic, Namespace], Outcome]] = {
    "append": _append, "merge": _merge, "snapshot": _snapshot, "restore": _restore,
    "check": _check, "clean": _clean, "maintain": _maintain,
}  # fmt: skip
