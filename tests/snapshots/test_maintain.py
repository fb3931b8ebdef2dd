"""What grows with every run is kept small: the lake's own tables, written together by the maintenance of any topic."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow
import pytest
from deltalake import DeltaTable, write_deltalake

from lakelog.snapshots import maintain, registry
from lakelog.snapshots.maintain import MANY_FILES
from tests.interleaving import late
from tests.snapshots.test_snapshots import live, put, topic
from tests.tables import with_times_of_96_bits

if TYPE_CHECKING:
    from lakelog import Lake

RUNS = 40


@pytest.mark.long
def test_runs_of_many_nights_are_written_together_and_tell_the_same(lake: Lake) -> None:
    assert RUNS > MANY_FILES
    orders = topic(lake)
    put(orders, a="1")
    orders.snapshot("kept", keep="90 days")
    path = f"{lake.root}/_lakelog/runs"
    for night in range(RUNS):
        time = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc) + datetime.timedelta(days=night)
        row = {
            "started_at": time, "ended_at": time, "run_id": f"run{night}", "verb": "run", "topic": "t", "error": None,
            "report": json.dumps({"night": night}),
        }  # fmt: skip
        write_deltalake(path, pyarrow.Table.from_pylist([row], schema=pyarrow.schema(DeltaTable(path).schema().to_arrow())), mode="append")
    before = sorted(DeltaTable(path).to_pyarrow_table().to_pylist(), key=str)
    assert len(before) == RUNS

    done = orders.maintain()
    assert done.files["_lakelog/runs"] == (RUNS, 1)
    assert "_lakelog/snapshots" not in done.files, "few files are left alone"
    assert len(DeltaTable(path).file_uris()) == 1
    assert sorted(DeltaTable(path).to_pyarrow_table().to_pylist(), key=str) == before
    assert len(list(Path(path).glob("*.parquet"))) > RUNS, "old files stay for their retention"
    assert with_times_of_96_bits(Path(lake.root)) == []

    assert lake.topics() == ["t"], "the table's properties list the topics"
    assert "_lakelog/runs" not in orders.maintain().files
    assert [one.name for one in orders.snapshots()] == ["kept"]
    put(orders, a="2")
    orders.merge()
    assert orders.verify().problems == []


@pytest.mark.long
def test_a_copy_that_somebody_is_about_to_enter_is_not_lost(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another maintenance removes copies that nothing needs while one makes the copy: before it is entered, and between its look and the removal."""
    orders = topic(lake, **{"snapshot.retention.ms": 1})
    put(orders, a="1")
    orders.snapshot("kept", keep="90 days")
    put(orders, a="2")
    orders.merge()
    removed: list[str] = []
    with monkeypatch.context() as patch:
        late(patch, registry, "copied", lambda: removed.extend(maintain.drop_unneeded(orders.log)))
        assert orders.maintain().promoted == ["kept"]
    assert len(removed) == 1, "it was made, and nobody had entered it"
    assert (live(orders, "kept"), orders.describe_snapshot("kept").form) == ({"a": "1"}, "table")

    put(orders, b="1")
    orders.snapshot("second", keep="90 days")
    # A copy that was cut off before it was entered; it is entered when the other has looked at the registry.
    with monkeypatch.context() as patch:
        patch.setattr(registry, "copied", lambda *given: False)
        assert maintain.promote(orders.log, now=0) == []
    promoted: list[str] = []
    with monkeypatch.context() as patch:
        late(patch, maintain, "drop_copy", lambda: promoted.extend(maintain.promote(orders.log, now=0)))
        assert maintain.drop_unneeded(orders.log) == []
    assert (promoted, live(orders, "second")) == (["second"], {"a": "2", "b": "1"})
