"""The gate before the latest table, the audit of it, and the verdicts that are kept."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakelog import Conflict, GateFailed, InvalidConfig, InvalidRequest, NotFound, Refused
from lakelog.quality import verdicts
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


def unique(name: str, *columns: str) -> dict[str, Any]:
    return {"type": "expect_groups_to_be_unique", "kwargs": {"name": name, "columns": [*columns]}, "description": name}


def query(name: str, text: str) -> dict[str, Any]:
    return {"type": "expect_query_to_return_no_rows", "kwargs": {"name": name, "query": text}, "description": name}


# Of the table 0, 1, 2, 3 three are deleted, 3 loses its amount, 9 comes: what a suite says of that merge, and the keys that it names.
FAILING: list[tuple[dict[str, Any], str, list[str]]] = [
    (figure("few_lost", "drop_share", max_value=0.4), "few_lost (drop_share is 0.5, it must be at most 0.4) failed", ["0", "1", "2"]),
    (figure("many_before", "live_before", min_value=5), "many_before (live_before is 4, it must be at least 5) failed", []),
    (figure("many_after", "live_after", min_value=3, max_value=9), "live_after is 2, it must be at least 3 and at most 9", ["0", "1", "2"]),
    (figure("few_records", "records", max_value=4), "records is 5, it must be at most 4", []),
    (figure("few_new", "inserted", max_value=0), "inserted is 1, it must be at most 0", []),
    (rows("amount_there", "_tombstone OR amount IS NOT NULL"), "amount_there (1 of 5 break it) failed. Keys: 3. ", ["3"]),
    (
        stock("expect_column_values_to_not_be_null", column="amount", mostly=0.6, row_condition="NOT _tombstone", condition_parser="spark"),
        "1 of 2 break it: 50.0000% satisfy it, 60.0000% must", ["3"],
    ),
    (
        unique("status_once", "status"),
        'status_once (2 groups have several rows: {"lakelog_rows":3}, {"status":"same","lakelog_rows":2})', ["0", "2", "3", "9"],
    ),
    (query("cheap", "SELECT _key, amount FROM {batch} WHERE amount > 10"), 'cheap (the query gives 1 rows: {"_key":9,"amount":50}) failed', ["9"]),
    (query("cheap_sum", "SELECT sum(amount) FROM {batch} HAVING sum(amount) > 10"), "cheap_sum (the query gives 1 rows", []),
    (stock("expect_column_max_to_be_between", column="amount", max_value=10), "column_max_to_be_between(amount) (50) failed", []),
]  # fmt: skip
BROKEN = [
    (rows("raises", "CAST(status AS INT) > 0"), "CAST_INVALID_INPUT"),
    (query("query_raises", "SELECT * FROM {batch} WHERE CAST(status AS INT) > 0"), "CAST_INVALID_INPUT"),
    (rows("column", "statsu = 'new'"), "statsu"),
    (stock("expect_column_max_to_be_between", column="sku", max_value=1), "there is no column `sku`; there are key, status, amount"),
    (rows("others", "count(*) OVER (PARTITION BY status) = 1"), "it looks at other rows"),
]


@pytest.mark.long
def test_each_rule_that_fails_at_the_merge_door_leaves_silver_and_says_what_and_which_keys(
    lake: Lake, tmp_path: Path, clock: Clock
) -> None:
    suites = write(tmp_path / "suites", "orders", merge=[])
    orders = lake.create_topic("orders", key="INT", value="status STRING, amount INT", config={"quality.suites": suites})
    orders.append([record(number) for number in range(4)])
    orders.merge()
    orders.append([gone(0), gone(1), gone(2), record(3, "same", None), record(9, "same", 50)])
    before, runs = versions(lake.root, "orders"), []
    for rule, says, keys in FAILING:
        write(tmp_path / "suites", "orders", merge=[rule])
        with pytest.raises(GateFailed) as error:
            orders.merge()
        refused, run = error.value, error.value.details["run"]
        assert (refused.name, refused.exit_code, len(refused.details["rules"])) == ("GATE_FAILED", 3, 1)
        assert says in str(refused), str(refused)
        assert refused.details["keys"] == keys, says
        assert str(refused).startswith("orders: the latest table is as it was: ")
        assert str(refused).endswith(f"Append corrected records and merge again, or accept it: merge(accept='{run}', reason=…).")
        runs.append(run)
    for rule, says in BROKEN:
        # Whatever its severity, and whatever else fails.
        write(tmp_path / "suites", "orders", merge=[FAILING[0][0], {**rule, "severity": "warning"}])
        with pytest.raises(GateFailed) as error:
            orders.merge()
        refused, name = error.value, rule["kwargs"].get("name", "column_max_to_be_between(sku)")
        assert (refused.name, refused.exit_code, refused.details["rules"]) == ("GATE_BROKEN", 3, [name])
        assert says in str(refused), str(refused)
        assert str(refused).endswith("Correct the suite, then merge again: whether the rule holds is not known.")
        with pytest.raises(Refused) as unknown:
            orders.merge(accept=refused.details["run"], reason="it will be right")
        assert unknown.value.name == "NOT_ACCEPTABLE"
    for kind, near in (
        ("expect_column_max_to_be_betwen", "expect_column_max_to_be_between"),
        ("expect_rows_to_satisfiy", "expect_rows_to_satisfy"),
    ):
        write(tmp_path / "suites", "orders", merge=[FAILING[0][0], stock(kind, column="amount", max_value=1)])
        with pytest.raises(
            InvalidConfig, match=rf"merge\.json, expectation 2: there is no expectation '{kind}'\. Did you mean {near}"
        ) as mistake:
            orders.merge()
        assert mistake.value.exit_code == 2
    assert versions(lake.root, "orders") == before
    assert {one.run for one in orders.verdicts(door="merge") if one.outcome == "failed"} == set(runs)
    # Every one of these rules holds, or its failure is a warning: the merge goes on from where silver was.
    write(tmp_path / "suites", "orders", merge=[{**rule, "severity": "warning"} for rule, _, _ in FAILING])
    merged = orders.merge()
    assert (merged.version, merged.from_offsets, merged.to_offsets) == (before["silver"] + 1, {0: 4}, {0: 9})
    verdict = next(one for one in orders.verdicts(door="merge") if one.run == merged.run)
    assert (verdict.outcome, len(verdict.of("failed"))) == ("passed", len(FAILING))


@pytest.mark.long
def test_a_rebuild_that_would_lose_keys_is_refused_and_names_them(lake: Lake, tmp_path: Path, clock: Clock) -> None:
    """Under another rule older deletes win; a rebuild is compared with the table that it would replace."""
    suites = write(tmp_path / "suites", "orders", merge=[figure("few_lost", "drop_share", max_value=0.5)])
    config = {"quality.suites": suites, "compaction.strategy": "timestamp"}
    orders = lake.create_topic("orders", key="INT", value="status STRING, amount INT", config=config)
    orders.append([{**record(number), "timestamp": clock.now} for number in range(4)])
    orders.append([{**gone(number), "timestamp": clock.now - 1000} for number in (3, 1, 2)])
    orders.merge()
    assert orders.latest().count() == 4
    orders.configure({"compaction.strategy": "offset"})
    before = versions(lake.root, "orders")
    clock.tick(1)
    with pytest.raises(GateFailed) as error:
        orders.merge(rebuild=True)
    assert (error.value.name, error.value.exit_code, error.value.details["keys"]) == ("GATE_FAILED", 3, ["1", "2", "3"])
    assert "few_lost (drop_share is 0.75, it must be at most 0.5) failed. Keys: 1, 2, 3. " in str(error.value)
    assert versions(lake.root, "orders") == before
    write(
        tmp_path / "suites",
        "orders",
        merge=[figure("few_deletes", "deleted_share", max_value=0.5), figure("kept", "live_after", min_value=2)],
    )
    with pytest.raises(GateFailed) as error:
        orders.merge(rebuild=True)
    assert (error.value.details["rules"], error.value.details["keys"]) == (["few_deletes", "kept"], ["1", "2", "3"])
    # Records of the missing keys, and the rebuild goes through.
    orders.append([record(1), record(2)])
    assert orders.merge(rebuild=True).version == before["silver"] + 1
    assert sorted(row["key"] for row in orders.latest().collect()) == [0, 1, 2]


def test_a_run_is_accepted_for_the_very_records_that_it_refused(
    lake: Lake, tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a restore the same offsets are other records'."""
    suites = write(tmp_path / "suites", "orders", merge=MERGE)
    orders = lake.create_topic("orders", key="INT", value="status STRING, amount INT", config={"quality.suites": suites})
    orders.append([record(number) for number in range(4)])
    orders.snapshot("s")
    orders.append([gone(0), gone(1), gone(2)])
    with pytest.raises(GateFailed) as error:
        orders.merge()
    # Nor for what the same rule refuses since it was edited.
    write(tmp_path / "suites", "orders", merge=[figure("few_deletes", "deleted", max_value=0)])
    clock.tick(1)
    with pytest.raises(GateFailed, match="did not refuse just this: other rules fail, or the suite was edited"):
        orders.merge(accept=error.value.details["run"], reason="these three")
    write(tmp_path / "suites", "orders", merge=MERGE)
    orders.restore("s")
    orders.append([gone(0), gone(1), gone(3)])
    with pytest.raises(Refused) as outdated:
        orders.merge(accept=error.value.details["run"], reason="these three")
    assert outdated.value.name == "RUN_OUTDATED"
    assert orders.latest().count() == 4

    def full(*_: object, **__: object) -> None:
        raise Conflict("Nothing was written; try again.")

    orders.append([record(0), record(1), record(3)])
    monkeypatch.setattr(verdicts, "record", full)
    done = orders.merge()
    assert (done.records, done.run) == (6, None), "a merge that is written stands where its verdict cannot be recorded"


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
