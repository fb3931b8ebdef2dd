"""The conformance cases: KIP-280, KIP-27, KIP-87, KIP-630 and Kafka's cleaner, example by example.

A session with such topics in Kafka's words is only worth its name when each of these says what it says there.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from lakelog import Topic
from lakelog.latest.progress import COUNTS
from tests.conformance import support
from tests.conformance.cases import DEFAULT, Case, rules_of
from tests.conformance.conftest import CHOICE, Choice, parameters

Failures = Callable[[Case], list[str]]


def _passes(case: Case, failures: Failures) -> None:
    """A case that passes with steps passed over has not passed: it waits for them."""
    found = failures(case)
    assert not found, f"{case.id}: {case.says}\n  " + "\n  ".join(found)
    if case.passed_over:
        verbs = ", ".join(f"verb {name}" for name in case.passed_over)
        pytest.skip(f"{case.id} waits: {verbs} (passed over; what it says without holds)")


def test_a_case_is_kept(case: Case, failures: Failures) -> None:
    """The quick suite: at least one case of every rule but those named; with ``--cases`` every case of that folder."""
    _passes(case, failures)


@pytest.mark.long
def test_every_case_is_kept(case: Case, failures: Failures) -> None:
    """So many of the others that every rule rests on a case."""
    _passes(case, failures)


@pytest.mark.soak
def test_every_other_case_is_kept(case: Case, failures: Failures) -> None:
    """All that is left: about two hours in one process. Under another ``--dist`` than ``loadfile``, the project's, each worker would run all cases."""
    _passes(case, failures)


@pytest.fixture
def choice(request: pytest.FixtureRequest) -> Choice:
    """The choice of the project's own cases."""
    chosen = request.config.stash[CHOICE]
    return Choice(None) if chosen.complete else chosen


def test_no_rule_is_without_a_case_but_those_named(choice: Choice) -> None:
    """A rule that no quick case rests on would be broken unnoticed between two long runs; so would one whose cases all came to wait."""
    named = support.RULES_NOT_RUN
    assert rules_of(choice.runnable) == rules_of(choice.all) - named, "run by the suites; take a rule that now runs off the list"
    assert rules_of(choice.quick) == rules_of(choice.runnable) - support.RULES_RUN_LONG, "run by the quick suite"
    assert rules_of([*choice.quick, *choice.long]) == rules_of(choice.runnable), "run by the quick and the long suite"
    assert rules_of(choice.runnable) - rules_of(choice.whole) == support.RULES_RUN_IN_PART


def test_no_case_is_silently_absent(choice: Choice) -> None:
    """Every case that stands in a file is a test of one of the suites, and none waits for anything."""
    assert choice.waiting == {}
    written = [case["id"] for path in sorted(DEFAULT.glob("*.json")) for case in json.loads(path.read_text(encoding="utf-8"))["cases"]]
    suites = [param for suite in ("quick", "long", "soak") for param in parameters(choice, suite)]
    assert sorted(param.id for param in suites) == sorted(written), "each runs in one suite, and what waits is skipped once"
    for param in suites:
        reasons = [mark.kwargs["reason"] for mark in param.marks]
        assert reasons == ([f"{param.id} waits: {', '.join(choice.waiting[param.id])}"] if param.id in choice.waiting else [])


def test_what_cases_wait_for_is_not_there(choice: Choice) -> None:
    """A case that waits for what lakelog can do by now would be skipped for good: say in support.py that it is there."""
    waits = {reason.partition(" (")[0] for reasons in choice.waiting.values() for reason in reasons}
    waits |= {f"verb {name}" for case in choice.runnable for name in case.passed_over}
    there = {f"count {name}" for name in COUNTS}
    there |= {f"verb {name}" for case in choice.all for name in _verbs(case) if hasattr(Topic, support.METHODS.get(name, name) or "no")}
    assert waits & there == set()
    assert {f"verb {name}" for name in support.VERBS} <= there, "what runs can be seen to be there, or this test sees nothing"


def _verbs(case: Case) -> set[str]:
    return {step["do"] for step in case.steps}
