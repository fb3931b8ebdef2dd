"""A million records appended by a job of its own, as schedulers run it: Python's, Java's and Spark's start are part of the cost.

A script that appends a frame with ``df.write.format("delta").mode("append")``, one that appends the same frame with ``topic.append(df)``, and
``jobs/append.py`` with a token and the files behind the frame.
"""

from __future__ import annotations

import hashlib
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pyarrow
from pyarrow import parquet

from tests.benchmarks.measure import cpu_seconds

RECORDS = 1_000_000


def write_input(folder: Path) -> None:
    """Two Parquet files with half of the records each: keys of 16 characters, values of 96."""
    folder.mkdir()
    for half in (0, 1):
        numbers = range(half * RECORDS // 2, (half + 1) * RECORDS // 2)
        keys = [f"k{number * 7919 % (2 * RECORDS):015}" for number in numbers]
        values = [hashlib.md5(str(number).encode()).hexdigest() * 3 for number in numbers]
        parquet.write_table(pyarrow.table({"key": keys, "value": values}), folder / f"part-{half}.parquet")


def run(kind: str, folder: Path) -> None:
    """One job, in this process."""
    source = str(folder / "input")
    if kind == "plain":
        from lakelog import local_session

        local_session().read.parquet(source).write.format("delta").mode("append").save(str(folder / "plain"))
        return
    from jobs.append import main
    from lakelog import Lake, local_session

    root = str(folder / "lake")
    if kind == "topics":
        lake = Lake(local_session(), root)
        lake.create_topic("t", key="STRING", value="STRING")
        lake.create_topic("of_frames", key="STRING", value="STRING")
    elif kind == "frame":
        spark = local_session()
        Lake(spark, root).topic("of_frames").append(spark.read.parquet(source))
    elif main(["--root", root, "--topic", "t", "--format", "parquet", "--token", f"at {time.time_ns()}", source]):
        raise SystemExit("jobs/append.py failed")


def measured(folder: Path, rounds: int) -> dict[str, tuple[float, float]]:
    """Median (CPU, wall) of the three jobs, taken in turn."""
    write_input(folder / "input")
    found: dict[str, list[tuple[float, float]]] = {"plain": [], "frame": [], "files": []}
    for kind in ["topics", *list(found) * rounds]:
        command = [sys.executable, "-m", "tests.benchmarks.job", kind, str(folder)]
        answer = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        if kind in found:
            found[kind].append(tuple(json.loads(answer.stdout.splitlines()[-1])))
    names = {"plain": "plain Delta append, a job", "frame": "lakelog append, a job", "files": "jobs/append.py of the files"}
    return {names[kind]: tuple(statistics.median(one[place] for one in runs) for place in (0, 1)) for kind, runs in found.items()}


if __name__ == "__main__":
    began = time.perf_counter()
    run(sys.argv[1], Path(sys.argv[2]))
    sys.stdout.write(json.dumps([cpu_seconds(), time.perf_counter() - began]) + "\n")
