"""Parquet files as Spark reads them, several at once, whose columns may differ."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from lakelog.errors import InvalidRequest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def frame(spark: SparkSession, paths: Sequence[str]) -> DataFrame | None:
    """The files' rows; None where Spark cannot read a column (timestamps of nanoseconds).

    A column that only some files have is NULL in the others, as it would be if each were appended by itself.

    Raises:
        InvalidRequest: a column has different types in two files.

    Cost: the footer of each file is read.
    """
    try:
        # Without it Spark takes the columns of one of the files for those of all.
        rows = spark.read.option("mergeSchema", "true").parquet(*paths)
        # Spark Connect looks at the files only when it is asked for something.
        rows.schema  # noqa: B018
        return rows
    except Exception as error:
        if "PARQUET_TYPE_ILLEGAL" in str(error):
            return None
        if "CANNOT_MERGE" not in str(error):
            raise
        says = re.search(r'data types "([^"]*)" and "([^"]*)"', str(error))
        kinds = f"{says.group(1)} and {says.group(2)}" if says else "different ones"
        raise different(kinds) from error


def different(kinds: str) -> InvalidRequest:
    """The refusal of files whose columns have different types."""
    return InvalidRequest(
        f"Parquet files of one append have columns of the same types; these have {kinds}. Append them one by one, or cast."
    )
