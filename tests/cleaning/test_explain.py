"""Why a key has the row it has, and what another rule would make of it."""

from __future__ import annotations

import random
import time
from typing import Any

import pytest

from lakelog import Lake
from lakelog.cleaning.contest import Contender, outcomes
from lakelog.errors import InvalidConfig, InvalidRequest
from tests.conftest import NOON, Clock
from tests.oracle import Model, Rule
from tests.strategies import CODES, decoded

RULES = (
    Rule(), Rule("timestamp"), Rule("header", "seq"), Rule("header", "seq", barriers=True), Rule("column", columns=(0, 1)),
    Rule("column", columns=(0,), barriers=True),
)  # fmt: skip


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_of_random_histories_the_winner_and_the_late_are_those_of_a_plain_fold(rule: Rule) -> None:
    dice, reasons = random.Random(7), set[str | None]()
    for _ in range(300):
        log = [decoded(dice.randrange(CODES), struct=rule.strategy == "column") for _ in range(dice.randrange(1, 12))]
        model = Model(rule)
        model.append({0: log})
        late = 0
        for (_, key), (offset, _) in model.latest().items():
            mine = {place: rule.version(one) for place, one in enumerate(log) if one.key == key}
            versions = sorted({version for version in mine.values() if version is not None})
            contenders = [
                Contender(place, None if version is None else versions.index(version), log[place].deletes)
                for place, version in mine.items()
            ]
            dice.shuffle(contenders)
            found = outcomes(contenders, versioned=rule.strategy != "offset", barriers=rule.barriers)
            assert [place for place, one in found.items() if one.reason is None] == [offset]
            assert {one.lost_to for one in found.values()} <= {None, offset}
            late += sum(one.late_behind is not None for one in found.values())
            reasons |= {one.reason for one in found.values()}
        counts = model.counts()
        assert late == counts["late"] + counts["ignored_deletes"]
    wanted = {"earlier-offset"} | ({"older-version"} if rule.strategy != "offset" else set())
    wanted |= {"no-version"} if rule.strategy in ("header", "column") else set()
    wanted |= {"before-unversioned-delete"} if rule.barriers else set()
    assert reasons == {None, *wanted}


@pytest.mark.long
def test_every_record_of_a_key_is_told_with_what_becomes_of_it(lake: Lake, clock: Clock) -> None:
    settings = {"compaction.strategy": "timestamp", "min.cleanable.dirty.ratio": "0", "delete.retention.ms": "1000"}
    topic = lake.create_topic("t", key="id BIGINT, region STRING", value="n INT", config=settings)
    key, other = {"id": 1, "region": "a'é"}, {"id": 1, "region": None}

    def append(*records: tuple[Any, int | None, int]) -> None:
        topic.append([{"key": of, "value": None if n is None else {"n": n}, "timestamp": NOON + at} for of, n, at in records])

    append((key, 1, 10), (other, 5, 0), (key, 2, 5))
    topic.merge()
    topic.roll()
    append((key, 3, 10), (key, 4, 2), (other, None, 7))
    told = topic.explain(key)
    (partition,) = told.partitions
    assert (told.key, told.rule, told.hypothetical, partition.merged_to, partition.latest_offset) == (key, "timestamp", False, 3, 0)
    assert [(one.offset, one.reason, one.lost_to, one.late_behind, one.merged, one.segment, one.cleaner) for one in partition.records] == [
        (0, "earlier-offset", 3, None, True, 0, "goes-with-the-next-clean"),
        (2, "older-version", 3, 0, True, 0, "goes-with-the-next-clean"),
        (3, None, None, None, False, 3, "latest-stays"),
        (4, "older-version", 3, 3, False, 3, "active"),
    ]
    assert [one.value for one in partition.records] == [{"n": 1}, {"n": 2}, {"n": 3}, {"n": 4}]
    assert partition.records[1].version == "2023-11-14T22:13:20.005000Z"

    by_offset = topic.explain(key, config={"compaction.strategy": "offset"})
    assert by_offset.hypothetical and [one.reason for one in by_offset.partitions[0].records] == [*["earlier-offset"] * 3, None]
    assert topic.explain({"id": 2, "region": "a"}).partitions == []

    topic.roll()
    topic.clean()
    (records,) = [one.records for one in topic.explain(other).partitions]
    assert [(one.offset, one.tombstone, one.cleaner) for one in records] == [(5, True, "tombstone-goes-at")]
    assert records[0].cleaner_at is not None and records[0].cleaner_at.timestamp() * 1000 == clock.now + 1000
    clock.now += 1000
    topic.clean()
    append((other, 6, 3))
    (gone,) = topic.explain(other).partitions
    assert [(one.offset, one.in_log, one.reason, one.late_behind, one.cleaner) for one in gone.records] == [
        (5, False, None, None, "gone"), (6, True, "older-version", 5, "active"),
    ]  # fmt: skip
    assert (gone.latest_offset, gone.cleaned) == (5, 6)
    merged = topic.merge()
    assert merged.late_after_delete == 1, "as it was told"

    for wrong, says in ((7, "all of these fields"), ({"id": "x", "region": "a"}, "id"), (None, "all of these fields")):
        with pytest.raises(InvalidRequest, match=says):
            topic.explain(wrong)
    with pytest.raises(InvalidRequest, match="cleanup.policy is no setting of the ordering rule"):
        topic.explain(key, config={"cleanup.policy": "delete"})
    with pytest.raises(InvalidConfig, match="there is no field|has no field"):
        topic.what_if({"compaction.strategy": "column", "compaction.strategy.column": "m"})


