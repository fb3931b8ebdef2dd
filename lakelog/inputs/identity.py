"""What an input is, told from its content and never from the time: the token of a job that may be run again."""

from __future__ import annotations

import glob
import hashlib
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from lakelog.delta.filesystem import filesystem
from lakelog.errors import NotFound, Refused
from lakelog.model.names import local_path

BLOCK = 1 << 20
# What Hadoop's patterns have beside those of a shell; only Spark knows what these mean.
HADOOPS = re.compile(r"[{}\\]|\[\^")


def matched(path: str) -> list[str]:
    """What a path of this machine stands for: itself, where there is such a file or folder; else, as a pattern, all that it fits, in order.

    Names that Spark passes over (`is_hidden`) fit no pattern. What fits nothing, and a URI of another file system, stays as it is.
    """
    local = local_path(path)
    if local is None or os.path.exists(local) or HADOOPS.search(local):
        return [path]
    found = sorted(one for one in glob.glob(local) if not is_hidden(os.path.basename(one)))
    return [f"{path.removesuffix(local)}{one}" for one in found] or [path]


def is_hidden(name: str) -> bool:
    """Whether Spark passes over a file or folder of this name: it begins with a dot, or with _ where it is no partition (_day=1), or is a copy
    that is under way (._COPYING_)."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name) or name.endswith("._COPYING_")


@dataclass(frozen=True)
class InputIdentity:
    """What files are: ``text``, the same for files of the same names and content in the same order, and how those that are read were when it was made.

    The order is that in which an append reads them: by path, whatever the order they are named in. ``earlier``: the text for the order they are
    named in, where it is another: what an older lakelog called them.
    """

    text: str
    paths: tuple[str, ...] = field(default=(), compare=False)
    seen: tuple[tuple[str, int, int], ...] = field(default=(), compare=False)
    earlier: str | None = field(default=None, compare=False)

    def require_unchanged(self) -> None:
        """Called when the files were read, before anything is written.

        Raises:
            Refused: one of them, or what lies in a folder, is no longer as it was when the identity was made (SOURCE_CHANGED).

        Cost: each file is asked for its size and time.
        """
        try:
            now = {(one.place, one.size, one.modified) for files in _listed(self.paths) for one in files if not one.hidden}
        except NotFound:
            now = set()
        changed = sorted(place for place, _, _ in now.symmetric_difference(self.seen))
        if changed:
            raise Refused(
                f"{changed[0]} was changed while it was read: somebody is still writing it. Nothing was written. Run again when it is complete.",
                name="SOURCE_CHANGED", file=changed[0],
            )  # fmt: skip


@dataclass(frozen=True)
class _File:
    """A file: where it lies, its path within its file system, its name, octets, and the time of its last change in nanoseconds; whether it is one
    that Spark passes over in its folder."""

    place: str
    system: Any
    path: str
    name: str
    size: int
    modified: int
    hidden: bool

    def line(self) -> bytes:
        """Name, size and digest of the content. Cost: the file is read once."""
        content = hashlib.sha256()
        with self.system.open_input_stream(self.path, compression=None) as stream:
            while block := stream.read(BLOCK):
                content.update(block)
        return f"{self.name}\t{self.size}\t{content.hexdigest()}\n".encode()


def of_files(paths: Sequence[str]) -> InputIdentity:
    """Name, size and SHA-256 digest of the files (of those in a folder, for a folder), in one text of fixed length.

    Raises:
        NotFound: a path that is none.

    Cost: every file is read once.
    """
    found = [one for files in _listed(paths) for one in files]
    named = [one.line() for one in found]
    read = [line for _, line in sorted(zip(found, named, strict=True), key=lambda pair: pair[0].place)]
    text, earlier = (_text(order, lines) for order, lines in ((sorted(paths, key=_place), read), (paths, named)))
    seen = tuple((one.place, one.size, one.modified) for one in found if not one.hidden)
    return InputIdentity(text, tuple(paths), seen, None if earlier == text else earlier)


def _text(paths: Sequence[str], lines: Sequence[bytes]) -> str:
    first = paths[0].rstrip("/").rsplit("/", 1)[-1] if paths else ""
    return f"{first[:200]}:{len(paths)}:{hashlib.sha256(b''.join(lines)).hexdigest()}"


def _place(location: str) -> str:
    """A path as files are ordered by it."""
    local = local_path(location)
    return location.rstrip("/") if local is None else os.path.abspath(local)


def _listed(paths: Sequence[str]) -> list[list[_File]]:
    """The files that each path stands for, by path; those in a folder, for a folder.

    Raises:
        NotFound: a path that is none.
    """
    from pyarrow import fs

    listed = []
    for location in paths:
        system, path = filesystem(location)
        found = system.get_file_info(path)
        entries = [found]
        if found.type == fs.FileType.Directory:
            entries = system.get_file_info(fs.FileSelector(path, recursive=True))
        if found.type == fs.FileType.NotFound:
            raise NotFound(
                f"{location}: there is no such file. Patterns are matched on this machine's disk alone: elsewhere, name the files."
            )
        files = sorted((one for one in entries if one.type == fs.FileType.File), key=lambda one: str(one.path))
        whole, above = _place(location), len(path.rstrip("/"))
        named = [(one, str(one.path)[above:]) for one in files]
        listed.append(
            [
                _File(whole + below, system, one.path, one.base_name, int(one.size), int(one.mtime_ns or 0), _lies_hidden(below))
                for one, below in named
            ]
        )
    return listed


def _lies_hidden(below: str) -> bool:
    """Whether Spark passes over a file of a folder, by its path there."""
    return any(is_hidden(name) for name in below.split("/"))
