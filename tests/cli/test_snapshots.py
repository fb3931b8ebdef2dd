"""A log that is followed, as typed at the command line."""

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
from tests.conftest import Answer

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
