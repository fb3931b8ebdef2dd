"""The door to delta-rs: a Delta table at one version, its properties, its commits, its rows by SQL. Its errors become lakelog's here."""

from __future__ import annotations

import contextlib
import datetime
import os
import re
import time
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

from lakelog.delta.commit_file import parameters_of
from lakelog.delta.errors import no_version
from lakelog.errors import UNSUPPORTED_FEATURE, Damaged, LakelogError, NotFound, NotReady
from lakelog.model import kinds
from lakelog.model.kinds import Kind
from lakelog.model.names import TableRef, local_path
from lakelog.native import commits
from lakelog.native.commits import Commit
from lakelog.native.stores import location, options, why_not

if TYPE_CHECKING:
    import pyarrow
    from deltalake import DeltaTable

# Why delta-rs cannot read a table that is sound: features that it does not know.
BEYOND = re.compile(
    r"(?i)reader feature|unsupported.*(feature|protocol|version)|not (yet )?(supported|implemented)|invalid data type|variant|Unsupported"
)
# What is seen of a folder of commits while one is added to it; so often, after so many seconds, it is looked at again.
UNSETTLED = re.compile(r"CRC file version \d+ is newer than|[Ee]xpected contiguous commit files")
PAUSES = (0.02, 0.05, 0.1, 0.2, 0.4)
# Where a checkpoint is gone Spark goes on with the commits before it, if they are there; where it is broken, it does not.
NO_CHECKPOINT = re.compile(r"Invalid Checkpoint: Had a _last_checkpoint hint but didn't find any")
# Spark shows texts that are no UTF-8, with a sign in place of what cannot be shown.
NO_TEXT = re.compile(r"(?i)non[- ]UTF-?8|invalid UTF-?8")
MISSING = re.compile(r"(?i)no such file|not found|NotFound|does not exist")
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)


class Table:
    """A Delta table at a version: the newest one, or the one named.

    Raises:
        NotFound: there is no table, or (SNAPSHOT_NOT_FOUND) no such version.
        Damaged: its Delta log cannot be read.
    """

    def __init__(self, ref: TableRef, at: int | None = None) -> None:
        self.ref = ref
        self.at = at
        self._opened = _opened(ref, at)
        self.version = int(self._opened.version())
        commits.require_whole(ref, self.version, at)

    @property
    def properties(self) -> dict[str, str]:
        """The table's properties."""
        return {name: str(text) for name, text in self._opened.metadata().configuration.items()}

    @cached_property
    def schema(self) -> Kind:
        """The table's columns."""
        return kinds.from_json(self._opened.schema().to_json())

    def history(self, limit: int) -> list[dict[str, Any]]:
        """The newest commits up to this version, newest first, with the names and values of Spark's DESCRIBE HISTORY; this version's in any case.

        Cost: ``limit`` files are opened.
        """
        with door(self.ref, self.at):
            return [_commit(one) for one in commits.newest(self.ref, self.version, limit)]

    def committed(self) -> float | None:
        """When this version was committed, in seconds since 1970; None where its commit file is no more. Cost: that file is opened."""
        with door(self.ref, self.at):
            (newest,) = commits.newest(self.ref, self.version, 1)
        return newest.ms / 1000 if newest.is_there else None

    def octets(self) -> int:
        """Octets of the files that this version consists of. Reads the Delta log alone."""
        with door(self.ref, self.at):
            return sum(int(one or 0) for one in self._opened.get_add_actions(flatten=True)["size_bytes"].to_pylist())

    def places(self) -> list[tuple[int, int, int, int]]:
        """(partition, least offset, rows, octets) of each file of records, in that order; one that tells no offset begins at 0.

        Reads the Delta log alone.
        """
        with door(self.ref, self.at):
            found = self._opened.get_add_actions(flatten=True)
            told = dict(zip(found.schema.names, (column.to_pylist() for column in found.columns), strict=True))
        unknown = [None] * found.num_rows
        names = ("partition.partition", "partition.segment", "min.offset", "num_records", "size_bytes")
        files = zip(*(told.get(name, unknown) for name in names), strict=True)
        return sorted(
            (int(index), int(least or 0), int(rows or 0), int(size or 0))
            for index, segment, least, rows, size in files
            if int(segment or 0) >= 0 and index is not None
        )

    def version_at(self, at: datetime.datetime) -> int:
        """The version that the table had at a time; after the newest commit, that one.

        Raises:
            NotFound: the table's history does not go back so far.
        """
        ms = (at - EPOCH) // datetime.timedelta(milliseconds=1)
        times = self._commit_times()
        known = [version for version, when in times if when <= ms]
        if not known:
            oldest = datetime.datetime.fromtimestamp(times[0][1] / 1000, tz=datetime.timezone.utc).isoformat()
            raise NotFound(
                f"{self.ref}: there is nothing to read at {at.isoformat()}: its versions go back to {oldest}.", name="SNAPSHOT_NOT_FOUND"
            )
        return known[-1]

    def batches(self, query: str) -> Iterator[pyarrow.RecordBatch]:
        """The rows of a query (DataFusion's SQL) in which this table is called ``t``.

        Raises:
            Damaged: a file is missing or broken.
            NotFound: a file of an older version, which was named, is missing (SNAPSHOT_NOT_FOUND).
            NotReady: the table has a feature that delta-rs does not know.
        """
        import pyarrow
        from deltalake import QueryBuilder

        with door(self.ref, self.at):
            yield from pyarrow.RecordBatchReader.from_stream(QueryBuilder().register("t", self._opened).execute(query))

    def records(self, query: str) -> list[dict[str, Any]]:
        """The few rows of a query, as `batches` gives them, by column."""
        return [row for batch in self.batches(query) for row in batch.to_pylist()]

    def _commit_times(self) -> list[tuple[int, int]]:
        """(version, milliseconds) of every commit there is, oldest first; each later than the one before, as Spark has them."""
        path = local_path(self.ref.path or "")
        if path is None:
            with door(self.ref, self.at):
                return [(one.version, one.ms) for one in reversed(commits.newest(self.ref, self.version, self.version + 1))]
        times: list[tuple[int, int]] = []
        folder = os.path.join(path, "_delta_log")
        for name in sorted(name for name in os.listdir(folder) if re.fullmatch(r"\d{20}\.json", name)):
            when = os.stat(os.path.join(folder, name)).st_mtime_ns // 1_000_000
            times.append((int(name[:20]), max(when, times[-1][1] + 1) if times else when))
        return times


