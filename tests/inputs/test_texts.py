"""Texts of times and numbers: in UTC where they have no zone, whatever zone the session is in; what would be cut, completed or guessed is refused."""

from __future__ import annotations

import datetime
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro
import pandas
import pyarrow
import pytest
from pyarrow import parquet

from lakelog.errors import InvalidRecords, InvalidRequest
from lakelog.formats.decoding import Decoding
from lakelog.inputs.kafka import KafkaRecords
from tests.tables import versions

if TYPE_CHECKING:
    from lakelog import Lake

MIDNIGHT = 1_704_067_200_000_000
NAIVE, ZONED = "2024-01-01T00:00:00", "2024-01-01 02:00:00+02:00"
TYPES = {"t": "TIMESTAMP", "n": "TIMESTAMP_NTZ", "d": "DATE", "f": "FLOAT", "x": "DOUBLE"}
# A text, or a number, that is none of the type.
WRONG: list[tuple[str, Any]] = [
    ("d", "2024-01-01Tgarbage"), ("d", "2024-01-01 nonsense"), ("d", "2024-01-01T23:59:59"), ("d", "2024"), ("d", "10000-01-01"), ("t", "2024"),
    ("t", "12:30"), ("t", "T12:30"), ("t", "now"), ("t", "2024-01-01T00:00:00.123456789Z"), ("n", "2024-01-01T00:00:00+05:00"), ("f", 1e300),
    ("x", "1e400"), ("x", "1d"), ("t", "2024-07-01 10:00:00 BST"), ("t", "2024-07-01T10:00IST"), ("t", "2024-07-01 10:00:00 CST "),
]  # fmt: skip
RIGHT: list[tuple[str, Any]] = [
    ("d", "2024-01-01"), ("d", "2024-01-01 00:00:00"), ("t", "2024-01-01"), ("t", "2024-01-01T00:00:00.123456000Z"), ("t", "2024-01-01 00:00:00 UTC"),
    ("t", "2024-01-01 00:00:00+00"), ("t", "2024-01-01T00:00:00+0000"), ("t", "2024-01-01T01:00:00 Europe/Berlin"), ("n", NAIVE), ("f", 1.5),
    ("x", "NaN"), ("x", 1e300), ("t", "2024-01-01 00:00:00 GMT"),
]  # fmt: skip


@pytest.fixture
def in_new_york(lake: Lake) -> Iterator[None]:
    """The session's zone is another than UTC."""
    before = lake.spark.conf.get("spark.sql.session.timeZone")
    lake.spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    yield
    lake.spark.conf.set("spark.sql.session.timeZone", before)


@pytest.mark.usefixtures("in_new_york")
def test_times_without_a_zone_are_utc_whatever_zone_the_session_is_in(lake: Lake, tmp_path: Path) -> None:
    topic = lake.create_topic("times", key="k STRING", value="t TIMESTAMP, ts ARRAY<TIMESTAMP>")
    naive = {"t": NAIVE, "ts": [NAIVE, ZONED, "2024-01-01"]}
    (tmp_path / "a.ndjson").write_text(json.dumps({"key": {"k": "ndjson"}, "value": naive}) + "\n")
    (tmp_path / "b.csv").write_text(f"k,t,_timestamp\nnaive,{NAIVE},{NAIVE}\nzoned,{ZONED},{ZONED}\nday,2024-01-01,2024-01-01\n")
    topic.append([{"key": {"k": "text"}, "value": naive}, {"key": {"k": "datetime"}, "value": {"t": datetime.datetime(2024, 1, 1)}}])
    topic.append(str(tmp_path / "a.ndjson"))
    topic.append(str(tmp_path / "b.csv"))
    rows = (
        topic.read()
        .selectExpr("key.k", "unix_micros(value.t) AS t", "transform(value.ts, one -> unix_micros(one)) AS ts", "timestamp")
        .collect()
    )
    assert {row["k"]: row["t"] for row in rows} == dict.fromkeys(["ndjson", "text", "datetime", "naive", "zoned", "day"], MIDNIGHT)
    assert [row["ts"] for row in rows if row["ts"]] == [[MIDNIGHT] * 3] * 2
    stamps = topic.read().filter("value.ts IS NULL AND key.k != 'datetime'").selectExpr("unix_micros(timestamp)").collect()
    assert [row[0] for row in stamps] == [MIDNIGHT] * 3


