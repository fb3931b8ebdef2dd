"""What an append reads twice: Parquet files, of which one that is replaced in between is noticed, and cached frames."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow
import pytest
from pyarrow import parquet

from lakelog.delta.location import over_connect
from lakelog.errors import Damaged, Refused
from lakelog.inputs import staging
from lakelog.inputs.sources import requested
from lakelog.log import bronze
from lakelog.log.tail import log_end
from tests.tables import versions

if TYPE_CHECKING:
    from lakelog import Lake, Topic


def _replaced(path: Path, records: int) -> None:
    parquet.write_table(pyarrow.table({"key": [f"k{i}" for i in range(records)], "value": ["v"] * records}), path)


def _append_while_replaced(topic: Topic, path: Path, records: int) -> Any:
    """An append whose first file holds other records when the write reads it."""
    log = topic.log
    batch = staging.staged(log, requested(topic.spark, [str(path), str(path.with_name("b.parquet"))], None, topic.types), 1)
    _replaced(path, records)
    return bronze.append(log, batch, batch_id="b", now=1, terms=bronze.Terms(), captured=log_end(log))


def test_a_file_that_gained_records_fails_and_nothing_is_written(lake: Lake, tmp_path: Path) -> None:
    topic = lake.create_topic("gains", key="STRING", value="STRING")
    path = tmp_path / "a.parquet"
    _replaced(path, 3)
    _replaced(tmp_path / "b.parquet", 3)
    before = versions(lake.root, topic.name)
    with pytest.raises(Refused, match="changed while it was appended") as caught:
        _append_while_replaced(topic, path, 5)
    assert caught.value.name == "SOURCE_CHANGED"
    assert versions(lake.root, topic.name) == before


@pytest.mark.long
def test_a_file_that_lost_records_is_told_and_the_commit_can_be_taken_back(lake: Lake, tmp_path: Path) -> None:
    topic = lake.create_topic("loses", key="STRING", value="STRING")
    path = tmp_path / "a.parquet"
    _replaced(path, 3)
    _replaced(tmp_path / "b.parquet", 3)
    with pytest.raises(Damaged, match="lost records") as caught:
        _append_while_replaced(topic, path, 2)
    assert (caught.value.details["expected"], caught.value.details["actual"]) == (7, 6)
    lake.spark.sql(f"RESTORE TABLE {topic.log.table.sql()} TO VERSION AS OF 0")
    with pytest.raises(Damaged, match="restored by hand"):
        topic.append([{"key": "x"}])
    assert (topic.repair().epoch, topic.ends()) == (1, {0: 0})
    assert topic.append([str(tmp_path / name) for name in ("a.parquet", "b.parquet")]).offsets == {0: (0, 5)}
    assert topic.verify().ok


def test_a_file_whose_records_belong_to_other_partitions_now_fails_and_nothing_is_written(lake: Lake, tmp_path: Path) -> None:
    topic = lake.create_topic("moves", key="STRING", value="STRING", partitions=2)

    def write(name: str, partitions: list[int]) -> Path:
        rows = {"key": ["k"] * len(partitions), "value": ["v"] * len(partitions), "partition": pyarrow.array(partitions, pyarrow.int32())}
        parquet.write_table(pyarrow.table(rows), tmp_path / name)
        return tmp_path / name

    path, _ = write("a.parquet", [0, 0, 1]), write("b.parquet", [1])
    batch = staging.staged(topic.log, requested(topic.spark, [str(path), str(path.with_name("b.parquet"))], None, topic.types), 1)
    before = versions(lake.root, topic.name)
    write("a.parquet", [1, 0, 1])
    with pytest.raises(Refused, match="changed while it was appended"):
        bronze.append(topic.log, batch, batch_id="b", now=1, terms=bronze.Terms(), captured=log_end(topic.log))
    assert versions(lake.root, topic.name) == before


def test_a_frame_that_its_owner_cached_is_read_from_there(lake: Lake) -> None:
    topic = lake.create_topic("cached", key="STRING", value="STRING")
    # A Connect session seeds uuid() anew whenever it analyses the frame: it never finds that frame among those that are cached.
    other_each_time = "CAST(rand(7) AS STRING) AS value" if over_connect(lake.spark) else "uuid() AS value"
    frame = lake.spark.range(3).selectExpr("concat('k', id) AS key", other_each_time)
    assert not requested(lake.spark, frame, None, topic.types).repeatable
    frame.cache()
    try:
        assert requested(lake.spark, frame, None, topic.types).repeatable
        topic.append(frame)
        assert sorted(topic.read().select("key", "value").collect()) == sorted(frame.collect())
    finally:
        frame.unpersist()
