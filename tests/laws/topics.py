"""Histories into a topic, and the topic's tables back as the model's dicts."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from tests.oracle import Model, Record
from tests.strategies import Kind, Shape

if TYPE_CHECKING:
    from lakelog import Lake, Topic

_names = itertools.count(1)
Winners = dict[tuple[int, bytes], tuple[int, Record]]
PLAIN = Shape()


def fresh(lake: Lake, kind: Kind, *, partitions: int, shape: Shape = PLAIN, config: dict[str, Any] | None = None) -> Topic:
    """A new topic of a kind, in a shape."""
    settings = {**kind.config, **shape.config, **(config or {})}
    return lake.create_topic(f"t{next(_names)}", key=shape.key, value=kind.value, partitions=partitions, config=settings)


def _json(octets: bytes | None) -> Any:
    return None if octets is None else {"hex": octets.hex()}


def ndjson(record: Record, partition: int, kind: Kind, shape: Shape) -> dict[str, Any]:
    """A record as an NDJSON line has it."""
    value = record.value
    if kind.struct:
        value = None if value is None else {"v": value[0], "w": value[1]}
    else:
        value = _json(value)
    return {
        "key": shape.typed(record.key), "value": value, "timestamp": record.timestamp, "partition": partition, "tombstone": record.tombstone,
        "headers": [[name, _json(octets)] for name, octets in record.headers],
    }  # fmt: skip


def batch(pieces: dict[int, list[Record]], kind: Kind, shape: Shape = PLAIN) -> list[dict[str, Any]]:
    """Pieces of several partitions as one request."""
    return [ndjson(record, partition, kind, shape) for partition, piece in pieces.items() for record in piece]


def _octets(value: Any) -> Any:
    if isinstance(value, (bytearray, bytes)):
        return bytes(value)
    return tuple(value) if value is not None else None


def _shown(row: Any) -> tuple[Any, ...]:
    headers = tuple((header["key"], _octets(header["value"])) for header in row["headers"] or [])
    return (_octets(row["value"]), row["ms"], headers, row["tombstone"])


def seen(record: Record) -> tuple[Any, ...]:
    """What a stored record shows of a record: a null value counts as flagged."""
    return (record.value, record.timestamp, record.headers, record.deletes)


def silver(topic: Topic, at: int | None = None, shape: Shape = PLAIN) -> dict[tuple[int, bytes], tuple[Any, ...]]:
    """(partition, key) to (offset, value, timestamp, headers, tombstone) of silver's rows; one row a key, or the test fails here."""
    return stored(topic.rows(at), shape)


def stored(frame: Any, shape: Shape = PLAIN) -> dict[tuple[int, bytes], tuple[Any, ...]]:
    """`silver` of a frame of its rows."""
    from pyspark.sql import functions as F

    rows = frame.withColumn("ms", F.unix_millis("timestamp")).collect()
    found = {(row["partition"], shape.plain(row["key"])): (row["offset"], *_shown(row)) for row in rows}
    assert len(found) == len(rows), "silver holds one row per partition and key"
    return found


def wanted(model: Model, ends: dict[int, int] | None = None) -> dict[tuple[int, bytes], tuple[Any, ...]]:
    """The model's latest table in the same words."""
    return {key: (offset, *seen(record)) for key, (offset, record) in model.latest(ends).items()}


def log(frame: Any) -> dict[int, list[tuple[Any, ...]]]:
    """Partition to (offset, key, value, timestamp, headers, tombstone) of the log's records, in the order of the frame."""
    from pyspark.sql import functions as F

    found: dict[int, list[tuple[Any, ...]]] = {}
    for row in frame.withColumn("ms", F.unix_millis("timestamp")).collect():
        found.setdefault(row["partition"], []).append((row["offset"], bytes(row["key"]), *_shown(row)))
    return found


def same(topic: Topic, model: Model, actual: dict[Any, Any], expected: dict[Any, Any]) -> None:
    """Fail with the history of the first key or partition that differs: one short list of records, ready for a test of its own."""
    if actual == expected:
        return
    key = sorted(key for key in actual.keys() | expected.keys() if actual.get(key) != expected.get(key))[0]
    partition, of_key = key if isinstance(key, tuple) else (key, None)
    records = [(offset, record) for offset, record in enumerate(model.log.get(partition, [])) if of_key in (None, record.key)]
    history = "\n".join(f"  {offset}: {record}" for offset, record in records)
    raise AssertionError(f"{topic.rule}: {key}: expected {expected.get(key)}, found {actual.get(key)}; its history:\n{history}")
