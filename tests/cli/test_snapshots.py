"""Snapshots of every topic, and a log that is followed, as typed at the command line."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyspark.sql import SparkSession

from lakelog import Lake
from lakelog.cli.readers import WAIT
from lakelog.readers import read
from lakelog.terminal.context import Call
from tests.conftest import Answer
from tests.tables import versions

Cli = Callable[..., Answer]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: SparkSession) -> Path:
    """An empty folder to work in, with a lakelog.toml that puts the lake beside it."""
    (tmp_path / "lakelog.toml").write_text('root = "./lake"\n')
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_log_that_is_followed_is_shown_up_to_the_limit(
    here: Path, spark: SparkSession, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits for the third record, which comes with a fourth; the next position lies between them."""
    topic = Lake(spark, str(here / "lake")).create_topic("t", key="STRING", value="INT")
    topic.append([{"key": "a", "value": 1}, {"key": "b", "value": 2}])
    waited: list[float] = []

    def goes_on(seconds: float) -> None:
        waited.append(seconds)
        topic.append([{"key": "c", "tombstone": True}, {"key": "d", "value": 4}])

    with monkeypatch.context() as patch:
        patch.setattr(read, "time", SimpleNamespace(sleep=goes_on))
        answer = cli("read t --since start --follow --limit 3 --format json")
    records = [json.loads(line) for line in answer.out.splitlines()]
    assert (answer.code, waited) == (0, [WAIT])
    assert [(one["key"], one["value"], one.get("tombstone")) for one in records] == [("a", 1, None), ("b", 2, None), ("c", None, True)]
    told = re.fullmatch(r"next: (\{.*\})\n", answer.err)
    assert told is not None and json.loads(told[1])["offsets"] == {"0": 3}
    rest = cli(["read", "t", "--since", told[1], "--format", "json"])
    assert [json.loads(line)["key"] for line in rest.out.splitlines()] == ["d"]


@pytest.mark.long
def test_what_was_confirmed_is_done_whatever_is_the_latest_snapshot_by_then(
    here: Path, spark: SparkSession, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While each question waits for its answer, records are merged and a snapshot of somebody else becomes the latest."""
    topic = Lake(spark, str(here / "lake")).create_topic("t", key="STRING", value="INT")

    def later(name: str) -> None:
        topic.append([{"key": name, "value": 1}])
        topic.merge()
        topic.snapshot(name)

    later("one")
    asked: list[str] = []

    def confirm(call: Call, what: str) -> None:
        asked.append(what)
        later(f"beside{len(asked)}")

    monkeypatch.setattr(Call, "confirm", confirm)
    monkeypatch.setattr(Call, "asks", True)
    assert cli("truncate t --to-snapshot latest").code == 0
    assert topic.start().offsets == {0: 1}
    assert cli("snapshot delete t latest").code == 0
    assert {one.name for one in topic.snapshots()} == {"one", "beside2"}
    assert cli("restore t --to latest").code == 0
    assert topic.ends() == {0: 3}
    # Of a snapshot without a name, which somebody names meanwhile: the name stays.
    topic.append([{"key": "last", "value": 1}])
    unnamed = topic.snapshot()
    monkeypatch.setattr(Call, "confirm", lambda call, what: topic.snapshot("kept"))
    assert cli(f"snapshot delete t {unnamed.id}").code == 0
    assert [one.name for one in topic.snapshots() if one.id == unnamed.id] == ["kept"]
    assert asked[0].startswith("Remove the records of t below the snapshot one")
    assert [one.partition(" of t")[0] for one in asked[1:]] == ["Delete the snapshot beside1", "Restore t to 0@3"]


@pytest.mark.long
def test_every_topic_is_taken_and_brought_back_under_one_name(here: Path, spark: SparkSession, cli: Cli) -> None:
    lake, names = Lake(spark, str(here / "lake")), ("orders", "payments")
    for name in names:
        lake.create_topic(name, key="STRING", value="STRING").append([{"key": "a", "value": "1"}])
    lines = cli("snapshot create --all --name friday --keep '90 days'").out.splitlines()
    assert [line.partition(", kept until ")[0] for line in lines] == [
        f"{name}: took snapshot friday (0@1), silver version 1" for name in names
    ]
    for name in names:
        lake.topic(name).append([{"key": "a", "value": "2"}, {"key": "b", "value": "1"}])
        lake.topic(name).merge()
    before = [versions(lake.root, name) for name in names]

    planned = "".join(
        f"{name}: would restore to friday (0@1), silver version 1; log cut, epoch 1\n"
        "  keys: 0 will come back, 1 will change, 1 will go\n"
        "  2 records would leave the log for quarantine: offsets [1, 3) of partition 0\n"
        for name in names
    )
    assert cli("restore --all --to friday --dry-run") == Answer(0, planned, "")
    refused = cli("restore --all --to friday")
    assert (refused.code, refused.out, refused.err.startswith(planned), "Give --yes" in refused.err) == (2, "", True, True)
    assert [versions(lake.root, name) for name in names] == before

    done = "".join(
        f"{name}: restored to friday (0@1), silver version 1; log cut, epoch 1\n"
        "  left the log for quarantine: offsets [1, 3) of partition 0\n"
        for name in names
    )
    assert cli("restore --all --to friday --yes") == Answer(0, done, "")
    for name in names:
        assert [tuple(row)[:2] for row in lake.topic(name).latest().collect()] == [("a", "1")]
    before = [versions(lake.root, name) for name in names]
    again = "".join(f"{name}: is at friday (0@1) already, nothing was done\n" for name in names)
    assert cli("restore --all --to friday --yes") == Answer(0, again, "")
    taken = cli("snapshot create --all --name friday")
    assert (taken.code, taken.out) == (4, "") and taken.err.startswith("Error (SNAPSHOT_EXISTS): ")
    assert [versions(lake.root, name) for name in names] == before
