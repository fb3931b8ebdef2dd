"""Versions that are kept beyond their table's retention, beside those that are not, by threads of one session."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakelog.delta import past, tables
from lakelog.delta.location import over_connect
from lakelog.delta.session import setting
from lakelog.delta.statement import ENFORCE_RETENTION, beyond_retention
from lakelog.errors import NotFound
from tests.native.damages import three_versions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_statement_that_ends_takes_the_setting_from_no_other(spark: SparkSession, tmp_path: Path) -> None:
    table = three_versions(tmp_path / "table")
    before = setting(spark, ENFORCE_RETENTION)
    first, second = beyond_retention(spark), beyond_retention(spark)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    kept = spark.sql(tables.as_of(table, 0))
    assert kept.columns == ["n"]
    second.__exit__(None, None, None)

    assert setting(spark, ENFORCE_RETENTION) == (before if not over_connect(spark) else "false")
    with pytest.raises(NotFound, match="cannot be read any more"):
        tables.read(spark, table, 0).collect()
    assert [row["n"] for row in kept.collect()] == [0]


def test_threads_that_are_refused_a_version_leave_kept_ones_readable(spark: SparkSession, tmp_path: Path) -> None:
    table = three_versions(tmp_path / "table")
    kept = past.pinned(spark, table, 0)

    def refused(_: int) -> bool:
        try:
            tables.read(spark, table, 0).schema  # noqa: B018
        except NotFound:
            return True
        return False

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(refused, range(40)))
    assert [row["n"] for row in (*kept.collect(), *kept.filter("n = 0").collect())] == [0, 0]
    assert [row["n"] for row in past.pinned(spark, table, 0).collect()] == [0]
