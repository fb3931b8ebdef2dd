"""Snapshots: named, listed, read, compared and deleted, on tables that go on."""

from __future__ import annotations

import datetime
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakelog import Lake
from lakelog.delta import table_properties
from lakelog.errors import InvalidConfig, InvalidRequest, NotFound, Refused
from lakelog.snapshots import registry
from tests.lake.test_names import committed_at
from tests.sessions import another
from tests.tables import versions
from tests.templates import made_once

if TYPE_CHECKING:
    from lakelog import Topic
    from tests.conftest import Clock

DAY = 86_400_000


@made_once
def topic(lake: Lake, **config: Any) -> Topic:
    """A topic of two partitions with texts as keys and values."""
    return lake.create_topic(
        "t", key="STRING", value="STRING", partitions=2, config={name.replace("_", "."): v for name, v in config.items()}
    )


def put(topic: Topic, **values: str | None) -> None:
    """Append records to partition 0."""
    topic.append([{"key": key, "value": value, "partition": 0} for key, value in values.items()])


def live(topic: Topic, at: Any = None) -> dict[str, str]:
    """Key to value of the live rows."""
    return {row["key"]: row["value"] for row in topic.latest(at).collect()}


def test_a_snapshot_is_a_state_that_can_be_named_read_compared_and_deleted(lake: Lake, clock: Clock) -> None:
    orders = topic(lake)
    put(orders, a="1", b="1")
    first = orders.snapshot("first", keep="90 days", note="before the migration")
    assert (first.id, first.epoch, first.ends, first.created, first.rule) == ("0@2,0", 0, {0: 2, 1: 0}, True, "offset")
    assert first.kept_until == datetime.datetime.fromtimestamp((clock() + 90 * DAY) / 1000, tz=datetime.timezone.utc)
    put(orders, a="2", b=None, c="1")
    before = versions(lake.root, "t")
    put(orders, d="1")
    second = orders.snapshot()
    assert (second.id, second.name, second.kept_until) == ("0@6,0", None, None), "a snapshot merges first"
    assert [one.id for one in orders.snapshots()] == [first.id, second.id]
    assert live(orders, "first") == live(orders, first) == live(orders, first.id) == live(orders, first.version) == {"a": "1", "b": "1"}
    assert {row["key"]: row["value"] for row in lake.sql("SELECT * FROM t", at="first").collect()} == {"a": "1", "b": "1"}
    shown = {row["key"]: (row["change"], row["before"], row["after"]) for row in orders.diff("first", second).collect()}
    assert shown == {"a": ("changed", "1", "2"), "b": ("removed", "1", None), "c": ("added", None, "1"), "d": ("added", None, "1")}
    put(orders, d="1")
    orders.merge()
    assert orders.diff(second).collect() == [], "the same value again is no change"
    assert versions(lake.root, "t")["silver"] > before["silver"]
    # Again, and nothing is created; a second name is one more name of the same state.
    before = versions(lake.root, "t")
    assert orders.snapshot("third").id == orders.snapshot("third").id == orders.snapshot("fourth").id == orders.snapshot().id == "0@7,0"
    assert [(one.id, one.name) for one in orders.snapshots()] == [
        ("0@2,0", "first"), ("0@6,0", None), ("0@7,0", "fourth"), ("0@7,0", "third")
    ]  # fmt: skip
    assert versions(lake.root, "t") == before
    assert (orders.describe_snapshot("earliest").name, orders.describe_snapshot("latest").name) == ("first", "third")
    found = orders.latest_snapshot()
    assert found is not None and found.id == "0@7,0"
    assert orders.delete_snapshot("first", dry_run=True).name == "first"
    assert live(orders, "first") == {"a": "1", "b": "1"}
    orders.delete_snapshot("first")
    with pytest.raises(NotFound, match=r"no snapshot first\. Snapshots: 0@6,0, fourth, third\. A version .* a time like 2026-") as missing:
        orders.latest("first")
    assert missing.value.name == "SNAPSHOT_NOT_FOUND"
    with pytest.raises(NotFound, match=r"no snapshot first\. Snapshots: 0@6,0, fourth, third\.$"):
        orders.describe_snapshot("first")
    with pytest.raises(NotFound) as unknown:
        lake.sql("SELECT * FROM t", at="first")
    assert unknown.value.name == "SNAPSHOT_NOT_FOUND"


@pytest.mark.long
def test_what_cannot_be_a_snapshot_is_refused_and_nothing_is_written(lake: Lake) -> None:
    orders = topic(lake)
    put(orders, a="1")
    orders.snapshot("taken", keep="90 days")
    # Not merged: what is refused merges nothing.
    put(orders, a="2")
    before = versions(lake.root, "t")
    for name in ("2026", "2026-05-06", "0@1", "", "a b", "now", "Latest", "x" * 201, "a@1"):
        with pytest.raises(InvalidRequest) as wrong:
            orders.snapshot(name)
        assert wrong.value.name == "INVALID_SNAPSHOT_NAME"
    for keep in ("3 months", "-1 days", "soon", -5):
        with pytest.raises(InvalidRequest, match="keep="):
            orders.snapshot("x", keep=keep)
    with pytest.raises(Refused, match=r"the name taken is taken by the snapshot 0@1,0") as taken:
        orders.snapshot("taken")
    assert (taken.value.name, taken.value.expected, taken.value.actual) == ("SNAPSHOT_EXISTS", "0@2,0", "0@1,0")
    with pytest.raises(InvalidConfig, match=r"the snapshot taken is kept until"):
        orders.configure({"snapshot.retention.ms": DAY})
    assert versions(lake.root, "t") == before
    assert [one.name for one in orders.snapshots()] == ["taken"]
    orders.delete_snapshot("taken")
    orders.configure({"snapshot.retention.ms": DAY})


