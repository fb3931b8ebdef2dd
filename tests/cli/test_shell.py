"""The shell: where a statement ends, what completes, and a script on standard input."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lakelog.cli.main import main
from lakelog.cli.shell import Shell, is_whole, statements
from tests.conftest import Answer

VERBS = {"status": [], "latest": [], "topic": ["list", "describe"]}


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("status", True), ("topic list", True), ("exit", True), ("SELECT 1;", True), ("SELECT 1", False), ("SELECT ';'", False), ("", True),
        ("SELECT 1; -- done", True), ("SELECT 1 -- ;", False), ("/* ; */ SELECT 1", False), ('SELECT ";" ;', True), ("-- nothing", True),
        ("SELECT 'it''s;'", False),
    ],
)  # fmt: skip
def test_where_a_statement_ends(text: str, whole: bool) -> None:
    assert is_whole(text, VERBS) is whole


def test_a_script_is_cut_into_statements() -> None:
    script = "topic list\n\n-- a comment; with a sign\nSELECT 1,\n  ';'\n;\nstatus orders\nSELECT 2"
    found = [one.strip() for one in statements(script.splitlines(), VERBS)]
    assert found == ["topic list", "SELECT 1,\n  ';'\n;", "status orders", "SELECT 2"]


def test_what_completes_without_a_lake() -> None:
    shell = Shell(lambda argv, signals: main(argv, signals), [], VERBS)
    assert shell.candidates("st") == ["status"]
    assert shell.candidates("topic ") == ["list", "describe"]
    assert shell.candidates("engine s") == ["spark"]
    assert "SELECT" in shell.candidates("")


def test_a_script_ends_at_the_first_statement_that_fails(cli: Callable[..., Answer], tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    answer = cli(f"--root {tmp_path}/lake shell", stdin="help\nengine spark\nengine duckdb\ntopic list\nhelp\n")
    assert answer.code == 5
    assert "NOT_A_LAKE" in answer.err
    assert answer.out.count("A verb of the command line") == 1
    assert cli(f"--root {tmp_path}/lake shell", stdin="help\nexit\ntopic list\n").code == 0
    assert cli(f"--root {tmp_path}/lake shell", stdin="engine mysql\n").code == 2
    assert cli(f"--root {tmp_path}/lake shell", stdin="topic 'list\n").code == 2
