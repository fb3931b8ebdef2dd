"""What one merge does to silver's files and commits: the gate, the progress it carries, and how little it rewrites."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lakelog import Lake
from lakelog.delta import table_properties, tables
from lakelog.delta.statement import during
from lakelog.latest import fold, upsert
from lakelog.latest.merge import places
from lakelog.latest.progress import progress, stored
from lakelog.latest.upsert import bitmap
from lakelog.log.tail import log_end
from lakelog.model.records import floor_of

COLUMN = {"compaction.strategy": "column", "compaction.strategy.column": "version"}


def records(*pairs: tuple[str, int]) -> list[dict[str, Any]]:
    return [{"key": key, "value": {"payload": f"{key}{version}", "version": version}} for key, version in pairs]


def data_files(lake: Lake, version: int) -> dict[str, set[str]]:
    """The data files that a commit of silver added and removed, control rows' aside."""
    actions = [json.loads(line) for line in Path(lake.root, "t", "silver", "_delta_log", f"{version:020}.json").read_text().splitlines()]
    return {
        kind: {action[kind]["path"] for action in actions if kind in action and "bucket=-1" not in action[kind]["path"]}
        for kind in ("add", "remove")
    }


@pytest.mark.parametrize("vectors", [False, pytest.param(True, marks=pytest.mark.long)])
def test_a_merge_rewrites_what_changes_and_no_more(lake: Lake, vectors: bool) -> None:
    topic = lake.create_topic("t", key="STRING", value="payload STRING, version BIGINT", config={**COLUMN, "deletion.vectors": vectors})
    topic.append(records(*[(f"k{index}", 100 + index) for index in range(50)]))
    first = topic.merge()
    assert (first.inserted, data_files(lake, first.version)["remove"]) == (50, set())

    topic.append(records(*[(f"k{index}", 5) for index in range(50)]))
    late = topic.merge()
    assert late.late == 50
    assert data_files(lake, late.version) == {"add": set(), "remove": set()}, "a batch that is late as a whole touched data files"
    assert topic.merge().version is None, "a merge with nothing to do made a commit"

    topic.append([*records(("k1", 500), ("new", 1)), {"key": "k2", "value": {"version": 600}, "tombstone": True}])
    merged = topic.merge()
    assert (merged.inserted, merged.updated, merged.deleted, merged.late) == (1, 1, 1, 0)
    touched = data_files(lake, merged.version)
    assert len(touched["remove"]) == 1
    assert bool(touched["add"] & touched["remove"]) == vectors, "with deletion vectors the old file stays, without it is rewritten"
    assert {row["key"]: row["version"] for row in topic.latest().collect()} == {
        **{f"k{index}": 100 + index for index in range(50) if index not in (1, 2)}, "k1": 500, "new": 1,
    }  # fmt: skip
    assert topic.verify().problems == []


@pytest.mark.long
def test_a_merge_that_was_overtaken_writes_nothing(lake: Lake) -> None:
    """The gate stands in the statement: progress that another merge moved stops it, whatever was known before."""
    topic = lake.create_topic("t", key="STRING", value="payload STRING, version BIGINT", partitions=2, config=COLUMN)
    topic.append([{**record, "partition": index % 2} for index, record in enumerate(records(("a", 1), ("b", 1)))])
    before = progress(topic.log)
    done = topic.merge()
    topic.append([{**records(("c", 1))[0], "partition": 0}])
    end = log_end(topic.log)
    version, _ = upsert.merge(topic.log, before, places(end), bronze_version=end.version, now=1)
    assert version is None
    assert tables.history(lake.spark, topic.silver, 1)[0]["version"] == done.version
    assert topic.merge().inserted == 1
    # Another rule or another generation of silver, at the very same offsets, stops it as well.
    before = progress(topic.log)
    topic.merge(rebuild=True)
    topic.append([{**records(("d", 1))[0], "partition": 1}])
    end = log_end(topic.log)
    assert upsert.merge(topic.log, before, places(end), bronze_version=end.version, now=1)[0] is None
    assert topic.merge().inserted == 1


