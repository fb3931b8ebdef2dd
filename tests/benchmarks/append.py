"""``python -m tests.benchmarks append``: appends next to a plain Delta append, next to a condition, and on a long log.

Four questions, medians of CPU seconds of all processes:

- a million records, a process for each append (job.py): lakelog's append next to ``df.write.format("delta").mode("append")`` of the same
  frame, and ``jobs/append.py`` of the files behind it;
- the same in one process that appends again and again, the ways taken in turn;
- batches of 100 records: unconditional, with an expected offset, with a token;
- the same on a log of ten thousand commits (as lakelog would have written them, one in ten with a token) next to a log of one, in one
  process, all in turn: nothing may grow with the length of the log.

What was found, on two cores:

- A million records, a process for each append, the start of Java and Spark included: a frame 2.1 to 2.2, ``jobs/append.py`` of the files with
  a token 2.4 times a script with the plain append (26, 55 and 60 CPU-s on a slow machine). The archive of Java's classes makes all three
  cheaper and so the ratios larger: without it (``LAKELOG_CLASS_ARCHIVE=off``) 39, 65 and 75 CPU-s, 1.7 and 1.9 times.
- In one process that appends again and again: 3.3 to 3.5 times for files, 3.7 to 3.9 for a frame, after eight rounds; 2.9 and 3.6 after
  thirty, when Java has compiled Spark's planner (1.0 CPU-s for the plain one). 1.4 of the 3.0 CPU-s for files are the tasks of the write:
  bronze's twelve columns in the place of the frame's two take 0.9 as bare Parquet (0.55 for the two), partitions and the count above the
  guard the rest; 0.3 are the sum, 0.3 Delta's look for the guard's files, 0.6 planning. Keeping a frame costs 0.8 more, whichever of its
  columns are kept.
- A condition costs nothing that could be measured, a token 1.16 to 1.27 times.
- On ten thousand commits 1.3 times (1.45 with a token), in the same process as the empty log, after eight rounds. Of what is read, nothing
  grows (tests/log/test_long_log.py). What grows is Delta's own: on a local file system each look at a table lists all of ``_delta_log``, once
  an append (twice with a token); the state of ten thousand files is put together after each commit, and a checkpoint of them is written
  every ten. Object stores list from where they are asked to.
- Before, an append looked three times and cost 1.6 times as much there: once to analyse what the guard reads, which is kept now (a transaction
  reads the table as it finds it, whenever it was analysed: 1.58), and once to find the table that a writer names (1.43 with both).
- Tried and not taken: a staleness limit for what the statement is planned with (Delta lists in the background all the same); the state with
  generated code, put together before the guard, kept unserialized or in one partition, expressions evaluated twice instead of looked up
  (each within what two runs differ by); generated expressions, or all generated code, for these statements (1.74 and 1.81 CPU-s on the long
  log instead of 1.62, and 1.27 and 1.23 instead of 1.02 on the empty one); Delta's own transaction identifiers (``txnAppId``,
  ``txnVersion``) in the place of the guard (they can name one partition of a request only).
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow
from pyarrow import parquet

from tests.benchmarks import job
from tests.benchmarks.measure import cpu_seconds
from tests.benchmarks.table import Line, show

HUNDRED = 100
TITLES = {
    "job": "Append of a million records, a process for each",
    "million": "Append of a million records, again and again in one process",
    "small": f"Append of {HUNDRED} records",
}
# Java compiles Spark's planner bit by bit, over some ten appends of a kind; so many rounds are taken first and not counted.
WARM_UP = 8


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """(CPU seconds of all processes, wall seconds) of a piece of work."""
    cpu, wall = cpu_seconds(), time.perf_counter()
    work()
    return cpu_seconds() - cpu, time.perf_counter() - wall


def in_turn(ways: dict[str, Callable[[], object]], rounds: int, warm_up: int) -> dict[str, tuple[float, float]]:
    """Median (CPU, wall) of each way; all ways are taken in each round, the first rounds do not count."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for number in range(rounds + warm_up):
        for name, work in ways.items():
            figures = timed(work)
            if number >= warm_up:
                found[name].append(figures)
    return {name: tuple(statistics.median(one[place] for one in group) for place in (0, 1)) for name, group in found.items()}


