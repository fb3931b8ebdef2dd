"""Ctrl-C and SIGTERM end a command with one line and their code; the tables hold the whole commit or nothing, and no temporary file stays."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lakelog import Lake
from tests.races.processes import environment, kill

COUNT = 150_000


def start(folder: Path, *arguments: str, stdin: str = "") -> subprocess.Popen[str]:
    """The command line as a process in a group of its own, as a shell starts it, with a folder of its own for temporary files."""
    (folder / "tmp").mkdir(exist_ok=True)
    with open(stdin or os.devnull) as given:
        return subprocess.Popen(
            [sys.executable, "-m", "lakelog.cli.main", *arguments],
            stdin=given, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=environment(TMPDIR=str(folder / "tmp")), cwd=folder, start_new_session=True,
        )  # fmt: skip


def ended_by(process: subprocess.Popen[str], number: int, happened: Callable[[], bool]) -> tuple[int, str, str]:
    """Send a signal once something is seen on disk; gives code, stdout and stderr. Ctrl-C goes to the whole group, as a terminal sends it."""
    try:
        until = time.monotonic() + 300
        while not happened() and process.poll() is None and time.monotonic() < until:
            time.sleep(0.01)
        assert process.poll() is None, f"it ended before: {process.communicate()}"
        (os.killpg if number == signal.SIGINT else os.kill)(process.pid, number)
        out, err = process.communicate(timeout=120)
        return process.returncode, out, err
    finally:
        kill(process)


def copies(folder: Path) -> list[Path]:
    """The command's temporary folders; not that of the process in the background which makes the archive of classes on a new machine."""
    return [one for one in (folder / "tmp").glob("lakelog-*") if not one.name.startswith("lakelog-doctor-")]


@pytest.fixture
def records(tmp_path: Path) -> str:
    file = tmp_path / "many.ndjson"
    file.write_text("".join(json.dumps({"key": f"k{index}", "value": "x" * 50}) + "\n" for index in range(COUNT)))
    return str(file)


@pytest.mark.parametrize(
    ("number", "code", "verb"),
    [
        pytest.param(signal.SIGTERM, 143, "append", marks=pytest.mark.long),
        pytest.param(signal.SIGINT, 130, "append", marks=pytest.mark.long),
        pytest.param(signal.SIGINT, 130, "merge", marks=pytest.mark.long),
        pytest.param(signal.SIGTERM, 143, "merge", marks=pytest.mark.long),
    ],
)
def test_a_signal_ends_a_command_in_good_order(lake: Lake, tmp_path: Path, records: str, number: int, code: int, verb: str) -> None:
    topic = lake.create_topic("orders", key="STRING", value="STRING")
    topic.append([{"key": "first", "value": "x"}])
    if verb == "merge":
        topic.append(records)
    end, folder = topic.ends()[0], Path(lake.root, "orders", "bronze" if verb == "append" else "silver")
    files = set(folder.rglob("*.parquet"))
    process = start(tmp_path, verb, "orders", *(["-"] if verb == "append" else []), "--root", lake.root, stdin=records)
    answer = ended_by(process, number, lambda: set(folder.rglob("*.parquet")) > files)

    assert answer[0] == code, answer
    assert answer[1] == ""
    assert re.fullmatch(r"Error \(INTERRUPTED\): Stopped by (Ctrl-C|SIGTERM)\. .*\n", answer[2]), answer[2]
    assert copies(tmp_path) == []
    topic = lake.topic("orders")
    assert topic.ends()[0] in (end, end + COUNT)
    merged = topic.merge()
    assert merged.to_offsets == topic.ends()
    assert topic.verify().problems == []


@pytest.mark.parametrize("module", ["typer", "lakelog.cli.records", "lakelog.terminal.output"])
def test_ctrl_c_while_the_command_is_imported(module: str) -> None:
    script = (
        "import os, signal, sys, time\n"
        "class Finder:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == {module!r} and self in sys.meta_path:\n"
        "            sys.meta_path.remove(self)\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "            time.sleep(30)\n"
        "sys.meta_path.insert(0, Finder())\n"
        "from lakelog.cli import command\n"
        "sys.argv = ['lakelog', 'topic', 'list', '--json']\n"
        "sys.exit(command())"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment(), timeout=60, check=False)
    assert (ended.returncode, ended.stderr.count("\n")) == (130, 1), ended
    assert ended.stderr.startswith("Error (INTERRUPTED): Stopped by Ctrl-C."), ended
    assert json.loads(ended.stdout)["error"] == "INTERRUPTED"


def test_a_signal_while_standard_input_is_read(tmp_path: Path, spark: object) -> None:
    lake = Lake(spark, str(tmp_path / "lake"))  # type: ignore[arg-type]
    lake.create_topic("orders", key="STRING", value="STRING")
    fifo = tmp_path / "slow"
    os.mkfifo(fifo)
    holding = os.open(fifo, os.O_RDWR)
    process = start(tmp_path, "append", "orders", "-", "--root", lake.root, "--json", stdin=str(fifo))
    answer = ended_by(process, signal.SIGTERM, lambda: bool(copies(tmp_path)))
    os.close(holding)

    assert answer[0] == 143
    assert json.loads(answer[1])["error"] == "INTERRUPTED"
    assert copies(tmp_path) == []
    assert lake.topic("orders").ends() == {0: 0}


def test_a_signal_that_finds_a_finalizer_ends_the_command_nevertheless(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a signal's handler raises within a finalizer Python reports and forgets."""
    from lakelog.running import interrupt

    monkeypatch.setattr(interrupt, "AGAIN", 0.2)
    monkeypatch.setattr(sys, "unraisablehook", lambda lost: None)
    signals, ended = interrupt.Signals(), []

    class Finalized:
        def __del__(self) -> None:
            os.kill(os.getpid(), signal.SIGTERM)
            ended.append(signals.received)

    with signals.guarding():
        Finalized()
        time.sleep(30)
        pytest.fail("it went on")
    assert signals.received == signal.SIGTERM and ended == [], "the signal was handled within the finalizer"
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_a_signal_cuts_off_neither_the_end_of_spark_nor_the_report(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both may take longer than a command that goes on nevertheless is given."""
    from lakelog.delta import stopping
    from lakelog.running import interrupt

    monkeypatch.setattr(interrupt, "AGAIN", 0.1)
    signals, done = interrupt.Signals(), []

    def end(spark: object, *, patience: float) -> None:
        time.sleep(0.5)
        done.append("ended")

    monkeypatch.setattr(stopping, "end", end)
    with signals.guarding():
        signals.started(object())  # type: ignore[arg-type]
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(30)
        finally:
            signals.defer()
            time.sleep(0.5)
            done.append("told")
    assert (done, signals.received) == (["ended", "told"], signal.SIGTERM)
