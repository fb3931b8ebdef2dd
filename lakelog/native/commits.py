"""What the names of a table's commit files say, on this machine."""

from __future__ import annotations

import os
import re

from lakelog.errors import Damaged, NotFound
from lakelog.model.names import TableRef, local_path


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


def oldest(folder: str) -> int:
    """The oldest version that can be read: the first one, or that of the oldest checkpoint."""
    names = os.listdir(folder)
    first = 0 if f"{0:020}.json" in names else None
    checkpoints = (int(name[:20]) for name in names if re.match(r"\d{20}\.checkpoint\.", name))
    return min(checkpoints, default=0) if first is None else first
