"""The decision as values: what a finding is, what a run comes to, what its refusal says, and the page that shows it."""

from __future__ import annotations

import datetime
from typing import Any

from lakelog.quality import judgement, pages
from lakelog.quality.suites import Check
from lakelog.quality_results import Finding, Verdict

NOW = datetime.datetime(2026, 5, 6, 12, tzinfo=datetime.timezone.utc)


def check(name: str = "rule", severity: str = "critical", mostly: float = 1.0, **kwargs: Any) -> Check:
    return Check(name, "expect_rows_to_satisfy", kwargs, severity, f"{name} holds", "true", mostly)


def verdict(*findings: Finding, outcome: str | None = None, door: str = "append") -> Verdict:
    return Verdict("f" * 32, "orders", door, outcome or judgement.outcome(findings), list(findings), "d" * 64, NOW, 7)


def test_rows_that_break_a_rule_fail_it_are_put_aside_or_are_few_enough() -> None:
    assert judgement.of_rows(check(), checked=10, failing=0, aside=False).outcome == "passed"
    assert judgement.of_rows(check(), checked=0, failing=0, aside=False).outcome == "passed"
    assert judgement.of_rows(check(), checked=10, failing=1, aside=False).outcome == "failed"
    assert judgement.of_rows(check(), checked=10, failing=1, aside=True).outcome == "quarantined"
    assert judgement.of_rows(check(severity="warning"), checked=10, failing=1, aside=True).outcome == "failed"
    assert judgement.of_rows(check(mostly=0.9), checked=10, failing=1, aside=True).outcome == "passed"
    assert judgement.of_rows(check(mostly=0.9), checked=10, failing=2, aside=True).outcome == "failed"


def test_a_figure_lies_between_its_bounds_and_one_that_nobody_knows_is_broken() -> None:
    few = check(figure="deleted", max_value=3)
    assert judgement.of_figure(few, {"deleted": 3}).outcome == "passed"
    failed = judgement.of_figure(few, {"deleted": 4})
    assert (failed.outcome, failed.observed) == ("failed", "deleted is 4, it must be at most 3")
    assert judgement.of_figure(few, {}).outcome == "broken"


def test_a_broken_rule_stops_a_run_whatever_its_severity_and_a_warning_does_not() -> None:
    good, warned = judgement.of_rows(check("a"), checked=1, failing=0, aside=False), check("w", "warning")
    assert judgement.outcome([good]) == "passed"
    assert judgement.outcome([good, judgement.of_rows(warned, checked=1, failing=1, aside=False)]) == "passed"
    assert judgement.outcome([good], quarantined=1) == "quarantined"
    assert judgement.outcome([good, judgement.of_rows(check(), checked=1, failing=1, aside=False)]) == "failed"
    assert judgement.outcome([good, judgement.broken(warned, "why")]) == "broken"


def test_the_refusal_names_rules_and_keys_and_exits_with_3() -> None:
    finding = Finding("few_deletes", "expect_figure_to_be_between", "critical", "failed", "few", "deleted is 4", keys=["a", "b"])
    error = judgement.refusal(verdict(finding), what="the latest table is as it was", remedy="Do this.")
    assert (error.name, error.exit_code, error.details["rules"], error.details["keys"]) == ("GATE_FAILED", 3, ["few_deletes"], ["a", "b"])
    assert str(error) == "orders: the latest table is as it was: few_deletes (deleted is 4) failed. Keys: a, b. Do this."
    assert judgement.refusal(verdict(judgement.broken(check(), "no column")), what="", remedy="").name == "GATE_BROKEN"


def test_a_page_shows_severities_outcomes_and_counts_and_needs_no_network() -> None:
    bad = Finding("<b>", "expect_rows_to_satisfy", "critical", "failed", 'it\'s "so"', "5 of 9 break it", 9, 5, ["k<1>"])
    text = pages.page("orders", [verdict(bad, judgement.of_rows(check("fine", "warning"), checked=9, failing=0, aside=False))])
    marks = [f"class='mark {word}'>{word}" for word in ("failed", "critical", "warning")]
    for told in (*marks, ">9<", ">5<", "&lt;b&gt;", "k&lt;1&gt;"):
        assert told in text
    assert "://" not in text and "<script" not in text and "src=" not in text
    assert "There are no verdicts yet." in pages.page("orders", [])