@pytest.mark.long
def test_earlier_states_can_be_named_later(lake: Lake) -> None:
    orders = topic(lake)
    put(orders, a="1")
    version = orders.merge().version
    put(orders, a="2")
    orders.merge()
    early = orders.snapshot("early", at=version)
    assert (early.id, early.version, early.created) == ("0@1,0", version, True)
    assert live(orders, "early") == {"a": "1"}
    with pytest.raises(NotFound):
        orders.snapshot("never", at=99)
    with pytest.raises(NotFound):
        orders.snapshot("never", at="nosuch")


@pytest.mark.long
def test_points_in_time_are_versions_and_times(lake: Lake) -> None:
    """The versions in order: a alone; a changed and b; b deleted and c."""
    orders = topic(lake)
    seen = []
    for values in ({"a": "1"}, {"a": "2", "b": "1"}, {"b": None, "c": "1"}):
        put(orders, **values)
        seen.append(orders.merge().version)
    first, second, _ = seen
    at, later = committed_at(orders, first), datetime.datetime.fromisoformat(committed_at(orders, second))

    def changes(before: Any, after: Any) -> dict[str, tuple[Any, ...]]:
        rows = orders.diff(before, after).collect()
        return {row["key"]: tuple(row[name] for name in ("change", "before", "after", "before_offset", "after_offset")) for row in rows}

    assert changes(first, second) == {"a": ("changed", "1", "2", 0, 1), "b": ("added", None, "1", None, 2)}
    assert changes(later, at) == {"a": ("changed", "2", "1", 1, 0), "b": ("removed", "1", None, 2, None)}
    assert changes(at, "now") == {"a": ("changed", "1", "2", 0, 1), "c": ("added", None, "1", None, 4)}
    for verb in (
        lambda: orders.snapshot("never", at="2020-01-01"),
        lambda: orders.diff("2020-01-01"),
        lambda: orders.restore("2020-01-01"),
    ):
        with pytest.raises(NotFound) as missing:
            verb()
        assert missing.value.name == "SNAPSHOT_NOT_FOUND"
    early = orders.snapshot("early", at=at)
    assert (early.id, early.version, early.created, live(orders, "early")) == ("0@1,0", first, True, {"a": "1"})
    done = orders.restore(later)
    assert (done.to, done.version, done.ends, done.leaving, done.later) == ("0@3,0", second, {0: 3, 1: 0}, {0: (3, 5)}, [])
    assert (live(orders), orders.ends(), orders.verify().problems) == ({"a": "2", "b": "1"}, {0: 3, 1: 0}, [])


@pytest.mark.long
def test_silvers_retention_is_as_long_as_the_longest_keep(lake: Lake, clock: Clock) -> None:
    """Delta refuses what is older than its retention: it is raised before a longer keep is registered, never below one."""
    orders = topic(lake)

    def days() -> int:
        lake.topic("t")
        stored = table_properties.read(lake.spark, orders.silver) or {}
        assert stored["delta.logRetentionDuration"] == stored["delta.deletedFileRetentionDuration"]
        return int(stored["delta.logRetentionDuration"].split()[1]) // 86_400

    put(orders, a="1")
    orders.snapshot("short", keep="2 days")
    assert days() == 30
    orders.snapshot("long", keep="90 days")
    assert days() == 91
    orders.snapshot("also", keep="60 days")
    assert days() == 91
    lake.configure({"snapshot.retention.ms": 20 * DAY})
    assert days() == 91, "a lake's default does not go below a kept snapshot"
    clock.tick(91 * DAY)
    orders.configure({"snapshot.retention.ms": 10 * DAY})
    assert days() == 10, "no name is kept any more"
    put(orders, a="2")
    orders.snapshot("ever", keep="forever")
    assert days() == 36_500


def test_of_writers_of_one_name_one_wins(lake: Lake) -> None:
    orders = topic(lake)
    put(orders, a="1")
    orders.merge()
    first = orders.snapshot("zero")
    entry = registry.entries(lake.spark, lake.root, orders.uuid)[0]
    answers: list[bool] = []

    def write(number: int) -> None:
        raced = registry.Entry("t", orders.uuid, "race", entry.id, number, 0, entry.rule, entry.created, entry.kept_until, note=str(number))
        answers.append(registry.add(another(lake.spark), lake.root, raced))

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == [False, False, False, True]
    assert [one.name for one in orders.snapshots()] == ["race", "zero"]
    assert first.id == orders.describe_snapshot("race").id