@pytest.mark.long
@pytest.mark.usefixtures("in_new_york")
def test_times_are_instants_whatever_the_session_means_by_timestamp(lake: Lake, tmp_path: Path) -> None:
    """Such as TIMESTAMP_NTZ (`spark.sql.timestampType`), which drops the zone that a text names."""
    topic = lake.create_topic("instants", key="k STRING", value="t TIMESTAMP, ts ARRAY<TIMESTAMP>, o STRUCT<t: TIMESTAMP>")
    value = {"t": ZONED, "ts": [ZONED, NAIVE], "o": {"t": ZONED}}
    (tmp_path / "a.csv").write_text(f"k,t,_timestamp\ncsv,{ZONED},{ZONED}\n")
    frame = pyarrow.table({"k": ["arrow"], "t": pyarrow.array([MIDNIGHT], pyarrow.timestamp("us", "UTC"))})
    for zone in ("America/New_York", "UTC"):
        lake.spark.conf.set("spark.sql.session.timeZone", zone)
        lake.spark.conf.set("spark.sql.timestampType", "TIMESTAMP_NTZ")
        try:
            topic.append([{"key": {"k": "dict"}, "value": value}])
            topic.append(str(tmp_path / "a.csv"))
            topic.append(frame)
            topic.merge()
        finally:
            lake.spark.conf.unset("spark.sql.timestampType")
        lake.spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    times = "unix_micros(value.t)", "transform(value.ts, one -> unix_micros(one))", "unix_micros(value.o.t)"
    assert {(row[0], str(row[1:])) for row in topic.read().selectExpr("key.k", *times).collect()} == {
        ("dict", str((MIDNIGHT, [MIDNIGHT] * 2, MIDNIGHT))), ("csv", str((MIDNIGHT, None, None))), ("arrow", str((MIDNIGHT, None, None))),
    }  # fmt: skip
    assert {row[0] for row in topic.read().filter("key.k = 'csv'").selectExpr("unix_micros(timestamp)").collect()} == {MIDNIGHT}
    assert topic.latest().filter(f"unix_micros(t) = {MIDNIGHT}").count() == 3


def test_what_would_be_cut_completed_or_guessed_is_refused_by_record(lake: Lake, tmp_path: Path) -> None:
    topic = lake.create_topic("texts", key="k STRING", value=", ".join(f"{name} {kind}" for name, kind in TYPES.items()))
    before = versions(lake.root, "texts")
    with pytest.raises(InvalidRecords) as refused:
        topic.append([{"key": {"k": "k"}, "value": {name: value}} for name, value in WRONG])
    assert [one["record"] for one in refused.value.details["problems"]] == list(range(len(WRONG)))
    table = tmp_path / "texts.csv"

    def write(cells: list[tuple[str, Any]]) -> str:
        lines = ["k," + ",".join(TYPES)] + ["k," + ",".join(str(value) if at == name else "" for at in TYPES) for name, value in cells]
        table.write_text("\n".join(lines) + "\n")
        return str(table)

    with pytest.raises(InvalidRecords) as refused:
        topic.append(write(WRONG))
    assert [one["line"] for one in refused.value.details["problems"]] == list(range(2, len(WRONG) + 2))
    assert versions(lake.root, "texts") == before
    assert topic.append([{"key": {"k": "k"}, "value": {name: value}} for name, value in RIGHT]).records == len(RIGHT)
    topic.append(write(RIGHT))
    stored = [row["value"].asDict() for row in topic.read().collect()]
    assert [one for one, (name, _) in zip(stored, RIGHT + RIGHT, strict=True) if one[name] is None] == []
    assert str(stored[: len(RIGHT)]) == str(stored[len(RIGHT) :]), "NDJSON and CSV say the same"


