"""Silver's control rows as they are stored, in the reserved bucket -1: one per partition, in whatever state they are."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from lakelog.delta import tables
from lakelog.model.names import TableRef

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

CONTROL_BUCKET = -1
# The columns that control rows are read from; a table without them has none.
CONTROL_COLUMNS = frozenset({"bucket", "partition", "offset", "epoch", "control"})


def control_rows(spark: SparkSession, table: TableRef, at: int | None = None) -> list[Row]:
    """Silver's control rows, at a version or now. Cost: two small Spark jobs over one small file."""
    return control_rows_of(tables.read(spark, table, at), table)


def has_control(columns: Iterable[str]) -> bool:
    """Whether a table with these columns can have control rows; another one lies in silver's place."""
    return CONTROL_COLUMNS.issubset(columns)


def control_rows_of(silver: DataFrame, table: TableRef) -> list[Row]:
    """The control rows of a state of silver. Cost: two small Spark jobs over one small file."""
    with tables.door(table):
        if not has_control(silver.columns):
            return []
        return list(silver.filter(f"bucket = {CONTROL_BUCKET}").select("partition", "offset", "epoch", "control").collect())


def last_merged(spark: SparkSession, table: TableRef, at: int | None = None) -> int | None:
    """When a merge last wrote silver, in milliseconds; None where nothing says it. Cost: as of `control_rows`."""
    with tables.door(table):
        rows = tables.read(spark, table, at).filter(f"bucket = {CONTROL_BUCKET}")
        return rows.selectExpr("unix_millis(max(merged_at)) AS ms").first()["ms"]  # type: ignore[index,no-any-return]


def said(row: Row | Mapping[str, Any]) -> dict[str, Any]:
    """What a control row says besides its place, in whatever state it is; nothing where that cannot be read."""
    with contextlib.suppress(TypeError, ValueError):
        found = json.loads(row["control"])
        return found if isinstance(found, dict) else {}
    return {}


def fingerprint(rows: Iterable[Row]) -> str:
    """One text for all control rows together, in whatever state they are (`fingerprint_of`)."""
    return hashed(tuple(row) for row in rows)


def hashed(rows: Iterable[tuple[Any, ...]]) -> str:
    """One text for control rows, each given by its fields; NULLs are passed over."""
    texts = sorted(" ".join(str(field) for field in row if field is not None) for row in rows)
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()


def fingerprint_of(silver: DataFrame) -> DataFrame:
    """`fingerprint` of the control rows that a statement reads: one row with the column ``fingerprint``."""
    from pyspark.sql import functions as F

    text = F.concat_ws(" ", "partition", "offset", "epoch", "control")
    texts = F.concat_ws("\n", F.sort_array(F.collect_list(text)))
    return silver.filter(F.col("bucket") == CONTROL_BUCKET).agg(F.sha2(texts, 256).alias("fingerprint"))
