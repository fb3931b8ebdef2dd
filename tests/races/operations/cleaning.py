"""Cleans and erasures that are cut off: what must be so after the same call again."""

from __future__ import annotations

from lakelog import Lake
from lakelog.log.tail import log_end
from tests.races.operations.state import KIND, LATER, MERGED, MORE, WAITING, Operation, appended, holds, latest, model, records, wanted


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