def test_parquet_files_with_other_columns_give_what_each_would_give_alone(lake: Lake, tmp_path: Path) -> None:
    topic = lake.create_topic("files", key="STRING", value="STRING")
    tables = {
        "a": {"key": ["1"], "value": ["x"]}, "b": {"key": ["2"], "value": ["y"], "tombstone": [True]}, "c": {"key": ["3"], "other": ["z"]},
        "d": {"key": ["4"], "value": [b"\xff"]},
    }  # fmt: skip
    for name, columns in tables.items():
        parquet.write_table(pyarrow.table(columns), tmp_path / f"{name}.parquet")

    def files(names: str) -> list[str]:
        return [str(tmp_path / f"{name}.parquet") for name in names]

    before = versions(lake.root, "files")
    with pytest.raises(InvalidRequest, match="Unknown column other"):
        topic.append(files("ac"))
    with pytest.raises(InvalidRequest, match="columns of the same types"):
        topic.append(files("ad"))
    (tmp_path / "none").mkdir()
    parquet.write_table(pyarrow.table([["a"], ["b"], ["c"]], names=["key", "value", "VALUE"]), tmp_path / "e.parquet")
    with pytest.raises(InvalidRequest, match="none: there is no Parquet file"):
        topic.append(str(tmp_path / "none"), format="parquet")
    with pytest.raises(InvalidRequest, match="two columns have one name, or names that differ in case alone: value"):
        topic.append(files("e"))
    assert versions(lake.root, "files") == before
    topic.append(files("ab"))
    assert [(row["key"], row["value"], row["tombstone"]) for row in topic.read().collect()] == [("1", "x", False), ("2", "y", True)]


def test_names_that_are_no_texts_or_stand_twice_are_refused(lake: Lake) -> None:
    texts = lake.create_topic("maps", key="STRING", value="MAP<STRING, STRING>")
    numbers = lake.create_topic("numbers", key="STRING", value="MAP<INT, STRING>")
    for value in ({1: "x", "1": "y"}, {None: "x"}):
        with pytest.raises(InvalidRecords, match="a name that is no text"):
            texts.append([{"key": "a", "value": value}])
    with pytest.raises(InvalidRequest, match="names in JSON and in dicts of records are text"):
        numbers.append([{"key": "a", "value": {"1": "x"}}])
    twice = pyarrow.table([["a"], ["x"], ["y"]], names=["key", "value", "Value"])
    for frame in (twice, lake.spark.sql("SELECT 'a' AS key, 'x' AS value, 'y' AS value"), twice.to_pandas()):
        with pytest.raises(InvalidRequest, match="Two columns have one name"):
            lake.topic("maps").append(frame)
    numbers.append(lake.spark.sql("SELECT 'a' AS key, map(1, 'x') AS value"))
    assert [row["value"] for row in numbers.read().collect()] == [{1: "x"}]
    assert texts.ends() == {0: 0}


def test_what_pandas_has_for_nothing_is_no_delete_unless_it_is_flagged(lake: Lake) -> None:
    topic = lake.create_topic("frames", key="STRING", value="STRING")
    before = versions(lake.root, "frames")
    missing = {"value": pandas.array([pandas.NA], dtype="string")}
    frames = [
        pandas.DataFrame({"key": ["a"], **missing}), pandas.DataFrame({"key": ["a"], "value": [pandas.NA]}, dtype=object),
        pandas.DataFrame({"key": ["a"], "value": [float("nan")]}, dtype=object),
    ]  # fmt: skip
    for frame in frames:
        with pytest.raises(InvalidRecords, match="a delete is not guessed"):
            topic.append(frame)
    assert versions(lake.root, "frames") == before
    topic.append(pandas.DataFrame({"key": ["a"], **missing, "tombstone": [True]}))
    topic.append(pandas.DataFrame({"key": ["b"], "value": [None]}, dtype=object))
    assert [(row["key"], row["tombstone"]) for row in topic.read().collect()] == [("a", True), ("b", True)]


