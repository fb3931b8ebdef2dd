"""A table's newest commit as its file in ``_delta_log``: whether a table is as it was last seen, without asking Spark."""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakelog.delta.location import on_this_disk
from lakelog.model.names import TableRef

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

NAME = re.compile(r"\d{20}\.json")
# What DESCRIBE HISTORY tells of a commit in the words of its file.
HISTORY = (
    "userId", "userName", "operation", "job", "notebook", "clusterId", "readVersion", "isolationLevel", "isBlindAppend", "operationMetrics",
    "userMetadata", "engineInfo",
)  # fmt: skip


@dataclass(frozen=True)
class CommitFile:
    """A commit's version, and its file as the file system knows it: another table's of the same version differs."""

    version: int
    inode: int
    octets: int
    modified_ns: int


def newest(spark: SparkSession, table: TableRef) -> CommitFile | None:
    """The newest commit of a table on this machine's disk (a mounted one too).

    Returns:
        None for tables elsewhere, and where there is no commit: then nothing is known, and Delta must be asked.

    Cost: the names of the folder are listed once; whether it still is costs less (`is_current`). No Spark job.
    """
    folder = _folder(spark, table)
    if folder is None:
        return None
    try:
        name = max(filter(NAME.fullmatch, os.listdir(folder)), default=None)
    except OSError:
        return None
    return None if name is None else at(spark, table, int(name[:20]))


def at(spark: SparkSession, table: TableRef, version: int) -> CommitFile | None:
    """The file of a commit, if it is the newest of the table. Cost: two files are asked for, however long the log."""
    folder = _folder(spark, table)
    if folder is None:
        return None
    if os.path.exists(os.path.join(folder, f"{version + 1:020}.json")):
        return None
    return _file(folder, version)


def is_current(spark: SparkSession, table: TableRef, seen: CommitFile | None) -> bool:
    """Whether a commit is still the table's newest: what was known then is known now.

    Each look of Delta at a table lists the whole folder; this asks for two files.
    """
    return seen is not None and seen == at(spark, table, seen.version)


def is_there(spark: SparkSession, table: TableRef, seen: CommitFile) -> bool:
    """Whether a commit is still the table's, the newest or not: it is the same table. One file is asked for."""
    folder = _folder(spark, table)
    return folder is not None and seen == _file(folder, seen.version)


def note(spark: SparkSession, table: TableRef, version: int) -> str | None:
    """The user metadata that a commit carries; None where it carries none, is not there, or lies elsewhere. No Spark job."""
    folder = _folder(spark, table)
    info = None if folder is None else _info(folder, version)
    found = None if info is None else info.get("userMetadata")
    return None if found is None else str(found)


def told(spark: SparkSession, table: TableRef) -> Row | None:
    """What DESCRIBE HISTORY tells of the newest commit, by its file; None where there is none, it does not say, or lies elsewhere. No Spark job."""
    from pyspark.sql import Row

    folder, file = _folder(spark, table), newest(spark, table)
    if folder is None or file is None:
        return None
    info = _info(folder, file.version)
    # With times in the commits the history tells those.
    if info is None or not isinstance(info.get("operation"), str) or "inCommitTimestamp" in info:
        return None
    # To the millisecond, and in the time zone of this process, as Spark's rows have it.
    time = datetime.datetime.fromtimestamp(file.modified_ns // 1_000_000 / 1000)  # noqa: DTZ006
    said = {name: info.get(name) for name in HISTORY}
    return Row(version=file.version, timestamp=time, **said, operationParameters=parameters_of(info))


def is_gone(spark: SparkSession, table: TableRef) -> bool:
    """Whether a table on this machine's disk is no more; False for tables elsewhere."""
    folder = _folder(spark, table)
    return folder is not None and not os.path.isdir(folder)


def _file(folder: str, version: int) -> CommitFile | None:
    try:
        found = os.stat(os.path.join(folder, f"{version:020}.json"))
    except OSError:
        return None
    return CommitFile(version, found.st_ino, found.st_size, found.st_mtime_ns)


def _info(folder: str, version: int) -> dict[str, Any] | None:
    """What a commit says of itself; None where it says nothing, or is not there."""
    with contextlib.suppress(OSError), open(os.path.join(folder, f"{version:020}.json"), "rb") as lines:
        return info_of(lines)
    return None


def info_of(lines: Iterable[bytes]) -> dict[str, Any] | None:
    """What a commit says of itself, by the lines of its file; None where it says nothing."""
    # It is the first line that Delta writes.
    line = next((one for one in lines if one.startswith(b'{"commitInfo"')), b"{}")
    with contextlib.suppress(ValueError):
        found = json.loads(line).get("commitInfo")
        return found if isinstance(found, dict) else None
    return None


def parameters_of(info: Mapping[str, Any]) -> dict[str, str | None]:
    """The parameters of a commit's operation as DESCRIBE HISTORY tells them: each a text."""
    found = info.get("operationParameters")
    items = found.items() if isinstance(found, dict) else ()
    return {name: value if value is None or isinstance(value, str) else json.dumps(value) for name, value in items}


def _folder(spark: SparkSession, table: TableRef) -> str | None:
    path = None if table.path is None else on_this_disk(spark, table.path)
    return None if path is None else os.path.join(path, "_delta_log")
