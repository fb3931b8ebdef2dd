"""Help is readable, and its examples work."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.conftest import Answer

Cli = Callable[..., Answer]
ORDERS = (
    '{"key": {"order_id": 1001}, "value": {"status": "new", "updated_at": "2026-05-06T10:00:00Z"}}\n'
    '{"key": {"order_id": 1002}, "value": {"status": "new", "updated_at": "2026-05-06T10:01:00Z"}}\n'
)
GROUPS = ("topic", "lake", "snapshot", "quarantine")
# What changes the lake, in the order in which one would do it; the rest is asked in between.
FIRST = ["topic create", "append", "merge", "snapshot create", "restore"]
LAST = ["quarantine list", "quarantine requeue", "quarantine drop", "clean", "maintain", "snapshot delete", "topic delete"]


def commands(cli: Cli) -> list[str]:
    """Every command there is, by the help itself."""
    names = re.findall(r"^  ([\w-]+)  ", cli("--help").out.partition("Commands:")[2], re.MULTILINE)
    inside = {group: re.findall(r"^  ([\w-]+)  ", cli(f"{group} --help").out.partition("Commands:")[2], re.MULTILINE) for group in GROUPS}
    return [one for name in names for one in ([f"{name} {sub}" for sub in inside[name]] if name in inside else [name])]


@pytest.mark.parametrize("group", ["", *GROUPS])
def test_without_a_command_the_help_is_shown(group: str, cli: Cli) -> None:
    answer = cli(group)

    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("Usage: lakelog")
    assert answer.err.count("\n") > 8
    assert max(map(len, answer.err.splitlines())) <= 100


@pytest.mark.long
def test_examples_of_every_help_work(cli: Cli, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lakelog.toml").write_text('root = "./lake"\n')
    (tmp_path / "orders.ndjson").write_text(ORDERS)
    monkeypatch.chdir(tmp_path)
    found = commands(cli)
    assert set(FIRST + LAST) < set(found)
    for command in [*FIRST, *[one for one in found if one not in FIRST + LAST], *LAST]:
        examples = re.findall(r"^  +lakelog (.+)$", cli(f"{command} --help").out.partition("Example:")[2], re.MULTILINE)
        assert examples, command
        for example in examples:
            assert shlex.split(example)[: len(command.split())] == command.split()
            answer = cli(example, *(["status\n"] if command == "shell" else []))
            assert (answer.code, answer.err) == (0, ""), f"{example}: {answer}"
            assert answer.out, example
