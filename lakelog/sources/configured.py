"""Where a topic's records come from: directories of files, Delta tables and topics of Kafka, as ``lakelog.toml`` and the command line say it.

Values; no I/O.
"""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lakelog.errors import InvalidConfig
from lakelog.model.config import did_you_mean
from lakelog.model.names import TableRef, absolute_folder, absolute_root, local_path
from lakelog.sources.kafka_source import KafkaSource, is_uri, of_settings, of_uri

# Names of files that somebody is still writing; ._COPYING_, compared in small letters, is how Hadoop names its copies under way.
UNFINISHED_STARTS, UNFINISHED_ENDS = ("_", "."), (".tmp", ".part", "._copying_")
KINDS = {
    "directory": str, "table": str, "name": str, "pattern": str, "recursive": bool, "format": str, "delimiter": str, "encoding": str,
    "null": str, "starting_version": int, "kafka": str, "bootstrap_servers": str, "mirror": bool, "decode": dict, "options": dict,
    "starting_offsets": dict, "max_offsets": int,
}  # fmt: skip
# What a source is, and the settings of such a source alone.
OF: dict[str, tuple[str, ...]] = {
    "directory": ("pattern", "recursive", "format", "delimiter", "encoding", "null"),
    "table": ("starting_version",),
    "kafka": ("bootstrap_servers", "mirror", "decode", "options", "starting_offsets", "max_offsets"),
}
WORDS = {str: "text", bool: "true or false", int: "a whole number", dict: "a table of settings"}


@dataclass(frozen=True)
class DirectorySource:
    """A directory whose files are taken once each, for good, in the order of their names.

    ``name``: what the ledger calls it; else its path. A source that has a name may move. ``pattern``: names that are taken, as a shell writes
    them. ``recursive``: folders below it too, links to folders aside; a file's name is then its path below the directory.
    """

    directory: str
    name: str | None = None
    pattern: str = "*"
    recursive: bool = False
    format: str | None = None
    delimiter: str = ","
    encoding: str = "utf-8"
    null: str | None = None

    @property
    def identity(self) -> str:
        """What the ledger knows it by."""
        return f"directory {self.name or place(self.directory)}"

    @property
    def identities(self) -> tuple[str, ...]:
        """All that the ledger may know it by: how its path was written was once part of it."""
        return (self.identity,) if self.name else tuple(f"directory {one}" for one in spellings(self.directory))

    def __str__(self) -> str:
        return self.directory

    def takes(self, name: str) -> bool:
        """Whether a file is one of the source's, by its name below the directory."""
        return fnmatch.fnmatchcase(name.rsplit("/", 1)[-1], self.pattern)

    def is_unfinished(self, name: str) -> bool:
        """Whether a file's name says that it is still being written."""
        return any(part.startswith(UNFINISHED_STARTS) for part in name.split("/")) or name.lower().endswith(UNFINISHED_ENDS)


@dataclass(frozen=True)
class TableSource:
    """A Delta table whose appended rows are taken once each, version by version.

    ``name``: what the ledger calls it; else where it is. ``starting_version``: the first version whose rows are taken; else all rows that the
    table holds when it is first read.
    """

    table: str
    name: str | None = None
    starting_version: int | None = None

    @property
    def identity(self) -> str:
        """What the ledger knows it by."""
        return f"table {self.name or place(self.table)}"

    @property
    def identities(self) -> tuple[str, ...]:
        """All that the ledger may know it by: how its path was written was once part of it."""
        return (self.identity,) if self.name else tuple(f"table {one}" for one in spellings(self.table))

    @property
    def ref(self) -> TableRef:
        """Where it is."""
        return TableRef(path=self.table) if "/" in self.table else TableRef(name=tuple(self.table.split(".")))

    def __str__(self) -> str:
        return self.table


Source = DirectorySource | TableSource | KafkaSource


@dataclass(frozen=True)
class Lookup:
    """Where a topic's sources were looked for.

    ``file``: the lakelog.toml that was read, if there was one. ``missing``: why it says nothing of the topic, in words; None where it does, be it
    that there are none, or where nothing was looked up.
    """

    file: str | None = None
    missing: str | None = None


