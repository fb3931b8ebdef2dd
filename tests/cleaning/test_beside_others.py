"""A clean or a removal of records that was decided for a log, a latest table or a rule that another writer has changed since."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lakelog.cleaning import clean, retention
from lakelog.errors import Conflict
from lakelog.log import state
from tests.interleaving import late

if TYPE_CHECKING:
    from lakelog import Lake, Topic
    from tests.conftest import Clock

DAY = 86_400_000
AT_ONCE = {"min.cleanable.dirty.ratio": 0}
# As many octets as a segment has at least.
LONG = "12345678901234"


def put(topic: Topic, *keys: str) -> None:
    topic.append([{"key": key, "value": LONG} for key in keys])


def restored(lake: Lake, to: Any, *keys: str) -> None:
    """The log taken back by another writer, and records appended to it."""
    other = lake.topic("t")
    other.restore(to)
    put(other, *keys)


def log_of(topic: Topic) -> list[tuple[str, int]]:
    return [(row["key"], row["offset"]) for row in topic.read().orderBy("offset").collect()]


def keys_of(topic: Topic) -> set[str]:
    return {row["key"] for row in topic.latest().collect()}


@pytest.mark.soak
@pytest.mark.parametrize("verb", ["delete_records", "retention"])
def test_a_log_start_is_not_given_to_a_log_that_was_restored_since(
    lake: Lake, clock: Clock, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    """The offset lies beyond the end of the restored log, and what lies below it are records of another epoch that nothing has merged."""
    topic = lake.create_topic("t", key="STRING", value="STRING", config={"cleanup.policy": "compact,delete", "retention.ms": str(DAY)})
    put(topic, "a", "b")
    early = topic.merge().version
    put(topic, *"cdefgh")
    topic.merge()
    topic.roll()
    clock.tick(2 * DAY)
    late(monkeypatch, retention, "move", lambda: restored(lake, early, "x", "y"))
    with pytest.raises(Conflict, match="changed meanwhile"):
        topic.delete_records(0, -1) if verb == "delete_records" else topic.clean()
    topic = lake.topic("t")
    assert (topic.start().offsets, topic.ends()) == ({0: 0}, {0: 4})
    assert log_of(topic) == [("a", 0), ("b", 1), ("x", 2), ("y", 3)]
    topic.merge()
    assert keys_of(topic) == {"a", "b", "x", "y"}


@pytest.mark.soak
def test_after_retention_has_moved_the_log_start_the_clean_takes_a_restored_log_for_what_it_is(
    lake: Lake, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The records that were appended since the restore lie below the offset up to which the latest table was merged before it."""
    config = {**AT_ONCE, "cleanup.policy": "compact,delete", "retention.ms": str(DAY), "segment.bytes": 14}
    topic = lake.create_topic("t", key="STRING", value="STRING", config=config)
    put(topic, "a")
    clock.tick(2 * DAY)
    put(topic, "b")
    early = topic.merge().version
    for key in "ccc":
        put(topic, key)
    move = retention.move

    def overtaken(*given: Any, **more: Any) -> int:
        gone = move(*given, **more)
        restored(lake, early, "x")
        put(lake.topic("t"), "y")
        return gone

    monkeypatch.setattr(retention, "move", overtaken)
    topic.clean(force=True)
    topic = lake.topic("t")
    assert log_of(topic) == [("b", 1), ("x", 2), ("y", 3)]
    topic.merge()
    assert keys_of(topic) == {"a", "b", "x", "y"}


@pytest.mark.soak
def test_a_state_that_another_writer_put_after_the_announcement_stops_the_rewrite(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = lake.create_topic("t", key="STRING", value="STRING", config={**AT_ONCE, "segment.bytes": 14})
    put(topic, "a")
    topic.merge()
    topic.snapshot("s")
    for key in "aab":
        put(topic, key)
    change = state.change_state

    def overtaken(log: Any, end: Any, states: Any, kind: str, **more: Any) -> bool:
        done = change(log, end, states, kind, **more)
        if kind == "clean":
            monkeypatch.setattr(state, "change_state", change)
            restored(lake, "s", "x")
        return done

    monkeypatch.setattr(state, "change_state", overtaken)
    done = topic.clean(force=True)
    assert "state was changed" in str(done.partitions[0].error)
    topic = lake.topic("t")
    assert log_of(topic) == [("a", 0), ("x", 1)]
    topic.merge()
    assert (keys_of(topic), topic.verify().problems) == ({"a", "x"}, [])


@pytest.mark.soak
@pytest.mark.parametrize("where", ["carry_out", "_announce"])
def test_a_clean_that_was_planned_under_another_rule_removes_nothing(lake: Lake, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    """The records that it would keep are the latest under the earlier rule."""
    topic = lake.create_topic("t", key="STRING", value="STRING", config=AT_ONCE)
    topic.append([{"key": "a", "value": "new", "timestamp": 2}, {"key": "a", "value": "old", "timestamp": 1}])
    topic.roll()

    def other() -> None:
        topic = lake.topic("t")
        topic.configure({"compaction.strategy": "timestamp"})
        topic.merge(rebuild=True)

    late(monkeypatch, clean, where, other)
    with pytest.raises(Conflict, match="rule"):
        topic.clean(force=True)
    topic = lake.topic("t")
    assert log_of(topic) == [("a", 0), ("a", 1)]
    assert topic.clean(force=True).records == 1
    assert log_of(topic) == [("a", 0)]
    assert topic.verify().problems == []