@pytest.mark.long
def test_every_topic_under_one_name(lake: Lake) -> None:
    """Cut off, the same call goes on with the topics that lack it."""
    orders = topic(lake)
    other = lake.create_topic("u", key="STRING", value="STRING")
    put(orders, a="1")
    orders.snapshot("nightly")
    put(orders, a="2")
    put(other, b="1")
    taken = lake.snapshot("nightly", keep="7 days")
    assert [(one.topic, one.id, one.created) for one in taken] == [("t", "0@1,0", False), ("u", "0@1", True)]
    assert [(one.topic, one.name) for one in lake.snapshots()] == [("t", "nightly"), ("u", "nightly")]
    with pytest.raises(Refused) as refused:
        lake.snapshot("nightly")
    assert refused.value.name == "SNAPSHOT_EXISTS"
    lake.delete_topic("u")
    assert [(one.topic, one.name) for one in lake.snapshots()] == [("t", "nightly")]
    lake.create_topic("u", key="STRING", value="STRING")
    assert lake.topic("u").snapshots() == [], "another topic of that name has none of its snapshots"


@pytest.mark.long
def test_merges_take_snapshots_by_octets_and_by_time(lake: Lake, clock: Clock) -> None:
    orders = topic(lake, **{"max.record.bytes.between.snapshots": 20, "max.snapshot.interval.ms": 1000, "segment.bytes": 14})
    put(orders, aa="12345678")  # 10 octets, and each append begins a segment
    assert orders.merge().snapshot is None
    put(orders, ab="12345678")
    assert orders.merge().snapshot == "0@2,0"
    put(orders, ac="12345678")
    assert orders.merge().snapshot is None, "counted from the last snapshot on"
    clock.tick(1000)
    assert orders.merge().snapshot is None, "nothing was merged"
    put(orders, ad="1")
    assert orders.merge().snapshot == "0@4,0"
    assert [one.automatic for one in orders.snapshots()] == [True, True]


@pytest.mark.long
def test_after_a_rebuild_the_same_end_offsets_are_a_new_snapshot(lake: Lake) -> None:
    orders = topic(lake, **{"compaction.strategy": "timestamp"})
    orders.append(
        [{"key": "a", "value": "new", "timestamp": 2000, "partition": 0}, {"key": "a", "value": "old", "timestamp": 1000, "partition": 0}]
    )
    orders.snapshot("kept", keep="9 days")
    assert live(orders, "kept") == {"a": "new"}
    orders.configure({"compaction.strategy": "offset"})
    orders.merge(rebuild=True)
    again = orders.snapshot("other")
    assert (again.id, again.created, again.rule) == ("0@2,0", True, "offset")
    assert [(one.name, one.rule) for one in orders.snapshots()] == [("kept", "offset"), ("other", "offset")]
    assert live(orders, "kept") == live(orders, "other") == {"a": "old"}


@pytest.mark.soak
def test_after_a_restore_took_a_change_of_the_rule_back_the_same_end_offsets_are_a_new_snapshot(lake: Lake) -> None:
    orders = topic(lake, **{"compaction.strategy": "timestamp"})
    orders.append([{"key": "a", "value": name, "timestamp": time, "partition": 0} for name, time in (("new", 2000), ("old", 1000))])
    orders.snapshot("before", keep="9 days")
    put(orders, b="1")
    for strategy in ("offset", "timestamp"):
        orders.configure({"compaction.strategy": strategy})
        orders.merge(rebuild=True)
        if strategy == "offset":
            between = orders.snapshot("between", keep="9 days")
            assert live(orders, "between") == {"a": "old", "b": "1"}
    orders.restore("before", log="keep")
    again = orders.snapshot()
    assert (again.id, again.created, again.rule) == (between.id, True, "timestamp")
    assert live(orders, again) == live(orders, "between") == {"a": "new", "b": "1"}, "of the same end offsets there is one state"
    assert not orders.snapshot().created
    old = orders.snapshot("by-version", at=between.version)
    assert (old.id, old.created) == (again.id, False)
    assert live(orders, again) == live(orders, "between") == {"a": "new", "b": "1"}, "an older one takes no newer one's place"


@pytest.mark.long
def test_a_version_whose_files_are_gone_cannot_be_named(lake: Lake) -> None:
    orders = topic(lake)
    put(orders, a="1")
    version = orders.merge().version
    before = {path for path in Path(orders.silver.path or "").rglob("*.parquet") if "bucket=-1" not in str(path)}
    put(orders, a="2", b="1")
    orders.merge()
    # As OPTIMIZE and a VACUUM with another retention leave it: the control rows are there still, in files of their own.
    for path in before:
        path.unlink()
    tables = versions(lake.root, "t")
    for name in ("named", None):
        with pytest.raises(NotFound, match=rf"files of version {version} were removed") as missing:
            orders.snapshot(name, at=version, keep=None if name is None else "90 days")
        assert (missing.value.name, orders.snapshots(), versions(lake.root, "t")) == ("SNAPSHOT_NOT_FOUND", [], tables)
