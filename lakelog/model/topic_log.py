"""A topic's log as the wings pass it round: where its tables are, its types, its configuration, its rule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakelog.model.config import TopicConfig
from lakelog.model.names import TableRef
from lakelog.model.ordering import OrderingRule
from lakelog.model.records import Types

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class TopicLog:
    """A topic: its name and root, its identity, its tables (``table`` is bronze), and what is needed to write them."""

    name: str
    root: str
    uuid: str
    spark: SparkSession
    table: TableRef
    silver: TableRef
    types: Types
    partitions: int
    config: TopicConfig
    rule: OrderingRule

    @property
    def quarantine(self) -> TableRef:
        """The table of its records that are not in the log."""
        return TableRef.of(self.root, self.name, "quarantine")
