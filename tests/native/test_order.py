"""Rows in an order and in a limited number: the same rows as through Spark, whichever of the two is asked for first."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Any

import pyarrow
import pytest
from deltalake import write_deltalake

from lakelog import InvalidRequest
from lakelog.model.kinds import Kind, struct
from lakelog.model.names import TableRef
from lakelog.native import latest, log
from lakelog.native.query import asked, connection
from lakelog.native.rows import Rows
from lakelog.native.table import Table

EARLY, LATE = (datetime.datetime(2026, 5, day, tzinfo=datetime.timezone.utc) for day in (1, 9))
TIME = pyarrow.timestamp("us", "UTC")
LONG, INT, TEXT = Kind("long"), Kind("integer"), Kind("string")
KEY, VALUE = struct([("id", INT)]), struct([("status", TEXT), ("tags", Kind("array", elementType=TEXT)), ("later", TEXT)])


@pytest.fixture(scope="module")
def silver(tmp_path_factory: pytest.TempPathFactory) -> Table:
    """Five live rows; of the values the field ``later`` was not there yet."""
    path = str(tmp_path_factory.mktemp("order") / "silver")
    texts: list[str | None] = ["open", None, "done", "void", "ready"]
    values = [None if text is None else {"status": text, "tags": [text]} for text in texts]
    count = len(texts)
    columns = {
        "bucket": pyarrow.array([0] * count, pyarrow.int32()),
        "partition": pyarrow.array([0] * count, pyarrow.int32()),
        "key": pyarrow.array([{"id": 10 - n} for n in range(count)], pyarrow.struct([("id", pyarrow.int32())])),
        "value": pyarrow.array(values, pyarrow.struct([("status", pyarrow.string()), ("tags", pyarrow.list_(pyarrow.string()))])),
        "offset": pyarrow.array(range(count), pyarrow.int64()),
        "epoch": pyarrow.array([0] * count, pyarrow.int32()),
        "timestamp": pyarrow.array([LATE] * count, TIME),
        "version": pyarrow.array([7] * count, pyarrow.int64()),
        "tombstone": pyarrow.array([False] * count),
        "control": pyarrow.array([None] * count, pyarrow.string()),
    }
    write_deltalake(path, pyarrow.table(columns))
    return Table(TableRef(path))


@pytest.fixture
def live(silver: Table) -> Rows:
    return latest.shown(silver, KEY, VALUE, deleted=False)


@pytest.fixture(scope="module")
def bronze(tmp_path_factory: pytest.TempPathFactory) -> Table:
    """A log of two partitions in a file for every two records; the later the offset, the earlier the time. Two rows are none of the log's records."""
    path = str(tmp_path_factory.mktemp("order") / "bronze")
    kinds = {"partition": pyarrow.int32(), "segment": pyarrow.int64(), "offset": pyarrow.int64(), "timestamp": TIME, "key": pyarrow.string(),
             "value": pyarrow.string(), "headers": pyarrow.list_(pyarrow.string()), "tombstone": pyarrow.bool_(), "epoch": pyarrow.int32(),
             "control": pyarrow.string()}  # fmt: skip
    for partition in (1, 0):
        for first in (4, 0, 2):
            rows: list[dict[str, Any]] = [
                {"partition": partition, "segment": 0, "offset": offset, "timestamp": LATE - datetime.timedelta(hours=offset), "key": f"k{offset}",
                 "value": None if offset == 3 else f"v{offset}", "tombstone": False, "epoch": 0}
                for offset in (first + 1, first)
            ]  # fmt: skip
            control = [{"partition": partition, "segment": 0, "offset": 1, "control": "{}", "timestamp": EARLY}] if first == 0 else []
            found = pyarrow.table({name: pyarrow.array([row.get(name) for row in rows + control], kind) for name, kind in kinds.items()})
            write_deltalake(path, found, mode="append", partition_by=["partition", "segment"])
    return Table(TableRef(path))


@pytest.fixture
def records(bronze: Table) -> Rows:
    return log.records(bronze, TEXT).orderBy("partition", "offset")


