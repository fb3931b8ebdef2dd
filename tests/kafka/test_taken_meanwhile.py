"""Topics of a real broker as sources while another process takes or writes the same: nothing is passed over, nothing is refused without a reason."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lakelog import Lake, Refused
from lakelog.delta import kafka
from lakelog.log import ledger
from lakelog.sources import kafka as of_kafka
from lakelog.sources.append import append_from
from lakelog.sources.kafka_source import KafkaSource
from tests.interleaving import late
from tests.kafka.broker import Broker, running
from tests.kafka.test_source import ends, log, messages, take
from tests.kafka.topics import create, produce

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with running(tmp_path_factory.mktemp("kafka") / "broker") as one:
        yield one


def test_a_mirror_does_not_begin_behind_what_another_appended_meanwhile(
    lake: Lake, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(broker, "begun", 1)
    produce(broker, "begun", messages("abc"))
    topic = lake.create_topic("begun")
    late(monkeypatch, kafka, "firsts", lambda: lake.topic("begun").append([{"key": {"hex": "ff"}, "value": {"hex": "00"}}]))

    with pytest.raises(Refused) as refused:
        take(topic, KafkaSource("begun", broker.address, mirror=True))

    assert (refused.value.name, ends(topic)) == ("LOG_MIRRORED", {0: 1})


@pytest.mark.parametrize("mirror", [False, True])
def test_what_another_took_since_the_end_was_asked_for_is_no_other_topic(
    lake: Lake, broker: Broker, monkeypatch: pytest.MonkeyPatch, mirror: bool
) -> None:
    name = f"shared_{mirror}".lower()
    create(broker, name, 1)
    truth = produce(broker, name, messages("abc"))
    source, topic = KafkaSource(name, broker.address, mirror=mirror), lake.create_topic(name)
    take(topic, source)

    def other() -> None:
        truth.update(produce(broker, name, messages("de")))
        append_from(lake.topic(name), [source])

    late(monkeypatch, *((of_kafka, "_mirrored") if mirror else (ledger, "entries")), other)
    assert take(topic, source).batches == []
    assert len(log(topic)) == len(truth) == 5
