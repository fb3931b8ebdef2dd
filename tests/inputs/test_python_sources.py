"""What people hold in Python goes in as it is: records of any iterable, frames of pandas and polars, Arrow tables, paths; and comes out so."""

from __future__ import annotations

import datetime
import json
import uuid
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy
import pandas
import polars
import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from lakelog.errors import Invalid, InvalidRecords, InvalidRequest
from lakelog.formats import ndjson
from tests.conftest import NOON
from tests.strategies import few
from tests.tables import versions

if TYPE_CHECKING:
    from lakelog import Lake, Topic

UTC = datetime.timezone.utc
WHEN = datetime.datetime(2026, 5, 6, 10, 0, 0, 123456)
FIELDS = "b BINARY, d DECIMAL(10,2), t TIMESTAMP, n TIMESTAMP_NTZ, day DATE, u STRING, f DOUBLE, i INT, xs ARRAY<DOUBLE>"


@pytest.fixture(scope="module")
def text(house: Lake) -> Topic:
    return house.create_topic("text", key="STRING", value="STRING")


def _log(topic: Topic, start: int = 0) -> list[tuple[Any, ...]]:
    return [(row["key"], row["value"]) for row in topic.read(0, start).collect()]


def _refused(topic: Topic, source: Any, *words: str, kind: type[Invalid] = InvalidRecords) -> Any:
    before = versions(topic.root, topic.name)
    with pytest.raises(kind) as caught:
        topic.append(source)
    assert [word for word in words if word not in str(caught.value)] == [], str(caught.value)
    assert versions(topic.root, topic.name) == before
    return caught.value


def test_records_come_from_any_iterable_and_one_alone(text: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ndjson, "BATCH", 3)
    start = text.ends()[0]
    assert text.append({"key": "a", "value": "0"}).records == 1
    answer = text.append({"key": "a", "value": str(index)} for index in range(1, 11))
    assert answer.offsets == {0: (start + 1, start + 11)}
    assert _log(text, start) == [("a", str(index)) for index in range(11)]
    bad = ({"key": "a" if index != 7 else None, "value": "x"} for index in range(10))
    assert _refused(text, bad).records == [7]
    assert text.append(iter([])).records == 0
    for source in (5, b"octets", [5], ["a.ndjson", 5], object(), pandas.Series(["a"])):
        _refused(text, source, kind=InvalidRequest)


def test_values_as_python_has_them(house: Lake, clock: Any) -> None:
    topic = house.create_topic("values", key="id STRING", value=FIELDS)
    zone = datetime.timezone(datetime.timedelta(hours=2))
    one = uuid.UUID(int=7)
    value = {
        "b": b"\x00\xff", "d": Decimal("12.50"), "t": WHEN.replace(tzinfo=zone), "n": WHEN, "day": WHEN.date(), "u": one, "f": float("nan"),
        "i": numpy.int64(5), "xs": [numpy.float64("inf"), 1, Decimal("0.5")],
    }  # fmt: skip
    topic.append([
        {"key": {"id": one}, "value": value, "timestamp": WHEN.replace(tzinfo=UTC), "headers": [("h", b"\x00")]},
        {"key": {"id": "naive"}, "value": {"t": WHEN, "b": bytearray(b"x"), "xs": (1.5,)}, "timestamp": numpy.int64(NOON)},
    ])  # fmt: skip
    first, second = (
        topic.read().selectExpr("key.id", "value.*", "unix_micros(value.t) AS us", "unix_millis(timestamp) AS ms", "headers").collect()
    )
    assert (first["id"], bytes(first["b"]), first["d"], first["n"], first["day"], first["u"], str(first["f"]), first["i"], first["xs"]) == (
        str(one), b"\x00\xff", Decimal("12.50"), WHEN, WHEN.date(), str(one), "nan", 5, [float("inf"), 1.0, 0.5],
    )  # fmt: skip
    micros = (WHEN - datetime.datetime(1970, 1, 1)) // datetime.timedelta(microseconds=1)
    assert (first["us"], second["us"], first["ms"], second["ms"]) == (micros - 7200_000_000, micros, micros // 1000, NOON)
    assert (bytes(first["headers"][0]["value"]), bytes(second["b"]), second["xs"]) == (b"\x00", b"x", [1.5])


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "NaN for text": ({"u": float("nan")}, "value.u is nan"),
    "NaN for a whole number": ({"i": float("nan")}, "value.i is nan"),
    "a decimal for text": ({"u": Decimal("1.5")}, "value.u should be string"),
    "octets for text": ({"u": b"x"}, "value.u should be string"),
    "a decimal with more digits": ({"d": Decimal("1.555")}, "value.d should be decimal"),
    "a float for a whole number": ({"i": 5.0}, "value.i should be int"),
    "a set": ({"xs": {1, 2}}, "value.xs is a set"),
    "a zone for a time without": ({"n": WHEN.replace(tzinfo=UTC)}, "value.n has a time zone"),
    "no time at all": ({"t": pandas.NaT}, "value.t is NaT"),
    "nanoseconds": ({"t": pandas.Timestamp(1, unit="ns")}, "value.t is 1970"),
    "half a surrogate pair": ({"u": "\ud800"}, "half of a surrogate pair"),
}