def properties(ref: TableRef) -> dict[str, str] | None:
    """The table's properties; None when there is no such Delta table."""
    try:
        return Table(ref).properties
    except NotFound:
        return None


@contextlib.contextmanager
def door(ref: TableRef, at: int | None = None) -> Iterator[None]:
    """Turn the errors of delta-rs into lakelog's; those that are none of ours pass as they are. ``at``: the version that was named."""
    try:
        yield
    except LakelogError:
        raise
    except Exception as error:
        ours = _translated(error, ref, at)
        if ours is None:
            raise
        raise ours from error


def _opened(ref: TableRef, at: int | None) -> DeltaTable:
    from deltalake.exceptions import DeltaError, TableNotFoundError

    with door(ref):
        try:
            if at is not None:
                _require_known(ref, at)
            return _settled(ref, at)
        except TableNotFoundError as error:
            folder = os.path.join(location(ref), "_delta_log")
            if local_path(ref.path or "") is not None and os.path.isdir(folder) and os.listdir(folder) and at is None:
                raise Damaged(f"{ref}: its Delta log cannot be read. A file of the table is missing or broken; look at it.") from error
            if at is None:
                raise NotFound(f"{ref}: there is no Delta table or file of that name.") from error
            raise _no_version(ref, at, error) from error
        except (DeltaError, OSError, ValueError, OverflowError) as error:
            if at is not None and _is_there(ref):
                raise _no_version(ref, at, error) from error
            if NO_CHECKPOINT.search(str(error)):
                raise _unsupported(ref, "_last_checkpoint in its Delta log names a checkpoint that is not there.") from error
            raise


def _settled(ref: TableRef, at: int | None) -> DeltaTable:
    """The table, opened again where the folder of its commits was listed while one was added: its checksum was seen, and itself not.

    Where it stays so on this machine, the commit is gone and its checksum was left: then the newest commit that is there counts, as for Spark.
    """
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    told = options(ref) or None
    for pause in PAUSES:
        try:
            return DeltaTable(location(ref), version=at, storage_options=told)
        except DeltaError as error:
            if not UNSETTLED.search(str(error)):
                raise
        time.sleep(pause)
    path = local_path(ref.path or "")
    if at is None and path is not None:
        at = commits.newest_version(os.path.join(path, "_delta_log"))
    return DeltaTable(location(ref), version=at, storage_options=told)


