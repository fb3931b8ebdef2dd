"""Two of anything at once on silver: merges that move different partitions, a rebuild beside a merge, notes that are old."""

from __future__ import annotations

import shutil
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakelog.errors import Damaged, LogIncomplete, VersionMismatch
from lakelog.latest import rebuild, upsert
from lakelog.latest.progress import progress, stored
from lakelog.log import bronze, guard
from lakelog.operations import repair

if TYPE_CHECKING:
    from lakelog import Lake, Topic


def record(key: str, partition: int, value: str = "v") -> dict[str, Any]:
    return {"key": key, "value": value, "partition": partition}


def overtaken_once(monkeypatch: pytest.MonkeyPatch, module: Any, name: str, act: Any) -> list[Any]:
    """Let another act just before the first call of a function; gives what came of it."""
    original, seen = getattr(module, name), []

    def first(*given: Any, **more: Any) -> Any:
        if not seen:
            seen.append(None)
            seen[0] = act()
        return original(*given, **more)

    monkeypatch.setattr(module, name, first)
    return seen


def live(topic: Topic) -> dict[str, str]:
    return {row["key"]: row["value"] for row in topic.latest().collect()}


@pytest.mark.parametrize("way", ["merge", pytest.param("replace", marks=pytest.mark.long)])
def test_merges_that_move_different_partitions_do_not_stop_each_other_for_good(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """A merge that moves partition 1 alone commits while a bounded one, that moves partition 0 alone, is about to.

    Two appends of different partitions race, so a bounded merge may take them in either order; the first merge has seen only one of them.
    """
    topic, other = lake.create_topic("t", key="STRING", value="STRING", partitions=2), lake.topic("t")
    topic.append([record("a", 0), record("b", 1)])
    topic.merge()
    monkeypatch.setattr(upsert, "MOSTLY", 0 if way == "replace" else 10)
    first, go_on, answers = threading.Event(), threading.Event(), {}
    write = getattr(upsert.tables, way)

    def paused(*given: Any, **more: Any) -> Any:
        if threading.current_thread() is merging:
            first.set()
            assert go_on.wait(300)
        elif not go_on.is_set():
            go_on.set()
            merging.join(300)
        return write(*given, **more)

    merging = threading.Thread(target=lambda: answers.update(other=other.merge()))
    monkeypatch.setattr(upsert.tables, way, paused)

    def append_and_begin_to_merge() -> None:
        other.append([record("b", 1, "w")])
        merging.start()
        assert first.wait(300)

    overtaken_once(monkeypatch, guard, "insert", append_and_begin_to_merge)
    topic.append([record("a", 0, "w")])
    mine = topic.merge(max_records=1)
    assert answers["other"].to_offsets == {0: 1, 1: 2}, "the other merge moved partition 1 alone"
    assert mine.to_offsets == {0: 2, 1: 2}
    assert progress(topic.log).marks == stored(lake.spark, topic.silver).marks, "the note says what the rows say"
    topic.append([record("d", 0), record("d", 1)])
    topic.merge()
    assert (topic.status().unmerged_records, live(topic)) == (0, {"a": "w", "b": "w", "d": "v"})
    assert topic.verify().problems == []


def test_an_old_note_is_corrected_by_the_rows(lake: Lake) -> None:
    """A commit whose note says less than its rows (an older lakelog wrote such) does not stop merges."""
    topic = lake.create_topic("t", key="STRING", value="STRING", partitions=2)
    note = progress(topic.log).note()
    topic.append([record("a", 0), record("b", 1)])
    topic.merge()
    lake.spark.conf.set("spark.databricks.delta.commitInfo.userMetadata", note or "")
    try:
        lake.spark.sql(
            f"MERGE INTO {topic.silver.sql()} t USING (SELECT 1 AS x) s ON t.key = 'a' WHEN MATCHED THEN UPDATE SET tombstone = false"
        )
    finally:
        lake.spark.conf.unset("spark.databricks.delta.commitInfo.userMetadata")
    assert progress(topic.log).marks != stored(lake.spark, topic.silver).marks
    topic.append([record("c", 0)])
    assert topic.merge().inserted == 1
    assert live(topic) == {"a": "v", "b": "v", "c": "v"}


@pytest.mark.parametrize(
    "config", [{}, pytest.param({"compaction.strategy": "timestamp"}, marks=pytest.mark.long)], ids=["same rule", "other rule"]
)
def test_a_rebuild_does_not_move_progress_backwards(lake: Lake, monkeypatch: pytest.MonkeyPatch, config: dict[str, str]) -> None:
    """Where the versions are of another type, silver's columns are replaced too."""
    topic = lake.create_topic("t", key="STRING", value="STRING")
    topic.append([record("a", 0)])
    topic.merge()
    topic.configure(config)
    other = lake.topic("t")

    def merge_more() -> Any:
        other.append([record("b", 0)])
        return other.merge(rebuild=bool(config))

    seen = overtaken_once(monkeypatch, upsert.tables, "overwrite", merge_more)
    rebuilt = topic.merge(rebuild=True)
    assert seen[0].to_offsets == {0: 2}
    assert (rebuilt.to_offsets, live(topic)) == ({0: 2}, {"a": "v", "b": "v"})


@pytest.mark.long
def test_what_others_do_while_a_rebuild_looks_at_the_log_stands(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """An erasure, a restore and a merge, each between the look at the log and the fold: the rebuild begins anew, or refuses."""
    topic, other = lake.create_topic("t", key="STRING", value="STRING"), lake.topic("t")
    topic.append([record("person", 0), record("b", 0)])
    topic.merge()
    topic.snapshot("s")
    topic.append([record("bad", 0)])
    topic.merge()
    with monkeypatch.context() as patch:
        overtaken_once(patch, rebuild, "rebuild", lambda: other.restore("s"))
        topic.merge(rebuild=True)
    assert live(topic) == {"person": "v", "b": "v"}

    def merge_more() -> Any:
        other.append([record("c", 0)])
        return other.merge()

    version = topic.status().silver_version
    with monkeypatch.context() as patch:
        overtaken_once(patch, rebuild, "rebuild", merge_more)
        with pytest.raises(VersionMismatch):
            topic.merge(rebuild=True, expected_version=version)
    assert live(topic) == {"person": "v", "b": "v", "c": "v"}
    with monkeypatch.context() as patch:
        seen = overtaken_once(patch, rebuild, "rebuild", lambda: other.erase("person"))
        with pytest.raises(LogIncomplete):
            topic.merge(rebuild=True)
    assert (seen[0].removed["silver"], live(topic)) == (1, {"b": "v", "c": "v"})
    with monkeypatch.context() as patch:
        patch.setattr(repair, "_of_silver", lambda *given: (["something"], False))
        overtaken_once(patch, rebuild, "rebuild", lambda: other.erase("b"))
        topic.repair()
    assert (live(topic), topic.verify().problems) == ({"c": "v"}, [])


@pytest.mark.soak
@pytest.mark.parametrize("lost", ["another topic's", "gone"])
def test_what_others_do_while_a_lost_latest_table_is_computed_anew_stands(lake: Lake, monkeypatch: pytest.MonkeyPatch, lost: str) -> None:
    """Another repair is first, and the topic goes on: the slower one finds that nothing is left to do."""
    topic, other = lake.create_topic("t", key="STRING", value="STRING"), lake.topic("t")
    topic.append([record("a", 0)])
    topic.merge()
    shutil.rmtree(topic.silver.path or "")
    if lost == "another topic's":
        lake.create_topic("u", key="STRING", value="a INT", config={"compaction.strategy": "timestamp"})
        shutil.copytree(Path(lake.root, "u", "silver"), topic.silver.path or "")

    def repair_and_go_on() -> None:
        assert other.repair().done == ["the latest table was computed anew"]
        other.append([record("b", 0)])
        other.merge()

    overtaken_once(monkeypatch, rebuild, "rebuild", repair_and_go_on)
    assert topic.repair().done == []
    assert (topic.status().unmerged_records, live(topic), topic.verify().problems) == (0, {"a": "v", "b": "v"}, [])


@pytest.mark.long
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, {"compaction.strategy": "timestamp"}),
        ({}, {"compaction.strategy": "column", "compaction.strategy.column": "at"}),
        ({"compaction.strategy": "timestamp"}, {"compaction.strategy": "header", "compaction.strategy.header": "n"}),
    ],
)
def test_a_repair_while_a_change_of_the_rule_waits_for_its_rebuild(lake: Lake, before: dict[str, str], after: dict[str, str]) -> None:
    """What silver remembers is of the old rule: of another type, and nothing to the new one."""
    topic = lake.create_topic("t", key="STRING", value="at TIMESTAMP, n INT", config=before)

    def put(key: str, number: int) -> None:
        value = {"at": f"2026-01-0{number}T00:00:00Z", "n": number}
        topic.append([{"key": key, "value": value, "timestamp": number, "headers": [["n", number]]}])

    put("a", 2)
    put("a", 1)
    topic.merge()
    topic.configure(after)
    # Where both rules give the same rows nothing is wrong.
    topic.repair()
    topic.merge(rebuild=True)
    assert {row["n"] for row in topic.latest().collect()} == {2}
    put("b", 3)
    topic.merge()
    topic.configure(dict.fromkeys(after) | before)
    lake.spark.sql(f"DELETE FROM {topic.bronze.sql()} WHERE partition = 0 AND segment >= 0 AND offset = 1")
    assert topic.repair().problems != []
    assert topic.status().intent is None
    put("c", 4)
    topic.merge()
    assert ({row["key"] for row in topic.latest().collect()}, topic.verify().problems) == ({"a", "b", "c"}, [])


