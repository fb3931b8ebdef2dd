"""A lake's small tables (`_lakelog/…`): made by the first who writes a row, changed by a MERGE that tries again beside other writers."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakelog.delta import frames, table_properties, tables
from lakelog.delta.lock import LOCKED
from lakelog.delta.table_properties import FORMAT, FORMAT_VERSION
from lakelog.errors import Conflict
from lakelog.model.names import TableRef

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ATTEMPTS = 20


@dataclass(frozen=True)
class SmallTable:
    """Where it is, its columns (``name TYPE, …``, as `frames.small_frame` takes them), and those it is partitioned by."""

    table: TableRef
    columns: str
    partitioned_by: tuple[str, ...] = ()

    def read(self, spark: SparkSession) -> DataFrame | None:
        """Its rows; None where there is no such table yet. No Spark job.

        Raises:
            InvalidConfig: a newer lakelog wrote it.
        """
        properties = table_properties.read(spark, self.table)
        if properties is None:
            return None
        table_properties.require_readable(str(self.table), properties)
        return tables.read(spark, self.table)

    def merge(self, spark: SparkSession, rows: Sequence[tuple[Any, ...]], *, on: str, clauses: str) -> bool:
        """MERGE rows (alias ``s``) into the table (``t``), which is made if need be. Returns whether a row of it was changed.

        Raises:
            Conflict: other writers were first again and again, or hold its lock; nothing was written.

        Cost: one MERGE.
        """
        if table_properties.read(spark, self.table) is None:
            self._create(spark)
        source = frames.small_frame(spark, self.columns, rows).coalesce(1)
        for attempt in range(ATTEMPTS):
            try:
                return tables.merge(source, self.table, on=on, clauses=clauses, scatter=False) is not None
            except Conflict as error:
                if error.name == LOCKED or attempt == ATTEMPTS - 1:
                    raise
                logging.getLogger("lakelog").warning("%s: another writer was first; try %d of %d", self.table, attempt + 2, ATTEMPTS)
        return False

    def _create(self, spark: SparkSession) -> None:
        empty = frames.small_frame(spark, self.columns, [])
        try:
            tables.create(empty, self.table, partitioned_by=self.partitioned_by, properties={FORMAT: str(FORMAT_VERSION)})
        except Conflict:
            table_properties.wait_for(spark, self.table, FORMAT)
