"""The lake's own tables as the status page reads them, by either lane: rows of a query, commits, octets. A table that is not there has none."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakelog.delta import table_properties, tables
from lakelog.delta.statement import interpreted
from lakelog.errors import NotFound
from lakelog.model.names import TableRef
from lakelog.native.table import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Commit:
    """A commit of a Delta table: when (milliseconds), what, and Delta's figures of it."""

    version: int
    at: int
    operation: str
    metrics: dict[str, str]


class TableReader(ABC):
    """One lane. Expressions and conditions are in the SQL that both know; names are quoted by whoever makes them."""

    @abstractmethod
    def rows(self, table: TableRef, columns: str, where: str, more: str = "") -> list[dict[str, Any]]:
        """The few rows of a table, by column; none where there is no such table.

        Args:
            table: the table.
            columns: what is selected.
            where: of which rows.
            more: how the query ends: grouped, ordered, limited.
        """

    @abstractmethod
    def ms(self, column: str) -> str:
        """The expression of a time column in milliseconds."""

    @abstractmethod
    def commits(self, table: TableRef, limit: int) -> list[Commit]:
        """The newest commits, newest first; none where there is no such table."""

    @abstractmethod
    def octets(self, table: TableRef) -> int:
        """The octets of the files that the table consists of now."""


class NativeReader(TableReader):
    """By delta-rs, without Java."""

    def rows(self, table: TableRef, columns: str, where: str, more: str = "") -> list[dict[str, Any]]:
        """As `TableReader.rows`."""
        try:
            opened = Table(table)
        except NotFound:
            return []
        table_properties.require_readable(str(table), opened.properties)
        return opened.records(f"SELECT {columns} FROM t WHERE {where} {more}")  # noqa: S608 - texts of ours

    def ms(self, column: str) -> str:
        """As `TableReader.ms`."""
        return f"arrow_cast({column}, 'Int64') / 1000"

    def commits(self, table: TableRef, limit: int) -> list[Commit]:
        """As `TableReader.commits`."""
        try:
            found = Table(table).history(limit)
        except NotFound:
            return []
        return [
            Commit(one["version"], int(1000 * one["timestamp"].timestamp()), one["operation"], one["operationMetrics"]) for one in found
        ]

    def octets(self, table: TableRef) -> int:
        """As `TableReader.octets`."""
        return Table(table).octets()


@dataclass(frozen=True)
class SparkReader(TableReader):
    """Through Spark."""

    spark: SparkSession

    def rows(self, table: TableRef, columns: str, where: str, more: str = "") -> list[dict[str, Any]]:
        """As `TableReader.rows`."""
        properties = table_properties.read(self.spark, table)
        if properties is None:
            return []
        table_properties.require_readable(str(table), properties)
        with tables.door(table), interpreted(self.spark):
            found = self.spark.sql(f"SELECT {columns} FROM {table.sql()} WHERE {where} {more}").collect()  # noqa: S608 - texts of ours
        return [row.asDict() for row in found]

    def ms(self, column: str) -> str:
        """As `TableReader.ms`."""
        return f"unix_millis({column})"

    def commits(self, table: TableRef, limit: int) -> list[Commit]:
        """As `TableReader.commits`."""
        from pyspark.sql import functions as F

        if table_properties.read(self.spark, table) is None:
            return []
        with tables.door(table), interpreted(self.spark):
            history = self.spark.sql(f"DESCRIBE HISTORY {table.sql()} LIMIT {int(limit)}")
            found = history.select("version", F.unix_millis("timestamp").alias("ms"), "operation", "operationMetrics").collect()
        return [Commit(row["version"], row["ms"], row["operation"], dict(row["operationMetrics"] or {})) for row in found]

    def octets(self, table: TableRef) -> int:
        """As `TableReader.octets`."""
        return tables.size(self.spark, table)
