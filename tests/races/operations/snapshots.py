"""Snapshots, restores and maintenance that are cut off: what must be so after the same call again."""

from __future__ import annotations

from lakelog import Lake, Refused, Topic
from lakelog.delta import table_properties
from lakelog.model.records import as_datetime
from tests.conftest import NOON
from tests.laws import topics
from tests.races.operations.state import (
    KEEP_DAYS,
    KIND,
    LATER,
    MERGED,
    MORE,
    WAITING,
    Batch,
    Operation,
    appended,
    holds,
    latest,
    model,
    reads_on,
    records,
    wanted,
)


def named(lake: Lake) -> None:
    """The topic of the templates with a snapshot ``s`` at its first batch, older than silver's retention."""
    topic = lake.create_topic("t", value=KIND.value, partitions=2, config={**KIND.config, "snapshot.retention.ms": 1000})
    topic.append(records(MERGED))
    topic.snapshot("s", keep="60 days")
    topic.append(records(WAITING))
    topic.merge()


def at_snapshot(topic: Topic) -> None:
    """The snapshot ``s`` holds what the first batch makes."""
    rows = topic.latest("s").collect()
    wanted = {(key[0], key[1], *record.value) for key, (_, record) in model((MERGED,)).latest().items() if not record.deletes}
    assert {(row["_partition"], bytes(row["key"]), row["v"], row["w"]) for row in rows} == wanted


def kept_snapshots(topic: Topic, *batches: Batch) -> list[str | None]:
    """Names of the snapshots that can be seen: each is whole, and silver's retention covers its keep, which was raised before."""
    seen = topic.snapshots()
    held = table_properties.read(topic.spark, topic.silver) or {}
    days = {int(held[name].split()[1]) // 86_400 for name in ("delta.logRetentionDuration", "delta.deletedFileRetentionDuration")}
    for one in seen:
        assert (one.form, one.kept_until) == ("version", as_datetime(NOON + KEEP_DAYS * 86_400_000))
        assert min(days) >= KEEP_DAYS
        assert topics.stored(topic.rows(one.name)) == topics.wanted(model(batches), dict(one.ends))
    return [one.name for one in seen]


def is_kept(operation: Operation, lake: Lake, other_first: bool, begun: bool) -> None:
    """It is there as a whole, or not at all; the same call ends with it, unless the name was given to a state before."""
    del begun
    topic = lake.topic("t")
    there = kept_snapshots(topic, MERGED, WAITING)
    if other_first:
        appended(topic, LATER)
    try:
        operation.call(lake)
    except Refused as error:
        assert error.name == "SNAPSHOT_EXISTS"
        assert other_first and there, "the state is the same"
    assert kept_snapshots(topic, MERGED, WAITING, LATER) == ["x"]
    first = {0: 6, 1: 3} if there or not other_first else {0: 8, 1: 4}
    assert topic.describe_snapshot("x").ends == first
    if not other_first:
        appended(topic, LATER)
    holds(topic, MERGED, WAITING, LATER)
    topic.append(records(MORE))
    reads_on(topic, "x", MERGED, WAITING, LATER, MORE)


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
    reads_on(topic, "s", MERGED, MORE)


def is_rewound(operation: Operation, lake: Lake, other_first: bool, begun: bool) -> None:
    """Whoever writes next finishes it first; the log stays, and the next merge replays it."""
    topic, batches = lake.topic("t"), [MERGED, WAITING]
    if other_first:
        topic.append(records(LATER))
        assert latest(topic) == wanted(*([MERGED] if begun else batches)), "silver is rewound before anything is appended"
        batches.append(LATER)
        topic.merge()
        holds(topic, *batches)
    operation.call(lake)
    assert (topic.status().epoch, latest(topic)) == (0, wanted(MERGED))
    reads_on(topic, None, *batches)
    topic.merge()
    holds(topic, *batches)
    at_snapshot(topic)
    reads_on(topic, "s", *batches)


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
    batches = [MERGED, WAITING, *([LATER] if other_first else [])]
    holds(topic, *batches)
    reads_on(topic, "s", *batches)
    topic.restore("s")
    holds(topic, MERGED)
