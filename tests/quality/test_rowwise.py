"""Each row-wise expectation says of every row, as an SQL condition, what Great Expectations says; so do lakelog's own when it runs them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from lakelog.quality import engine, judgement
from lakelog.quality.rowwise import ROW_WISE
from lakelog.quality.suites import suite
from tests.quality.folders import rows, stock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = [
    ("abc", "abc", 1, 2),
    ("x_1", None, 5, 5),
    (None, "y", None, 3),
    ("", "", -7, None),
    ('{"a": 1}', "no", 40, 4),
    (None, None, None, None),
]
CASES: list[tuple[str, dict[str, Any]]] = [
    ("expect_column_values_to_not_be_null", {"column": "a"}),
    ("expect_column_values_to_be_null", {"column": "b"}),
    ("expect_column_values_to_be_in_set", {"column": "a", "value_set": ["abc", ""]}),
    ("expect_column_values_to_not_be_in_set", {"column": "m", "value_set": [5, 40]}),
    ("expect_column_values_to_be_between", {"column": "m", "min_value": 1, "max_value": 40, "strict_max": True}),
    ("expect_column_values_to_match_regex", {"column": "a", "regex": "^[a-z]+$"}),
    ("expect_column_values_to_not_match_regex", {"column": "a", "regex": "[0-9]"}),
    ("expect_column_values_to_match_regex_list", {"column": "a", "regex_list": ["^a", "1$"], "match_on": "any"}),
    ("expect_column_values_to_match_regex_list", {"column": "a", "regex_list": ["a", "c"], "match_on": "all"}),
    ("expect_column_values_to_not_match_regex_list", {"column": "a", "regex_list": ["b", "1"]}),
    ("expect_column_value_lengths_to_equal", {"column": "a", "value": 3}),
    ("expect_column_value_lengths_to_be_between", {"column": "a", "min_value": 1, "max_value": 3}),
    ("expect_column_pair_values_to_be_equal", {"column_A": "a", "column_B": "b", "ignore_row_if": "either_value_is_missing"}),
    ("expect_column_pair_values_a_to_be_greater_than_b", {"column_A": "m", "column_B": "n", "ignore_row_if": "either_value_is_missing"}),
    ("expect_column_pair_values_a_to_be_greater_than_b",
     {"column_A": "m", "column_B": "n", "or_equal": True, "ignore_row_if": "either_value_is_missing"}),
    ("expect_column_values_to_not_be_null", {"column": "b", "row_condition": "m > 1", "condition_parser": "spark"}),
    ("expect_column_values_to_not_be_in_set", {"column": "m", "value_set": [5, None]}),
    ("expect_column_values_to_not_be_in_set", {"column": "m", "value_set": [None]}),
    ("expect_column_pair_values_a_to_be_greater_than_b", {"column_A": "m", "column_B": "n"}),
    ("expect_column_pair_values_a_to_be_greater_than_b", {"column_A": "m", "column_B": "n", "or_equal": True, "ignore_row_if": "neither"}),
    ("expect_column_pair_values_to_be_equal", {"column_A": "a", "column_B": "b", "ignore_row_if": "neither"}),
    # Too many of the rows that it is about break it, but not of all.
    ("expect_column_values_to_be_in_set", {"column": "b", "value_set": ["abc", "y", ""], "mostly": 0.8}),
    ("expect_column_values_to_be_between",
     {"column": "n", "min_value": 3, "mostly": 0.7, "row_condition": "m < 10", "condition_parser": "spark"}),
    ("expect_column_pair_values_a_to_be_greater_than_b",
     {"column_A": "m", "column_B": "n", "ignore_row_if": "either_value_is_missing", "mostly": 0.4}),
]  # fmt: skip
# Of these Great Expectations says nothing with Spark: there they are conditions alone.
CONDITIONS_ALONE = {"expect_column_values_to_match_like_pattern", "expect_column_values_to_be_json_parseable"}


@pytest.mark.long
def test_conditions_and_great_expectations_count_the_same_rows(spark: SparkSession) -> None:
    from pyspark.sql import functions as F

    assert {kind for kind, _ in CASES} | CONDITIONS_ALONE == set(ROW_WISE)
    frame = spark.createDataFrame(ROWS, "a STRING, b STRING, m INT, n INT").coalesce(1)
    documents = [{**stock(kind, **kwargs), "meta": {"name": f"{number} {kind}"}} for number, (kind, kwargs) in enumerate(CASES)]
    documents += [rows("own", "m > 1"), rows("own_mostly", "m > 1", mostly=0.3)]
    checks = suite("t", "table", [("t", json.dumps({"name": "t", "expectations": documents}))]).checks
    counted = frame.agg(*[F.count_if(~F.coalesce(F.expr(check.condition or ""), F.lit(False))) for check in checks]).collect()[0]
    about = frame.agg(*[F.count_if(F.expr(check.applies or "TRUE")) for check in checks]).collect()[0]
    told = engine.run(checks, frame, parameters={})
    assert {one.rule: one.observed for one in told if one.outcome == "broken"} == {}
    assert {one.rule: one.failing for one in told} == dict(zip([check.name for check in checks], counted, strict=True))
    for check, failing, rows_about, one in zip(checks, counted, about, told, strict=True):
        ours = judgement.of_rows(check, checked=rows_about, failing=failing, aside=False)
        assert (check.name, ours.outcome) == (one.rule, one.outcome)
