"""Queries of a lake's topics in SQL; `lakelog.lake.lake.Lake` has them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Set
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, cast

from lakelog.delta.statement import planned_beyond_retention
from lakelog.errors import InvalidRequest, LakelogError, NotFound, TopicNotFound
from lakelog.lake.lake_topics import LakeTopics
from lakelog.lake.query import query as checked_query
from lakelog.latest import views
from lakelog.model.point_in_time import At
from lakelog.model.topic_log import TopicLog
from lakelog.native.query import ask
from lakelog.native.stores import require_native
from lakelog.native.topic import NativeTopic, needs_spark
from lakelog.snapshots import point

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class LakeQueries(LakeTopics):
    """What `Lake` answers in SQL: by Spark, or by DuckDB without it."""

    def sql(self, query: str, *, at: At = None, engine: str = "spark") -> DataFrame:
        """Run a query that knows the views of every topic: ``orders``, ``orders_deleted``, ``orders_log``.

        They are known to this query alone and go before views of the session; that has its own views afterwards as before
        (`Topic.register` gives it a topic's).

        Args:
            query: one SELECT, WITH … SELECT, VALUES, SHOW, DESCRIBE or EXPLAIN.
            at: a snapshot's name, a version of silver or a time, for the views of the latest tables; topics without it are left out.
            engine: ``duckdb`` answers without Spark, in DuckDB's dialect, with rows as `native.rows.Rows`; the views that the query names are
                read into this process' memory.

        Raises:
            InvalidRequest: the query is wrong, or is another statement; nothing was run.
            NotFound: it names a table or view that is not there; the views are listed.
            Damaged: it names a topic whose latest table is not as lakelog left it.
            NotReady: DuckDB is not installed; or Spark is to answer, and the Lake has no session.
        """
        if engine == "duckdb":
            require_native(self.root)
            return cast("DataFrame", ask(self.topics(), self._listed_native, query, at))
        if engine != "spark":
            raise InvalidRequest(f"engine={engine!r}: must be one of spark, duckdb.")
        if self._session is None:
            raise needs_spark("lake.sql, but with engine='duckdb',", self.root)
        query = checked_query(self.spark, query)
        return views.with_computed(lambda also: self._answer(query, at, also))

    def _answer(self, query: str, at: At, also: Set[str]) -> DataFrame:
        """The rows of a query that Spark can ask; ``also``: views whose names it computes."""
        from pyspark.errors import AnalysisException

        known: dict[str, str] = {}
        existing: list[str] = []
        # By view: what has no such version, and a topic whose deletion was cut off, which is still listed.
        lacking: dict[str, NotFound] = {}
        gone: dict[str, str] = {}
        for name in self.topics():
            named = views.named(name, query, also)
            if not named:
                existing += views.names(name)
                continue
            try:
                # Spark looks at the tables of all views that it is given.
                known |= {view: select for view, select in self._selects(name, at).items() if view in named}
                existing += views.names(name)
                if at is None and {name, f"{name}_deleted"}.intersection(named):
                    self._topic(name).require_sound()
            except TopicNotFound:
                gone |= dict.fromkeys(named, name)
            except NotFound as error:
                if at is None:
                    raise
                lacking |= dict.fromkeys(named, error)
        if lacking and not known:
            raise next(iter(lacking.values()))
        whole = views.over(known, query)
        try:
            # A snapshot is read however old it is (`_selects`).
            with planned_beyond_retention(self.spark):
                frame = self.spark.sql(whole)
                # Spark Connect analyses a query only when it is asked for something.
                frame.schema  # noqa: B018
            return frame
        except AnalysisException as error:
            # Where in the statement that it is a part of tells nothing.
            first = re.sub(r" *\(line \d+, pos \d+\)", "", str(error).strip().splitlines()[0])
            if "TABLE_OR_VIEW_NOT_FOUND" in first:
                refused = views.unknown(first, existing)
                view = refused.details["table"].lower()
                raise (self._lost(gone[view]) if view in gone else lacking.get(view, refused)) from error
            raise InvalidRequest(f"The query is wrong: {first}", name="INVALID_QUERY") from error

    @contextmanager
    def reading(self, at: At = None) -> Iterator[None]:
        """Around what is done with rows of `sql` at a point, which are read only then: as `LatestTable.reading`, for every topic."""
        with point.reading(self._beside, [at], self.root):
            yield

    def _beside(self, path: str) -> Iterator[TopicLog]:
        """The topics that a file may belong to: by its path; under a catalog, which has paths of its own, all of them."""
        for name in self.topics():
            if f"/{name}/silver/" in path or "/" not in self.root:
                log = None
                # Of a topic that cannot be opened nothing was read.
                with suppress(LakelogError):
                    log = self._topic(name).log
                if log is not None:
                    yield log

    def _listed_native(self, name: str) -> NativeTopic:
        """A topic that is listed, opened without Spark."""
        try:
            return self._native(name)
        except TopicNotFound as error:
            raise self._lost(name) from error

    def _selects(self, name: str, at: At) -> dict[str, str]:
        """A topic's views as SELECTs, by name; a version of silver that cannot be read is not found."""
        topic = self._topic(name)
        place = point.find(topic.log, at)
        if place.copy is None and place.version is None:
            return views.selects(name, topic.silver, topic.bronze, topic.types)
        silver = place.copy or topic.silver
        version = None if place.copy is not None else place.version
        have = point.stored(topic.log, place).schema["value"].dataType
        return views.selects(name, silver, topic.bronze, topic.types, version, have)
