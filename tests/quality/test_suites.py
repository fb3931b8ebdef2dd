"""Suites are read whole or refused: what is understood, and what every mistake in a file is told as. No Spark."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lakelog.errors import InvalidConfig
from lakelog.quality import rowwise, suites
from lakelog.quality.folder import shipped
from lakelog.quality.suites import DOORS, suite
from tests.quality.folders import figure, rows, stock

ROOT = Path(__file__).parent.parent.parent
GOOD = rows("key_present", "_key IS NOT NULL")


def made(*expectations: Any, door: str = "append", **more: Any) -> suites.Suite:
    return suite("orders", door, [("orders/append.json", json.dumps({"name": "s", "expectations": list(expectations), **more}))])


def without(member: str) -> dict[str, Any]:
    return {name: value for name, value in GOOD.items() if name != member}


@pytest.mark.parametrize(
    ("expectation", "says"),
    [
        ({**GOOD, "severity": "fatal"}, "severity 'fatal' must be one of critical, warning, info"),
        (without("description"), "the description is missing"),
        ({**GOOD, "id": "1"}, "has no id"),
        ({**GOOD, "descripton": "x"}, "Did you mean description?"),
        ({**GOOD, "kwargs": {"name": "a", "expresion": "true"}}, "Did you mean expression?"),
        ({**GOOD, "kwargs": {"name": "a"}}, "the argument 'expression' is missing"),
        ({**GOOD, "kwargs": {"name": "", "expression": "true"}}, "name is a text"),
        (rows("a", "true", mostly=2), "mostly=2"),
        (figure("a", "record", max_value=1), "Did you mean records?"),
        (figure("a", "records"), "at least one of them"),
        (stock("expect_column_values_to_be_in_set", column="status", valueset=["a"]), "There is no argument 'valueset'"),
        (stock("expect_column_values_to_be_in_set", column="status"), "'value_set' is missing"),
        (stock("expect_column_values_to_be_between", column="amount"), "both missing"),
        (stock("expect_column_values_to_not_be_null", column="a", row_condition="b", condition_parser="great_expectations"), "row_condition is SQL"),
        ("expect_rows_to_satisfy", 'it is {"type"'),
        ({**GOOD, "meta": "why"}, "meta is an object"),
        ({**GOOD, "meta": ["why"]}, "meta is an object"),
        ({**stock("expect_column_values_to_not_be_null", column="a"), "meta": {"name": 5}}, "the name is a text, not 5"),
        (stock("expect_groups_to_be_unique", columns=["a"], name=[1]), "the name is a text, not [1]"),
        (figure("a", "records", min_value=5, max_value=1), "min_value=5 is greater than max_value=1"),
        (stock("expect_column_values_to_be_between", column="a", min_value=2, max_value=1.5), "min_value=2 is greater than max_value=1.5"),
        (stock("expect_column_value_lengths_to_be_between", column="a", min_value=2, max_value=1), "min_value=2 is greater than max_value=1"),
        (stock("expect_column_values_to_be_between", column="a", min_value=0, strict_min="false"), "strict_min is true or false"),
        (stock("expect_column_values_to_be_between", column="a", max_value=0, strict_max=1), "strict_max is true or false"),
        (stock("expect_column_pair_values_a_to_be_greater_than_b", column_A="a", column_B="b", or_equal="no"), "or_equal is true or false"),
        (stock("expect_column_pair_values_to_be_equal", column_A="a", column_B="b", ignore_row_if=["neither"]), "ignore_row_if is a text"),
        (stock("expect_column_values_to_match_regex", column="a", regex=5), "regex is a text"),
        (stock("expect_column_values_to_not_match_regex", column="a", regex=None), "regex is a text"),
        (stock("expect_column_values_to_match_regex_list", column="a", regex_list="abc"), "regex_list is a list of texts, at least one"),
        (stock("expect_column_values_to_match_regex_list", column="a", regex_list=5), "regex_list is a list of texts, at least one"),
        (stock("expect_column_values_to_not_match_regex_list", column="a", regex_list=[]), "regex_list is a list of texts, at least one"),
        (stock("expect_column_values_to_match_regex_list", column="a", regex_list=["b"], match_on="every"), "match_on is any or all"),
        (stock("expect_column_values_to_match_like_pattern", column="a", like_pattern=5), "like_pattern is a text"),
        (stock("expect_column_values_to_not_be_null", column=None), "column is a text"),
        (stock("expect_column_value_lengths_to_equal", column="a", value="3"), "value is a number"),
    ],
)  # fmt: skip
def test_what_is_not_understood_is_refused_and_named(expectation: Any, says: str) -> None:
    with pytest.raises(InvalidConfig) as error:
        made(GOOD, expectation)
    assert says in str(error.value)
    assert "orders/append.json, expectation 2" in str(error.value)


def test_a_document_that_is_no_suite_is_refused() -> None:
    one = '{"type": "expect_rows_to_satisfy", "kwargs": {"name": "a", "expression": "true"}, "description": "a"'
    bound = '{"type": "expect_figure_to_be_between", "kwargs": {"name": "a", "figure": "records", "max_value": %s}, "description": "a"}'
    for text, says in (
        ("{", "is not JSON"), ("[]", "a suite is"), ('{"name": "s", "expectations": [], "data": 1}', "there is no 'data'"),
        (f'{{"name": "s", "expectations": [{one}}}], "expectations": []}}', "'expectations' stands twice in one object: leave one out"),
        (f'{{"name": "s", "expectations": [{one}, "severity": "critical", "severity": "info"}}]}}', "'severity' stands twice"),
        *((f'{{"name": "s", "expectations": [{bound % value}]}}', f"is not JSON: {value} is no number") for value in ("NaN", "-Infinity", "1e999")),
        ("[" * 100_000, "is nested too deeply"),
    ):  # fmt: skip
        with pytest.raises(InvalidConfig, match=says):
            suite("orders", "append", [("orders/append.json", text)])
    with pytest.raises(InvalidConfig, match="two rules called key_present"):
        made(GOOD, GOOD)
    most = {**stock("expect_column_values_to_be_in_set", column="amount", value_set=[1], mostly=0.9), "meta": {"name": "amount"}}
    with pytest.raises(InvalidConfig, match=r"two rules called amount \(not about\)"):
        made(most, rows("amount (not about)", "amount > 0"))
    with pytest.raises(InvalidConfig, match="61 row rules"):
        made(*[rows(f"rule_{number}", "true") for number in range(61)])


def test_checks_are_rules_about_rows_or_figures_or_left_to_great_expectations() -> None:
    found = made(
        GOOD, rows("warned", "true", "warning"), rows("most", "true", mostly=0.9), figure("some", "records", min_value=1),
        stock("expect_column_values_to_not_be_null", column="status"), stock("expect_table_row_count_to_be_between", min_value=1),
    )  # fmt: skip
    assert [(one.name, one.splits, one.counted) for one in found.checks] == [
        ("key_present", True, True), ("warned", False, True), ("most", False, True), ("some", False, True),
        ("column_values_to_not_be_null(status)", True, True), ("table_row_count_to_be_between", False, False),
    ]  # fmt: skip
    rules = found.rules(quarantine=True)
    assert (len(rules.rules), rules.splitting) == (4, 0b1001)


@pytest.mark.parametrize(
    ("kind", "kwargs", "condition"),
    [
        ("expect_column_values_to_not_be_null", {"column": "a`b"}, "`a``b` IS NOT NULL"),
        ("expect_column_values_to_be_in_set", {"column": "a", "value_set": ["x'", 1, True]}, "`a` IS NULL OR (`a` IN ('x\\'', 1, TRUE))"),
        ("expect_column_values_to_be_between", {"column": "a", "min_value": 1, "strict_min": True}, "`a` IS NULL OR (`a` > 1)"),
        ("expect_column_value_lengths_to_equal", {"column": "a", "value": 40}, "`a` IS NULL OR (length(`a`) = 40)"),
        (
            "expect_column_values_to_match_regex", {"column": "a", "regex": "^x", "row_condition": "b > 1", "condition_parser": "spark"},
            "NOT coalesce(b > 1, FALSE) OR (`a` IS NULL OR (`a` RLIKE '^x'))",
        ),
    ],
)  # fmt: skip
def test_stock_expectations_of_single_rows_are_conditions(kind: str, kwargs: dict[str, Any], condition: str) -> None:
    assert rowwise.condition(kind, kwargs) == condition


def test_the_default_suites_are_understood_and_come_with_lakelog() -> None:
    for door in DOORS:
        where, text = shipped(door)
        assert suite("orders", door, [(where, text)]).checks
        assert json.loads((ROOT / "expectations" / "default" / f"{door}.json").read_text(encoding="utf-8")) == json.loads(text)


def test_great_expectations_is_imported_when_a_suite_has_something_for_it_and_not_before() -> None:
    text = (
        "import sys, lakelog.topic, lakelog.quality.engine as engine\n"
        "from lakelog.quality import suites\n"
        "engine.require_understood([])\n"
        "assert engine.run([], None, parameters={}) == []\n"
        "assert not [name for name in sys.modules if name.startswith('great_expectations')]\n"
    )
    subprocess.run([sys.executable, "-c", text], cwd=ROOT, check=True)


IMPORTED = """
import sys
from pathlib import Path
from lakelog import Lake, local_session
from tests.quality.folders import rows, stock, write