@pytest.mark.long
def test_what_another_rule_would_change_is_what_it_changes(lake: Lake) -> None:
    dice = random.Random(5)
    topic = lake.create_topic("t", key="BIGINT", value="STRING", partitions=2)
    records = [
        {"key": dice.randrange(60), "value": None if dice.random() < 0.3 else str(place), "timestamp": NOON - dice.randrange(50)}
        for place in range(300)
    ]
    topic.append(records[:200])
    topic.merge()
    topic.append(records[200:])
    told = topic.what_if({"compaction.strategy": "timestamp"})
    topic.merge()

    def table() -> dict[tuple[int, int], tuple[int, bool]]:
        return {(row["partition"], row["key"]): (row["offset"], row["tombstone"]) for row in topic.rows().collect()}

    before = table()
    topic.configure({"compaction.strategy": "timestamp"})
    topic.merge(rebuild=True)
    after = table()
    changed = {place for place in before if before[place] != after[place]}
    assert (told.keys, told.changed, told.incomplete) == (len(after), len(changed), [])
    assert told.changed > 10
    assert told.deleted == sum(after[place][1] and not before[place][1] for place in changed) > 0
    assert told.live_again == sum(before[place][1] and not after[place][1] for place in changed) > 0
    for one in told.examples:
        place = (one["partition"], one["key"])
        assert (one["from_offset"], one["to_offset"]) == (before[place][0], after[place][0])
    assert topic.what_if({"compaction.strategy": "offset"}).changed == len(changed)
    assert topic.what_if({"compaction.strategy": "timestamp"}).changed == 0


@pytest.mark.long
def test_times_that_python_does_not_know_stop_no_merge(lake: Lake, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """The year 10000, and the first days of year 1 where the machine's zone is behind UTC."""
    config = {"compaction.strategy": "timestamp", "delete.retention.ms": 0}
    topic = lake.create_topic("t", key="TIMESTAMP", value="z TIMESTAMP", config=config)
    beyond, struct = "timestamp_micros(253402300800000000)", "CAST(named_struct('z', {}) AS STRUCT<z: TIMESTAMP>)"

    def append(*records: tuple[str, str, int]) -> None:
        rows = [
            f"SELECT {key} AS key, {struct.format(value)} AS value, {value == 'NULL'} AS tombstone, timestamp_millis({at}) AS timestamp"
            for key, value, at in records
        ]
        topic.append(lake.spark.sql(" UNION ALL ".join(rows)))

    append(
        (beyond, "NULL", 3),
        ("TIMESTAMP '0001-01-02 00:00:00Z'", "TIMESTAMP '2026-01-01 00:00:00Z'", 1),
        ("TIMESTAMP '0001-01-03 00:00:00Z'", beyond, 1),
    )
    topic.roll()
    for _ in range(2):
        topic.clean(force=True)
        clock.tick(86_400_000)
    append((beyond, beyond, 2))
    merged = topic.merge()
    assert merged.late_after_delete == 1 and [one["key"] for one in merged.late_after_delete_examples] == ["+10000-01-01 00:00:00"]
    outside = "lies outside of the years 1 to 9999"
    with pytest.raises(InvalidRequest, match=outside):
        topic.what_if({"compaction.strategy": "offset"})
    with pytest.raises(InvalidRequest, match=outside):
        topic.explain("0001-01-03T00:00:00Z")
    try:
        monkeypatch.setenv("TZ", "America/Los_Angeles")
        time.tzset()
        told = topic.explain("0001-01-02T00:00:00Z")
    finally:
        monkeypatch.undo()
        time.tzset()
    assert (told.key, [one.value for one in told.partitions[0].records]) == ("0001-01-02T00:00:00Z", [{"z": "2026-01-01T00:00:00Z"}])
