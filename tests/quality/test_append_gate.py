"""The gate before the log: refusing, splitting, rules that cannot be evaluated, and what is recorded of it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakelog import Conflict, ExpectedOffsetMismatch, GateFailed, InvalidConfig, InvalidRecords
from lakelog.inputs import staging
from lakelog.quality import quarantine, verdicts
from tests.conftest import Clock
from tests.quality.folders import figure, rows, stock, write
from tests.tables import versions

if TYPE_CHECKING:
    from lakelog import Lake, Topic

RULES = [
    rows("status_known", "_tombstone OR status IN ('new', 'shipped')"),
    stock("expect_column_values_to_be_between", column="amount", min_value=0),
    rows("amount_usual", "_tombstone OR amount < 1000", "warning"),
]


def record(key: int | None, status: str | None = "new", amount: Any = 1, **more: Any) -> dict[str, Any]:
    return {"key": key, "value": {"status": status, "amount": amount}, **more}


FRESH = "SELECT max(_timestamp) FROM {batch} HAVING max(_timestamp) < '2020-01-01'"
GOOD = [record(1), record(2, "shipped", 2000), record(3)]
MIXED = [record(1), record(2, "lost"), record(3, amount=-1), record(None), record(4, "lost", -2), record(5, amount="x"), record(6)]


def topic(lake: Lake, folder: Path, *append: dict[str, Any], name: str = "orders", **config: Any) -> Topic:
    suites = write(folder / "suites", name, append=[*append] or RULES)
    return lake.create_topic(
        name, key="INT", value="status STRING, amount INT", config={"quality.suites": suites, "quality.on.failure": "quarantine", **config}
    )


def aside(found: Topic) -> list[tuple[Any, ...]]:
    listed = found.quarantined().collect()
    return sorted(((row["key"], tuple(row["rules"]), row["reason"].split(":")[0], row["token"]) for row in listed), key=repr)


def test_records_that_break_rules_are_put_aside_and_the_others_flow(lake: Lake, tmp_path: Path, clock: Clock) -> None:
    """Rules and invariants split the batch; a warning is counted and flows; offsets are dense; a repeat answers and puts nothing aside again."""
    orders = topic(lake, tmp_path)
    done = orders.append(MIXED, token="day-1")
    assert (done.offsets, done.records, done.quarantined) == ({0: (0, 2)}, 2, 5)
    between = "column_values_to_be_between(amount)"
    assert aside(orders) == sorted(
        [
            (2, ("status_known",), "GATE_FAILED", "day-1"), (3, (between,), "GATE_FAILED", "day-1"),
            (None, ("INVALID_RECORD",), "INVALID_RECORD", "day-1"),
            (4, ("status_known", between), "GATE_FAILED", "day-1"), (5, ("INVALID_RECORD",), "INVALID_RECORD", "day-1"),
        ], key=repr,
    )  # fmt: skip
    raw = [json.loads(row["raw"]) for row in orders.quarantined().filter("raw IS NOT NULL").collect()]
    assert [one["key"] for one in raw] == [5], "a line that cannot be read is kept as it was; one that can be has its columns"
    before = versions(lake.root, "orders")
    again = orders.append(MIXED, token="day-1")
    assert (again.repeated, again.records, again.quarantined) == (True, 2, 5)
    assert versions(lake.root, "orders") == before
    assert [row["key"] for row in orders.read().collect()] == [1, 6]

    clock.tick(1)
    warned = orders.append(GOOD)
    assert (warned.quarantined, warned.warnings, warned.offsets) == (0, {"amount_usual": 1}, {0: (2, 5)})
    newest, first = orders.verdicts(door="append")[0], orders.verdicts(door="append")[-1]
    assert (newest.run, newest.outcome, newest.version) == (warned.run, "passed", warned.version)
    found = {one.rule: (one.outcome, one.severity, one.failing, one.checked) for one in first.findings}
    assert (first.outcome, first.quarantined, first.records) == ("quarantined", 5, 7)
    assert found["status_known"] == ("quarantined", "critical", 2, 5)
    assert found[between] == ("quarantined", "critical", 2, 5)
    assert found["lakelog_record"] == ("quarantined", "critical", 2, 7)
    assert found["header_names"] == ("passed", "warning", 0, 5), "lakelog's own suite holds beside the topic's"
    assert orders.status().last_verdict is not None and orders.status().last_verdict["outcome"] == "passed"


def test_a_batch_is_refused_as_a_whole_where_that_is_configured_or_it_expects_offsets(lake: Lake, tmp_path: Path) -> None:
    orders = topic(lake, tmp_path)
    orders.append(GOOD)
    before = versions(lake.root, "orders")
    with pytest.raises(GateFailed) as error:
        orders.append(MIXED[:3], expected_offset={0: 3})
    assert (error.value.name, error.value.exit_code) == ("GATE_FAILED", 3)
    assert error.value.details["records"] == [1, 2]
    assert "a batch on expected offsets is let in or refused as a whole" in str(error.value)
    assert [one["reason"] for one in error.value.details["problems"]] == [
        "breaks status_known",
        "breaks column_values_to_be_between(amount)",
    ]
    with pytest.raises(GateFailed):
        orders.append([*GOOD, record(9, "lost", expected_offset=6)])
    with pytest.raises(ExpectedOffsetMismatch):
        orders.append(GOOD, expected_offset={0: 1})
    with pytest.raises(InvalidRecords):
        orders.append([record(None)], expected_offset={0: 3})
    orders.configure({"quality.on.failure": "refuse"})
    before |= {"bronze": before["bronze"] + 1}
    for refused, kind in ((MIXED[:2], GateFailed), (MIXED, InvalidRecords)):
        with pytest.raises(kind):
            orders.append(refused, token="day-2")
    # Of a file the rules are evaluated by the write alone, until that finds a record that breaks one.
    source = str(tmp_path / "orders.parquet")
    frame = lake.spark.sql("SELECT id AS key, named_struct('status', if(id = 2, 'lost', 'new'), 'amount', 2000) AS value FROM range(4)")
    frame.coalesce(1).selectExpr("CAST(key AS INT) AS key", "value").write.parquet(source)
    with pytest.raises(GateFailed) as error:
        orders.append(source)
    assert [one["reason"] for one in error.value.details["problems"]] == ["breaks status_known"]
    assert "with quality.on.failure=quarantine records that break row rules are put aside" in str(error.value)
    assert (versions(lake.root, "orders"), orders.quarantined().count()) == (before, 0)
    done = orders.append(GOOD, token="day-2")
    assert (done.offsets, done.warnings) == ({0: (3, 6)}, {"amount_usual": 1})
    assert [one.outcome for one in orders.verdicts(door="append")].count("passed") == 2


def test_mostly_is_a_share_of_the_rows_that_a_rule_is_about(lake: Lake, tmp_path: Path) -> None:
    """Records without the value are not among them, as with Great Expectations; a NULL in a set is no member."""
    orders = topic(
        lake, tmp_path, stock("expect_column_values_to_be_between", column="amount", min_value=0, mostly=0.9),
        stock("expect_column_values_to_not_be_in_set", column="status", value_set=["lost", None]),
    )  # fmt: skip
    with pytest.raises(GateFailed) as error:
        orders.append([*[record(number, amount=None) for number in range(8)], record(8), record(9, amount=-1)])
    assert "1 of 2 break it" in str(error.value)
    assert orders.append([*[record(number) for number in range(9)], record(9, amount=-1), record(10, "lost")]).quarantined == 1
    assert orders.quarantined().select("rules").collect()[0]["rules"] == ["column_values_to_not_be_in_set(status)"]


@pytest.mark.long
def test_rules_about_the_batch_as_a_whole_refuse_it(lake: Lake, tmp_path: Path, clock: Clock) -> None:
    """Counts, uniqueness, a query and the share put aside: nothing is appended and nothing put aside; an empty batch is no batch of one record."""
    orders = topic(
        lake, tmp_path, *RULES, figure("few_aside", "quarantined_share", max_value=0.2), figure("some", "records", min_value=1),
        {"type": "expect_groups_to_be_unique", "kwargs": {"columns": ["key"], "name": "keys_once"}, "description": "a key once"},
        {"type": "expect_query_to_return_no_rows", "kwargs": {"name": "fresh", "query": FRESH}, "description": "not older than 2020"},
        stock("expect_table_row_count_to_be_between", max_value=4),
    )  # fmt: skip
    before = versions(lake.root, "orders")
    for batch, rules in (
        (MIXED, ["few_aside"]),
        ([], ["some"]),
        ([record(1), record(1)], ["keys_once"]),
        ([record(1, timestamp=1_000_000_000_000)], ["fresh"]),
        ([record(number) for number in range(5)], ["table_row_count_to_be_between"]),
    ):
        with pytest.raises(GateFailed) as error:
            orders.append(batch)
        assert error.value.details["rules"] == rules
        assert "of which no record can be put aside: deliver it anew, or correct the suite" in str(error.value)
    assert versions(lake.root, "orders") == before
    clock.tick(1)
    assert orders.append([record(1), record(2), record(3), record(4), record(5, "lost")]).quarantined == 1
    assert {one.rule: one.outcome for one in orders.verdicts(limit=1)[0].findings}["keys_once"] == "passed"


def test_what_failed_and_passes_is_no_rule_that_is_broken(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    """As where a source did not answer for a moment."""
    orders, stage, tries = topic(lake, tmp_path), staging.staged, []

    def once(*given: Any, **more: Any) -> Any:
        tries.append(more)
        if len(tries) == 1:
            raise RuntimeError("a broker did not answer")
        return stage(*given, **more)

    monkeypatch.setattr(staging, "staged", once)
    assert (orders.append(GOOD).records, len(tries)) == (3, 1 + 1 + 5 + 1), "once more without rules, with each of the five, with all"
    assert [one.outcome for one in orders.verdicts()] == ["passed"]
    tries.clear()
    assert orders.append([*GOOD, record(None)]).quarantined == 1, "a record that is none is put aside, as where nothing failed"


BROKEN = [
    (rows("raises", "CAST(status AS INT) = 1"), "GATE_BROKEN", "CAST_INVALID_INPUT"),
    (rows("column", "statsu = 'new'"), "GATE_BROKEN", "statsu"),
    (rows("number", "amount + 1"), "GATE_BROKEN", "not a condition"),
    (rows("text", "amount >"), "GATE_BROKEN", "PARSE_SYNTAX_ERROR"),
    (rows("all", "count(*) > 0"), "GATE_BROKEN", "GROUP_BY"),
    (rows("others", "count(*) OVER (PARTITION BY key) = 1"), "GATE_BROKEN", "looks at other rows"),
    (rows("fresh", "_timestamp >= NOW() - INTERVAL 30 SECONDS"), "GATE_BROKEN", "NOW gives another result at each evaluation"),
    (rows("past", "_timestamp < current_timestamp"), "GATE_BROKEN", "or check write _now"),
    (rows("coin", "rand (7) < 2"), "GATE_BROKEN", "rand gives another result"),
    (rows("seconds", "unix_timestamp( ) > 0"), "GATE_BROKEN", "unix_timestamp gives another result"),
    (
        stock("expect_column_values_to_not_be_null", column="amount", row_condition="now() > _timestamp", condition_parser="spark"),
        "GATE_BROKEN", "now gives another result",
    ),
    (stock("expect_column_values_to_be_unique", column="sku"), "GATE_BROKEN", "no column `sku`"),
    (stock("expect_column_valeus_to_be_unique", column="key"), "INVALID_CONFIG", "expect_column_values_to_be_unique"),
    (stock("expect_column_values_to_be_unique", colunm="key"), "INVALID_CONFIG", "not understood"),
    (stock("expect_column_values_to_be_increasing", column="key"), "INVALID_CONFIG", "lag() over"),
]  # fmt: skip


def test_a_rule_that_cannot_be_evaluated_is_broken_and_one_that_is_not_known_a_mistake(lake: Lake, tmp_path: Path, clock: Clock) -> None:
    """Whatever its severity: nothing is written but the verdict. So is a suite's folder that is gone a mistake, not an open gate."""
    orders = topic(lake, tmp_path)
    before = versions(lake.root, "orders")
    for rule, name, says in BROKEN:
        write(tmp_path / "suites", "orders", append=[RULES[0], {**rule, "severity": "warning"}])
        clock.tick(1)
        with pytest.raises((GateFailed, InvalidConfig)) as refused:
            orders.append([*GOOD, record(None)])
        assert (refused.value.name, says in str(refused.value)) == (name, True), str(refused.value)
        if name == "GATE_BROKEN":
            assert (refused.value.exit_code, "Correct the suite, then append again" in str(refused.value)) == (3, True)
        else:
            assert f"{tmp_path}/suites/orders/append.json, expectation 2: " in str(refused.value)
    found = orders.verdicts()
    assert ({one.outcome for one in found}, len(found)) == ({"broken"}, sum(name == "GATE_BROKEN" for _, name, _ in BROKEN))
    shutil.rmtree(tmp_path / "suites")
    with pytest.raises(InvalidConfig, match="there is no such folder"):
        orders.append(GOOD)
    assert versions(lake.root, "orders") == before


