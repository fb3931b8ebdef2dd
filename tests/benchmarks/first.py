"""``python -m tests.benchmarks first``: four million records from Parquet into a new topic, append and merge, next to one plain Delta write.

Each round is three processes: the plain write, twice; a lakelog append and merge, twice, each time into a new topic; and the plain write with
Zstandard. The first time Java compiles Spark's planner and the tasks, which a scheduled job pays each time; the second time shows the work alone.
The frame is ``spark.read.parquet``; silver must hold what the plain table holds.

What was found:

- A frame that only selects from files is read twice; a copy of whole rows (``localCheckpoint``) took 4 to 6 CPU-s.
- Zstandard at level 1 takes less CPU than Snappy (6.3 instead of 7.3 CPU-s for the plain write) and half of the octets; level 3 takes 9.8.
- A first merge compares with nothing: a hash of each key is counted (6 CPU-s), the log is read again and written (11). A sort of whole rows
  under a window, a copy of them and a MERGE with an empty table took 54.
- Bronze's twelve columns and silver's thirteen take 3 to 4 CPU-s more as Parquet than the frame's four.
- Tried and not taken: the aggregation kept for the second reading (3.5 CPU-s more than to make it again where keys repeat), a shuffle by the hash
  before the aggregation (1 less where all keys differ, more where they repeat), the keys themselves in its place (the same for short ones).
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.benchmarks.measure import measured, tree_bytes
from tests.benchmarks.merge import make_data
from tests.benchmarks.table import Line, show

KINDS = ("plain", "lakelog", "zstd")
DIGEST = "count(*) AS records", "sum(CAST(xxhash64(key, payload, version) AS DECIMAL(38))) AS digest"


def run(kind: str, data: Path, work: Path) -> dict[str, dict[str, float]]:
    """One process: what each statement took and wrote, and what the table holds in the end."""
    from lakelog import Lake, local_session

    spark = local_session(master="local[2]", memory="6g")
    frame = spark.read.parquet(str(data / "base"))
    figures: dict[str, dict[str, float]] = {}

    def step(name: str, folder: Path, action: Callable[[], object]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        figures[name] = {}
        with measured(folder, figures[name]):
            action()
        figures[name]["mb"] = sum(size for path, size in tree_bytes(folder).items() if path.endswith(".parquet")) / 1e6

    def held(table: object) -> None:
        row = table.selectExpr("key", *fields).selectExpr(*DIGEST).collect()[0]  # type: ignore[attr-defined]
        figures["held"] = {"records": row["records"], "digest": str(row["digest"])}

    fields = ["payload", "version"]
    if kind == "lakelog":
        lake = Lake(spark, str(work / "lake"))
        shaped = frame.selectExpr("key", "struct(payload, version) AS value")
        for time in ("first", "again"):
            topic = lake.create_topic(time, key="STRING", value="payload STRING, version BIGINT")
            step(f"append {time}", work / "lake" / time / "bronze", lambda topic=topic: topic.append(shaped))
            step(f"merge {time}", work / "lake" / time / "silver", topic.merge)
        held(topic.latest())
        return figures
    options = {"compression": "zstd"} if kind == "zstd" else {}
    for time in ("first", "again"):
        table = work / time
        step(f"plain {time}", table, lambda table=table: frame.write.format("delta").mode("append").options(**options).save(str(table)))
    held(spark.read.format("delta").load(str(work / "again")))
    return figures


def main(keys: int, rounds: int) -> None:
    """Run each kind in processes of its own, in turn, and print."""
    root = Path(tempfile.mkdtemp(prefix="lakelog-bench-"))
    try:
        make_data(root / "data", keys, [10], 1)
        found: dict[tuple[str, str], list[dict[str, float]]] = {}
        for _ in range(rounds):
            holds = []
            for kind in KINDS:
                command = [sys.executable, "-m", "tests.benchmarks.first", kind, str(root / "data"), str(root / "work")]
                answer = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
                shutil.rmtree(root / "work")
                figures = json.loads(answer.stdout.splitlines()[-1])
                holds.append(figures.pop("held"))
                for name, one in figures.items():
                    found.setdefault((kind, name), []).append(one)
                sys.stderr.write(f"  {kind}: { ({name: one['cpu_s'] for name, one in figures.items()}) }\n")
            if any(one != holds[0] for one in holds):
                raise SystemExit(f"The tables differ: {holds}")
        for time, title in (("first", "in a process of its own"), ("again", "again in that process")):
            show(f"First load of {keys:,} records, {title}", _lines(found, time))
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _lines(found: dict[tuple[str, str], list[dict[str, float]]], time: str) -> list[Line]:
    def middle(kind: str, name: str) -> tuple[float, float, float]:
        runs = found[kind, f"{name} {time}"]
        cpu, wall, mb = (statistics.median(one[field] for one in runs) for field in ("cpu_s", "wall_s", "mb"))
        return cpu, wall, mb

    plain, append, merge, zstd = middle("plain", "plain"), middle("lakelog", "append"), middle("lakelog", "merge"), middle("zstd", "plain")
    return [
        Line("plain Delta write", plain[0], plain[1], None, plain[2]),
        Line("plain Delta write, Zstandard", zstd[0], zstd[1], plain[0], zstd[2]),
        Line("lakelog append", append[0], append[1], plain[0], append[2]),
        Line("lakelog merge", merge[0], merge[1], plain[0], merge[2]),
        Line("lakelog append and merge", append[0] + merge[0], append[1] + merge[1], plain[0], append[2] + merge[2]),
    ]


if __name__ == "__main__":
    sys.stdout.write(json.dumps(run(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))) + "\n")