@pytest.mark.long
def test_a_latest_table_that_is_gone_or_broken_is_never_made_anew_in_silence(lake: Lake) -> None:
    topic = lake.create_topic("t", key="STRING", value="STRING")
    topic.append([record("a", 0), record("b", 0)])
    topic.merge()
    shutil.rmtree(topic.silver.path or "")
    for verb in (lake.topic("t").merge, lambda: lake.create_topic("t", key="STRING", value="STRING")):
        with pytest.raises((Damaged, Exception)) as caught:
            verb()
        assert "Run verify with repair" in str(caught.value) or "exists already" in str(caught.value)
        assert not silver_is_there(topic)
    assert lake.topic("t").merge(rebuild=True).inserted == 2
    assert live(topic) == {"a": "v", "b": "v"}
    # Control rows deleted by hand, and twice.
    for damage in (
        f"DELETE FROM {topic.silver.sql()} WHERE bucket = -1",
        f"INSERT INTO {topic.silver.sql()} SELECT * FROM {topic.silver.sql()}",
    ):
        lake.spark.sql(damage)
        with pytest.raises(Damaged, match="Run verify with repair"):
            topic.merge()
        assert topic.merge(rebuild=True).inserted == 2
        assert (live(topic), topic.verify().problems) == ({"a": "v", "b": "v"}, [])


def silver_is_there(topic: Topic) -> bool:
    return Path(topic.silver.path or "", "_delta_log").is_dir()


def test_a_merge_beside_an_append_reads_a_log_that_rested_longer_than_its_retention(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Delta refuses a version older than the retention of removed files as soon as it is not the newest: the merge has pinned that one."""
    topic, other = lake.create_topic("t", key="STRING", value="STRING", partitions=1), lake.topic("t")
    kept = "'delta.logRetentionDuration' = 'interval 1 seconds', 'delta.deletedFileRetentionDuration' = 'interval 1 seconds'"
    lake.spark.sql(f"ALTER TABLE {topic.bronze.sql()} SET TBLPROPERTIES ({kept})").collect()
    topic.append([record("a", 0)])
    time.sleep(3)
    seen = overtaken_once(monkeypatch, bronze, "between", lambda: other.append([record("b", 0)]))
    assert (topic.merge().to_offsets, seen[0].offsets) == ({0: 1}, {0: (1, 2)})
    assert (topic.merge().to_offsets, live(topic)) == ({0: 2}, {"a": "v", "b": "v"})
