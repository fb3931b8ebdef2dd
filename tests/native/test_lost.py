"""A topic whose log was taken away, data files that are gone: every command names what is missing, and doctor finds it. Without Spark."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lakelog import Damaged, Lake, TopicNotFound
from tests.conftest import Answer
from tests.native.damages import data_files
from tests.native.test_native import root  # noqa: F401

Cli = Callable[..., Answer]


@pytest.fixture
def lake(root: str, tmp_path: Path) -> Iterator[Path]:  # noqa: F811
    """A copy of a lake with one topic, orders."""
    yield Path(shutil.copytree(root, tmp_path / "lake"))


def checks(cli: Cli, lake: Path) -> dict[str, tuple[str, str]]:
    told = json.loads(cli(f"--root {lake} doctor --json").out)["checks"]
    return {one["name"]: (one["state"], f"{one['found']}. {one['todo']}") for one in told}


def test_a_topic_whose_log_is_gone_is_named_by_every_command(lake: Path, cli: Cli) -> None:
    assert checks(cli, lake)["topics"] == ("ok", "1 topic. ")
    shutil.rmtree(lake / "orders" / "bronze")
    assert cli(f"--root {lake} topic list").out == "orders\n"
    for command in (
        "status",
        "status orders",
        "lag",
        "lag orders",
        "latest orders",
        "read orders",
        "topic describe orders",
        "snapshot list orders",
    ):
        answer = cli(f"--root {lake} {command}")
        assert answer.code == 5, (command, answer)
        assert "Error (UNKNOWN_TOPIC): The topic orders is listed in " in answer.err, command
        assert "Put it back from a copy, or take it off the list: `lakelog topic delete`." in answer.err, command
    for command in ("status", "lag"):
        (entry,) = json.loads(cli(f"--root {lake} {command} --json").out)["topics"]
        assert (entry["topic"], entry["error"]) == ("orders", "UNKNOWN_TOPIC")
    with pytest.raises(TopicNotFound, match="is listed in"):
        Lake(str(lake)).topic("orders")
    state, told = checks(cli, lake)["topic orders"]
    assert state == "fail" and "is listed in" in told and "Put it back from a copy" in told
    assert cli(f"--root {lake} doctor").code == 2


@pytest.mark.parametrize(("table", "remedy"), [("bronze", ""), ("silver", "run `lakelog merge orders --rebuild` once")])
def test_a_data_file_that_is_gone_is_named_with_what_to_do(lake: Path, table: str, remedy: str, cli: Cli) -> None:
    lost = [file for file in data_files(lake / "orders" / table) if "=-" not in file.parent.name][0]
    lost.unlink()
    verb = "read" if table == "bronze" else "latest"
    answer = cli(f"--root {lake} {verb} orders")
    assert answer.code == 70
    assert (
        f"orders/{table}: {lost.relative_to(lake / 'orders' / table)} is missing. A file of the table is missing or broken: " in answer.err
    )
    assert "put it back from a copy before going on." in answer.err and remedy in answer.err
    with pytest.raises(Damaged, match="is missing"):
        Lake(str(lake)).topic("orders").require_whole()  # type: ignore[attr-defined]
    state, told = checks(cli, lake)["topic orders"]
    assert state == "fail" and lost.name in told and remedy in told


def test_a_folder_that_is_no_lake_says_what_is_missing(lake: Path, cli: Cli) -> None:
    for folder, says in (
        (lake / "nowhere", "is not a lake: there is no such folder. `lakelog topic create` makes it one."),
        (lake.parent, f"is not a lake; lake in it is one: name {lake}"),
        (lake / "orders", f"is not a lake, but within one: name {lake}"),
    ):
        answer = cli(f"--root {folder} topic list")
        assert (answer.code, answer.err) == (5, f"Error (NOT_A_LAKE): {folder} {says}\n")
    assert checks(cli, lake.parent)["root"] == ("fail", f"{lake.parent} is not a lake; lake in it is one: name {lake}. ")
    shutil.rmtree(lake / "_lakelog")
    answer = cli(f"--root {lake} topic list")
    assert (answer.code, f"{lake} is not a lake any more: it holds orders/bronze, but not _lakelog" in answer.err) == (5, True)
