"""A table's commit files: what their names say, on this machine, and what each commit says of itself."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import takewhile
from types import MappingProxyType
from typing import Any, NamedTuple

from lakelog.delta.commit_file import info_of
from lakelog.errors import Damaged, NotFound
from lakelog.model.names import TableRef, local_path
from lakelog.native.stores import location, options

# So many are asked of a store at once.
AT_ONCE = 16


class Commit(NamedTuple):
    """What a commit says of itself, when it was made (milliseconds), and whether its file is there."""

    version: int
    info: Mapping[str, Any] = MappingProxyType({})
    ms: int = 0
    is_there: bool = False


def newest(ref: TableRef, version: int, limit: int) -> list[Commit]:
    """The commits up to a version, newest first: as many as are wanted and there are without a gap, the first one in any case.

    Each by the name of its file: delta-rs numbers those that say something from the opened version on, whatever was committed since.

    Cost: a file is opened for each.
    """
    versions = range(version, max(-1, version - max(1, limit)), -1)
    path = local_path(ref.path or "")
    found = _elsewhere(ref, versions) if path is None else (_local(path, one) for one in versions)
    return list(takewhile(lambda one: one.is_there, found)) or [Commit(version)]


def _local(folder: str, version: int) -> Commit:
    try:
        with open(os.path.join(folder, "_delta_log", f"{version:020}.json"), "rb") as file:
            return _commit(version, file.read(), os.fstat(file.fileno()).st_mtime_ns // 1_000_000)
    except FileNotFoundError:
        return Commit(version)


def _elsewhere(ref: TableRef, versions: Sequence[int]) -> Iterator[Commit]:
    from deltalake.fs import DeltaStorageHandler
    from pyarrow.fs import PyFileSystem

    store = PyFileSystem(DeltaStorageHandler(location(ref), options(ref) or None))

    def read(version: int) -> Commit:
        try:
            with store.open_input_file(f"_delta_log/{version:020}.json") as file:
                return _commit(version, file.read(), None)
        except FileNotFoundError:
            return Commit(version)

    with ThreadPoolExecutor(AT_ONCE) as several:
        for begin in range(0, len(versions), AT_ONCE):
            yield from several.map(read, versions[begin : begin + AT_ONCE])


def _commit(version: int, content: bytes, modified_ms: int | None) -> Commit:
    """A commit by its file. Its time on this machine is the file's, as Delta has it, elsewhere what it says; of a table that keeps times, that one."""
    info = info_of(content.splitlines()) or {}
    kept = info.get("inCommitTimestamp", modified_ms)
    return Commit(version, info, int((info.get("timestamp") or 0) if kept is None else kept), is_there=True)


def require_whole(ref: TableRef, version: int, at: int | None) -> None:
    """Refuse a table of this machine whose Delta log lacks commits behind its newest checkpoint: delta-rs takes what is there for all.

    Raises:
        Damaged: commits are missing.
        NotFound: so they are for a version that was named.
    """
    path = local_path(ref.path or "")
    if path is None:
        return
    names = os.listdir(os.path.join(path, "_delta_log"))
    checkpoints = {int(name[:20]) for name in names if re.match(r"\d{20}\.checkpoint\.", name)}
    commits = {int(name[:20]) for name in names if re.fullmatch(r"\d{20}\.json", name)}
    base = max((one for one in checkpoints if one <= version), default=-1)
    missing = next((one for one in range(base + 1, version + 1) if one not in commits), None)
    if missing is None:
        return
    if at is not None:
        raise NotFound(
            f"{ref}: that version cannot be read any more or does not exist: commit {missing} is gone.", name="SNAPSHOT_NOT_FOUND"
        )
    raise Damaged(f"{ref}: commit {missing} of its Delta log is missing. Look at it, or restore the table, before going on.")


def newest_version(folder: str) -> int | None:
    """The newest version of which there is a commit or a checkpoint; None where there is none."""
    return max((int(name[:20]) for name in os.listdir(folder) if re.match(r"\d{20}\.(json\Z|checkpoint\.)", name)), default=None)


def oldest(folder: str) -> int:
    """The oldest version that can be read: the first one, or that of the oldest checkpoint."""
    names = os.listdir(folder)
    first = 0 if f"{0:020}.json" in names else None
    checkpoints = (int(name[:20]) for name in names if re.match(r"\d{20}\.checkpoint\.", name))
    return min(checkpoints, default=0) if first is None else first
