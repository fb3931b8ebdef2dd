"""What Kafka sources decide without Spark or a broker: settings, secrets, steps, refusals, places in the log, Avro."""

from __future__ import annotations

import dataclasses
import io
import json
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lakelog import ExpectedOffsetMismatch, InvalidConfig, InvalidRequest, NotFound, NotReady, Refused
from lakelog.delta import kafka
from lakelog.delta.kafka import Connection
from lakelog.errors import Conflict
from lakelog.formats import avro
from lakelog.log import ledger
from lakelog.log.ledger import Entry
from lakelog.model.log_state import PartitionState
from lakelog.model.mirroring import Mirrored, require_writer
from lakelog.model.segments import Share, Tail
from lakelog.sources import kafka as of_kafka
from lakelog.sources import offsets, secrets
from lakelog.sources.configured import of_name, parsed
from lakelog.sources.kafka_source import KafkaSource, of_uri
from lakelog.terminal.named import stated_decoding

BROKER = {"kafka": "orders", "bootstrap_servers": "broker:9092"}
SOURCE = KafkaSource("orders", "broker:9092")


def of(**said: Any) -> KafkaSource:
    found = parsed([{**BROKER, **said}], where="sources", folder="/etc/lakelog")[0]
    assert isinstance(found, KafkaSource)
    return found


def test_settings() -> None:
    source = of(
        name="shop", mirror=True, decode={"value": "avro:7=v7.avsc;9=/schemas/v9.avsc", "key": "json"}, starting_offsets={"1": 5},
        options={"kafka.security.protocol": "SASL_SSL", "kafka": {"sasl": {"jaas.config": "env:JAAS"}}},
    )  # fmt: skip
    assert source.decode == {"value": "avro:7=/etc/lakelog/v7.avsc;9=/schemas/v9.avsc", "key": "json"}
    assert source.options == {"kafka.security.protocol": "SASL_SSL", "kafka.sasl.jaas.config": "env:JAAS"}
    assert (source.identity, str(source), source.starting_offsets) == ("kafka shop", "kafka://broker:9092/orders", {1: 5})
    assert stated_decoding("key=json,value=avro:a.avsc", Path("/here")) == {"key": "json", "value": "avro:/here/a.avsc"}
    assert of_name("kafka://broker:9092/orders", [source], "/") == (source,)
    assert of_name("kafka://a:1,b:2/orders", [source], "/") == (KafkaSource("orders", "a:1,b:2"),)


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ({"directory": "/in"}, "needs either a directory or a table, or a topic"),
        ({"pattern": "*"}, "pattern does not go with a kafka"),
        ({"mirror": "yes"}, "mirror must be true or false"),
        ({"kafka": "a b"}, "no topic of Kafka's"),
        ({"decode": {"value": "jsno"}}, "Did you mean json"),
        ({"decode": {"body": "json"}}, "there is no side body"),
        ({"decode": {"value": "avro"}}, "avro needs a schema file"),
        ({"decode": {"value": "avro:x=a.avsc"}}, "avro needs a schema file"),
        ({"options": {"kafka.bootstrap.servers": "x"}}, "cannot be set"),
        ({"options": {"startingOffsets": "x"}}, "cannot be set"),
        ({"options": {"kafka.ssl.key.password": "hunter22"}}, "is a secret: name where it is"),
        ({"options": {"kafka.sasl.jaas.config": 'x password="hunter22";'}}, "is a secret: name where it is"),
        ({"starting_offsets": {"0": "5"}}, "a table of partitions and offsets"),
        ({"max_offsets": 0}, "at least 1"),
    ],
)
def test_settings_that_are_wrong(said: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidConfig, match=problem) as refused:
        of(**said)
    assert "hunter22" not in str(refused.value)


def test_a_source_without_servers_and_an_address_that_is_none() -> None:
    with pytest.raises(InvalidConfig, match="needs bootstrap_servers"):
        parsed([{"kafka": "orders"}], where="sources", folder="/")
    for text in ("kafka://orders", "kafka://b:1/", "kafka:b/orders", "kafka://b/a/b"):
        with pytest.raises(InvalidConfig, match="kafka://HOST:PORT/TOPIC"):
            of_uri(text)