def loaded():
    return sorted({name.split(".")[0] for name in sys.modules if name.startswith("great_expectations")})

folder = Path(sys.argv[1])
spark = local_session("imports", master="local[1]", memory="1g", config={"spark.sql.shuffle.partitions": "1"})
lake = Lake(spark, str(folder / "lake"))
free = lake.create_topic("free", key="STRING", value="INT")
suites = write(folder / "suites", "gated", append=[rows("positive", "value > 0")], merge=[rows("any", "true")])
config = {"quality.suites": suites, "quality.on.failure": "quarantine"}
gated = lake.create_topic("gated", key="STRING", value="INT", config=config)
for topic in (free, gated):
    topic.append([{"key": "a", "value": 1}])
    topic.merge()
print("ROWS", gated.append([{"key": "b", "value": 2}, {"key": "c", "value": -1}]).quarantined, loaded())
write(folder / "suites", "gated", append=[stock("expect_column_max_to_be_between", column="value", max_value=9)])
print("SETS", gated.append([{"key": "c", "value": 1}]).records, loaded())
spark.stop()
"""


@pytest.mark.long
def test_an_append_without_rules_about_the_whole_imports_nothing_of_great_expectations(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", IMPORTED, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=False)
    said = [line for line in done.stdout.splitlines() if line.startswith(("ROWS", "SETS"))]
    assert said == ["ROWS 1 []", "SETS 1 ['great_expectations']"], done.stdout + done.stderr