@pytest.mark.usefixtures("in_new_york")
def test_messages_of_kafka_are_decoded_in_utc(lake: Lake, tmp_path: Path) -> None:
    """JSON, keys too, Debezium's rows, and Avro's local times."""
    from pyspark.sql import functions as F

    schema = {"type": "record", "name": "A", "fields": [{"name": "t", "type": {"type": "long", "logicalType": "local-timestamp-micros"}}]}
    (tmp_path / "a.avsc").write_text(json.dumps(schema))
    key, change = json.dumps({"k": NAIVE}), json.dumps({"op": "c", "before": None, "after": {"t": NAIVE}, "ts_ms": 1})
    octets = io.BytesIO()
    fastavro.schemaless_writer(octets, fastavro.parse_schema(schema), {"t": datetime.datetime.fromisoformat(NAIVE)})
    forms = {
        "json": ("json", json.dumps({"t": NAIVE}).encode()),
        "debezium": ("debezium", change.encode()),
        "avro": (f"avro:{tmp_path}/a.avsc", octets.getvalue()),
    }
    for name, (form, value) in forms.items():
        topic = lake.create_topic(name, key="k TIMESTAMP", value="t TIMESTAMP")
        message = lake.spark.range(1).select(
            F.unhex(F.lit(key.encode().hex())).alias("key"), F.unhex(F.lit(value.hex())).alias("value"), F.lit("source").alias("topic"),
            F.lit(0).alias("partition"), F.lit(0).cast("bigint").alias("offset"), F.timestamp_millis(F.lit(1)).alias("timestamp"),
        )  # fmt: skip
        topic.append(KafkaRecords(message, Decoding.of({"key": "json", "value": form}, "decode")))
        found = topic.read().select(F.unix_micros("key.k").alias("k"), F.unix_micros("value.t").alias("v")).collect()
        assert [(row["k"], row["v"]) for row in found] == [(MIDNIGHT, MIDNIGHT)], name


def test_a_text_that_is_no_utf_8_is_refused_wherever_it_lies(lake: Lake) -> None:
    """Spark takes octets for a text as they are (CAST(value AS STRING) of Kafka's, say); no other reader of the table could read it from there on."""
    lake.create_topic(
        "t", key="k STRING", value="s STRING, l ARRAY<STRING>, m MAP<STRING, STRING>, r STRUCT<a: INT, b: ARRAY<STRUCT<c: STRING>>>"
    )
    bad, good = "CAST(X'41FF' AS STRING)", "'é'"
    row = (
        "SELECT {0} AS k, {1} AS s, array(NULL, {2}) AS l, map({3}, {4}) AS m, named_struct('a', 1, 'b', array(NULL, named_struct('c', {5}))) AS r,"
        " array(named_struct('key', {6}, 'value', X'FF')) AS _headers"
    )
    rows = [row.format(*[bad if place == wrong else good for place in range(7)]) for wrong in range(8)]
    names = ["k", "s", "l", "m", "m", "r", "_headers"]
    with pytest.raises(InvalidRecords) as refused:
        lake.topic("t").append(lake.spark.sql(" UNION ALL ".join(rows)))
    assert [one["reason"] for one in refused.value.problems] == [f"{name} is not UTF-8 text" for name in names]
    assert (lake.topic("t").ends(), lake.topic("t").status().bronze_version) == ({0: 0}, 0), "nothing was written"
    empty = "SELECT 'x' AS k, NULL AS s, NULL AS l, NULL AS m, NULL AS r, NULL AS _headers"
    assert lake.topic("t").append(lake.spark.sql(f"{rows[7]} UNION ALL {empty}")).records == 2
