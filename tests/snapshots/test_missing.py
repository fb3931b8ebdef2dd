"""Records deleted from the log by hand, of a topic that has snapshots: what holds them, what is lost, and where readers go back to."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from lakelog import Damaged, LogIncomplete, OffsetOutOfRange
from lakelog.delta.tables import newest_version
from tests.snapshots.test_repaired import back, intent_of, truncated, version_of
from tests.snapshots.test_snapshots import live, put
from tests.templates import made_once

if TYPE_CHECKING:
    from lakelog import Lake, Topic


@made_once
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
        delete(orders, f"offset = {offset} AND control IS NULL")
        assert any("snapshot later" in done for done in orders.repair().done)
        found = orders.validate(reader)
        assert (live(orders), found.answer, found.position and found.position.offsets) == (dict.fromkeys(keys, "1"), *answer)
        assert orders.validate(behind).snapshot == "later", "the log does not give it d any more"
        assert (orders.verify().problems, orders.repair().done) == ([], [])


@pytest.mark.soak
def test_an_operation_that_is_open_is_finished_on_a_log_that_lacks_what_a_snapshot_holds(lake: Lake) -> None:
    orders = with_later(lake)
    put(orders, e="1", f="1")
    orders.merge()
    orders.erase("f")
    back(orders, intent_of(orders))
    delete(orders, "offset = 3 AND control IS NULL")
    repaired = orders.repair()
    assert "the operation erase, which was begun, was finished" in repaired.done
    assert (live(orders), orders.verify().problems) == (dict.fromkeys("abcde", "1"), [])


@pytest.mark.soak
def test_readers_at_the_beginning_of_a_partition_that_was_never_cut_load_the_snapshot_that_holds_what_is_missing(lake: Lake) -> None:
    orders = truncated(lake)
    orders.append([{"key": key, "value": "1", "partition": 1} for key in "pq"])
    orders.snapshot("later")
    put(orders, d="1")
    orders.merge()
    reader = replace(orders.position(), offsets={0: 3, 1: 0})
    assert orders.validate(reader).answer == "VALID"
    lake.spark.sql(f"DELETE FROM {orders.bronze.sql()} WHERE partition = 1 AND offset = 0 AND control IS NULL").collect()
    orders.repair()
    assert (orders.validate(reader).answer, orders.validate(reader).snapshot) == ("SNAPSHOT", "later")
    with pytest.raises(OffsetOutOfRange, match="records below 2 are missing from it"):
        orders.read(since=reader)
    # The partition alone: the log is cut nowhere else after this, and a latest table that is damaged is computed from the snapshot, too.
    lake.spark.sql(f"DELETE FROM {orders.silver.sql()} WHERE key = 'p'").collect()
    assert "brought back to the snapshot later" in orders.repair().done[0]
    assert (live(orders), orders.verify().problems) == (dict.fromkeys("abcdpq", "1"), [])
    with pytest.raises(LogIncomplete, match="lacks records below offset 2, as a repair found"):
        orders.restore("s", log="keep")


@pytest.mark.soak
def test_a_snapshot_whose_last_append_is_gone_from_the_log_holds_it(lake: Lake) -> None:
    """Its batch row went with its records: it is written again, so that merges go on behind it."""
    orders = with_later(lake)
    put(orders, e="1")
    orders.merge()
    delete(orders, "segment >= 0 AND offset = 3")
    repaired = orders.repair()
    assert ("snapshot later" in repaired.done[-1], live(orders)) == (True, dict.fromkeys("abcde", "1"))
    put(orders, f="1")
    assert (orders.merge().inserted, orders.verify().problems, orders.repair().done) == (1, [], [])


@pytest.mark.soak
def test_a_token_of_what_is_missing_is_named(lake: Lake) -> None:
    topic = lake.create_topic("t", key="STRING", value="STRING")
    for name in "abcd":
        topic.append([{"key": name, "value": "1"}], token=f"load-{name}")
    topic.merge()
    delete(topic, "segment >= 0 AND offset = 2")
    told = topic.repair().done[-1]
    assert "what was written under the token load-c is missing in part or whole, and still taken for written" in told
    assert topic.append([{"key": "c", "value": "1"}], token="load-c").repeated
    topic.append([{"key": "c", "value": "1"}], token="again-c")
    topic.merge()
    assert (live(topic), topic.verify().problems) == (dict.fromkeys("abcd", "1"), [])


@pytest.mark.soak
@pytest.mark.parametrize(
    ("where", "to", "keys", "start"),
    [
        ("offset = 3 AND control IS NULL", -1, "abcdef", 6),
        ("offset = 3 AND control IS NULL", 0, "abc", 2),
        ("segment >= 0 AND offset = 5", -1, "abcdef", 6),
        ("segment >= 0 AND offset = 5", 0, "abc", 2),
    ],
)
def test_a_restore_ends_what_was_deleted_by_hand(lake: Lake, where: str, to: int, keys: str, start: int) -> None:
    """A log that was cut and lacks records, and no snapshot: nothing but an earlier version of the latest table gives it again."""
    orders = truncated(lake)
    orders.delete_snapshot("s")
    found = [newest_version(lake.spark, orders.silver)]
    put(orders, d="1")
    put(orders, e="1", f="1")
    orders.merge()
    found.append(newest_version(lake.spark, orders.silver))
    delete(orders, where)
    with pytest.raises(LogIncomplete, match="Restore the topic to a snapshot or an earlier version of silver, with the log truncated"):
        orders.repair()
    with pytest.raises(Damaged, match="another writer changed the log"):
        orders.restore(found[to], log="keep")
    done = orders.restore(found[to])
    assert (done.epoch, live(orders), orders.start().offsets) == (1, dict.fromkeys(keys, "1"), {0: start, 1: 0})
    put(orders, z="1")
    assert (orders.merge().inserted, orders.repair().problems) == (1, [])
    assert [text for text in orders.verify().problems if "no snapshot holds" not in text] == []
    lake.spark.sql(f"UPDATE {orders.bronze.sql()} SET value = 'x' WHERE partition = 0 AND control IS NULL").collect()
    with pytest.raises(Damaged, match="another writer changed the log"):
        orders.restore(found[to])


@pytest.mark.soak
def test_what_was_deleted_at_the_end_of_the_log_is_named(lake: Lake) -> None:
    orders = with_later(lake)
    orders.append([{"key": "e", "value": "1", "partition": 0}], token="load-e")
    orders.snapshot("third")
    delete(orders, "segment >= 0 AND offset = 4")
    assert orders.repair().done[-2:] == [
        "what came behind the end of partition 0, offset 4, is in the snapshots third",
        "what was written under the token load-e is missing in part or whole, and still taken for written: the same again writes nothing. Append"
        " what is missing under another token",
    ]
    assert live(orders) == dict.fromkeys("abcd", "1")
    for token, repeated in (("load-e", True), ("again-e", False)):
        assert orders.append([{"key": "e", "value": "1", "partition": 0}], token=token).repeated == repeated
    assert orders.merge().inserted == 1
    assert (live(orders), orders.verify().problems, orders.repair().done) == (dict.fromkeys("abcde", "1"), [], [])


@pytest.mark.soak
def test_what_is_missing_below_what_was_cleaned_is_known_by_the_latest_table(lake: Lake) -> None:
    """A repair says itself that records may have been removed up to the log's end: the counts of appends tell nothing below that."""
    orders = with_later(lake)
    put(orders, e="1")
    orders.merge()
    delete(orders, "offset = 3 AND control IS NULL")
    orders.repair()
    orders.snapshot("third")
    delete(orders, "offset = 4 AND control IS NULL")
    assert "snapshot third" in orders.repair().done[-1]
    assert (live(orders), orders.verify().problems) == (dict.fromkeys("abcde", "1"), [])

    whole = lake.create_topic("whole", key="STRING", value="STRING")
    for key in "abcd":
        put(whole, **{key: "1"})
    whole.merge()
    for offset in (1, 2):
        delete(whole, f"offset = {offset} AND control IS NULL")
        assert f"records are missing from offset {offset} of partition 0 on: the latest table is without them" in whole.repair().done
    assert (live(whole), whole.verify().problems) == (dict.fromkeys("ad", "1"), [])


