"""Appends that are cut off, with and without a gate: what must be so after their repeat."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from lakelog import ExpectedOffsetMismatch, Lake, Topic
from tests.races.operations.state import (
    ASIDE,
    ENDS,
    FLOWS,
    LATER,
    LOW,
    MENDED,
    MERGED,
    MORE,
    WAITING,
    Operation,
    create,
    holds,
    records,
)


def is_appended_once(operation: Operation, lake: Lake, other_first: bool, begun: bool) -> None:
    """The producer repeats its append: the records are in the log once, whatever became of the first call."""
    del begun
    topic = lake.topic("t")
    if other_first:
        topic.merge()
    written = topic.ends() != ENDS
    if operation.name == "expected" and written:
        try:
            operation.call(lake)
        except ExpectedOffsetMismatch as error:
            assert f"from offset {ENDS[0]} on" in str(error)
        else:
            raise AssertionError("an expected offset held twice")
    elif operation.name == "token":
        assert operation.call(lake).repeated == written
    elif operation.name == "bulk" or not written:
        # A plain append makes no promise for its repeat: the writer looks at the log's end, and repeats what is not there.
        operation.call(lake)
    topic.merge()
    holds(topic, MERGED, WAITING, MORE)


def kept_aside(topic: Topic) -> list[tuple[Any, ...]]:
    """(partition, key, v, rules) of what is in quarantine."""
    return sorted((row["partition"], bytes(row["key"]), row["value"]["v"], row["rules"][0]) for row in topic.quarantined().collect())


def is_put_aside_once(operation: Operation, lake: Lake, other_first: bool, begun: bool) -> None:
    """The producer repeats its append: what flows is in the log once, what was put aside in quarantine once."""
    del begun
    topic = lake.topic("t")
    if other_first:
        topic.merge()
    if operation.name == "aside" or topic.ends() == ENDS:
        operation.call(lake)
    wanted = [(index, one.key, one.value[0], "low") for index, batch in ASIDE.items() for one in batch]
    assert kept_aside(topic) == sorted(wanted)
    topic.merge()
    holds(topic, MERGED, WAITING, FLOWS)
    topic.requeue(fix={"v": "v - 100"})
    topic.merge()
    holds(topic, MERGED, WAITING, FLOWS, MENDED)


def is_requeued_once(operation: Operation, lake: Lake, other_first: bool, begun: bool) -> None:
    """Whoever requeues next goes on: the records are in the log once, and no longer in quarantine."""
    del begun
    topic, ends = lake.topic("t"), {0: 8, 1: 4}
    before = topic.ends() != ends
    if other_first:
        topic.append(records(LATER))
    operation.call(lake)
    assert kept_aside(topic) == []
    if not other_first:
        topic.append(records(LATER))
    topic.merge()
    holds(topic, MERGED, WAITING, FLOWS, *([MENDED, LATER] if before or not other_first else [LATER, MENDED]))


def gated(lake: Lake) -> Topic:
    """The topic of the templates with a gate that puts aside."""
    folder = Path(lake.root).parent / "suites"
    (folder / "t").mkdir(parents=True)
    (folder / "t" / "append.json").write_text(json.dumps({"name": "t.append", "expectations": [LOW]}))
    topic = create(lake)
    topic.append(records(MERGED))
    topic.merge()
    topic.append(records(WAITING))
    topic.configure({"quality.suites": str(folder), "quality.on.failure": "quarantine"})
    return topic


def split(lake: Lake, token: str | None = None) -> Any:
    """The append of a batch of which a part is put aside."""
    both = {index: [*FLOWS[index][:1], *ASIDE[index], *FLOWS[index][1:]] for index in FLOWS}
    return lake.topic("t").append(records(both), token=token)


def bulk(lake: Lake) -> Any:
    file = Path(lake.root).parent / "more.ndjson"
    file.write_text("".join(json.dumps(record) + "\n" for record in records(MORE)), encoding="utf-8")
    return lake.topic("t").load(str(file), identity="more", chunk=2)
