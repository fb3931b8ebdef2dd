"""A process that stands at every step of many operations at once, to be killed: ``victim.py`` with a plan as JSON on the command line.

A step is a commit, a folder removed, or of an export: its data written, its manifest. An operation is run once to its end on a copy of its
lake, which tells how many steps it has. Then it is run again for each of them, on a copy and in a thread of its own, and waits just before
that step: also just after the one before.
A last run of each waits in the middle until standard input says ``go``, and goes on while the process is killed.

The plan: ``folder`` of the copies, ``templates`` (name to folder), ``operations`` (their names), and at which ``steps`` to stop (kills.py).
The answer: one line with [operation, step, how many steps it has] of each run, step 0 for the one that goes on.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lakelog import Lake, local_session
from lakelog.cleaning import clean
from lakelog.delta import statement
from lakelog.operations import delete
from lakelog.snapshots import maintain
from lakelog.transfer import manifest
from tests.conftest import NOON, QUICK_SPARK
from tests.races.operations import OPERATIONS

held = statement.held
here = threading.local()


class Run:
    """An operation on a copy of its lake, that stops before a step (None: it does not), until ``go``."""

    def __init__(self, spark: Any, plan: dict[str, Any], name: str, label: int, stop: int | None) -> None:
        self.operation, self.stop, self.steps, self.inside = OPERATIONS[name], stop, 0, 0
        self.stands, self.go = threading.Event(), threading.Event()
        self.error: Exception | None = None
        folder = Path(plan["folder"], f"{name}-{label}")
        template = plan["templates"].get(self.operation.template)
        shutil.copytree(template, folder) if template else folder.mkdir()
        self.lake = Lake(spark.newSession(), str(folder / "lake"), clock=lambda: NOON)
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()
        self.stands.wait()
        if self.error is not None or (stop is not None and self.steps != stop):
            raise RuntimeError(f"{name} has {self.steps} steps, it was to stop before {stop}") from self.error

    def _run(self) -> None:
        here.run = self
        try:
            self.operation.call(self.lake)
        except Exception as error:
            self.error = error
        finally:
            self.stands.set()

    def step(self) -> None:
        """A step is about to be made."""
        self.steps += 1
        if self.steps == self.stop:
            self.stands.set()
            self.go.wait()


@contextlib.contextmanager
def stepped(*given: Any, **more: Any) -> Iterator[None]:
    """`lock.held`, before which a run may stop; where one commit is made within another's turn, after it."""
    run = here.run
    if not run.inside:
        run.step()
    run.inside += 1
    try:
        with held(*given, **more):
            yield
    finally:
        run.inside -= 1
    if run.inside:
        run.step()


def _after_a_step(function: Any) -> Any:
    def stepping(*given: Any) -> Any:
        here.run.step()
        return function(*given)

    return stepping


def _chosen(which: str, name: str, steps: int) -> list[int]:
    """The steps to stop before, of so many."""
    if which == "every":
        return list(range(1, steps + 1))
    return [(steps + 1) // 2] if which == "middle" else sorted({1 + len(name) % max(1, steps - 1), steps})


def main() -> None:
    plan = json.loads(sys.argv[1])
    spark = local_session("victim", master="local[2]", memory="2g", config=QUICK_SPARK)
    statement.held = delete.held = maintain.held = stepped
    # An export commits to no table.
    for name in ("is_there", "files", "write"):
        setattr(manifest, name, _after_a_step(getattr(manifest, name)))
    # So a clean of few segments writes them again in several commits.
    clean.GROUP_SEGMENTS = 2
    # Each run has a session of its own.
    statement._settings_in_use = contextlib.nullcontext()
    runs, going = [], []
    for name in plan["operations"]:
        traced = Run(spark, plan, name, 99, None)
        middle = (traced.steps + 1) // 2
        for step in _chosen(plan["steps"], name, traced.steps):
            Run(spark, plan, name, step, step)
            runs.append([name, step, traced.steps])
        going.append(Run(spark, plan, name, 0, middle))
        runs += [[name, label, traced.steps] for label in ([0, 99] if plan["steps"] == "every" else [0])]
    sys.stdout.write(json.dumps(runs) + "\n")
    sys.stdout.flush()
    sys.stdin.readline()
    for run in going:
        run.go.set()
    threading.Event().wait()


if __name__ == "__main__":
    main()
