"""Old segments wait for whoever needs them; what was begun before a clean is finished first, and loses nothing by it."""

from __future__ import annotations

import pytest

from lakelog import Lake
from lakelog.delta import table_properties
from lakelog.errors import OffsetOutOfRange
from tests.conftest import Clock
from tests.races.operations.snapshots import at_snapshot, named
from tests.races.operations.state import LATER, MERGED, WAITING, appended, holds, latest, wanted
from tests.snapshots.test_cut_off import run as cut_off

DAY = 86_400_000


@pytest.mark.long
def test_retention_waits_for_a_reader_and_a_kept_snapshot_and_names_both(lake: Lake, clock: Clock) -> None:
    topic = lake.create_topic("t", config={"cleanup.policy": "compact,delete", "retention.ms": DAY, "min.cleanable.dirty.ratio": 1})
    topic.append([{"key": b"a", "value": b"1"}])
    topic.merge()
    topic.commit("slow", topic.start())
    kept = topic.snapshot("kept", keep="90 days")
    topic.append([{"key": b"b", "value": b"1"}, {"key": b"c", "value": b"1"}])
    topic.roll()
    clock.tick(2 * DAY)
    topic.append([{"key": b"d", "value": b"1"}])
    topic.merge()
    reader = "the group slow is at offset 0 of partition 0"
    snapshot = f"the snapshot kept (epoch 0, end offsets 0: {kept.ends[0]}) is kept, and needs the log from offset 1 of partition 0 on"

    for blocked in ([reader, snapshot], [snapshot]):
        planned, done = topic.clean(dry_run=True), topic.clean()
        assert {**planned.to_dict(), "dry_run": False} == done.to_dict()
        assert (done.blocked, done.partitions[0].blocked_by, done.past_retention) == (sorted(blocked), blocked, 0)
        assert (done.partitions[0].to_start, topic.read().count()) == (0, 4)
        topic.forget("slow")
    topic.delete_snapshot("kept")
    done = topic.clean()
    assert (done.blocked, done.past_retention, done.partitions[0].to_start) == ([], 3, 3)
    assert [row["offset"] for row in topic.read().collect()] == [3]

    # Who comes too late is told what to load: by each way of reading, with a session and without.
    topic.snapshot("later", keep="9 days")
    native = Lake(lake.root, clock=clock).topic("t")
    message = (
        r"offset 0 is out of range: the log of partition 0 holds offsets \[3, 4\)\. Load the snapshot later \(epoch 0, end offsets 0: 4\)"
    )
    early = topic.start()
    early = type(early)({0: 0}, early.epoch, early.uuid)
    for read in (
        lambda: topic.read(since=early), lambda: topic.read(0, 0), lambda: topic.read(offset=0), lambda: native.read(0, 0),
        lambda: native.read(offset=0),
    ):  # fmt: skip
        with pytest.raises(OffsetOutOfRange, match=message) as refused:
            read()
        assert (refused.value.details["snapshot"], refused.value.details["start"], refused.value.details["end"]) == ("later", 3, 4)
    for beyond in (lambda: topic.read(0, 5), lambda: native.read(0, 5)):
        with pytest.raises(OffsetOutOfRange, match=r"holds offsets \[3, 4\)\.$") as refused:
            beyond()
        assert "snapshot" not in refused.value.details


@pytest.mark.long
def test_a_clean_finishes_a_restore_first_and_retention_takes_nothing_that_it_needs(
    lake: Lake, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_properties, "PATIENCE", 0)
    named(lake)
    topic = lake.topic("t")
    topic.configure({"cleanup.policy": "compact,delete", "retention.ms": DAY})
    cut_off(lake, "truncate", 3, monkeypatch)
    assert topic.status().intent is not None, "it has begun, and is not finished"
    clock.tick(3 * DAY)
    done = lake.topic("t").clean(roll_idle=True)
    topic = lake.topic("t")
    assert (topic.status().intent, topic.status().epoch, latest(topic)) == (None, 1, wanted(MERGED))
    assert done.past_retention == sum(map(len, MERGED.values())), "what the restore left, which the snapshot holds as a whole"
    assert topic.start().offsets == topic.ends() == {index: len(batch) for index, batch in MERGED.items()}
    aside = {(row["partition"], row["offset"]) for row in topic.quarantined().collect()}
    assert aside == {(index, len(MERGED[index]) + place) for index, batch in WAITING.items() for place in range(len(batch))}
    at_snapshot(topic)
    appended(topic, LATER)
    holds(topic, MERGED, LATER)
