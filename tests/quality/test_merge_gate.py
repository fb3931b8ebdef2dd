"""The gate before the latest table, the audit of it, and the verdicts that are kept."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakelog import GateFailed, InvalidRequest, NotFound, Refused
from tests.conftest import Clock
from tests.quality.folders import figure, rows, stock, write
from tests.tables import versions

if TYPE_CHECKING:
    from lakelog import Lake

MERGE = [
    figure("few_deletes", "deleted_share", max_value=0.5),
    rows("mostly_amounts", "_tombstone OR amount IS NOT NULL", mostly=0.5),
]
TABLE = [
    rows("amount_positive", "_tombstone OR amount > 0"),
    stock("expect_column_values_to_be_in_set", "warning", column="status", value_set=["new"]),
    stock("expect_column_values_to_be_between", column="amount", min_value=0, max_value=1000),
    figure("some_rows", "live", min_value=1),
]


def record(key: int, status: str = "new", amount: int | None = 1) -> dict[str, Any]:
    return {"key": key, "value": {"status": status, "amount": amount}}


def gone(key: int) -> dict[str, Any]:
    return {"key": key, "tombstone": True}


def test_a_merge_that_fails_leaves_silver_and_goes_on_after_the_fix_or_is_accepted(lake: Lake, tmp_path: Path, clock: Clock) -> None:
    suites = write(tmp_path / "suites", "orders", merge=MERGE)
    orders = lake.create_topic("orders", key="INT", value="status STRING, amount INT", config={"quality.suites": suites})
    orders.append([record(number) for number in range(4)])
    assert orders.merge().run == orders.verdicts()[0].run
    orders.append([gone(0), gone(1), gone(2), record(9, "new")])
    before = versions(lake.root, "orders")
    clock.tick(1)
    with pytest.raises(GateFailed) as error:
        orders.merge()
    assert (error.value.details["rules"], error.value.details["keys"]) == (["few_deletes"], ["0", "1", "2"])
    assert versions(lake.root, "orders") == before
    failed = orders.verdicts(limit=1)[0]
    assert (failed.run, failed.outcome, failed.from_offsets, failed.to_offsets) == (error.value.details["run"], "failed", {0: 4}, {0: 8})

    # Corrected records, and the next merge goes on from where silver is.
    orders.append([record(1), record(2)])
    merged = orders.merge()
    assert (merged.from_offsets, merged.to_offsets, merged.deleted) == ({0: 4}, {0: 10}, 1)
    with pytest.raises(Refused) as outdated:
        orders.merge(accept=failed.run, reason="as ordered")
    assert outdated.value.name == "RUN_OUTDATED"

    # Two that lose their amounts, then all that is deleted: the first rule holds for a share, the second run is accepted.
    orders.append([gone(1), gone(2), gone(3), gone(9)])
    clock.tick(1)
    with pytest.raises(GateFailed) as error:
        orders.merge()
    run = error.value.details["run"]
    orders.append([record(7, amount=None)])
    with pytest.raises(InvalidRequest):
        orders.merge(accept=run)
    with pytest.raises(NotFound):
        orders.merge(accept="nothing", reason="x")
    accepted = orders.merge(accept=run[:8], reason="the shop closed")
    assert (accepted.to_offsets, accepted.remaining) == ({0: 14}, 1), "exactly what was refused, not what came after it"
    clock.tick(1)
    with pytest.raises(GateFailed) as error:
        orders.merge()
    assert error.value.details["rules"] == ["mostly_amounts"]
    verdict = next(one for one in orders.verdicts() if one.outcome == "accepted")
    assert (verdict.accepts, verdict.reason, verdict.version) == (run, "the shop closed", accepted.version)


def test_a_run_is_accepted_for_the_very_records_that_it_refused(lake: Lake, tmp_path: Path, clock: Clock) -> None:
    """After a restore the same offsets are other records'."""
    suites = write(tmp_path / "suites", "orders", merge=MERGE)
    orders = lake.create_topic("orders", key="INT", value="status STRING, amount INT", config={"quality.suites": suites})
    orders.append([record(number) for number in range(4)])
    orders.snapshot("s")
    orders.append([gone(0), gone(1), gone(2)])
    with pytest.raises(GateFailed) as error:
        orders.merge()
    orders.restore("s")
    orders.append([gone(0), gone(1), gone(3)])
    with pytest.raises(Refused) as outdated:
        orders.merge(accept=error.value.details["run"], reason="these three")
    assert outdated.value.name == "RUN_OUTDATED"
    assert orders.latest().count() == 4


def test_the_audit_runs_the_table_suite_at_a_version_and_is_shown_by_status(lake: Lake, tmp_path: Path, clock: Clock) -> None:
    suites = write(tmp_path / "suites", "orders", table=TABLE)
    orders = lake.create_topic("orders", key="INT", value="status STRING, amount INT", config={"quality.suites": suites})
    assert orders.status().last_verdict is None
    orders.append([record(1), record(2, "shipped"), gone(3)])
    orders.merge()
    good = orders.check()
    found = {one.rule: (one.outcome, one.failing) for one in good.findings}
    assert (good.outcome, good.version, good.ok) == ("passed", 1, True)
    assert found["amount_positive"] == ("passed", 0)
    assert found["column_values_to_be_in_set(status)"] == ("failed", 1)
    assert (found["one_row_per_key"], good.warnings()) == (("passed", 0), {"column_values_to_be_in_set(status)": 1})
    clock.tick(1)
    orders.append([record(4, amount=-5)])
    orders.merge()
    bad = orders.check(page=str(tmp_path / "page.html"))
    assert (bad.outcome, bad.version) == ("failed", 2)
    assert {one.rule for one in bad.of("failed")} == {
        "amount_positive", "column_values_to_be_in_set(status)", "column_values_to_be_between(amount)",
    }  # fmt: skip
    status = orders.status()
    assert status.last_verdict is not None
    assert (status.last_verdict["outcome"], status.last_verdict["version"], status.good_version) == ("failed", 2, 1)
    page = (tmp_path / "page.html").read_text()
    assert page.count("class='mark failed'") >= 4 and "amount_positive" in page
    write(
        tmp_path / "suites",
        "orders",
        table=[rows("no_such", "sku > 1"), stock("expect_column_max_to_be_between", column="sku", max_value=1)],
    )
    clock.tick(1)
    broken = orders.check()
    assert (broken.outcome, [one.rule for one in broken.of("broken")]) == ("broken", ["no_such", "column_max_to_be_between(sku)"])
