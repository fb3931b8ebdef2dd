"""How a topic went on: series over time, made of the reports of its runs and the commits of its tables. Values; no I/O."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any

from lakelog.model.json_values import EPOCH
from lakelog.page.table_reader import Commit

# A series: (when, how much), oldest first.
Series = list[tuple[datetime.datetime, float]]
# By operation, Delta's figures of the octets that came and went.
CAME = ("numOutputBytes", "numTargetBytesAdded", "numAddedBytes", "restoredFilesSize")
WENT = ("numTargetBytesRemoved", "numRemovedBytes", "removedFilesSize")


def moment(ms: int) -> datetime.datetime:
    """A time of milliseconds, in UTC."""
    return EPOCH + datetime.timedelta(milliseconds=ms)


def sizes(commits: Sequence[Commit], now: int) -> Series:
    """A table's octets after each commit, counted back from what it has now; up to the first commit that does not tell what it changed.

    Args:
        commits: newest first.
        now: the table's octets after the newest.
    """
    found: Series = []
    left = now
    for one in commits:
        found.append((moment(one.at), float(left)))
        change = _changed(one)
        if change is None or left - change < 0:
            break
        left -= change
    return found[::-1]


def _changed(one: Commit) -> int | None:
    """By how many octets a commit changed the table; None where it does not tell."""
    came = next((int(one.metrics[name]) for name in CAME if _is_number(one.metrics.get(name))), None)
    went = next((int(one.metrics[name]) for name in WENT if _is_number(one.metrics.get(name))), None)
    if came is None and went is None:
        # Properties, columns and VACUUM change no file; whatever else says nothing is not known.
        known = ("SET ", "UNSET ", "VACUUM", "CHANGE ", "ADD ", "UPGRADE", "CREATE TABLE", "COMPUTE ")
        return 0 if one.operation.upper().startswith(known) else None
    return (came or 0) - (went or 0)


def _is_number(text: object) -> bool:
    return isinstance(text, (str, int)) and str(text).isdecimal()


def started(run: Mapping[str, Any]) -> datetime.datetime:
    """When a run began."""
    return datetime.datetime.fromisoformat(str(run["started_at"]))


def ended(run: Mapping[str, Any]) -> datetime.datetime:
    """When a run ended."""
    return datetime.datetime.fromisoformat(str(run["ended_at"]))


def waiting(runs: Sequence[Mapping[str, Any]]) -> Series:
    """How many offsets waited for a merge before and after each run."""
    found: Series = []
    for run in runs:
        for place, at in (("before", started(run)), ("after", ended(run))):
            behind = _behind(run.get(place) or {})
            if behind is not None:
                found.append((at, behind))
    return found


def _behind(place: Mapping[str, Any]) -> int | None:
    ends, merged = place.get("ends"), place.get("merged")
    if not isinstance(ends, dict) or not isinstance(merged, dict):
        return None
    return sum(int(end) - int(merged.get(index, 0)) for index, end in ends.items())


def log_end(runs: Sequence[Mapping[str, Any]]) -> Series:
    """The sum of the log end offsets after each run: all offsets that were ever given, but for those that a restore gave anew."""
    places = [(ended(run), (run.get("after") or {}).get("ends")) for run in runs]
    return [(at, float(sum(ends.values()))) for at, ends in places if isinstance(ends, dict)]


def log_octets(runs: Sequence[Mapping[str, Any]]) -> Series:
    """The octets of keys, values and headers in the log, as each run's clean step found or left them."""
    return [(ended(run), float(run["octets"]["log"])) for run in runs if "log" in (run.get("octets") or {})]


def dirty_ratio(runs: Sequence[Mapping[str, Any]]) -> Series:
    """The dirty ratio of the dirtiest partition, as each run's clean step found it."""
    found: Series = []
    for run in runs:
        for step in run.get("steps", []):
            partitions = (step.get("report") or {}).get("partitions") if step["step"] == "clean" else None
            if partitions:
                found.append((started(run), max(float(one["dirty_ratio"]) for one in partitions)))
    return found
