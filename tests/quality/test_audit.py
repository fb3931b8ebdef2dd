"""The audit: at one version whatever others write meanwhile, and each of lakelog's own rules at the door that it stands at."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakelog import Lake
from lakelog.quality import audit, engine
from tests.conftest import Clock
from tests.interleaving import late
from tests.quality.folders import figure, rows, stock, write

if TYPE_CHECKING:
    from lakelog import Topic
    from lakelog.quality_results import Verdict

TABLE = [
    rows("positive", "_tombstone OR value > 0"),
    stock("expect_column_max_to_be_between", column="value", max_value=9),
    figure("few", "live", max_value=2),
]


def some(**values: int | None) -> list[dict[str, Any]]:
    return [{"key": key, "value": value, "tombstone": value is None} for key, value in values.items()]


def outcomes(verdict: Verdict) -> dict[str, str]:
    return {one.rule: one.outcome for one in verdict.findings if one.outcome != "passed"}


@pytest.mark.long
def test_a_merge_beside_an_audit_changes_nothing_of_what_it_says(
    lake: Lake, tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looks at the version that it found, whether the other one is there before the rows are read or before the rules are evaluated."""
    topic = lake.create_topic("t", key="STRING", value="INT", config={"quality.suites": write(tmp_path / "suites", "t", table=TABLE)})
    other = lake.topic("t")

    def merges(**values: int | None) -> Callable[[], None]:
        def merge() -> None:
            other.append(some(**values))
            other.merge()

        return merge

    merges(a=1, b=2)()
    late(monkeypatch, audit.silver, "rows", merges(a=-1, b=20, c=3))
    first = topic.check()
    assert (first.version, first.outcome, outcomes(first)) == (1, "passed", {})
    monkeypatch.undo()
    wrong = {"positive": "failed", "column_max_to_be_between(value)": "failed", "few": "failed"}
    late(monkeypatch, engine, "run", merges(a=1, b=2, c=None))
    second = topic.check()
    assert (second.version, second.outcome, outcomes(second)) == (2, "failed", wrong)
    assert {one.rule: one.failing for one in second.findings}["positive"] == 1
    third = topic.check()
    assert (third.version, third.outcome) == (3, "passed")
    clock.tick(1)
    assert topic.status().good_version == 3


APPEND = [rows("any", "true")]


def test_lakelogs_own_rules_of_records_are_counted_and_let_them_in(lake: Lake, tmp_path: Path) -> None:
    """They are warnings: a header without a name, a time before 1990 or after 2200."""
    suites = write(tmp_path / "suites", "t", append=APPEND)
    config = {"quality.suites": suites, "quality.on.failure": "quarantine"}
    topic = lake.create_topic("t", key="STRING", value="INT", config=config)
    frame = lake.spark.sql(
        "SELECT * FROM VALUES ('a', 1, TIMESTAMP '1989-12-31 23:59:59', array(named_struct('key', 'h', 'value', X'00'))),"
        " ('b', 2, TIMESTAMP '1990-01-01', array(named_struct('key', CAST(NULL AS STRING), 'value', X'00'))),"
        " ('c', 3, TIMESTAMP '2200-01-01 00:00:01', array()), ('d', 4, TIMESTAMP '2200-01-01', NULL) AS t (key, value, timestamp, headers)"
    )
    done = topic.append(frame)
    assert (done.records, done.quarantined, done.warnings) == (4, 0, {"header_names": 1, "timestamp_plausible": 2})
    assert topic.append(some(e=5)).warnings == {}


def damage(topic: Topic, statement: str) -> None:
    """Change silver by SQL, as somebody else would."""
    topic.log.spark.sql(statement.format(silver=f"delta.`{topic.log.silver.path}`"))


@pytest.mark.long
def test_a_row_that_somebody_else_wrote_into_the_table_fails_the_rule_that_it_breaks(lake: Lake, tmp_path: Path, clock: Clock) -> None:
    """Without a suite of the topic's too: lakelog's own rules of the table are audited always."""
    for name, statement, rules, keys in (
        ("moved", "UPDATE {silver} SET offset = -1 WHERE key = 'b'", {"position_present"}, set[str]()),
        ("emptied", "UPDATE {silver} SET value = NULL WHERE key = 'b'", {"tombstone_flag"}, set[str]()),
        (
            "doubled", "INSERT INTO {silver} BY NAME SELECT * EXCEPT (offset), offset + 9 AS offset FROM {silver} WHERE key = 'b'",
            {"one_row_per_key"}, {"b"},
        ),
        ("shared", "UPDATE {silver} SET offset = 0 WHERE key IN ('a', 'b')", {"one_row_per_record"}, {"a", "b"}),
    ):  # fmt: skip
        topic = lake.create_topic(name, key="STRING", value="INT")
        topic.append(some(a=1, b=2, c=None))
        topic.merge()
        assert topic.check().ok
        damage(topic, statement)
        verdict = topic.check()
        assert (verdict.outcome, set(outcomes(verdict))) == ("failed", rules), name
        assert {key for one in verdict.of("failed") for key in one.keys} == keys, name
