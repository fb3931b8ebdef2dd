"""What holds of every topic of the races: no append was blind. And what races need."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lakelog import Lake
from lakelog.delta import table_properties
from tests.tables import append_notes


@pytest.fixture(autouse=True)
def never_blind(request: pytest.FixtureRequest) -> Iterator[None]:
    """At the end of a test, a look at the commits of all appends of its lake's topics."""
    if "lake" not in request.fixturenames:
        yield
        return
    lake: Lake = request.getfixturevalue("lake")
    yield
    logs = [bronze for bronze in Path(lake.root).glob("*/bronze") if bronze.parent.name != "_lakelog"]
    assert sum(len(append_notes(bronze)) for bronze in logs) > 0, "this test appended nothing"


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is at it: what was cut off is not waited for."""
    monkeypatch.setattr(table_properties, "PATIENCE", 0)
