"""Topics of a real broker, as tests fill and look at them."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tests.kafka.broker import Broker

Headers = list[tuple[str, bytes]]


@dataclass(frozen=True)
class Message:
    """A record to be produced: partition, key, value, timestamp in milliseconds, headers."""

    partition: int
    key: bytes | None
    value: bytes | None
    ms: int = 1_700_000_000_000
    headers: tuple[tuple[str, bytes], ...] = ()


@contextlib.contextmanager
def admin(broker: Broker) -> Iterator[Any]:
    """The broker's administration."""
    from kafka.admin import KafkaAdminClient

    client = KafkaAdminClient(bootstrap_servers=broker.address)
    try:
        yield client
    finally:
        client.close()


def create(broker: Broker, name: str, partitions: int = 1, **settings: Any) -> None:
    """A topic, there for clients when this returns; its records stay, however old their timestamps are."""
    from kafka.admin import NewTopic

    with admin(broker) as client:
        topic_configs = {name.replace("_", "."): str(value) for name, value in {"retention_ms": -1, **settings}.items()}
        client.create_topics([NewTopic(name, partitions, 1, topic_configs=topic_configs)])


def widen(broker: Broker, name: str, partitions: int) -> None:
    """Add partitions to a topic, up to so many in all."""
    from kafka.admin import NewPartitions

    with admin(broker) as client:
        client.create_partitions({name: NewPartitions(partitions)})


def delete(broker: Broker, name: str) -> None:
    """Delete a topic, and wait until it is gone."""
    with admin(broker) as client:
        client.delete_topics([name])
        until = time.monotonic() + 30
        while name in client.list_topics() and time.monotonic() < until:
            time.sleep(0.2)


def truncate(broker: Broker, name: str, before: dict[int, int]) -> None:
    """Remove a topic's records below some offsets, as retention does."""
    from kafka import TopicPartition

    with admin(broker) as client:
        client.delete_records({TopicPartition(name, index): offset for index, offset in before.items()})


def produce(
    broker: Broker, name: str, *batches: Sequence[Message], abort: Sequence[int] = (), transactional: bool = False
) -> dict[tuple[int, int], tuple[Any, ...]]:
    """Produce batches, each in order, each as a transaction where that is wanted; those whose number is in ``abort`` are aborted.

    Gives: (partition, offset) to (key, value, timestamp) of the records that were not.
    """
    from kafka import KafkaProducer

    more: dict[str, Any] = {"transactional_id": f"tests-{name}"} if transactional or abort else {}
    producer = KafkaProducer(bootstrap_servers=broker.address, acks="all", **more)
    if more:
        producer.init_transactions()
    found: dict[tuple[int, int], tuple[Any, ...]] = {}
    for number, batch in enumerate(batches):
        if more:
            producer.begin_transaction()
        sent = [
            producer.send(name, value=one.value, key=one.key, partition=one.partition, timestamp_ms=one.ms, headers=list(one.headers))
            for one in batch
        ]
        producer.flush()
        if more:
            producer.abort_transaction() if number in abort else producer.commit_transaction()
        if number not in abort:
            found |= {(one.partition, future.get(30).offset): (one.key, one.value, one.ms) for one, future in zip(batch, sent, strict=True)}
    producer.close()
    return found


def held(broker: Broker, name: str, partitions: int = 1) -> dict[tuple[int, int], tuple[Any, ...]]:
    """(partition, offset) to (key, value, timestamp) of the records that a topic without transactions holds."""
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(bootstrap_servers=broker.address, enable_auto_commit=False)
    places = [TopicPartition(name, index) for index in range(partitions)]
    consumer.assign(places)
    consumer.seek_to_beginning(*places)
    ends, found = consumer.end_offsets(places), dict[tuple[int, int], tuple[Any, ...]]()
    until = time.monotonic() + 60
    while any(consumer.position(place) < ends[place] for place in places):
        assert time.monotonic() < until, "the topic cannot be read to its end"
        for records in consumer.poll(500).values():
            found |= {(one.partition, one.offset): (one.key, one.value, one.timestamp) for one in records}
    consumer.close()
    return found
