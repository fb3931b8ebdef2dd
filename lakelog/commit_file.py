"""A table's newest commit as its file in ``_delta_log``: whether a table is as it was last seen, without asking Spark."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from lakelog.table import TableRef

NAME = re.compile(r"\d{20}\.json")


@dataclass(frozen=True)
class CommitFile:
    """A commit's version, and the file it stands in as the file system knows it: another table's of the same version differs."""

    version: int
    inode: int
    octets: int
    modified_ns: int


def newest(table: TableRef) -> CommitFile | None:
    """The newest commit of a table under a local path (a mounted one too).

    Each look of Delta at a table lists the whole folder, at ten times this cost: what is known of a table holds as long as this is the same.

    Returns:
        None for tables elsewhere, and where there is no commit: then nothing is known, and Delta must be asked.

    Cost: the names of the folder are listed once. No Spark job.
    """
    if table.path is None or "://" in table.path:
        return None
    folder = os.path.join(table.path.removeprefix("file:"), "_delta_log")
    try:
        name = max(filter(NAME.fullmatch, os.listdir(folder)), default=None)
        if name is None:
            return None
        found = os.stat(os.path.join(folder, name))
    except OSError:
        return None
    return CommitFile(int(name[:20]), found.st_ino, found.st_size, found.st_mtime_ns)


def at(table: TableRef, version: int) -> CommitFile | None:
    """The file of a commit, if it is the newest of the table."""
    found = newest(table)
    return found if found is not None and found.version == version else None
