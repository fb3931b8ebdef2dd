"""The verbs that read the latest table read the topic's configuration first: another process may have changed it since the topic was opened."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lakelog.latest import status, views
from lakelog.latest_table import LatestTable
from lakelog.log import bronze
from lakelog.snapshots import point


class Opened(LatestTable):
    """A topic that knows what was so when it was opened, until it looks again."""

    name = "t"
    known: Any = "old"

    @property
    def log(self) -> Any:
        return self.known

    @property
    def types(self) -> Any:
        return self.known

    def refresh(self) -> None:
        self.known = "new"


class Frame:
    """Rows that tell by what they were read."""

    def __init__(self, *read_by: Any) -> None:
        self.read_by = read_by

    def toArrow(self) -> Frame:
        return self

    def createOrReplaceTempView(self, name: str) -> None:
        VIEWS[name] = self.read_by


VIEWS: dict[str, Any] = {}
VERBS: list[Callable[[Opened], Any]] = [
    lambda topic: topic.rows(), lambda topic: topic.rows(3), lambda topic: topic.latest(), lambda topic: topic.latest(3),
    lambda topic: topic.deleted(), lambda topic: topic.deleted("kept"), lambda topic: topic.to_arrow(), lambda topic: topic.to_arrow(3),
]  # fmt: skip


@pytest.fixture(autouse=True)
def frames(monkeypatch: pytest.MonkeyPatch) -> None:
    def sound(log: Any) -> None:
        assert log == "new"

    def shown(rows: Frame, types: Any) -> Frame:
        return Frame(*rows.read_by, types)

    monkeypatch.setattr(status, "require_sound", sound)
    monkeypatch.setattr(point, "rows", lambda log, at: Frame(log))
    monkeypatch.setattr(bronze, "records", Frame)
    for name in ("live", "deleted"):
        monkeypatch.setattr(views, name, shown)


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_goes_by_what_is_so_now(verb: Callable[[Opened], Frame]) -> None:
    assert set(verb(Opened()).read_by) == {"new"}


def test_views_are_of_what_is_so_now() -> None:
    VIEWS.clear()
    Opened().register()
    assert VIEWS == {"t": ("new", "new"), "t_deleted": ("new", "new"), "t_log": ("new",)}
