"""A restore carried out by two: the one that comes late finds it finished, and the topic gone on, before each of its steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakelog.delta import tables
from lakelog.latest.progress import progress
from lakelog.snapshots import restore
from tests.interleaving import late
from tests.snapshots.test_snapshots import live, put, topic

if TYPE_CHECKING:
    from lakelog import Lake


@pytest.mark.soak
def test_records_appended_after_the_restore_are_not_copied_into_the_quarantine(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    orders = topic(lake)
    put(orders, a="1")
    orders.snapshot("s")
    put(orders, b="1")
    late(monkeypatch, restore.quarantine, "put", lambda: put(lake.topic("t"), x="1"))
    orders.restore("s")
    rows = tables.read(lake.spark, orders.log.quarantine).collect()
    assert [(row["key"], row["epoch"]) for row in rows] == [("b", 0)], "x is in the log: a requeue would double it"
    orders.merge()
    assert live(orders) == {"a": "1", "x": "1"}


@pytest.mark.long
@pytest.mark.parametrize("kept", ["as a version", "as a copy"])
def test_merges_after_the_restore_are_not_taken_back(lake: Lake, monkeypatch: pytest.MonkeyPatch, kept: str) -> None:
    orders = topic(lake, **{"snapshot.retention.ms": 1 if kept == "as a copy" else 86_400_000})
    put(orders, a="1")
    orders.snapshot("s", keep="90 days")
    if kept == "as a copy":
        assert orders.maintain().promoted == ["s"]
    put(orders, b="1")
    orders.merge()

    def goes_on() -> None:
        other = lake.topic("t")
        put(other, x="1")
        other.merge()
        other.snapshot("s2", keep="90 days")
        other.delete_snapshot("s")
        other.truncate("s2")

    late(monkeypatch, restore, "_overwrite", goes_on)
    orders.restore("s")
    assert live(orders) == {"a": "1", "x": "1"}
    assert not progress(orders.log).by_hand, "nobody takes the commit taken back for a RESTORE by hand"
    put(orders, y="1")
    orders.merge()
    assert (live(orders), orders.verify().problems) == ({"a": "1", "x": "1", "y": "1"}, [])


@pytest.mark.soak
def test_a_merge_between_the_look_and_the_restore_is_taken_back(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The intent is open: a merge that began before it has no place in the state that is restored."""
    orders = topic(lake)
    put(orders, a="1")
    orders.snapshot("s")
    put(orders, b="1")
    version = orders.merge().version

    def merge_again() -> None:
        lake.spark.sql(f"UPDATE {orders.silver.sql()} SET value = '2' WHERE key = 'a'").collect()

    late(monkeypatch, restore, "_overwrite", merge_again)
    orders.restore("s")
    assert version is not None and int(tables.history(lake.spark, orders.silver, 1)[0]["version"]) > version
    assert (live(orders), orders.status().epoch) == ({"a": "1"}, 1)
