"""Old segments wait for whoever needs them; what was begun before a clean is finished first, and loses nothing by it."""

from __future__ import annotations

import pytest

from lakelog import Lake
from lakelog.delta import table_properties
from lakelog.errors import InvalidRequest, OffsetOutOfRange, Refused
from lakelog.log import state
from lakelog.log.tail import log_end
from lakelog.model.log_state import TRUNCATE, Intent
from lakelog.operations import truncate
from tests.cleaning.test_cleaning import latest as offsets_of
from tests.conftest import Clock
from tests.races.operations.snapshots import at_snapshot, named
from tests.races.operations.state import LATER, MERGED, WAITING, appended, holds, latest, wanted
from tests.snapshots.test_cut_off import CutOff
from tests.snapshots.test_cut_off import run as cut_off
from tests.tables import versions

DAY = 86_400_000


def test_old_segments_go_by_retention_unless_somebody_needs_them(lake: Lake, clock: Clock) -> None:
    topic = lake.create_topic("t", config={"cleanup.policy": "delete", "retention.ms": str(DAY)})
    topic.append([{"key": None, "value": b"1"}, {"key": b"b", "value": b"1"}])
    topic.roll()
    clock.tick(2 * DAY)
    topic.append([{"key": b"c", "value": b"1"}])
    topic.merge()

    dry = topic.clean(dry_run=True)
    assert [(one.from_start, one.to_start) for one in dry.partitions] == [(0, 2)]
    status = topic.status()
    assert (status.partitions[0].log_start_offset, status.cleaning.past_retention_bytes) == (0, 3)
    assert status.cleaning.to_clean == "3 octets past retention"
    done = topic.clean()
    for one in (dry, done):
        assert (one.records, one.past_retention, one.octets_before, one.octets_after) == (0, 2, 5, 2)
        assert [(part.base, part.end, part.past_retention) for part in one.partitions[0].segments] == [(0, 2, 2), (2, 3, 0)]
    assert topic.status().cleaning.past_retention_bytes == 0
    verified = topic.verify()
    assert (verified.ok, verified.keys, verified.share) == (True, 0, 0.0), "nothing stands for what is gone"
    assert "was not recomputed. Take a snapshot" in verified.unproved
    assert "could not be recomputed" in topic.repair().done[0]
    topic.snapshot("base")
    topic.append([{"key": b"d", "value": b"1"}])
    topic.merge()
    assert (topic.verify().keys, topic.verify().unproved) == (3, None), "from the snapshot on all is proved"
    assert "no other snapshot holds" in topic.delete_snapshot("base", dry_run=True).warning

    assert [row["offset"] for row in topic.read().collect()] == [2, 3]
    assert topic.status().partitions[0].log_start_offset == 2
    assert set(offsets_of(topic)) == {b"b", b"c", b"d"}, "the latest table stays"
    with pytest.raises(OffsetOutOfRange):
        topic.read(offset=0).collect()


def test_delete_records_moves_the_log_start_and_refuses_what_it_must(lake: Lake) -> None:
    topic = lake.create_topic("t", config={"cleanup.policy": "compact,delete"})
    topic.append([{"key": b"%d" % number, "value": b"1"} for number in range(5)])
    topic.merge()
    before = versions(lake.root, "t")
    with pytest.raises(OffsetOutOfRange):
        topic.delete_records(0, 6)
    with pytest.raises(OffsetOutOfRange):
        topic.delete_records(0, -2)
    with pytest.raises(InvalidRequest, match="no partition 1"):
        topic.delete_records(1, 0)
    with pytest.raises(InvalidRequest, match="max_bytes"):
        topic.clean(max_bytes=0)
    assert versions(lake.root, "t") == before

    planned = topic.delete_records(0, 3, dry_run=True)
    assert (planned.records, planned.from_offset, planned.to_offset, topic.start().offsets[0]) == (3, 0, 3, 0)
    assert (topic.delete_records(0, 3).records, topic.delete_records(0, 2).to_offset) == (3, 3)
    assert [row["offset"] for row in topic.read().collect()] == [3, 4]
    assert len(offsets_of(topic)) == 5

    kept = topic.snapshot("monday", keep="90 days")
    topic.append([{"key": b"x", "value": b"1"}])
    with pytest.raises(Refused) as refused:
        topic.delete_records(0, -1)
    assert refused.value.name == "LOG_HELD", kept
    topic.configure({"cleanup.policy": "compact"})
    with pytest.raises(Refused) as policy:
        topic.delete_records(0, -1)
    assert policy.value.name == "POLICY_VIOLATION"


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


@pytest.mark.soak
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


@pytest.mark.long
def test_a_log_start_whose_removal_was_cut_off_is_finished_by_the_next_writer(
    lake: Lake, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = lake.create_topic("t", config={"cleanup.policy": "delete", "retention.ms": DAY})
    topic.append([{"key": b"%d" % number, "value": b"1"} for number in range(4)])
    topic.roll()
    clock.tick(2 * DAY)
    topic.append([{"key": b"d", "value": b"1"}])
    topic.merge()

    def gone(*given: object, **more: object) -> int:
        raise CutOff

    for start in (2, 4):
        with monkeypatch.context() as patched, pytest.raises(CutOff):
            patched.setattr(truncate, "remove_below", gone)
            topic.delete_records(0, 2) if start == 2 else topic.clean()
        topic = lake.topic("t")
        assert topic.start().offsets == {0: start}
        topic.append([{"key": b"e", "value": b"1"}])
        assert (topic.status().intent, topic.verify().problems) == (None, [])


@pytest.mark.soak
@pytest.mark.parametrize("verb", ["clean", "delete_records"])
def test_what_an_older_lakelog_left_below_the_log_start_is_removed(lake: Lake, verb: str) -> None:
    """It moved the log start without an intent, and was cut off before the records below it were removed."""
    topic = lake.create_topic("t", config={"cleanup.policy": "compact,delete"})
    topic.append([{"key": b"%d" % number, "value": b"1"} for number in range(4)])
    topic.merge()
    end = log_end(topic.log, pin=True)
    assert state.change_state(topic.log, end, {0: end.tails[0].state.next("b", start=3, cleaned=3, deletes_from=3)}, "retention", now=0)
    assert topic.verify().problems == ["partition 0: holds offset 0 below the log start 3"]
    if verb == "clean":
        topic.clean()
    else:
        assert topic.delete_records(0, 3).records == 3
    version = topic.status().bronze_version
    assert (topic.verify().problems, topic.read().count()) == ([], 1)
    topic.clean()
    assert (topic.delete_records(0, 3).records, topic.status().bronze_version) == (0, version)


@pytest.mark.long
def test_a_dry_run_finishes_nothing_that_was_begun(lake: Lake) -> None:
    topic = lake.create_topic("t", key="STRING", config={"cleanup.policy": "compact,delete"})
    topic.append([{"key": "ann", "value": b"1"}, {"key": "bob", "value": b"1"}])
    topic.merge()
    end = log_end(topic.log, pin=True)
    assert state.change_state(topic.log, end, {0: end.tails[0].state.next("b", intent=Intent(TRUNCATE, "i"))}, "intent", now=0)
    before = versions(lake.root, "t")
    assert topic.delete_records(0, 1, dry_run=True).records == 1
    assert topic.erase("ann", dry_run=True).removed["log"] == 1
    intent = log_end(topic.log).intent
    assert (versions(lake.root, "t"), intent and intent.id) == (before, "i")
