"""Writers as processes: started together, read to their end, killed."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from lakelog.cli.demo import SHORT_LIVED
from tests.conftest import QUICK_JAVA

REPOSITORY = Path(__file__).parent.parent.parent


def environment(**more: str) -> dict[str, str]:
    """The variables of a process of this checkout that ends after a few verbs: Java's second compiler takes more than it saves there."""
    return {**os.environ, "PYTHONPATH": str(REPOSITORY), "JDK_JAVA_OPTIONS": f"{QUICK_JAVA} {SHORT_LIVED}", **more}


def start(plan: dict[str, Any], *, module: str = "tests.races.worker", preload: str = "") -> subprocess.Popen[str]:
    """A writer in a process group of its own (its Java with it), that waits for ``go``.

    ``preload`` is a library that stands before the system's, for it and its Java.
    """
    variables = environment(**({"LD_PRELOAD": preload} if preload else {}))
    return subprocess.Popen(
        [sys.executable, "-m", module, json.dumps(plan)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=variables, cwd=REPOSITORY,
        start_new_session=True,
    )  # fmt: skip


def race(plans: list[dict[str, Any]], *, module: str = "tests.races.worker", preload: str = "") -> dict[str, list[dict[str, Any]]]:
    """Run the plans at once, from the same moment on; returns every writer's lines. A writer that breaks fails the test."""
    writers = [(plan["name"], start(plan, module=module, preload=preload)) for plan in plans]
    try:
        for name, writer in writers:
            assert writer.stdout is not None
            first = writer.stdout.readline()
            assert json.loads(first or "{}").get("ready") == name, f"{name} did not start: {writer.stderr.read() if writer.stderr else ''}"
        for _, writer in writers:
            assert writer.stdin is not None
            writer.stdin.write("go\n")
            writer.stdin.flush()
        # All of them are read at once: a writer whose pipe is full waits.
        with ThreadPoolExecutor(len(writers)) as pool:
            told = list(pool.map(lambda named: named[1].communicate(timeout=1500), writers))
        lines = {}
        for (name, _), (out, err) in zip(writers, told, strict=True):
            lines[name] = [json.loads(line) for line in out.splitlines()]
            assert lines[name] and lines[name][-1] == {"end": name}, f"{name} broke: {err[-2000:]}"
        return lines
    finally:
        for _, writer in writers:
            kill(writer)


def kill(writer: subprocess.Popen[str]) -> None:
    """End a writer and its Java at once, as a crash would."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(writer.pid, signal.SIGKILL)
    writer.wait(timeout=60)
