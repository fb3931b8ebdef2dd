"""Expectations on the command line: exit codes, what `--json` answers, a merge that is accepted, the page and the status of verdicts."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakelog import Lake, Topic
from tests.conftest import NOON, Answer, Clock
from tests.quality.folders import figure, rows, write
from tests.tables import versions
from tests.tables import write as lines

Cli = Callable[..., Answer]
POSITIVE = rows("positive", "_tombstone OR value > 0")


@pytest.fixture
def orders(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Topic:
    """A gated topic of two rows, in the lake that the current folder's lakelog.toml names."""
    (tmp_path / "lakelog.toml").write_text('root = "./lake"\n')
    monkeypatch.chdir(tmp_path)
    doors: dict[str, Any] = {
        "append": [POSITIVE], "merge": [figure("few_deletes", "deleted_share", max_value=0.5)], "table": [rows("small", "_tombstone OR value < 9")],
    }  # fmt: skip
    suites = write(tmp_path / "suites", "orders", **doors)
    topic = Lake(spark, str(tmp_path / "lake"), clock=Clock(NOON)).create_topic(
        "orders", key="STRING", value="INT", config={"quality.suites": suites}
    )
    topic.append([{"key": "a", "value": 1}, {"key": "b", "value": 2}])
    topic.merge()
    return topic


@pytest.mark.long
def test_what_a_gate_refuses_exits_with_3_and_is_told_as_json(orders: Topic, cli: Cli, tmp_path: Path) -> None:
    before = versions(orders.log.root, "orders")
    bad = lines(tmp_path / "bad.ndjson", '{"key": "c", "value": 3}', '{"key": "d", "value": -4}')
    refused = cli(f"append orders {bad} --json")
    told = json.loads(refused.out)
    assert (refused.code, told["error"], told["rules"], told["records"], told["retry"]) == (3, "GATE_FAILED", ["positive"], [1], False)
    assert told["run"] == orders.verdicts(door="append", limit=1)[0].run
    plain = cli(f"append orders {bad}")
    assert (plain.code, plain.out) == (3, "")
    assert plain.err.startswith("Error (GATE_FAILED): orders: nothing of the batch was written: positive (1 of 2 break it) failed. ")
    write(tmp_path / "suites", "orders", append=[rows("positive", "_tombstone OR valeu > 0", "warning")])
    broken = json.loads(cli(f"append orders {bad} --json").out)
    assert (broken["error"], broken["outcome"], broken["rules"]) == ("GATE_BROKEN", "broken", ["positive"])
    assert versions(orders.log.root, "orders") == before


@pytest.mark.long
def test_a_merge_that_was_refused_is_accepted_by_its_run(orders: Topic, cli: Cli) -> None:
    orders.append([{"key": key, "tombstone": True} for key in "ab"])
    before = versions(orders.log.root, "orders")
    refused = cli("merge orders --json")
    told = json.loads(refused.out)
    assert (refused.code, told["error"], told["rules"], told["keys"]) == (3, "GATE_FAILED", ["few_deletes"], ["a", "b"])
    assert f"`lakelog merge orders --accept {told['run']} --reason …`" in told["message"]
    for wrong in (f"--accept {told['run']}", f"--accept {told['run']} --reason ' '"):
        answer = cli(f"merge orders {wrong}")
        assert (answer.code, "takes a --reason, which is recorded" in answer.err) == (2, True)
    unknown = cli("merge orders --accept nothing --reason x --json")
    assert (unknown.code, json.loads(unknown.out)["error"]) == (5, "RUN_NOT_FOUND")
    assert versions(orders.log.root, "orders") == before
    accepted = cli(f"merge orders --accept {told['run'][:8]} --reason 'the shop closed'")
    assert (accepted.code, accepted.out) == (0, "orders: merged 2 records into version 2: 0 inserted, 0 updated, 2 deleted\n"), accepted.err
    verdict = next(one for one in orders.verdicts(door="merge") if one.outcome == "accepted")
    assert (verdict.accepts, verdict.reason) == (told["run"], "the shop closed")


@pytest.mark.long
def test_an_audit_answers_with_its_verdict_and_leaves_a_page_and_a_line_of_status(orders: Topic, cli: Cli, tmp_path: Path) -> None:
    page = tmp_path / "verdicts.html"
    good = cli(f"check orders --page {page} --json")
    assert (good.code, json.loads(good.out)["outcome"]) == (0, "passed"), good.err
    orders.append([{"key": "c", "value": 30}])
    orders.merge()
    bad = cli("check orders --json")
    told = json.loads(bad.out)
    assert (bad.code, told["outcome"], told["version"]) == (3, "failed", 2)
    assert [(one["rule"], one["failing"]) for one in told["findings"] if one["outcome"] == "failed"] == [("small", 1)]
    plain = cli(f"check orders --page {page}")
    assert plain.code == 3
    first, *rules = plain.out.splitlines()
    assert first.startswith("orders: failed: 4 of 5 rules passed, audit of version 2, run ")
    assert rules == ["  failed (critical) small: small: 1 of 3 break it"]
    text = page.read_text(encoding="utf-8")
    assert [run in text for run in (told["run"], json.loads(good.out)["run"], first.split()[-1])] == [True] * 3
    nowhere = cli(f"check orders --page {tmp_path}/nowhere/v.html")
    assert (nowhere.code, "cannot be written" in nowhere.err) == (2, True)
    status = cli("status orders")
    line = "orders: the last verdict, at the door table (version 2), is failed; the latest table was last good at version 1."
    assert (status.code, line in status.out.splitlines()) == (0, True), status.out
    said = json.loads(cli("status orders --json").out)["topics"][0]
    assert (said["last_verdict"]["outcome"], said["last_verdict"]["door"], said["good_version"]) == ("failed", "table", 1)
    write(tmp_path / "suites", "orders", table=[rows("small", "valeu < 9")])
    broken = cli("check orders --json")
    assert (broken.code, json.loads(broken.out)["outcome"]) == (3, "broken")
