"""What an append takes in: every shape of good input, and every kind of bad input with a clear error and untouched tables."""

from __future__ import annotations

import datetime
import gzip
import json
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakelog import Lake
from lakelog.errors import Invalid, InvalidConfig, InvalidRecords, InvalidRequest, LakelogError, NotFound, TopicNotFound
from tests.conftest import NOON
from tests.tables import versions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakelog import Topic

UTC = datetime.timezone.utc


def _rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in frame.collect()]


def _log(topic: Topic, *columns: str) -> list[tuple[Any, ...]]:
    return _rows(topic.read().selectExpr(*columns))


def _write(path: Path, *lines: str) -> str:
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return str(path)


@pytest.fixture(scope="module")
def house(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """A lake that the tests of this module share; refusals leave it as it is, so they need no other."""
    return Lake(spark, str(tmp_path_factory.mktemp("inputs") / "lake"), clock=lambda: NOON)


@pytest.fixture(scope="module")
def text(house: Lake) -> Topic:
    """A topic of text keys and values with one record, small records only, and a window for timestamps."""
    config = {"max.message.bytes": 30, "message.timestamp.after.max.ms": 1000}
    topic = house.create_topic("text", key="STRING", value="STRING", partitions=2, config=config)
    topic.append([{"key": "first", "value": "1", "partition": 0}])
    topic.merge()
    return topic


@pytest.fixture(scope="module")
def orders(house: Lake) -> Topic:
    """A topic with STRUCT key and value."""
    return house.create_topic("orders", key="order_id BIGINT, region STRING", value="status STRING, amount DECIMAL(10,2)")


def _refuses(topic: Topic, action: Callable[[], Any], kind: type[LakelogError], *words: str, name: str | None = None) -> Any:
    """The action raises that error, its text has all words, and no table of the topic moved."""
    before = versions(topic.root, topic.name)
    with pytest.raises(kind) as refused:
        action()
    for word in words:
        assert word in str(refused.value), f"{word!r} is missing in: {refused.value}"
    assert name is None or refused.value.name == name
    assert versions(topic.root, topic.name) == before
    return refused.value


# ---- bad records ----

BAD_LINES = {
    "broken JSON": ('{"key": "a", "value": ', "INVALID_RECORD", "JSON"),
    "not an object": ('["a"]', "INVALID_RECORD", "object"),
    "no key": ('{"value": "x"}', "INVALID_RECORD", "key"),
    "null key": ('{"key": null, "value": "x"}', "INVALID_RECORD", "key"),
    "unknown field": ('{"key": "a", "value": "x", "colour": 1}', "INVALID_RECORD", "colour"),
    "wrong type": ('{"key": "a", "value": 5}', "INVALID_RECORD", "value should be string"),
    "wrong flag": ('{"key": "a", "value": "x", "tombstone": "yes"}', "INVALID_RECORD", "tombstone"),
    "wrong headers": ('{"key": "a", "value": "x", "headers": {"h": 1}}', "INVALID_RECORD", "headers"),
    "too large": ('{"key": "a", "value": "0123456789012345678901234567890"}', "MESSAGE_TOO_LARGE", "max.message.bytes"),
    "out of the window": (f'{{"key": "a", "value": "x", "timestamp": {NOON + 1001}}}', "INVALID_TIMESTAMP", "after.max.ms"),
    "beyond all years": ('{"key": "a", "value": "x", "timestamp": 999999999999999999}', "INVALID_TIMESTAMP", "timestamp"),
    "no such partition": ('{"key": "a", "value": "x", "partition": 2}', "INVALID_RECORD", "partition"),
}


@pytest.mark.parametrize("bad", BAD_LINES)
def test_a_bad_line_is_named_by_file_and_line_and_nothing_is_written(bad: str, text: Topic, tmp_path: Path) -> None:
    """Whoever sent the file can open it at that line; a blank line before it counts, as it does in an editor."""
    line, name, word = BAD_LINES[bad]
    path = _write(
        tmp_path / "batch.ndjson", '{"key": "a", "value": "x"}', "", '{"key": "b", "value": "y"}', line, '{"key": "c", "value": "z"}'
    )
    error = _refuses(text, lambda: text.append(path), InvalidRecords, "batch.ndjson", "line 4", word, name=name)
    assert (error.records, error.count) == ([2], 1)
    assert (error.problems[0]["line"], Path(error.problems[0]["file"]).name) == (4, "batch.ndjson")


def test_many_bad_records_are_counted_and_the_first_twenty_listed(text: Topic) -> None:
    """A broken export has thousands of bad records: the answer stays readable and still says how many."""
    records = [{"key": None if index % 2 else "k", "value": "v"} for index in range(60)]
    error = _refuses(text, lambda: text.append(records), InvalidRecords, "29 more")
    assert (error.records, error.count) == (list(range(1, 41, 2)), 30)


def test_the_line_of_a_bad_record_is_right_however_spark_splits_the_file(text: Topic, spark: SparkSession, tmp_path: Path) -> None:
    """Large files are read in pieces; the number is still that of the file."""
    lines = ['{"key": "k", "value": "v"}'] * 500
    lines[371] = '{"key": "k", "value": broken}'
    path = _write(tmp_path / "long.ndjson", *lines)
    spark.conf.set("spark.sql.files.maxPartitionBytes", "2000")
    try:
        error = _refuses(text, lambda: text.append(path), InvalidRecords, "line 372")
    finally:
        spark.conf.unset("spark.sql.files.maxPartitionBytes")
    assert error.records == [371]


# ---- bad frames, files, names, settings ----


def test_an_unknown_column_is_refused_with_a_suggestion(text: Topic, spark: SparkSession) -> None:
    """A misspelt column would otherwise be dropped without a word."""
    frame = spark.sql("SELECT 'a' AS key, 'b' AS value, true AS tombstoned")
    _refuses(text, lambda: text.append(frame), InvalidRequest, "tombstoned", "Did you mean tombstone?")


def test_a_column_of_the_wrong_type_is_refused(text: Topic, spark: SparkSession) -> None:
    """Nothing is cast where something could be lost."""
    _refuses(text, lambda: text.append(spark.sql("SELECT 'a' AS key, 5 AS value")), InvalidRequest, "value", "int", "string")


def test_a_frame_without_a_key_is_refused(text: Topic, spark: SparkSession) -> None:
    """Every record of a compacted topic has a key."""
    _refuses(text, lambda: text.append(spark.sql("SELECT 'b' AS value")), InvalidRequest, "key")


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_file_without_a_key_column_is_refused(ending: str, text: Topic, spark: SparkSession, tmp_path: Path) -> None:
    """The same for files with columns."""
    path = tmp_path / f"batch.{ending}"
    if ending == "csv":
        _write(path, "value", "x")
    else:
        spark.sql("SELECT 'x' AS value").write.parquet(str(path))
    _refuses(text, lambda: text.append(str(path)), InvalidRequest, "key")


def test_a_null_key_in_a_frame_is_refused_by_its_position(text: Topic, spark: SparkSession) -> None:
    """The position counts over the whole request, in the order of the frame's partitions."""
    frame = spark.createDataFrame([("a", "1"), ("b", "2"), (None, "3"), ("c", "4")], "key STRING, value STRING").coalesce(1)
    assert _refuses(text, lambda: text.append(frame), InvalidRecords, "key", name="INVALID_RECORD").records == [2]


def test_a_file_that_is_not_there_or_of_no_known_format_is_refused(text: Topic, tmp_path: Path) -> None:
    """A wrong path is the commonest mistake of all."""
    _refuses(text, lambda: text.append(str(tmp_path / "absent.ndjson")), LakelogError, "absent.ndjson")
    _refuses(text, lambda: text.append(_write(tmp_path / "batch.xml", "<x/>")), InvalidRequest, "batch.xml", "ndjson")
    _refuses(text, lambda: text.append([]) and text.append([1]), InvalidRequest)  # type: ignore[list-item]


def test_an_unknown_topic_is_answered_with_those_there_are(house: Lake, text: Topic) -> None:
    """A misspelt name costs a second, not a search."""
    error = _refuses(text, lambda: house.topic("texd"), TopicNotFound, "texd", "Did you mean text?", name="UNKNOWN_TOPIC")
    assert "text" in error.details["existing"]


def test_an_existing_topic_is_not_created_again(house: Lake, text: Topic) -> None:
    """Creating must never empty what is there."""
    _refuses(text, lambda: house.create_topic("text"), Invalid, "text", name="TOPIC_ALREADY_EXISTS")


@pytest.mark.parametrize("name", ["a'b", 'a"b', "a.b", "a`b", "", "Orders", "9lives", "a b", "x_silver", "lakelog_runs", "../up", "a;drop"])
def test_a_hostile_or_reserved_topic_name_is_refused(name: str, house: Lake, text: Topic) -> None:
    """Names become folders, tables and views: none may reach SQL or the file system as anything else than a name."""
    _refuses(text, lambda: house.create_topic(name), Invalid)
    _refuses(text, lambda: house.topic(name), TopicNotFound)
    assert name not in house.topics()


def test_a_bad_setting_is_refused_before_anything_is_created(house: Lake, text: Topic) -> None:
    """An illegal value, an unknown name, an illegal combination, a name of a later release: each says what is wrong."""
    bad: list[tuple[dict[str, Any], str]] = [
        ({"segment.bytes": 3}, "segment.bytes"),
        ({"segment.bytes": "many"}, "segment.bytes"),
        ({"compaction.stratagy": "offset"}, "Did you mean compaction.strategy?"),
        ({"compaction.strategy": "newest"}, "compaction.strategy"),
        ({"compaction.strategy": "column"}, "compaction.strategy.column"),
        ({"compaction.strategy": "header", "compaction.header.required": True}, "compaction.strategy.header"),
    ]
    for config, word in bad:
        _refuses(text, lambda config=config: house.create_topic("never", config=config), InvalidConfig, word, name="INVALID_CONFIG")
        _refuses(text, lambda config=config: text.configure(config), InvalidConfig, word)
    assert "never" not in house.topics()


def test_a_folder_that_is_no_lake_is_left_alone(spark: SparkSession, tmp_path: Path) -> None:
    """Neither read as a lake nor filled with tables between somebody's files."""
    _write(tmp_path / "thesis.txt", "do not touch")
    lake = Lake(spark, str(tmp_path))
    for action in (lake.topics, lambda: lake.topic("t")):
        with pytest.raises(NotFound, match="not a lake"):
            action()
    with pytest.raises(LakelogError, match="thesis.txt"):
        lake.create_topic("t")
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_lake_or_topic_of_a_newer_release_is_refused(spark: SparkSession, lake: Lake) -> None:
    """An older program must not write what it does not understand."""
    topic = lake.create_topic("t")
    spark.sql(f"ALTER TABLE delta.`{lake.root}/t/bronze` SET TBLPROPERTIES ('lakelog.format' = '99')")
    for action in (lambda: topic.append([{"key": "a", "value": "b"}]), topic.merge, lambda: lake.topic("t")):
        _refuses(topic, action, LakelogError, "newer lakelog")
    spark.sql(f"ALTER TABLE delta.`{lake.root}/_lakelog/runs` SET TBLPROPERTIES ('lakelog.format' = '99')")
    with pytest.raises(LakelogError, match="newer lakelog"):
        lake.topics()


# ---- good input ----


def test_records_as_dicts_carry_every_field(house: Lake) -> None:
    """What an NDJSON line can say arrives: octets, headers of every kind in order, times, flags, payloads of deletes."""
    topic = house.create_topic("dicts", partitions=2)
    headers = [["n", 5], ["t", "é"], ["x", {"hex": "00ff"}], ["t", None], ["", ""]]
    answer = topic.append([
        {"key": "a", "value": "1", "timestamp": 17, "headers": headers, "partition": 1},
        {"key": {"hex": "ff00"}, "value": None, "partition": 1},
        {"key": "", "value": "", "timestamp": -1, "tombstone": True, "partition": 0},
    ])  # fmt: skip
    assert (answer.offsets, answer.records) == ({0: (0, 1), 1: (0, 2)}, 3)
    assert _log(topic, "partition", "offset", "hex(key)", "hex(value)", "unix_millis(timestamp)", "tombstone") == [
        (0, 0, "", "", -1, True), (1, 0, "61", "31", 17, False), (1, 1, "FF00", None, NOON, True),
    ]  # fmt: skip
    stored = topic.read(partition=1, limit=1).collect()[0]["headers"]
    assert [(row["key"], row["value"] and bytes(row["value"])) for row in stored] == [
        ("n", (5).to_bytes(8, "big")), ("t", "é".encode()), ("x", b"\x00\xff"), ("t", None), ("", bytearray()),
    ]  # fmt: skip


def test_a_frame_of_records_and_a_frame_of_flat_columns_say_the_same(orders: Topic, spark: SparkSession) -> None:
    """A frame with ``key`` is taken as records; one without is packed by the names of the fields."""
    flat = spark.sql(
        "SELECT 7L AS order_id, 'EU' AS region, 'paid' AS status, CAST(9.5 AS DECIMAL(10,2)) AS amount, TIMESTAMP_MILLIS(5) AS _timestamp"
    )
    records = spark.sql(
        "SELECT named_struct('order_id', 7L, 'region', 'EU') AS key, named_struct('status', 'paid', 'amount', CAST(9.5 AS DECIMAL(10,2))) AS value,"
        " TIMESTAMP_MILLIS(5) AS timestamp"
    )
    orders.append(flat)
    orders.append(records)
    first, second = _log(orders, "key.order_id", "key.region", "value.status", "value.amount", "unix_millis(timestamp)", "tombstone")[:2]
    assert first == second
    orders.merge()
    assert orders.latest().filter("order_id = 7").select("order_id", "region", "status", "_offset", "_partition").collect() == [
        (7, "EU", "paid", 1, 0)
    ]
    orders.append(spark.sql("SELECT 7L AS order_id, 'EU' AS region, true AS _tombstone"))
    orders.merge()
    assert orders.latest().filter("order_id = 7").count() == 0
    assert orders.deleted().filter("order_id = 7").count() == 1


def test_a_frame_of_sparks_kafka_source_fits_as_it_is(house: Lake, spark: SparkSession) -> None:
    """``spark.read.format("kafka")`` gives these columns; topic, offset and timestampType are Kafka's own and are passed over."""
    topic = house.create_topic("from_kafka", partitions=2)
    frame = spark.sql(
        "SELECT CAST('k' AS BINARY) AS key, CAST('v' AS BINARY) AS value, 'other' AS topic, 1 AS partition, 4711L AS offset,"
        " TIMESTAMP_MILLIS(12345) AS timestamp, 0 AS timestampType, array(named_struct('key', 'h', 'value', CAST('x' AS BINARY))) AS headers"
        " UNION ALL SELECT CAST('k' AS BINARY), NULL, 'other', 1, 4712L, TIMESTAMP_MILLIS(12346), 0, NULL"
    )
    assert topic.append(frame).offsets == {1: (0, 2)}
    assert _log(topic, "partition", "offset", "string(key)", "string(value)", "unix_millis(timestamp)", "string(headers[0].value)", "tombstone") == [
        (1, 0, "k", "v", 12345, "x", False), (1, 1, "k", None, 12346, None, True),
    ]  # fmt: skip


def test_files_of_every_format_say_the_same(house: Lake, spark: SparkSession, tmp_path: Path) -> None:
    """NDJSON, compressed NDJSON, CSV and Parquet of the same records end in the same log."""
    topic = house.create_topic("formats", key="STRING", value="BIGINT", partitions=5)
    rows = [(f"k{index}", index * 10, NOON - index) for index in range(3)]
    lines = [json.dumps({"key": key, "value": value, "timestamp": time}) for key, value, time in rows]
    plain = _write(tmp_path / "a.ndjson", *lines)
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    table = _write(tmp_path / "a.csv", "key,value,timestamp", *[f"{key},{value},{time}" for key, value, time in rows])
    spark.createDataFrame(rows, "key STRING, value BIGINT, timestamp BIGINT").coalesce(1).write.parquet(str(tmp_path / "a.parquet"))
    logs = []
    for source in (plain, str(tmp_path / "a.jsonl.gz"), table, str(tmp_path / "a.parquet")):
        ends = topic.ends()
        assert topic.append(source).records == 3
        fresh = [row for row in _log(topic, "partition", "offset", "key", "value", "unix_millis(timestamp)") if row[1] >= ends[row[0]]]
        logs.append([(partition, *rest) for partition, _, *rest in fresh])
    assert logs[0] == logs[1] == logs[2] == logs[3]
    assert sorted(row[1:] for row in logs[0]) == rows


def test_offsets_follow_path_and_position_whatever_sparks_splits(house: Lake, spark: SparkSession, tmp_path: Path) -> None:
    """The log is the file: same order, no gaps, file after file by path, though Spark reads in small pieces and in any order."""
    topic = house.create_topic("splits", key="STRING", value="BIGINT", partitions=2)
    expected: dict[int, list[int]] = {0: [], 1: []}
    paths, number = [], 0
    for name, count in (("b.ndjson", 700), ("a.ndjson", 5), ("c.ndjson", 400)):
        paths.append((name, count))
    for name, count in sorted(paths):
        lines = []
        for _ in range(count):
            lines.append(json.dumps({"key": f"k{number % 7}", "value": number, "partition": number % 2}))
            expected[number % 2].append(number)
            number += 1
        _write(tmp_path / name, *lines)
    spark.conf.set("spark.sql.files.maxPartitionBytes", "3000")
    try:
        answer = topic.append([str(tmp_path / name) for name, _ in paths])
    finally:
        spark.conf.unset("spark.sql.files.maxPartitionBytes")
    assert answer.offsets == {partition: (0, len(values)) for partition, values in expected.items()}
    rows = _log(topic, "partition", "offset", "value")
    assert rows == [(partition, offset, value) for partition, values in expected.items() for offset, value in enumerate(values)]


def test_a_frame_keeps_the_order_of_its_partitions(house: Lake, spark: SparkSession) -> None:
    """A sorted frame arrives sorted."""
    topic = house.create_topic("sorted_frame", key="STRING", value="BIGINT")
    topic.append(spark.range(0, 5000, 1, 4).selectExpr("'k' || id % 9 AS key", "id AS value").orderBy("value"))
    assert _rows(topic.read().filter("offset <> value")) == []
    assert topic.ends() == {0: 5000}


def test_records_without_a_partition_are_hashed_by_key(house: Lake, spark: SparkSession) -> None:
    """Every writer must find the same partition for a key: pmod(xxhash64(key), n), as anyone can compute in SQL."""
    topic = house.create_topic("hashed", key="STRING", value="STRING", partitions=3)
    topic.append([{"key": f"key-{index}", "value": "v"} for index in range(40)])
    assert _rows(topic.read().filter("partition <> pmod(xxhash64(key), 3)")) == []
    assert len({partition for partition, *_ in _log(topic, "partition")}) == 3


def test_an_empty_append_writes_nothing(text: Topic, spark: SparkSession) -> None:
    """A quiet day is no error and no commit."""
    before = versions(text.root, text.name)
    assert text.append(spark.createDataFrame([], "key STRING, value STRING")).offsets == {}
    assert text.append([]).records == 0
    assert versions(text.root, text.name) == before


def test_another_engine_reads_the_live_rows_of_silver(house: Lake) -> None:
    """The table is the interface: DuckDB, over the files that delta-rs lists, sees the live rows with one WHERE."""
    import duckdb
    from deltalake import DeltaTable

    topic = house.create_topic("shared", key="STRING", value="STRING")
    topic.append([{"key": "a", "value": "1"}, {"key": "b", "value": "2"}, {"key": "a", "value": "3"}, {"key": "b", "value": None}])
    topic.merge()
    engine = duckdb.connect()
    engine.register("silver", DeltaTable(f"{house.root}/shared/silver").to_pyarrow_table())
    engine.register("bronze", DeltaTable(f"{house.root}/shared/bronze").to_pyarrow_table())
    assert engine.sql('SELECT key, value, "offset" FROM silver WHERE NOT tombstone').fetchall() == [("a", "3", 2)]
    assert engine.sql('SELECT "offset", key, value FROM bronze WHERE control IS NULL ORDER BY "offset"').fetchall() == [
        (0, "a", "1"), (1, "b", "2"), (2, "a", "3"), (3, "b", None),
    ]  # fmt: skip


@pytest.mark.long
def test_five_million_records_are_appended_with_a_small_driver(tmp_path: Path) -> None:
    """No data passes through the driver: a heap of 2 GB is enough for a Parquet append of five million records, in a process of its own."""
    program = textwrap.dedent(
        """
        import sys
        from lakelog import Lake, local_session
        spark = local_session(memory="2g", master="local[2]")
        folder = sys.argv[1]
        spark.range(5_000_000).selectExpr("'key-' || id % 1000000 AS key", "repeat('v', 100) AS value").write.parquet(folder + "/in.parquet")
        topic = Lake(spark, folder + "/lake").create_topic("big", key="STRING", value="STRING", partitions=4)
        answer = topic.append(folder + "/in.parquet")
        assert answer.records == 5_000_000, answer
        assert sum(end - first for first, end in answer.offsets.values()) == 5_000_000, answer
        assert topic.read().groupBy("partition").agg({"offset": "max", "*": "count"}).filter("`max(offset)` + 1 <> `count(1)`").count() == 0
        """
    )
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, timeout=1800, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
