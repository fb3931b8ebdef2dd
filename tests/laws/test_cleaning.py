"""Law 5, with 1, 3, 4 and 9: a clean changes nothing that anyone can learn from the log, whatever the rule, and however appends, merges, cleans mix."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F

from lakelog.latest.progress import progress
from lakelog.log.tail import log_end
from lakelog.model.positions import missed
from tests.conftest import Clock
from tests.laws import topics
from tests.laws.test_readers import Held, apply, loaded, shown
from tests.oracle import Model, Record
from tests.strategies import CODES, KINDS, KINDS_BY_SUITE, Kind, decoded, oldest

if TYPE_CHECKING:
    from lakelog import Lake

HISTORIES, STEPS, DAY = 36, 5, 86_400_000


class Cleaned:
    """A topic with a history in each partition, beside the model, which is never cleaned."""

    def __init__(self, lake: Lake, clock: Clock, kind: Kind) -> None:
        config = {"segment.bytes": 14, "min.cleanable.dirty.ratio": 0, "delete.retention.ms": DAY}
        self.kind, self.clock, self.model = kind, clock, Model(kind.rule)
        self.topic = topics.fresh(lake, kind, partitions=HISTORIES, config=config)
        self.cleans, self.expired, self.late = Counter[int](), set[int](), set[int]()
        self.held: Held = {}
        self.position: dict[int, int] = {}

    def append(self, dice: random.Random) -> None:
        """Up to four records more in most partitions."""
        batch: dict[int, list[Record]] = {
            index: [decoded(dice.randrange(CODES), struct=self.kind.struct) for _ in range(dice.randint(1, 4))]
            for index in range(HISTORIES)
            if dice.random() < 0.8
        }
        self.topic.append(topics.batch(batch, self.kind))
        self.model.append(batch)

    def append_late(self) -> None:
        """To every key that is deleted a record of the least version there is."""
        batch: dict[int, list[Record]] = {}
        for (partition, key), row in topics.wanted(self.model).items():
            if row[-1]:
                batch.setdefault(partition, []).append(oldest(key, struct=self.kind.struct))
        self.topic.append(topics.batch(batch, self.kind))
        self.model.append(batch)

    def merge(self) -> None:
        """The live table is the model's; what was late after its tombstone had gone is noted."""
        self.topic.merge()
        self.same()

    def same(self) -> None:
        """Live rows are those of the model; of deleted keys a tombstone may be there still."""
        rows, wanted = topics.silver(self.topic), topics.wanted(self.model)
        assert {key: row for key, row in rows.items() if not row[-1]} == {key: row for key, row in wanted.items() if not row[-1]}
        assert {key: row for key, row in rows.items() if row[-1]}.items() <= wanted.items()

    def clean(self) -> None:
        """A dry run and the clean: they are the same in all they say; offsets stay, and the log keeps every live winner."""
        ends = self.topic.ends()
        planned, done = self.topic.clean(dry_run=True), self.topic.clean()
        assert {**planned.to_dict(), "dry_run": False} == done.to_dict()
        assert self.topic.ends() == ends == {index: len(self.model.log.get(index, [])) for index in range(HISTORIES)}
        for one in done.partitions:
            self.cleans[one.partition] += one.total("dropped") > 0
            if one.total("expired"):
                self.expired.add(one.partition)
        left = {(row["partition"], row["offset"]) for row in self.topic.read().select("partition", "offset").collect()}
        assert {(index, row[0]) for (index, _), row in topics.wanted(self.model).items() if not row[-1]} <= left
        self.same()

    def begin_to_read(self) -> None:
        """A reader loads the latest table as it is."""
        begin = self.topic.bootstrap()
        self.held, self.position = loaded(begin.rows, self.kind.rule), dict(begin.position.offsets)

    def read_on(self) -> int:
        """In partitions whose log tells everything from the reader's position on, it ends with the model's live rows. Returns how many those are."""
        tails = log_end(self.topic.log).tails
        told = {
            index for index, tail in tails.items() if not missed(tail.state, self.position[index], versioned=self.topic.log.rule.versioned)
        }
        log = topics.log(self.topic.read().filter(F.col("partition").isin(sorted(told))))
        behind = {index: [one for one in records if one[0] >= self.position[index]] for index, records in log.items()}
        apply(self.model, self.held, behind)
        found, wanted = (
            {key: row for key, row in rows.items() if key[0] in told and not row[-1]}
            for rows in (shown(self.held), topics.wanted(self.model))
        )
        topics.same(self.topic, self.model, found, wanted)
        return len(told)

    def end(self) -> None:
        """In the end the log holds the winners alone, at their offsets; a fold of it is the table. Late records are counted by partition."""
        self.topic.merge()
        for _ in range(2):
            self.clock.now += 3 * DAY
            self.topic.roll()
            self.clean()
        self.append_late()
        self.merge()
        self.topic.roll()
        self.clean()
        rows = self.topic.read().select("partition", "offset", "key", "tombstone").collect()
        live = {place: row[0] for place, row in topics.wanted(self.model).items() if not row[-1]}
        found = {(row["partition"], bytes(row["key"])): row["offset"] for row in rows if row["key"] is not None}
        assert len(found) == len(rows) and found == live
        counts = progress(self.topic.log, from_rows=True).controls
        self.late = {index for index, control in counts.items() if control["counts"].get("late_after_delete")}
        assert self.topic.verify().problems == []


@pytest.mark.parametrize("kind", KINDS_BY_SUITE)
def test_of_random_histories_cleaned_at_moving_clocks_the_latest_table_is_that_of_the_full_log(
    kind: Kind, lake: Lake, clock: Clock, record_property: Callable[[str, object], None]
) -> None:
    dice, topic = random.Random(KINDS.index(kind)), Cleaned(lake, clock, kind)
    for step in range(STEPS):
        if step == STEPS // 2:
            topic.begin_to_read()
        topic.append(dice)
        clock.now += dice.choice([1, DAY // 2, DAY, 2 * DAY])
        if dice.random() < 0.4:
            topic.merge()
        if dice.random() < 0.8:
            topic.clean()
    told = topic.read_on()
    topic.end()
    twice = sum(count >= 2 for count in topic.cleans.values())
    record_property("of 36 histories", {"expired": len(topic.expired), "twice": twice, "late": len(topic.late), "told": told})
    # Of the 216 of all rules at least 50 of each.
    assert min(len(topic.expired), twice) >= 24 and told > 0, (topic.expired, twice, told)
    assert len(topic.late) >= (0 if kind.rule.strategy == "offset" else 12), topic.late
