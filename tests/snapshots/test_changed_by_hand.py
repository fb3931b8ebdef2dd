"""Tables brought back or lost by hand, beside snapshots and epochs: nothing is lost, shown or numbered again without a word."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from lakelog.delta import tables
from lakelog.errors import Damaged, FencedEpoch, NotFound
from lakelog.operations import erase
from tests.snapshots.test_snapshots import DAY, live, put, topic
from tests.tables import versions

if TYPE_CHECKING:
    from lakelog import Lake
    from tests.conftest import Clock


@pytest.mark.soak
def test_a_latest_table_from_before_the_log_begins_is_damaged(lake: Lake) -> None:
    """What was merged into it since, and left the log, is in no record that a merge could read."""
    orders = topic(lake)
    put(orders, a="1")
    early = orders.merge().version
    put(orders, b="1", c="1")
    orders.merge()
    orders.snapshot("s")
    orders.truncate("s")
    put(orders, d="1")
    lake.spark.sql(f"RESTORE TABLE {orders.silver.sql()} TO VERSION AS OF {early}").collect()
    before = versions(lake.root, "t")
    with pytest.raises(Damaged, match=r"silver holds partition 0 up to offset 1, but the log begins from offset 3 on.*Restore the topic"):
        orders.merge()
    assert versions(lake.root, "t") == before
    orders.restore("s", log="keep")
    orders.merge()
    assert live(orders) == {"a": "1", "b": "1", "c": "1", "d": "1"}


@pytest.mark.long
def test_a_snapshot_whose_table_was_lost_is_not_taken_for_another_state(lake: Lake) -> None:
    """A latest table computed anew counts its versions from 0 again, so that the snapshot's number is another state's."""
    orders = topic(lake)
    put(orders, a="1")
    orders.snapshot("good", keep="90 days")
    put(orders, b="1")
    orders.merge()
    assert orders.silver.path is not None
    shutil.rmtree(orders.silver.path)
    orders.merge(rebuild=True)
    for key in ("c", "d"):
        put(orders, **{key: "1"})
        orders.merge()
    before = versions(lake.root, "t")
    shown = lambda: lake.sql("SELECT * FROM t", at="good").collect()  # noqa: E731
    for verb in (lambda: orders.latest("good").collect(), shown, lambda: orders.restore("good"), lambda: orders.truncate("good")):
        with pytest.raises(NotFound, match="the snapshot good is lost") as error:
            verb()
        assert error.value.name == "SNAPSHOT_NOT_FOUND"
    assert (versions(lake.root, "t"), len(live(orders))) == (before, 4)
    assert orders.maintain().promoted == []
    assert orders.erase("d").removed["log"] == 1, "nothing of the lost state is read, and nothing stops the erasure"
    assert len(live(orders)) == 3
    orders.delete_snapshot("good")
    assert orders.snapshot("good").created


@pytest.mark.soak
def test_a_latest_table_computed_anew_after_it_was_lost_is_a_new_snapshot(lake: Lake) -> None:
    """How often it was computed anew before is lost with it: that must not come to the same number."""
    orders = topic(lake)
    put(orders, a="1")
    orders.merge()
    orders.merge(rebuild=True)
    for key in ("b", "c"):
        put(orders, **{key: "1"})
        orders.merge()
    old = orders.snapshot("s", keep="90 days")
    assert orders.silver.path is not None
    shutil.rmtree(orders.silver.path)
    orders.merge(rebuild=True)
    new = orders.snapshot("s")
    assert (new.created, new.id, new.kept_until) == (True, old.id, old.kept_until) and new.version != old.version
    assert live(orders, "s") == {"a": "1", "b": "1", "c": "1"}
    assert not orders.snapshot().created
    assert len(orders.snapshots()) == 1


@pytest.mark.long
@pytest.mark.parametrize("how", ["repair", "restore"])
def test_an_epoch_is_never_given_a_second_time(lake: Lake, how: str) -> None:
    """The log is brought back by hand to before the restore that began an epoch; a reader and a writer know that epoch."""
    orders = topic(lake)
    put(orders, a="1")
    orders.snapshot("s")
    put(orders, b="old", c="old")
    orders.merge()
    orders.snapshot("later")
    version = int(tables.history(lake.spark, orders.bronze, 1)[0]["version"])
    assert orders.restore("s").epoch == 1
    put(orders, x="of epoch 1")
    there = orders.position()
    lake.spark.sql(f"RESTORE TABLE {orders.bronze.sql()} TO VERSION AS OF {version}").collect()
    assert (orders.repair() if how == "repair" else orders.restore("later")).epoch == 2
    put(orders, y="of epoch 2")
    assert orders.validate(there).answer == "SNAPSHOT", "what it read at offset 1 is another record than the log has there"
    with pytest.raises(FencedEpoch):
        orders.append([{"key": "z", "value": "1"}], epoch=1)


@pytest.mark.soak
@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_an_erasure_does_not_hide_that_the_latest_table_was_brought_back(
    lake: Lake, clock: Clock, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """k was deleted, and no delete of it is in the log any more: a latest table from before would show it for ever."""
    orders = topic(lake, min_cleanable_dirty_ratio="0", delete_retention_ms=str(DAY))
    put(orders, k="old", a="1")
    early = orders.merge().version
    put(orders, k=None)
    orders.roll()
    put(orders, b="1")
    orders.merge()
    orders.clean(force=True)
    clock.tick(2 * DAY)
    assert orders.clean(force=True).expired == 1
    kept = orders.snapshot("s")

    def brought_back(*_: object, **__: object) -> None:
        lake.spark.sql(f"RESTORE TABLE {orders.silver.sql()} TO VERSION AS OF {early}").collect()

    if when == "before":
        brought_back()
        before = versions(lake.root, "t")
        with pytest.raises(Damaged, match="holds every delete from offset"):
            orders.erase("a")
        assert versions(lake.root, "t") == before
    else:
        snapshots = erase._snapshots
        monkeypatch.setattr(erase, "_snapshots", lambda *more: (snapshots(*more), brought_back()))
        orders.erase("a")
    with pytest.raises(Damaged, match="holds every delete from offset"):
        orders.merge()
    orders.restore(kept.name)
    orders.merge()
    assert live(orders) == {"b": "1"} | ({"a": "1"} if when == "before" else {})
