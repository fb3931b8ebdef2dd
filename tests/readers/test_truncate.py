"""A log that begins later: cut off below a snapshot, never below what somebody still needs, and as good as before for everybody else."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakelog import Damaged, LogIncomplete, OffsetOutOfRange, Position, Refused
from tests.readers.test_reading import orders, put, seen
from tests.snapshots.test_snapshots import DAY
from tests.tables import versions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakelog import Lake, Topic
    from tests.conftest import Clock


def live(topic: Topic) -> set[tuple[int, str, str]]:
    return {(row["_partition"], row["key"], row["value"]) for row in topic.latest().collect()}


def files(topic: Topic) -> set[tuple[int, int]]:
    """(partition, segment) of the live files of bronze that hold log segments."""
    rows = topic.spark.read.format("delta").load(str(topic.bronze)).filter("segment >= 0 AND partition >= 0")
    return {(row["partition"], row["segment"]) for row in rows.select("partition", "segment").distinct().collect()}


def test_the_log_is_cut_off_below_a_snapshot_and_everything_goes_on(lake: Lake, spark: SparkSession) -> None:
    topic = orders(lake, **{"segment.bytes": 14})
    for number in range(3):
        put(topic, (0, f"a{number}", "12345678"), (0, "same", str(number)), (1, "b", str(number)))
    good = topic.snapshot("good")
    put(topic, (0, "c", "1"), (1, "b", None))
    before, position = live(topic), topic.position()
    assert files(topic) >= {(0, 0), (0, 2), (0, 4)}

    dry = topic.truncate("good", dry_run=True)
    assert (dry.dry_run, dry.from_offsets, dry.to_offsets, dry.records, dry.blockers) == (True, {0: 0, 1: 0}, {0: 6, 1: 3}, 9, [])
    assert dry.octets > 0 and dry.segments >= 3
    assert topic.start().offsets == {0: 0, 1: 0}
    done = topic.truncate("good")
    assert (done.dry_run, done.records, done.to_offsets) == (False, 9, dict(good.ends))

    assert topic.start().offsets == {0: 6, 1: 3} and topic.ends() == {0: 7, 1: 4}
    assert seen(topic.read()) == [(0, 6, "c", "1"), (1, 3, "b", None)]
    assert files(topic) == {(0, 6), (1, max(segment for index, segment in files(topic) if index == 1))}
    operations = [row["operation"] for row in spark.sql(f"DESCRIBE HISTORY {topic.bronze.sql()} LIMIT 5").collect()]
    assert "WRITE" in operations, "whole segments are overwritten by none"
    assert before <= live(topic) | {(1, "b", "2")}
    verified = topic.verify()
    assert (verified.problems, verified.keys) == ([], 6) and verified.base is not None and "good" in verified.base
    with pytest.raises(OffsetOutOfRange):
        topic.read(0, 5)
    with pytest.raises(OffsetOutOfRange, match="good"):
        topic.read(since=Position({0: 5, 1: 3}, 0))
    with pytest.raises(LogIncomplete):
        topic.merge(rebuild=True)
    assert [row[2] for row in seen(topic.read(since=Position(dict(good.ends), 0)).records)] == ["c", "b"]
    put(topic, (0, "d", "1"), expected_offset=7)
    assert topic.merge().records == 1
    assert seen(topic.read(since=position).records) == [(0, 7, "d", "1")]
    assert topic.verify().problems == []
    again = versions(lake.root, topic.name)
    assert topic.truncate("good").records == 0
    assert versions(lake.root, topic.name) == again, "again, and nothing changes"
    status = topic.status()
    assert (status.records, [part.log_start_offset for part in status.partitions], status.intent) == (3, [6, 3], None)


@pytest.mark.long
def test_a_log_is_not_cut_off_below_a_snapshot_of_another_rule(lake: Lake) -> None:
    """What it holds cannot stand for records that the present rule would have kept."""
    topic = orders(lake, 1)
    put(topic, (0, "a", "1"))
    topic.snapshot("s")
    topic.configure({"compaction.strategy": "timestamp"})
    topic.merge(rebuild=True)
    put(topic, (0, "b", "1"))
    before = versions(lake.root, topic.name)
    for dry_run in (True, False):
        with pytest.raises(Refused, match="under the rule offset, the topic now says timestamp") as refused:
            topic.truncate("s", dry_run=dry_run)
        assert refused.value.name == "RULE_CHANGED"
    assert versions(lake.root, topic.name) == before
    topic.delete_snapshot("s")
    topic.snapshot("t")
    assert topic.truncate("t").to_offsets == {0: 2}


@pytest.mark.long
def test_a_log_emptied_by_truncation_still_knows_its_end(lake: Lake) -> None:
    topic = orders(lake, 1)
    put(topic, (0, "a", "1"), (0, "b", "1"))
    topic.snapshot("all")
    assert topic.truncate("all").to_offsets == {0: 2}

    fresh = lake.topic("orders")
    assert (fresh.ends(), fresh.start().offsets, fresh.read().collect()) == ({0: 2}, {0: 2}, [])
    put(fresh, (0, "c", "1"), expected_offset=2)
    assert fresh.merge().records == 1
    assert live(fresh) == {(0, "a", "1"), (0, "b", "1"), (0, "c", "1")}
    assert fresh.verify().problems == []
    begin = fresh.bootstrap()
    assert begin.position.offsets == {0: 3} and fresh.validate(begin.position).answer == "VALID"


def test_a_registered_reader_holds_the_log_until_it_moves_on_or_expires(lake: Lake, clock: Clock) -> None:
    topic = orders(lake, 1, **{"offsets.retention.ms": 1000})
    put(topic, (0, "a", "1"), (0, "b", "1"))
    topic.commit("slow", Position({0: 1}, 0))
    topic.commit("fast", topic.position())
    topic.snapshot("s")
    before = versions(lake.root, topic.name)

    planned = topic.truncate("s", dry_run=True)
    assert planned.blockers == ["the group slow is at offset 1 of partition 0"]
    with pytest.raises(Refused) as refused:
        topic.truncate("s")
    assert refused.value.name == "LOG_HELD" and "the group slow" in str(refused.value)
    assert str(refused.value) == f"{topic.name}: {planned.refusal}"
    assert versions(lake.root, topic.name) == before

    assert [(one.group, one.records, one.offsets, one.expired) for one in topic.lag().groups] == [
        ("slow", 1, {0: 1}, False), ("fast", 0, {0: 0}, False),
    ]  # fmt: skip
    clock.tick(1000)
    assert [one.expired for one in topic.lag().groups] == [True, True]
    topic.commit("slow", Position({0: 1}, 0))
    assert topic.truncate("s", dry_run=True).blockers, "a new commit holds it anew"
    assert topic.forget("slow") and not topic.forget("slow")
    assert topic.truncate("s").records == 2
    assert topic.committed("slow") is None and topic.committed("fast") == topic.position()
    with pytest.raises(OffsetOutOfRange):
        topic.commit("late", Position({0: 0}, 0))
    assert [one.group for one in topic.lag().groups] == ["fast"]
    assert topic.lag().cleaning is None and topic.lag(cleaning=True).cleaning == topic.status().cleaning


@pytest.mark.long
def test_a_kept_snapshot_holds_the_log_until_its_keep_ends(lake: Lake, clock: Clock) -> None:
    topic = orders(lake, 1)
    put(topic, (0, "a", "1"))
    topic.snapshot("old", keep="1 day")
    put(topic, (0, "b", "1"))
    topic.snapshot("new", keep="90 days")
    before = versions(lake.root, topic.name)

    planned = topic.truncate("new", dry_run=True)
    assert planned.blockers == ["the snapshot old (epoch 0, end offsets 0: 1) is kept, and needs the log from offset 1 of partition 0 on"]
    assert (planned.records, planned.to_offsets) == (2, {0: 2})
    with pytest.raises(Refused, match="the snapshot old ") as refused:
        topic.truncate("new")
    assert (refused.value.name, str(refused.value)) == ("LOG_HELD", f"{topic.name}: {planned.refusal}")
    assert versions(lake.root, topic.name) == before
    clock.tick(DAY - 1)
    assert topic.truncate("new", dry_run=True).blockers == planned.blockers
    clock.tick(1)
    assert [one.name for one in topic.snapshots()] == ["old", "new"], "not expired yet, and no longer kept"
    assert (topic.truncate("new", dry_run=True).blockers, topic.truncate("new").records) == ([], 2)
    assert topic.start().offsets == {0: 2}


@pytest.mark.soak
def test_a_log_that_no_snapshot_covers_is_not_cut_off_further(lake: Lake) -> None:
    """What went cannot be made up for, unless the policy has `delete`; a new snapshot of a latest table that is sound heals it."""
    topic = orders(lake, 1)
    for name in ("low", "high"):
        put(topic, (0, name, "1"))
        topic.snapshot(name, keep="0 days")
    topic.truncate("high")
    assert topic.delete_snapshot("high").warning is not None
    put(topic, (0, "c", "1"))
    before = versions(lake.root, topic.name)
    for dry_run in (True, False):
        with pytest.raises(
            Damaged, match="partition 0 starts at offset 2, its records from 0 on are gone, and no snapshot holds them"
        ) as damaged:
            topic.truncate("low", dry_run=dry_run)
        assert damaged.value.details == {"expected": 0, "actual": 2}
    assert versions(lake.root, topic.name) == before
    gone = (
        "the log of partition 0 starts at offset 2, its records from 0 on are gone, and no snapshot holds them: silver cannot be proved. Take a"
        " snapshot of it, if it is sound: what is merged from then on can be proved again"
    )
    found = topic.verify()
    assert (found.problems, found.keys, found.unproved) == ([gone], 0, None)

    topic.configure({"cleanup.policy": "compact,delete"})
    found = topic.verify()
    assert (found.problems, found.keys) == ([], 0) and found.unproved is not None and "starts at offset 2" in found.unproved
    assert topic.truncate("low").records == 0, "it has nothing below that snapshot"
    topic.configure({"cleanup.policy": None})
    topic.snapshot("healed")
    found = topic.verify()
    assert (found.problems, found.keys, found.unproved) == ([], 3, None) and "healed" in str(found.base)
    assert topic.truncate("low").records == 0
    assert topic.truncate("healed").records == 1
    assert live(topic) == {(0, "low", "1"), (0, "high", "1"), (0, "c", "1")}


@pytest.mark.long
def test_groups_of_all_topics_share_a_table_and_do_not_mix(lake: Lake) -> None:
    one, two = orders(lake, 1), lake.create_topic("payments", key="STRING", value="STRING")
    put(one, (0, "a", "1"))
    one.commit("g", one.position())
    two.commit("g", two.position())
    two.commit("h", two.position())

    assert (one.committed("g"), two.committed("g")) == (one.position(), two.position())
    assert [group.group for group in two.lag().groups] == ["g", "h"]
    assert Path(lake.root, "_lakelog", "positions", "_delta_log").is_dir()
    lake.delete_topic("payments")
    again = lake.create_topic("payments", key="STRING", value="STRING")
    assert (again.committed("g"), again.lag().groups) == (None, []), "a topic made anew has no readers yet"
    again.commit("g", again.position())
    assert again.committed("g") == again.position()


@pytest.mark.long
def test_what_is_wrong_with_the_latest_table_is_named(lake: Lake, spark: SparkSession) -> None:
    topic = orders(lake, 1)
    put(topic, *[(0, f"k{number}", "1") for number in range(40)])
    topic.merge()
    assert topic.verify(sample=0.25).problems == [] and 0 < topic.verify(sample=0.25).keys < 40
    silver = topic.silver.sql()
    spark.sql(f"UPDATE {silver} SET value = 'x' WHERE key = 'k7'")
    spark.sql(f"DELETE FROM {silver} WHERE key = 'k8'")

    found = topic.verify()
    assert found.problems == ["1 keys are missing in silver", "1 rows of silver differ from their record in the log"]
    named: list[dict[str, Any]] = sorted(found.differences, key=lambda one: one["key"])
    assert named == [
        {"partition": 0, "key": "k7", "difference": "changed", "expected": 7, "found": 7},
        {"partition": 0, "key": "k8", "difference": "missing", "expected": 8, "found": None},
    ]
    assert found.to_json()