def test_secrets_are_found_by_reference_and_told_to_nobody(tmp_path: Path) -> None:
    file = tmp_path / "jaas"
    file.write_text('Module required username="shop" password="s3cr\'t";\n')
    options = {"kafka.sasl.jaas.config": f"file:{file}", "kafka.ssl.key.password": "env:KEY", "kafka.client.id": "lakelog"}
    found = secrets.resolved(options, "sources", {"KEY": "opensesame"})
    assert found.options["kafka.ssl.key.password"] == "opensesame" and found.options["kafka.client.id"] == "lakelog"
    connection = Connection("broker:9092", "orders", found.options, found.secrets)
    assert connection.settings()[kafka.ISOLATION] == "read_committed"
    told = [repr(found), repr(connection), str(connection)]
    error = kafka.translated("KafkaException: bad password s3cr't or opensesame, user shop", connection)
    assert isinstance(error, InvalidConfig) and not any("s3cr't" in one or "opensesame" in one for one in [*told, str(error)])
    with pytest.raises(InvalidConfig, match="KEY, which is not set"):
        secrets.resolved(options, "sources", {})
    with pytest.raises(InvalidConfig, match="cannot be read: No such file"):
        secrets.resolved({"kafka.client.id": f"file:{tmp_path}/none"}, "sources")
    # What a run's digest of its configuration is made of.
    source = dataclasses.asdict(of(options={"kafka.sasl.jaas.config": f"file:{file}"}))
    assert "s3cr't" not in json.dumps(source) and f"file:{file}" in json.dumps(source)


def test_a_foreign_error_is_raised_without_its_secrets() -> None:
    connection = Connection("broker:9092", "orders", {}, ("opensesame",))
    with pytest.raises(InvalidConfig, match=r"\*\*\*") as refused, kafka.door(connection):
        raise ValueError("what is opensesame?")
    assert refused.value.__cause__ is None and "opensesame" not in str(refused.value)
    with pytest.raises(Conflict) as conflict, kafka.door(connection):
        raise Conflict("opensesame")
    assert str(conflict.value) == "***"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("[KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE] Some data may have been lost", kafka.Lost),
        ("Failed to find the data source: kafka. Make sure", NotReady),
        ("org.apache.kafka.common.errors.UnknownTopicOrPartitionException: This server does not host this topic-partition.", NotFound),
        ("org.apache.kafka.common.errors.SaslAuthenticationException: Authentication failed", InvalidConfig),
        ("org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node assignment.", Conflict),
        ("org.apache.kafka.common.config.ConfigException: No resolvable bootstrap urls given", InvalidConfig),
    ],
)
def test_what_messages_of_java_mean(text: str, kind: type[Exception]) -> None:
    assert isinstance(kafka.translated(text, Connection("broker:9092", "orders")), kind)
    assert kafka.translated("java.lang.ArithmeticException", Connection("b", "t")) is None


def test_steps_reach_the_end_and_stop() -> None:
    source = dataclasses.replace(SOURCE, max_offsets=10)
    at, ends = {0: 3, 1: 0, 2: 7}, {0: 12, 1: 4, 2: 7}
    found = []
    while (step := offsets.next_step(source, at, ends)) is not None:
        found.append(step.spans)
        at = dict(step.ends)
    assert (found, at) == ([{0: (3, 8), 1: (0, 4)}, {0: (8, 12)}], ends)
    # What is said to be missing is covered, and not read.
    accepted = dataclasses.replace(SOURCE, starting_offsets={0: 9})
    step = offsets.next_step(accepted, {0: 3, 1: 4}, {0: 12, 1: 4})
    assert step is not None and (step.spans, step.read) == ({0: (3, 12)}, {0: (9, 12)})
    step = offsets.next_step(accepted, {0: 3}, {0: 8})
    assert step is not None and (step.spans, step.read) == ({0: (3, 8)}, {})


def test_a_partition_that_was_added_begins_at_0() -> None:
    """Of it the source may have removed messages already; where it is read from 0 that is found, and named."""
    assert offsets.beginnings([1, 3], {0: 5, 2: 7}, {}) == {1: 0, 3: 0}
    assert offsets.beginnings([1, 3], {0: 5, 2: 7}, {3: 40}) == {1: 0, 3: 40}, "a restore took back its first messages"
    assert offsets.beginnings([0, 1], {}, {0: 9}) == {0: 9, 1: 0}, "a restore took back the first messages of all that there was"
    assert offsets.beginnings([0, 1], {}, {}) == {}, "nothing was taken yet: what the source removed before is not missed"


