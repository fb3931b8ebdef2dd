"""Parquet files that pyarrow reads: several of one append have columns of the same types, and a column that one lacks is NULL in it."""

from __future__ import annotations

import io
from typing import Any

import pyarrow
import pytest
from pyarrow import parquet

from lakelog.errors import InvalidRequest
from lakelog.formats import arrow

AT = pyarrow.array([1_000], pyarrow.timestamp("ns"))


def _read(*tables: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of files with these columns, as Spark's tasks read them; without the names of the files."""
    files = []
    for columns in tables:
        files.append(io.BytesIO())
        parquet.write_table(pyarrow.table(columns), files[-1])
    schema = arrow.united([parquet.read_schema(file) for file in files])
    batches = [batch for file in files for batch in arrow.parquet_batches("f", file, schema=schema, src=arrow.SRC)]
    return [{name: value for name, value in row.items() if name != arrow.SRC} for batch in batches for row in batch.to_pylist()]


@pytest.mark.parametrize(
    ("first", "second", "kinds"),
    [
        ([12345], ["00501"], "column x: BIGINT and STRING"),
        (pyarrow.array([1.5], pyarrow.float32()), [0.1], "column x: FLOAT and DOUBLE"),
        ([5], pyarrow.array([5], pyarrow.int32()), "column x: BIGINT and INT"),
        (AT, pyarrow.array([1_000], pyarrow.timestamp("ns", "UTC")), "column x: TIMESTAMP_NTZ and TIMESTAMP"),
        ([{"a": 1}], [{"a": "1"}], "column x: STRUCT<`a`: BIGINT> and STRUCT<`a`: STRING>"),
    ],
)
def test_columns_of_one_name_and_two_types_are_refused_as_spark_refuses_them(first: Any, second: Any, kinds: str) -> None:
    with pytest.raises(InvalidRequest, match="Parquet files of one append have columns of the same types") as refused:
        _read({"at": AT, "x": first}, {"at": AT, "x": second})
    assert kinds in str(refused.value)


def test_a_column_that_only_some_files_have_is_null_in_the_others() -> None:
    nothing = pyarrow.nulls(1)
    rows = _read({"key": ["a"], "at": AT, "x": nothing}, {"key": ["b"], "x": ["00501"]}, {"key": ["c"], "y": [7]})
    assert [(row["key"], row["at"] is None, row["x"], row["y"], row[arrow.PROBLEM]) for row in rows] == [
        ("a", False, None, None, None), ("b", True, "00501", None, None), ("c", True, None, 7, None),
    ]  # fmt: skip


def test_types_that_spark_reads_alike_are_the_same() -> None:
    micros = AT.cast(pyarrow.timestamp("us"))
    rows = _read(
        {"at": AT, "c": pyarrow.array(["x"]).dictionary_encode()}, {"at": micros, "c": pyarrow.array(["y"], pyarrow.large_string())}
    )
    assert [(row["at"], row["c"]) for row in rows] == [(micros[0].as_py(), "x"), (micros[0].as_py(), "y")]
