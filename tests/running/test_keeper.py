"""A lease is prolonged while a step goes on, whatever the step waits for."""

from __future__ import annotations

import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from deltalake import DeltaTable

from lakelog import Lake
from lakelog.native import table as native
from lakelog.running import keeper, lease, steps
from lakelog.running.holder import Holder
from lakelog.running.lease import Lease
from lakelog.running.run import run
from lakelog.running.runs import arrow
from tests.running import runs

NOW = 1_800_000_000_000


class Clock:
    """Milliseconds that go on faster than others."""

    def __init__(self, rate: int) -> None:
        self.begun, self.rate = time.monotonic(), rate

    def __call__(self) -> int:
        return NOW + int((time.monotonic() - self.begun) * 1000) * self.rate


def rows(root: Path) -> list[tuple[int, int]]:
    """(number, until) of each lease that was written, sorted."""
    found = DeltaTable(root / "_lakelog" / "runs").to_pyarrow_table().to_pylist()
    return sorted((json.loads(row["report"])["number"], int(row["ended_at"].timestamp() * 1000)) for row in found)


def keep(root: Path, mine: Lease, *, rate: int = 1, seconds: float = 5.0, leases: int = 99) -> list[tuple[int, int]]:
    """What leases there are when one was kept for some seconds, or until there are so many."""
    with keeper.kept(SimpleNamespace(root=str(root), clock=Clock(rate), spark=None), mine, lease_ms=200):  # type: ignore[arg-type]
        until = time.monotonic() + seconds
        while len(rows(root)) < leases and time.monotonic() < until:
            time.sleep(0.02)
    return rows(root)


def test_a_lease_is_prolonged_until_the_step_ends(tmp_path: Path) -> None:
    root = runs.make(tmp_path / "lake")
    mine = Lease("orders", 3, "r", Holder.here(), NOW, NOW + 200)
    native.append(lease.table_of(str(root)), arrow(mine.row()))
    found = keep(root, mine, seconds=30, leases=4)
    assert [number for number, _ in found] == [3] * len(found) and len(found) >= 4
    assert len({until for _, until in found}) == len(found)
    time.sleep(0.5)
    assert rows(root) == found, "the step has ended"


def test_a_lease_is_not_prolonged_where_another_run_took_the_next_or_the_step_hangs(tmp_path: Path) -> None:
    root = runs.make(tmp_path / "lake")
    mine = Lease("orders", 3, "r", Holder.here(), NOW, NOW + 200)
    for number, topic in ((3, "orders"), (4, "orders"), (9, "other")):
        native.append(lease.table_of(str(root)), arrow(Lease(topic, number, "x", Holder.here(), NOW, NOW + 200).row()))
    assert len(keep(root, mine, seconds=0.5)) == 3
    assert len(keep(root, Lease("other", 9, "r", Holder.here(), NOW, NOW + 200), rate=10 * lease.THERE_MS, seconds=0.5)) == 3


def test_nothing_is_written_here_where_spark_has_its_paths_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lake of the same path on this machine is another one."""
    root = runs.make(tmp_path / "lake")
    monkeypatch.setattr(keeper, "on_this_disk", lambda spark, location: None)
    assert keep(root, Lease("orders", 3, "r", Holder.here(), NOW, NOW + 200), seconds=0.5) == []


def test_a_refusal_says_what_is_known_of_the_other_run() -> None:
    other = Lease("orders", 3, "r", Holder("here", 12), NOW, NOW + 1000)
    assert "until 2027-01-15 08:00:01 UTC if it does not prolong it" in str(lease.under_way(other, NOW, waited=False))
    over = str(lease.under_way(other, NOW + 1000, waited=True))
    assert "prolonged it until 2027-01-15 08:00:01 UTC, and its process is still there" in over and over.endswith("If it hangs, end it.")


@pytest.mark.long
def test_a_step_that_tells_nothing_keeps_the_lease(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = Lake(lake.spark, lake.root)
    lake.create_topic("orders", key="STRING", value="STRING")
    seen: list[int] = []

    def merge(work: Any, tell: Any) -> steps.Outcome:
        until = time.monotonic() + 30
        while len(set(seen)) < 3 and time.monotonic() < until:
            found = lease.newest(lake.spark, lease.table_of(lake.root), "orders")
            assert found is not None and found.number == 1
            seen.append(found.until)
        return steps.merge(work, tell)

    monkeypatch.setitem(steps.STEPS, "merge", merge)
    made = run(lake, "orders", lease_ms=2_000)
    assert (made.exit_code, made.lease) == (0, 1), made.error
    assert len(set(seen)) >= 3 and seen == sorted(seen)
