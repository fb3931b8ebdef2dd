"""A topic with the reading verbs, without a JVM: what `lakelog.topic.Topic` answers, from the same tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lakelog.arguments import check_whole
from lakelog.cleaning.segments import cleaning_status
from lakelog.delta import table_properties
from lakelog.delta.errors import damaged, door
from lakelog.delta.table_properties import IDENTITY, PARTITIONS, TYPES
from lakelog.errors import NotReady, TopicNotFound
from lakelog.formats.arrow import as_pandas, as_polars
from lakelog.latest import views
from lakelog.latest.progress import require_held
from lakelog.latest.status import status_of
from lakelog.model import config, kinds
from lakelog.model.config import TopicConfig
from lakelog.model.kinds import Kind
from lakelog.model.names import TableRef
from lakelog.model.ordering import OrderingRule
from lakelog.model.point_in_time import At, is_name, moment
from lakelog.model.positions import SnapshotPlace
from lakelog.model.records import Types, flat_columns
from lakelog.model.topic_log import TopicLog
from lakelog.native import lag, latest, log, past, snapshots
from lakelog.native.rows import Rows
from lakelog.native.table import Table, properties
from lakelog.reader_results import Lag, Position
from lakelog.readers import validate
from lakelog.results import Snapshot, TopicDescription
from lakelog.snapshots import registry
from lakelog.snapshots.point import Point, place_of
from lakelog.snapshots.registry import Entry
from lakelog.status_results import TopicStatus

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow


def needs_spark(verb: str, root: str) -> NotReady:
    """The refusal of a verb that Spark carries out, by a Lake without a session."""
    return NotReady(
        f"{verb} needs Spark, and this Lake was opened without a session. Give it one: Lake(local_session(), {root!r}), or on a cluster its own"
        " session.", name="NEEDS_SPARK",
    )  # fmt: skip


def _sides(text: str) -> tuple[Kind, Kind]:
    """The types of key and value."""
    sides = kinds.from_json(text)
    return sides["key"].dataType, sides["value"].dataType


@dataclass(repr=False)
class NativeTopic:
    """A topic of a `Lake` without a session: the verbs that only read. Every verb reads the configuration anew."""

    root: str
    name: str
    clock: Callable[[], int]
    lake_defaults: Callable[[], Mapping[str, str]]
    # What a topic with a session answers.
    verbs: Callable[[], frozenset[str]] = frozenset

    def __post_init__(self) -> None:
        self.bronze = TableRef.of(self.root, self.name, "bronze")
        self.silver = TableRef.of(self.root, self.name, "silver")
        self.refresh()

    def __getattr__(self, verb: str) -> Any:
        if verb.startswith("_") or "verbs" not in self.__dict__ or verb not in self.verbs():
            raise AttributeError(f"'Topic' object has no attribute {verb!r}")
        raise needs_spark(f"topic.{verb}", self.root)

    def __repr__(self) -> str:
        kinds_told = f"key {self.key.simpleString()}, value {self.value.simpleString()}"
        return f"<Topic {self.name}: root {self.root}, {kinds_told}, partitions {self.partitions}, rule {self.rule}>"

    def refresh(self) -> None:
        """Read the topic's properties.

        Raises:
            TopicNotFound: there is no such topic, or a table that is not lakelog's.
            InvalidConfig: a newer lakelog wrote it.
            Damaged: a property is not as lakelog writes it.
        """
        stored = properties(self.bronze)
        if stored is None or IDENTITY not in stored:
            raise TopicNotFound(f"There is no topic {self.name} in {self.root}.")
        table_properties.require_readable(str(self.bronze), stored)
        self.key, self.value = table_properties.parsed(self.bronze, stored, TYPES, _sides)
        self.uuid = stored[IDENTITY]
        self.partitions = table_properties.parsed(self.bronze, stored, PARTITIONS, int)
        self.config = TopicConfig(table_properties.settings(self.bronze, stored, config.SETTINGS), self.lake_defaults())
        self.rule = OrderingRule.from_config(self.config)

    # ---- reading ----

    @property
    def columns(self) -> list[str]:
        """The columns of `latest`, from what was last read."""
        return [name for name, _, _ in flat_columns(self.key, self.value)] + list(latest.SHOWN)  # type: ignore[arg-type]

    def describe(self) -> TopicDescription:
        """As `Topic.describe`."""
        self.refresh()
        settings = [{"name": one.name, "value": one.value, "origin": one.origin, "says": one.says} for one in self.config.effective()]
        return TopicDescription(
            self.name, self.uuid, self.key.simpleString(), self.value.simpleString(), self.partitions, str(self.rule),
            str(self.bronze), str(self.silver), settings, self.config.warnings(),
        )  # fmt: skip

    def ends(self) -> dict[int, int]:
        """As `Topic.ends`."""
        return log.log_end(Table(self.bronze), self.partitions).ends()

    def status(self) -> TopicStatus:
        """As `Topic.status`. Cost: of silver the flags are read, of the log its control column, of the lake's verdicts those of runs."""
        self.refresh()
        now = self.clock()
        # In this order: an end read first could lie before what a merge has folded meanwhile.
        silver = latest.opened(self.silver)
        state = latest.progress(silver, self._log())
        bronze = Table(self.bronze)
        end = log.log_end(bronze, self.partitions)
        age = log.oldest_age(bronze, state.next, end.ends(), now)
        held, due = latest.held(silver, now)
        segments, records = log.held_segments(bronze, end)
        found = status_of(self._log(), self.name, state, end, held, records, age)
        said, good = latest.last_verdict(self.root, self.uuid)
        cleaning = cleaning_status(segments, self.config, due=due, now=now)
        return replace(found, last_verdict=said, good_version=good, cleaning=cleaning)

    def latest(self, at: At = None) -> Rows:
        """As `Topic.latest`, as rows of this process: ``toArrow()``, ``collect()``, or one after the other."""
        self.refresh()
        return latest.shown(self._silver(at), self.key, self.value, deleted=False)

    def deleted(self, at: At = None) -> Rows:
        """As `Topic.deleted`, as rows of this process."""
        self.refresh()
        return latest.shown(self._silver(at), self.key, self.value, deleted=True)

    def reading(self, *points: At) -> AbstractContextManager[None]:
        """As `LatestTable.reading`; what is wrong with a file is told where it is read, here what Python cannot hold of its rows."""
        return door(self.name)

    def to_arrow(self, at: At = None) -> pyarrow.Table:
        """`latest` as an Arrow table."""
        return self.latest(at).toArrow()

    def to_pandas(self, at: At = None) -> pandas.DataFrame:
        """As `Topic.to_pandas`."""
        return as_pandas(self.to_arrow(at))

    def to_polars(self, at: At = None) -> polars.DataFrame:
        """As `Topic.to_polars`."""
        return as_polars(self.to_arrow(at))

    def read(
        self,
        partition: int | None = None,
        offset: int | None = None,
        limit: int | None = None,
        *,
        since: Position | None = None,
        max_records: int | None = None,
    ) -> Rows:
        """As `Topic.read` but from a position, as rows of this process.

        Raises:
            NotReady: ``since`` or ``max_records`` are given: Spark reads on from a position (NEEDS_SPARK).
            OffsetOutOfRange: ``offset`` is beyond the log end or below the log start of the partition (of every partition, when none is named); below
                the start it names the snapshot to load.
            InvalidRequest: there is no such partition.
        """
        if since is not None or max_records is not None:
            raise needs_spark("topic.read from a position (since=)", self.root)
        check_whole("partition", partition)
        check_whole("offset", offset)
        check_whole("limit", limit, least=0)
        self.refresh()
        bronze = Table(self.bronze)
        if partition is not None:
            log.require_partition(bronze, partition, self.partitions)
        if offset is not None:
            end = log.log_end(bronze, self.partitions)
            validate.require_within(self._log(), end, partition, offset, self._places)
        found = log.records(bronze, self.value, partition=partition, offset=offset).orderBy(*log.PLACE)
        return found if limit is None else found.limit(limit)

    def views_of(self, names: Sequence[str], at: At = None) -> dict[str, Rows]:
        """Those of the topic's views that are named, with the configuration that was last read; silver is opened once for both views of it.

        Raises:
            Damaged: the latest table is not as lakelog left it.
            NotFound: it has no such version, whichever view is named (SNAPSHOT_NOT_FOUND).
        """
        live, gone, records = views.names(self.name)
        found: dict[str, Rows] = {}
        # The latest table before the log: so the log holds what the latest table has of it.
        if at is not None or live in names or gone in names:
            silver = self._silver(at)
            for view, deleted in ((live, False), (gone, True)):
                found[view] = latest.shown(silver, self.key, self.value, deleted=deleted)
        if records in names:
            found[records] = log.records(Table(self.bronze), self.value).orderBy(*log.PLACE)
        return {name: found[name] for name in names}

    def snapshots(self) -> list[Snapshot]:
        """As `Topic.snapshots`."""
        self.refresh()
        return [one.result(self.root) for one in registry.listed(snapshots.entries(self.root, self.uuid))]

    def describe_snapshot(self, name: str) -> Snapshot:
        """As `Topic.describe_snapshot`."""
        self.refresh()
        return self._named(name).result(self.root)

    def lag(self, *, cleaning: bool = False) -> Lag:
        """As `Topic.lag`."""
        self.refresh()
        now, bronze = self.clock(), Table(self.bronze)
        end = log.log_end(bronze, self.partitions)
        groups = lag.registrations(self.root, self.name, self.uuid, self.config)
        found = lag.of(self.name, bronze, end, groups, versioned=self.rule.versioned, now=now)
        if not cleaning:
            return found
        _, due = latest.held(Table(self.silver), now)
        return replace(found, cleaning=cleaning_status(log.held_segments(bronze, end)[0], self.config, due=due, now=now))

    def require_sound(self) -> None:
        """Raise `Damaged` where the latest table is not as lakelog left it."""
        latest.progress(latest.opened(self.silver), self._log())

    def require_whole(self) -> None:
        """Raise `Damaged` where a table is not as lakelog left it, or a file of its data is gone. Cost: on this machine each file is looked at."""
        silver = latest.opened(self.silver)
        held = latest.progress(silver, self._log())
        bronze = Table(self.bronze)
        for table in (bronze, silver):
            broken = table.broken_files()
            if broken:
                more = f" (and {len(broken) - 1} more)" if len(broken) > 1 else ""
                raise damaged(table.ref, f"{broken[0]}{more}")
        require_held(self.name, held, log.log_end(bronze, self.partitions).ends())

    # ---- what the verbs share ----

    def _silver(self, at: Point) -> Table:
        """Silver now, where it is sound; or at a version or time.

        Raises:
            NotFound: there is no such snapshot or version (SNAPSHOT_NOT_FOUND).
        """
        if isinstance(at, str) and at.lower() == "now":
            at = None
        if isinstance(at, Snapshot):
            at = at.name or at.id
        if is_name(at):
            return snapshots.state(self.name, self.root, self.silver, self._named(str(at), any_point=True))
        point = moment(at)
        if point is None:
            table = latest.opened(self.silver)
            latest.progress(table, self._log())
            return table
        return past.table_at(self.silver, point, now=self.clock())

    def _places(self) -> list[SnapshotPlace]:
        """The live snapshots; one made under another rule is no beginning for a reader of this one."""
        rule = self.rule.to_json()
        return [place_of(one) for one in snapshots.entries(self.root, self.uuid) if one.rule == rule]

    def _named(self, name: str, *, any_point: bool = False) -> Entry:
        return registry.named(self.name, snapshots.entries(self.root, self.uuid), name, any_point=any_point)

    def _log(self) -> TopicLog:
        """The topic as the decisions of log/ and latest/ take it; no session is in it."""
        types = Types(self.key, self.value)  # type: ignore[arg-type]
        absent: Any = None
        return TopicLog(
            self.name, self.root, self.uuid, absent, self.bronze, self.silver, types, self.partitions, self.config, self.rule
        )  # fmt: skip
