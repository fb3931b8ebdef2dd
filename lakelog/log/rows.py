"""Bronze's rows, control rows too, as the statements of this wing read them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakelog.delta import tables
from lakelog.model.topic_log import TopicLog

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def log_rows(log: TopicLog) -> DataFrame:
    """All rows of bronze, control rows too, as they are whenever a statement reads them (`tables.analysed`)."""
    return tables.analysed(log.spark, log.table, (log.uuid, log.types))
