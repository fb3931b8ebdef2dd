"""What kills operations: kill -9 at every step, or somewhere in the middle of a commit; then another process goes on.

The victim (victim.py) stands before all steps of all operations at once, in as many lakes, so that one kill cuts all of them off.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

from lakelog import Lake
from tests.conftest import NOON
from tests.races.operations import OPERATIONS
from tests.races.operations.append import gated, split
from tests.races.operations.cleaning import EARLIER, expiring, segmented
from tests.races.operations.readers import exported
from tests.races.operations.snapshots import named
from tests.races.operations.state import MERGED, MORE, WAITING, create, records
from tests.races.processes import kill, start
from tests.tables import unpacked, version_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ARCHIVE = Path(__file__).parent.parent / "data" / "format-1.tar.gz"
GOING_ON = 0
# So many commits and removed folders at least, or the trace does not see them.
LEAST: dict[str, int] = {
    "merge": 1,
    "bulk": 2,
    "settings": 3,
    "repair": 3,
    "create": 4,
    "delete": 4,
    "upgrade": 5,
    "types": 6,
    "snapshot": 3,
    "truncate": 7,
    "keep": 4,
    "maintain": 6,
    "cut": 4,
    "commit": 2,
    "clean": 5,
    "expire": 8,
    "erase": 6,
    "export": 3,
    "import": 2,
    "aside": 4,
    "aside_without_token": 4,
    "requeue": 4,
}
# Every operation stands in one group; a group's are cut off by one kill.
GROUPS = {
    "appends": ["expected", "token", "plain", "bulk", "aside", "aside_without_token", "requeue"],
    "latest": ["merge", "rebuild", "types", "settings"],
    "topics": ["create", "delete", "repair", "upgrade"],
    "snapshots": ["snapshot", "truncate", "keep", "maintain"],
    "readers": ["cut", "commit", "export", "import"],
    "cleaning": ["clean", "expire", "erase"],
}


def templates(spark: SparkSession, folder: Path, names: set[str]) -> dict[str, str]:
    """The lakes that operations begin with: one that is sound, one with a snapshot, one whose log was restored by hand, one of format 1."""
    lake = Lake(spark, str(folder / "sound" / "lake"), clock=lambda: NOON)
    topic = create(lake)
    topic.append(records(MERGED))
    topic.merge()
    before = version_of(folder / "sound" / "lake" / "t" / "bronze")
    topic.append(records(WAITING))
    if "named" in names:
        named(Lake(spark, str(folder / "named" / "lake"), clock=lambda: NOON))
    if "restored" in names:
        shutil.copytree(folder / "sound", folder / "restored")
        log = Lake(spark, str(folder / "restored" / "lake"), clock=lambda: NOON).topic("t").bronze
        spark.sql(f"RESTORE {log.sql()} TO VERSION AS OF {before}")
    if "covered" in names:
        shutil.copytree(folder / "sound", folder / "covered")
        topic = Lake(spark, str(folder / "covered" / "lake"), clock=lambda: NOON).topic("t")
        topic.configure({"segment.bytes": 14})
        topic.append(records(MORE))
        topic.snapshot("s")
    if "gated" in names:
        gated(Lake(spark, str(folder / "gated" / "lake"), clock=lambda: NOON))
    if "segments" in names:
        segmented(Lake(spark, str(folder / "segments" / "lake"), clock=lambda: NOON))
    if "expiring" in names:
        expiring(Lake(spark, str(folder / "expiring" / "lake"), clock=lambda: EARLIER))
    if "exported" in names:
        shutil.copytree(folder / "sound", folder / "exported")
        exported(Lake(spark, str(folder / "exported" / "lake"), clock=lambda: NOON))
    if "aside" in names:
        lake = Lake(spark, str(folder / "aside" / "lake"), clock=lambda: NOON)
        gated(lake)
        split(lake)
    if "old" in names:
        unpacked(ARCHIVE, folder / "old")
        old = Lake(spark, str(folder / "old" / "lake"), clock=lambda: NOON)
        for name in ("prices", "empty"):
            old.delete_topic(name)
    return {name: str(folder / name) for name in names - {"nothing"}}


def files(folder: Path, sign: str) -> set[str]:
    """The files below a folder whose names end so."""
    return {f"{place}/{name}" for place, _, names in os.walk(folder) for name in names if name.endswith(sign)}


def killed(
    spark: SparkSession, folder: Path, operations: list[str], *, steps: str = "middle", sign: str = "", share: float = 0.5
) -> list[tuple[str, int, int]]:
    """Let a process stand at the steps of operations, let one run of each go on, and kill it; gives operation, step and steps of each run.

    Args:
        spark: of this process, which makes the templates.
        folder: for the lakes.
        operations: their names.
        steps: where to stop, ``every`` one, a ``sample`` (the last, and one of the others, another one for each operation), or in the ``middle``.
        sign: the moment: files whose names end so have come, or gone, …
        share: … in so large a share of the lakes in which a run goes on.
    """
    plan = {
        "folder": str(folder / "copies"), "operations": operations, "steps": steps,
        "templates": templates(spark, folder, {OPERATIONS[name].template for name in operations}),
    }  # fmt: skip
    (folder / "copies").mkdir()
    victim = start(plan, module="tests.races.victim")
    try:
        assert victim.stdin is not None and victim.stdout is not None and victim.stderr is not None
        line = victim.stdout.readline()
        assert line, victim.stderr.read()[-4000:]
        going = [folder / "copies" / f"{name}-{GOING_ON}" for name in operations]
        before = [files(one, sign) for one in going]
        victim.stdin.write("go\n")
        victim.stdin.flush()
        until = time.monotonic() + 300
        while sum(files(one, sign) != seen for one, seen in zip(going, before, strict=True)) < share * len(going):
            assert time.monotonic() < until and victim.poll() is None, "the moment did not come"
            time.sleep(0.002)
    finally:
        kill(victim)
    assert victim.returncode == -9
    return [(name, step, steps) for name, step, steps in json.loads(line)]


def gone_on(spark: SparkSession, folder: Path, run: tuple[str, int, int]) -> str | None:
    """Let another process go on where one was killed, by the same call or by another verb first; what is wrong then."""
    name, step, steps = run
    operation, lake = OPERATIONS[name], Lake(spark, str(folder / "copies" / f"{name}-{step}" / "lake"), clock=lambda: NOON)
    # Standing before its first step it had not begun; of the one that went on nobody knows, if the first is where it stood.
    other_first = (step + len(name)) % 2 == 0 and not (step == GOING_ON and steps < 3)
    try:
        operation.afterwards(operation, lake, other_first, step != 1)
    except Exception as error:
        return f"{name}, step {step} of {steps}, {'another verb' if other_first else 'the same'} first: {type(error).__name__}: {error}"
    return None


def wrong_after(spark: SparkSession, folder: Path, group: str, *, sample: bool) -> list[str]:
    """Kill the operations of a group at every step (``sample``: at three of each), let other processes go on; what is wrong then."""
    runs = killed(spark, folder, GROUPS[group], steps="sample" if sample else "every")
    steps = {name: count for name, _, count in runs}
    few = [f"{name}: {count} steps were seen" for name, count in steps.items() if count < LEAST.get(name, 1)]
    return few + [wrong for run in runs if (wrong := gone_on(spark, folder, run))]
