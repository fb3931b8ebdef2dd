"""What an append takes in: every shape of good input."""

from __future__ import annotations

import datetime
import gzip
import json
import shutil
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from lakelog import InvalidRecords, InvalidRequest, Lake, NotFound
from lakelog.delta import frames
from lakelog.inputs import staging
from lakelog.inputs.sources import requested
from lakelog.model.records import Types
from tests.conftest import NOON
from tests.tables import write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakelog import Topic

UTC = datetime.timezone.utc


def _rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in frame.collect()]


def _log(topic: Topic, *columns: str) -> list[tuple[Any, ...]]:
    return _rows(topic.read().selectExpr(*columns))


@pytest.fixture(scope="module")
def orders(house: Lake) -> Topic:
    """A topic with STRUCT key and value."""
    return house.create_topic("orders", key="order_id BIGINT, region STRING", value="status STRING, amount DECIMAL(10,2)")


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
    plain = write(tmp_path / "a.ndjson", *lines)
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    table = write(tmp_path / "a.csv", "key,value,timestamp", *[f"{key},{value},{time}" for key, value, time in rows])
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
        write(tmp_path / name, *lines)
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


@pytest.mark.soak
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


def test_a_file_named_again_and_again_is_written_as_often_or_named(house: Lake, tmp_path: Path) -> None:
    """Which it is depends on how Spark packs the files into tasks."""
    topic = house.create_topic("repeated", key="STRING", value="STRING")
    x, y = (write(tmp_path / f"{key}.ndjson", json.dumps({"key": key, "value": "1"})) for key in "xy")
    assert topic.append([x, x]).records == 2
    packed = requested(house.spark, [x, y], None, topic.types)
    # One task reads x, y and x.
    rows = packed.rows.unionAll(requested(house.spark, [x], None, topic.types).rows).coalesce(1)
    rows = rows.withColumn("row_order", F.monotonically_increasing_id())
    with pytest.raises(InvalidRequest, match=r"/x\.ndjson: the file is named more than once"):
        staging.staged(topic.log, replace(packed, rows=rows), NOON)


@pytest.mark.parametrize("by", ["path", "name"])
def test_a_table_that_is_gone_is_named_as_the_source(house: Lake, tmp_path: Path, by: str) -> None:
    topic = house.create_topic(f"of_a_table_by_{by}", key="STRING", value="STRING")
    rows = house.spark.createDataFrame([("a", "b")], "key STRING, value STRING").write.format("delta")
    if by == "path":
        rows.save(str(tmp_path / "src"))
        frame = house.spark.read.format("delta").load(str(tmp_path / "src"))
        shutil.rmtree(tmp_path / "src")
    else:
        rows.saveAsTable("of_a_source")
        frame = house.spark.table("of_a_source")
        house.spark.sql("DROP TABLE of_a_source")
    with pytest.raises(
        (NotFound, InvalidRequest),
        match="The source of the records cannot be read|The table that the frame of the records reads|/src: there is no Delta table or file",
    ):
        topic.append(frame)
    assert topic.ends() == {0: 0}


def test_a_frame_that_its_session_no_longer_understands_is_refused_as_the_source() -> None:
    """As one of Spark Connect, of which nothing is looked at before it is asked what it is."""

    class Gone:
        sparkSession = None

        @property
        def isStreaming(self) -> bool:
            raise RuntimeError("[TABLE_OR_VIEW_NOT_FOUND] The table or view `src` cannot be found.")

    with pytest.raises(NotFound, match="The source of the records cannot be read: .*`src` cannot be found"):
        requested(Gone.sparkSession, Gone(), None, Types(StringType(), StringType()))  # type: ignore[arg-type]


def test_a_null_within_a_frame_where_any_value_may_stand_is_null(house: Lake) -> None:
    """As in a line of NDJSON: a VARIANT has a null of its own, which SQL takes for a value."""
    strict = house.create_topic("variants", key="STRING", value="VARIANT", config={"tombstone.strict": True})
    with pytest.raises(InvalidRecords, match="null value without the tombstone flag"):
        strict.append(house.spark.sql("SELECT 'k' AS key, parse_json('null') AS value"))
    fields = "v VARIANT, l ARRAY<VARIANT>, m MAP<STRING, VARIANT>, s STRUCT<v: VARIANT>, i INT"
    types = Types(*(frames.declared(house.spark, text, what="value") for text in ("k STRING", fields)))
    null, one = "parse_json('null')", "parse_json('[null]')"
    flat = f"{null} AS v, array({one}, {null}) AS l, map('x', {null}, 'y', {one}) AS m, named_struct('v', {null}) AS s, 1 AS i"
    told = (
        "value.v IS NULL", "to_json(value.l)", "value.m['x'] IS NULL", "to_json(value.m['y'])", "value.s IS NOT NULL AND value.s.v IS NULL", "value.i",
    )  # fmt: skip
    of_flat_columns, of_records, of_nothing = (
        requested(house.spark, house.spark.sql(f"SELECT {columns}"), None, types).rows.selectExpr(*told)
        for columns in (
            f"'k' AS k, {flat}", f"named_struct('k', 'k') AS key, struct({flat}) AS value",
            f"named_struct('k', 'k') AS key, CAST(NULL AS {types.value.simpleString()}) AS value",
        )
    )  # fmt: skip
    all_null = (True, "[[null],null]", True, "[null]", True, 1)
    assert _rows(of_flat_columns.unionAll(of_records).unionAll(of_nothing)) == [all_null, all_null, (True, None, True, None, False, None)]
