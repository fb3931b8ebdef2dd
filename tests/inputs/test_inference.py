"""A topic made like a file or frame takes what that file or frame holds, and gives it back."""

from __future__ import annotations

import datetime
import decimal
import json
from pathlib import Path
from typing import Any

import pandas
import pyarrow
import pyarrow.parquet
import pytest
from pyspark.sql import SparkSession

from lakelog import InvalidRequest, Lake, types_like

CSV = """order_id,zip,amount,ratio,paid,day,updated_at,note,empty,_tombstone,big,mixed
1,00123,12.50,1e3,true,2026-05-06,2026-05-06T10:00:00Z,"a ""b"", c",,false,99999999999999999999,1
2,45678,-3.125,0.5,false,2026-05-07,2026-05-07 11:30:00.123456,x,,false,1,2.5
3,,,,,,,,,true,,
"""
WANTED = (
    "zip STRING, amount DECIMAL(5,3), ratio DOUBLE, paid BOOLEAN, day DATE, updated_at TIMESTAMP, note STRING, empty STRING,"
    " big DECIMAL(20,0), mixed DECIMAL(2,1)"
)


def test_a_csv_file_gives_the_narrowest_types_that_give_its_texts_back(lake: Lake, tmp_path: Path) -> None:
    file = tmp_path / "orders.csv"
    file.write_text(CSV)
    assert types_like(lake.spark, str(file), ["order_id"]) == {"key": "order_id BIGINT", "value": WANTED}
    assert types_like(lake.spark, file, ["zip", "order_id"])["key"] == "zip STRING, order_id BIGINT"

    topic = lake.create_topic("orders", like=file, key_columns=["order_id"])
    topic.append(file)
    topic.merge()
    rows = {row["order_id"]: row for row in topic.latest().collect()}
    assert set(rows) == {1, 2}
    assert (rows[1]["zip"], rows[1]["amount"], rows[1]["note"], rows[2]["updated_at"]) == (
        "00123", decimal.Decimal("12.500"), 'a "b", c', datetime.datetime(2026, 5, 7, 11, 30, 0, 123456),
    )  # fmt: skip


def test_frames_and_parquet_files_say_their_types(spark: SparkSession, tmp_path: Path) -> None:
    table = pyarrow.table(
        {
            "id": pyarrow.array([1], pyarrow.int32()),
            "at": pyarrow.array([datetime.datetime(2026, 1, 1)], pyarrow.timestamp("us")),
            "tags": pyarrow.array([["a"]], pyarrow.list_(pyarrow.string())),
            "Place": pyarrow.array([{"city": "x", "no": 1}]),
            "nothing": pyarrow.array([None], pyarrow.null()),
        }
    )
    wanted = {"key": "id INT", "value": "at TIMESTAMP, tags ARRAY<STRING>, `Place` STRUCT<city: STRING, no: BIGINT>, nothing STRING"}
    pyarrow.parquet.write_table(table.drop_columns(["nothing"]), tmp_path / "plain.parquet")
    fine = table.set_column(1, "at", pyarrow.array([1], pyarrow.timestamp("ns"))).drop_columns(["nothing"])
    pyarrow.parquet.write_table(fine, tmp_path / "fine.parquet")
    less = {**wanted, "value": wanted["value"].removesuffix(", nothing STRING")}
    assert types_like(spark, table, ["id"]) == wanted
    assert types_like(spark, str(tmp_path / "plain.parquet"), "id") == less
    assert types_like(spark, str(tmp_path / "fine.parquet"), ["id"]) == less
    assert types_like(spark, pandas.DataFrame({"id": [1], "price": [1.5]}), ["id"]) == {"key": "id BIGINT", "value": "price DOUBLE"}
    records = spark.sql("SELECT 'a' AS key, named_struct('n', 1, 'at', DATE '2026-01-01') AS value, current_timestamp() AS timestamp")
    assert types_like(spark, records) == {"key": "STRING", "value": "STRUCT<n: INT, at: DATE>"}
    kafka = spark.sql("SELECT X'00' AS key, X'01' AS value, 't' AS topic, 0L AS offset, 0 AS partition")
    assert types_like(spark, kafka) == {"key": "BINARY", "value": "BINARY"}


