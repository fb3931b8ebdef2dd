"""Kept means kept: time passes, old files are removed, and what has a name that is kept can still be read and restored.

Delta goes by the times of files and commits, so these are set back; lakelog goes by its clock.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakelog import Lake
from lakelog.delta import table_properties
from lakelog.errors import NotFound
from tests.snapshots.test_snapshots import DAY, live, put, topic

if TYPE_CHECKING:
    from lakelog import Topic
    from tests.conftest import Clock


def data_files(topic: Topic) -> set[str]:
    """Silver's data files, live and old."""
    return {str(path.name) for path in Path(topic.silver.path or "").rglob("*.parquet") if "_delta_log" not in path.parts}


def aged(lake: Lake, clock: Clock, days: int) -> None:
    """So many days pass: every file and commit of the lake is that much older, and the clock goes on."""
    clock.tick(days * DAY)
    for folder, _, names in os.walk(lake.root):
        for name in names:
            path = os.path.join(folder, name)
            seen = os.stat(path).st_mtime - days * 86_400
            os.utime(path, (seen, seen))
    # Another process comes: this one's session remembers the times of commits.
    lake.spark.catalog.clearCache()
    table_properties._known.clear()


def test_what_is_kept_outlives_vacuum_and_what_is_not_is_gone(lake: Lake, clock: Clock) -> None:
    orders = topic(lake, **{"snapshot.retention.ms": DAY})
    put(orders, a="1")
    orders.snapshot("kept", keep="90 days")
    put(orders, a="2")
    version = orders.snapshot().version
    put(orders, a="3")
    orders.snapshot("brief", keep="2 days")
    put(orders, a="4")
    orders.snapshot()
    put(orders, a="5")
    orders.merge()
    aged(lake, clock, 30)
    # Whoever runs a VACUUM of their own: the table's retention covers the name that is kept longest.
    lake.spark.sql(f"VACUUM {orders.silver.sql()}")
    assert live(lake.topic("t"), "kept") == {"a": "1"}

    before = data_files(orders)
    done = orders.maintain()
    assert sorted(done.expired) == ["0@2,0", "brief"]
    assert sorted(done.promoted) == ["0@4,0", "kept"], "what outlives the retention gets a table of its own; the newest stays in any case"
    assert data_files(orders) < before
    stored = table_properties.read(lake.spark, orders.silver) or {}
    assert stored["delta.deletedFileRetentionDuration"] == "interval 86400 seconds"
    shown = orders.describe_snapshot("kept")
    assert (shown.form, shown.table is not None) == ("table", True)
    assert [one.id for one in orders.snapshots()] == ["0@1,0", "0@4,0"]
    assert (live(orders, "kept"), live(orders, "0@4,0"), live(orders)) == ({"a": "1"}, {"a": "4"}, {"a": "5"})
    assert {row["value"] for row in lake.sql("SELECT value FROM t", at="kept").collect()} == {"1"}
    assert [row["change"] for row in orders.diff("kept").collect()] == ["changed"]
    for gone in ("0@2,0", "brief", version):
        with pytest.raises(NotFound) as missing:
            orders.latest(gone).collect()
        assert missing.value.name == "SNAPSHOT_NOT_FOUND"
    again = orders.maintain()
    assert (again.expired, again.promoted, again.dropped) == ([], [], [])

    orders.restore("kept")
    assert (live(orders), orders.status().epoch, orders.verify().problems) == ({"a": "1"}, 1, [])
    put(orders, b="1")
    orders.merge()
    assert live(orders) == {"a": "1", "b": "1"}

    orders.delete_snapshot("kept")
    copies = [name for name in os.listdir(Path(lake.root, "t")) if name.startswith("snapshot_")]
    assert len(copies) == 2
    assert len(orders.maintain().dropped) == 1
    assert len([name for name in os.listdir(Path(lake.root, "t")) if name.startswith("snapshot_")]) == 1
