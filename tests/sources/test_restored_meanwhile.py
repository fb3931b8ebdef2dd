"""A restore while a source is being taken: what the restore takes back is taken again, in its order, and nothing is passed over."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow import parquet
from pyspark.sql import SparkSession

from lakelog import FencedEpoch, Lake, Topic
from lakelog.inputs import staging
from lakelog.log import guard
from lakelog.sources import directory, table
from lakelog.sources.append import append_from
from lakelog.sources.configured import DirectorySource, TableSource
from tests.interleaving import late
from tests.sources.test_sources import keys, names, write
from tests.sources.test_tables import add


def restoring(topic: Topic) -> Callable[[int, int], None]:
    """What restores the topic, once, after the first append."""
    left = ["good"]

    def tell(done: int, total: int) -> None:
        if left:
            topic.restore(left.pop())

    return tell


def looking(look: Callable[..., Any], topic: Topic) -> Callable[..., Any]:
    """A look at a source after which, once, the topic is restored."""
    left = ["good"]

    def looked(*given: Any) -> Any:
        found = look(*given)
        if left:
            topic.restore(left.pop())
        return found

    return looked


@pytest.mark.soak
def test_versions_of_a_table_that_a_restore_takes_back_are_taken_again(
    lake: Lake, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, raw = lake.create_topic("orders", key="STRING", value="STRING"), str(tmp_path / "raw")
    other, source = Lake(spark, lake.root, clock=lake.clock).topic("orders"), TableSource(raw)
    add(spark, raw, "v0")
    append_from(topic, [source])
    topic.merge()
    topic.snapshot("good")
    for key in ("v1", "v2", "v3"):
        add(spark, raw, key)
    assert [one.position for one in append_from(topic, [source], tell=restoring(other))] == [3]
    assert keys(topic) == ["v0", "v1", "v2", "v3"]

    add(spark, raw, "v4")
    monkeypatch.setattr(table, "look", looking(table.look, other))
    assert [one.position for one in append_from(topic, [source])] == [4]
    assert keys(topic) == ["v0", "v1", "v2", "v3", "v4"]


@pytest.mark.long
def test_files_that_a_restore_takes_back_keep_their_order(
    lake: Lake, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, inbox = lake.create_topic("prices", key="STRING", value="STRING"), tmp_path / "in"
    other, source = Lake(spark, lake.root, clock=lake.clock).topic("prices"), DirectorySource(str(inbox))
    write(inbox, "0.ndjson", "pear")
    append_from(topic, [source])
    topic.merge()
    topic.snapshot("good")
    write(inbox, "1.ndjson", "apple", value="old")
    (inbox / "2.csv").write_text("key,value\napple,new\n")
    taken = append_from(topic, [source], tell=restoring(other))[0]
    assert names(taken) == [["1.ndjson"], ["1.ndjson"], ["2.csv"]]
    topic.merge()
    assert {row["key"]: row["value"] for row in topic.latest().collect()} == {"pear": "x", "apple": "new"}

    write(inbox, "3.ndjson", "fig")
    monkeypatch.setattr(directory, "look", looking(directory.look, other))
    assert names(append_from(topic, [source])[0]) == [["1.ndjson"], ["2.csv"], ["3.ndjson"]]
    assert keys(topic) == ["pear", "apple", "apple", "fig"]


@pytest.mark.parametrize("terms", [{"epoch": 0}, pytest.param({"expected_offset": {0: 2}}, marks=pytest.mark.long)])
def test_an_append_is_refused_whenever_the_log_was_restored(lake: Lake, monkeypatch: pytest.MonkeyPatch, terms: dict[str, Any]) -> None:
    """Between the look at the log's end and the write, too: without an epoch it is of the one that the log had when the call began."""
    topic = lake.create_topic("t", key="STRING", value="STRING")
    topic.append([{"key": "a", "value": "1"}])
    topic.merge()
    topic.snapshot("good")
    topic.append([{"key": "b", "value": "1"}])
    other = Lake(lake.spark, lake.root, clock=lake.clock).topic("t")

    def restored() -> None:
        other.restore("good")
        other.append([{"key": "x", "value": "1"}])

    with monkeypatch.context() as patch:
        late(patch, staging, "staged", restored)
        with pytest.raises(FencedEpoch, match="Nothing was written"):
            topic.append([{"key": "c", "value": "1"}], **terms)
    assert keys(topic) == ["a", "x"]
    assert topic.append([{"key": "c", "value": "1"}], epoch=1).offsets == {0: (2, 3)}


def test_a_parquet_file_that_is_exchanged_before_the_write_is_not_what_is_written(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, inbox = lake.create_topic("t", key="STRING", value="STRING"), tmp_path / "in"
    inbox.mkdir()

    def put(text: str) -> None:
        parquet.write_table(pyarrow.table({"key": ["a", "b"], "value": [text, text]}), inbox / ".new")
        (inbox / ".new").rename(inbox / "a.parquet")

    put("old")
    insert = guard.insert

    def late(*given: Any, **named: Any) -> Any:
        put("new")
        return insert(*given, **named)

    with monkeypatch.context() as patch:
        patch.setattr(guard, "insert", late)
        append_from(topic, [DirectorySource(str(inbox))])
    assert [row["value"] for row in topic.read().collect()] == ["old", "old"]
