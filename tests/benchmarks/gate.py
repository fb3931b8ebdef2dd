"""``python -m tests.benchmarks gate``: an append of a million records without a gate, and past one with eight row rules.

The question is what the gate adds to the CPU of an append, at most 40 % (all processes; Parquet files of key and value, one partition): where no
record breaks a rule, and where one in a hundred does and is put aside. The ways are taken in turn, the first rounds are not counted.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.benchmarks.append import in_turn
from tests.benchmarks.table import Line, show
from tests.quality.folders import rows, write

RECORDS, WARM_UP = 1_000_000, 3
RULES = [
    rows("key_form", "key LIKE 'k%' AND length(key) = 16"), rows("value_present", "_tombstone OR value IS NOT NULL"),
    rows("value_long", "length(value) BETWEEN 32 AND 1000"), rows("value_hex", "value RLIKE '^[0-9a-f]+$'"),
    rows("recent", "_timestamp > TIMESTAMP '2000-01-01'"), rows("flag", "_tombstone IS NOT NULL"), rows("partition", "_partition >= 0"),
    rows("few_headers", "coalesce(size(_headers), 0) < 10", "warning"),
]  # fmt: skip


def measured(folder: Path, rounds: int) -> dict[str, tuple[float, float]]:
    """Median (CPU, wall) of each way."""
    from lakelog import Lake, local_session

    spark = local_session(master="local[2]", memory="4g")
    frame = spark.range(RECORDS).selectExpr(
        "concat('k', lpad(id * 7919 % 2000000, 15, '0')) AS key", "repeat(md5(cast(id AS string)), 3) AS value"
    )
    frame.coalesce(2).write.parquet(str(folder / "good"))
    frame.selectExpr("key", "if(hash(key) % 100 = 0, 'short', value) AS value").coalesce(2).write.parquet(str(folder / "damaged"))
    suites = write(folder / "suites", "gated", append=RULES)
    write(folder / "suites", "split", append=RULES)
    lake = Lake(spark, str(folder / "lake"))
    gate = {"quality.suites": suites, "quality.on.failure": "quarantine"}
    free = lake.create_topic("free", key="STRING", value="STRING")
    gated = lake.create_topic("gated", key="STRING", value="STRING", config=gate)
    split = lake.create_topic("split", key="STRING", value="STRING", config=gate)
    ways: dict[str, Callable[[], object]] = {
        "without a gate": lambda: free.append(str(folder / "good"), format="parquet"),
        "eight row rules": lambda: gated.append(str(folder / "good"), format="parquet"),
        "eight row rules, one record in a hundred put aside": lambda: split.append(str(folder / "damaged"), format="parquet"),
    }
    return in_turn(ways, rounds, WARM_UP)


def main(rounds: int) -> None:
    """Run in a process of its own, and print."""
    root = Path(tempfile.mkdtemp(prefix="lakelog-bench-"))
    try:
        command = [sys.executable, "-m", "tests.benchmarks.gate", str(root), str(rounds)]
        answer = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        results = json.loads(answer.stdout.splitlines()[-1])
        base, lines = None, []
        for name, (cpu, wall) in results.items():
            lines.append(Line(name, cpu, wall, base))
            base = base or cpu
        show("Append of a million records past a gate", lines)
    finally:
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    sys.stdout.write(json.dumps(measured(Path(sys.argv[1]), int(sys.argv[2]))) + "\n")
