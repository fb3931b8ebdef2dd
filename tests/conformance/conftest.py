"""The `--cases` option, the choice of cases per suite, and the summary that names every case that is partial or waits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conformance import support
from tests.conformance.cases import DEFAULT, Case, covering, read, waits_for
from tests.conformance.runner import run
from tests.conformance.script import cost


def pytest_addoption(parser: pytest.Parser) -> None:
    """``pytest tests/conformance --cases DIR``: run every case of another folder."""
    parser.addoption("--cases", metavar="DIR", default=None, help="conformance cases to run instead of the project's own (all of them)")


class Choice:
    """The cases of a run: those that wait, those of the quick suite, and all that can run."""

    def __init__(self, folder: str | None) -> None:
        self.all = read(Path(folder) if folder else DEFAULT)
        self.waiting = {case.id: waits_for(case) for case in self.all if waits_for(case)}
        self.runnable = [case for case in self.all if case.id not in self.waiting]
        self.whole = [case for case in self.runnable if not case.passed_over]
        light = [case for case in self.runnable if not {step["do"] for step in case.steps} & support.LONG_VERBS]
        self.quick = self.runnable if folder else covering(light, cost)
        others = [case for case in self.runnable if case not in self.quick]
        self.long = covering(others, cost, beside=self.quick)
        self.rest = [case for case in others if case not in self.long]
        self.complete = folder is not None


CHOICE = pytest.StashKey[Choice]()
RAN = pytest.StashKey[list[str]]()


def _choice(config: pytest.Config) -> Choice:
    if CHOICE not in config.stash:
        config.stash[CHOICE] = Choice(config.getoption("--cases", default=None))
    return config.stash[CHOICE]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test per case."""
    if "case" in metafunc.fixturenames:
        suite = next((name for name in ("long", "soak") if metafunc.definition.get_closest_marker(name)), "quick")
        metafunc.parametrize("case", parameters(_choice(metafunc.config), suite))


def parameters(choice: Choice, suite: str) -> list[Any]:
    """The cases of a suite, as pytest takes them: quick is a subset with every rule that needs no long step, and every case that waits, as a skip
    that says for what; with long every rule rests on a case; soak is all the others that can run."""
    waiting = [case for case in choice.all if case.id in choice.waiting]
    cases = {"quick": [*choice.quick, *waiting], "long": choice.long, "soak": choice.rest}[suite]
    params = []
    for case in cases:
        reasons = choice.waiting.get(case.id)
        marks = [pytest.mark.skip(reason=f"{case.id} waits: {', '.join(reasons)}")] if reasons else []
        params.append(pytest.param(case, id=case.id, marks=marks))
    return params


@pytest.fixture(scope="session")
def failures(request: pytest.FixtureRequest) -> Iterator[Callable[[Case], list[str]]]:
    """A case's failures. The first question runs all selected cases, side by side in as few topics as possible."""
    spark = request.getfixturevalue("spark")
    root = request.getfixturevalue("tmp_path_factory").mktemp("conformance")
    waiting = _choice(request.config).waiting
    selected = {item.callspec.params["case"].id: item.callspec.params["case"] for item in request.session.items if _is_case(item)}
    outcome: dict[str, list[str]] = {}

    def of(case: Case) -> list[str]:
        if not outcome:
            cases = [chosen for chosen in selected.values() if chosen.id not in waiting]
            outcome.update(run(spark, str(root / "lake"), cases))
            request.config.stash[RAN] = [case.id for case in cases]
        return outcome[case.id]

    yield of


def _is_case(item: pytest.Item) -> bool:
    return hasattr(item, "callspec") and isinstance(item.callspec.params.get("case"), Case)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A process that runs a share of the tests tells the one that sums up which cases it ran."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["conformance_ran"] = session.config.stash.get(RAN, [])


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take what it tells."""
    ran = getattr(node, "workeroutput", {}).get("conformance_ran")
    if ran:
        node.config.stash[RAN] = ran


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Name the cases that ran in part and so wait, and those that did not run, with what they wait for: none is silently absent."""
    ran = config.stash.get(RAN, None)
    if ran is None:
        return
    choice = _choice(config)
    partial = [case for case in choice.runnable if case.id in ran and case.passed_over]
    terminalreporter.section("conformance cases")
    left = len(choice.runnable) - len(ran)
    terminalreporter.write_line(
        f"{len(ran) - len(partial)} ran, {len(partial)} ran in part and wait, {left} more can run (quick, long and soak), {len(choice.waiting)} wait"
    )
    by_reason: dict[str, list[str]] = {}
    for case in partial:
        verbs = " and ".join(f"verb {name}" for name in case.passed_over)
        by_reason.setdefault(f"{verbs} (passed over, the log after it not compared)", []).append(case.id)
    for name, reasons in choice.waiting.items():
        by_reason.setdefault(", ".join(reasons), []).append(name)
    for reason, names in sorted(by_reason.items()):
        terminalreporter.write_line(f"waiting for {reason}: {' '.join(names)}")
