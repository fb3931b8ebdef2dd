"""An erasure in a catalog schema: copies of snapshots are found there by their names, those that nothing enters in the registry too."""

from __future__ import annotations

import pytest

from lakelog import Lake, Topic
from lakelog.snapshots import maintain, registry
from tests.cleaning.test_erase import DAY, append, people
from tests.conftest import Clock


@pytest.fixture
def mine(lake: Lake, clock: Clock) -> Lake:
    """A lake in a catalog schema of its own."""
    name = lake.root.split("/")[-2]
    lake.spark.sql(f"CREATE SCHEMA {name}")
    return Lake(lake.spark, f"spark_catalog.{name}", clock=clock)


def kept(lake: Lake) -> Topic:
    """A topic with a snapshot that has outlived silver's retention, and is not copied yet."""
    topic = lake.create_topic("people", key="STRING", value="mail STRING", config={"snapshot.retention.ms": 1})
    append(topic, ann="a1", bob="b1")
    topic.snapshot("s", keep="90 days")
    append(topic, ann="a2")
    topic.merge()
    return topic


def copies(topic: Topic) -> dict[str, set[str]]:
    """The copies of snapshots that the catalog lists, with their keys."""
    listed = [row["tableName"] for row in topic.spark.sql(f"SHOW TABLES IN {topic.root}").collect()]
    names = [name for name in listed if name.startswith("people_snapshot_") and name.count("_") == 2]
    return {name: {row["key"] for row in topic.spark.table(f"{topic.root}.{name}").collect()} - {None} for name in names}


@pytest.mark.soak
def test_a_copy_that_nobody_entered_is_in_the_receipt_and_goes_with_maintain(
    mine: Lake, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What others have there under such names stays: a table, and the view of another topic."""
    topic, others = kept(mine), ("people_snapshot_ffffffffffff", "people_snapshot_eeeeeeeeeeee")
    mine.spark.sql(f"CREATE TABLE {mine.root}.{others[0]} USING delta AS SELECT 'x' AS key")
    mine.create_topic(others[1], key="STRING", value="STRING")
    with monkeypatch.context() as patch:
        patch.setattr(registry, "copied", lambda *given: False)
        assert maintain.promote(topic.log, now=clock.now) == []
    (lost,) = set(copies(topic)) - set(others)

    assert topic.erase("ann").snapshots == ["s"]
    clock.tick(40 * DAY)
    again = topic.erase("ann")
    assert (again.complete, [one.where for one in again.held]) == (False, [f"the table {mine.root}.{lost}, a copy of a snapshot"])
    assert topic.maintain().dropped == [], "one of the last hour may be about to be entered"
    assert "ann" in copies(topic)[lost]

    monkeypatch.setattr(maintain, "FRESH_MS", 0)
    assert topic.maintain().dropped == [lost.removeprefix("people_")]
    assert (topic.erase("ann").complete, people(topic, at="s"), set(others) <= set(copies(topic))) == (True, {"bob": "b1"}, True)

    with monkeypatch.context() as patch:
        patch.setattr(registry, "copied", lambda *given: False)
        topic.snapshot("t", keep="90 days")
        append(topic, bob="b2")
        topic.merge()
        assert maintain.promote(topic.log, now=clock.now) == []
    assert len(copies(topic)) == 4
    mine.delete_topic("people")
    assert set(copies(topic)) == set(others), "nobody maintains a topic that is gone"
    assert mine.topic(others[1]).latest().count() == 0


@pytest.mark.soak
def test_a_copy_that_an_erasure_replaced_goes_when_it_was_cut_off_before_that(mine: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = kept(mine)
    assert topic.maintain().promoted == ["s"]
    (old,) = copies(topic)
    monkeypatch.setattr(maintain, "FRESH_MS", 0)

    class CutOff(Exception):
        """As a kill between two steps."""

    def cut_off(*given: object) -> bool:
        raise CutOff

    with monkeypatch.context() as patch:
        patch.setattr(maintain, "drop_copy", cut_off)
        with pytest.raises(CutOff):
            topic.erase("ann")
    assert (copies(topic)[old], topic.status().intent) == ({"ann", "bob"}, "erase")
    topic.merge()
    assert (topic.status().intent, list(copies(topic).values())) == (None, [{"bob"}])
    assert people(topic, at="s") == {"bob": "b1"}
