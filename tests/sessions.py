"""Sessions beside the one of the run, classic or over Spark Connect."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.conftest import CONNECT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_others: list[SparkSession] = []


def another(spark: SparkSession) -> SparkSession:
    """A session of its own, with settings and temporary views of its own, on the same Spark."""
    if not CONNECT:
        return spark.newSession()
    _others.append(spark.cloneSession())  # type: ignore[attr-defined]
    return _others[-1]


def close_others() -> None:
    """Close what `another` gave over Spark Connect: pyspark's clients talk to their server when Python ends, for ten minutes where it is gone."""
    while _others:
        _others.pop().client.close()  # type: ignore[attr-defined]
