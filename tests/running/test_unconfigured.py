"""A run that finds no sources where there were some does not end well without a word."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from jobs import run
from lakelog import InvalidConfig, Lake
from lakelog.errors import NotFound
from lakelog.log import ledger
from lakelog.running import steps
from lakelog.sources import unconfigured
from lakelog.sources.configured import Lookup
from lakelog.terminal.settings import load
from tests.conftest import Answer
from tests.sources.test_sources import write


def test_what_was_looked_for_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    toml = tmp_path / "lakelog.toml"
    monkeypatch.chdir(tmp_path)
    nothing = load(environment={}).lookup("orders")
    assert (nothing.file, nothing.missing) == (
        None,
        f"no lakelog.toml was found in {tmp_path} or above: run where it is, or name it with --config.",
    )
    toml.write_text('root = "./lake"\n[topics.oders]\nsources = ["./in"]\n[topics.empty]\n')
    settings = load(environment={})
    mistyped = settings.lookup("orders")
    assert (mistyped.file, mistyped.missing) == (str(toml), f"{toml} was read, and has no [topics.orders]. Did you mean oders?")
    assert [settings.lookup(name).missing for name in ("oders", "empty")] == [None, None], "that there are none is said"

    lake: Any = SimpleNamespace(topics=lambda: ["empty", "orders"])
    assert settings.unknown_topics(lake) == [f"{toml}: there is no topic oders in {tmp_path}/lake. Did you mean orders?"]

    def missing() -> list[str]:
        raise NotFound("not a lake")

    assert settings.unknown_topics(SimpleNamespace(topics=missing)) == []  # type: ignore[arg-type]
    toml.write_text('root = "./lake"\n')
    assert load(environment={}).unknown_topics(None) == []  # type: ignore[arg-type]


def test_what_was_taken_before_is_named() -> None:
    unconfigured.refuse("orders", [], "no lakelog.toml was found in /x or above.")
    taken = ["directory /in", "kafka a", "kafka b", "kafka c"]
    with pytest.raises(
        InvalidConfig, match=r"directory /in, kafka a, kafka b and 1 more\. no lakelog\.toml was found in /x or above\. "
    ) as refused:
        unconfigured.refuse("orders", taken, "no lakelog.toml was found in /x or above.")
    assert refused.value.details["taken"] == taken


@pytest.mark.parametrize(
    ("known", "mirror", "named"),
    [
        (["stream 12"], None, None),
        (["directory /in", "stream 12"], None, "directory /in"),
        ([], "kafka orders", "kafka orders"),
        ([], None, None),
    ],
)
def test_the_first_step_asks_the_log(monkeypatch: pytest.MonkeyPatch, known: list[str], mirror: str | None, named: str | None) -> None:
    tail = SimpleNamespace(state=SimpleNamespace(mirror=mirror))
    monkeypatch.setattr(unconfigured, "log_end", lambda log: SimpleNamespace(tails={0: tail}))
    monkeypatch.setattr(ledger, "sources", lambda log: known)
    topic: Any = SimpleNamespace(name="orders", log=None)

    def append(lookup: Lookup) -> str:
        return steps.append(steps.Work(topic, (), lookup), lambda done, total: None).outcome

    assert append(Lookup("/etc/lakelog.toml")) == "skipped"
    missed = Lookup(None, "no lakelog.toml was found in /x or above.")
    if named is None:
        assert append(missed) == "skipped"
        return
    with pytest.raises(InvalidConfig, match=f"filled by some: {named}. no lakelog.toml was found"):
        append(missed)


@pytest.mark.long
def test_a_run_without_the_sources_of_before_is_refused(
    lake: Lake, cli: Callable[..., Answer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lake.create_topic("orders", key="STRING", value="STRING")
    toml, elsewhere = tmp_path / "lakelog.toml", tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    toml.write_text('root = "./lake"\n[topics.orders]\nsources = ["./in"]\n')
    write(tmp_path / "in", "a.ndjson", "a")
    taken = json.loads(cli("run orders --json --quiet").out)
    assert (taken["exit_code"], taken["counts"]["files"], taken["config"]) == (0, 1, str(toml))

    # The table has another name.
    toml.write_text('root = "./lake"\n[topics.oders]\nsources = ["./in"]\n')
    answer = cli("run orders --json --quiet")
    said = json.loads(answer.out)
    assert (answer.code, said["error"]["error"], [one["outcome"] for one in said["steps"]]) == (2, "INVALID_CONFIG", ["failed"])
    for part in (f"directory {tmp_path}/in", f"{toml} was read", "Did you mean oders?", "sources = []"):
        assert part in said["error"]["message"], part
    assert f"Warning: {toml}: there is no topic oders in {lake.root}. Did you mean orders?" in answer.err

    # There is no file.
    toml.unlink()
    assert run.main(["--topic", "orders", "--root", lake.root]) == 2
    captured = capsys.readouterr()
    said = json.loads(captured.out)
    assert f"no lakelog.toml was found in {elsewhere} or above" in said["error"]["message"] and said["config"] is None

    # There are none, and that is said.
    toml.write_text('root = "./lake"\n[topics.orders]\nsources = []\n')
    assert run.main(["--topic", "orders"]) == 0