@pytest.mark.long
@pytest.mark.parametrize("kept", [False, True])
def test_a_batch_of_several_files_and_tasks_is_split_and_numbered_without_gaps(kept: bool, lake: Lake, tmp_path: Path) -> None:
    """Files are read again by the write, a frame of unknown kind is kept: the order is the input's, and every place is known."""
    orders = topic(lake, tmp_path, rows("not_seventh", "key % 7 <> 3"))
    frame = lake.spark.range(1, 1001, 1, 5).selectExpr("CAST(id AS INT) AS key", "'new' AS status", "CAST(id AS INT) AS amount")
    frame = frame.selectExpr("key", "named_struct('status', status, 'amount', amount) AS value")
    if kept:
        orders.append(frame.filter("rand() >= 0"))
    else:
        frame.write.option("maxRecordsPerFile", 60).parquet(str(tmp_path / "in"))
        orders.append(str(tmp_path / "in"), format="parquet")
    good = [key for key in range(1, 1001) if key % 7 != 3]
    held = [row["key"] for row in orders.read().orderBy("offset").collect()]
    assert (sorted(held), orders.ends()) == (good, {0: len(good)})
    found = quarantine.rows(orders.log).select("key", "record", "position").orderBy("record").collect()
    assert sorted(row["key"] for row in found) == [key for key in range(1, 1001) if key % 7 == 3]
    assert len({row["record"] for row in found}) == len(found)
    for row in found:
        # Within a file the order is that of the keys: who stood before is told by the record next to it in the log.
        assert row["position"] == 0 or not 1 < row["key"] <= 1000 or held[row["position"] - 1] == row["key"] - 1 or not kept
        assert row["position"] == row["record"] - sum(other["record"] < row["record"] for other in found)
    assert orders.verify().problems == []


