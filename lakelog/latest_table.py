"""The verbs with which a topic's latest table is read, now or as it was; `Topic` has all of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lakelog.formats.arrow import as_pandas, as_polars
from lakelog.latest import status, views
from lakelog.log import bronze
from lakelog.model.records import Types
from lakelog.model.topic_log import TopicLog
from lakelog.snapshots import point
from lakelog.snapshots.point import Point

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow
    from pyspark.sql import DataFrame


class LatestTable(ABC):
    """What readers of a topic's latest table ask. None of these verbs writes."""

    name: str

    @property
    @abstractmethod
    def log(self) -> TopicLog:
        """The topic as the floors below know it."""

    @property
    @abstractmethod
    def types(self) -> Types:
        """The declared types of key and value."""

    @abstractmethod
    def refresh(self) -> None:
        """Read the topic's properties."""

    def rows(self, at: Point = None) -> DataFrame:
        """Silver as stored, without control rows: one row per (partition, key), tombstones included, in no order."""
        self.refresh()
        return point.rows(self.log, at)

    def latest(self, at: Point = None) -> DataFrame:
        """The live rows: one per (partition, key), in no order, struct keys and values flattened to columns.

        Columns: the key's and the value's fields (atomic ones ``key``, ``value``), ``_partition``, ``_offset``, ``_timestamp``, ``_version``.

        Args:
            at: for the table as it was: a snapshot (its name, its id, or what `snapshot` answered), silver's version (a number), or a time (a
                datetime, or ISO 8601 text; UTC where it has no zone).

        Raises:
            NotFound: there is no such snapshot, or that version or time cannot be read any more (``snapshot.retention.ms``).
            Damaged: the table is not as lakelog left it; versions before that can be asked.
        """
        self.refresh()
        if at is None:
            self.require_sound()
        return views.live(point.rows(self.log, at), self.types)

    @contextmanager
    def reading(self, *points: Point) -> Iterator[None]:
        """Around what is done with rows at some points, of `latest`, `deleted` or `diff`, which are read only then: Spark's errors are lakelog's.

        Raises:
            NotFound: files of that version were removed (SNAPSHOT_NOT_FOUND).
            Damaged: a file of the table is missing or broken.
        """
        with point.reading(lambda _: [self.log], points or (None,), self.name):
            yield

    def to_arrow(self, at: Point = None) -> pyarrow.Table:
        """`latest` as an Arrow table in this process' memory; of the log: ``topic.read(…).toArrow()``."""
        rows = self.latest(at)
        with self.reading(at):
            return rows.toArrow()

    def to_pandas(self, at: Point = None) -> pandas.DataFrame:
        """`latest` as a pandas DataFrame in this process' memory; integers and booleans in pandas' types that know NA (``Int64``, ``boolean``)."""
        return as_pandas(self.to_arrow(at))

    def to_polars(self, at: Point = None) -> polars.DataFrame:
        """`latest` as a polars DataFrame in this process' memory; of the log: ``polars.from_arrow(topic.read(…).toArrow())``.

        Raises:
            NotReady: polars is not installed.
        """
        return as_polars(self.to_arrow(at))

    def deleted(self, at: Point = None) -> DataFrame:
        """The tombstones with their payload, in the columns of `latest`."""
        self.refresh()
        if at is None:
            self.require_sound()
        return views.deleted(point.rows(self.log, at), self.types)

    def require_sound(self) -> None:
        """Raise `Damaged` where the latest table is not as lakelog left it. Cost: at most one small Spark job."""
        status.require_sound(self.log)

    def register(self, at: Point = None) -> None:
        """Make the topic's views known to the session's SQL: ``orders``, ``orders_deleted``, ``orders_log``."""
        live, gone, log = views.names(self.name)
        rows = self.rows(at)
        views.live(rows, self.types).createOrReplaceTempView(live)
        views.deleted(rows, self.types).createOrReplaceTempView(gone)
        bronze.records(self.log).createOrReplaceTempView(log)