@pytest.mark.parametrize(("taken", "starts"), [({}, {0: 40, 1: 40}), ({"0": 90}, {0: 90, 1: 0})])
def test_a_look_asks_for_first_records_only_where_nothing_was_taken(
    monkeypatch: pytest.MonkeyPatch, taken: dict[str, int], starts: dict[int, int]
) -> None:
    entries = {"start": Entry("start", 0, "", more={"to": taken, "from": taken})} if taken else {}
    monkeypatch.setattr(kafka, "ends", lambda *given: {0: 100, 1: 100})
    monkeypatch.setattr(kafka, "firsts", lambda spark, connection, partitions, until: dict.fromkeys(partitions, 40))
    monkeypatch.setattr(of_kafka, "log_end", lambda log: SimpleNamespace(epoch=0))
    monkeypatch.setattr(ledger, "entries", lambda log, source: entries)
    said: list[dict[int, int]] = []
    monkeypatch.setattr(of_kafka, "_said", lambda topic, source, firsts, epoch: said.append(firsts) or True)
    position = of_kafka.look(SimpleNamespace(name="orders", spark=None, log=None), SOURCE)  # type: ignore[arg-type]
    assert (position.at, position.known) == (starts, {int(index): offset for index, offset in taken.items()} or starts)
    assert said == ([] if taken else [starts]), "where it begins is said before anything is taken"
    # What may be missing is said, and not read.
    step = offsets.next_step(dataclasses.replace(SOURCE, starting_offsets={1: 60}), position.at, position.ends)
    assert step is not None and step.read[1] == (60, 100)


def test_the_ledger_names_a_step_by_what_it_follows_on() -> None:
    step = offsets.next_step(SOURCE, {0: 3, 1: 0}, {0: 12, 1: 4})
    assert step is not None
    first, other = offsets.entry({}, step), offsets.entry({0: 3}, step)
    assert (first.name, other.name) == ("start", "0:3")
    assert first.more == {"from": {"0": 3, "1": 0}, "to": {"0": 12, "1": 4}}
    begun = offsets.entry({}, offsets.start({0: 3, 1: 0}))
    assert (begun.name, begun.more) == ("start", {"from": {"0": 3, "1": 0}, "to": {"0": 3, "1": 0}})
    assert other.more == {"from": {"1": 0}, "to": {"0": 12, "1": 4}}, "where a partition was begun is said once, by the step that begins it"
    entries = {one.name: one for one in (first, other, Entry("x", 0, "", more={"to": {"0": 20}}))}
    assert (offsets.taken(entries), offsets.taken({})) == ({0: 20, 1: 4}, {})


def test_refusals_name_what_is_gone() -> None:
    with pytest.raises(InvalidRequest, match=r"has 3 partitions, the topic has 2.*partitions=3"):
        offsets.require_same_partitions("orders", SOURCE, 2, {0: 0, 1: 0, 2: 0})
    with pytest.raises(Refused, match=r"partition 0 ends at 5, up to 9 was taken") as refused:
        offsets.require_not_replaced("orders", SOURCE, {0: 9, 1: 3}, {0: 5, 1: 3})
    assert (refused.value.name, refused.value.expected, refused.value.actual) == ("SOURCE_REPLACED", {0: 9}, {0: 5})
    with pytest.raises(Refused, match=r"there is no partition 1, up to 0 was taken") as refused:
        offsets.require_not_replaced("orders", SOURCE, {0: 9, 1: 0}, {0: 9})
    assert refused.value.actual == {1: 0}
    with pytest.raises(InvalidConfig, match=r"starting_offsets 0 = 50 lies beyond the end of .*, whose partition 0 ends at 6"):
        offsets.require_starts("orders", SOURCE, {0: 50}, {0: 6})
    offsets.require_starts("orders", SOURCE, {0: 6, 1: 0}, {0: 6, 1: 3})
    error = offsets.lost("orders", SOURCE, {1: (120, 300)})
    assert "offsets [120, 300) of partition 1" in str(error) and "starting_offsets = {1 = 300}" in str(error)
    assert (error.name, error.expected, error.actual) == ("SOURCE_TRUNCATED", {1: 120}, {1: 300})


def tail(end: int, *, mirror: str | None = "kafka orders", batch: str | None = "b") -> Tail:
    state = PartitionState.first(0, "topic")
    return Tail(0, end, 0, 100, 1000, batch, state if mirror is None else state.mirroring("x", mirror, 0))


