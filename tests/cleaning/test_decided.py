"""What a removal of records and a reader are told by the log's state alone: no Spark."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from lakelog.cleaning import retention
from lakelog.log import state
from lakelog.log.tail import LogEnd
from lakelog.model.log_state import TRUNCATE, PartitionState
from lakelog.model.positions import SNAPSHOT, VALID
from lakelog.model.segments import Tail
from lakelog.operations import truncate
from lakelog.reader_results import Position
from lakelog.readers import validate


def ending(*states: PartitionState) -> LogEnd:
    """A log whose partitions all end at offset 9."""
    return LogEnd(1, {one.partition: replace(Tail.empty(one), end=9) for one in states}, {})


def test_the_commit_that_moves_a_log_start_holds_the_intent_and_what_follows_is_a_truncation(monkeypatch: pytest.MonkeyPatch) -> None:
    ends, done = [ending(PartitionState.first(0, "b"), PartitionState.first(1, "b"))], list[Any]()

    def change(log: Any, end: LogEnd, states: dict[int, PartitionState], kind: str, *, now: int) -> bool:
        ends.append(replace(end, tails={index: replace(tail, state=states[index]) for index, tail in end.tails.items()}))
        return True

    monkeypatch.setattr(state, "change_state", change)
    monkeypatch.setattr(state, "require_writable", lambda log, end: None)
    monkeypatch.setattr(state, "close", lambda log, intent, now: done.append(intent.operation))
    monkeypatch.setattr(retention, "log_end", lambda log, pin: ends[-1])
    monkeypatch.setattr(truncate, "remove_below", lambda log, end, identity: done.append(end.starts()) or 3)

    log: Any = SimpleNamespace(name="t")
    assert retention.move(log, ends[0], {0: 3, 1: 0}, {0: 9, 1: 9}, now=0) == 3
    moved, other = (ends[-1].tails[index].state for index in (0, 1))
    assert moved.intent is not None and moved.intent == other.intent and moved.intent.operation == TRUNCATE
    assert [(one.start, one.cleaned, one.deletes_from) for one in (moved, other)] == [(3, 3, 3), (0, 0, 0)]
    assert done == [{0: 3, 1: 0}, TRUNCATE], "removed, then closed"


@pytest.mark.parametrize(("versioned", "answer"), [(True, SNAPSHOT), (False, VALID)])
def test_a_reader_at_the_very_beginning_is_judged_by_the_topics_rule(versioned: bool, answer: str) -> None:
    end = ending(replace(PartitionState.first(0, "b"), cleaned=5, deletes_from=5))
    log: Any = SimpleNamespace(name="t", uuid="u", partitions=1, rule=SimpleNamespace(versioned=versioned))
    assert validate.validate(log, end, Position({0: 0}, 0), list).answer == answer