@pytest.mark.long
def test_a_bulk_load_is_judged_and_told_as_an_append_is(lake: Lake, tmp_path: Path, clock: Clock) -> None:
    """Refused, corrected, loaded: the newest verdict is that of what was loaded. Of what is there already nothing is said again."""
    orders = topic(lake, tmp_path)
    for name, records in (("bad", [record(1), record(2, "lost")]), ("good", GOOD)):
        (tmp_path / f"{name}.ndjson").write_text("\n".join(map(json.dumps, records)), encoding="utf-8")
    with pytest.raises(GateFailed):
        orders.load(str(tmp_path / "bad.ndjson"), identity="bad")
    clock.tick(1)
    loaded = orders.load(str(tmp_path / "good.ndjson"), identity="good", chunk=2)
    newest = orders.verdicts()[0]
    assert (loaded.chunks, loaded.warnings, loaded.run) == (2, {"amount_usual": 1}, newest.run)
    told = orders.status().last_verdict
    assert (newest.outcome, newest.version, told and told["run"]) == ("passed", loaded.version, newest.run)
    again = orders.load(str(tmp_path / "good.ndjson"), identity="good")
    assert (again.found, again.run, len(orders.verdicts())) == (2, None, 2)


@pytest.mark.long
def test_a_batch_that_is_written_stands_where_its_verdict_cannot_be_recorded(
    lake: Lake, tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    orders = topic(lake, tmp_path)

    def full(*_: object, **__: object) -> None:
        raise Conflict("Nothing was written; try again.")

    monkeypatch.setattr(verdicts, "record", full)
    done = orders.append(GOOD)
    assert (done.records, done.run, done.warnings) == (3, None, {"amount_usual": 1})
    assert "the batch is written, but its verdict could not be recorded" in caplog.text


@pytest.mark.long
def test_an_expectation_that_answers_nothing_but_whether_it_holds_is_judged_by_that(lake: Lake, tmp_path: Path, clock: Clock) -> None:
    orders = topic(lake, tmp_path, stock("expect_column_to_exist", column="key"))
    assert orders.append(GOOD).records == 3
    orders = topic(lake, tmp_path, stock("expect_column_to_exist", column="sku"), name="others")
    with pytest.raises(GateFailed) as refused:
        orders.append(GOOD)
    assert (refused.value.name, orders.verdicts()[0].outcome) == ("GATE_FAILED", "failed")
