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
        InvalidRequest: a column has different types in two files, two columns have one name, or there is no file.

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
        refused = refusal(error, paths)
        if refused is None:
            raise
        raise refused from error


def refusal(error: Exception, paths: Sequence[str]) -> InvalidRequest | None:
    """What Spark says of files as it reads their columns, in our words; None where it is something else."""
    if "CANNOT_MERGE" in str(error):
        says = re.search(r'data types "([^"]*)" and "([^"]*)"', str(error))
        return different(f"{says.group(1)} and {says.group(2)}" if says else "different ones")
    if "UNABLE_TO_INFER_SCHEMA" in str(error):
        return InvalidRequest(f"{', '.join(paths[:3])}: there is no Parquet file. Nothing was written.")
    if "COLUMN_ALREADY_EXISTS" in str(error):
        says = re.search(r"The column `(.*)` already exists", str(error))
        name = f": {says.group(1)}" if says else ""
        return InvalidRequest(
            f"{', '.join(paths[:3])}: two columns have one name, or names that differ in case alone{name}. Rename or drop one of them. Nothing was"
            " written."
        )
    return None


def different(kinds: str) -> InvalidRequest:
    """The refusal of files whose columns have different types."""
    return InvalidRequest(
        f"Parquet files of one append have columns of the same types; these have {kinds}. Append them one by one, or cast."
    )
