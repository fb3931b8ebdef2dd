"""What makes, changes and removes a topic's tables, cut off: what must be so after the same call again."""

from __future__ import annotations

import contextlib
from pathlib import Path

from lakelog import Damaged, InvalidConfig, InvalidRequest, Lake, NotFound, TopicNotFound
from tests.races.operations.state import LATER, MERGED, SETTINGS, WAITING, Operation, appended, create, holds, records


def goes_on_beside(operation: Operation, lake: Lake, other_first: bool, begun: bool) -> None:
    """Operations that stop no writer: an append and a merge before or after the same call again."""
    del begun
    for verb in ("append", "again") if other_first else ("again", "append"):
        if verb == "append":
            appended(lake.topic("t"), LATER)
        else:
            operation.call(lake)
    holds(lake.topic("t"), MERGED, WAITING, LATER)
    if operation.name == "types":
        assert lake.topic("t").types.value.simpleString() == "struct<v:bigint,w:string,x:int>"
    if operation.name == "settings":
        shown = {setting["name"]: (setting["value"], setting["origin"]) for setting in lake.topic("t").describe().config}
        assert {shown[name] for name in SETTINGS} == {(1000, "topic"), (3_600_000, "topic"), (604_800_000, "default")}


def is_created(operation: Operation, lake: Lake, other_first: bool, begun: bool) -> None:
    """What was half made is completed, or taken away by a deletion and made anew."""
    del begun
    if other_first:
        with contextlib.suppress(NotFound):
            lake.delete_topic("t")
    try:
        operation.call(lake)
    except InvalidRequest as error:
        assert error.name == "TOPIC_ALREADY_EXISTS"
    assert lake.topics() == ["t"]
    appended(lake.topic("t"), MERGED)
    holds(lake.topic("t"), MERGED)


def is_deleted(operation: Operation, lake: Lake, other_first: bool, begun: bool) -> None:
    """Whoever comes next finishes it, and nothing of the topic comes back."""
    if other_first:
        try:
            lake.topic("t").append(records(LATER))
            assert not begun, "nobody writes into a topic whose deletion was begun"
        except TopicNotFound:
            assert begun
    with contextlib.suppress(TopicNotFound):
        operation.call(lake)
    assert lake.topics() == []
    assert not Path(lake.root, "t").exists()
    create(lake)
    appended(lake.topic("t"), MERGED)
    holds(lake.topic("t"), MERGED)


def is_repaired(operation: Operation, lake: Lake, other_first: bool, begun: bool) -> None:
    """The log was changed by hand: nobody writes it before its repair was begun, the next writer finishes it."""
    topic, done = lake.topic("t"), False
    if other_first:
        try:
            appended(topic, LATER)
            done = True
            assert begun, "a log changed by hand is not written"
        except Damaged:
            assert not begun
    operation.call(lake)
    assert topic.status().epoch == 1
    if not done:
        appended(topic, LATER)
    holds(topic, MERGED, LATER)


def is_upgraded(operation: Operation, lake: Lake, other_first: bool, begun: bool) -> None:
    """It can be read all the time, and written after the next upgrade at the latest."""
    del begun
    topic = lake.topic("orders")
    before = sorted(topic.latest().collect())
    order = {"key": {"order_id": 99, "region": "eu"}, "value": {"status": "new", "updated_at": "2026-02-01T00:00:00Z"}, "partition": 0}
    written = 0
    if other_first:
        try:
            topic.append([order])
            written = 1
        except InvalidConfig as error:
            assert error.name == "UNSUPPORTED_VERSION"
    operation.call(lake)
    assert operation.call(lake).done == []
    assert (sorted(topic.latest().collect()), topic.verify().problems) == (before, [])
    topic.append([order])
    assert topic.merge().records == 2 + written, "with the one that had waited"
    live = {(row["order_id"], row["region"]) for row in topic.latest().collect()}
    assert live >= {(row["order_id"], row["region"]) for row in before} | {(99, "eu")}
    assert topic.verify().problems == []
