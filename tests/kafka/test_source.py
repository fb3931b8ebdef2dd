"""Topics of a real broker as sources: mirrored offset by offset, or taken once by the ledger; what is gone is named; what is no record is told."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakelog import BatchAppender, Conflict, GateFailed, InvalidRecords, InvalidRequest, Lake, NotFound, Refused, Topic
from lakelog.delta import kafka
from lakelog.delta.kafka import Connection
from lakelog.log.tail import log_end
from lakelog.running_results import Taken
from lakelog.sources.append import append_from
from lakelog.sources.kafka_source import KafkaSource
from tests.conftest import NOON, Answer
from tests.kafka.broker import Broker, running
from tests.kafka.topics import Message, create, delete, produce, truncate
from tests.quality.folders import rows, write
from tests.running.test_kafka_decisions import SCHEMA, encoded


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with running(tmp_path_factory.mktemp("kafka") / "broker") as one:
        yield one


def messages(keys: str, partition: int = 0, **more: Any) -> list[Message]:
    return [Message(partition, key.encode(), f"{key}!".encode(), NOON + number, **more) for number, key in enumerate(keys)]


def log(topic: Topic) -> dict[tuple[int, int], tuple[Any, ...]]:
    """(partition, offset) to (key, value, timestamp) of what the log holds, as `topics.held`."""
    from pyspark.sql import functions as F

    rows = topic.read().select("partition", "offset", "key", "value", F.unix_millis("timestamp").alias("ms")).collect()

    def octets(value: Any) -> bytes | None:
        return None if value is None else bytes(value)

    found = {(row["partition"], row["offset"]): (octets(row["key"]), octets(row["value"]), row["ms"]) for row in rows}
    assert len(found) == len(rows)
    return found


def take(topic: Topic, source: KafkaSource) -> Taken:
    return append_from(topic, [source])[0]


def ends(topic: Topic) -> dict[int, int]:
    return log_end(topic.log).ends()


def test_a_mirror_keeps_offsets_and_goes_on_where_the_log_ends(lake: Lake, broker: Broker) -> None:
    create(broker, "mirror", 3)
    topic, source = lake.create_topic("mirror", partitions=3), KafkaSource("mirror", broker.address, mirror=True)
    with pytest.raises(InvalidRequest, match="has 3 partitions, the topic has 2"):
        take(lake.create_topic("narrow", partitions=2), source)
    assert (take(topic, source).records, ends(topic)) == (0, {0: 0, 1: 0, 2: 0})

    # An aborted transaction and the markers of all leave holes; partition 1 ends with nothing but those.
    headers = (("trace", b"\x01"), ("trace", b"\x02"))
    truth = produce(broker, "mirror", messages("abc", headers=headers), messages("xy") + messages("xyz", 1), messages("d"), abort=[1])
    assert sorted(truth) == [(0, 0), (0, 1), (0, 2), (0, 7)]
    first = take(topic, source)
    assert (first.records, first.ends, log(topic)) == (4, {0: 9, 1: 4, 2: 0}, truth)
    assert ends(topic) == {0: 9, 1: 4, 2: 0}, "the log ends where its source does, whatever lies there"
    kept = [(one["key"], bytes(one["value"])) for one in topic.read(partition=0, offset=2).orderBy("offset").first()["headers"]]
    assert kept == list(headers)
    assert (take(topic, source).batches, topic.merge().inserted) == ([], 4)
    topic.snapshot("before")

    # In several appends, with a delete.
    truth |= produce(broker, "mirror", [*messages("ab", 2), Message(0, b"a", None, NOON)], messages("efg"), transactional=True)
    small = take(topic, dataclasses.replace(source, max_offsets=4))
    assert len(small.batches) > 1 and log(topic) == truth
    assert topic.merge().deleted == 1
    found = sorted((row["_partition"], bytes(row["key"]).decode()) for row in topic.latest().collect())
    assert found == [(0, "b"), (0, "c"), (0, "d"), (0, "e"), (0, "f"), (0, "g"), (2, "a"), (2, "b")]
    verified = topic.verify()
    assert verified.ok, verified
    assert topic.clean(force=True).topic == "mirror" and topic.verify().ok
    topic.restore("before")
    assert take(topic, source).records == 6 and log(topic).items() <= truth.items()
    topic.merge()
    assert topic.verify().ok


@pytest.mark.long
def test_a_mirror_is_written_by_its_source_alone(lake: Lake, broker: Broker) -> None:
    create(broker, "alone")
    produce(broker, "alone", messages("abc"))
    topic, source = lake.create_topic("alone"), KafkaSource("alone", broker.address, mirror=True)
    take(topic, source)
    for append in (lambda: topic.append([{"key": b"x", "value": b"y"}]), lambda: take(topic, dataclasses.replace(source, mirror=False))):
        with pytest.raises(Refused, match="whose offsets its records keep") as refused:
            append()
        assert refused.value.name == "LOG_MIRRORED"
    own = lake.create_topic("own")
    own.append([{"key": b"x", "value": b"y"}])
    with pytest.raises(Refused, match="is no mirror of kafka alone"):
        take(own, source)
    with pytest.raises(NotFound, match="there is no such topic") as missing:
        take(own, KafkaSource("nowhere", broker.address))
    assert missing.value.name == "UNKNOWN_TOPIC_OR_PARTITION"
    assert topic.verify().ok and len(log(topic)) == 3 and len(log(own)) == 1


@pytest.mark.long
def test_what_is_gone_is_named(lake: Lake, broker: Broker) -> None:
    create(broker, "gone", 2)
    produce(broker, "gone", messages("abcdef") + messages("a", 1))
    truncate(broker, "gone", {0: 4})
    topic, source = lake.create_topic("gone", partitions=2), KafkaSource("gone", broker.address, mirror=True)
    topic.snapshot("nothing")
    assert (take(topic, source).records, sorted(log(topic))) == (3, [(0, 4), (0, 5), (1, 0)])
    state = log_end(topic.log).tails[0].state
    assert (state.origin, state.start, state.mirror) == (4, 4, "kafka gone")
    topic.merge()

    ledger = lake.create_topic("gone_ledger")
    ledger.snapshot("nothing")
    plain = dataclasses.replace(source, mirror=False)
    assert take(ledger, plain).ends == {0: 6, 1: 1}
    produce(broker, "gone", messages("ghij") + messages("b", 1))
    truncate(broker, "gone", {0: 8})
    for target, one in ((topic, source), (ledger, plain)):
        before = ends(target)
        with pytest.raises(Refused, match=r"offsets \[6, 8\) of partition 0 of kafka://.*are gone") as refused:
            take(target, one)
        assert (refused.value.name, refused.value.expected, refused.value.actual) == ("SOURCE_TRUNCATED", {0: 6}, {0: 8})
        assert ends(target) == before
        # What may be missing is said, and stays a hole.
        assert take(target, dataclasses.replace(one, starting_offsets={0: 8})).records == 3
        assert take(target, one).batches == []
    assert sorted(log(topic)) == [(0, 4), (0, 5), (0, 8), (0, 9), (1, 0), (1, 1)]
    topic.merge()
    assert topic.verify().ok and ledger.verify().ok

    # Restored to before they began: what the source has removed since is missed, as before, and not passed over.
    for target, one, first in ((topic, source, 0), (ledger, plain, 4)):
        target.restore("nothing")
        with pytest.raises(Refused, match=rf"offsets \[{first}, 8\) of partition 0 of kafka://.*are gone"):
            take(target, one)
        assert take(target, dataclasses.replace(one, starting_offsets={0: 8})).records == 4
        assert target.verify().ok

    delete(broker, "gone")
    create(broker, "gone", 2)
    produce(broker, "gone", messages("a"))
    for target, one in ((topic, source), (ledger, plain)):
        with pytest.raises(Refused, match=r"partition 0 ends at 1, up to 10 was taken") as refused:
            take(target, one)
        assert refused.value.name == "SOURCE_REPLACED"


@pytest.mark.long
def test_a_restore_rewinds_both(lake: Lake, broker: Broker) -> None:
    create(broker, "rewound")
    produce(broker, "rewound", messages("abc"))
    source = KafkaSource("rewound", broker.address, mirror=True)
    mirror, ledger = lake.create_topic("rewound"), lake.create_topic("rewound_ledger")
    both = ((mirror, source), (ledger, dataclasses.replace(source, mirror=False)))
    for topic, one in both:
        take(topic, one)
        topic.merge()
        topic.snapshot("before")
    produce(broker, "rewound", messages("de"))
    for topic, one in both:
        assert take(topic, one).records == 2
        topic.merge()
        topic.restore("before")
        again = take(topic, one)
        assert (again.records, again.ends, sorted(log(topic))) == (2, {0: 5}, [(0, offset) for offset in range(5)])
        topic.merge()
        assert topic.verify().ok


ORDER = "id BIGINT, amount DECIMAL(9,2), at TIMESTAMP, raw BINARY, share DOUBLE"


def test_messages_are_decoded_into_the_declared_types(lake: Lake, broker: Broker, tmp_path: Path) -> None:
    (tmp_path / "order.avsc").write_text(json.dumps(SCHEMA))
    order = {"id": 1, "amount": "12.50", "at": "2023-11-14T22:13:20Z", "raw": {"hex": "00ff"}, "share": 0.5}
    avro = encoded({**order, "amount": Decimal("12.50"), "at": NOON, "raw": b"\x00\xff"})
    change = {"before": order, "after": None, "op": "d", "ts_ms": NOON + 5, "source": {"table": "orders"}}
    values = {
        "json": [json.dumps(order).encode()],
        "debezium": [json.dumps({**change, "op": "c", "after": order, "before": None}).encode(),
                     json.dumps({"schema": {}, "payload": change}).encode()],
        f"avro:7={tmp_path}/order.avsc": [b"\0\0\0\0\x07" + avro],
    }  # fmt: skip
    for form, found in values.items():
        name = f"decoded_{form[:4]}"
        create(broker, name)
        produce(broker, name, [Message(0, b'{"order_id": 1}', value, NOON - 1) for value in found])
        topic = lake.create_topic(name, key="order_id BIGINT", value=ORDER)
        with pytest.raises(InvalidRequest, match="say how they are decoded, for example decode={'key': 'json'}"):
            take(topic, KafkaSource(name, broker.address))
        source = KafkaSource(name, broker.address, decode={"key": "json", "value": form})
        assert take(topic, source).records == len(found)
        read = topic.read().orderBy("offset").collect()
        assert {
            (row["key"]["order_id"], str(row["value"]["amount"]), bytes(row["value"]["raw"]), row["value"]["share"]) for row in read
        } == {(1, "12.50", b"\x00\xff", 0.5)}
        assert [row["tombstone"] for row in read] == [False, True][: len(found)]
        assert int(read[0]["timestamp"].timestamp() * 1000) == (NOON + 5 if form == "debezium" else NOON - 1)
        assert take(topic, source).batches == []

        # One that is wrong refuses the batch, and is named by its offset.
        produce(broker, name, [Message(0, b'{"order_id": 2}', found[0]), Message(0, b'{"order_id": 3}', b'{"id": "x"}')])
        with pytest.raises(InvalidRecords, match=rf"{name}-0, offset {len(found) + 1}: value") as refused:
            take(topic, source)
        assert refused.value.problems[0]["offset"] == len(found) + 1
        assert topic.read().count() == len(found)


@pytest.mark.long
def test_what_cannot_be_decoded_is_put_aside_and_leaves_a_hole(lake: Lake, broker: Broker, tmp_path: Path) -> None:
    create(broker, "aside")
    config = {"quality.suites": write(tmp_path, "aside", append=[rows("has_n", "n IS NOT NULL")]), "quality.on.failure": "quarantine"}
    topic = lake.create_topic("aside", key="STRING", value="n INT", config=config)
    source = KafkaSource("aside", broker.address, mirror=True, decode={"value": "json"})
    values = [b'{"n": 1}', b"{", b'{"n": null}', b'{"n": 4}', b"\xff"]
    produce(broker, "aside", [Message(0, b"k%d" % number, value) for number, value in enumerate(values)])
    first = take(topic, source)
    assert (first.records, first.quarantined, first.ends) == (2, 3, {0: 5})
    assert sorted(row["offset"] for row in topic.read().collect()) == [0, 3]
    aside = [(row["source"], json.loads(row["raw"])) for row in topic.quarantined().filter("raw IS NOT NULL").collect()]
    assert sorted((source, said["offset"], said["value"]) for source, said in aside) == [("aside-0", 1, "{"), ("aside-0", 4, "hex FF")]
    # Nothing but what cannot be decoded: the log moves on, so that it is put aside once.
    produce(broker, "aside", [Message(0, b"k", b"[")])
    assert (take(topic, source).quarantined, take(topic, source).batches, ends(topic)) == (1, [], {0: 6})
    assert topic.quarantined().count() == 4
    topic.merge()
    assert topic.verify().ok
    with pytest.raises(GateFailed):
        topic.configure({"quality.on.failure": "refuse"})
        produce(broker, "aside", [Message(0, b"k", b'{"n": null}')])
        take(topic, source)


def test_micro_batches_are_appended_once(spark: SparkSession, lake: Lake, broker: Broker, tmp_path: Path) -> None:
    create(broker, "streamed", 2)
    produce(broker, "streamed", messages("abc") + messages("d", 1))
    topic, checkpoint = lake.create_topic("streamed", partitions=2), str(tmp_path / "checkpoint")
    options = {"kafka.bootstrap.servers": broker.address, "subscribe": "streamed", "startingOffsets": "earliest"}
    appender = BatchAppender(lake.root, "streamed", checkpoint)

    def run() -> None:
        stream = spark.readStream.format("kafka").options(**options).load()
        writer = stream.writeStream.foreachBatch(appender).option("checkpointLocation", checkpoint)
        writer.trigger(availableNow=True).start().awaitTermination()

    run()
    # As by a query that was killed between the append and its own commit: the batch comes again.
    appender(kafka.records(spark, Connection(broker.address, "streamed"), {0: (0, 3), 1: (0, 1)}), 0)
    produce(broker, "streamed", messages("ef"))
    run()
    found = sorted(bytes(row["key"]) for row in topic.read().collect())
    assert found == [b"a", b"b", b"c", b"d", b"e", b"f"]


@pytest.mark.long
def test_the_command_line_and_what_it_does_not_tell(
    lake: Lake, broker: Broker, cli: Callable[..., Answer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(broker, "shop")
    produce(broker, "shop", messages("ab"))
    lake.create_topic("shop", key="STRING", value="STRING")
    place, address = f"--root {lake.root}", f"kafka://{broker.address}/shop"
    done = cli(f"append shop --from {address} --mirror {place}")
    assert (done.code, done.out) == (0, f"shop: appended 2 records of 1 range from {address}: offsets [0, 2) of partition 0\n")
    toml = tmp_path / "lakelog.toml"
    client = '{"kafka.security.protocol" = "SASL_PLAINTEXT", "kafka.sasl.mechanism" = "PLAIN", "kafka.sasl.jaas.config" = "env:SHOP_JAAS",'
    client += ' "kafka.default.api.timeout.ms" = "4000", "kafka.request.timeout.ms" = "3000"}'
    source = f'{{kafka = "shop", bootstrap_servers = "{broker.address}", mirror = true%s}}'
    text = f'root = "{lake.root}"\n[topics.shop]\nsources = [{source}]\n'
    toml.write_text(text % "")
    produce(broker, "shop", messages("c"))
    report = tmp_path / "run.json"
    done = cli(f"run shop --config {toml} --report {report}")
    assert done.code == 0 and "append: 1 record of 1 range" in done.out
    assert json.loads(report.read_text())["steps"][0]["report"]["sources"][0]["ends"] == {"0": 3}
    # A broker that does not speak so: the secret is in no message, report, or table.
    toml.write_text(text % f", options = {client}")
    secret = "s3cr3t-of-the-shop"
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    monkeypatch.setenv("SHOP_JAAS", f'{module} required username="shop" password="{secret}";')
    failed = cli(f"--json --debug run shop --config {toml} --report {report}")
    assert failed.code in (2, 75)
    held = lake.spark.read.format("delta").load(f"{lake.root}/_lakelog/runs")
    runs = [str(row) for row in held.collect()]
    assert held.filter("verb = 'run'").count() == 2
    assert not any(secret in one or "PlainLoginModule" in one for one in [failed.out, failed.err, report.read_text(), *runs])


@pytest.mark.long
def test_a_broker_that_is_not_there(lake: Lake) -> None:
    topic = lake.create_topic("absent")
    options = {"kafka.default.api.timeout.ms": "3000", "kafka.request.timeout.ms": "2000"}
    with pytest.raises(Conflict) as refused:
        kafka.ends(topic.spark, Connection("127.0.0.1:1", "absent", options))
    assert refused.value.name == "NETWORK_EXCEPTION"
