"""A lake: a root that holds topics and lake-wide defaults."""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from lakelog.errors import InvalidConfig, InvalidRequest, NotFound, TopicNotFound
from lakelog.lake import topic_tables
from lakelog.lake.lake_table import LakeTable
from lakelog.latest import silver, views
from lakelog.model.config import SETTINGS, TopicConfig, did_you_mean, parse
from lakelog.model.names import absolute_root, check_topic_name
from lakelog.model.ordering import OrderingRule
from lakelog.model.point_in_time import At
from lakelog.model.records import Types, declared_type, flat_columns
from lakelog.results import TopicDeleted
from lakelog.topic import Topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def system_clock() -> int:
    """The machine's clock in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


class Lake:
    """A root with topics: a path or URI (it holds a ``/``), or a catalog schema such as ``main.lakelog``.

    Opening a lake reads nothing; the first topic makes the root a lake.

    Args:
        spark: the session that does the work; on Databricks the one given, else for example `local_session`'s.
        root: the path or the schema.
        clock: milliseconds since 1970; the machine's clock unless a test brings its own.

    Raises:
        InvalidRequest: the root is neither a path nor a schema's name.
    """

    def __init__(self, spark: SparkSession, root: str, *, clock: Callable[[], int] = system_clock) -> None:
        if not root or ("/" not in root and not all(re.fullmatch(r"\w+", part) for part in root.split("."))):
            raise InvalidRequest(
                f"{root!r} is no root: a path holds a / (./lake, /data/lake, s3a://…), a catalog schema is a name like main.lakelog."
            )
        self.spark = spark
        self.root = absolute_root(root).rstrip("/") or "/"
        self.clock = clock
        self._own = LakeTable(spark, self.root)

    # ---- the lake itself ----

    def is_lake(self) -> bool:
        """Whether the root holds a lake. No Spark job."""
        return self._own.properties() is not None

    def configure(self, settings: Mapping[str, Any]) -> None:
        """Set lake-wide defaults under Kafka's broker names (None removes one); topics that do not say otherwise follow.

        Raises:
            InvalidConfig: an unknown name, an illegal value, or a combination under which a topic without settings of its own could not
                work (the strategy ``column``, whose fields each topic names for itself); nothing was set.

        Cost: one commit; for `silver.SHAPING` a look at every topic, and a commit on each silver that follows.
        """
        self._own.opened()
        parsed = parse({name: value for name, value in settings.items() if value is not None}, lake=True)
        known = {setting.lake_name for setting in SETTINGS.values() if not setting.fixed}
        for name in settings:
            if name not in known:
                raise InvalidConfig(f"There is no lake-wide default {name!r}.{did_you_mean(name, known)}", setting=name)
        after = {**self._own.defaults(), **parsed}
        TopicConfig({}, {name: text for name, text in after.items() if settings.get(name, text) is not None}).check()
        self._own.set_defaults({name: parsed.get(name) for name in settings})
        if silver.SHAPING & set(settings):
            for name in self.topics():
                topic = self._topic(name)
                silver.follow(self.spark, topic.silver, topic.config)

    def describe(self) -> list[dict[str, Any]]:
        """The lake-wide defaults: Kafka's broker name, value, origin (lake or default) and what it means. No Spark job."""
        self._own.opened()
        stored = self._own.defaults()
        shown = []
        for setting in SETTINGS.values():
            if not setting.fixed:
                set_here = setting.lake_name in stored
                value = setting.parse(stored[setting.lake_name]) if set_here else setting.default
                shown.append({"name": setting.lake_name, "value": value, "origin": "lake" if set_here else "default", "says": setting.says})
        return shown

    # ---- topics ----

    def topics(self) -> list[str]:
        """The names of the lake's topics, sorted. No Spark job.

        Raises:
            NotFound: the root is not a lake.
        """
        return list(self._own.topics())

    def topic(self, name: str) -> Topic:
        """An existing topic.

        Raises:
            TopicNotFound: there is none; lists what there is.
        """
        identity = self._identity(name)
        try:
            topic = self._topic(name)
        except TopicNotFound as error:
            raise self._not_found(name) from error
        if topic.uuid != identity:
            raise TopicNotFound(
                f"The topic {name} of {self.root} is being created or deleted, or that was cut off: create_topic completes it, delete_topic"
                " removes it."
            )
        return topic

    def _identity(self, name: str) -> str | None:
        """The identity a topic is listed with, if it is; a name that could be none's is not found."""
        listed = self._own.topics()
        try:
            check_topic_name(name)
        except InvalidRequest as error:
            raise self._not_found(name) from error
        return listed.get(name)

    def _not_found(self, name: str) -> TopicNotFound:
        existing = self.topics()
        listed = ", ".join(existing) or "none"
        return TopicNotFound(f"There is no topic {name} in {self.root}.{did_you_mean(name, existing)} Topics: {listed}.", existing=existing)

    def _topic(self, name: str) -> Topic:
        return Topic(self.spark, self.root, name, self.clock, self._own.defaults)

    def create_topic(
        self, name: str, *, key: str = "BINARY", value: str = "BINARY", partitions: int = 1, config: Mapping[str, Any] | None = None
    ) -> Topic:
        """Create a topic: its log, its latest table, its views.

        Args:
            name: ``[a-z][a-z0-9_]*``.
            key: type of the keys: BINARY, an atomic type, or a list of fields (``order_id BIGINT, region STRING``).
            value: type of the values, likewise; any type.
            partitions: how many partitions the log has, for good.
            config: settings by Kafka's names; a legal setting that cannot be meant is a Python warning.

        Raises:
            InvalidRequest: the name is none, or taken; a creation that was cut off is completed first.
            InvalidConfig: types or settings are wrong; nothing was created.
            Conflict: another process is creating it; try again.

        Cost: three small Delta tables, one commit each.
        """
        check_topic_name(name)
        if not 1 <= partitions <= 10_000:
            raise InvalidConfig(f"partitions={partitions}: a topic has 1 to 10000 partitions.")
        stored, is_lake = parse(config or {}), self.is_lake()
        settings = TopicConfig(stored, self._own.defaults())
        settings.check()
        types = Types(declared_type(key, what="key"), declared_type(value, what="value"))
        flat_columns(types.key, types.value)
        OrderingRule.from_config(settings).version_type(types.value)
        if not is_lake:
            self._own.create()
        made = topic_tables.make_log(self.spark, self.root, name, types, partitions=partitions, settings=stored, now=self.clock())
        topic = self._topic(name)
        # Whoever made it is given the time to complete it.
        if made or not self._own.is_listed(name, topic.uuid):
            topic_tables.complete(topic, now=self.clock())
            self._own.list_topic(name, topic.uuid)
        if not made:
            raise InvalidRequest(f"The topic {name} exists already in {self.root}. Open it with topic({name!r}), or choose another name.",
                                 name="TOPIC_ALREADY_EXISTS")  # fmt: skip
        for setting, warning in settings.warnings().items():
            warnings.warn(f"{setting}: {warning}", stacklevel=2)
        return topic

    def delete_topic(self, name: str, *, dry_run: bool = False) -> TopicDeleted:
        """Delete a topic: its tables with all files, and its views. There is no way back; ask before you call.

        A topic whose creation, once its log was there, or deletion was cut off can be deleted as well.

        Args:
            name: the topic.
            dry_run: tell what would be deleted, and delete nothing.

        Gives: the tables that stood there.

        Raises:
            TopicNotFound: there is no such topic.
            Invalid: a table of that name is not lakelog's; nothing was deleted.

        Cost: no Spark job under a path; every file is removed.
        """
        identity = self._identity(name)
        tables = topic_tables.own(self.spark, self.root, name)
        if identity is None and not tables:
            raise self._not_found(name)
        deleted = TopicDeleted(name, [str(table) for table in tables], dry_run)
        if dry_run:
            return deleted
        topic_tables.drop(self.spark, self.root, name)
        # The log is gone: another process may have made the topic anew.
        if identity is not None and self._identity(name) == identity:
            self._own.list_topic(name, None)
        return deleted

    def sql(self, query: str, *, at: At = None) -> DataFrame:
        """Run SQL with the views of every topic registered: ``orders``, ``orders_deleted``, ``orders_log``.

        Args:
            query: a SELECT.
            at: a version of silver or a time, for the views of the latest tables; topics that have no such version are left out.

        Raises:
            InvalidRequest: the query is wrong.
            NotFound: it names a table or view that is not there; the views are listed.
        """
        from pyspark.errors import AnalysisException

        registered: list[str] = []
        for name in self.topics():
            try:
                self._topic(name).register(at)
                registered.append(name)
            except NotFound as error:
                # A topic whose deletion was cut off is still listed.
                if at is None and not isinstance(error, TopicNotFound):
                    raise
                for view in views.names(name):
                    self.spark.catalog.dropTempView(view)
        try:
            return self.spark.sql(query)
        except AnalysisException as error:
            first = str(error).strip().splitlines()[0]
            existing = [view for name in registered for view in views.names(name)]
            if "TABLE_OR_VIEW_NOT_FOUND" in first:
                listed = ", ".join(existing) or "none"
                raise NotFound(f"{first} Views: {listed}.", name="UNKNOWN_TABLE", existing=existing) from error
            raise InvalidRequest(f"The query is wrong: {first}", name="INVALID_QUERY") from error
