"""``python -m tests.benchmarks merge``: one table, the same batches, one process a contender, equal final tables, then the figures.

4 (or 1) million STRING keys with 100-byte values; four batches each of 10 thousand and 100 thousand records, 20 % of them late (an older
version than the table's); then a batch that is late as a whole; then the last one again, with its token. Ratios are within one run.

What was found to hold at 4 million keys and 10 thousand changes, in order of worth:

- Winners first, by one narrow scan of keys: a batch that is late as a whole rewrites nothing, and the MERGE joins on numbers.
- Deletion vectors: 1 MB written in place of 450. But a MERGE with new keys is a left outer join that cannot broadcast its source and
  shuffles all of the table; a bitmap of the offsets to be replaced, one literal in ON, leaves it little. The same offsets in ``IN`` save
  the shuffle too and lose it again in planning.
- Without them, one overwrite of the bucket in the place of MERGE where most of it is to be rewritten: no full outer join, a quarter less.
- Files for few partitions side by side (``maxConcurrentOutputFileWriters``): else every row is sorted by a constant before it is written.
- The gate within the statement, progress from the newest commit, small frames by Arrow: fewer small Spark jobs, 0.3 to 2 CPU-s each.
- Of 20 CPU-s of a merge of 10 thousand records, after six of them in one process, 7 are tasks; most of the rest is Spark's planner, and Java
  that compiles it. Raised thresholds for Java's second compiler (session.py) spare a tenth to a third from the second merge on.
- Room for more than Spark's 100 generated classes (session.py; for every contender): naive 43 to 40, expert 30 to 21, lakelog 41 to 30, with
  deletion vectors 26 to 16 CPU-s. Numbers that differ from statement to statement are data to that code (records.py), and statements over few
  rows do without it (statement.py).
- The two-pass hash is only worth its jobs beyond 100 thousand records; below, one sorted task is.
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import duckdb

from tests.benchmarks.table import Line, show

CONTENDERS = ("naive", "expert", "lakelog", "lakelog-dv")
PAYLOAD = (
    "substr(md5({0}::VARCHAR) || md5(({0} + 1000000007)::VARCHAR) || md5(({0} + 2000000011)::VARCHAR) || md5(({0} + 3)::VARCHAR), 1, 100)"
)


def make_data(folder: Path, keys: int, sizes: list[int], per_size: int) -> list[str]:
    """The base table and the batches as Parquet files; returns the names of the batches in order."""
    con = duckdb.connect()
    key = "'k' || lpad(({0} * 7919 % " + str(keys * 2) + ")::VARCHAR, 15, '0')"
    (folder / "base").mkdir(parents=True)
    con.execute(
        f"COPY (SELECT i AS id, {key.format('i')} AS key, {PAYLOAD.format('i')} AS payload, 1000000 + i AS version FROM range({keys}) t(i))"
        f" TO '{folder / 'base' / 'base.parquet'}' (FORMAT parquet, ROW_GROUP_SIZE 500000)"
    )
    names = []
    plan = [(f"batch-{size}-{number}", size, 0.2) for size in sizes for number in range(per_size)]
    plan.append((f"late-{sizes[0]}", sizes[0], 1.0))
    for number, (name, size, late) in enumerate(plan):
        (folder / name).mkdir()
        # 90 % of the records are of known keys, 10 % of new ones; late ones carry a version below the base table's.
        fresh, old = f"{keys} + ({number * 1_000_003} + i) % {keys}", f"(i * 104729 + {number * 7_368_787}) % {keys}"
        known = f"CASE WHEN i % 10 = 9 AND {late} < 1 THEN {fresh} ELSE {old} END"
        version = f"CASE WHEN i % 100 < {int(late * 100)} THEN i % 1000 ELSE 10000000000 + {number}::BIGINT * 100000000 + i END"
        con.execute(
            f"COPY (SELECT i AS id, {key.format('k')} AS key, {PAYLOAD.format('(i + ' + str(number * 10**9) + ')')} AS payload, {version} AS version"
            f" FROM (SELECT i, {known} AS k FROM range({size}) t(i))) TO '{folder / name / 'batch.parquet'}' (FORMAT parquet)"
        )
        names.append(name)
    return [*names, "again"]


def run(contender: str, data: Path, work: Path, batches: list[str]) -> dict:
    """One contender in its own process; its folder is removed but for the final table."""
    command = [sys.executable, "-m", "tests.benchmarks.contenders", contender, str(data), str(work), *batches]
    answer = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if answer.returncode:
        raise SystemExit(f"{contender} failed")
    return json.loads(answer.stdout.splitlines()[-1])


def same(finals: dict[str, Path]) -> int:
    """Refuse to go on unless all final tables are equal; returns the rows."""
    con = duckdb.connect()
    digest = "SELECT count(*), sum(hash(key, payload, version)::HUGEINT) FROM read_parquet('{}/*.parquet')"
    found = {name: con.execute(digest.format(path)).fetchone() for name, path in finals.items()}
    if len(set(found.values())) != 1:
        raise SystemExit(f"The final tables differ: {found}")
    return next(iter(found.values()))[0]


def main(keys: int, sizes: list[int], per_size: int, contenders: list[str]) -> None:
    """Run and print."""
    root = Path(tempfile.mkdtemp(prefix="lakelog-bench-"))
    try:
        batches = make_data(root / "data", keys, sizes, per_size)
        results, finals = {}, {}
        for contender in contenders:
            work = root / contender
            work.mkdir()
            results[contender] = run(contender, root / "data", work, batches)
            finals[contender] = work / "final"
            for part in ("table", "lake"):
                shutil.rmtree(work / part, ignore_errors=True)
        rows = same(finals)
        _show(results, keys, rows)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _show(results: dict[str, dict], keys: int, rows: int) -> None:
    """A group of lines for each kind of batch; the first contender is what the others are compared with."""
    middles: dict[str, dict[str, dict[str, float]]] = {}
    for contender, result in results.items():
        groups: dict[str, list[dict]] = {}
        for figures in result["batches"]:
            name = figures["batch"]
            groups.setdefault(name.rsplit("-", 1)[0] if name.startswith("batch") else name, []).append(figures)
        for name, group in groups.items():
            fields = ("wall_s", "cpu_s", "written_mb", "files_rewritten", "append_cpu_s")
            middles.setdefault(name, {})[contender] = {field: statistics.median(one.get(field, 0) for one in group) for field in fields}
    for name, found in middles.items():
        base, lines = None, []
        for contender, one in found.items():
            more = f"{one['files_rewritten']:.0f} files rewritten" + (
                f", append {one['append_cpu_s']:.2f} CPU-s" if one["append_cpu_s"] else ""
            )
            lines.append(Line(contender, one["cpu_s"], one["wall_s"], base, one["written_mb"], more))
            base = base or one["cpu_s"]
        show(f"Merge of {name} into {keys:,} keys (equal tables of {rows:,} rows in the end)", lines)
    sys.stdout.write("  peak MB: " + ", ".join(f"{contender} {result['peak_mb']}" for contender, result in results.items()) + "\n")
