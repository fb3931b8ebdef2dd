"""A commit log passes over nothing: what it cannot read any more is refused, again and again, and it appends nothing on top of what it missed."""

from __future__ import annotations

import pytest

from lakelog import CommitLog, ExpectedOffsetMismatch, FencedEpoch, InvalidRequest, Lake, OffsetOutOfRange
from tests.conftest import Clock
from tests.tables import versions

DAY = 86_400_000


def records(*keys: str, **more: object) -> list[dict[str, object]]:
    return [{"key": key, "value": "1", **more} for key in keys]


@pytest.mark.long
def test_what_the_log_no_longer_tells_is_refused_and_stays_so(lake: Lake) -> None:
    """It was truncated beyond the position; what another partition lost is nothing to it."""
    topic = lake.create_topic("t", key="STRING", value="STRING", partitions=2)
    log, other = CommitLog(topic), CommitLog(topic, 1)
    assert log.bootstrap().count() == other.bootstrap().count() == 0
    topic.append(records("a", "b", "c", partition=0))
    topic.snapshot("s")
    topic.truncate("s")
    before = versions(lake.root, "t")
    for _ in range(2):
        with pytest.raises(OffsetOutOfRange, match="holds offsets"):
            log.catch_up()
        assert log.position == 0
    with pytest.raises(ExpectedOffsetMismatch):
        log.append(records("d"))
    assert (versions(lake.root, "t"), log.position) == (before, 0)
    assert log.bootstrap().count() == 0
    assert log.append(records("d")).offsets == {0: (3, 4)}
    assert (other.catch_up().count(), other.append(records("e")).offsets) == (0, {1: (0, 1)})


@pytest.mark.long
def test_a_delete_that_has_expired_is_not_passed_over(lake: Lake, clock: Clock) -> None:
    topic = lake.create_topic("t", key="STRING", value="STRING", config={"min.cleanable.dirty.ratio": 0, "delete.retention.ms": DAY})
    topic.append(records("k"))
    log = CommitLog(topic)
    assert [row["key"] for row in log.bootstrap().collect()] == ["k"]
    topic.append([{"key": "k", "value": None}])
    topic.roll()
    topic.append(records("z"))
    topic.clean(force=True)
    clock.tick(2 * DAY)
    topic.clean(force=True)
    for _ in range(2):
        with pytest.raises(OffsetOutOfRange, match="deletes below"):
            log.catch_up()
    assert log.position == 1
    assert [row["key"] for row in log.bootstrap().collect()] == ["z"]


def test_nothing_is_appended_once_expected_offsets_are_no_longer_checked(lake: Lake) -> None:
    topic = lake.create_topic("t", key="STRING", value="STRING")
    log = CommitLog(topic)
    assert log.bootstrap().count() == 0
    other = lake.topic("t")
    other.append(records("missed"))
    for setting in ({"check.expected.offsets": False}, {"check.expected.offsets": None, "check.expected.offsets.scope": "key"}):
        other.configure(setting)
        before = versions(lake.root, "t")
        with pytest.raises(InvalidRequest, match=r"check\.expected\.offsets"):
            log.append(records("mine"))
        assert (versions(lake.root, "t"), log.position) == (before, 0)
    other.configure({"check.expected.offsets.scope": None})
    assert [row["key"] for row in log.catch_up().collect()] == ["missed"]
    assert log.append(records("mine")).offsets == {0: (1, 2)}


def test_another_topic_of_the_name_is_not_the_one_that_was_read(lake: Lake) -> None:
    """It may end at the same offset, in the same epoch."""
    topic = lake.create_topic("t", key="STRING", value="STRING")
    topic.append(records("a"))
    log = CommitLog(topic)
    assert log.bootstrap().count() == 1
    other = Lake(lake.spark, lake.root, clock=lake.clock)
    other.delete_topic("t")
    other.create_topic("t", key="STRING", value="STRING").append(records("x"))
    before = versions(lake.root, "t")
    for verb in (log.catch_up, lambda: log.append(records("b"))):
        with pytest.raises(FencedEpoch, match="deleted and made anew since it was read"):
            verb()
    assert (versions(lake.root, "t"), log.position) == (before, 1)
    assert [row["key"] for row in log.bootstrap().collect()] == ["x"]
    assert log.append(records("b")).offsets == {0: (1, 2)}


def test_what_is_no_partition_and_no_records_is_refused(lake: Lake) -> None:
    topic = lake.create_topic("t", key="STRING", value="STRING")
    for partition in ("0", None, 1, 0.5, True):
        with pytest.raises(InvalidRequest, match="there is no partition"):
            CommitLog(topic, partition)  # type: ignore[arg-type]
    log = CommitLog(topic)
    log.bootstrap()
    for wrong in ([5], 5, ["key"], {"key": "a"}):
        with pytest.raises(InvalidRequest, match="a list of records"):
            log.append(wrong)  # type: ignore[arg-type]
