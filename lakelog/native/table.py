"""A Delta table at one version, by delta-rs: its properties, its commits, its files, its rows by SQL."""

from __future__ import annotations

import datetime
import os
import re
import sys
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from lakelog.delta.commit_file import parameters_of
from lakelog.errors import NotFound, NotReady
from lakelog.model import kinds
from lakelog.model.json_values import EPOCH
from lakelog.model.kinds import Kind
from lakelog.model.names import TableRef, local_path
from lakelog.native import commits
from lakelog.native.commits import Commit
from lakelog.native.opening import door, opened
from lakelog.native.stores import why_not

if TYPE_CHECKING:
    import pyarrow

# Whether a table's commits keep their own times, and from which version on, where it is not the first one.
KEEPS_TIMES, KEPT_FROM = "delta.enableInCommitTimestamps", "delta.inCommitTimestampEnablementVersion"
# How times of 96 bits are read, which Spark writes by default: an OPTIMIZE by hand, say. As nanoseconds, DataFusion's way, 64 bits overflow in
# silence before 1677 and after 2262.
MICROSECONDS = "SET datafusion.execution.parquet.coerce_int96 = 'us'"


class Table:
    """A Delta table at a version: the newest one, or the one named.

    Raises:
        NotFound: there is no table, or (SNAPSHOT_NOT_FOUND) no such version.
        Damaged: its Delta log cannot be read.
    """

    def __init__(self, ref: TableRef, at: int | None = None) -> None:
        self.ref = ref
        self.at = at
        self._opened = opened(ref, at)
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

    def broken_files(self) -> list[str]:
        """What is wrong with the files of data that this version consists of, on this machine; of tables elsewhere nothing is known. Looks at each.

        Raises:
            NotReady: they may not be looked at.
        """
        path = local_path(self.ref.path or "")
        if path is None:
            return []
        with door(self.ref, self.at):
            found = self._opened.get_add_actions(flatten=True)
            files = zip(*(found[name].to_pylist() for name in ("path", "size_bytes")), strict=True)
            return [wrong for name, size in files if (wrong := _wrong(path, unquote(name), size))]

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
            asked = QueryBuilder()
            asked.execute(MICROSECONDS)
            yield from pyarrow.RecordBatchReader.from_stream(asked.register("t", self._opened).execute(query))

    def records(self, query: str) -> list[dict[str, Any]]:
        """The few rows of a query, as `batches` gives them, by column."""
        return [row for batch in self.batches(query) for row in batch.to_pylist()]

    def _commit_times(self) -> list[tuple[int, int]]:
        """(version, milliseconds) of every commit there is, oldest first, as Spark has them.

        On this machine a commit's time is that of its file, later than the one before, or where the table keeps times in its commits, that one.

        Cost: the names of the files; those of commits that keep their time are opened.
        """
        path = local_path(self.ref.path or "")
        if path is None:
            with door(self.ref, self.at):
                return [(one.version, one.ms) for one in reversed(commits.newest(self.ref, self.version, self.version + 1))]
        times: list[tuple[int, int]] = []
        folder, kept = os.path.join(path, "_delta_log"), self._times_kept()
        for name in sorted(name for name in os.listdir(folder) if re.fullmatch(r"\d{20}\.json", name) and int(name[:20]) < kept):
            when = os.stat(os.path.join(folder, name)).st_mtime_ns // 1_000_000
            times.append((int(name[:20]), max(when, times[-1][1] + 1) if times else when))
        if kept > self.version:
            return times
        with door(self.ref, self.at):
            own = [(one.version, one.ms) for one in commits.newest(self.ref, self.version, self.version + 1 - kept) if one.is_there]
        return times + own[::-1]

    def _times_kept(self) -> int:
        """The version from which on commits keep their own time; beyond every one where they do not."""
        said = self.properties
        if said.get(KEEPS_TIMES, "").lower() != "true":
            return sys.maxsize
        return int(said.get(KEPT_FROM, 0))


def _wrong(folder: str, name: str, size: int) -> str:
    """What is wrong with a data file, as far as its size tells."""
    try:
        have = os.stat(os.path.join(folder, name)).st_size
    except (FileNotFoundError, NotADirectoryError):
        return f"{name} is missing"
    return "" if have == size else f"{name} is broken: it has {have} octets of {size}"


def properties(ref: TableRef) -> dict[str, str] | None:
    """The table's properties; None when there is no such Delta table."""
    try:
        return Table(ref).properties
    except NotFound:
        return None


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
        write_deltalake(opened(ref, None), rows, mode="append")
