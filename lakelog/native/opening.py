"""The door to delta-rs: a Delta table opened at one version. What delta-rs says of it becomes lakelog's errors here."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import unquote

from lakelog.delta.errors import damaged, files_removed, no_version
from lakelog.errors import UNSUPPORTED_FEATURE, Damaged, LakelogError, NotFound, NotReady
from lakelog.model.names import TableRef, local_path
from lakelog.native import commits
from lakelog.native.stores import location, misread, options

if TYPE_CHECKING:
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
LOST = re.compile(r"[^\s\"'(]+\.parquet|(?<=_delta_log/)\d{20}[\w.-]*")
FORBIDDEN = re.compile(r"Permission denied|os error 13\b")
MISSING = re.compile(r"(?i)no such file|not found|NotFound|does not exist")


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


def opened(ref: TableRef, at: int | None) -> DeltaTable:
    """The table, at a version or (None) at the newest one.

    Raises:
        NotFound: there is no table, or (SNAPSHOT_NOT_FOUND) no such version.
        Damaged: its Delta log cannot be read.
        NotReady: delta-rs does not know a feature of it, or the name of its folder (UNSUPPORTED_FEATURE), or it may not be read.
    """
    from deltalake.exceptions import DeltaError, TableNotFoundError

    path = local_path(ref.path or "")
    if path is not None and (wrong := misread(path)):
        raise _unsupported(ref, f"{wrong}.")
    with door(ref):
        try:
            if at is not None:
                _require_known(ref, at)
            return _settled(ref, at)
        except TableNotFoundError as error:
            if at is None and _commits(ref):
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


def _commits(ref: TableRef) -> list[str]:
    """What lies in the Delta log of a table of this machine, if it is there.

    Raises:
        PermissionError: nobody may look, and so nobody knows.
    """
    path = local_path(ref.path or "")
    try:
        return os.listdir(os.path.join(path, "_delta_log")) if path is not None else []
    except (FileNotFoundError, NotADirectoryError):
        return []


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
        # Spark does not look for a number that no version can have.
        raise no_version(ref, version, None if folder is None or version >= 1 << 63 else (commits.oldest(folder), newest))


def _is_there(ref: TableRef) -> bool:
    try:
        opened(ref, None)
    except LakelogError:
        return False
    return True


def _is_older(ref: TableRef, version: int, said: str) -> bool:
    """Whether there is a newer version, which does without the file of this one that is missing by what delta-rs says."""
    found = LOST.search(said)
    with contextlib.suppress(LakelogError, OSError):
        newest = opened(ref, None)
        if version >= int(newest.version()):
            return False
        file = _within(ref, found[0]) if found else ""
        if file not in {_within(ref, one) for one in newest.file_uris()}:
            return True
        path = local_path(ref.path or "")
        # A deletion vector of that file is what is missing, and the newest version has another one.
        return path is not None and os.path.exists(os.path.join(path, file))
    return False


def _no_version(ref: TableRef, version: int, error: Exception) -> NotFound:
    """The refusal of a version that could not be opened, while the table can."""
    if isinstance(error, OverflowError):
        return no_version(ref, version)
    return NotFound(f"{ref}: that version cannot be read any more or does not exist: {_first(error)}", name="SNAPSHOT_NOT_FOUND")


def _translated(error: Exception, ref: TableRef, at: int | None) -> LakelogError | None:
    from deltalake.exceptions import DeltaError

    first = _first(error)
    if first.startswith("Schema error"):
        return Damaged(
            f"{ref}: it does not have the columns that lakelog gave it ({first}). Put the table back from a copy before going on."
        )
    if first.startswith("SQL error"):
        return None
    if isinstance(error, PermissionError) or FORBIDDEN.search(str(error)):
        file = LOST.search(str(error))
        what = f"{_within(ref, file[0])}: " if file else ""
        return NotReady(
            f"{ref} cannot be read ({what}Permission denied). Make it readable for the user who runs this, or name another root."
        )
    if NO_TEXT.search(str(error)) or (isinstance(error, DeltaError) and BEYOND.search(first) and not MISSING.search(first)):
        return _unsupported(ref, first)
    if isinstance(error, (DeltaError, OSError, ValueError)) or type(error).__module__.startswith(("deltalake", "pyarrow", "_internal")):
        if at is not None and MISSING.search(str(error)) and _is_older(ref, at, str(error)):
            return files_removed(ref, at)
        return damaged(ref, _lost_file(ref, str(error)) or first)
    return None


def _lost_file(ref: TableRef, said: str) -> str:
    """Which file of the table is missing, by what delta-rs says; empty where it says something else."""
    found = LOST.search(said) if MISSING.search(said) else None
    return f"{_within(ref, found[0])} is missing" if found else ""


def _within(ref: TableRef, file: str) -> str:
    """A file of the table by its path below it; delta-rs names files from the root of their store on."""
    return unquote(file).split("/".join((ref.path or "").split("/")[-2:]) + "/")[-1]


def _unsupported(ref: TableRef, why: str) -> NotReady:
    return NotReady(f"{ref} cannot be read without Spark: {why} Give the Lake a session: Lake(spark, root).", name=UNSUPPORTED_FEATURE)


def _first(error: Exception) -> str:
    """The first line of what an error says."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
