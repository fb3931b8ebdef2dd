"""The README's examples run, and what it lists is what there is."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import lakelog
from lakelog import errors
from lakelog.model.config import SETTINGS
from lakelog.terminal.settings import Settings
from tests.conftest import Answer
from tests.native.test_choice import with_engine

ROOT = Path(__file__).parent.parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, the comment before it, its text."""

    language: str
    mark: str
    text: str


BLOCKS = [Block(*found) for found in re.findall(r"(?:<!-- (?P<m>[^\n]*?) -->\n)?```(\w+)\n(.*?)```\n", README, re.DOTALL)]
BLOCKS = [Block(block.mark, block.language, block.text) for block in BLOCKS]


def same(expected: str, actual: str) -> bool:
    """Equal line by line, trailing blanks aside; … stands for anything."""
    lines = [".*".join(re.escape(part) for part in line.rstrip().split("…")) for line in expected.strip().splitlines()]
    return re.fullmatch("\n".join(lines), "\n".join(line.rstrip() for line in actual.strip().splitlines())) is not None


def commands(text: str) -> list[tuple[str, str]]:
    """The commands of a console block, each with the answer shown below it."""
    found = re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]
    return [(one.partition("\n")[0], one.partition("\n")[2]) for one in found]


def test_readme_examples_give_what_the_readme_shows(
    spark: SparkSession, cli: Callable[..., Answer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    scope: dict[str, Any] = {}
    reading, quick = with_engine(), 0
    for block, following in zip(BLOCKS, [*BLOCKS[1:], Block("", "", "")], strict=True):
        if block.mark.startswith("file: "):
            path = Path(block.mark.removeprefix("file: "))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, encoding="utf-8")
        elif block.language == "python":
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(block.text, "README.md", "exec"), scope)
            assert following.language == "text" or not printed.getvalue(), f"the README does not show: {printed.getvalue()}"
            assert not printed.getvalue() or same(following.text, printed.getvalue()), f"{block.text}\ngave\n{printed.getvalue()}"
        elif block.language == "console" and block.mark != "after: demo":
            for command, expected in commands(block.text):
                said, pipe, call = command.rpartition("| lakelog ")
                stdin = shlex.split(said)[1] + "\n" if pipe else ""
                with monkeypatch.context() as patch:
                    if re.match(rf"lakelog ({'|'.join(reading)})\b(?!.* --(since|follow))", command):
                        patch.setattr(Settings, "open_lake", lambda self: pytest.fail("Spark was asked"))
                        quick += 1
                    answer = cli(call if pipe else command.removeprefix("lakelog "), stdin)
                assert same(expected, answer.out + answer.err), f"$ {command}\n{answer.out}{answer.err}"
    assert quick > 5, "what only reads asked no Spark"


def test_two_commands_stand_on_the_first_screen() -> None:
    first_screen = README.splitlines()[:50]
    marks = {block.mark: block.text for block in BLOCKS if block.mark.startswith("ci: ")}

    assert set(marks) == {"ci: demo", "ci: test"}
    first = next(block for block in BLOCKS if block.mark == "after: demo")
    assert set(first.text.splitlines()) < set(first_screen) and marks["ci: demo"].endswith(".venv/bin/lakelog demo --into demo\n")
    for text in marks.values():
        assert text.strip() in first_screen
        assert text.startswith("python3 -m venv .venv && .venv/bin/pip install")


def test_ci_runs_the_command_of_the_readme() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    extraction = re.search(r'command="\$\((.*)\)"', script)
    assert extraction is not None
    found = subprocess.run(["bash", "-c", extraction[1]], cwd=ROOT, capture_output=True, text=True, check=True).stdout

    assert found == next(block.text for block in BLOCKS if block.mark == "ci: test")
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
    assert "set -euo pipefail" in script


def test_every_setting_is_in_the_table_with_its_default() -> None:
    table = README.partition("## Configuration")[2].partition("\n## ")[0]
    for setting in SETTINGS.values():
        default = str(setting.default).lower() if isinstance(setting.default, bool) else str(setting.default)
        lake = "" if setting.fixed else f"`{setting.lake_name}`"
        assert f"| `{setting.name}` | {default or '(none)'} | {lake} | {setting.says} |" in table


def test_every_command_is_in_the_readme_and_has_help(cli: Callable[..., Answer]) -> None:
    shown = cli("--help").out.partition("Commands:")[2]
    names = re.findall(r"^  ([\w-]+)  ", shown, re.MULTILINE)

    verbs = [
        "append",
        "merge",
        "sql",
        "latest",
        "verify",
        "restore",
        "maintain",
        "clean",
        "erase",
        "check",
        "status",
        "run",
        "doctor",
        "shell",
        "demo",
    ]
    assert names == [*verbs, "topic", "lake", "snapshot", "quarantine", "read", "commit", "lag", "truncate", "explain", "what-if"]
    for name in names:
        assert f"| `lakelog {name}" in README
        assert "Usage: lakelog " + name in cli(f"{name} --help").out
    for name in ("topic", "lake", "snapshot", "quarantine"):
        for command in re.findall(r"^  (\w+)  ", cli(f"{name} --help").out.partition("Commands:")[2], re.MULTILINE):
            row = next(line for line in README.splitlines() if line.startswith(f"| `lakelog {name} "))
            assert command in row


def test_every_exit_code_is_in_the_readme() -> None:
    table = README.partition("## Errors")[2].partition("\n## ")[0]
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.LakelogError)]
    for code in {kind.exit_code for kind in kinds}:
        assert f"| {code} |" in table


def test_public_names_are_sorted_and_there() -> None:
    assert lakelog.__all__ == sorted(lakelog.__all__)
    for name in lakelog.__all__:
        assert getattr(lakelog, name).__doc__
