"""Rows of a Delta table are taken once each, version by version; what is no append is refused by name."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakelog import InvalidConfig, InvalidRequest, Lake, NotFound, Refused
from lakelog.running_results import Taken
from lakelog.sources.append import append_from
from lakelog.sources.configured import DirectorySource, TableSource, parsed
from tests.sources.test_sources import keys


def add(spark: SparkSession, table: str, *found: str) -> None:
    rows = ", ".join(f"('{key}', 'x')" for key in found)
    spark.sql(f"SELECT * FROM VALUES {rows} AS t(key, value)").write.format("delta").mode("append").save(table)


def names(taken: Taken) -> list[list[str]]:
    return [one.names for one in taken.batches]


@pytest.mark.long
def test_rows_are_taken_version_by_version(lake: Lake, spark: SparkSession, tmp_path: Path) -> None:
    topic, table = lake.create_topic("orders", key="STRING", value="STRING"), str(tmp_path / "raw")
    source = TableSource(table)
    with pytest.raises(NotFound):
        append_from(topic, [source])
    add(spark, table, "a", "b")
    add(spark, table, "c")
    first = append_from(topic, [source])[0]
    assert (names(first), first.records, first.position) == ([["version 1"]], 3, 1)
    assert append_from(topic, [source])[0].batches == []
    topic.merge()
    topic.snapshot("before")

    add(spark, table, "d")
    spark.sql(f"ALTER TABLE delta.`{table}` SET TBLPROPERTIES ('a' = 'b')")
    spark.sql(f"OPTIMIZE delta.`{table}`")
    add(spark, table, "e", "f")
    spark.sql(f"ALTER TABLE delta.`{table}` ADD CONSTRAINT filled CHECK (key <> '')")
    spark.sql(f"ALTER TABLE delta.`{table}` DROP CONSTRAINT filled")
    second = append_from(topic, [source])[0]
    assert (names(second), second.position) == ([["version 2"], ["version 5"]], 5)
    assert sorted(keys(topic)) == ["a", "b", "c", "d", "e", "f"] and keys(topic)[3] == "d"

    # A restore rewinds the position with the records that it cuts.
    topic.restore("before")
    again = append_from(topic, [source])[0]
    assert (names(again), again.position) == ([["version 2"], ["version 5"]], 5)
    assert sorted(keys(topic)) == ["a", "b", "c", "d", "e", "f"]

    # From a version on, as another source; a directory it is not.
    since = append_from(topic, [TableSource(table, name="since", starting_version=5)])[0]
    assert (names(since), since.records) == ([["version 5"]], 2)
    with pytest.raises(InvalidRequest, match="is a Delta table"):
        append_from(topic, [DirectorySource(table)])

    spark.sql(f"DELETE FROM delta.`{table}` WHERE key = 'a'")
    add(spark, table, "g")
    end = topic.ends()
    with pytest.raises(Refused, match=r"changed otherwise than by appends: version 8 .*DELETE.* starting_version = 9") as refused:
        append_from(topic, [source])
    assert (refused.value.name, refused.value.details["version"], topic.ends()) == ("SOURCE_REWRITTEN", 8, end)
    assert append_from(topic, [TableSource(table, name="anew", starting_version=9)])[0].records == 1
    spark.sql("SELECT 'h' AS key, 'x' AS value").write.format("delta").mode("overwrite").save(table)
    with pytest.raises(Refused, match="version 10 "):
        append_from(topic, [TableSource(table, name="anew")])
    shutil.rmtree(table)
    add(spark, table, "i")
    with pytest.raises(Refused, match="it was made anew") as refused:
        append_from(topic, [source])
    assert (refused.value.name, append_from(topic, [TableSource(table, name="third")])[0].records) == ("SOURCE_REPLACED", 1)


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ({"table": "/raw", "directory": "/in"}, "needs either a directory or a table"),
        ({"table": "/raw", "pattern": "*"}, r"pattern does not go with a table"),
        ({"directory": "/in", "starting_version": 1}, r"starting_version does not go with a directory"),
        ({"table": "/raw", "starting_version": "1"}, r"starting_version must be a whole number"),
    ],
)
def test_tables_that_are_not_understood(said: object, problem: str) -> None:
    with pytest.raises(InvalidConfig, match=problem):
        parsed([said], where="s", folder="/here")


def test_tables_as_they_are_written() -> None:
    found = parsed([{"table": "./raw"}, {"table": "main.raw.orders", "name": "raw"}], where="s", folder="/here")
    assert found == (TableSource("/here/raw"), TableSource("main.raw.orders", name="raw"))
    assert str(found[1].ref) == "main.raw.orders"  # type: ignore[union-attr]
