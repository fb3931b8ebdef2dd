"""A lake of format 1, written by lakelog 0.1: read as it is, never written half, upgraded whatever cuts it off."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakelog import Lake
from lakelog.delta import table_properties
from lakelog.errors import InvalidConfig
from lakelog.latest.progress import stored
from lakelog.operations import upgrade
from tests.tables import unpacked, versions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakelog import Topic
    from tests.conftest import Clock

ARCHIVE = Path(__file__).parent.parent / "data" / "format-1.tar.gz"
TOPICS = ("orders", "prices", "empty")


@pytest.fixture
def old(spark: SparkSession, tmp_path: Path, clock: Clock) -> Lake:
    """The lake: orders (column rule, three partitions, two merges, an unmerged record), prices (header rule, three buckets), an empty topic."""
    unpacked(ARCHIVE, tmp_path)
    return Lake(spark, str(tmp_path / "lake"), clock=clock)


def order(number: int, status: str | None, at: str) -> dict[str, Any]:
    return {"key": {"order_id": number, "region": "eu"}, "value": {"status": status, "updated_at": at}, "partition": number % 3}


def statuses(topic: Topic) -> dict[tuple[int, str], str]:
    return {(row["order_id"], row["region"]): row["status"] for row in topic.latest().collect()}


def test_a_lake_of_format_1_is_read_as_it_is_and_not_written(old: Lake) -> None:
    before = {name: versions(old.root, name) for name in TOPICS}
    orders = old.topic("orders")
    status = orders.status()
    assert (status.records, status.live, status.tombstones, status.unmerged_records, status.epoch) == (13, 8, 1, 1, 0)
    assert (orders.verify().problems, orders.ends(), statuses(orders)[1, "eu"]) == ([], {0: 5, 1: 4, 2: 4}, "shipped")
    assert orders.latest(at=1).count() == 9
    assert old.topics() == sorted(TOPICS)
    writes = (
        lambda: orders.append([order(1, "x", "2027-01-01T00:00:00Z")]),
        orders.merge,
        lambda: orders.merge(rebuild=True),
        lambda: orders.configure({"segment.ms": 5}),
        orders.repair,
        lambda: old.configure({"message.max.bytes": 5}),
        lambda: old.create_topic("new"),
    )
    for write in writes:
        with pytest.raises(InvalidConfig, match="has format 1.*lake upgrade") as refused:
            write()
        assert refused.value.name == "UNSUPPORTED_VERSION"
    assert {name: versions(old.root, name) for name in TOPICS} == before


@pytest.mark.long
def test_an_upgrade_that_is_cut_off_anywhere_goes_on(old: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    class Cut(Exception):
        pass

    steps = [(upgrade.state, "change_state"), (upgrade.table_properties, "change"), (upgrade.upsert, "write_progress")]
    for module, name in steps:
        write, done = getattr(module, name), []

        def once(*given: Any, write: Any = write, done: list[int] = done, **more: Any) -> Any:
            if done:
                raise Cut
            done.append(1)
            return write(*given, **more)

        with monkeypatch.context() as patch, pytest.raises(Cut):
            patch.setattr(module, name, once)
            old.upgrade()
        assert old.topic("orders").verify().problems == [], "it can be read all the time"
    assert old.upgrade().done
    assert old.upgrade().done == []
    for name in TOPICS:
        topic = old.topic(name)
        kept = [table_properties.read(old.spark, table)["lakelog.format"] for table in (topic.bronze, topic.silver)]
        assert kept == ["2", "2"]
    assert set(stored(old.spark, old.topic("orders").silver).batches) == {0, 1, 2}
    orders, prices = old.topic("orders"), old.topic("prices")
    assert orders.append([order(1, "again", "2026-02-01T00:00:00Z")], token="first").repeated, "tokens are remembered"
    orders.append([order(1, "back", "2026-02-01T00:00:00Z"), order(2, "never", "2025-01-01T00:00:00Z")])
    merged = orders.merge()
    assert (merged.records, merged.inserted, merged.updated, merged.late) == (3, 2, 1, 0)
    prices.merge()
    assert {row["key"]: row["value"] for row in prices.latest().collect()} == {"apple": 11}
    assert [topic.verify().problems for topic in (orders, prices, old.topic("empty"))] == [[], [], []]
    assert old.topic("empty").merge().version is None
