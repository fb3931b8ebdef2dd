"""What a requeue would overwrite, whatever decides between two records of a key; and what changes while it is under way."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakelog import GateFailed, Refused
from lakelog.inputs.keys import named
from lakelog.log import bronze
from tests.conftest import Clock
from tests.quality.folders import rows, write
from tests.tables import versions

if TYPE_CHECKING:
    from lakelog import Lake, Topic

AMOUNT = rows("amount", "_tombstone OR amount > 0")


def gated(lake: Lake, folder: Path, rule: dict[str, Any] = AMOUNT, value: str = "amount INT, at INT", **more: Any) -> Topic:
    suites = write(folder / "suites", "t", append=[rule])
    config = {"quality.suites": suites, "quality.on.failure": "quarantine", **more.pop("config", {})}
    return lake.create_topic("t", key="STRING", value=value, config=config, **more)


def record(key: str, amount: int = 1, at: int | None = None) -> dict[str, Any]:
    return {"key": key, "value": {"amount": amount, "at": at}}


def gone(key: str) -> dict[str, Any]:
    return {"key": key, "tombstone": True}


MENDED = {"fix": {"amount": "abs(amount)"}}


@pytest.mark.soak
def test_of_a_log_that_was_restored_what_came_later_is_newer(lake: Lake, tmp_path: Path, clock: Clock) -> None:
    """Offsets say nothing of records of two generations. A refusal of the gate leaves the tables as they were."""
    topic = gated(lake, tmp_path)
    topic.append([record("x")])
    topic.snapshot("s")
    topic.append([record("y0"), record("y1"), record("y2")])
    topic.append([record("k", -1)])
    topic.restore("s")
    topic.append([record("k", 7)])
    assert topic.requeue(key="k", dry_run=True, **MENDED).overwritten == ["k"]
    before = versions(lake.root, "t")
    with pytest.raises(GateFailed):
        topic.requeue(key="k", overwrite=True)
    after = versions(lake.root, "t")
    assert (after["bronze"], topic.quarantined().filter("key = 'k'").count()) == (before["bronze"], 1)
    with pytest.raises(Refused) as error:
        topic.requeue(key="k", **MENDED)
    assert error.value.name == "WOULD_OVERWRITE"


@pytest.mark.long
def test_under_versions_where_the_offset_still_decides(lake: Lake, tmp_path: Path, clock: Clock) -> None:
    """A delete without a version that came later; a record without one; an equal version. A greater version wins by itself."""
    topic = gated(lake, tmp_path, config={"compaction.strategy": "column", "compaction.strategy.column": "at"})
    aside = [record("deleted", -1, 5), record("bare", -1), record("equal", -1, 5), record("late", -1, 5), record("early", -1, 5)]
    topic.append([*aside, record("risen", -1, 5), {"key": "wall", "partition": 7, "tombstone": True}])
    topic.append([gone("deleted"), record("bare"), record("equal", 2, 5), record("late", 2, 4), record("early", 2, 6), gone("risen")])
    topic.append([record("risen", 3, 1), record("wall", 4, 1)])
    topic.merge()
    asked = topic.requeue(dry_run=True, fix={**MENDED["fix"], "_partition": "0"})
    assert asked.overwritten == ["bare", "deleted", "equal", "risen", "wall"]
    with pytest.raises(Refused):
        topic.requeue(key="deleted", **MENDED)
    assert topic.requeue(key="late", **MENDED).overwritten == []
    topic.merge()
    found = {row["key"]: row["amount"] for row in topic.latest().collect()}
    assert found == {"bare": 1, "equal": 2, "late": 1, "early": 2, "risen": 3, "wall": 4}


@pytest.mark.long
def test_a_key_that_is_mended_takes_its_record_to_its_partition(lake: Lake, tmp_path: Path, clock: Clock) -> None:
    """One key has one live row. Then a field is added to the value: what was put aside before can be looked at and requeued."""
    topic = gated(lake, tmp_path, rows("trimmed", "key = trim(key)"), partitions=4)
    elsewhere = (named(lake.spark, " plum", topic.types.key).hash + 1) % 4
    topic.append([record(" apple", 2), {**record(" plum"), "partition": elsewhere}])
    topic.append([record("apple")])
    fix = {"key": "trim(key)"}
    assert topic.requeue(key=" apple", dry_run=True, fix=fix).overwritten == ["apple"]
    topic.configure(value="amount INT, at INT, note STRING")
    assert topic.requeue(key=" apple", dry_run=True, fix={**fix, "note": "concat(key, note)"}).overwritten == ["apple"]
    assert topic.requeue(key=" apple", fix={**fix, "note": "'mended'"}, overwrite=True).records == 1
    assert list(topic.requeue(fix=fix).offsets) == [elsewhere], "it was appended to a partition of its own"
    topic.merge()
    assert {(row["key"], row["amount"], row["note"]) for row in topic.latest().collect()} == {("apple", 2, "mended"), ("plum", 1, None)}


@pytest.mark.soak
def test_a_key_that_is_erased_while_a_requeue_is_under_way_does_not_come_back(
    lake: Lake, tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, other, real = gated(lake, tmp_path), lake.topic("t"), bronze.append
    topic.append([record("alice", -1), record("bob", -1)])

    def erasing(*given: Any, **more: Any) -> Any:
        monkeypatch.setattr(bronze, "append", real)
        other.erase("alice")
        return real(*given, **more)

    monkeypatch.setattr(bronze, "append", erasing)
    assert topic.requeue(**MENDED).records == 1
    assert [row["key"] for row in topic.read().collect()] == ["bob"]
    assert topic.quarantined().count() == 0
