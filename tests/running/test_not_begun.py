"""A run that cannot begin reports as any other: JSON, file, figures, and a row where the lake can be written without Spark."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from jobs import run
from lakelog.native.stores import use_settings
from lakelog.running import holder
from lakelog.running.holder import Holder
from lakelog.running.interrupt import Interrupted
from lakelog.running.lease import LEASE_MS, Lease
from lakelog.running.run import not_begun
from tests.conftest import Answer
from tests.running import runs
from tests.running.test_processes import COMMAND, JOB, ended, start


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A lake without topics, made without Spark."""
    return runs.make(tmp_path / "lake")


def rows(root: Path) -> list[dict[str, Any]]:
    return list(DeltaTable(root / "_lakelog" / "runs").to_pyarrow_table().to_pylist())


def test_an_unknown_topic(root: Path, cli: Callable[..., Answer], tmp_path: Path) -> None:
    report, figures = tmp_path / "run.json", tmp_path / "run.prom"
    answer = cli(f"--root {root} run nothing --json --report {report} --metrics-file {figures}")
    said = json.loads(answer.out)
    assert (answer.code, said["outcome"], said["exit_code"], said["recorded"]) == (5, "failed", 5, True)
    assert (said["error"]["error"], said["steps"], said["root"], said["topic"]) == ("UNKNOWN_TOPIC", [], str(root), "nothing")
    assert json.loads(report.read_text()) == said
    assert f'lakelog_run_exit_code{{root="{root}",topic="nothing"}} 5\n' in figures.read_text()
    assert [(row["run_id"], row["verb"], row["topic"], row["error"]) for row in rows(root)] == [
        (said["run"], "run", "nothing", "UNKNOWN_TOPIC")
    ]
    assert answer.err.startswith("Error (UNKNOWN_TOPIC): There is no topic nothing")