def long_log(table: Path, commits: int, start_ms: int) -> None:
    """Append ``commits`` commits of one record each to a new topic's log of one partition, as lakelog writes them, one in ten with a token.

    File by file and commit by commit: delta-rs took a sixth of a second a commit, and more the longer the log. It sums up the log in a
    checkpoint in the end.
    """
    from deltalake import DeltaTable

    from lakelog.log.notes import note
    from lakelog.log.rows import control_row
    from lakelog.log.tokens import Token

    schema = pyarrow.schema(DeltaTable(table).schema().to_arrow())
    stored = pyarrow.schema([field for field in schema if field.name not in ("partition", "segment")])
    names = ("partition", "segment", "offset", "tombstone", "epoch", "batch", "control")
    for offset in range(commits):
        batch, stamp, version = f"{offset:032x}", (start_ms + offset) * 1000, offset + 1
        rows = [control_row(0, 0, offset, 0, {"type": "batch", "octets": 20 * version, "first": start_ms, "records": 1}, batch)]
        if offset % 10 == 0:
            rows += Token(f"token-{offset}").rows(batch, 0, {0: (offset, version)}, 1, {})
        placed: dict[tuple[int, int], list[dict]] = {}
        for row in rows:
            placed.setdefault(row[:2], []).append({**dict(zip(names, row, strict=True)), "appended_at": stamp})
        record = {"key": f"k{offset % 1000}", "value": "v", "headers": [], "timestamp": stamp, "tombstone": False, "control": None}
        placed[0, 0].append({**placed[0, 0][0], **record})
        says = {"timestamp": start_ms + offset, "operation": "WRITE", "operationParameters": {"mode": "Append"}, "engineInfo": "benchmark"}
        says["userMetadata"] = note("append", batch=batch, checked=offset, ends={0: version})
        actions: list[dict] = [{"commitInfo": says}]
        for (partition, segment), inside in placed.items():
            path = f"partition={partition}/segment={segment}/part-{version:020}.parquet"
            (table / path).parent.mkdir(parents=True, exist_ok=True)
            parquet.write_table(
                pyarrow.Table.from_pylist([{n: row.get(n) for n in stored.names} for row in inside], schema=stored), table / path
            )
            bounds = {"offset": inside[0]["offset"]}
            stats = {"numRecords": len(inside), "minValues": bounds, "maxValues": bounds, "nullCount": {"offset": 0}}
            values = {"partition": str(partition), "segment": str(segment)}
            size = (table / path).stat().st_size
            add = {"path": path, "partitionValues": values, "size": size, "modificationTime": start_ms, "dataChange": True}
            actions.append({"add": {**add, "stats": json.dumps(stats)}})
        (table / "_delta_log" / f"{version:020}.json").write_text("".join(json.dumps(action) + "\n" for action in actions))
    DeltaTable(table).create_checkpoint()


def million(folder: Path, rounds: int) -> dict[str, tuple[float, float]]:
    """A million records of one partition: a plain Delta append of the frame, lakelog's of the same frame, and of the files behind it."""
    from lakelog import Lake, local_session

    spark = local_session(master="local[2]", memory="4g")
    frame = spark.range(1_000_000).selectExpr(
        "concat('k', lpad(id * 7919 % 2000000, 15, '0')) AS key", "repeat(md5(cast(id AS string)), 3) AS value"
    )
    frame.coalesce(2).write.parquet(str(folder / "input"))
    frame = spark.read.parquet(str(folder / "input"))
    topic = Lake(spark, str(folder / "lake")).create_topic("t", key="STRING", value="STRING")
    ways = {
        "plain Delta append": lambda: frame.write.format("delta").mode("append").save(str(folder / "plain")),
        "lakelog append": lambda: topic.append(frame),
        "lakelog append of the files": lambda: topic.append(str(folder / "input"), format="parquet"),
    }
    return in_turn(ways, rounds, WARM_UP)


def small(folder: Path, rounds: int, lengths: Sequence[int]) -> dict[str, tuple[float, float]]:
    """Batches of 100 records on logs of so many commits: unconditional, conditional, with a token."""
    from lakelog import Lake, local_session

    spark = local_session(master="local[2]", memory="4g")
    lake = Lake(spark, str(folder / "lake"))
    ways: dict[str, Callable[[], object]] = {}
    for length in lengths:
        name = f"{length} commits" if length else "empty"
        topic = lake.create_topic(f"t_{length}", key="STRING", value="STRING")
        if length:
            took = timed(lambda length=length: long_log(folder / "lake" / f"t_{length}" / "bronze", length, 1_700_000_000_000))
            sys.stderr.write(f"a log of {length} commits built in {took[1]:.0f} s\n")
        ends = dict(topic.ends())
        frame = spark.createDataFrame(pyarrow.table({"key": [f"k{i}" for i in range(HUNDRED)], "value": ["v" * 100] * HUNDRED}))

        def write(kind: str, topic=topic, ends=ends, frame=frame) -> None:
            more = {"conditional": {"expected_offset": {0: ends[0]}}, "token": {"token": f"batch at {ends[0]}"}}.get(kind, {})
            ends[0] = topic.append(frame, **more).offsets[0][1]

        for kind in ("unconditional", "conditional", "token"):
            ways[f"{kind}, {name}"] = lambda kind=kind, write=write: write(kind)
    return in_turn(ways, rounds, WARM_UP)


def main(rounds: int, commits: int) -> None:
    """Run each in a process of its own (jobs: one for each append), and print."""
    root = Path(tempfile.mkdtemp(prefix="lakelog-bench-"))
    try:
        for what in ("job", "million", "small"):
            folder = root / what
            folder.mkdir()
            if what == "job":
                results = job.measured(folder, min(rounds, 5))
            else:
                lengths = ["0", str(commits)] if what == "small" else []
                command = [sys.executable, "-m", "tests.benchmarks.append", what, str(folder), str(rounds), *lengths]
                answer = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
                results = {name: tuple(figures) for name, figures in json.loads(answer.stdout.splitlines()[-1]).items()}
            base, lines = None, []
            for name, (cpu, wall) in results.items():
                lines.append(Line(name, cpu, wall, base, None, f"{1 / wall:.2f} commits/s" if what == "small" else ""))
                base = base or cpu
            show(TITLES[what], lines)
    finally:
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    # Several lengths: those logs in one process.
    chosen, where, times, lengths = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), [int(length) for length in sys.argv[4:]]
    answers = million(where, times) if chosen == "million" else small(where, times, lengths)
    sys.stdout.write(json.dumps(answers) + "\n")
