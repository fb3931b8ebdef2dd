"""The starting set of suites: what it proposes is understood, and says what the table shows. No Spark."""

from __future__ import annotations

import json

from lakelog.quality import profile
from lakelog.quality.suites import DOORS, suite

COLUMNS = {"order_id": ("key", "bigint"), "sum": ("value", "int"), **dict.fromkeys(("status", "blob", "no`te"), ("value", "string"))}
FOUND = {
    "rows": 100,
    "order_id": {"nulls": 0, "least": 1.0},
    "status": {"nulls": 0, "short": 3, "long": 7, "distinct": 2, "hex": 100, "texts": ["it's", "new"]},
    "blob": {"nulls": 2, "short": 40, "long": 40, "distinct": 90, "hex": 0},
    "no`te": {"nulls": 50, "short": 0, "long": 9, "distinct": 90, "hex": 100},
    "sum": {"nulls": 0, "least": -4.0},
}


def test_what_is_proposed_is_understood_and_says_what_the_table_shows() -> None:
    documents = profile.proposed("orders", COLUMNS, FOUND)
    suites = {door: suite("orders", door, [(door, json.dumps(documents[door]))]) for door in DOORS}
    assert {one.name: one.condition for one in suites["append"].row_checks} == {
        "order_id_present": "`order_id` IS NOT NULL",
        "order_id_not_negative": "`order_id` IS NULL OR `order_id` >= 0",
        "status_present": "_tombstone OR `status` IS NOT NULL",
        "status_known": "_tombstone OR `status` IS NULL OR `status` IN ('it\\'s', 'new')",
        "blob_form": "_tombstone OR `blob` IS NULL OR `blob` RLIKE '^[0-9a-f]{40}$'",
        "sum_present": "_tombstone OR `sum` IS NOT NULL",
    }
    assert [one.name for one in suites["merge"].checks] == ["few_deletes", "no_drop"]
    assert {one.name for one in suites["table"].checks} == {one.name for one in suites["append"].row_checks}


def test_of_an_empty_table_nothing_is_guessed_beyond_its_types() -> None:
    documents = profile.proposed("orders", COLUMNS, {"rows": 0})
    assert [one["kwargs"]["name"] for one in documents["append"]["expectations"]] == ["key_present", "few_quarantined"]
