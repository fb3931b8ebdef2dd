"""A topic brought back into order whose log alone does not give the latest table: it was cleaned, or truncated, or a restore cannot be finished."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakelog.delta import tables
from lakelog.errors import Damaged, LogIncomplete, NotFound
from lakelog.log.notes import noted
from lakelog.snapshots import restore
from tests.conftest import NOON
from tests.snapshots.test_snapshots import DAY, live, put, topic
from tests.tables import versions
from tests.templates import made_once

if TYPE_CHECKING:
    from lakelog import Lake, Topic
    from tests.conftest import Clock

LATE = [{"key": "k", "value": "late", "timestamp": NOON - 500, "partition": 0}]


@made_once
def without_tombstone(lake: Lake, name: str = "t") -> Topic:
    """A topic whose key k was deleted; the tombstone has left the log, silver remembers its version."""
    config = {"compaction.strategy": "timestamp", "min.cleanable.dirty.ratio": "0", "delete.retention.ms": str(DAY)}
    orders = lake.create_topic(name, key="STRING", value="STRING", config=config)
    orders.append([{"key": key, "value": "old", "timestamp": NOON - 1000} for key in ("k", "a")])
    orders.append([{"key": "k", "value": None, "timestamp": NOON - 100}])
    orders.roll()
    orders.append([{"key": "b", "value": "1", "timestamp": NOON}])
    orders.merge()
    orders.clean(force=True)
    lake.clock.tick(2 * DAY)  # type: ignore[attr-defined]
    assert orders.clean(force=True).expired == 1
    return orders


def back(orders: Topic, version: int) -> None:
    """Bronze RESTOREd by hand."""
    orders.spark.sql(f"RESTORE TABLE {orders.bronze.sql()} TO VERSION AS OF {version}").collect()


def version_of(orders: Topic) -> int:
    return int(tables.history(orders.spark, orders.bronze, 1)[0]["version"])


def intent_of(orders: Topic, kind: str = "intent") -> int:
    """The version of the newest commit that began an operation."""
    return next(int(row["version"]) for row in tables.history(orders.spark, orders.bronze, 1000) if noted(row).get("lakelog") == kind)


@made_once
def truncated(lake: Lake) -> Topic:
    """A topic whose log begins at the snapshot s, offset 2 of partition 0, and has one record more."""
    orders = topic(lake)
    put(orders, a="1", b="1")
    orders.snapshot("s")
    put(orders, c="1")
    orders.truncate("s")
    orders.merge()
    return orders


@pytest.mark.long
def test_a_repair_of_a_cleaned_log_keeps_deleted_keys_deleted(lake: Lake, clock: Clock) -> None:
    """The log has neither the key nor its tombstone any more: what silver remembers is all there is against a late older record."""
    orders = without_tombstone(lake)
    version = version_of(orders)
    put(orders, x="1")
    back(orders, version)
    repaired = orders.repair()
    assert (repaired.ends, repaired.done[-1]) == ({0: 4}, "the latest table was computed anew")
    orders.append(LATE)
    assert orders.merge().late_after_delete == 1
    assert (live(orders), orders.verify().problems) == ({"a": "old", "b": "1"}, [])


@pytest.mark.soak
def test_a_repair_of_a_log_without_records_keeps_deleted_keys_deleted(lake: Lake, clock: Clock) -> None:
    """All that silver holds is what it remembers: that is not a silver into which nothing was merged."""
    config = {"compaction.strategy": "timestamp", "min.cleanable.dirty.ratio": "0", "delete.retention.ms": str(DAY)}
    orders = lake.create_topic("t", key="STRING", value="STRING", config=config)
    orders.append([{"key": "k", "value": "old", "timestamp": NOON - 1000}])
    orders.append([{"key": "k", "value": None, "timestamp": NOON - 100}])
    orders.roll()
    orders.merge()
    orders.clean(force=True)
    clock.tick(2 * DAY)
    assert orders.clean(force=True).expired == 1
    version = version_of(orders)
    put(orders, x="1")
    back(orders, version)
    assert orders.repair().done[-1] == "the latest table was computed anew"
    for _ in range(2):
        orders.append(LATE)
        merged = orders.merge()
        assert (merged.late_after_delete, merged.inserted) == (1, 0)
    assert (live(orders), orders.verify().problems) == ({}, [])


@pytest.mark.soak
def test_a_repair_says_what_it_cannot_keep(lake: Lake, clock: Clock) -> None:
    orders = without_tombstone(lake)
    lake.spark.sql(f"DELETE FROM {orders.silver.sql()}").collect()
    repaired = orders.repair()
    assert "versions of deleted keys whose tombstones had expired may be forgotten" in repaired.done[-1]
    assert (live(orders), orders.verify().problems) == ({"a": "old", "b": "1"}, [])

    # Where a snapshot remembers them, it is begun with.
    other = without_tombstone(lake, name="other")
    other.snapshot("s")
    lake.spark.sql(f"DELETE FROM {other.silver.sql()}").collect()
    assert other.repair().done == [
        "the latest table was brought back to the snapshot s, and the 0 offsets of the log behind it were merged again"
    ]
    other.append(LATE)
    assert other.merge().late_after_delete == 1
    assert live(other) == {"a": "old", "b": "1"}


@pytest.mark.long
def test_a_truncated_log_that_was_restored_by_hand_is_repaired_from_a_snapshot(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    orders = truncated(lake)
    put(orders, d="1")
    version = version_of(orders)
    put(orders, e="1")
    orders.merge()
    back(orders, version)
    with pytest.raises(Damaged, match="Run verify with repair"):
        orders.merge()
    repaired = orders.repair()
    assert (repaired.epoch, repaired.ends) == (1, {0: 4, 1: 0})
    assert (
        repaired.done[-1] == "the latest table was brought back to the snapshot s, and the 2 offsets of the log behind it were merged again"
    )
    assert (live(orders), orders.verify().problems) == (dict.fromkeys("abcd", "1"), [])
    assert (put(orders, f="1"), orders.merge().inserted, orders.repair().done) == (None, 1, [])

    # Cut off before the latest table is brought back, the next writing verb finishes it.
    back(orders, version_of(orders) - 1)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(restore.past, "restore", cut)
        orders.repair()
    assert orders.status().intent == "restore"
    put(orders, g="1")
    orders.merge()
    assert (live(orders), orders.verify().problems) == (dict.fromkeys("abcdg", "1"), [])


@pytest.mark.long
def test_a_latest_table_of_a_truncated_log_is_repaired_from_a_snapshot_or_the_remedy_is_named(lake: Lake) -> None:
    orders = truncated(lake)
    lake.spark.sql(f"DELETE FROM {orders.silver.sql()}").collect()
    for verb in (lambda: live(orders), orders.merge):
        with pytest.raises(Damaged, match="Run verify with repair"):
            verb()
    with pytest.raises(LogIncomplete, match="run verify with repair"):
        orders.merge(rebuild=True)
    assert (orders.repair().epoch, live(orders)) == (0, dict.fromkeys("abc", "1"))
    assert (orders.verify().problems, orders.repair().done) == ([], [])

    # The whole table is gone, and its versions with it: what cannot be done is refused by name, nothing else is raised.
    assert orders.silver.path is not None
    shutil.rmtree(orders.silver.path)
    before = versions(lake.root, "t")
    with pytest.raises(LogIncomplete, match="no snapshot to begin with.*import an export"):
        orders.repair()
    with pytest.raises(NotFound) as error:
        orders.restore("s")
    assert (error.value.name, versions(lake.root, "t")) == ("SNAPSHOT_NOT_FOUND", before)


@pytest.mark.soak
def test_a_log_that_was_restored_into_a_truncation_begins_a_new_epoch_before_that_is_finished(lake: Lake) -> None:
    orders = truncated(lake)
    put(orders, d="1")
    reader = orders.position()
    back(orders, intent_of(orders))
    with pytest.raises(Damaged, match="Run verify with repair"):
        put(orders, e="1")
    repaired = orders.repair()
    assert (repaired.epoch, repaired.ends, "restored by hand" in repaired.problems[0]) == (1, {0: 3, 1: 0}, True)
    assert repaired.done == [
        "epoch 1 begins at offset 3 of partition 0",
        "epoch 1 begins at offset 0 of partition 1",
        "the operation truncate, which was begun, was finished",
    ]
    put(orders, e="1")
    assert orders.validate(reader).answer == "DIVERGING", "what it read at offset 3 is another record than the log has there"
    orders.merge()
    assert (live(orders), orders.status().intent, orders.verify().problems) == (dict.fromkeys("abce", "1"), None, [])
    assert orders.repair().done == []


@pytest.mark.soak
@pytest.mark.parametrize("operation", ["configure", "erase", "repair"])
def test_a_log_that_was_restored_into_an_operation_is_repaired(lake: Lake, operation: str) -> None:
    orders = lake.create_topic("t", key="STRING", value="n INT")
    orders.append([{"key": key, "value": {"n": 1}} for key in "abc"])
    orders.merge()
    if operation == "configure":
        orders.configure(value="n INT, m INT")
    elif operation == "erase":
        orders.erase("c")
    else:
        orders.append([{"key": "x", "value": {"n": 1}}])
        back(orders, version_of(orders) - 1)
        orders.repair()
    orders.append([{"key": "d", "value": {"n": 1}}])
    orders.merge()
    epoch = orders.status().epoch
    back(orders, intent_of(orders, "repair" if operation == "repair" else "intent"))
    repaired = lake.topic("t").repair()
    assert (repaired.epoch, repaired.ends, lake.topic("t").status().intent) == (epoch + 1, {0: 3}, None)
    orders = lake.topic("t")
    orders.append([{"key": "e", "value": {"n": 1}}])
    orders.merge()
    wanted = ["a", "b", "e"] if operation == "erase" else ["a", "b", "c", "e"]
    assert (sorted(row["key"] for row in orders.latest().collect()), orders.verify().problems) == (wanted, [])
    assert ("m:int" in orders.describe().value) == (operation == "configure")


def test_a_truncated_log_without_a_snapshot_is_not_damage(lake: Lake) -> None:
    """Nothing stands for what is gone, so nothing is proved; what is merged stays as it is."""
    orders = truncated(lake)
    orders.delete_snapshot("s")
    (told,) = orders.repair().done
    assert "no snapshot stands for what is gone: the latest table could not be recomputed" in told
    assert live(orders) == dict.fromkeys("abc", "1")


def cut(*_: Any) -> None:
    raise KeyboardInterrupt


def restore_cut_off(orders: Topic, monkeypatch: pytest.MonkeyPatch, to: str, **how: Any) -> None:
    """Begin a restore that stops before silver, and remove the files of the snapshot that no earlier one has."""

    def files(name: str) -> set[str]:
        version = orders.describe_snapshot(name).version
        return set(orders.spark.sql(f"SELECT * FROM {orders.silver.sql()} VERSION AS OF {version}").filter("bucket >= 0").inputFiles())

    gone = files(to) - (files("s") if to != "s" else set())
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(restore.past, "restore", cut)
        orders.restore(to, **how)
    assert gone
    for address in gone:
        os.remove(Path(address.removeprefix("file:").replace("///", "/")))


@pytest.mark.long
@pytest.mark.parametrize(("how", "keys"), [("truncate", "ab"), ("keep", "abc")])
def test_a_restore_whose_snapshot_is_gone_is_given_up(lake: Lake, monkeypatch: pytest.MonkeyPatch, how: str, keys: str) -> None:
    orders = topic(lake)
    put(orders, a="1", b="1")
    orders.snapshot("s")
    put(orders, c="1", a="2")
    orders.merge()
    restore_cut_off(orders, monkeypatch, "s", log=how)
    for verb in (orders.merge, lambda: put(orders, x="1")):
        with pytest.raises(Damaged, match="cannot be brought back.*Run verify with repair"):
            verb()
    repaired = orders.repair()
    assert repaired.epoch == (1 if how == "truncate" else 0)
    assert repaired.done == ["the restore that was begun was given up: the log stays as it is", "the latest table was computed anew"]
    assert (sorted(live(orders)), orders.status().intent, orders.verify().problems) == (sorted(keys), None, [])
    put(orders, x="1")
    assert orders.merge().inserted == 1


@pytest.mark.soak
def test_a_restore_whose_snapshot_is_gone_gives_way_to_another(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log was truncated, and nothing but another state of silver stands for what is gone."""
    orders = truncated(lake)
    put(orders, d="1")
    orders.snapshot("later")
    put(orders, c="2", d="2", e="1")
    orders.merge()
    restore_cut_off(orders, monkeypatch, "later")
    with pytest.raises(Damaged, match="cannot be brought back"):
        orders.merge()
    assert orders.restore("s").ends == {0: 2, 1: 0}
    assert (live(orders), orders.status().intent, orders.verify().problems) == (dict.fromkeys("ab", "1"), None, [])
    put(orders, x="1")
    assert orders.merge().inserted == 1
