"""Commits that are in a table although what was said of them was an error: whoever made one finds it there, and writes nothing a second time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakelog.delta import tables
from lakelog.errors import OUTCOME_UNKNOWN, Conflict, Damaged, NotReady
from lakelog.log import guard
from tests.quality.folders import rows, write

if TYPE_CHECKING:
    from lakelog import Lake, Topic

POSITIVE = rows("positive", "_tombstone OR value > 0")
# What Spark says where the connection breaks, as a defect and as an error that has a meaning to lakelog's users.
RAW, OURS = RuntimeError("Connection reset"), RuntimeError("java.net.UnknownHostException: bucket.example: Name or service not known")


def lose(patch: pytest.MonkeyPatch, error: Exception, owner: Any = guard, name: str = "_appended", *, unreadable: bool = False) -> None:
    """The answer to the next commit is lost; with ``unreadable`` the log cannot be read from then on."""
    function = getattr(owner, name)

    def unread(*_: Any) -> Any:
        raise OURS

    def answered(*given: Any, **more: Any) -> Any:
        patch.setattr(owner, name, function)
        function(*given, **more)
        if unreadable:
            patch.setattr(guard, "log_rows", unread)
        raise error

    patch.setattr(owner, name, answered)


def gated(lake: Lake, folder: Path, failure: str) -> Topic:
    suites = write(folder / failure, failure, append=[POSITIVE])
    return lake.create_topic(failure, key="STRING", value="INT", config={"quality.suites": suites, "quality.on.failure": failure})


def some(**values: int) -> list[dict[str, Any]]:
    return [{"key": key, "value": value} for key, value in values.items()]


def aside(topic: Topic) -> list[str]:
    return sorted(row["key"] for row in topic.quarantined().collect())


@pytest.mark.parametrize("error", [RAW, OURS])
def test_an_append_whose_answer_was_lost_is_written_once(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """Without a gate; behind one that leaves its rules to the write, which an error would make it try again."""
    plain = lake.create_topic("plain", key="STRING", value="INT")
    lose(monkeypatch, error)
    done = plain.append(some(a=1, b=2))
    assert (done.offsets, done.version, done.repeated) == ({0: (0, 2)}, 1, False)
    topic = gated(lake, tmp_path, "refuse")
    lose(monkeypatch, error)
    done = topic.append(some(a=1, b=2))
    assert (done.offsets, done.version, done.run is not None) == ({0: (0, 2)}, 1, True)
    assert (topic.ends(), topic.verify().problems) == ({0: 2}, [])


@pytest.mark.parametrize("error", [RAW, pytest.param(OURS, marks=pytest.mark.long)])
def test_what_is_put_aside_stays_where_the_answer_was_lost(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """Of a batch of which nothing was let in its token, or its mark, is all that the log holds."""
    topic = gated(lake, tmp_path, "quarantine")
    for token, batch, end in (("day", some(bad=-1), 0), (None, some(worse=-2), 0), (None, some(good=1, worst=-3), 1)):
        lose(monkeypatch, error)
        done = topic.append(batch, token=token)
        assert (done.quarantined, done.repeated, topic.ends()) == (1, False, {0: end})
    again = topic.append(some(bad=-1), token="day")
    assert (again.quarantined, again.repeated, again.offsets) == (1, True, {})
    assert aside(topic) == ["bad", "worse", "worst"]


def test_where_nobody_can_look_the_append_says_so_and_changes_nothing_more(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is neither tried again nor is what was put aside taken back: under its token a repeat gets the first answer."""
    refusing, splitting = gated(lake, tmp_path, "refuse"), gated(lake, tmp_path, "quarantine")
    for topic, batch in ((refusing, some(a=1)), (splitting, some(bad=-1))):
        with (
            monkeypatch.context() as patched,
            pytest.raises(Damaged, match=r"failed \(Connection reset\), and whether .* there is no host") as error,
        ):
            lose(patched, RAW, unreadable=True)
            topic.append(batch, token=None if topic is refusing else "day")
        assert error.value.name == OUTCOME_UNKNOWN
        assert topic.log.spark.read.table(topic.log.table.sql()).filter(f"batch = '{error.value.details['batch']}'").count()
    assert (refusing.ends(), aside(splitting)) == ({0: 1}, ["bad"])
    again = splitting.append(some(bad=-1), token="day")
    assert (again.quarantined, again.repeated, aside(splitting)) == (1, True, ["bad"])


def test_records_are_put_aside_once_where_the_answer_to_that_was_lost(lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commit met itself when it was tried again: the append goes on. Another failure refuses it, and then nothing is put aside."""
    topic = gated(lake, tmp_path, "quarantine")
    lose(monkeypatch, Conflict("another writer committed first"), tables, "merge")
    assert (topic.append(some(good=1, bad=-1)).quarantined, aside(topic)) == (1, ["bad"])
    lose(monkeypatch, NotReady("there is no host"), tables, "merge")
    with pytest.raises(NotReady):
        topic.append(some(worse=-2))
    assert (aside(topic), topic.ends()) == (["bad"], {0: 1})


@pytest.mark.long
def test_a_requeue_whose_append_failed_after_its_commit_tells_what_was_written(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = gated(lake, tmp_path, "quarantine")
    topic.append(some(bad=-1))
    lose(monkeypatch, RAW, type(topic), "_append")
    done = topic.requeue(fix={"value": "abs(value)"})
    assert (done.records, done.offsets, aside(topic)) == (1, {0: (0, 1)}, [])
    assert [row["note"] for row in topic.quarantined(closed=True).collect()] == ["value = abs(value)"]
    assert (topic.requeue().records, topic.ends()) == (0, {0: 1})
