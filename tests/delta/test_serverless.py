"""The main path on a session that refuses what serverless sessions refuse."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakelog import Lake
from tests.cluster.main_path import walk
from tests.serverless import serverless

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_the_main_path_needs_nothing_that_serverless_refuses(spark: SparkSession, tmp_path: Path) -> None:
    with serverless(spark) as session:
        with pytest.raises(Exception, match="CONFIG_NOT_AVAILABLE"):
            session.conf.set("spark.databricks.delta.commitInfo.userMetadata", "x")
        with pytest.raises(Exception, match="NOT_SUPPORTED_WITH_SERVERLESS"):
            session.range(1).cache()

        walk(Lake(session, str(tmp_path / "lake")), tmp_path)
