"""A first merge of a large log: the same winners and counts as the ordinary fold, without a copy of the log."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from lakelog.delta import tables
from lakelog.latest import fill, fold
from lakelog.latest.compare import compare
from lakelog.latest.progress import progress
from tests.tables import versions

if TYPE_CHECKING:
    from lakelog import Lake

RULES: dict[str, dict[str, Any]] = {
    "offset": {},
    "timestamp": {"compaction.strategy": "timestamp"},
    "header": {"compaction.strategy": "header", "compaction.strategy.header": "seq"},
    "barrier": {"compaction.strategy": "column", "compaction.strategy.column": "version", "tombstone.unversioned": "win_by_offset"},
}
COLUMN = RULES["barrier"]


def history(seed: int, keys: int, records: int) -> list[dict[str, Any]]:
    """Records of two partitions: late ones, ties, deletes with and without a version, headers that are no version."""
    chance = random.Random(seed)
    found = []
    for number in range(records):
        version = chance.choice([None, *range(6)])
        seq = chance.choice([version, version, {"hex": "00"}])
        found.append({
            "key": f"k{chance.randrange(keys)}", "partition": chance.randrange(2), "value": {"version": version, "payload": f"v{number}"},
            "headers": [] if seq is None else [["seq", seq]], "timestamp": 1_700_000_000_000 + chance.randrange(5),
            "tombstone": chance.random() < 0.25,
        })  # fmt: skip
    return found


@pytest.mark.parametrize("rule", [pytest.param(rule, marks=[] if rule == "barrier" else pytest.mark.long) for rule in RULES])
def test_it_finds_the_winners_and_counts_of_the_ordinary_fold(lake: Lake, monkeypatch: pytest.MonkeyPatch, rule: str) -> None:
    topic = lake.create_topic("t", key="STRING", value="version BIGINT, payload STRING", partitions=2, config=RULES[rule])
    # Many keys with one record; then keys with many records.
    topic.append(history(1, keys=60, records=60))
    first, middle = dict.fromkeys(range(2), 0), topic.ends()
    topic.append(history(2, keys=4, records=90))

    def found(how: Any, start: dict[int, int], ends: dict[int, int]) -> tuple[Any, list[Any]]:
        compared = how(start, ends)
        rows = compared.changes.select("bucket", "partition", "key", "value", "version", "offset", "tombstone", "timestamp", "epoch")
        return compared.counts, sorted(rows.collect(), key=lambda row: (row["partition"], row["key"]))

    version = tables.history(lake.spark, topic.bronze, 1)[0]["version"]
    for start, ends in ((first, middle), (middle, topic.ends()), (first, topic.ends())):
        expected = found(lambda low, high: compare(topic.log, fold.fold(topic.log, low, high, version), None), start, ends)
        assert sum(counts["records"] for counts in expected[0].values()) == sum(ends.values()) - sum(start.values())
        for broadcast in (fill.BROADCAST, 30, 0):
            monkeypatch.setattr(fill, "BROADCAST", broadcast)
            assert found(lambda low, high: fill.fill(topic.log, low, high, version), start, ends) == expected, broadcast
        monkeypatch.undo()


@pytest.mark.parametrize("vectors", [True, pytest.param(False, marks=pytest.mark.long)])
def test_a_first_merge_and_a_rebuild_write_what_was_found_under_the_same_gate(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, vectors: bool
) -> None:
    monkeypatch.setattr(fill, "SMALL", 10)
    config = {**COLUMN, "silver.buckets": 3, "deletion.vectors": vectors}
    topic = lake.create_topic("t", key="STRING", value="version BIGINT, payload STRING", partitions=3, config=config)
    topic.append(history(3, keys=20, records=50))
    other, write, raced = lake.topic("t"), tables.replace, []

    def overtaken(*given: Any, **more: Any) -> int | None:
        if not raced:
            raced.append(True)
            raced.append(other.merge().records)
        return write(*given, **more)

    monkeypatch.setattr(tables, "replace", overtaken)
    mine = topic.merge()
    assert (raced, mine.records, mine.version) == ([True, 50], 0, None), "the other merge had done all there was"
    assert progress(topic.log).totals()["records"] == 50
    assert topic.verify().problems == []

    topic.append(history(4, keys=30, records=50))
    topic.merge()
    before = topic.latest().orderBy("_partition", "key").collect()
    assert topic.verify().problems == []
    rebuilt = topic.merge(rebuild=True)
    assert (rebuilt.records, topic.latest().orderBy("_partition", "key").collect()) == (100, before)
    assert topic.verify().problems == []
    assert versions(lake.root, "t")["silver"] == 3
