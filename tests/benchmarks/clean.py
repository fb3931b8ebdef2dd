"""``python -m tests.benchmarks clean``: five million records with 1.25 million winners cleaned, next to a copy of the same Parquet files.

The question is what the rewriting step takes (its merge is not counted, nor the plan, which is shown beside it), at most 1.3 times the CPU of
reading and writing these files once in the same engine. Each round has a topic of its own in one process; the first is not counted.
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.benchmarks.measure import Peak, measured
from tests.benchmarks.table import Line, show

KEYS, COPIES, APPENDS = 1_250_000, 4, 8


def run(folder: Path, rounds: int, scale: float) -> dict[str, list[float]]:
    """Seconds of CPU of each part, by round, and the peak of memory."""
    from lakelog import Lake, local_session
    from lakelog.cleaning import clean, dropping
    from lakelog.latest.progress import progress
    from lakelog.log.tail import log_end

    spark = local_session(master="local[2]", memory="4g")
    keys = int(KEYS * scale)
    lake = Lake(spark, str(folder / "lake"))
    found: dict[str, list[float]] = {"copy": [], "rewrite": [], "plan": [], "whole": [], "wall": [], "left": [], "peak": []}
    share = keys * COPIES // APPENDS
    for number in range(rounds + 1):
        topic = lake.create_topic(f"t{number}", key="STRING", value="STRING", config={"segment.bytes": 100_000_000})
        for part in range(APPENDS):
            ids = spark.range(part * share, (part + 1) * share)
            topic.append(
                ids.selectExpr(f"concat('k', lpad(id * 7919 % {keys}, 15, '0')) AS key", "repeat(md5(cast(id AS string)), 3) AS value")
            )
        topic.roll()
        topic.append([{"key": "active", "value": "x"}])
        while topic.merge().remaining:
            pass
        table = folder / "lake" / f"t{number}" / "bronze"
        records = [str(path) for path in sorted(table.glob("partition=0/segment=*")) if int(path.name.partition("=")[2]) >= 0][:-1]
        figures: dict[str, dict[str, float]] = {name: {} for name in ("copy", "plan", "rewrite")}
        with measured(table, figures["copy"]):
            spark.read.parquet(*records).write.option("compression", "zstd").parquet(str(folder / f"copy{number}"))
        peak = Peak()
        log, now = topic.log, topic.clock()
        with measured(table, figures["plan"]):
            end = log_end(log, pin=True)
            state = progress(log, from_rows=True)
            rows = clean.winners_of(log, state, end, ahead=False)
            made = clean.plan(log, end, rows, merged=state.next, force=True, max_bytes=None, now=now)
        done = clean.groups(made.going, clean.GROUP_OCTETS, clean.GROUP_SEGMENTS)
        with measured(table, figures["rewrite"]):
            for group in done:
                dropping.rewrite(log, rows, end, group, made.to, now=now)
        top = peak.stop()
        left = topic.read().count()
        assert left == keys + 1, left
        if number:
            for name in ("copy", "plan", "rewrite"):
                found[name].append(figures[name]["cpu_s"])
            found["wall"].append(figures["rewrite"]["wall_s"])
            found["whole"].append(figures["rewrite"]["cpu_s"] + figures["plan"]["cpu_s"])
            found["left"].append(left)
            found["peak"].append(top / 2**20)
        lake.delete_topic(f"t{number}")
        shutil.rmtree(folder / f"copy{number}")
    return found


def main(rounds: int, scale: float) -> None:
    """Run in a process of its own, and print."""
    root = Path(tempfile.mkdtemp(prefix="lakelog-bench-"))
    try:
        command = [sys.executable, "-m", "tests.benchmarks.clean", str(root), str(rounds), str(scale)]
        answer = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        found = {name: statistics.median(values) for name, values in json.loads(answer.stdout.splitlines()[-1]).items()}
        copy = found["copy"]
        peak = f"peak {found['peak']:.0f} MiB of all processes"
        show(
            f"A clean of {int(KEYS * COPIES * scale):,} records of which {int(KEYS * scale):,} stay",
            [
                Line("the same Parquet files copied", copy, copy), Line("the rewriting step", found["rewrite"], found["wall"], copy, None, peak),
                Line("its plan", found["plan"], found["plan"], copy),
            ],
        )  # fmt: skip
    finally:
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    sys.stdout.write(json.dumps(run(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))) + "\n")