def test_values_that_do_not_fit_are_refused_by_record(house: Lake) -> None:
    topic = house.create_topic("wrong_values", key="STRING", value=FIELDS)
    for value, says in WRONG.values():
        assert _refused(topic, [{"key": "a"}, {"key": "b", "value": value}], says).records == [1]


def test_frames_of_pandas_and_tables_of_arrow(house: Lake, spark: Any, tmp_path: Path) -> None:
    topic = house.create_topic("frames", key="id INT", value="t TIMESTAMP, f DOUBLE, s STRING, c STRING, o STRUCT<a: INT>, n TIMESTAMP_NTZ")
    times = pandas.to_datetime(["2026-05-06 10:00:00.123456", "2026-05-06 10:00:01"], format="ISO8601")
    frame = pandas.DataFrame(
        {
            "id": [1, 2],
            "t": times,
            "f": [1.5, float("nan")],
            "s": ["x", None],
            "c": pandas.Categorical(["p", "q"]),
            "o": [{"a": 1}, None],
            "n": times,
        }
    )
    frame.to_parquet(tmp_path / "nanoseconds.parquet")
    table = pyarrow.Table.from_pandas(frame.assign(f=[1.5, 2.5]), preserve_index=False)
    views = table.set_column(3, "s", table["s"].cast(pyarrow.large_string()))
    for source in (frame, table, views.to_batches()[0], pyarrow.RecordBatchReader.from_batches(table.schema, table.to_batches())):
        topic.append(source)
    topic.append(tmp_path / "nanoseconds.parquet")
    rows = [tuple(row) for row in topic.read().selectExpr("key.id", "value.*").collect()]
    stamps = [WHEN, datetime.datetime(2026, 5, 6, 10, 0, 1)]
    shown = [
        (id_, *rest) for id_, *rest in [(1, stamps[0], 1.5, "x", "p", (1,), stamps[0]), (2, stamps[1], 2.5, None, "q", None, stamps[1])]
    ]
    assert rows[2:8] == shown * 3
    assert [str(row[2]) for row in (*rows[:2], *rows[8:])] == ["1.5", "nan", "1.5", "None"]
    assert [(*row[:2], *row[3:]) for row in (*rows[:2], *rows[8:])] == [(*row[:2], *row[3:]) for row in shown * 2]


def test_frames_that_do_not_fit_are_refused(house: Lake, text: Topic, tmp_path: Path) -> None:
    topic = house.create_topic("bad_frames", key="id INT", value="t TIMESTAMP")
    ids = pandas.DataFrame({"id": [1, 2**40], "t": pandas.to_datetime([0, 1], unit="s")})
    assert _refused(topic, ids, "id should be int but is 1099511627776").records == [1]
    nanos = pandas.DataFrame({"id": [1, 2], "t": pandas.to_datetime([1000, 1001], unit="ns")})
    assert _refused(topic, nanos, "t has nanoseconds").records == [1]
    nanos.to_parquet(tmp_path / "a.parquet")
    error = _refused(topic, str(tmp_path / "a.parquet"), "a.parquet, row 2", "t has nanoseconds")
    assert error.problems[0]["row"] == 2
    nanos.assign(id=["1", "2"]).to_parquet(tmp_path / "b.parquet")
    both = [str(tmp_path / name) for name in ("a.parquet", "b.parquet")]
    _refused(topic, both, "columns of the same types; these have column id: BIGINT and STRING", kind=InvalidRequest)
    _refused(text, pandas.DataFrame({"key": ["a", "b"], "value": ["x", float("nan")]}), "a delete is not guessed")
    _refused(text, pandas.DataFrame({"key": ["a"], "value": [datetime.timedelta(1)]}), "Column value is duration", kind=InvalidRequest)
    _refused(text, pandas.DataFrame({"key": ["a"], "valeu": ["x"]}), "Did you mean value?", kind=InvalidRequest)
    _refused(text, pandas.DataFrame({"key": ["a", 5], "value": ["x", "y"]}), "cannot be taken over", kind=InvalidRequest)
    text.append(pandas.DataFrame({"key": ["a"], "value": [None]}))