@pytest.mark.long
def test_winners_are_broadcast_only_while_what_they_carry_is_small(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """A million winners are few as numbers; as whole rows their octets decide, or the memory of the driver does."""
    topic = lake.create_topic("t", key="STRING", value="payload STRING, version BIGINT", config={**COLUMN, "deletion.vectors": True})
    topic.append(records(*[(f"k{index}", 1) for index in range(20)]))
    topic.merge()
    monkeypatch.setattr(fold, "BROADCAST_OCTETS", 10_000)
    merge, plans = tables.merge, []

    def explained(source: Any, *given: Any, **more: Any) -> int | None:
        source.createOrReplaceTempView("source_of_merge")
        # So that Spark broadcasts nothing of its own accord.
        with during(lake.spark, {"spark.sql.autoBroadcastJoinThreshold": "-1", "spark.sql.adaptive.autoBroadcastJoinThreshold": "-1"}):
            joined = f"SELECT * FROM {topic.silver.sql()} t JOIN source_of_merge s ON t.offset = s.match_offset"
            plans.append("BroadcastHashJoin" in lake.spark.sql(f"EXPLAIN {joined}").collect()[0][0])
        return merge(source, *given, **more)

    monkeypatch.setattr(tables, "merge", explained)
    for version, size in ((2, 10), (3, 9_000), (4, 11_000), (5, 10)):
        topic.append([{"key": "k1", "value": {"payload": "v" * size, "version": version}}])
        assert topic.merge().updated == 1
    assert plans == [True, True, False, True]

    # Records that lose are not carried.
    start = topic.ends()
    topic.append([{"key": key, "value": {"payload": "v" * 100_000, "version": 1}} for key in ("k1", "k1")])
    topic.append([{"key": "k1", "value": {"payload": "0123456789", "version": 9}, "headers": [["name", "four"]]}])
    folded = fold.fold(topic.log, start, topic.ends(), log_end(topic.log).version)
    assert folded.octets == {"key": 2, "value": 10 + 8 + 8}
    assert topic.merge().updated == 1
    assert plans == [True, True, False, True, True]


@pytest.mark.parametrize(("vectors", "way"), [(False, "replace"), pytest.param(True, "merge", marks=pytest.mark.long)])
def test_a_merge_overtaken_before_its_transaction_begins_starts_over(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, vectors: bool, way: str
) -> None:
    """The rows are planned, another merge commits, then the statement runs: it must see that, whichever way it writes."""
    config = {**COLUMN, "deletion.vectors": vectors}
    topic = lake.create_topic("t", key="STRING", value="payload STRING, version BIGINT", config=config)
    topic.append(records(("a", 1), ("b", 1), ("c", 1)))
    topic.merge()
    topic.append(records(("a", 2)))
    monkeypatch.setattr(upsert, "MOSTLY", 0)
    other, write, raced = lake.topic("t"), getattr(tables, way), []

    def overtaken(*given: Any, **more: Any) -> int | None:
        if not raced:
            raced.append(True)
            other.merge()
            other.append(records(("b", 2)))
            raced.append(other.merge().updated)
        return write(*given, **more)

    monkeypatch.setattr(tables, way, overtaken)
    mine = topic.merge()
    assert raced == [True, 1]
    assert (mine.version, mine.records) == (None, 0), "the other merge had done all there was"
    assert {row["key"]: row["version"] for row in topic.latest().collect()} == {"a": 2, "b": 2, "c": 1}
    assert topic.verify().problems == []


@pytest.mark.long
def test_the_progress_a_commit_carries_is_that_of_the_control_rows(lake: Lake) -> None:
    """The newest commit tells it; after a commit that is no merge the rows do, and after a RESTORE those that came back."""
    topic = lake.create_topic("t", key="STRING", value="payload STRING, version BIGINT", partitions=2, config=COLUMN)
    seen = {}
    for number in range(3):
        noted = progress(topic.log)
        assert noted.marks == stored(lake.spark, topic.silver).marks
        seen[noted.version] = noted.marks
        topic.append([{**record, "partition": index % 2} for index, record in enumerate(records(("a", number), ("b", number)))])
        topic.merge(rebuild=number == 1)
    table_properties.change(lake.spark, topic.silver, {"a.user": "was here"})
    assert progress(topic.log).marks == stored(lake.spark, topic.silver).marks
    lake.spark.sql(f"RESTORE TABLE {topic.silver.sql()} TO VERSION AS OF 1")
    assert progress(topic.log).marks == seen[1]
    assert topic.merge().records == 4


def test_a_bitmap_holds_for_its_offsets_and_for_few_others(spark: Any) -> None:
    sets = [{-1}, {0}, {63, 64, 10**12}, set(range(0, 90_000, 7)), {-1, 2**62, *range(5_000, 5_300)}]
    every = sorted({*range(-1, 100_000), *sets[2], *sets[4]})
    frame = spark.createDataFrame([(offset,) for offset in every], "o BIGINT")
    held = frame.selectExpr("o", *[f"{bitmap('o', offsets)} AS b{index}" for index, offsets in enumerate(sets)]).collect()
    for index, offsets in enumerate(sets):
        found = {row["o"] for row in held if row[f"b{index}"]}
        assert offsets <= found
        assert len(found - offsets) <= len(every) / 10


def test_the_bounds_of_offsets_seldom_change() -> None:
    assert [floor_of(offset) for offset in (0, 65_535, 65_536, 100_000, 131_072, 2**40 + 5)] == [
        0,
        0,
        65_536,
        98_304,
        131_072,
        2**40,
    ]
    offsets = [0, 5, 1023, 1024, 65_535, 65_536, 100_000, 2**40 + 5, *range(1_000_000, 1_100_000, 777)]
    assert all(floor_of(offset) <= offset for offset in offsets)
    assert all(floor_of(offset) > offset * 0.96 for offset in offsets if offset >= 65_536)
    assert len({floor_of(offset) for offset in range(1_000_000, 1_100_000)}) <= 5


@pytest.mark.long
def test_a_rebuild_keeps_the_partitioning(lake: Lake) -> None:
    """Or buckets are no longer directories: under the same rule, under one whose versions are of another type, and where it was lost."""
    topic = lake.create_topic("t", key="STRING", value="v BIGINT, w INT", config={"silver.buckets": 3})
    topic.append([{"key": str(number), "value": {"v": 1, "w": 2}} for number in range(20)])
    topic.merge()
    topic.merge(rebuild=True)
    assert tables.partition_columns(lake.spark, topic.silver) == ("bucket",)
    topic.configure({"compaction.strategy": "column", "compaction.strategy.column": "v, w"})
    topic.merge(rebuild=True)
    assert tables.partition_columns(lake.spark, topic.silver) == ("bucket",)
    identity = tables.identity(lake.spark, topic.silver)
    lake.spark.read.table(topic.silver.sql()).write.format("delta").mode("overwrite").option("overwriteSchema", "true").saveAsTable(
        topic.silver.sql()
    )
    assert tables.partition_columns(lake.spark, topic.silver) == ()
    assert "silver" in topic.maintain().files, "as a whole, since it has no directories"
    topic.merge(rebuild=True)
    assert tables.partition_columns(lake.spark, topic.silver) == ("bucket",)
    assert tables.identity(lake.spark, topic.silver) == identity
    assert len(topic.latest().collect()) == 20
    assert topic.verify().problems == []
