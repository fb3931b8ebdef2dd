"""The shell at a terminal: Ctrl-C ends a statement and not the shell, what was typed is kept."""

from __future__ import annotations

import itertools
import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from tests.cli.terminals import CTRL_C, CTRL_D, UP, environment, own_cache, terminal
from tests.house.test_readme import BLOCKS, same

if TYPE_CHECKING:
    from lakelog import Lake

pytestmark = pytest.mark.long

PROMPT = r"lakelog> ?\Z"
# Each takes minutes, and would answer 1000000000000. A task of Spark looks whether it was cancelled after a thousand rows of the first.
LONG = {
    "duckdb": "SELECT count(*) AS n FROM range(1000000) a, range(1000000) b;",
    "spark": "SELECT count(*) AS n FROM range(100000000) a, range(10000) b;",
}


def worked(pid: int) -> float:
    """Seconds of CPU that a process and its Java have taken."""
    found = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    return sum(sum(one.cpu_times()[:2]) for one in found)


@pytest.mark.parametrize("engine", ["duckdb", "spark"])
def test_ctrl_c_ends_the_statement_and_not_the_shell(lake: Lake, tmp_path: Path, engine: str) -> None:
    """While Spark starts, and twice while it works, the second time by an impatient hand; and what is asked next gets its own answer, from an engine
    that does nothing else any more."""
    lake.create_topic("orders", key="STRING", value="STRING")
    with terminal("--root", lake.root, "shell", "--engine", engine, cache=own_cache(tmp_path / "cache")) as shell:
        shell.wait_for(PROMPT)
        if engine == "spark":
            shell.type("SELECT 5 * 4 AS first;\n")
            shell.wait_for("starting Spark")
            shell.type(CTRL_C)
            shell.wait_for(r"Error \(INTERRUPTED\): Stopped by Ctrl-C\.[\s\S]*lakelog> ?\Z")
        shell.type("SELECT 5 * 5 AS first;\n")
        shell.wait_for(r"(?<!\d)25\n[\s\S]*lakelog> ?\Z")
        for number in (7, 8):
            shell.type(LONG[engine] + "\n")
            shell.wait_for("querying")
            before = worked(shell.process.pid)
            while worked(shell.process.pid) < before + 3:
                time.sleep(0.1)
            shell.type(CTRL_C * (number - 6))
            shell.wait_for(r"Error \(INTERRUPTED\): Stopped by Ctrl-C\.[\s\S]*lakelog> ?\Z")
            shell.type(f"SELECT count(*) + 400 AS n FROM range({number});\n")
            shown = shell.wait_for(rf"(?<!\d){400 + number}\n[\s\S]*lakelog> ?\Z")
            assert "Error" not in shown and "1000000000000" not in shown
        shell.type("topic list\n")
        shell.wait_for(r"orders\n")
        shell.type(CTRL_D)
        assert shell.ended() == 0


def test_what_was_typed_is_kept_for_the_next_start(lake: Lake, tmp_path: Path) -> None:
    lake.create_topic("orders", key="STRING", value="STRING")
    cache = tmp_path / "not" / "there"
    with terminal("--root", lake.root, "shell", cache=cache) as shell:
        shell.wait_for(PROMPT)
        shell.type("SELECT 40 +\n")
        shell.wait_for(r"-> ?\Z")
        shell.type("2 AS answer;\n")
        shell.wait_for(r"(?<!\d)42\n[\s\S]*lakelog> ?\Z")
        # At the prompt Ctrl-C forgets the line.
        shell.type("topic lost" + CTRL_C)
        shell.wait_for(PROMPT)
        shell.type("exit\n")
        assert shell.ended() == 0
    assert (cache / "shell_history").is_file()
    with terminal("--root", lake.root, "shell", cache=cache) as shell:
        shell.wait_for(PROMPT)
        shell.type(UP + UP)
        shell.wait_for(r"2 AS answer;\Z")
        shell.type(UP)
        shell.wait_for(r"SELECT 40 \+\Z")
        shell.type("\n2;\n")
        shell.wait_for(r"(?<!\d)42\n[\s\S]*lakelog> ?\Z")
        shell.type(CTRL_D)
        assert shell.ended() == 0


