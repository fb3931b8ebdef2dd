"""A directory of files as a source: what lies in it, by name, and what a file's content is."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import logging
import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakelog.delta.filesystem import filesystem
from lakelog.delta.object_store import S3_SCHEMES
from lakelog.errors import InvalidRequest, NotFound, NotReady
from lakelog.inputs.identity import BLOCK
from lakelog.model.names import local_path, scheme_of

if TYPE_CHECKING:
    from pyarrow import fs

# So much of a text file may be its first line.
HEAD_MOST = 1 << 16
# Stores without directories: one without files is not there.
FLAT = (*S3_SCHEMES, "gs")
# What a Delta table has, and a directory of files has not.
LOG = "_delta_log"


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
    """The files of a directory, by name. Links to files are files; links to folders are not followed, so that no file is met twice.

    On S3 and Google Cloud Storage what holds no files is an empty directory, whatever its name.

    Raises:
        NotFound: there is no such directory, or bucket.
        InvalidRequest: its file system cannot be opened, it is a Delta table, or a file's name is no text.
        NotReady: it, a folder in it or a file's size cannot be read; that is named.
    """
    path = local_path(directory)
    try:
        found = _in_store(directory, recursive) if path is None else _on_this_machine(directory, path, recursive)
    except OSError as error:
        place = directory if error.filename in (None, path) else os.fsdecode(error.filename)
        shown = place if _is_text(place) else ascii(place)
        raise NotReady(f"{shown} cannot be read: {error.strerror or error}. Nothing was written.") from error
    return sorted(found, key=lambda one: one.name)


def _in_store(directory: str, recursive: bool) -> list[File]:
    """The files of a directory of an object store."""
    from pyarrow import fs

    system, path = filesystem(directory)
    path = path.rstrip("/")
    kind = system.get_file_info(path or "/").type
    if kind == fs.FileType.NotFound and scheme_of(directory) in FLAT and _has_bucket(system, path):
        return []
    if kind != fs.FileType.Directory:
        raise _missing(directory)
    found = system.get_file_info(fs.FileSelector(path or "/", recursive=recursive))
    if any(one.base_name == LOG for one in found):
        raise _table(directory)
    names = {one.path[len(path) :].lstrip("/"): one for one in found if one.type == fs.FileType.File}
    return [File(name, _below(directory, name), int(one.size), int(one.mtime_ns or 0)) for name, one in names.items()]


def _has_bucket(system: fs.FileSystem, path: str) -> bool:
    """Whether a path is one below a bucket that is there, as far as the store tells."""
    from pyarrow import fs

    bucket, _, below = path.partition("/")
    try:
        return bool(below) and system.get_file_info(bucket).type != fs.FileType.NotFound
    except OSError:
        return True


def _on_this_machine(directory: str, path: str, recursive: bool) -> list[File]:
    """The files of a directory of this machine's disk."""
    try:
        found_there = stat.S_ISDIR(os.stat(path).st_mode)
    except ValueError:
        found_there = False
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG):
            raise
        found_there = False
    if not found_there:
        raise _missing(directory)
    found = []
    for folder, folders, names in os.walk(path, onerror=_raise, followlinks=False):
        if LOG in folders:
            raise _table(directory)
        linked = [name for name in folders if recursive and os.path.islink(os.path.join(folder, name))]
        if linked:
            logging.getLogger("lakelog").warning("%s: links to folders are not followed: %s", folder, ", ".join(sorted(linked)))
        for file in names:
            whole = os.path.join(folder, file)
            name = os.path.relpath(whole, path)
            if not _is_text(name):
                raise InvalidRequest(f"{whole!r}: the name of this file is no UTF-8 text. Nothing was written. Give it another name.")
            # A link to nothing, or to itself, and what was removed meanwhile are no files; neither are pipes and sockets.
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                said = _stat(whole)
                if said is not None and stat.S_ISREG(said.st_mode):
                    found.append(File(name, _below(directory, name), said.st_size, said.st_mtime_ns))
        if not recursive:
            break
    return found


def _stat(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except OSError as error:
        if error.errno == errno.ELOOP:
            return None
        raise


def _raise(error: OSError) -> None:
    raise error


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _below(directory: str, name: str) -> str:
    return f"{directory.rstrip('/')}/{name}"


def _missing(directory: str) -> NotFound:
    return NotFound(f"{directory}: there is no such directory. Nothing was written.")


def _table(directory: str) -> InvalidRequest:
    return InvalidRequest(f"{directory} is a Delta table, and its files are not what it holds: name it as a table. Nothing was written.")


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
