"""A lake: a root that holds topics and lake-wide defaults."""

from __future__ import annotations

import contextlib
import os
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lakelog.arguments import is_whole, settings_in
from lakelog.delta import frames, table_properties
from lakelog.delta.table_properties import FORMAT, FORMAT_VERSION
from lakelog.errors import Damaged, InvalidConfig, InvalidRequest, NotFound, TopicNotFound
from lakelog.inputs.inference import types_like
from lakelog.lake.lake_import import LakeImport
from lakelog.lake.lake_queries import LakeQueries
from lakelog.lake.lake_snapshots import LakeSnapshots
from lakelog.lake.lake_table import LakeTable
from lakelog.latest import silver
from lakelog.log.tail import true_end
from lakelog.model.config import SETTINGS, TopicConfig, did_you_mean, parse
from lakelog.model.log_state import DELETE
from lakelog.model.names import absolute_root, check_root, check_topic_name, scheme_of
from lakelog.model.ordering import OrderingRule
from lakelog.model.records import Types, flat_columns
from lakelog.native.stores import require_native
from lakelog.native.table import properties as native_properties
from lakelog.results import TopicDeleted, Upgraded, html_table
from lakelog.snapshots import keeping, registry

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakelog.topic import Topic


def system_clock() -> int:
    """The machine's clock in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


class Lake(LakeQueries, LakeSnapshots, LakeImport):
    """A root with topics: a path or URI (it holds a ``/``), or a catalog schema such as ``main.lakelog``.

    Opening a lake reads nothing; the first topic makes the root a lake.

    ``Lake("./lake")``, without a session, answers what only reads, and starts no Java: `topics`, `topic`, `describe`, `snapshots`, `sql` by
    DuckDB, and of its topics what `native.topic.NativeTopic` has, with rows as `native.rows.Rows`. Every other verb is refused (NotReady, NEEDS_SPARK),
    whatever else is wrong with the call. Needs the extra ``native``.

    Args:
        spark: the session that does the work; on Databricks the one given, else for example `local_session`'s. None, or the root in its place,
            opens the lake without one.
        root: the path or the schema.
        clock: milliseconds since 1970; the machine's clock unless a test brings its own.

    Raises:
        InvalidRequest: the root is neither a path nor a schema's name; or there is no session, and the root cannot be read without one.
    """

    def __init__(
        self,
        spark: SparkSession | str | os.PathLike[str] | None,
        root: str | os.PathLike[str] | None = None,
        *,
        clock: Callable[[], int] = system_clock,
    ) -> None:
        session, place = (None, spark) if isinstance(spark, (str, os.PathLike)) and root is None else (spark, root)
        if isinstance(place, os.PathLike) and scheme_of(os.fspath(place).replace(":/", "://", 1)):
            raise InvalidRequest(f"{place} lost a / of its address as a path of Python's. Give the root as text: 's3a://bucket/lake'.")
        # A folder, whether it looks like one or not.
        place = os.path.join(os.curdir, os.fspath(place)) if isinstance(place, os.PathLike) else place
        if not isinstance(place, str) or isinstance(session, (str, os.PathLike)):
            raise InvalidRequest("Lake(session, root) opens a lake on a Spark session, Lake(root) without one.")
        check_root(place)
        self.root = absolute_root(place).rstrip("/") or "/"
        self.clock = clock
        if session is None:
            require_native(self.root)
        self._session = session
        self._own = LakeTable(session, self.root, None if session is not None else native_properties)

    def __repr__(self) -> str:
        return f"<Lake {self.root}>"

    def _repr_html_(self) -> str:
        columns = ["topic", "key", "value", "partitions", "rule"]
        facts = [topic.describe() for topic in (self._there(self._topic) if self.is_lake() else [])]
        return html_table(columns, [[one.topic, one.key, one.value, str(one.partitions), one.rule] for one in facts])

    # ---- the lake itself ----

    def configure(self, settings: Mapping[str, Any]) -> None:
        """Set lake-wide defaults under Kafka's broker names (None removes one); topics that do not say otherwise follow.

        Raises:
            InvalidConfig: an unknown name, an illegal value, or a combination under which a topic without settings of its own could not
                work (the strategy ``column``, whose fields each topic names for itself); nothing was set.
            LogIncomplete: a topic that follows would get another ordering rule than its latest table was made under, but its log no longer holds
                every record; nothing was set.

        Cost: one commit; for `silver.SHAPING` a look at every topic, and a commit on each silver that follows.
        """
        self._require_session("configure")
        table_properties.require_writable(self.root, self._own.opened())
        parsed = parse({name: value for name, value in settings_in(settings).items() if value is not None}, lake=True)
        known = {setting.lake_name for setting in SETTINGS.values() if not setting.fixed}
        for name in settings:
            if name not in known:
                raise InvalidConfig(f"There is no lake-wide default {name!r}.{did_you_mean(name, known)}", setting=name)
        after = {**self._own.defaults(), **parsed}
        after_all = {name: text for name, text in after.items() if settings.get(name, text) is not None}
        TopicConfig({}, after_all).check()
        for topic in self._there(self._topic):
            topic.require_whole_for(after_all)
        self._own.set_defaults({name: parsed.get(name) for name in settings})
        if silver.SHAPING & set(settings):
            for topic in self._there(self._topic):
                keeping.follow(topic.log, topic.config, now=self.clock())

    def upgrade(self) -> Upgraded:
        """Bring the lake's tables up to this lakelog's format, and a catalog's views; again, and nothing changes.

        A lake of an older format is read as it is and not written. Upgrade when no older lakelog writes it any more: from then on it refuses.
        Cut off, the next call goes on.

        Gives: what was done, a sentence each.

        Raises:
            NotFound: the root is not a lake.
            Conflict: a writer was first again and again; try again.

        Cost: per topic two commits on each table, for the lake one.
        """
        self._require_session("upgrade")
        stored = self._own.opened()
        from lakelog.operations import upgrade

        done = [sentence for topic in self._there(self._topic) for sentence in upgrade.upgrade(topic.log, now=self.clock())]
        if int(stored[FORMAT]) < FORMAT_VERSION:
            table_properties.change(self.spark, self._own.table, {FORMAT: str(FORMAT_VERSION)})
            done.append(f"{self._own.table}: format {FORMAT_VERSION}")
        return Upgraded(self.root, FORMAT_VERSION, done)

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

    # ---- topics (those there are: `LakeTopics`) ----

    def create_topic(
        self,
        name: str,
        *,
        key: str | None = None,
        value: str | None = None,
        partitions: int = 1,
        config: Mapping[str, Any] | None = None,
        like: Any = None,
        key_columns: Sequence[str] = (),
    ) -> Topic:
        """Create a topic: its log, its latest table, its views.

        Args:
            name: ``[a-z][a-z0-9_]*``.
            key: type of the keys: BINARY (the default), an atomic type, or a list of fields (``order_id BIGINT, region STRING``).
            value: type of the values, likewise; any type.
            partitions: how many partitions the log has, for good.
            config: settings by Kafka's names; a legal setting that cannot be meant is a Python warning.
            like: a file or frame from which `lakelog.types_like` takes the types of key and value that are not given.
            key_columns: with ``like``: the columns that are the key.

        Raises:
            InvalidRequest: the name is none, or taken; a creation that was cut off is completed first.
            InvalidConfig: types or settings are wrong; nothing was created.
            Damaged: the topic is listed, its log is gone, and files of it are there; nothing was changed.
            Conflict: another process is creating it; try again.

        Cost: three small Delta tables, one commit each.
        """
        self._require_session("create_topic")
        from lakelog.operations import create

        check_topic_name(name)
        if not is_whole(partitions) or not 1 <= partitions <= 10_000:
            raise InvalidConfig(f"partitions={partitions!r}: a topic has 1 to 10000 partitions.")
        stored, is_lake = parse(settings_in(config or {})), self.is_lake()
        settings = TopicConfig(stored, self._own.defaults())
        settings.check()
        if like is not None:
            seen = types_like(self.spark, like, key_columns)
            key, value = key or seen["key"], value or seen["value"]
        elif key_columns:
            raise InvalidRequest("key_columns names columns of what like= is given. Without it, declare the key: key='order_id BIGINT'.")
        key, value = key or "BINARY", value or "BINARY"
        types = Types(frames.declared(self.spark, key, what="key"), frames.declared(self.spark, value, what="value"))
        flat_columns(types.key, types.value)
        OrderingRule.from_config(settings).version_type(types.value)
        if not is_lake:
            self._own.create()
        else:
            table_properties.require_writable(self.root, self._own.opened())
            if name in self._own.topics():
                create.require_not_lost(self.spark, self.root, name)
        made = create.make_log(self.spark, self.root, name, types, partitions=partitions, settings=stored, now=self.clock())
        topic = self._topic(name)
        if not made and self._finish_deletion(topic):
            made = create.make_log(self.spark, self.root, name, types, partitions=partitions, settings=stored, now=self.clock())
            topic = self._topic(name)
        # Whoever made it is given the time to complete it.
        if made or not self._own.is_listed(name, topic.uuid):
            self._complete(topic)
        if not made:
            raise InvalidRequest(f"The topic {name} exists already in {self.root}. Open it with topic({name!r}), or choose another name.",
                                 name="TOPIC_ALREADY_EXISTS")  # fmt: skip
        for setting, warning in settings.warnings().items():
            warnings.warn(f"{setting}: {warning}", stacklevel=2)
        return topic

    def _finish_deletion(self, topic: Topic) -> bool:
        """Finish a deletion of a topic that was cut off. Returns whether there was one."""
        from lakelog.operations import intents

        end = true_end(topic.log)
        if end.intent is None or end.intent.operation != DELETE:
            return False
        with contextlib.suppress(TopicNotFound):
            intents.finish(topic.log, end, now=self.clock())
        return True

    def delete_topic(self, name: str, *, dry_run: bool = False) -> TopicDeleted:
        """Delete a topic: its tables with all files, and its views in a catalog. There is no way back; ask before you call.

        What a creation or deletion that was cut off left can be deleted as well. Temporary views of the session are the caller's and stay.

        Args:
            name: the topic.
            dry_run: tell what would be deleted, and delete nothing.

        Gives: the tables that stood there.

        Raises:
            TopicNotFound: there is no such topic.
            Invalid: a table of that name is not lakelog's; nothing was deleted. Or nothing here can remove folders at that place.

        An intent is written first: appends under way fail, and a deletion that is cut off is finished by the next writing verb. Where another
        process deletes the topic at the same time, and one of that name is made anew, the new topic stays.

        Cost: under a path three small Spark jobs; every file is removed.
        """
        self._require_session("delete_topic")
        from lakelog.operations import delete

        listed = self._identity(name)
        tables = delete.own(self.spark, self.root, name)
        if listed is None and not tables:
            raise self._not_found(name)
        deleted = TopicDeleted(name, [str(table) for table in tables], dry_run)
        if dry_run:
            return deleted
        # From here on another process may delete the topic first, and make it anew: what bears another identity stays.
        identity = delete.identity(self.spark, self.root, name)
        delete.require_droppable(self.spark, self.root, tables)
        with contextlib.suppress(NotFound, Damaged):
            topic = self._topic(name)
            if topic.uuid == identity:
                delete.announce(topic.log, now=self.clock())
        delete.drop(self.spark, self.root, name, identity)
        still = self._identity(name)
        if still is not None and still in (listed, identity):
            self._own.list_topic(name, None)
            registry.forget(self.spark, self.root, still)
        return deleted
