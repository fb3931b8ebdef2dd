"""``python -m tests.benchmarks snapshot``: snapshots and restores of a small and a large table beside each other, in one process.

What must not grow with the number of keys: taking a snapshot (nothing left to merge), listing and describing, and the execution of a restore, both
ways, without its dry run. Each restore takes back an append and merge of a thousand records. The dry run compares rows and is shown beside.
"""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.benchmarks.measure import measured
from tests.benchmarks.table import Line, show

TAIL = 1000
WARM = 10_000


def main(sizes: list[int], rounds: int) -> None:
    """Measure a warm-up size, then each, and print them beside the first."""
    from lakelog import Lake, local_session

    root = Path(tempfile.mkdtemp(prefix="lakelog-bench-"))
    try:
        lake = Lake(local_session(master="local[2]", memory="6g"), str(root / "lake"))
        found = {size: of_size(lake, root / "lake", size, 1 if size == WARM else rounds) for size in [WARM, *sizes]}
        for step in found[sizes[0]]:
            lines = []
            for size in sizes:
                cpu, wall = (statistics.median(one[field] for one in found[size][step]) for field in ("cpu_s", "wall_s"))
                base = statistics.median(one["cpu_s"] for one in found[sizes[0]][step])
                lines.append(Line(f"{size:,} keys", cpu, wall, None if size == sizes[0] else base))
            show(step, lines)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def of_size(lake: object, root: Path, size: int, rounds: int) -> dict[str, list[dict[str, float]]]:
    """The figures of each step over a table of so many keys."""
    spark = lake.spark  # type: ignore[attr-defined]
    name = f"keys_{size}"
    topic = lake.create_topic(name, key="BIGINT", value="text STRING", partitions=2)  # type: ignore[attr-defined]
    topic.append(spark.range(size).selectExpr("id AS key", "struct(concat('value ', id) AS text) AS value"))
    topic.merge()
    found: dict[str, list[dict[str, float]]] = {}

    def step(title: str, action: Callable[[], object]) -> object:
        figures: dict[str, float] = {}
        with measured(root / name / "silver", figures):
            answer = action()
        found.setdefault(title, []).append(figures)
        return answer

    for number in range(rounds):
        for way in ("truncate", "keep"):
            label = f"{way}-{number}"
            step("snapshot", lambda label=label: topic.snapshot(label, keep="1 day"))
            topic.append(spark.range(TAIL).selectExpr("id * 7 AS key", f"struct('{label}' AS text) AS value"))
            topic.merge()
            step("list and describe", lambda label=label: (topic.snapshots(), topic.describe_snapshot(label)))
            step(f"restore, log={way}: dry run", lambda label=label, way=way: topic.restore(label, log=way, dry_run=True))
            done = step(f"restore, log={way}", lambda label=label, way=way: topic.restore(label, log=way))
            sys.stderr.write(f"  {size:,} keys: {done}\n")
    return found
