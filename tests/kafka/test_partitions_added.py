"""Partitions that a topic of a real broker gets after its messages were taken first."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest

from lakelog import Lake, Refused
from lakelog.sources.kafka_source import KafkaSource
from tests.kafka.broker import Broker, running
from tests.kafka.test_source import log, messages, take
from tests.kafka.topics import create, produce, truncate, widen

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with running(tmp_path_factory.mktemp("kafka") / "broker") as one:
        yield one


def test_what_is_gone_of_a_partition_that_was_added_is_named(lake: Lake, broker: Broker) -> None:
    create(broker, "widened")
    produce(broker, "widened", messages("abc"))
    truncate(broker, "widened", {0: 1})
    topic, source = lake.create_topic("widened"), KafkaSource("widened", broker.address)
    assert take(topic, source).ends == {0: 3}, "what was removed before the first run is not missed"
    widen(broker, "widened", 3)
    produce(broker, "widened", messages("abcdef", 1))
    truncate(broker, "widened", {1: 4})
    with pytest.raises(Refused, match=r"offsets \[0, 4\) of partition 1 of kafka://.*are gone") as refused:
        take(topic, source)
    assert (refused.value.name, refused.value.actual, len(log(topic))) == ("SOURCE_TRUNCATED", {1: 4}, 2)
    accepted = take(topic, dataclasses.replace(source, starting_offsets={1: 4}))
    assert (accepted.records, accepted.ends) == (2, {0: 3, 1: 6, 2: 0})
