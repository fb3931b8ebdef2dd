"""Laws 9 and 11 for readers: a snapshot and the log from its end are the latest table; who keeps up sees every record, in order.

The reader here is a dict and the oracle's comparison: it knows nothing of lakelog but what a position and the records it reads tell.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given

from lakelog import OffsetOutOfRange, Position
from tests.laws import topics
from tests.oracle import Model, Record, Rule
from tests.strategies import KINDS, Kind, dice, few, histories

if TYPE_CHECKING:
    from lakelog import Lake, Topic

Held = dict[tuple[int, bytes], tuple[int, Record]]


def apply(model: Model, held: Held, log: dict[int, list[tuple[Any, ...]]]) -> None:
    """Apply records in the log's order: each that beats what is held of its key replaces it."""
    for partition, records in log.items():
        for offset, key, value, timestamp, headers, tombstone in records:
            record = Record(key, value, timestamp, headers, tombstone)
            best = held.get((partition, key))
            if best is None or model.beats(offset, record, best):
                held[partition, key] = (offset, record)


def loaded(rows: Any, rule: Rule) -> Held:
    """Silver's rows as a reader holds them; a remembered version has no headers and value, the model is told it by such as have it."""
    versions = {(row["partition"], bytes(row["key"])): row["version"] for row in rows.select("partition", "key", "version").collect()}
    found = {}
    for place, (offset, value, timestamp, headers, tombstone) in topics.stored(rows).items():
        version = versions[place]
        if tombstone and value is None and not headers and version is not None:
            if rule.strategy == "header":
                headers = ((rule.header, version.to_bytes(8, "big", signed=True)),)
            elif rule.strategy == "column":
                value = tuple(version) if len(rule.columns) > 1 else (version, None)
        found[place] = (offset, Record(place[1], value, timestamp, headers, tombstone))
    return found


def shown(held: Held) -> dict[Any, Any]:
    return {key: (offset, *topics.seen(record)) for key, (offset, record) in held.items()}


def caught_up(topic: Topic, model: Model, held: Held, position: Position, most: int | None) -> Held:
    """What a reader holds after it has read the log from a position on, in batches; its position is written down and read again each time."""
    batches = [topic.read(since=position)] if most is None else topic.follow(position, max_records=most)
    for batch in batches:
        assert batch.position == position
        log = topics.log(batch.records)
        for index, records in log.items():
            assert all(position.offsets[index] <= record[0] < batch.next.offsets[index] for record in records)
        apply(model, held, log)
        position = Position.from_json(batch.next.to_json())
    assert position.offsets == topic.ends()
    return held


def _snapshot_and_tail(lake: Lake, kind: Kind, logs: list[list[Record]], chance: random.Random) -> None:
    topic, model = (
        topics.fresh(
            lake, kind, partitions=len(logs), config={"segment.bytes": chance.choice([40, 400, 1 << 30]), "min.cleanable.dirty.ratio": 0}
        ),
        Model(kind.rule),
    )
    left = {partition: list(history) for partition, history in enumerate(logs)}
    taken: list[tuple[str, dict[int, int]]] = []
    keeping_up: Held = {}
    cleaned = 0
    position, seen = topic.position(), dict[int, list[Any]]()
    for step in range(4):
        batch = {partition: [records.pop(0) for _ in range(min(len(records), chance.randint(0, 6)))] for partition, records in left.items()}
        batch = {partition: records for partition, records in batch.items() if records}
        if batch:
            topic.append(topics.batch(batch, kind))
            model.append(batch)
        if chance.random() < 0.6:
            topic.merge()
        # Law 11: who keeps up sees every record, whatever is cut off behind it.
        fetched = topic.read(since=position)
        log = topics.log(fetched.records)
        for index, records in log.items():
            seen.setdefault(index, []).extend(records)
        apply(model, keeping_up, log)
        position = fetched.next
        taken.append((f"s{step}", dict(topic.snapshot(f"s{step}", keep="0 days").ends)))
        if step and chance.random() < 0.3:
            topic.truncate(chance.choice(taken[-2:])[0])
        if step and chance.random() < 0.7:
            topic.roll()
            cleaned += topic.clean().records
    wanted = topics.wanted(model)
    everything = {
        index: [(offset, record.key, *topics.seen(record)) for offset, record in enumerate(records)] for index, records in model.log.items()
    }
    topics.same(topic, model, seen, {index: records for index, records in everything.items() if records})
    topics.same(topic, model, shown(keeping_up), wanted)
    starts = topic.start().offsets
    for name, ends in taken:
        cut = any(ends[index] < start for index, start in starts.items())
        # No tombstone expires here: what a clean alone takes from who is above the log start are barriers.
        missed = cleaned > 0 and kind.rule.barriers and topic.validate(Position(ends, 0)).answer == "SNAPSHOT"
        if not cut and not missed:
            begin = topic.bootstrap(name)
            assert begin.position.offsets == ends
            held = caught_up(topic, model, loaded(begin.rows, kind.rule), begin.position, chance.choice([None, 3, 50]))
            topics.same(topic, model, shown(held), wanted)
        else:
            with pytest.raises(OffsetOutOfRange):
                topic.bootstrap(name)
            with pytest.raises(OffsetOutOfRange, match="Load the snapshot s" if not cleaned else None):
                topic.read(since=Position(ends, 0))
    begin = topic.bootstrap()
    topics.same(topic, model, shown(caught_up(topic, model, loaded(begin.rows, kind.rule), begin.position, None)), wanted)
    verified = topic.verify()
    assert verified.problems == []
    assert (cleaned and kind.rule.barriers) or (verified.base is None) == (not any(starts.values()))


@pytest.mark.long
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.name in ("offset", "header-barriers", "column")], ids=str)
def test_a_snapshot_and_the_log_from_its_end_are_the_latest_table(kind: Kind, lake: Lake) -> None:
    """A reader may begin at any snapshot, stop, and go on: it ends with the table that everybody else has, or is told what to load."""

    @few(1)
    @given(histories(kind, count=40, longest=8, beside=10), dice())
    def law(logs: list[list[Record]], chance: random.Random) -> None:
        _snapshot_and_tail(lake, kind, logs, chance)

    law()


@pytest.mark.soak
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_many_snapshots_and_logs_are_the_latest_table(kind: Kind, lake: Lake) -> None:
    """The same over more histories, cuts and truncations."""

    @few(2, derandomize=False)
    @given(histories(kind, count=80, longest=12, beside=20), dice())
    def law(logs: list[list[Record]], chance: random.Random) -> None:
        _snapshot_and_tail(lake, kind, logs, chance)

    law()
