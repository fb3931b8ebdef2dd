"""A name that is taken is refused before the merge whose result it is for; one that is not is given."""

from __future__ import annotations

import pytest

from lakelog import Lake
from lakelog.errors import Refused
from lakelog.snapshots import registry
from tests.interleaving import late
from tests.snapshots.test_snapshots import put, topic
from tests.tables import versions


def test_a_name_is_looked_for_in_the_topic_as_it_is_now(lake: Lake) -> None:
    """A handle from before may know of another log of that name, or of none."""
    old = topic(lake)
    put(old, a="1")
    lake.delete_topic("t")
    orders = lake.create_topic("t", key="STRING", value="STRING")
    put(orders, a="2")
    assert orders.snapshot("n").id == "0@1"
    put(orders, a="3")
    before = versions(lake.root, "t")
    with pytest.raises(Refused, match=r"the name n is taken by the snapshot 0@1 ") as taken:
        old.snapshot("n")
    assert (taken.value.expected, taken.value.actual) == ("0@2", "0@1")
    assert versions(lake.root, "t") == before


def test_a_name_of_as_many_records_of_another_epoch_is_taken(lake: Lake) -> None:
    orders = topic(lake)
    put(orders, a="1")
    orders.snapshot("one")
    put(orders, a="2")
    orders.snapshot("two")
    orders.restore("one")
    for value, ids in ((None, ("0@1,0", "0@2,0")), ("3", ("1@2,0", "0@2,0"))):
        if value is not None:
            put(orders, a=value)
        before = versions(lake.root, "t")
        with pytest.raises(Refused) as taken:
            orders.snapshot("two")
        assert (taken.value.expected, taken.value.actual) == ids
        assert versions(lake.root, "t") == before
        # What the name would have been of, once and again, though a partition without records was in no epoch's merge.
        assert [orders.snapshot(f"free{value}").id for _ in range(2)] == [ids[0]] * 2


def test_who_comes_second_to_one_state_is_answered(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another one appends, merges and takes the name between two looks: the state that it names is the one that was asked for."""
    orders = topic(lake)
    put(orders, a="1")
    orders.merge()

    def another() -> None:
        mine = lake.topic("t")
        put(mine, a="2")
        assert mine.snapshot("raced").id == "0@2,0"

    late(monkeypatch, registry, "entries", another)
    found = orders.snapshot("raced")
    assert (found.id, found.created) == ("0@2,0", False)
