"""What a run leaves beside its tables: the report as JSON, and figures for node-exporter's textfile collector; each written as a whole."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from pathlib import Path

from lakelog.cleaning_results import still_overdue_ms
from lakelog.errors import InvalidRequest
from lakelog.running_results import DONE, Run

# name: what it says. Few, and never renamed: people's alarms hang on them.
FIGURES = {
    "lakelog_run_last_success_timestamp_seconds": "End of the last run that succeeded.",
    "lakelog_run_end_timestamp_seconds": "End of the last run.",
    "lakelog_run_exit_code": "Exit code of the last run.",
    "lakelog_run_seconds": "Length of the last run, by step.",
    "lakelog_run_count": "What the last run did: files, records and keys, by kind.",
    "lakelog_run_retries": "How often the last run tried again, since another writer was first.",
    "lakelog_compaction_overdue_seconds": "For how long the log waits to be cleaned beyond max.compaction.lag.ms, after the last run.",
}
SUCCESS = "lakelog_run_last_success_timestamp_seconds"


def require_writable(option: str, file: str | os.PathLike[str] | None) -> None:
    """Refuse a file that certainly cannot be written, before anything is done.

    Raises:
        InvalidRequest: naming it.
    """
    if file is None:
        return
    folder = Path(file).absolute().parent
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK) or (Path(file).exists() and not Path(file).is_file()):
        raise InvalidRequest(f"{option}{file}: it cannot be written there. Nothing was done. Name a file in a folder that can be written.")


def write(file: str | os.PathLike[str], text: str) -> None:
    """Write a file as a whole: whoever reads it sees the old one or the new one.

    Raises:
        OSError: it cannot be written; the old one is as it was.
    """
    target = Path(file).absolute()
    descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with open(descriptor, "w", encoding="utf-8") as written:
            written.write(text)
        os.chmod(name, 0o644)
        os.replace(name, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.remove(name)
        raise


def metrics(made: Run, before: str = "") -> str:
    """A run's figures as text for node-exporter; the time of the last success is that of ``before``, the file's old text, where this run failed.

    So is the root, where this run does not know it: an alarm would lose sight of figures with other labels.
    """
    labels = {"root": made.root or _root(before, made.topic), "topic": made.topic}
    end = made.ended_at.timestamp()
    success = end if made.outcome == DONE else _success(before, _labelled(labels))
    rows: dict[str, list[tuple[dict[str, str], float]]] = {
        SUCCESS: [] if success is None else [({}, success)],
        "lakelog_run_end_timestamp_seconds": [({}, end)],
        "lakelog_run_exit_code": [({}, made.exit_code)],
        "lakelog_run_seconds": [({"step": one.step}, one.seconds) for one in made.steps],
        "lakelog_run_count": [({"kind": kind}, number) for kind, number in sorted(made.counts.items())],
        "lakelog_run_retries": [({}, len(made.retries))],
        "lakelog_compaction_overdue_seconds": [({}, ms / 1000) for ms in _overdue_ms(made)],
    }
    lines = []
    for name, says in FIGURES.items():
        lines += [f"# HELP {name} {says}", f"# TYPE {name} gauge"]
        lines += [f"{name}{_labelled({**labels, **own})} {number:.15g}" for own, number in rows[name]]
    return "\n".join(lines) + "\n"


def _overdue_ms(made: Run) -> list[int]:
    """For how long the partitions that were not cleaned are overdue, at most; nothing of a run that did not come to its clean."""
    reports = [one.report for one in made.steps if one.step == "clean" and isinstance(one.report, dict) and "partitions" in one.report]
    return [max(map(still_overdue_ms, report["partitions"]), default=0) for report in reports]


def _success(text: str, labels: str) -> float | None:
    found = re.search(rf"^{SUCCESS}{re.escape(labels)} ([0-9.e+]+)$", text, re.MULTILINE)
    return float(found[1]) if found else None


def _root(text: str, topic: str) -> str:
    """The root of a topic's figures; empty where there are none."""
    found = re.search(rf'^lakelog_run_\w+\{{root="((?:[^"\\\n]|\\.)*)",topic="{re.escape(_escaped(topic))}"', text, re.MULTILINE)
    return re.sub(r"\\(.)", lambda sign: "\n" if sign[1] == "n" else sign[1], found[1]) if found else ""


def _labelled(labels: dict[str, str]) -> str:
    return "{" + ",".join(f'{name}="{_escaped(text)}"' for name, text in labels.items()) + "}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def write_metrics(file: str | os.PathLike[str], made: Run) -> None:
    """Write a run's figures.

    Raises:
        OSError: the file cannot be written; the old one is as it was.
    """
    try:
        before = Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        before = ""
    write(file, metrics(made, before))
