"""A directory of files as a source: what lies in it, by name, and what a file's content is."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from lakelog.delta.filesystem import filesystem
from lakelog.errors import InvalidRequest, NotFound, NotReady
from lakelog.inputs.identity import BLOCK

# So much of a text file may be its first line.
HEAD_MOST = 1 << 16


@dataclass(frozen=True)
class File:
    """A file: its name below the directory, its path as Spark reads it, octets, and the time of its last change in nanoseconds."""

    name: str
    path: str
    size: int
    modified: int


@dataclass(frozen=True)
class Content:
    """What a file holds: the SHA-256 digest of all of it, and its first line (None: it has none, or it cannot be told)."""

    digest: str
    head: bytes | None


def listed(directory: str, *, recursive: bool) -> list[File]:
    """The files of a directory, by name.

    Raises:
        NotFound: there is no such directory.
        InvalidRequest: its file system cannot be opened, or it is a Delta table.
        NotReady: it cannot be listed.
    """
    from pyarrow import fs

    system, path = filesystem(directory)
    path = path.rstrip("/")
    try:
        if system.get_file_info(path or "/").type != fs.FileType.Directory:
            raise NotFound(f"{directory}: there is no such directory. Nothing was written.")
        found = system.get_file_info(fs.FileSelector(path or "/", recursive=recursive))
    except OSError as error:
        raise NotReady(f"{directory} cannot be listed: {error}. Nothing was written.") from error
    if any(one.base_name == "_delta_log" for one in found):
        raise InvalidRequest(f"{directory} is a Delta table, and its files are not what it holds: name it as a table. Nothing was written.")
    files = [_file(directory, path, one) for one in found if one.type == fs.FileType.File]
    return sorted(files, key=lambda one: one.name)


def _file(directory: str, path: str, info: Any) -> File:
    name = info.path[len(path) :].lstrip("/")
    return File(name, f"{directory.rstrip('/')}/{name}", int(info.size), int(info.mtime_ns or 0))


def content_of(file: File) -> Content:
    """A file's content. Cost: the file is read once, as a stream.

    Raises:
        NotFound: it is gone.
    """
    system, path = filesystem(file.path)
    whole, head = hashlib.sha256(), b""
    try:
        with system.open_input_stream(path, compression=None) as stream:
            while block := stream.read(BLOCK):
                head = head or block[:HEAD_MOST]
                whole.update(block)
    except FileNotFoundError as error:
        raise NotFound(f"{file.path}: the file is gone since the directory was listed. Nothing of it was written; run again.") from error
    except OSError as error:
        raise NotReady(f"{file.path} cannot be read: {error}. Nothing of it was written.") from error
    line, end, _ = head.partition(b"\n")
    return Content(whole.hexdigest(), line if end else None)


def is_still(file: File) -> bool:
    """Whether a file has the size and the time of its last change that it had when it was listed."""
    from pyarrow import fs

    system, path = filesystem(file.path)
    info = system.get_file_info(path)
    return info.type == fs.FileType.File and (int(info.size), int(info.mtime_ns or 0)) == (file.size, file.modified)