@pytest.mark.soak
def test_an_operation_that_is_open_is_finished_on_a_log_that_lacks_what_only_the_latest_table_holds(lake: Lake) -> None:
    orders = truncated(lake)
    orders.delete_snapshot("s")
    put(orders, d="1", e="1", f="1")
    orders.merge()
    readers = [replace(orders.position(), offsets={0: offset, 1: 0}) for offset in (6, 3)]
    orders.erase("f")
    back(orders, intent_of(orders))
    delete(orders, "offset = 3 AND control IS NULL")
    assert "records are missing from partition 0; the latest table was left as it is" in orders.repair().done
    assert (live(orders), [orders.validate(reader).answer for reader in readers]) == (dict.fromkeys("abcde", "1"), ["VALID", "SNAPSHOT"])
    put(orders, g="1")
    assert (orders.merge().inserted, orders.repair().problems) == (1, [])


@pytest.mark.long
def test_a_log_whose_state_was_deleted_by_hand_is_brought_back_by_a_restore_of_it(lake: Lake) -> None:
    orders = truncated(lake)
    version = version_of(orders)
    delete(orders, "offset < 1")
    for verb in (orders.repair, lambda: orders.restore("s"), lambda: put(orders, z="1")):
        with pytest.raises(Damaged, match=f"another writer changed the log: version {version + 1} .*RESTORE to version {version}"):
            verb()
    back(orders, version)
    assert (orders.repair().problems, live(orders)) == ([], dict.fromkeys("abc", "1"))


def delete(topic: Topic, where: str) -> None:
    """Records deleted from partition 0 of the log by hand."""
    topic.spark.sql(f"DELETE FROM {topic.bronze.sql()} WHERE partition = 0 AND {where}").collect()
