"""What readers need and is cut off: registrations, the log's start, exports; what must be so after the same call again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lakelog import InvalidRequest, Lake, Position
from tests.races.operations.state import ENDS, LATER, MERGED, MORE, WAITING, Operation, appended, holds, latest, reads_on, wanted


def is_committed(operation: Operation, lake: Lake, other_first: bool, begun: bool) -> None:
    """A group is registered or it is not; another one can be, and so can it again."""
    del begun
    topic = lake.topic("t")
    assert topic.committed("g") in (None, Position(ENDS, 0, topic.uuid))
    if other_first:
        topic.commit("other", topic.position())
    operation.call(lake)
    assert topic.committed("g") == Position(ENDS, 0, topic.uuid)
    assert [one.group for one in topic.lag().groups] == ["g", "other"][: 1 + other_first]
    topic.merge()
    holds(topic, MERGED, WAITING)


def is_cut(operation: Operation, lake: Lake, other_first: bool, begun: bool) -> None:
    """The log begins at the snapshot's end or where it began, never between; whoever writes next finishes what was begun."""
    for verb in ("append", "again") if other_first else ("again", "append"):
        if verb == "append":
            appended(lake.topic("t"), LATER)
            assert lake.topic("t").start().offsets == ({0: 8, 1: 5} if begun or not other_first else {0: 0, 1: 0})
        else:
            operation.call(lake)
    topic = lake.topic("t")
    assert topic.start().offsets == {0: 8, 1: 5}
    assert sorted(row["offset"] for row in topic.read().collect()) == [5, 8, 9]
    holds(topic, MERGED, WAITING, MORE, LATER)
    assert topic.verify().base is not None
    assert topic.bootstrap("s").position.offsets == topic.start().offsets
    reads_on(topic, "s", MERGED, WAITING, MORE, LATER)


def exported(lake: Lake) -> Any:
    """The template's topic, written to a directory beside its lake."""
    return lake.topic("t").export(Path(lake.root).parent / "out")


def imported(lake: Lake) -> Any:
    """What `exported` wrote, as another topic of the same lake."""
    return lake.import_topic(Path(lake.root).parent / "out", name="copy")


def is_exported(operation: Operation, lake: Lake, other_first: bool, begun: bool) -> None:
    """The directory is whole or it is no export; the same call again makes it whole, and it is the topic."""
    del begun
    topic = lake.topic("t")
    if other_first:
        appended(topic, LATER)
    try:
        operation.call(lake)
    except InvalidRequest as error:
        assert error.name == "NOT_EMPTY", "it was whole"
    copy = imported(lake)
    assert copy.verify().problems == []
    first = {0: 6, 1: 3} if copy.ends() == ENDS else {0: 8, 1: 4}
    assert copy.ends() == first and (other_first or first == ENDS)
    copy.merge()
    merged = [MERGED, WAITING, *([LATER] if first != ENDS else [])]
    assert latest(copy) == wanted(*merged)
    topic.merge()
    holds(topic, MERGED, WAITING, *([LATER] if other_first else []))


def is_imported(operation: Operation, lake: Lake, other_first: bool, begun: bool) -> None:
    """There is no topic of that name until all of it is there; the same call again makes it."""
    del begun
    if other_first:
        appended(lake.topic("t"), LATER)
    try:
        operation.call(lake)
    except InvalidRequest as error:
        assert error.name == "TOPIC_ALREADY_EXISTS", "it was whole"
    assert lake.topics() == ["copy", "t"]
    copy = lake.topic("copy")
    appended(copy, LATER)
    assert latest(copy) == wanted(MERGED, WAITING, LATER)
    assert (copy.ends(), copy.verify().problems) == ({0: 8, 1: 4}, [])
    # Its log begins at the snapshot that the import made.
    assert [one.id for one in copy.snapshots()] == ["0@3,2"]
    reads_on(copy, "0@3,2", MERGED, WAITING, LATER)
