"""lakelog's own suites say no: each of their rules has rows that it refuses, and rows that it lets pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakelog.quality import conditions, engine
from lakelog.quality.folder import shipped
from lakelog.quality.suites import DOORS, suite

if TYPE_CHECKING:
    from lakelog import Lake

DDL = (
    "partition INT, offset BIGINT, version BIGINT, key STRING, value STRING, timestamp TIMESTAMP, tombstone BOOLEAN,"
    " headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
)


@pytest.mark.long
def test_each_rule_of_the_default_suites_refuses_and_lets_pass(lake: Lake) -> None:
    import datetime

    log = lake.create_topic("orders", key="STRING", value="STRING").log
    noon = datetime.datetime(2026, 5, 6, 12)
    good = [(0, 0, None, "a", "1", noon, False, []), (0, 1, None, "b", None, noon, True, [("h", b"")])]
    bad = [(0, 1, None, "b", None, noon, False, [(None, b"")]), (0, -1, None, "a", "1", datetime.datetime(1970, 1, 1), False, None)]
    for rows, outcome in ((good, "passed"), (good + bad, "failed")):
        frame = conditions.flat_rows(log, lake.spark.createDataFrame(rows, DDL), 0)
        for door in DOORS:
            found = engine.run(suite("orders", door, [shipped(door)]).checks, frame, parameters={})
            assert {(one.rule, one.outcome) for one in found if one.outcome != outcome} == set(), door
