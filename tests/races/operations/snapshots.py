"""Snapshots, restores and maintenance that are cut off: what must be so after the same call again."""

from __future__ import annotations

from lakelog import Lake, Refused, Topic
from tests.laws import topics
from tests.oracle import Model
from tests.races.operations.state import KIND, LATER, MERGED, MORE, WAITING, Operation, appended, holds, records


def named(lake: Lake) -> None:
    """The topic of the templates with a snapshot ``s`` at its first batch, older than silver's retention."""
    topic = lake.create_topic("t", value=KIND.value, partitions=2, config={**KIND.config, "snapshot.retention.ms": 1000})
    topic.append(records(MERGED))
    topic.snapshot("s", keep="60 days")
    topic.append(records(WAITING))
    topic.merge()


def at_snapshot(topic: Topic) -> None:
    """The snapshot ``s`` holds what the first batch makes."""
    model = Model(KIND.rule)
    model.append(MERGED)
    rows = topic.latest("s").collect()
    wanted = {(key[0], key[1], *record.value) for key, (_, record) in model.latest().items() if not record.deletes}
    assert {(row["_partition"], bytes(row["key"]), row["v"], row["w"]) for row in rows} == wanted


def is_kept(operation: Operation, lake: Lake, other_first: bool, begun: bool) -> None:
    """It is there as a whole, or not at all; the same call ends with it, unless the name was given to a state before."""
    del begun
    topic = lake.topic("t")
    if other_first:
        appended(topic, LATER)
    try:
        operation.call(lake)
    except Refused as error:
        assert error.name == "SNAPSHOT_EXISTS"
        assert other_first, "the state is the same"
    assert [one.name for one in topic.snapshots()] == ["x"]
    model = Model(KIND.rule)
    for batch in (MERGED, WAITING, LATER):
        model.append(batch)
    ends = topic.describe_snapshot("x").ends
    assert topics.silver(topic, topic.describe_snapshot("x").version).keys() == model.latest(ends).keys()
    if not other_first:
        appended(topic, LATER)
    holds(topic, MERGED, WAITING, LATER)


def is_truncated(operation: Operation, lake: Lake, other_first: bool, begun: bool) -> None:
    """Whoever writes next finishes it first; what left the log is in quarantine once."""
    topic = lake.topic("t")
    if other_first:
        appended(topic, LATER)
        if begun:
            holds(topic, MERGED, LATER)
    operation.call(lake)
    holds(topic, MERGED)
    at_snapshot(topic)
    aside = [(row["partition"], row["offset"], row["epoch"], bytes(row["key"])) for row in topic.quarantined().collect()]
    assert len(aside) == len(set(aside))
    left = {(index, len(MERGED[index]) + place, 0, one.key) for index, batch in WAITING.items() for place, one in enumerate(batch)}
    assert {row for row in aside if row[2] == 0} >= left
    appended(topic, MORE)
    holds(topic, MERGED, MORE)


def is_rewound(operation: Operation, lake: Lake, other_first: bool, begun: bool) -> None:
    """The log stays, and the next merge replays it."""
    del begun
    topic = lake.topic("t")
    if other_first:
        appended(topic, LATER)
    operation.call(lake)
    assert topic.status().epoch == 0
    topic.merge()
    holds(topic, MERGED, WAITING, *([LATER] if other_first else []))
    at_snapshot(topic)


def is_maintained(operation: Operation, lake: Lake, other_first: bool, begun: bool) -> None:
    """Nothing that is kept is lost, whatever was cut off; the same call ends with a table of its own for what outlives the retention."""
    del begun
    topic = lake.topic("t")
    at_snapshot(topic)
    if other_first:
        appended(topic, LATER)
    operation.call(lake)
    assert topic.describe_snapshot("s").form == "table"
    at_snapshot(topic)
    holds(topic, MERGED, WAITING, *([LATER] if other_first else []))
    topic.restore("s")
    holds(topic, MERGED)
