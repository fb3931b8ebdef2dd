"""Records deleted from the log by hand, of a topic that has snapshots: what holds them, what is lost, and where readers go back to."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.snapshots.test_repaired import truncated
from tests.snapshots.test_snapshots import live, put

if TYPE_CHECKING:
    from lakelog import Lake


@pytest.mark.long
def test_readers_go_back_to_a_hole_unless_a_snapshot_holds_what_is_missing(lake: Lake) -> None:
    orders = truncated(lake)
    put(orders, d="1")
    orders.merge()
    orders.snapshot("later")
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
