"""The conformance cases: KIP-280, KIP-27, KIP-87, KIP-630 and Kafka's cleaner, example by example.

A session with such topics in Kafka's words is only worth its name when each of these says what it says there.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.conformance.cases import Case, rules_of
from tests.conformance.conftest import CHOICE

Failures = Callable[[Case], list[str]]


def _passes(case: Case, failures: Failures) -> None:
    found = failures(case)
    assert not found, f"{case.id}: {case.says}\n  " + "\n  ".join(found)


def test_a_case_is_kept(case: Case, failures: Failures) -> None:
    """The quick suite: at least one case of every rule; with ``--cases`` every case of that folder."""
    _passes(case, failures)


@pytest.mark.long
def test_every_case_is_kept(case: Case, failures: Failures) -> None:
    """All that can run."""
    _passes(case, failures)


def test_the_quick_suite_has_a_case_of_every_rule(request: pytest.FixtureRequest) -> None:
    """A rule that no quick case rests on would be broken unnoticed between two long runs."""
    choice = request.config.stash[CHOICE]
    assert rules_of(choice.quick) == rules_of(choice.runnable)


def test_no_case_is_silently_absent(request: pytest.FixtureRequest) -> None:
    """Every case either runs or names what it waits for."""
    choice = request.config.stash[CHOICE]
    assert {case.id for case in choice.runnable} | set(choice.waiting) == {case.id for case in choice.all}
    assert all(choice.waiting.values())
