"""What the operations work on: a topic's batches, and what must hold of it in the end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lakelog import Lake, Topic
from tests.laws import topics
from tests.laws.test_readers import apply, loaded, shown
from tests.oracle import Model, Record, Rule
from tests.strategies import NOON, Kind

KIND = Kind(
    "column", Rule("column", columns=(0, 1), barriers=True), {"compaction.strategy": "column", "compaction.strategy.column": "v, w"},
    value="v INT, w STRING",
)  # fmt: skip
WIDER = "v BIGINT, w STRING, x INT"
SETTINGS = {"segment.bytes": 1000, "snapshot.retention.ms": 3_600_000, "segment.ms": None}
# Of the snapshot that is cut off; longer than silver's retention.
KEEP_DAYS = 60
Batch = dict[int, list[Record]]


def _batch(first: list[tuple[bytes, Any]], second: list[tuple[bytes, Any]]) -> Batch:
    return {index: [Record(key, value, NOON) for key, value in pairs] for index, pairs in enumerate((first, second))}


# Merged, appended, and appended later: with late records, tombstones, and keys that come back.
MERGED = _batch([(b"a", (1, "m")), (b"b", (2, "n")), (b"c", (1, "m"))], [(b"a", (5, "q")), (b"d", (1, None))])
WAITING = _batch([(b"a", (0, "late")), (b"b", None), (b"e", (3, "z"))], [(b"a", (6, "r"))])
MORE = _batch([(b"b", (0, "back")), (b"c", (0, "late"))], [(b"d", (2, "s")), (b"f", (1, "f"))])
LATER = _batch([(b"e", None), (b"g", (1, "g"))], [(b"d", (3, "t"))])
ENDS = {0: 6, 1: 3}
# For a gate that keeps out what is 100 or more: records that flow, records that are put aside, and those mended.
FLOWS = _batch([(b"h", (7, "a")), (b"a", (8, "b"))], [(b"i", (9, "c"))])
ASIDE = _batch([(b"y", (100, "d")), (b"z", (101, "e"))], [(b"z", (102, "f"))])
MENDED = _batch([(b"y", (0, "d")), (b"z", (1, "e"))], [(b"z", (2, "f"))])
LOW = {"type": "expect_rows_to_satisfy", "kwargs": {"name": "low", "expression": "_tombstone OR v < 100"}, "description": "v is below 100"}


def records(batch: Batch) -> list[dict[str, Any]]:
    """A batch as a request."""
    return topics.batch(batch, KIND)


def latest(topic: Topic) -> dict[Any, Any]:
    """(partition, key) to (offset, value, tombstone) of silver; fields that were added later hold NULL and are left out."""
    found = {}
    for key, (offset, value, _, _, tombstone) in topics.silver(topic).items():
        assert value is None or set(value[2:]) <= {None}
        found[key] = (offset, value and value[:2], tombstone)
    return found


def model(batches: tuple[Batch, ...]) -> Model:
    model = Model(KIND.rule)
    for batch in batches:
        model.append(batch)
    return model


def wanted(*batches: Batch) -> dict[Any, Any]:
    """What `latest` is to give after these batches."""
    return {key: (offset, record.value, record.deletes) for key, (offset, record) in model(batches).latest().items()}


def holds(topic: Topic, *batches: Batch) -> None:
    """The log holds these batches once and nothing else, silver what the rule makes of them, and nothing is wrong with either."""
    assert topic.verify().problems == []
    assert topic.ends() == {index: len(log) for index, log in model(batches).log.items()}
    assert latest(topic) == wanted(*batches)


def reads_on(topic: Topic, snapshot: str | None, *batches: Batch) -> None:
    """Law 9: a reader that loads a snapshot (None: the latest table) and applies the log from its end has what these batches make.

    The log goes on behind the snapshot, or this would be a look at the snapshot alone.
    """
    begin = topic.bootstrap(snapshot)
    held, tail = loaded(begin.rows, KIND.rule), topics.log(topic.read(since=begin.position).records)
    assert tail, "nothing lies beyond the snapshot"
    apply(model(batches), held, tail)
    assert shown(held) == topics.wanted(model(batches))


def appended(topic: Topic, batch: Batch) -> None:
    """Append and merge."""
    topic.append(records(batch))
    topic.merge()


@dataclass(frozen=True)
class Operation:
    """What is cut off: its name, the lake it works on (a template's name), the call, and what comes after it.

    ``afterwards`` is given the lake, whether another verb comes before the same call is made again, and whether the operation had begun.
    """

    name: str
    template: str
    call: Callable[[Lake], Any]
    afterwards: Callable[[Operation, Lake, bool, bool], None]


def create(lake: Lake) -> Topic:
    """The topic of the templates."""
    return lake.create_topic("t", value=KIND.value, partitions=2, config={**KIND.config, "segment.ms": 1_000_000})
