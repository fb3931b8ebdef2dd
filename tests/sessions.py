"""Sessions beside the one of the run, classic or over Spark Connect."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.conftest import CONNECT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def another(spark: SparkSession) -> SparkSession:
    """A session of its own, with settings and temporary views of its own, on the same Spark."""
    return spark.cloneSession() if CONNECT else spark.newSession()  # type: ignore[attr-defined]
