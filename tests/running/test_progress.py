"""What a run shows while it goes on: a bar on a terminal, without colours where those are not wanted; a line a step elsewhere; nothing if quiet."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from lakelog import Lake
from tests.races.processes import REPOSITORY
from tests.running.test_processes import COMMAND, ended, start
from tests.sources.test_sources import write

APPENDING = """
import time
from lakelog.terminal.progress import watching
with watching("orders: appending", None, of="files") as tell:
    for done in range(1, 4):
        tell(done, 3)
        time.sleep(0.3)
print("orders: append: done")
"""
COLOUR = re.compile(r"\x1b\[(?:\d+;)*(?:3[0-79]|38;[\d;]+|9[0-7])(?:;\d+)*m")


def on_a_terminal(code: str, *arguments: str, **environment: str) -> str:
    """What a process prints, stdout and stderr, on a terminal of 100 columns."""
    ours, theirs = pty.openpty()
    known = {name: text for name, text in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE")}
    settings = {**known, "PYTHONPATH": str(REPOSITORY), "TERM": "xterm-256color", "COLUMNS": "100", **environment}
    process = subprocess.Popen([sys.executable, "-c", code, *arguments], stdin=theirs, stdout=theirs, stderr=theirs, env=settings)
    os.close(theirs)
    shown = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:
            # Linux tells the end so.
            break
        if not part:
            break
        shown += part
    os.close(ours)
    process.wait(60)
    return shown.decode()


def test_a_bar_on_a_terminal() -> None:
    shown = on_a_terminal(APPENDING)
    assert "orders: appending" in shown and "2 of 3 files" in shown and COLOUR.search(shown)
    assert shown.rstrip().endswith("orders: append: done")
    plain = on_a_terminal(APPENDING, NO_COLOR="1")
    assert "2 of 3 files" in plain and not COLOUR.search(plain)
    assert "2 of 3" not in on_a_terminal(APPENDING, TERM="dumb").replace("3 of 3", "")


def test_no_bar_elsewhere() -> None:
    found = subprocess.run([sys.executable, "-c", APPENDING], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert (found.stdout, found.stderr) == ("orders: append: done\n", "")


@pytest.mark.long
def test_a_run_shows_its_steps(lake: Lake, tmp_path: Path) -> None:
    lake.create_topic("orders", key="STRING", value="STRING")
    toml = tmp_path / "lakelog.toml"
    toml.write_text('root = "./lake"\n[session]\nmaster = "local[2]"\nmemory = "1g"\n[topics.orders]\nsources = ["./in"]\n')
    write(tmp_path / "in", "a.ndjson", "a")
    code = f"import sys\n{COMMAND}\nsys.exit(main(sys.argv[1:]))"
    shown = on_a_terminal(code, "run", "orders", "--config", str(toml))
    for text in ("starting Spark", "orders: appending", "1 of 1 files", "orders: merging", "orders: checking"):
        assert text in shown, text
    steps = [
        line for line in re.sub(r"\x1b\[[?\d;]*[A-Za-z]", "", shown).replace("\r", "\n").splitlines() if re.match(r"orders: \w+: ", line)
    ]
    assert [line.split(":")[1].strip() for line in steps] == ["append", "merge", "snapshot", "clean", "check"]

    write(tmp_path / "in", "b.ndjson", "b")
    ran, out, err = ended(start("", COMMAND, "run", "orders", "--config", str(toml), "--json"))
    assert ran == 0 and json.loads(out)["counts"]["files"] == 1
    assert [line.split(":")[1].strip() for line in err.splitlines()] == ["append", "merge", "snapshot", "clean", "check"]
    ran, out, err = ended(start("", COMMAND, "run", "orders", "--config", str(toml), "--quiet"))
    assert (ran, out, err) == (0, "", "")


def test_a_run_goes_on_when_nobody_reads_what_it_prints() -> None:
    """``lakelog run orders | head -1``: the pipe is closed between two steps."""
    ours, theirs = os.pipe()
    code = """
import sys
from types import SimpleNamespace
from lakelog.cli.running import _watcher
from lakelog.running_results import Step
watcher = _watcher(SimpleNamespace(json=False), None, "orders", quiet=False)
sys.stdin.readline()
for step in ("append", "merge"):
    watcher.after(Step(step, "nothing", 0.1))
    print("after", step, file=sys.stderr)
"""
    settings = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=theirs, stderr=subprocess.PIPE, text=True, env=settings
    )
    os.close(theirs)
    os.close(ours)
    _, said = process.communicate("closed\n")
    assert (process.returncode, said.splitlines()) == (0, ["after append", "after merge"])
