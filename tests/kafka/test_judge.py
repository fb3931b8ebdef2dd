"""Kafka's own broker as judge of the log cleaner: the same records, batches and segments; the same latest values, the same retained offsets."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.kafka.broker import Broker, running

if TYPE_CHECKING:
    from lakelog import Lake

TOPIC = "judged"
# A batch is larger than half a segment, so that each is a segment of its own in the broker, as it is in lakelog with such small segments.
SEGMENT = 4096
Batch = list[tuple[bytes, bytes | None]]


def _batches(dice: random.Random, count: int) -> list[Batch]:
    """Batches of records over few keys, with deletes and keys that come back; each a little over half a segment."""
    found = []
    for number in range(count):
        batch: Batch = []
        size = 0
        while size < 0.6 * SEGMENT:
            key = f"k{dice.randrange(60)}".encode()
            value = None if dice.random() < 0.15 else f"{number}-{dice.randrange(10**9)}".encode() + b"." * dice.randrange(60)
            batch.append((key, value))
            size += len(key) + len(value or b"") + 8
        found.append(batch)
    return found


def _produced(broker: Broker, batches: list[Batch], **settings: Any) -> None:
    """The batches in a compacted topic of the broker, each as one batch of Kafka's."""
    from kafka import KafkaProducer
    from kafka.admin import KafkaAdminClient, NewTopic

    admin = KafkaAdminClient(bootstrap_servers=broker.address)
    admin.create_topics([NewTopic(TOPIC, 1, 1, topic_configs={name.replace("_", "."): str(value) for name, value in settings.items()})])
    admin.close()
    producer = KafkaProducer(bootstrap_servers=broker.address, batch_size=1 << 20, linger_ms=10_000, acks="all")
    for batch in batches:
        sent = [producer.send(TOPIC, key=key, value=value, partition=0) for key, value in batch]
        producer.flush()
        offsets = [one.get(30).offset for one in sent]
        assert offsets == list(range(offsets[0], offsets[0] + len(batch)))
    producer.close()


def _consumed(broker: Broker) -> dict[int, tuple[bytes, bytes | None]]:
    """Offset to record of all that the topic holds, from the beginning."""
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(bootstrap_servers=broker.address, auto_offset_reset="earliest", enable_auto_commit=False)
    place = TopicPartition(TOPIC, 0)
    consumer.assign([place])
    consumer.seek_to_beginning(place)
    end, found = consumer.end_offsets([place])[place], dict[int, tuple[bytes, bytes | None]]()
    while consumer.position(place) < end:
        for records in consumer.poll(1000).values():
            found |= {record.offset: (record.key, record.value) for record in records}
    consumer.close()
    return found


def _cleaned(broker: Broker, last: int) -> dict[int, tuple[bytes, bytes | None]]:
    """What the broker keeps, once its cleaner has been at the segments below ``last`` and finds no more to do."""
    until, before, since = time.monotonic() + 180, dict[int, Any](), time.monotonic()
    while True:
        found = _consumed(broker)
        if found.keys() != before.keys():
            before, since = found, time.monotonic()
        if time.monotonic() - since > 10 and len(found) < last:
            return found
        assert time.monotonic() < until, f"the broker's cleaner did not come: {len(found)} of {last} records are there"
        time.sleep(1)


@pytest.mark.long
def test_the_cleaned_log_is_that_of_a_broker(lake: Lake, tmp_path: Path) -> None:
    """A fold of both gives the same map; of closed segments both keep the same offsets, but for what each rule explains.

    Kafka's cleaner knows of the active segment's records only when it is closed: what only they supersede stays until then. lakelog has merged them.
    """
    batches = _batches(random.Random(3), 40)
    topic = lake.create_topic(TOPIC, config={"segment.bytes": 14, "min.cleanable.dirty.ratio": 0})
    for batch in batches:
        topic.append([{"key": key, "value": value} if value is not None else {"key": key, "tombstone": True} for key, value in batch])
    total = sum(map(len, batches))
    active = total - len(batches[-1])
    assert topic.clean(force=True).records > 0
    assert topic.status().partitions[0].active_segment == active, "each batch is a segment"
    rows = topic.read().select("offset", "key", "value").collect()
    ours = {row["offset"]: (bytes(row["key"]), None if row["value"] is None else bytes(row["value"])) for row in rows}

    with running(tmp_path / "broker") as broker:
        _produced(
            broker, batches, cleanup_policy="compact", segment_bytes=SEGMENT, min_cleanable_dirty_ratio=0.001, delete_retention_ms=86_400_000,
            segment_ms=86_400_000, segment_index_bytes=4096,
        )  # fmt: skip
        theirs = _cleaned(broker, total)

    def fold(log: dict[int, tuple[bytes, bytes | None]]) -> dict[bytes, bytes]:
        last = {key: value for _, (key, value) in sorted(log.items())}
        return {key: value for key, value in last.items() if value is not None}

    whole = dict(enumerate(record for batch in batches for record in batch))
    assert fold(ours) == fold(theirs) == fold(whole)
    assert all(whole[offset] == record for log in (ours, theirs) for offset, record in log.items()), "no offset moved"
    closed_ours, closed_theirs = ({offset for offset in log if offset < active} for log in (ours, theirs))
    assert closed_ours <= closed_theirs
    in_active = {key for offset, (key, _) in whole.items() if offset >= active}
    explained = {offset for offset in closed_theirs - closed_ours if whole[offset][0] in in_active}
    assert closed_theirs - closed_ours == explained, "superseded by records of the active segment alone"
    assert explained, "or the difference was not seen"
    print(json.dumps({"records": total, "ours": len(closed_ours), "theirs": len(closed_theirs), "explained": len(explained)}))
