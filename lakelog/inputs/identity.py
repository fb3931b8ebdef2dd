"""What an input is, told from its content and never from the time: the token of a job that may be run again."""

from __future__ import annotations

import glob
import hashlib
import os
import re
from collections.abc import Sequence

from lakelog.delta.filesystem import filesystem
from lakelog.errors import NotFound
from lakelog.model.names import local_path

BLOCK = 1 << 20
# What Hadoop's patterns have beside those of a shell; only Spark knows what these mean.
HADOOPS = re.compile(r"[{}\\]|\[\^")


def matched(path: str) -> list[str]:
    """What a path of this machine stands for: itself, where there is such a file or folder; else, as a pattern, all that it fits, in order.

    Names that Spark passes over (they begin with _ or a dot) fit no pattern. What fits nothing, and a URI of another file system, stays as it is.
    """
    local = local_path(path)
    if local is None or os.path.exists(local) or HADOOPS.search(local):
        return [path]
    found = sorted(one for one in glob.glob(local) if not os.path.basename(one).startswith(("_", ".")))
    return [f"{path.removesuffix(local)}{one}" for one in found] or [path]


def of_files(paths: Sequence[str]) -> str:
    """Name, size and SHA-256 digest of the files (of those in a folder, for a folder), in one text of fixed length.

    Raises:
        NotFound: a path that is none.

    Cost: every file is read once.
    """
    from pyarrow import fs

    whole = hashlib.sha256()
    for location in paths:
        files, path = filesystem(location)
        found = files.get_file_info(path)
        entries = [found]
        if found.type == fs.FileType.Directory:
            entries = files.get_file_info(fs.FileSelector(path, recursive=True))
        if found.type == fs.FileType.NotFound:
            raise NotFound(
                f"{location}: there is no such file. Patterns are matched on this machine's disk alone: elsewhere, name the files."
            )
        for entry in sorted((one for one in entries if one.type == fs.FileType.File), key=lambda one: str(one.path)):
            content = hashlib.sha256()
            with files.open_input_stream(entry.path, compression=None) as stream:
                while block := stream.read(BLOCK):
                    content.update(block)
            whole.update(f"{entry.base_name}\t{entry.size}\t{content.hexdigest()}\n".encode())
    first = paths[0].rstrip("/").rsplit("/", 1)[-1] if paths else ""
    return f"{first[:200]}:{len(paths)}:{whole.hexdigest()}"