def parsed(said: Any, *, where: str, folder: Any) -> tuple[Source, ...]:
    """The sources of a topic as ``lakelog.toml`` lists them: a text is a directory, a table of settings says more.

    Args:
        said: the list.
        where: the setting's name, for messages.
        folder: what relative paths are relative to.

    Raises:
        InvalidConfig: naming what is not understood.
    """
    if not isinstance(said, list):
        raise InvalidConfig(f'{where} must be a list of sources: ["./in"], or [{{directory = "./in", pattern = "*.csv"}}].', setting=where)
    found = tuple(
        _one({"directory": item} if isinstance(item, str) else item, f"{where}[{place}]", folder) for place, item in enumerate(said)
    )
    require_distinct(found, where)
    return found


def require_distinct(sources: Sequence[Source], where: str) -> None:
    """Refuse two sources that the ledger could not tell apart.

    Raises:
        InvalidConfig: naming them.
    """
    known: dict[str, Source] = {}
    for one in sources:
        if one.identity in known:
            raise InvalidConfig(f"{where}: two sources are the {one.identity}. Name each once.", setting=where)
        known[one.identity] = one


def _one(said: Any, where: str, folder: Any) -> Source:
    if not isinstance(said, Mapping):
        raise InvalidConfig(f"{where} must be a directory, or a table of settings.", setting=where)
    for name, value in said.items():
        if name not in KINDS:
            hint = did_you_mean(name, KINDS) or f" Known: {', '.join(KINDS)}."
            raise InvalidConfig(f"{where}: there is no setting {name}.{hint}", setting=f"{where}.{name}")
        if type(value) is not KINDS[name] or (value == "" and name != "null"):
            raise InvalidConfig(f"{where}.{name} must be {WORDS[KINDS[name]]}.", setting=f"{where}.{name}")
    kinds = [kind for kind in OF if kind in said]
    if len(kinds) != 1:
        raise InvalidConfig(f"{where} needs either a directory or a table, or a topic of Kafka (kafka).", setting=where)
    kind = kinds[0]
    wrong = next((name for other, names in OF.items() if other != kind for name in names if name in said), None)
    if wrong is not None:
        raise InvalidConfig(f"{where}.{wrong} does not go with a {kind}.", setting=f"{where}.{wrong}")
    if kind == "kafka":
        return of_settings(said, where, folder)
    if kind == "table":
        return TableSource(**{**said, "table": absolute_root(said["table"], folder)})
    return DirectorySource(**{**said, "directory": directory_path(said["directory"], folder)})


def directory_path(text: str, folder: Any) -> str:
    """A directory as it is known from anywhere: an absolute path without a slash at its end, or a URI."""
    return absolute_folder(text, folder).rstrip("/") or "/"


def place(location: str) -> str:
    """A path of this machine however it is written (``/x/in``, ``file:/x/in``, ``file:///x/in``); another location as it is."""
    path = local_path(location)
    return location if path is None or path == location else os.path.normpath(path)


def spellings(location: str) -> tuple[str, ...]:
    """The ways in which a location may have been written, its `place` first."""
    path = place(location)
    return tuple(dict.fromkeys((path, *([f"file:{path}", f"file://{path}"] if path.startswith("/") else []), location)))


def of_name(directory: str, configured: Sequence[Source], folder: Any) -> tuple[Source, ...]:
    """The sources of a directory, or of a topic of Kafka (kafka://…): those that are configured, so that the ledger knows them; else a new one."""
    known: tuple[Source, ...]
    if is_uri(directory):
        named = of_uri(directory)
        known = tuple(one for one in configured if isinstance(one, KafkaSource) and str(one) == str(named))
        return known or (named,)
    path = directory_path(directory, folder)
    known = tuple(one for one in configured if isinstance(one, DirectorySource) and place(one.directory) == place(path))
    return known or (DirectorySource(path),)
