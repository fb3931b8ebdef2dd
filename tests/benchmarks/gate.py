"""``python -m tests.benchmarks gate``: an append of a million records without a gate, and past one with eight row rules.

The question is what the gate adds to the CPU of an append, at most 40 % (all processes; Parquet files of key and value, one partition): where no
record breaks a rule, and where one in a hundred does and is put aside. One of the rules is a regular expression over 96 characters, which takes
Java a second for a million records, however it is asked; what the others take is shown beside it. The ways are taken in turn, the first
rounds are not counted.

What was found:

- Under ``quality.on.failure=refuse`` the rules are evaluated once, by the write; where records may be put aside, twice: by the summary and by
  the write, since files are read twice and what is written must be what was checked.
- A higher-order function (``forall``) in one rule takes the generated code from all of them.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tests.benchmarks.append import in_turn
from tests.benchmarks.table import Line, show
from tests.quality.folders import rows, write

if TYPE_CHECKING:
    from lakelog import Topic

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
    write(folder / "suites", "plain", append=[one for one in RULES if "RLIKE" not in one["kwargs"]["expression"]])
    write(folder / "suites", "aside", append=RULES)
    lake = Lake(spark, str(folder / "lake"))

    def topic(name: str, **config: str) -> Topic:
        return lake.create_topic(name, key="STRING", value="STRING", config=config)

    quarantine = {"quality.suites": suites, "quality.on.failure": "quarantine"}
    topics = {
        "without a gate": (topic("free"), "good"),
        "eight row rules": (topic("gated", **{"quality.suites": suites}), "good"),
        "the same without the regular expression": (topic("plain", **{"quality.suites": suites}), "good"),
        "eight row rules, records may be put aside": (topic("aside", **quarantine), "good"),
        "eight row rules, one record in a hundred put aside": (topic("split", **quarantine), "damaged"),
    }
    ways: dict[str, Callable[[], object]] = {
        name: lambda one=one, source=source: one.append(str(folder / source), format="parquet") for name, (one, source) in topics.items()
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
