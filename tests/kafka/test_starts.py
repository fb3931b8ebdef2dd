"""Where a topic of a real broker begins is said in the log at the first run, be it empty: what is removed before the next run is named."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest

from lakelog import InvalidRecords, Lake, Refused
from lakelog.log.tail import log_end
from lakelog.operations import configure
from lakelog.sources.append import append_from
from lakelog.sources.kafka_source import KafkaSource
from tests.kafka.broker import Broker, running
from tests.kafka.test_source import log, messages, take
from tests.kafka.topics import create, produce, truncate

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with running(tmp_path_factory.mktemp("kafka") / "broker") as one:
        yield one


def test_what_is_gone_of_a_topic_that_was_empty_at_the_first_run_is_named(lake: Lake, broker: Broker) -> None:
    create(broker, "empty", 2)
    topic, source = lake.create_topic("empty"), KafkaSource("empty", broker.address)
    first = take(topic, source)
    assert (first.batches, first.ends) == ([], {0: 0, 1: 0})
    produce(broker, "empty", messages("abcd") + messages("xy", 1))
    truncate(broker, "empty", {0: 3, 1: 2})
    for _ in range(2):
        with pytest.raises(
            Refused, match=r"offsets \[0, 3\) of partition 0, offsets \[0, 2\) of partition 1 of kafka://.*are gone"
        ) as refused:
            take(topic, source)
        assert (refused.value.name, log(topic)) == ("SOURCE_TRUNCATED", {})
    accepted = take(topic, dataclasses.replace(source, starting_offsets={0: 3, 1: 2}))
    assert (accepted.records, accepted.ends) == (1, {0: 4, 1: 2})
    assert topic.verify().ok


def test_what_is_gone_since_a_first_run_that_was_refused_is_named(lake: Lake, broker: Broker) -> None:
    """By its own records or another source's: every source that was looked at has its start."""
    for name in ("wrong", "behind"):
        create(broker, name)
        produce(broker, name, messages("ab"))
    topic = lake.create_topic("wrong", key="STRING", value="n INT")
    sources = [KafkaSource(name, broker.address, decode={"value": "json"}) for name in ("wrong", "behind")]
    with pytest.raises(InvalidRecords):
        append_from(topic, sources)
    for source in sources:
        truncate(broker, source.topic, {0: 1})
        with pytest.raises(Refused, match=r"offsets \[0, 1\) of partition 0 of kafka://.*are gone") as refused:
            take(topic, source)
        assert refused.value.name == "SOURCE_TRUNCATED"


def test_a_restore_of_the_log_keeps_where_an_empty_topic_begins(lake: Lake, broker: Broker) -> None:
    """Of a log that had records when the topic was seen first, too: the restore goes to before that."""
    create(broker, "kept")
    topic, source = lake.create_topic("kept"), KafkaSource("kept", broker.address)
    topic.snapshot("nothing")
    topic.append([{"key": b"k", "value": b"v"}])
    take(topic, source)
    topic.restore("nothing")
    produce(broker, "kept", messages("ab"))
    truncate(broker, "kept", {0: 1})
    with pytest.raises(Refused, match=r"offsets \[0, 1\) of partition 0 of kafka://.*are gone"):
        take(topic, source)


@pytest.mark.parametrize("mirror", [False, True])
def test_a_first_run_finishes_an_operation_that_was_cut_off(
    lake: Lake, broker: Broker, monkeypatch: pytest.MonkeyPatch, mirror: bool
) -> None:
    """As any writing command does: a run that is refused before it comes to one would be refused each night."""
    name = f"open_{mirror}".lower()
    create(broker, name)
    produce(broker, name, messages("a"))
    topic = lake.create_topic(name, value="STRING")
    with monkeypatch.context() as cut_off:
        cut_off.setattr(configure, "carry_out", lambda *given, **more: None)
        topic.configure(value="STRING")
    assert log_end(topic.log).intent is not None
    assert take(topic, KafkaSource(name, broker.address, mirror=mirror)).records == 1
    assert log_end(topic.log).intent is None
