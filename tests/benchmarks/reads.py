"""``python -m tests.benchmarks read``: from Enter to the answer, without Java and through Spark, a process for each.

``topic list``, ``status``, ``latest`` and ``read`` of a topic of ten thousand keys, of one of four million keys, and of one whose log has ten
thousand commits. Each line without Java is compared with the same command through Spark: CPU as everywhere, and the time a person waits as
a remark.
"""

from __future__ import annotations

import compileall
import ctypes
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

import lakelog
from tests.benchmarks.append import long_log
from tests.benchmarks.measure import cpu_seconds
from tests.benchmarks.table import Line, show

PR_SET_CHILD_SUBREAPER = 36
SMALL, LARGE = 10_000, 4_000_000
COMMANDS = ("topic list", "status {0}", "latest {0}", "read {0}")


def build(folder: Path, commits: int) -> list[tuple[str, Path, str]]:
    """The lakes: (title, root, topic) each."""
    from lakelog import Lake, local_session

    spark = local_session(master="local[2]", memory="6g")
    found = []
    for size in (SMALL, LARGE):
        lake = Lake(spark, str(folder / f"lake_{size}"))
        topic = lake.create_topic("t", key="BIGINT", value="text STRING", partitions=2)
        topic.append(spark.range(size).selectExpr("id AS key", "struct(concat('value ', id) AS text) AS value"))
        topic.merge()
        found.append((f"{size:,} keys", folder / f"lake_{size}", "t"))
    lake = Lake(spark, str(folder / "lake_long"))
    topic = lake.create_topic("t", key="STRING", value="STRING")
    long_log(folder / "lake_long" / "t" / "bronze", commits, 1_700_000_000_000)
    topic.merge()
    spark.stop()
    return [*found, (f"a log of {commits:,} commits", folder / "lake_long", "t")]


def asked(root: Path, command: str, engine: str) -> tuple[float, float]:
    """(CPU, wall) of a command; the CPU of the Java that it leaves behind, too, which is waited for."""
    words = [sys.executable, "-m", "lakelog.cli.main", "--root", str(root), *command.split(), "--engine", engine]
    known = {child.pid for child in psutil.Process().children()}
    cpu, start = cpu_seconds(), time.perf_counter()
    subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True, env=dict(os.environ))
    wall = time.perf_counter() - start
    psutil.wait_procs([child for child in psutil.Process().children() if child.pid not in known])
    return cpu_seconds() - cpu, wall


def main(times: int, commits: int) -> None:
    """Build the lakes, ask, and print."""
    # As an installed package is, whatever this process may write.
    compileall.compile_dir(str(Path(lakelog.__file__).parent), quiet=1)
    # Of processes whose parent has ended, such as Java's, this one becomes the parent.
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
    folder = Path(tempfile.mkdtemp(prefix="lakelog-bench-"))
    try:
        for title, root, topic in build(folder, commits):
            lines = []
            for command in COMMANDS:
                text = command.format(topic)
                medians = {}
                for engine in ("spark", "native"):
                    figures = [asked(root, text, engine) for _ in range(times)]
                    medians[engine] = tuple(statistics.median(one[place] for one in figures) for place in (0, 1))
                (base, slow), (cpu, quick) = medians["spark"], medians["native"]
                lines += [
                    Line(f"{text}, Spark", base, slow),
                    Line(text, cpu, quick, base, None, f"answers in 1/{slow / quick:.2f} of the time"),
                ]
            show(f"From Enter to the answer, {title}, medians of {times}", lines)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
