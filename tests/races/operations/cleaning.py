"""Cleans and erasures that are cut off: what must be so after the same call again."""

from __future__ import annotations

from lakelog import Lake
from lakelog.log.tail import log_end
from tests.conftest import NOON
from tests.laws import topics
from tests.oracle import Model, Record, Rule
from tests.races.operations.state import KIND, LATER, MERGED, MORE, WAITING, Operation, appended, holds, latest, model, records, wanted
from tests.strategies import Kind

DAY, PLAIN = 86_400_000, Kind("timestamp", Rule("timestamp"), {"compaction.strategy": "timestamp"})
EARLIER, FULL = NOON - 10 * DAY, b"full" * 5
# By time: what is too old when the clean comes, what was cleaned before it with its deletes, and what was not.
OLD = {index: [Record(b"old", FULL, EARLIER - 5 * DAY)] for index in (0, 1)}
DONE = [
    {0: [Record(b"a", FULL, EARLIER + 3)], 1: [Record(b"a", FULL, EARLIER + 3)]},
    {0: [Record(b"a", None, EARLIER + 5)], 1: [Record(b"b", FULL, EARLIER + 3)]},
    {0: [Record(b"c", FULL, EARLIER + 3)], 1: [Record(b"a", b"by", EARLIER + 4, (), True)]},
]
OPEN = {0: [Record(b"c", b"2", EARLIER + 6), Record(b"c", b"late", EARLIER + 5)], 1: [Record(b"b", b"2", EARLIER + 6)]}
NEW = {0: [Record(b"d", None, NOON)], 1: [Record(b"d", b"1", NOON)]}
LATE = {0: [Record(b"a", b"late", EARLIER + 4)], 1: [Record(b"a", b"late", EARLIER + 3)]}


def expiring(lake: Lake) -> None:
    """The template ``expiring``, made ten days earlier: its deletes have their horizon, its first segments are too old, its last ones idle."""
    times = {"segment.ms": DAY, "retention.ms": 12 * DAY, "delete.retention.ms": 0}
    config = {**PLAIN.config, **times, "cleanup.policy": "compact,delete", "segment.bytes": 14, "min.cleanable.dirty.ratio": 0}
    topic = lake.create_topic("t", partitions=2, config=config)
    for batch in (OLD, *DONE):
        topic.append(topics.batch(batch, PLAIN))
    topic.roll()
    topic.clean()
    topic.append(topics.batch(OPEN, PLAIN))


def is_expired(operation: Operation, lake: Lake, other_first: bool, begun: bool) -> None:
    """The deletes are gone and their versions remembered, the old segments too; the log has the winners alone, and the next clean finds nothing."""
    del begun
    topic, model = lake.topic("t"), Model(Rule("timestamp"))
    for batch in (OLD, *DONE, OPEN, *([NEW] if other_first else [])):
        model.append(batch)
    if other_first:
        topic.append(topics.batch(NEW, PLAIN))
    operation.call(lake)
    operation.call(lake)
    wanted = topics.wanted(model)
    expired = {(0, b"a"), (1, b"a")}
    assert topics.silver(topic) == {place: row for place, row in wanted.items() if place not in expired}
    assert topic.ends() == {index: len(log) for index, log in model.log.items()}
    assert topic.start().offsets == {0: 1, 1: 1}
    rows = {(row["partition"], row["offset"]) for row in topic.read().select("partition", "offset").collect()}
    assert rows == {(index, row[0]) for (index, key), row in wanted.items() if key != b"old" and (index, key) not in expired}
    version = topic.status().bronze_version
    done = operation.call(lake)
    assert (done.records, done.expired, done.stamped, topic.status().bronze_version) == (0, 0, 0, version)
    topic.append(topics.batch(LATE, PLAIN))
    assert topic.merge().late_after_delete == 2
    assert topics.silver(topic) == {place: row for place, row in wanted.items() if place not in expired}
    assert topic.verify().problems == []


def segmented(lake: Lake) -> None:
    """The template ``segments``: a topic whose appends each fill a segment, with records to be cleaned away in most."""
    topic = lake.create_topic("t", value=KIND.value, partitions=2, config={**KIND.config, "segment.bytes": 14})
    for batch in (MERGED, WAITING, MORE):
        topic.append(records(batch))


def is_cleaned(operation: Operation, lake: Lake, other_first: bool, begun: bool) -> None:
    """The latest table is as it was; the same call again leaves the winners and the active segments, and a third finds nothing."""
    del begun
    topic, batches = lake.topic("t"), [MERGED, WAITING, MORE]
    if other_first:
        appended(topic, LATER)
        batches.append(LATER)
    operation.call(lake)
    holds(topic, *batches)
    winners = {(index, offset) for (index, _), (offset, _) in model(tuple(batches)).latest().items()}
    first = {index: tail.active for index, tail in log_end(topic.log).tails.items()}
    found = {(row["partition"], row["offset"]) for row in topic.read().collect()}
    assert winners <= found and all(place in winners or place[1] >= first[place[0]] for place in found)
    version = topic.status().bronze_version
    assert (operation.call(lake).records, topic.status().bronze_version) == (0, version)


def is_erased(operation: Operation, lake: Lake, other_first: bool, begun: bool) -> None:
    """The key is nowhere, whoever finished it; nothing else changed, and a restore does not bring it back."""
    topic, batches = lake.topic("t"), [MERGED, WAITING]
    if other_first:
        appended(topic, LATER)
        batches.append(LATER)
        if begun:
            assert not topic.read().filter("key = binary('a')").count(), "whoever writes next finishes it first"
    operation.call(lake)
    topic.merge()
    assert latest(topic) == {place: row for place, row in wanted(*batches).items() if place[1] != b"a"}
    assert not topic.read().filter("key = binary('a')").count()
    assert {bytes(row["key"]) for row in topic.latest("s").collect()} == {b"b", b"c", b"d"}
    assert topic.verify().problems == []
    topic.restore("s")
    assert {bytes(row["key"]) for row in topic.latest().collect()} == {b"b", b"c", b"d"}
    assert (topic.verify().problems, set(operation.call(lake).removed.values())) == ([], {0})