def test_ndjson_gives_its_fields_in_their_order_and_texts_that_are_times_as_times(lake: Lake, tmp_path: Path) -> None:
    lines: list[dict[str, Any]] = [
        {
            "key": {"id": 1, "area": "n"},
            "value": {"z": "2026-05-06T10:00:00Z", "a": 1.5, "deep": {"on": "2026-05-06", "raw": {"hex": "00ff"}}},
        },
        {"key": {"id": 2, "area": "s"}, "value": {"z": "2026-05-07T10:00:00Z", "a": 20, "list": [1, 2]}, "timestamp": 5},
        {"key": {"id": 3, "area": "s"}, "value": None, "tombstone": True},
    ]
    file = tmp_path / "orders.ndjson"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = types_like(lake.spark, str(file))
    assert found["key"] == "STRUCT<id: BIGINT, area: STRING>"
    assert found["value"].startswith("STRUCT<z: TIMESTAMP, a: DECIMAL(")
    assert found["value"].endswith("deep: STRUCT<on: DATE, raw: BINARY>, list: ARRAY<BIGINT>>")
    topic = lake.create_topic("orders", like=str(file))
    topic.append(str(file))
    topic.merge()
    assert topic.latest().count() == 2


def test_a_file_fits_the_topic_made_like_it_whatever_the_session_means_by_timestamp(lake: Lake, tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("id,at,days\n1,2026-05-06T10:00:00Z,2026-05-06\n")
    lake.spark.conf.set("spark.sql.timestampType", "TIMESTAMP_NTZ")
    try:
        assert types_like(lake.spark, str(file), "id") == {"key": "id BIGINT", "value": "at TIMESTAMP_LTZ, days DATE"}
        topic = lake.create_topic("t", like=file, key_columns=["id"])
        assert topic.append(file).records == 1
    finally:
        lake.spark.conf.unset("spark.sql.timestampType")
    assert topic.types.value.simpleString() == "struct<at:timestamp,days:date>"


BAD = [
    ("id,v\n1,2\n", ["Id"], r"has no column Id\. Did you mean id\?"),
    ("id,v\n1,2\n", [], r"Name the columns that are the key \(key_columns=\[…\]\)\. Columns: id, v\."),
    ("id\n1\n", ["id"], r"a topic has a value too"),
    ("key,value\n1,2\n", ["key"], r"Leave out key_columns\."),
    ("key,valeu\n1,2\n", [], r"Unknown column valeu beside key\. Did you mean value\?"),
    ('id,v\n1,"x\n', ["id"], r"line 2: "),
    ("", ["id"], r"begins with a line of column names"),
]


@pytest.mark.parametrize(("text", "columns", "says"), BAD)
def test_what_cannot_be_a_topic_is_refused_and_nothing_is_created(
    lake: Lake, tmp_path: Path, text: str, columns: list[str], says: str
) -> None:
    file = tmp_path / "bad.csv"
    file.write_text(text)
    with pytest.raises(InvalidRequest, match=says):
        lake.create_topic("t", like=file, key_columns=columns)
    assert not lake.is_lake()


def test_other_mistakes_with_like(lake: Lake, tmp_path: Path) -> None:
    lines = tmp_path / "bad.ndjson"
    for text, says in [("[1]\n", "a JSON object a line"), ('{"id": 1}\n', "has a field key"), ("{no\n", "is not a line of JSON")]:
        lines.write_text(text)
        with pytest.raises(InvalidRequest, match=says):
            types_like(lake.spark, str(lines))
    with pytest.raises(InvalidRequest, match="takes a file or a frame"):
        types_like(lake.spark, [{"key": 1}])
    with pytest.raises(InvalidRequest, match="Without it, declare the key"):
        lake.create_topic("t", key_columns=["a"])
