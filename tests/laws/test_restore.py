"""Law 6: after ``restore(s)`` the table equals what ``latest(at=s)`` gave, progress is where ``s`` was, and append and merge go on from there."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given

from lakelog.errors import LogIncomplete, OffsetOutOfRange
from tests.laws import topics
from tests.oracle import Model, Record
from tests.strategies import KINDS, Kind, dice, few, histories

if TYPE_CHECKING:
    from lakelog import Lake


class Past:
    """A topic beside a model that can go back: the model's log, and for each snapshot its end offsets and its rows."""

    def __init__(self, lake: Lake, kind: Kind, logs: list[list[Record]]) -> None:
        config = {"segment.bytes": 100, "min.cleanable.dirty.ratio": 0}
        self.kind, self.topic, self.model = kind, topics.fresh(lake, kind, partitions=len(logs), config=config), Model(kind.rule)
        self.cleaned = False
        self.left = [list(log) for log in logs]
        self.taken: dict[str, tuple[dict[int, int], dict[Any, Any]]] = {}
        self.logs: dict[str, dict[int, list[Record]]] = {}

    def append(self, chance: random.Random) -> None:
        batch = {}
        for partition, records in enumerate(self.left):
            count = chance.randint(0, min(len(records), 40))
            if count:
                batch[partition], self.left[partition] = records[:count], records[count:]
        if batch:
            self.topic.append(topics.batch(batch, self.kind))
            self.model.append(batch)

    def snapshot(self) -> None:
        name = f"s{len(self.taken)}"
        taken = self.topic.snapshot(name, keep="9 days")
        self.taken[name] = (taken.ends, topics.silver(self.topic, taken.version))
        self.logs[name] = {partition: list(records) for partition, records in self.model.log.items()}
        topics.same(self.topic, self.model, self.taken[name][1], topics.wanted(self.model, taken.ends))

    def restore(self, name: str, mode: str) -> None:
        ends, rows = self.taken[name]
        before = self.topic.status()
        epoch, log_ends = before.epoch, {part.partition: part.log_end_offset for part in before.partitions}
        starts = {part.partition: part.log_start_offset for part in before.partitions}
        try:
            self.topic.restore(name, log=mode)
        except (LogIncomplete, OffsetOutOfRange):
            assert mode == "keep", "only a replay needs what an earlier restore took away"
            assert (self.cleaned and self.kind.rule.barriers) or any(
                self.model.log.get(partition, [])[:end] != self.logs[name].get(partition, [])[:end]
                or not starts[partition] <= end <= log_ends[partition]
                for partition, end in ends.items()
            )
            return
        status = self.topic.status()
        assert topics.silver(self.topic) == rows, "the table is the snapshot's"
        assert {part.partition: part.merged_offset for part in status.partitions} == ends, "and so is its progress"
        if mode == "keep":
            assert (status.epoch, self.topic.ends()) == (epoch, log_ends)
        else:
            assert (status.epoch, self.topic.ends()) == (epoch + 1, ends)
            self.model.log = {partition: list(self.logs[name].get(partition, [])[:end]) for partition, end in ends.items()}

    def clean(self) -> None:
        self.topic.roll()
        self.cleaned = self.topic.clean().records > 0 or self.cleaned
        self.merge()

    def merge(self) -> None:
        self.topic.merge()
        topics.same(self.topic, self.model, topics.silver(self.topic), topics.wanted(self.model))


def _law(lake: Lake, kind: Kind, logs: list[list[Record]], chance: random.Random, steps: int) -> None:
    past = Past(lake, kind, logs)
    past.append(chance)
    past.snapshot()
    for _ in range(steps):
        past.append(chance)
        step = chance.choice(["merge", "snapshot", "truncate", "keep", "clean"])
        if step == "merge":
            past.merge()
        elif step == "snapshot":
            past.snapshot()
        elif step == "clean":
            past.clean()
        else:
            past.restore(chance.choice(sorted(past.taken)), step)
    past.append(chance)
    past.restore("s0", "truncate")
    past.append(chance)
    past.merge()


@pytest.mark.long
def test_after_a_restore_the_table_is_the_snapshots_and_all_goes_on_from_there(lake: Lake) -> None:
    kind = next(kind for kind in KINDS if kind.name == "header")

    @few(1)
    @given(histories(kind, count=8, longest=10, beside=4), dice())
    def law(logs: list[list[Record]], chance: random.Random) -> None:
        _law(lake, kind, logs, chance, 2)

    law()


@pytest.mark.soak
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_the_same_over_many_histories(kind: Kind, lake: Lake) -> None:
    @few(1, derandomize=False)
    @given(histories(kind, count=12, longest=14, beside=4), dice())
    def law(logs: list[list[Record]], chance: random.Random) -> None:
        _law(lake, kind, logs, chance, 6)

    law()