def test_mirrored_offsets_leave_holes_and_move_without_records() -> None:
    limits = {"segment_bytes": 1 << 30, "segment_ms": 1 << 40}
    piece = Mirrored("kafka orders", {0: (5, 20)}).pieces({0: tail(5)}, {0: Share(0, 4, 50, 2000, 3000)}, **limits)[0]
    assert (piece.start, piece.end, piece.records, piece.holes, piece.octets) == (5, 20, 4, 11, 150)
    piece = Mirrored("kafka orders", {0: (5, 9)}).pieces({0: tail(5)}, {}, **limits)[0]
    assert (piece.end, piece.records, piece.holes, piece.first_ms, piece.segment) == (9, 0, 4, 1000, 0)
    assert piece.row(3) == {"type": "batch", "after": 3, "octets": 100, "first": 1000, "largest": 0, "records": 0, "holes": 4}
    with pytest.raises(ExpectedOffsetMismatch, match="ends at 7, what was read of its source begins at 5"):
        Mirrored("kafka orders", {0: (5, 9)}).pieces({0: tail(7)}, {}, **limits)
    assert Mirrored("s", {0: (5, 9)}).token == Mirrored("s", {0: (5, 30)}).token != Mirrored("s", {0: (6, 9)}).token


def test_a_mirror_has_one_writer() -> None:
    mirrored = Mirrored("kafka orders", {})
    require_writer("orders", {0: tail(5)}, mirrored)
    require_writer("orders", {0: tail(5, mirror=None)}, None)
    for known, writer in (("kafka orders", None), ("kafka other", mirrored), (None, mirrored)):
        with pytest.raises(Refused) as refused:
            require_writer("orders", {0: tail(5, mirror=known)}, writer)
        assert refused.value.name == "LOG_MIRRORED"
    state = PartitionState.first(3, "topic").mirroring("x", "kafka orders", 40)
    assert (state.origin, state.start, state.epochs, state.whole) == (40, 40, ((0, 40),), True)
    assert PartitionState.from_row(3, 0, "x", state.to_json("topic")) == state


SCHEMA = {
    "type": "record", "name": "Order",
    "fields": [
        {"name": "id", "type": "long"}, {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}}, {"name": "raw", "type": ["null", "bytes"], "default": None},
        {"name": "share", "type": "double"},
    ],
}  # fmt: skip


def encoded(value: dict[str, Any], schema: dict[str, Any] = SCHEMA) -> bytes:
    import fastavro

    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)
    return stream.getvalue()


def test_avro_is_read_to_its_last_octet_by_the_schema_it_was_written_with(tmp_path: Path) -> None:
    (tmp_path / "v7.avsc").write_text(json.dumps(SCHEMA))
    (tmp_path / "broken.avsc").write_text('{"type": "recrod"}')
    octets = encoded({"id": 1, "amount": Decimal("12.50"), "at": 1_700_000_000_123, "raw": b"\xff", "share": float("inf")})
    plain, by_id = avro.schemas(f"{tmp_path}/v7.avsc", "decode"), avro.schemas(f"7={tmp_path}/v7.avsc", "decode")
    text, problem = avro.decoded(octets, plain)
    assert problem is None and json.loads(str(text)) == {
        "id": 1, "amount": "12.50", "at": "2023-11-14T22:13:20.123000+00:00", "raw": {"hex": "ff"}, "share": "Infinity",
    }  # fmt: skip
    assert avro.decoded(b"\0\0\0\0\x07" + octets, by_id) == (text, None)
    assert avro.decoded(None, plain) == (None, None)
    for wrong, known, says in (
        (octets + b"\0", plain, "1 octets behind"), (octets[:-3], plain, "cannot be read by its Avro schema"), (octets, by_id, "no wire header"),
        (b"\0\0\0\0\x09" + octets, by_id, "schema 9, of which there is no file: known are 7"), (b"", by_id, "no wire header"),
    ):  # fmt: skip
        text, problem = avro.decoded(wrong, known)
        assert text is None and says in str(problem), (says, problem)
    for file, says in (("none.avsc", "No such file"), ("broken.avsc", "is no Avro schema")):
        with pytest.raises(InvalidConfig, match=says):
            avro.schemas(f"{tmp_path}/{file}", "decode")