def test_the_latest_table_is_ordered_by_any_column_it_shows(live: Rows) -> None:
    assert [row["status"] for row in live.orderBy("status").collect()] == [None, "done", "open", "ready", "void"]
    assert [row["id"] for row in live.orderBy("later", "id").collect()] == [6, 7, 8, 9, 10], "a field that was added is NULL in all of them"
    assert [row["_offset"] for row in live.orderBy("_version", "_offset").limit(2).collect()] == [0, 1]
    assert [row["status"] for row in live.orderBy("status").limit(2).collect()] == [None, "done"]


@pytest.mark.parametrize("name", ["nope", "Status", "value", "key.id", "tags", 'x" DESC, "offset'])
def test_an_order_by_what_is_no_column_names_those_there_are(live: Rows, name: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        live.orderBy("_offset", name)
    assert name in str(refused.value)
    assert "id, status, later, _partition, _offset, _timestamp, _version" in str(refused.value)


def test_a_limit_that_stands_before_an_order_chooses_the_rows(records: Rows) -> None:
    first = records.limit(4)
    assert [row["offset"] for row in first.collect()] == [0, 1, 2, 3]
    by_time = first.orderBy("timestamp")
    assert [row["offset"] for row in by_time.collect()] == [3, 2, 1, 0]
    assert [row["offset"] for row in by_time.limit(2).collect()] == [3, 2]
    assert [row["offset"] for row in by_time.limit(2).orderBy("offset").collect()] == [2, 3]
    assert [row["value"] for row in first.orderBy("value").collect()] == [None, "v0", "v1", "v2"]
    assert by_time.toArrow().column("offset").to_pylist() == [3, 2, 1, 0]
    assert (by_time.count(), records.limit(0).orderBy("timestamp").collect()) == (4, [])
    assert [row["offset"] for row in records.orderBy("timestamp", "partition").limit(2).collect()] == [5, 5], "the whole log by time"


def test_what_duckdb_answers_is_ordered_with_null_first_and_nan_last() -> None:
    found = asked(
        connection(), "SELECT * FROM (VALUES ('nan'::DOUBLE, 1), (NULL, 2), (1.5, NULL), ('-inf'::DOUBLE, 4), (1.5, 0)) t(a, b)", ()
    )
    assert [repr(row["a"]) for row in found.orderBy("a").collect()] == ["None", "-inf", "1.5", "1.5", "nan"]
    assert [row["b"] for row in found.orderBy("a", "b").collect()] == [2, 4, None, 0, 1]
    assert [row["b"] for row in found.orderBy("b").limit(2).collect()] == [None, 0]
    nothing = asked(connection(), "SELECT NULL AS n, 'a' AS t UNION ALL SELECT NULL, NULL", ())
    assert nothing.orderBy("n", "t").collect() == [(None, None), (None, "a")]


def test_a_whole_log_is_read_in_slices_that_are_ordered_one_by_one(bronze: Table, records: Rows, monkeypatch: pytest.MonkeyPatch) -> None:
    asked_for: list[str] = []

    def batches(table: Table, query: str) -> Iterator[pyarrow.RecordBatch]:
        asked_for.append(query)
        yield from read(table, query)

    read = Table.batches
    monkeypatch.setattr(Table, "batches", batches)
    monkeypatch.setattr(log, "SLICE", 2, raising=False)
    found = [(row["partition"], row["offset"]) for row in records.collect()]
    assert found == [(partition, offset) for partition in (0, 1) for offset in range(6)]
    assert len(asked_for) == 6, "a query for the files of each slice"
    asked_for.clear()
    assert [row["offset"] for row in log.records(bronze, TEXT, partition=1, offset=2).orderBy("partition", "offset").collect()] == [
        2,
        3,
        4,
        5,
    ]
    assert len(asked_for) == 2
    asked_for.clear()
    assert (len(records.orderBy("offset").collect()), len(asked_for)) == (12, 1), "in another order, all at once"
    monkeypatch.setattr(log, "SLICE", 1_000_000)
    asked_for.clear()
    assert (len(records.collect()), len(asked_for)) == (12, 1)
