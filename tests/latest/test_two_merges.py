"""Two of anything at once on silver: merges that move different partitions, a rebuild beside a merge, notes that are old."""

from __future__ import annotations

import shutil
import threading
from typing import TYPE_CHECKING, Any

import pytest

from lakelog.errors import Damaged
from lakelog.latest import upsert
from lakelog.latest.progress import progress, stored
from lakelog.log import guard

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
    assert progress(lake.spark, topic.silver).marks == stored(lake.spark, topic.silver).marks, "the note says what the rows say"
    topic.append([record("d", 0), record("d", 1)])
    topic.merge()
    assert (topic.status().unmerged_records, live(topic)) == (0, {"a": "w", "b": "w", "d": "v"})
    assert topic.verify().problems == []


def test_an_old_note_is_corrected_by_the_rows(lake: Lake) -> None:
    """A commit whose note says less than its rows (an older lakelog wrote such) does not stop merges."""
    topic = lake.create_topic("t", key="STRING", value="STRING", partitions=2)
    note = progress(lake.spark, topic.silver).note()
    topic.append([record("a", 0), record("b", 1)])
    topic.merge()
    lake.spark.conf.set("spark.databricks.delta.commitInfo.userMetadata", note or "")
    try:
        lake.spark.sql(
            f"MERGE INTO {topic.silver.sql()} t USING (SELECT 1 AS x) s ON t.key = 'a' WHEN MATCHED THEN UPDATE SET tombstone = false"
        )
    finally:
        lake.spark.conf.unset("spark.databricks.delta.commitInfo.userMetadata")
    assert progress(lake.spark, topic.silver).marks != stored(lake.spark, topic.silver).marks
    topic.append([record("c", 0)])
    assert topic.merge().inserted == 1
    assert live(topic) == {"a": "v", "b": "v", "c": "v"}


@pytest.mark.parametrize("config", [{}, {"compaction.strategy": "timestamp"}], ids=["same rule", "other rule"])
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
    from pathlib import Path

    return Path(topic.silver.path or "", "_delta_log").is_dir()
