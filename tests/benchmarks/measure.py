"""What a piece of work costs: wall, CPU of this process and its children, bytes written below a folder, files removed, peak memory."""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil


def cpu_seconds() -> float:
    """CPU time of this process and all that it started, ended ones included."""
    own = os.times()
    total = own.user + own.system + own.children_user + own.children_system
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            times = child.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total


def tree_bytes(folder: Path) -> dict[str, int]:
    """Size of every file below a folder."""
    sizes = {}
    for path, _, files in os.walk(folder):
        for name in files:
            with contextlib.suppress(OSError):
                sizes[os.path.join(path, name)] = os.path.getsize(os.path.join(path, name))
    return sizes


def removed_files(table: Path, after: set[str]) -> int:
    """Data files that the commits since then took out of a table (rewritten files); control rows' folder not counted."""
    count = 0
    for log in table.glob("_delta_log/*.json"):
        if log.name not in after and len(log.name) == 25:
            for line in log.read_text().splitlines():
                action = json.loads(line)
                if "remove" in action and "bucket=-1" not in action["remove"]["path"] and action["remove"].get("dataChange", True):
                    added_again = any(
                        "add" in other and other["add"]["path"] == action["remove"]["path"]
                        for other in map(json.loads, log.read_text().splitlines())
                    )
                    count += not added_again
    return count


class Peak:
    """The largest resident memory of this process and its children, sampled."""

    def __init__(self) -> None:
        self.bytes = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(0.2):
            total = 0
            for process in [psutil.Process(), *psutil.Process().children(recursive=True)]:
                with contextlib.suppress(psutil.Error):
                    total += process.memory_info().rss
            self.bytes = max(self.bytes, total)

    def stop(self) -> int:
        """The peak in bytes."""
        self._stop.set()
        return self.bytes


@contextlib.contextmanager
def measured(table: Path, figures: dict[str, float]) -> Iterator[None]:
    """Measure the body's work on a table into ``figures``."""
    before, logs = tree_bytes(table), {log.name for log in table.glob("_delta_log/*.json")}
    cpu, wall = cpu_seconds(), time.perf_counter()
    yield
    figures["wall_s"] = round(time.perf_counter() - wall, 2)
    figures["cpu_s"] = round(cpu_seconds() - cpu, 2)
    after = tree_bytes(table)
    figures["written_mb"] = round(sum(size for path, size in after.items() if path not in before) / 1e6, 2)
    figures["files_rewritten"] = removed_files(table, logs)
