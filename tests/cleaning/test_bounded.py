"""A clean in many steps ends as one in a single step; a clean with nothing to do reads nothing; what status, lag and the figures tell of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lakelog import Lake, Topic
from lakelog.cleaning import clean, dropping, forgetting
from lakelog.delta import tables
from lakelog.errors import Conflict
from lakelog.status_results import CleaningStatus
from tests.conftest import Clock
from tests.tables import versions

DAY = 86_400_000
FULL = {"segment.bytes": 14, "min.cleanable.dirty.ratio": 0}


def filled(topic: Topic, *keys: str) -> None:
    """A segment for each record, of 21 octets; then the active one is closed."""
    for number, key in enumerate(keys):
        topic.append([{"key": key.encode(), "value": b"%020d" % number, "partition": partition} for partition in range(topic.partitions)])
    topic.roll()


def log(topic: Topic) -> list[tuple[int, int, bytes]]:
    rows = topic.read().select("partition", "offset", "key").collect()
    return [(row["partition"], row["offset"], bytes(row["key"])) for row in rows]


@pytest.mark.long
def test_of_several_commits_of_a_partition_the_second_fails_and_the_next_clean_goes_on(
    lake: Lake, clock: Clock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    topic = lake.create_topic("t", config={**FULL, "max.compaction.lag.ms": 1000})
    filled(topic, "a", "a", "b", "b", "c", "b", "a")
    clock.tick(8000)
    monkeypatch.setattr(clean, "GROUP_OCTETS", 50)
    rewrite, runs = dropping.rewrite, []

    def counted(log: Any, rows: Any, end: Any, run: Any, to: Any, **more: Any) -> int:
        runs.append([one.base for _, one in run])
        if len(runs) == 2:
            raise Conflict("Another writer was first.")
        return rewrite(log, rows, end, run, to, **more)

    monkeypatch.setattr(dropping, "rewrite", counted)
    planned, done = topic.plan_cleaning(), topic.clean()
    (failed,) = done.partitions
    assert (planned.records, done.records, failed.error, failed.to_dirty) == (4, 2, "Another writer was first.", 0)
    assert [offset for _, offset, _ in log(topic)] == [2, 3, 4, 5, 6], "what was cleaned before stays so"
    told = [(one.base, one.superseded, one.superseded_octets, one.dropped_octets) for one in planned.partitions[0].segments if one.dropped]
    assert told == [(0, 1, 21, 21), (1, 1, 21, 21), (2, 1, 21, 21), (3, 1, 21, 21)]
    overdue = "t: compaction of partition 0 is overdue for 7 s (max.compaction.lag.ms), and was not done: Another writer was first."
    assert caplog.messages.count(overdue) == 1
    assert topic.verify().problems == []
    again = topic.clean()
    assert runs == [[0, 1], [2, 3], [2, 3]], "at most 50 octets a commit, and nothing twice"
    assert (again.records, again.failure, again.partitions[0].to_dirty) == (2, None, 7)
    assert caplog.messages.count(overdue) == 1, "once it is done nobody is alarmed"
    assert [offset for _, offset, _ in log(topic)] == [4, 5, 6]
    assert topic.verify().problems == []


@pytest.mark.long
def test_segments_of_several_partitions_are_written_again_by_one_commit(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to the bound, whatever partitions they are of: a clean of many small partitions takes no longer than one of as many octets in one."""
    runs: list[list[tuple[int, int]]] = []
    rewrite = dropping.rewrite

    def noted(log: Any, rows: Any, end: Any, run: Any, to: Any, **more: Any) -> int:
        runs.append([(index, one.base) for index, one in run])
        return rewrite(log, rows, end, run, to, **more)

    monkeypatch.setattr(dropping, "rewrite", noted)
    topic = lake.create_topic("t", partitions=5, config=FULL)
    filled(topic, "a", "a", "b")
    before = topic.status().bronze_version
    assert topic.clean().records == 5
    assert runs == [[(partition, 0) for partition in range(5)]]
    assert topic.status().bronze_version - before == 3, "what will be missing is said, the segments are written again, the checkpoints move"
    looked_at = [row["version"] - json.loads(row["userMetadata"])["checked"] for row in tables.history(topic.spark, topic.log.table, 3)]
    assert looked_at == [1, 1, 1], "who looks at the log next need not look at what the clean committed"
    filled(topic, "b")
    monkeypatch.setattr(clean, "GROUP_OCTETS", 70)
    monkeypatch.setattr(clean, "GROUP_SEGMENTS", 2)
    assert topic.clean().records == 5
    assert runs[1:] == [[(0, 2), (1, 2)], [(2, 2), (3, 2)], [(4, 2)]]
    assert log(topic) == [(partition, offset, key) for partition in range(5) for offset, key in ((1, b"a"), (3, b"b"))]
    assert topic.verify().problems == []