class Tmux:
    """A terminal of tmux, on a server of its own; what it shows is what a person sees."""

    def __init__(self, socket: Path, command: list[str], variables: dict[str, str]) -> None:
        self._socket = str(socket)
        told = [word for name, value in variables.items() for word in ("-e", f"{name}={value}")]
        self("-f", "/dev/null", "new-session", "-d", "-s", "t", "-x", "130", "-y", "60", *told, *command)

    def __call__(self, *words: str) -> str:
        return subprocess.run(["tmux", "-S", self._socket, *words], capture_output=True, text=True, check=True).stdout

    def type(self, text: str, *keys: str) -> None:
        # A semicolon at the end would be tmux's own.
        self("send-keys", "-t", "t", "-l", re.sub(";$", r"\;", text))
        if keys:
            self("send-keys", "-t", "t", *keys)

    def wait_for(self, pattern: str) -> str:
        """Wait until something is shown; gives the screen without the blank lines at its end."""
        until = time.monotonic() + 300
        while not re.search(pattern, found := self("capture-pane", "-p", "-t", "t").rstrip() + "\n"):
            assert time.monotonic() < until, f"no {pattern!r} in\n{found}"
            time.sleep(0.2)
        return found


@pytest.fixture
def prices(lake: Lake) -> Lake:
    """The topic of the README, where it shows the shell."""
    config = {"compaction.strategy": "header", "compaction.strategy.header": "seq"}
    topic = lake.create_topic("prices", key="STRING", value="INT", config=config)
    file = next(block for block in BLOCKS if block.mark == "file: prices.ndjson")
    topic.append([json.loads(line) for line in file.text.splitlines()])
    topic.merge()
    topic.append([{"key": "fig", "value": 40, "timestamp": 1700000005000, "headers": [["seq", 7]]}])
    topic.merge()
    return lake


def typed(shown: list[str]) -> Iterator[tuple[str, bool]]:
    """What is typed in a session that is shown, line by line, and whether Ctrl-C is what ends it."""
    for line, following in itertools.pairwise([*shown, ""]):
        if line.startswith(("lakelog> ", "      -> ")):
            yield line[9:], "INTERRUPTED" in following


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
def test_the_readme_shows_what_a_terminal_shows(prices: Lake, tmp_path: Path) -> None:
    """Names are completed by Tab, and a statement that was typed before comes back by the key up."""
    shown = next(block for block in BLOCKS if block.mark == "shell").text
    variables = {
        name: text
        for name, text in environment(own_cache(tmp_path / "cache")).items()
        if name in ("PYTHONPATH", "LAKELOG_CACHE", "PATH", "JDK_JAVA_OPTIONS")
    }
    command = [sys.executable, "-m", "lakelog.cli.main", "--root", prices.root, "shell"]
    screen = Tmux(tmp_path / "tmux", command, variables)
    try:
        screen.wait_for("lakelog>\n$")
        before: list[str] = []
        for text, interrupted in typed(shown.splitlines()):
            if text == "latest prices":
                screen.type("lat", "Tab")
                screen.wait_for("lakelog> latest\n$")
                screen.type(" pr", "Tab")
            elif text in before:
                screen("send-keys", "-t", "t", *["Up"] * (len(before) - before.index(text)))
            else:
                screen.type(text)
            screen.wait_for(rf"(lakelog|     -)> {re.escape(text)}\n$")
            before.append(text)
            screen("send-keys", "-t", "t", "Enter")
            if interrupted:
                screen.wait_for("querying")
                screen("send-keys", "-t", "t", "C-c")
            found = screen.wait_for(r"(lakelog>|      ->)\n$")
        told = found.partition("Tab completes.\n")[2].removesuffix("lakelog>\n")
        assert same(shown, told), told
    finally:
        screen("kill-server")
