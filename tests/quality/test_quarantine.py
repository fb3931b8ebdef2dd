"""The quarantine as a table: chosen by time, mended by a file, dropped with a reason; what it takes and what it does not."""

from __future__ import annotations

import datetime
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakelog import InvalidRequest
from tests.conftest import NOON, Answer, Clock
from tests.quality.folders import rows, write
from tests.tables import write as lines

if TYPE_CHECKING:
    from lakelog import Lake, Topic

DAY = 86_400_000


def gated(lake: Lake, folder: Path, **config: Any) -> Topic:
    suites = write(folder / "suites", "t", append=[rows("positive", "_tombstone OR n > 0")])
    config |= {"quality.suites": suites, "quality.on.failure": "quarantine"}
    return lake.create_topic("t", key="STRING", value="n INT, text STRING", config=config)


def record(key: str, n: int, text: str = "x") -> dict[str, Any]:
    return {"key": key, "value": {"n": n, "text": text}}


def at(ms: int) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(ms / 1000, datetime.timezone.utc)


@pytest.fixture
def answer(lake: Lake, cli: Callable[..., Answer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Answer]:
    """The command line over the test's lake and clock."""
    monkeypatch.setattr("lakelog.terminal.settings.Settings.open_lake", lambda self: lake)
    monkeypatch.setenv("LAKELOG_ROOT", lake.root)
    monkeypatch.chdir(tmp_path)
    return cli


@pytest.mark.long
def test_records_are_listed_by_the_time_at_which_they_were_put_there(
    lake: Lake, tmp_path: Path, clock: Clock, answer: Callable[[str], Answer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """From ``since`` on, up to and without ``until``, to the millisecond; in any zone."""
    topic = gated(lake, tmp_path)
    for day in range(3):
        topic.append([record(f"day-{day}", -day)])
        clock.tick(DAY)
    first, second, third = (NOON + day * DAY for day in range(3))

    def keys(**bounds: datetime.datetime) -> list[str]:
        return sorted(row["key"] for row in topic.quarantined(**bounds).select("key").collect())

    assert keys() == keys(since=at(first)) == keys(until=at(third + 1)) == ["day-0", "day-1", "day-2"]
    assert keys(since=at(second)) == ["day-1", "day-2"]
    assert keys(since=at(second + 1)) == ["day-2"]
    assert keys(until=at(second)) == ["day-0"]
    assert keys(since=at(second), until=at(third)) == ["day-1"]
    assert keys(since=at(third), until=at(second)) == []
    there = at(second).astimezone(datetime.timezone(datetime.timedelta(hours=-5)))
    assert keys(since=there, until=there + datetime.timedelta(milliseconds=1)) == ["day-1"]
    with monkeypatch.context() as patched:
        patched.setenv("TZ", "America/New_York")
        time.tzset()
        naive = at(second).replace(tzinfo=None)
        assert keys(since=naive, until=naive + datetime.timedelta(milliseconds=1)) == ["day-1"], "one without a zone is in UTC"
    time.tzset()

    def told(bounds: str) -> list[str]:
        found = answer(f"quarantine list t --format json {bounds}")
        assert found.code == 0, found.err
        return [json.loads(line)["key"] for line in found.out.splitlines()]

    assert told("--since 2023-11-15T22:13:20Z") == ["day-1", "day-2"]
    assert told("--since 2023-11-15T17:13:20-05:00 --until 2023-11-16T22:13:20Z") == ["day-1"]
    assert told("--until 2023-11-15") == ["day-0"]
    assert told("--since 2033-01-01") == []
    for wrong in ("--since yesterday", "--until 5"):
        assert (answer(f"quarantine list t {wrong}").code, "is no time like" in answer(f"quarantine list t {wrong}").err) == (2, True)


@pytest.mark.long
def test_a_corrected_file_stands_in_the_place_of_the_chosen_records(
    lake: Lake, tmp_path: Path, clock: Clock, answer: Callable[[str], Answer]
) -> None:
    """From Python and on the command line: one record for each, in the order of the list; the file is recorded."""
    topic = gated(lake, tmp_path)
    topic.append([record("a", -1), record("b", 2), record("c", -3), {"key": "d", "value": {"n": "many"}}])
    clock.tick(1)
    topic.append([record("e", -5)])

    def file(name: str, *records: dict[str, Any]) -> str:
        return lines(tmp_path / f"{name}.ndjson", *map(json.dumps, records))

    for named, code, says in (
        (file("few", record("a", 1), record("c", 3)), 2, "2 corrected records for 3 chosen ones: give one for each"),
        (file("bad", record("a", 1), record("c", 0), record("e", 5)), 3, "positive (1 of 3 break it) failed"),
        (file("none", record("a", 1), {"key": None, "value": None}, record("e", 5)), 2, "line 2"),
        (str(tmp_path / "missing.ndjson"), 5, "missing.ndjson"),
    ):
        refused = answer(f"quarantine requeue t --rule positive --corrected {named}")
        assert (refused.code, says in refused.err) == (code, True), refused.err
    with pytest.raises(InvalidRequest, match="2 corrected records for 3 chosen ones"):
        topic.requeue(rule="positive", corrected=str(tmp_path / "few.ndjson"))
    assert (topic.ends(), topic.quarantined().count()) == ({0: 1}, 4)
    mended = file("all", record("a", 1, "first"), record("c", 3), record("e", 5))
    assert topic.requeue(rule="positive", corrected=mended).offsets == {0: (1, 4)}
    done = answer(f"quarantine requeue t --corrected {file('d', record('d', 4))}")
    assert (done.code, done.out) == (0, "t: requeued 1 record: offsets [4, 5) of partition 0\n"), done.err
    topic.merge()
    assert {row["key"]: (row["n"], row["text"]) for row in topic.latest().collect()} == {
        "a": (1, "first"), "b": (2, "x"), "c": (3, "x"), "d": (4, "x"), "e": (5, "x"),
    }  # fmt: skip
    notes = [row["note"] for row in topic.quarantined(closed=True).select("note").collect()]
    assert sorted(notes) == sorted([f"corrected by {mended}"] * 3 + [f"corrected by {tmp_path / 'd.ndjson'}"])


def test_a_drop_takes_a_reason(lake: Lake, tmp_path: Path, answer: Callable[[str], Answer]) -> None:
    topic = gated(lake, tmp_path)
    topic.append([record("a", -1)])
    for reason in ("", " \t"):
        for dry_run in (False, True):
            with pytest.raises(InvalidRequest, match="to drop records takes a reason, which is recorded"):
                topic.drop(reason, dry_run=dry_run)
    told = answer("quarantine drop t --reason '' --yes")
    assert (told.code, "takes a reason, which is recorded" in told.err) == (2, True)
    assert answer("quarantine drop t --yes").code == 2
    assert (topic.quarantined().count(), topic.quarantined(closed=True).count()) == (1, 0)


def test_a_record_that_is_too_large_is_put_aside(lake: Lake, tmp_path: Path) -> None:
    """As every invariant, and whole: it can be mended."""
    topic = gated(lake, tmp_path, **{"max.message.bytes": 300})
    done = topic.append([record("a", 1), record("b", 2, "x" * 400), record("c", -3, "x" * 400), record("d", 4)])
    assert (done.records, done.quarantined) == (2, 2)
    found = {row["key"]: row for row in topic.quarantined().collect()}
    assert {key: (row["rules"], row["reason"].split(":")[0], len(row["value"]["text"]), row["raw"]) for key, row in found.items()} == {
        "b": (["MESSAGE_TOO_LARGE"], "MESSAGE_TOO_LARGE", 400, None),
        "c": (["MESSAGE_TOO_LARGE"], "MESSAGE_TOO_LARGE", 400, None),
    }
    assert topic.requeue(rule="MESSAGE_TOO_LARGE", fix={"text": "left(text, 10)", "n": "abs(n)"}).records == 2
    topic.merge()
    assert {row["key"]: (row["n"], len(row["text"])) for row in topic.latest().collect()} == {
        "a": (1, 1), "b": (2, 10), "c": (3, 10), "d": (4, 1),
    }  # fmt: skip