@pytest.mark.long
def test_bounded_cleans_end_where_an_unbounded_one_does(lake: Lake) -> None:
    whole, bounded = (lake.create_topic(name, partitions=2, config=FULL) for name in ("whole", "bounded"))
    for topic in (whole, bounded):
        filled(topic, "a", "b", "a", "c", "b", "a")
    done, steps = whole.clean(), []
    while not steps or any(one.selected for one in steps[-1].partitions):
        planned = bounded.plan_cleaning(max_bytes=90)
        steps.append(bounded.clean(max_bytes=90))
        assert {**planned.to_dict(), "dry_run": False} == steps[-1].to_dict()
        dirty = [segment for one in steps[-1].partitions for segment in one.segments if one.from_dirty <= segment.base < one.to_dirty]
        assert sum(segment.octets for segment in dirty) <= 90
    assert len(steps) == 4, "252 octets, at most 90 at once; the last one finds nothing"
    assert [one.records for one in steps if one.records] and sum(one.records for one in steps) == done.records == 6
    assert log(bounded) == log(whole) == [(index, offset, key) for index in (0, 1) for offset, key in ((3, b"c"), (4, b"b"), (5, b"a"))]
    assert steps[-1].octets_after == done.octets_after == 126
    assert bounded.verify().problems == []


@pytest.mark.long
def test_what_status_lag_and_the_figures_of_kafka_tell_before_a_clean_and_after_it(
    lake: Lake, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = {"segment.bytes": 14, "delete.retention.ms": DAY, "max.compaction.lag.ms": 1000}
    topic = lake.create_topic("t", config=config)

    def told() -> CleaningStatus | None:
        native, lag = Lake(lake.root, clock=clock).topic("t"), topic.lag(cleaning=True).cleaning
        assert lag == topic.status().cleaning == native.status().cleaning == native.lag(cleaning=True).cleaning
        assert topic.lag().cleaning is None
        return lag

    for value in (b"1" * 20, b"2" * 20):
        topic.append([{"key": b"a", "value": value, "timestamp": clock.now}])
    topic.append([{"key": b"d", "value": None, "timestamp": clock.now}])
    topic.roll()
    assert told() == CleaningStatus(43, 1.0, 0, 0)
    figures = {"max-dirty-percent": 100, "uncleanable-partitions-count": 0, "max-compaction-delay-secs": 0, "time-since-last-run-ms": -1}
    done = topic.clean()
    assert (done.metrics, done.partitions[0].reason) == (figures, "dirty-ratio")
    tables = versions(lake.root, "t")

    def unwanted(*_: Any, **__: Any) -> None:
        raise AssertionError("records are read")

    with monkeypatch.context() as patched:
        patched.setattr(dropping, "in_segments", unwanted)
        patched.setattr(forgetting.bronze, "records", unwanted)
        assert (topic.clean().records, topic.plan_cleaning().records) == (0, 0)
    assert versions(lake.root, "t") == tables, "a clean with nothing to do writes nothing"

    clock.tick(DAY)
    after = {"cleaned_age_ms": DAY, "bytes_before": 43, "bytes_after": 22}
    assert told() == CleaningStatus(22, 0.0, 0, 1, **after)
    topic.append([{"key": b"a", "value": b"3" * 20, "timestamp": clock.now}])
    topic.roll()
    clock.tick(5000)
    assert told() == CleaningStatus(43, round(21 / 43, 6), 4000, 1, **{**after, "cleaned_age_ms": DAY + 5000})
    planned, done = topic.plan_cleaning(), topic.clean()
    figures |= {"max-dirty-percent": 48, "max-compaction-delay-secs": 4, "time-since-last-run-ms": DAY + 5000}
    assert (planned.metrics, done.metrics, done.partitions[0].reason) == (figures, figures, "max-compaction-lag")
    assert (done.records, done.expired, log(topic)) == (2, 1, [(0, 3, b"a")])
    reasons = ("superseded_octets", "expired_octets", "unkeyed_octets", "dropped_octets")
    assert [done.partitions[0].total(name) for name in reasons] == [21, 1, 0, 22]
    assert told() == CleaningStatus(21, 0.0, 0, 0, cleaned_age_ms=0, bytes_before=43, bytes_after=21)
