"""Mirrors of a topic of Kafka, told by a frame in a broker's place."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakelog.delta import kafka
from lakelog.log import append
from lakelog.sources.kafka import take
from lakelog.sources.kafka_source import KafkaSource
from tests.interleaving import late
from tests.quality.folders import rows, write

if TYPE_CHECKING:
    from lakelog import Lake, Topic

NOON = datetime.datetime(2023, 11, 14, 12)
# Key, value, partition, offset.
MESSAGES = [(b"good", b"1", 0, 0), (b"bad", b"-1", 0, 1), (b"worse", b"-2", 0, 2), (b"other", b"2", 1, 0)]


class CutOff(BaseException):
    """The process is gone."""


def mirror(lake: Lake, folder: Path, patch: pytest.MonkeyPatch, ends: dict[int, int]) -> tuple[Topic, KafkaSource]:
    """A topic that puts aside, and a source in the broker's place that ends there."""
    config = {"quality.suites": write(folder, "m", append=[rows("positive", "value > 0")]), "quality.on.failure": "quarantine"}

    def records(_: Any, __: Any, span: dict[int, tuple[int, int]]) -> Any:
        read = [one for one in MESSAGES if one[2] in span and span[one[2]][0] <= one[3] < span[one[2]][1]]
        given = [(key, value, "m", index, offset, NOON) for key, value, index, offset in read]
        return lake.spark.createDataFrame(
            given, "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP"
        )

    patch.setattr(kafka, "ends", lambda *_: dict(ends))
    patch.setattr(kafka, "firsts", lambda _, __, wanted, ___: dict.fromkeys(wanted, 0))
    patch.setattr(kafka, "records", records)
    topic = lake.create_topic("m", key="STRING", value="INT", partitions=len(ends), config=config)
    return topic, KafkaSource("m", "nowhere:9", mirror=True, decode={"value": "json"})


def cut_off(topic: Topic, source: KafkaSource, patch: pytest.MonkeyPatch) -> None:
    """A take that ends between its commit on the quarantine and the one on the log."""

    def gone(*_: Any) -> Any:
        raise CutOff

    with patch.context() as patched, pytest.raises(CutOff):
        patched.setattr(append, "_written", gone)
        take(topic, source)


def aside(topic: Topic) -> list[str]:
    return sorted(row["key"] for row in topic.quarantined().collect())


def test_a_mirror_that_was_cut_off_puts_nothing_aside_twice_whichever_partitions_moved_since(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends = {0: 2, 1: 0}
    topic, source = mirror(lake, tmp_path, monkeypatch, ends)
    cut_off(topic, source, monkeypatch)
    ends[1] = 1
    done = take(topic, source)
    assert (done.records, done.quarantined, topic.ends(), aside(topic)) == (2, 1, {0: 2, 1: 1}, ["bad"])
    assert topic.verify().problems == []


@pytest.mark.soak
def test_what_a_slow_mirror_put_aside_is_not_lost_to_another_that_read_less(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one asked earlier where the source ends, and is cut off."""
    ends = {0: 3}
    topic, source = mirror(lake, tmp_path, monkeypatch, ends)

    def other() -> None:
        ends[0] = 2
        cut_off(lake.topic("m"), source, monkeypatch)
        ends[0] = 3

    late(monkeypatch, append, "_written", other)
    done = take(topic, source)
    assert (done.records, done.quarantined, topic.ends(), aside(topic)) == (1, 2, {0: 3}, ["bad", "worse"])
    assert topic.verify().problems == []