@pytest.mark.long
def test_the_latest_table_comes_out_as_arrow_pandas_and_polars(house: Lake) -> None:
    topic = house.create_topic("out", key="id BIGINT", value="s STRING")
    topic.append([{"key": {"id": 1}, "value": {"s": "old"}}])
    topic.merge()
    topic.append([{"key": {"id": 1}, "value": {"s": "new"}}])
    topic.merge()
    assert topic.to_arrow().select(["id", "s"]).to_pylist() == [{"id": 1, "s": "new"}]
    assert topic.to_pandas(at=1)["s"].tolist() == ["old"]
    assert topic.read().toArrow().num_rows == 2
    assert topic.to_polars()["s"].to_list() == ["new"]
    numbers = house.create_topic("numbers", key="id BIGINT", value="n BIGINT, b BOOLEAN")
    large = pandas.DataFrame(
        {"n": pandas.array([2**53 + 1, None], dtype="Int64"), "b": [True, None]}, index=pandas.Index([1, 2], name="id")
    )
    numbers.append(large)
    numbers.merge()
    found = numbers.to_pandas().sort_values("id")
    assert (found["n"].tolist(), found["b"].tolist()) == ([2**53 + 1, pandas.NA], [True, pandas.NA]), "no integer is rounded"
    numbers.append(found[["id", "n", "b"]])
    with pytest.raises(InvalidRequest, match="leave out _offset, _version"):
        numbers.append(found)
    with pytest.raises(InvalidRequest, match=r"n is double, the topic has bigint.*astype\('Int64'\)"):
        numbers.append(pandas.DataFrame({"id": [1, 2], "n": [1, None]}))
    topic.append(polars.DataFrame({"id": [2], "s": ["x"]}))
    topic.append(polars.DataFrame({"id": [3], "s": ["x"]}).lazy())
    assert topic.ends() == {0: 4}


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
RECORDS = st.tuples(
    st.binary(min_size=1, max_size=4), st.none() | TEXTS, st.none() | st.integers(-(2**31), 2**31 - 1), st.integers(-(10**12), 10**12)
)


@given(st.lists(RECORDS, min_size=120, max_size=120))
@few(1)
def test_the_same_records_by_any_way_make_the_same_log(house: Lake, tmp_path_factory: pytest.TempPathFactory, records: list[Any]) -> None:
    folder = tmp_path_factory.mktemp("ways")
    keys, texts, numbers, times = zip(*records, strict=True)
    lines = [
        {"key": {"k": {"hex": key.hex()}}, "value": {"t": text, "n": number}, "timestamp": time} for key, text, number, time in records
    ]
    (folder / "a.ndjson").write_text("\n".join(json.dumps(line) for line in lines), encoding="utf-8")
    values = [{"key": {"k": key}, "value": {"t": text, "n": number}, "timestamp": time} for key, text, number, time in records]
    flat = pyarrow.table({"k": pyarrow.array(keys, pyarrow.binary()), "t": pyarrow.array(texts, pyarrow.string()),
                          "n": pyarrow.array(numbers, pyarrow.int32()), "_timestamp": pyarrow.array(times, pyarrow.int64())})  # fmt: skip
    parquet.write_table(flat, folder / "a.parquet")
    frame = house.spark.createDataFrame(flat).coalesce(1)
    topic = house.create_topic("ways", key="k BINARY", value="t STRING, n INT")
    for source in (
        folder / "a.ndjson",
        values,
        flat,
        folder / "a.parquet",
        frame,
        flat.to_pandas(types_mapper={pyarrow.int32(): pandas.Int32Dtype()}.get),
    ):
        topic.append(source)
    rows = [
        (bytes(row["k"]), row["t"], row["n"], row["ms"])
        for row in topic.read().selectExpr("key.k", "value.*", "unix_millis(timestamp) AS ms").collect()
    ]
    assert [rows[start : start + 120] == records for start in range(0, 720, 120)] == [True] * 6


def test_names_that_are_no_text_are_refused_and_not_made_text(house: Lake) -> None:
    topic = house.create_topic("named", key="STRING", value="MAP<STRING, STRING>")
    for value, name in (({1: "x"}, "1"), ({"a": "x", None: "y"}, "None"), ({True: "z"}, "True")):
        _refused(topic, [{"key": "a", "value": value}], f"value has a name that is no text: {name}")
    _refused(topic, [{"key": "a", 1: "x"}], "has a name that is no text: 1")
    assert topic.append([{"key": "a", "value": {"1": "x"}}]).records == 1


def test_a_map_whose_keys_are_no_text_comes_in_a_frame(house: Lake, tmp_path: Path) -> None:
    topic = house.create_topic("numbered", key="STRING", value="m MAP<INT, STRING>")
    file = tmp_path / "a.ndjson"
    file.write_text('{"key": "a", "value": {"m": {"1": "x"}}}\n')
    for source in ([{"key": "a", "value": {"m": {1: "x"}}}], str(file)):
        _refused(topic, source, "value.m is a map<int,string>", "Append a DataFrame", kind=InvalidRequest)
    frame = house.spark.sql("SELECT 'a' AS key, named_struct('m', map(1, 'x')) AS value")
    assert topic.append(frame).records == 1


def test_two_columns_of_one_name_are_refused(house: Lake) -> None:
    topic = house.create_topic("twice", key="k STRING", value="a STRING")
    spark_frame = house.spark.sql("SELECT 'k' AS k, '1' AS a, '2' AS A")
    arrow_table = pyarrow.Table.from_arrays([pyarrow.array([text]) for text in ("k", "1", "2")], ["k", "a", "a"])
    for source in (pandas.DataFrame([["k", "1", "2"]], columns=["k", "a", "a"]), arrow_table, spark_frame):
        _refused(topic, source, "Two columns have one name: a and", kind=InvalidRequest)
