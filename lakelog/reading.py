"""The verbs with which a topic's log is read, from an offset, a position or a snapshot on; `Topic` has all of them."""

from __future__ import annotations

import datetime
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, overload

from lakelog.arguments import check_whole
from lakelog.delta import frames
from lakelog.errors import InvalidRequest
from lakelog.latest import silver
from lakelog.latest.verify import Snapshots
from lakelog.log import bronze
from lakelog.log.tail import LogEnd, log_end
from lakelog.model.json_values import EPOCH
from lakelog.model.names import absolute_root
from lakelog.model.ordering import OrderingRule
from lakelog.model.point_in_time import moment
from lakelog.model.positions import SnapshotPlace
from lakelog.model.topic_log import TopicLog
from lakelog.reader_results import Exported, Position, Validated
from lakelog.readers import bootstrap, read, validate
from lakelog.readers.bootstrap import Bootstrap
from lakelog.readers.read import Fetched
from lakelog.snapshots import plan, point, registry
from lakelog.snapshots.point import Point
from lakelog.transfer import export

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class LogReading(ABC):
    """What readers of a topic's log ask. None of these verbs writes the topic's tables."""

    name: str
    clock: Callable[[], int]
    _end: LogEnd | None

    @property
    @abstractmethod
    def log(self) -> TopicLog:
        """The topic as the floors below know it."""

    @abstractmethod
    def refresh(self) -> None:
        """Read the topic's properties."""

    def _places(self) -> list[SnapshotPlace]:
        """The live snapshots; one made under another rule is no beginning for a reader of this one."""
        log, rule = self.log, self.log.rule.to_json()
        return [point.place_of(one) for one in registry.entries(log.spark, log.root, log.uuid) if one.rule == rule]

    def _place(self, at: Point) -> SnapshotPlace:
        """A snapshot, by name, silver's version or time; one that was made under another rule is refused."""
        found = point.find(self.log, at)
        if found.entry is not None:
            bootstrap.require_rule(
                self.log, OrderingRule.from_json(found.entry.rule), f"the snapshot {found.entry.name or found.entry.id.text}"
            )
            return point.place_of(found.entry)
        if found.version is None:
            return bootstrap.latest(self.log, bootstrap.current(self.log))
        return bootstrap.at_version(self.log, found.version)

    def _snapshots_held(self) -> Snapshots:
        return Snapshots(self._places(), self._rows_of)

    def _rows_of(self, place: SnapshotPlace) -> DataFrame:
        """Silver's rows of a snapshot, of which no file is gone as far as that can be looked at."""
        found = point.find(self.log, place.point)
        rows = point.stored(self.log, found)
        if found.version is not None:
            point.require_files(self.log, rows, found.version)
        return silver.without_control(self.log, rows)

    def _now(self) -> LogEnd:
        """The log's end at this moment, at one version of bronze exactly. Cost: as `log_end`; at most one small Spark job where nothing changed."""
        self.refresh()
        self._end = log_end(self.log, known=self._end, pin=True)
        return self._end

    def ends(self) -> dict[int, int]:
        """Partition to log end offset, the next offset to be given. Cost: two small Spark queries."""
        return log_end(self.log).ends()

    def position(self) -> Position:
        """Where a reader that has read everything stands: every partition's log end, and the epoch. Cost: as `ends`."""
        end = self._now()
        return Position(end.ends(), end.epoch, self.log.uuid)

    def start(self) -> Position:
        """Where the log begins: every partition's log start offset. Cost: as `ends`."""
        end = self._now()
        return Position(end.starts(), end.epoch, self.log.uuid)

    @overload
    def read(self, partition: int | None = None, offset: int | None = None, limit: int | None = None) -> DataFrame: ...

    @overload
    def read(self, *, since: Position, max_records: int | None = None) -> Fetched: ...

    def read(
        self,
        partition: int | None = None,
        offset: int | None = None,
        limit: int | None = None,
        *,
        since: Position | None = None,
        max_records: int | None = None,
    ) -> DataFrame | Fetched:
        """The log's records, tombstones included, ordered by partition and offset.

        Columns: partition, offset, timestamp, key, value, headers, tombstone, epoch.

        Args:
            partition: only this one; all when None.
            offset: from the first record that exists at or above it, up to the log's end at this moment, whenever the frame is evaluated. Without
                it the frame is the log as it is when it is evaluated.
            limit: at most so many records.
            since: a position: what came after it, up to the log's end at this moment, with the position from which the next read goes on
                (`Fetched`: ``records``, ``next``). It names every partition.
            max_records: with ``since``: at most so many, shared evenly among partitions that wait; else whole appends.

        Raises:
            OffsetOutOfRange: ``offset`` is beyond the log end or below the log start of the partition (of every partition, when none is named);
                or the log no longer tells all that came after the position. Below the start and there the error names the snapshot to load.
            FencedEpoch: a restore cut away records that the reader has read: ``expected`` is the position to go back to.
            InvalidRequest: no such partition, or the position is another topic's.

        Cost: with ``offset`` or ``since`` the look at the log's end, nothing where the table is as this topic last saw it (elsewhere than on this
        machine's disk one small Spark job); then the files from there on, when the frame is evaluated. Since a position, no record is read of an
        unchanged log.
        """
        if since is not None:
            if (partition, offset, limit) != (None, None, None):
                raise InvalidRequest(
                    f"{self.name}: since= names every partition's offset: no partition, offset or limit beside it (but max_records)."
                )
            return self._read_since(since, max_records)
        if max_records is not None:
            raise InvalidRequest(f"{self.name}: max_records goes with since=; without it, say limit.")
        for what, number in (("partition", partition), ("offset", offset)):
            check_whole(what, number)
        check_whole("limit", limit, least=0)
        if offset is None:
            self.refresh()
            rows = bronze.records(self.log, partition=partition)
        else:
            end = self._now()
            rows = bronze.records(self.log, partition=partition, offset=offset, at=end.version)
            validate.require_within(self.log, end, partition, offset, self._places)
        rows = rows.orderBy("partition", "offset")
        return rows if limit is None else frames.at_most(rows, limit)

    def _read_since(self, since: Position, max_records: int | None) -> Fetched:
        check_whole("max_records", max_records, least=1)
        end = self._now()
        validate.require_valid(self.log, end, since, self._places)
        return read.fetched(self.log, end, since, max_records)

    def follow(self, since: Position | None = None, *, max_records: int = 10_000, wait: float | None = None) -> Iterator[Fetched]:
        """The log in bounded batches, one after the other: ``for batch in topic.follow(position): …``.

        Args:
            since: where to begin; None is the log's start.
            max_records: of a batch, at most.
            wait: seconds between two looks at a log in which nothing is new, for ever; None: end where everything was read.

        Gives: batches (`Fetched`) whose ``next`` is what to remember once a batch has been dealt with.

        Raises:
            As `read`, also in the middle: a restore or truncation may come in between.

        Cost: as `read` for each batch; a look at an unchanged log starts at most one Spark job.
        """
        position = self.start() if since is None else since
        return read.follow(lambda at: self._read_since(at, max_records), position, wait)

    def fetch(self, partition: int, offset: int, epoch: int) -> Validated:
        """Where a replica of one partition stands, as KIP-630 has it: VALID, DIVERGING (go back to), or SNAPSHOT (which to load).

        Args:
            partition: its number.
            offset: the next offset it would read.
            epoch: of the last record it has read.

        Raises:
            InvalidRequest: no such partition, or an epoch above the topic's.
            OffsetOutOfRange: the log does not tell all that came after that, and there is no snapshot that would do.
        """
        return validate.fetch(self.log, self._now(), partition, offset, epoch, self._places)

    def validate(self, position: Position) -> Validated:
        """Where a reader stands: VALID, DIVERGING (``position`` to go back to) or SNAPSHOT (which to load; without a name: `bootstrap`).

        As `read` would judge it, without an error. A reader may have missed a delete where one at or beyond its position has expired; each
        partition's log knows from which offset on it still holds every delete, no clock is asked. Under a rule with versions that goes for the
        log's very start too: a late record that lost to such a delete may be in the log alone.

        Raises:
            InvalidRequest: the position is another topic's, lacks partitions, or its epoch is above the topic's.
        """
        return validate.validate(self.log, self._now(), position, self._places)

    def bootstrap(self, snapshot: Point = None) -> Bootstrap:
        """Where a new reader begins: the latest table of one version, and the position from which the log tells the rest. No gap, no overlap.

        Args:
            snapshot: a snapshot's name, silver's version, or a time; None is the latest table as it is now, from which least is left to read.

        Raises:
            Conflict: the topic is being restored or repaired; try again.
            OffsetOutOfRange: the log no longer tells all that came after that snapshot.
            NotFound: there is no such snapshot.
            Refused: it was made under another ordering rule (RULE_CHANGED); the remedy is named.
            Damaged: latest table and log do not belong together.

        Cost: up to three small Spark jobs; rows are read when the frames are evaluated.
        """
        self.refresh()
        held = bootstrap.current(self.log)
        place = bootstrap.latest(self.log, held) if snapshot is None else self._place(snapshot)
        return bootstrap.bootstrap(self.log, self._now(), held, place, lambda found: point.rows_to_read_on(self.log, found.point))

    def offset_for(self, at: str | datetime.datetime) -> Position:
        """The position before the first record of each partition whose timestamp is at or after a time; its log end where there is none.

        Args:
            at: a datetime, or ISO 8601 text; UTC where it has no zone.

        Raises:
            InvalidRequest: it is no time.

        Cost: one small Spark job over offsets and timestamps.
        """
        when = moment(at)
        if not isinstance(when, datetime.datetime):
            raise InvalidRequest(f"offset_for({at!r}): give a time like 2026-05-06T12:00:00.")
        end = self._now()
        ms = (when - EPOCH) // datetime.timedelta(milliseconds=1)
        return Position(read.offset_for(self.log, end, ms), end.epoch, self.log.uuid)

    def export(self, directory: str | os.PathLike[str], snapshot: Point = None) -> Exported:
        """Write the topic to a directory of Parquet files: the latest table at a snapshot, the log from its end on, types, settings, epochs.

        A manifest with the checksum of every file comes last: a directory without one is no export. `Lake.import_topic` makes a topic of it, under
        any root. The topic itself is not changed. The lake lists the directory (``_lakelog/exports``) before anything is written there, so that a key
        that is erased later leaves the export, too.

        Args:
            directory: new or empty, or one in which an export was cut off; a path, or a URI that pyarrow can open as well as Spark.
            snapshot: a snapshot's name, silver's version, or a time; None is the latest table as it is.

        Raises:
            InvalidRequest: the directory holds something else (NOT_EMPTY).
            OffsetOutOfRange: the log no longer tells all that came after that snapshot.
            NotFound: there is no such snapshot, or its files are no more (SNAPSHOT_NOT_FOUND).
            Refused: it was made under another ordering rule (RULE_CHANGED); the remedy is named.
            Conflict: the topic is being restored or repaired, or a key was erased meanwhile.

        Cost: the latest table at the snapshot and the log from its end are read and written once; the files are read again for their checksums.
        """
        place = absolute_root(os.fspath(directory))
        self.refresh()
        at = self._place(snapshot).point
        stored = point.stored(self.log, point.find(self.log, at))
        held = plan.control_of(self.log, stored)
        found = bootstrap.place_of(held, at) if isinstance(at, int) else self._place(at)
        with point.reading(lambda _: [self.log], [at], self.name):
            return export.export(
                self.log, os.path.abspath(place) if "/" not in place else place, found, held, stored, self._now(), now=self.clock()
            )
