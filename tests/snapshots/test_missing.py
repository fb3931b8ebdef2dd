"""Records deleted from the log by hand, of a topic that has snapshots: what holds them, what is lost, and where readers go back to."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.snapshots.test_repaired import back, intent_of, truncated
from tests.snapshots.test_snapshots import live, put

if TYPE_CHECKING:
    from lakelog import Lake, Topic


def with_later(lake: Lake) -> Topic:
    """A topic whose log begins at offset 2, with the snapshots s, which ends there, and later, which ends at 4 and holds d."""
    orders = truncated(lake)
    put(orders, d="1")
    orders.merge()
    orders.snapshot("later")
    return orders


@pytest.mark.long
def test_readers_go_back_to_a_hole_unless_a_snapshot_holds_what_is_missing(lake: Lake) -> None:
    orders = with_later(lake)
    behind = replace(orders.position(), offsets={0: 3, 1: 0})
    for offset, more, keys, answer in ((3, "e", "abcde", ("VALID", None)), (6, "fg", "abcdef", ("DIVERGING", {0: 6, 1: 0}))):
        for key in more:
            put(orders, **{key: "1"})
        orders.merge()
        reader = orders.position()
        lake.spark.sql(f"DELETE FROM {orders.bronze.sql()} WHERE partition = 0 AND offset = {offset} AND control IS NULL").collect()
        assert any("snapshot later" in done for done in orders.repair().done)
        found = orders.validate(reader)
        assert (live(orders), found.answer, found.position and found.position.offsets) == (dict.fromkeys(keys, "1"), *answer)
        assert orders.validate(behind).snapshot == "later", "the log does not give it d any more"
        assert (orders.verify().problems, orders.repair().done) == ([], [])


@pytest.mark.long
def test_an_operation_that_is_open_is_finished_on_a_log_that_lacks_what_a_snapshot_holds(lake: Lake) -> None:
    orders = with_later(lake)
    put(orders, e="1", f="1")
    orders.merge()
    orders.erase("f")
    back(orders, intent_of(orders))
    lake.spark.sql(f"DELETE FROM {orders.bronze.sql()} WHERE partition = 0 AND offset = 3 AND control IS NULL").collect()
    repaired = orders.repair()
    assert "the operation erase, which was begun, was finished" in repaired.done
    assert (live(orders), orders.verify().problems) == (dict.fromkeys("abcde", "1"), [])