@pytest.mark.parametrize(
    ("toml", "more", "name"),
    [
        ('root = "./lake"\nrot = 1', "", "INVALID_CONFIG"),
        ('root = "./lake"\n[topics.orders]\nsources = 3', "", "INVALID_CONFIG"),
        ('root = "./lake"', "--wait soon", "INVALID_REQUEST"),
        ('root = "./lake"', "--report /nowhere/at/all.json", "INVALID_REQUEST"),
        ("", "", "INVALID_REQUEST"),
    ],
)
def test_a_wrong_configuration(
    root: Path, cli: Callable[..., Answer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, toml: str, more: str, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lakelog.toml").write_text(toml)
    answer = cli(f"run orders --json {more}" + ("" if "--report" in more else " --report run.json"))
    said = json.loads(answer.out)
    assert (answer.code, said["exit_code"], said["error"]["error"]) == (2, 2, name)
    if "--report" not in more:
        assert json.loads((tmp_path / "run.json").read_text()) == said
    # Where the lake is known, it is told.
    assert len(rows(root)) == (name == "INVALID_REQUEST" and toml != "")


def test_a_job_whose_report_cannot_be_written(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    figures, toml = tmp_path / "run.prom", tmp_path / "lakelog.toml"
    toml.write_text('root = "./lake"')
    given = ["--config", str(toml), "--topic", "orders", "--report", "/nowhere/at/all.json", "--metrics-file", str(figures)]
    assert run.main(given) == 2
    said = json.loads(capsys.readouterr().out)
    assert (said["outcome"], said["error"]["error"], said["recorded"]) == ("failed", "INVALID_REQUEST", True)
    assert said["error"]["message"].startswith("--report /nowhere/at/all.json: it cannot be written there.")
    assert f'lakelog_run_exit_code{{root="{root}",topic="orders"}} 2\n' in figures.read_text() and len(rows(root)) == 1


def test_the_last_success_is_told_however_the_root_is_written(root: Path, tmp_path: Path) -> None:
    """Figures of other labels are other figures: an alarm on the age of the last success would be quiet."""
    figures = tmp_path / "run.prom"
    success = f'lakelog_run_last_success_timestamp_seconds{{root="file:{root}",topic="orders"}} 5\n'
    figures.write_text(success)
    made = not_begun(f"file:{root}/", "orders", Interrupted(signal.SIGTERM), clock=lambda: 9000, metrics=figures)
    assert (made.root, made.recorded) == (f"file:{root}", True)
    assert success in figures.read_text()


@pytest.mark.parametrize(
    ("place", "why"),
    [
        ("main.sales", "there is no Spark, and a catalog is known to Spark alone"),
        ("hdfs:///data/lake", "there is no Spark, and delta-rs does not know hdfs://"),
        ("s3a://bucket/lake", "there is no Spark, and which LogStore commits to S3 is not known"),
    ],
)
def test_a_lake_that_only_spark_writes(place: str, why: str) -> None:
    use_settings({})
    assert not_begun(place, "orders", Interrupted(signal.SIGTERM), clock=lambda: 0).recorded == why


def test_a_panic_of_delta_rs_is_told(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Panic(BaseException):
        pass

    def panics(*given: object) -> None:
        raise Panic("index out of bounds")

    monkeypatch.setattr("lakelog.native.table.append", panics)
    told = not_begun(str(root), "orders", Interrupted(signal.SIGTERM), clock=lambda: 0).recorded
    assert told == "NotReady: Panic: index out of bounds" and rows(root) == []


@pytest.mark.parametrize("more", ["", "--root ./lake", "environment"])
@pytest.mark.parametrize("job", [False, True])
def test_a_wrong_configuration_keeps_the_figures_of_the_lake(
    cli: Callable[..., Answer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: str, job: bool
) -> None:
    """An alarm on the time of the last success fires; it does not go away."""
    lake = tmp_path / 'the "first"' / "lake"
    lake.mkdir(parents=True)
    labels = '{root="' + str(lake).replace('"', '\\"') + '",topic="orders"}'
    success = f"lakelog_run_last_success_timestamp_seconds{labels} 1790000000\n"
    monkeypatch.chdir(lake.parent)
    if more == "environment":
        monkeypatch.setenv("LAKELOG_ROOT", "./lake")
        more = ""
    figures, toml = Path("orders.prom"), Path("lakelog.toml")
    toml.write_text('root = "./lake"\n[sesion]\n' if more else "root = ")
    figures.write_text(success.replace("orders", "prices").replace("first", "second") + success)
    options = f"{more} --metrics-file {figures}".split()
    code = run.main(["--topic", "orders", *options]) if job else cli(["run", "orders", *options]).code
    assert code == 2
    told = [line for line in figures.read_text().splitlines(keepends=True) if not line.startswith("#")]
    assert told[0] == success
    assert f"lakelog_run_exit_code{labels} 2\n" in told
    assert all(labels[:-1] in line for line in told)


def test_a_job_that_finds_no_lake_reports(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "lakelog.toml").write_text("rot = 1")
    assert run.main(["--topic", "orders", "--config", str(tmp_path / "lakelog.toml"), "--report", str(tmp_path / "run.json")]) == 2
    said = json.loads(capsys.readouterr().out)
    assert (said["outcome"], said["error"]["error"]) == ("failed", "INVALID_CONFIG")
    assert json.loads((tmp_path / "run.json").read_text()) == said


def test_a_process_is_gone_where_that_is_certain() -> None:
    here = Holder.here()
    assert here.machine and here.started and not here.is_gone()
    assert Holder.of(here.to_dict()) == here
    assert Holder(here.host, here.pid, here.machine, "1").is_gone()
    assert Holder(here.host, 2**22 + 1, here.machine, here.started).is_gone()
    assert not Holder("elsewhere", here.pid, "another machine", "1").is_gone()
    assert not Holder(here.host, here.pid).is_gone()


def test_a_process_that_the_system_hides_is_not_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with hidepid, for processes of another user."""
    here = Holder.here()
    there, absent = os.getppid(), 2**22 + 1
    monkeypatch.setattr(holder, "_started", lambda pid: None)
    assert not Holder(here.host, there, here.machine, here.started).is_gone()
    assert Holder(here.host, absent, here.machine, here.started).is_gone()


def test_nobody_waits_for_a_lease_of_a_clock_that_is_far_ahead() -> None:
    elsewhere, now = Holder("elsewhere", 1, "another machine", "1"), 1_800_000_000_000
    assert Lease("t", 1, "r", elsewhere, now - 1000, now + LEASE_MS - 1000).is_live(now)
    assert Lease("t", 1, "r", elsewhere, now + 60_000, now + 60_000 + LEASE_MS).is_live(now), "a clock that is a minute ahead"
    assert not Lease("t", 1, "r", elsewhere, now + 86_400_000, now + 86_400_000 + LEASE_MS).is_live(now)


def test_a_lease_outlives_its_time_while_its_process_is_there() -> None:
    """A step may go on for longer than the lease holds, and nothing may prolong it meanwhile."""
    here, now, parent = Holder.here(), 1_800_000_000_000, os.getppid()
    beside = Holder(here.host, parent, here.machine, holder._started(parent) or "")

    def is_live(held_by: Holder, over: int) -> bool:
        return Lease("t", 1, "r", held_by, now - LEASE_MS - over, now - over).is_live(now)

    assert is_live(beside, 60_000) and not is_live(beside, 86_400_000), "nobody waits for a process that hangs for a day"
    assert not is_live(Holder("elsewhere", parent, "another machine", beside.started), 60_000)
    assert not is_live(Holder(here.host, parent, here.machine, "1"), 60_000)
    assert not is_live(here, 60_000), "this process is here for other reasons than a run that it began"


SLOW = """
import sys, time
from lakelog.terminal.settings import Settings
def open_lake(self):
    sys.stderr.write("starting\\n")
    sys.stderr.flush()
    time.sleep(60)
Settings.open_lake = open_lake
"""


@pytest.mark.parametrize(("entry", "topic"), [(COMMAND, ["run", "orders"]), (JOB, ["--topic", "orders"])])
def test_ended_while_spark_starts(root: Path, tmp_path: Path, entry: str, topic: list[str]) -> None:
    for table in ("bronze", "silver"):
        (root / "orders" / table / "_delta_log").mkdir(parents=True)
    report = tmp_path / "run.json"
    more = ["--json"] if entry == COMMAND else []
    process = start(SLOW, entry, *topic, "--root", str(root), "--report", str(report), *more)
    assert process.stderr is not None
    while (line := process.stderr.readline()) != "starting\n":
        assert line, "it ended before"
    process.terminate()
    code, out, err = ended(process)
    said = json.loads(out)
    assert (code, said["outcome"], said["exit_code"], said["recorded"]) == (143, "interrupted", 143, True), err
    assert json.loads(report.read_text()) == said
    assert [(row["run_id"], row["error"]) for row in rows(root)] == [(said["run"], "INTERRUPTED")]