def _require_known(ref: TableRef, version: int) -> None:
    """Refuse a version beyond the newest one, which delta-rs looks for one by one. Cost: the names of the commits; in a store the table is opened."""
    path = local_path(ref.path or "")
    folder = None if path is None else os.path.join(path, "_delta_log")
    if folder is None:
        newest: int | None = int(_settled(ref, None).version())
    else:
        newest = commits.newest_version(folder) if os.path.isdir(folder) else None
    if newest is not None and version > newest:
        raise no_version(ref, version, None if folder is None else (commits.oldest(folder), newest))


def _is_there(ref: TableRef) -> bool:
    try:
        _opened(ref, None)
    except LakelogError:
        return False
    return True


def _is_older(ref: TableRef, version: int) -> bool:
    """Whether there is a newer version, which may do without files of this one."""
    with contextlib.suppress(LakelogError, OSError):
        return version < int(_opened(ref, None).version())
    return False


def _no_version(ref: TableRef, version: int, error: Exception) -> NotFound:
    """The refusal of a version that could not be opened, while the table can."""
    if isinstance(error, OverflowError):
        return no_version(ref, version)
    return NotFound(f"{ref}: that version cannot be read any more or does not exist: {_first(error)}", name="SNAPSHOT_NOT_FOUND")


def _translated(error: Exception, ref: TableRef, at: int | None) -> LakelogError | None:
    from deltalake.exceptions import DeltaError

    first = _first(error)
    if first.startswith(("SQL error", "Schema error")):
        return None
    if isinstance(error, PermissionError):
        return NotReady(f"{ref}: it cannot be read ({first}). Make it readable for the user who runs this, or name another root.")
    if NO_TEXT.search(str(error)) or (isinstance(error, DeltaError) and BEYOND.search(first) and not MISSING.search(first)):
        return _unsupported(ref, first)
    if isinstance(error, (DeltaError, OSError, ValueError)) or type(error).__module__.startswith(("deltalake", "pyarrow", "_internal")):
        if at is not None and MISSING.search(str(error)) and _is_older(ref, at):
            return NotFound(
                f"{ref}: that version cannot be read any more or does not exist: files of version {at} were removed.",
                name="SNAPSHOT_NOT_FOUND",
            )
        return Damaged(f"{ref}: {first}. A file of the table is missing or broken; look at it, or restore the table, before going on.")
    return None


def _unsupported(ref: TableRef, why: str) -> NotReady:
    return NotReady(f"{ref} cannot be read without Spark: {why} Give the Lake a session: Lake(spark, root).", name=UNSUPPORTED_FEATURE)


def _first(error: Exception) -> str:
    """The first line of what an error says."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]


def _commit(commit: Commit) -> dict[str, Any]:
    """A commit as Spark's DESCRIBE HISTORY tells it, as far as lakelog looks at it."""
    info = commit.info
    said = {name: info.get(name) for name in ("userMetadata", "engineInfo", "userName", "userId")}
    metrics = info.get("operationMetrics")
    return {
        **said,
        "version": commit.version,
        "operation": info.get("operation") or "",
        # As Spark's Python gives it: in the time zone of this process, without naming it.
        "timestamp": datetime.datetime.fromtimestamp(commit.ms / 1000),  # noqa: DTZ006
        "operationParameters": parameters_of(info),
        "operationMetrics": {name: str(one) for name, one in (metrics if isinstance(metrics, dict) else {}).items()},
    }


def append(ref: TableRef, rows: pyarrow.Table) -> None:
    """Add rows to a table of lakelog's own bookkeeping in one commit; topics are written by Spark.

    Raises:
        NotReady: delta-rs cannot reach it, or is not installed.
    """
    reason = "a catalog is known to Spark alone" if ref.path is None else why_not(ref.path)
    if reason:
        raise NotReady(f"{ref} cannot be written without Spark: {reason}.")
    from deltalake import write_deltalake

    with door(ref):
        write_deltalake(_opened(ref, None), rows, mode="append")
