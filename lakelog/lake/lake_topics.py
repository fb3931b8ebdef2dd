"""The topics of a lake: which there are, and one of them opened; `lakelog.lake.lake.Lake` has them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import fields
from typing import TYPE_CHECKING, cast

from lakelog.delta import table_properties
from lakelog.delta.filesystem import names_in
from lakelog.errors import Damaged, InvalidRequest, LakelogError, TopicNotFound
from lakelog.lake.lake_table import LakeTable
from lakelog.model.config import did_you_mean
from lakelog.model.names import TableRef, check_topic_name
from lakelog.native.topic import NativeTopic, needs_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakelog.topic import Topic


class LakeTopics:
    """What `Lake` knows of its topics: through Spark where it has a session, else natively."""

    root: str
    clock: Callable[[], int]
    _session: SparkSession | None
    _own: LakeTable

    @property
    def spark(self) -> SparkSession:
        """The session.

        Raises:
            NotReady: there is none: the verb that asks for it needs one.
        """
        if self._session is None:
            raise needs_spark("This verb", self.root)
        return self._session

    def _require_session(self, verb: str) -> None:
        """Refuse a verb that Spark carries out, before anything of the call or the lake is looked at.

        Raises:
            NotReady: there is no session (NEEDS_SPARK).
        """
        if self._session is None:
            raise needs_spark(f"lake.{verb}", self.root)

    @property
    def has_session(self) -> bool:
        """Whether Spark answers; else this process does, without Java."""
        return self._session is not None

    def is_lake(self) -> bool:
        """Whether the root holds a lake. No Spark job."""
        return self._own.properties() is not None

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
            Damaged: it is listed, and its log cannot be read.
        """
        identity = self._identity(name)
        try:
            topic = self._topic(name)
        except TopicNotFound as error:
            raise (self._not_found(name) if identity is None else self._lost(name)) from error
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
        return TopicNotFound(
            f"There is no topic {name} in {self.root}.{did_you_mean(str(name), existing)} Topics: {listed}.", existing=existing
        )

    def _lost(self, name: str) -> LakelogError:
        """Of a topic that is listed, and whose log cannot be opened: it is broken, or gone."""
        bronze = TableRef.of(self.root, name, "bronze")
        if self._session is not None and bronze.path is not None and table_properties.read(self.spark, bronze) is None:
            if names_in(self.spark, f"{bronze.path}/_delta_log"):
                return Damaged(
                    f"{bronze}: its Delta log cannot be read: a file of it is missing or broken. Put it back from a copy. If the topic's deletion"
                    " was cut off, delete_topic ends it."
                )
        return TopicNotFound(
            f"The topic {name} is listed in {self.root}, but its log is not at {bronze}: its deletion was cut off, or its folder was taken away or"
            " replaced. Put it back from a copy, or take it off the list: delete_topic."
        )

    def _topic(self, name: str) -> Topic:
        if self._session is None:
            return cast("Topic", self._native(name))
        from lakelog.topic import Topic

        return Topic(self.spark, self.root, name, self.clock, self._own.defaults)

    def _there(self, opened: Callable[[str], Topic]) -> list[Topic]:
        """The topics that are listed and that can be opened; one whose deletion was cut off may be listed still."""
        found = []
        for name in self.topics():
            with contextlib.suppress(TopicNotFound):
                found.append(opened(name))
        return found

    def _native(self, name: str) -> NativeTopic:
        return NativeTopic(self.root, name, self.clock, self._own.defaults, _verbs)


def _verbs() -> frozenset[str]:
    """What a topic with a session answers."""
    # All the verbs that write are imported with it.
    from lakelog.topic import Topic

    return frozenset(verb for verb in (*dir(Topic), *(one.name for one in fields(Topic))) if not verb.startswith("_"))
