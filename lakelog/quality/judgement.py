"""The decision: what was found of each rule, and whether the run goes on. Values only; no Spark, no Great Expectations.

A rule that could not be evaluated is broken, whatever its severity, and stops the run: nobody knows whether it holds. A critical rule that fails
stops it, unless the records that break it were put aside. Warnings and infos are counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lakelog.errors import GateFailed
from lakelog.quality.suites import Check
from lakelog.quality_results import BROKEN, FAILED, PASSED, QUARANTINED, Finding, Verdict

SHOWN = 5
# What to do where a rule could not be evaluated, before the verb is tried again; and after an audit that failed.
SUITE = "Correct the suite, then {} again: whether the rule holds is not known."
RECORDS = "Correct the records and append them, or restore a snapshot."


def of_rows(check: Check, *, checked: int, failing: int, aside: bool) -> Finding:
    """The finding of a rule about single rows, by counts.

    Args:
        check: the rule.
        checked: rows that were looked at and that it is about; a rule holds for none of them.
        failing: how many break it.
        aside: those that break it were put aside.
    """
    share = (checked - failing) / checked if checked else 1.0
    holds = failing == 0 or (check.mostly < 1 and share >= check.mostly)
    outcome = PASSED if holds else QUARANTINED if aside and check.splits else FAILED
    observed = f"{failing} of {checked} break it" if failing else ""
    if failing and check.mostly < 1:
        observed += f": {share:.4%} satisfy it, {check.mostly:.4%} must"
    return Finding(check.name, check.type, check.severity, outcome, check.description, observed, checked, failing)


def of_figure(check: Check, figures: Mapping[str, float | int | None]) -> Finding:
    """The finding of a rule about a figure; one that nobody knows breaks the rule's evaluation."""
    name, value = str(check.kwargs["figure"]), figures.get(str(check.kwargs["figure"]))
    if value is None:
        return broken(check, f"{name} is not known here")
    least, most = check.kwargs.get("min_value"), check.kwargs.get("max_value")
    holds = (least is None or value >= least) and (most is None or value <= most)
    shown = f"{value:.6g}" if isinstance(value, float) else str(value)
    bounds = " and ".join([f"at least {least}"] * (least is not None) + [f"at most {most}"] * (most is not None))
    observed = f"{name} is {shown}" + ("" if holds else f", it must be {bounds}")
    return Finding(check.name, check.type, check.severity, PASSED if holds else FAILED, check.description, observed)


def broken(check: Check, why: str) -> Finding:
    """The finding of a rule that could not be evaluated, and why."""
    return Finding(check.name, check.type, check.severity, BROKEN, check.description, " ".join(why.split())[:500])


def outcome(findings: Sequence[Finding], *, quarantined: int = 0) -> str:
    """What the run comes to."""
    if any(one.outcome == BROKEN for one in findings):
        return BROKEN
    if any(one.outcome == FAILED and one.severity == "critical" for one in findings):
        return FAILED
    return QUARANTINED if quarantined else PASSED


def refusal(verdict: Verdict, *, what: str, remedy: str, **details: Any) -> GateFailed:
    """The error of a run that was stopped: ``GATE_FAILED``, or ``GATE_BROKEN`` where a rule could not be evaluated.

    Args:
        verdict: what was said.
        what: what was refused, in words.
        remedy: what to do.
        details: more of what the error carries.
    """
    stopped = verdict.of(BROKEN) or [one for one in verdict.of(FAILED) if one.severity == "critical"]
    told = [f"{one.rule} ({one.observed or one.description})" for one in stopped[:SHOWN]]
    more = f" and {len(stopped) - SHOWN} more" if len(stopped) > SHOWN else ""
    verb = "could not be evaluated" if verdict.outcome == BROKEN else "failed"
    keys = sorted({key for one in stopped for key in one.keys})
    named = f" Keys: {', '.join(keys[:20])}{', …' if len(keys) > 20 else ''}." if keys else ""
    return GateFailed(
        f"{verdict.topic}: {what}: {'; '.join(told)}{more} {verb}.{named} {remedy}",
        name="GATE_BROKEN" if verdict.outcome == BROKEN else None,
        run=verdict.run, door=verdict.door, outcome=verdict.outcome, rules=[one.rule for one in stopped], keys=keys, **details,
    )  # fmt: skip


def of_audit(verdict: Verdict) -> GateFailed | None:
    """The error of an audit that did not pass: ``GATE_FAILED``, or ``GATE_BROKEN`` with the rules that could not be evaluated, warnings among them."""
    if verdict.ok:
        return None
    remedy = SUITE.format("check") if verdict.outcome == BROKEN else RECORDS
    what = f"the latest table is as it was, its audit at version {verdict.version} says {verdict.outcome}"
    return refusal(verdict, what=what, remedy=remedy)
