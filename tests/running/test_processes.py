"""Runs as processes: killed, terminated, beside each other."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lakelog import Lake
from lakelog.running.lease import LEASE_MS, THERE_MS
from lakelog.running.run import run
from lakelog.sources import directory
from lakelog.sources.configured import DirectorySource
from tests.races.processes import REPOSITORY, environment, kill
from tests.running.test_run import rows
from tests.sources.test_sources import keys, write

# What a process does in place of a part of the run, then the command line or the job.
KILLED = """
import os, signal
from lakelog.sources import directory
directory._batch = lambda *given: os.kill(os.getpid(), signal.SIGKILL)
"""
TERMINATED = """
import os, signal, threading
from lakelog.running import steps
merge = steps.merge
def terminated(*given):
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGTERM)).start()
    return merge(*given)
steps.STEPS["merge"] = terminated
"""
BESIDE = """
import sys
from lakelog.running import steps
from lakelog.sources import directory
directory.BATCH_FILES = 1
append = steps.append
def waiting(*given):
    sys.stderr.write("ready\\n")
    sys.stderr.flush()
    sys.stdin.readline()
    return append(*given)
steps.STEPS["append"] = waiting
"""
COMMAND, JOB = "from lakelog.cli.main import main", "from jobs.run import main"


def start(what: str, entry: str, *arguments: str) -> subprocess.Popen[str]:
    """A run as a process in a group of its own, its Java with it."""
    return subprocess.Popen(
        [sys.executable, "-c", f"{what}\nimport sys\n{entry}\nsys.exit(main(sys.argv[1:]))", *arguments],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(), cwd=REPOSITORY, start_new_session=True,
    )  # fmt: skip


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    try:
        out, err = process.communicate(timeout=300)
        return process.returncode, out, err
    finally:
        kill(process)


@pytest.fixture
def place(tmp_path: Path) -> dict[str, Any]:
    toml = tmp_path / "lakelog.toml"
    toml.write_text('root = "./lake"\n[session]\nmaster = "local[2]"\nmemory = "1g"\n[topics.orders]\nsources = ["./in"]\n')
    return {"in": tmp_path / "in", "toml": str(toml), "report": tmp_path / "run.json", "prom": tmp_path / "run.prom"}


@pytest.mark.long
def test_killed_between_the_commit_and_the_report(lake: Lake, place: dict[str, Any]) -> None:
    topic = lake.create_topic("orders", key="STRING", value="STRING")
    write(place["in"], "a.ndjson", "a1", "a2")
    code, out, err = ended(start(KILLED, COMMAND, "run", "orders", "--config", place["toml"], "--json"))
    assert (code, out) == (-signal.SIGKILL, ""), err
    assert topic.ends() == {0: 2}

    made = run(lake, "orders", [DirectorySource(str(place["in"]))])
    assert made.exit_code == 0
    assert [made.steps[0].report["sources"][0][name] for name in ("files", "known")] == [0, 1]
    assert keys(topic) == ["a1", "a2"]
    assert [row["run_id"] for row in rows(lake)] == [made.run]


def test_terminated_within_a_step(lake: Lake, place: dict[str, Any]) -> None:
    topic = lake.create_topic("orders", key="STRING", value="STRING")
    write(place["in"], "a.ndjson", *[f"a{number}" for number in range(1000)])
    arguments = ["--topic", "orders", "--config", place["toml"], "--report", str(place["report"]), "--metrics-file", str(place["prom"])]
    code, out, err = ended(start(TERMINATED, JOB, *arguments))

    assert code == 143, (out, err)
    said = json.loads(out)
    assert (said["outcome"], said["exit_code"], said["error"]["error"], said["recorded"]) == ("interrupted", 143, "INTERRUPTED", True)
    assert [(one["step"], one["outcome"]) for one in said["steps"]] == [("append", "done"), ("merge", "interrupted")]
    assert json.loads(place["report"].read_text()) == said
    assert 'topic="orders"} 143\n' in place["prom"].read_text()
    assert [(row["run_id"], row["error"]) for row in rows(lake)] == [(said["run"], "INTERRUPTED")]
    made = run(lake, "orders", [DirectorySource(str(place["in"]))])
    assert (made.exit_code, made.after["merged"], made.recorded) == (0, {"0": 1000}, True)
    assert topic.verify().problems == []
    assert len(rows(lake)) == 2


@pytest.mark.long
def test_two_at_once(lake: Lake, place: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The second is refused while the first holds the lease; where that is long over, both run, and Delta's conflicts decide."""
    monkeypatch.setattr(directory, "BATCH_FILES", 1)
    topic = lake.create_topic("orders", key="STRING", value="STRING")
    names = [f"{number}.ndjson" for number in range(8)]
    for name in names:
        write(place["in"], name, name)
    now = Lake(lake.spark, lake.root)
    other = start(BESIDE, COMMAND, "run", "orders", "--config", place["toml"], "--json", "--quiet")
    try:
        assert other.stderr is not None and other.stdin is not None
        while (line := other.stderr.readline()) != "ready\n":
            assert line, "it ended before"
        refused = run(now, "orders", [DirectorySource(str(place["in"]))])
        assert (refused.exit_code, refused.error["pid"]) == (75, other.pid)  # type: ignore[index]
        later = Lake(lake.spark, lake.root, clock=lambda: now.clock() + LEASE_MS + THERE_MS + 60_000)
        other.stdin.write("go\n")
        other.stdin.flush()
        mine = run(later, "orders", [DirectorySource(str(place["in"]))])
    finally:
        code, out, err = ended(other)
    theirs = json.loads(out)
    assert (mine.exit_code, code, mine.lease, theirs["lease"]) == (0, 0, 2, 1), err
    assert sorted(keys(topic)) == names
    assert mine.counts.get("files", 0) + theirs["counts"].get("files", 0) == len(names)
    assert run(later, "orders").after["merged"] == {"0": len(names)}
    assert topic.verify().problems == []
    assert len(rows(lake)) == 4
