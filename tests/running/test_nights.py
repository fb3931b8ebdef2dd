"""A topic run by a timer on a directory where files appear: each file once, a report a run, and the page that shows them."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lakelog import Lake
from lakelog.lake.lake import Lake as AnyLake
from lakelog.page.overview import overview
from lakelog.page.table_reader import NativeReader, SparkReader
from lakelog.running.run import run
from lakelog.sources.configured import DirectorySource
from tests.conftest import Answer, Clock
from tests.races.processes import environment
from tests.running.test_run import rows
from tests.sources.test_sources import DAY, keys, write

CYCLES, EVERY = 30, 5.0


@pytest.mark.long
def test_three_nights_and_their_page(lake: Lake, clock: Clock, cli: Callable[..., Answer], tmp_path: Path) -> None:
    """Both lanes tell the same; the command line writes it without Java."""
    topic = lake.create_topic(
        "orders", key="STRING", value="STRING", partitions=2, config={"segment.ms": DAY, "max.snapshot.interval.ms": 2 * DAY}
    )
    source = DirectorySource(str(tmp_path / "in"))
    for night in range(3):
        write(tmp_path / "in", f"{night}.ndjson", *(f"k{number}" for number in range(night, night + 9)))
        clock.tick(DAY)
        assert run(lake, "orders", [source]).exit_code == 0
    topic.snapshot("friday", keep="90 days", note="<b>before</b>")
    topic.commit("billing", topic.start())
    assert run(lake, "orders", [DirectorySource(str(tmp_path / "nowhere"))]).exit_code == 5

    native = AnyLake(None, lake.root, clock=clock)
    by_rust = overview(native, NativeReader(), {"orders": native.topic("orders").status()})
    by_spark = overview(lake, SparkReader(lake.spark), {"orders": topic.status()})
    assert by_rust == by_spark
    shown = by_rust.topics[0]
    assert [one["outcome"] for one in shown.runs] == ["failed", "done", "done", "done"] and shown.unread == []
    assert {one.name: one.kept for one in shown.snapshots} == {shown.snapshots[0].name: False, "friday": True}
    assert [(one.group, one.behind, one.holds) for one in shown.readers] == [("billing", 27, True)]
    for table, points in shown.growth.items():
        assert len(points) > 3 and points[-1][1] == (SparkReader(lake.spark).octets(topic.bronze if table == "bronze" else topic.silver)), (
            table
        )

    page = tmp_path / "status.html"
    answer = cli(f"--root {lake.root} status --html {page} --engine native")
    assert (answer.code, answer.out, answer.err) == (0, f"{page}: 1 topic of {lake.root}\n", "")
    text = page.read_text()
    assert text.count("<svg") == 7 and "&lt;b&gt;before&lt;/b&gt;" in text and "NOT_FOUND" in text
    said = json.loads(cli(f"--root {lake.root} status orders --json --html {page}").out)
    assert (said["html"], said["topics"][0]["topic"]) == (str(page), "orders")
    assert cli(f"--root {lake.root} status --html {tmp_path}/nowhere/s.html").code == 2


@pytest.mark.soak
def test_thirty_cycles_of_a_timer(lake: Lake, cli: Callable[..., Answer], tmp_path: Path) -> None:
    """As systemd does: a process every few seconds, never two; files appear whenever they like."""
    config = {"max.snapshot.interval.ms": 60_000, "segment.bytes": 4000, "min.cleanable.dirty.ratio": 0.3}
    topic = lake.create_topic("orders", key="STRING", value="STRING", partitions=2, config=config)
    toml = tmp_path / "lakelog.toml"
    toml.write_text('root = "./lake"\n[session]\nmaster = "local[2]"\nmemory = "1g"\n[topics.orders]\nsources = ["./in"]\n')
    (tmp_path / "in").mkdir()
    over, written, dice = threading.Event(), dict[str, int](), random.Random(7)

    def deliver() -> None:
        while not over.is_set():
            name, count = f"{len(written):05}.ndjson", dice.randrange(1, 200)
            file = write(tmp_path / "in", f"{name}.tmp", *(f"k{dice.randrange(500)}" for _ in range(count)))
            file.rename(tmp_path / "in" / name)
            written[name] = count
            over.wait(dice.uniform(0.2, 3))

    delivering = threading.Thread(target=deliver)
    delivering.start()
    reports = []
    try:
        for cycle in range(CYCLES + 1):
            if cycle == CYCLES:
                # What came during the last run is left to this one.
                over.set()
                delivering.join()
            begun, report = time.monotonic(), tmp_path / f"run-{cycle}.json"
            command = [sys.executable, "-m", "lakelog.cli.main", "run", "orders", "--config", str(toml), "--json", "--quiet", "--report", str(report),
                       "--metrics-file", str(tmp_path / "orders.prom")]  # fmt: skip
            done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
            assert len(done.stdout.splitlines()) == 1 and json.loads(done.stdout) == json.loads(report.read_text())
            reports.append(json.loads(done.stdout))
            time.sleep(max(0.0, EVERY - (time.monotonic() - begun)))
    finally:
        over.set()
        delivering.join()
    taken = [
        name for one in reports for source in one["steps"][0]["report"]["sources"] for batch in source["batches"] for name in batch["names"]
    ]
    assert taken == sorted(written), "each file once, in the order of names"
    assert sum(one["counts"].get("appended", 0) for one in reports) == sum(written.values())
    assert [one["lease"] for one in reports] == list(range(1, CYCLES + 2))
    assert [row["run_id"] for row in rows(lake)] == [one["run"] for one in reports]
    assert topic.status().unmerged_records == 0 and topic.verify().problems == []
    assert len(set(keys(topic))) == topic.latest().count()
    page = tmp_path / "status.html"
    assert cli(f"--root {lake.root} status --html {page} --engine native").code == 0
    text = page.read_text()
    assert text.count("<svg") == 7 and f"The newest 20 of {CYCLES + 1} runs" in text
