"""Where a Delta table is: its path or its catalog name, how SQL names it, what a topic may be called. Names are quoted here alone."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass

from lakelog.errors import InvalidRequest

TOPIC_NAME = re.compile(r"[a-z][a-z0-9_]*\Z")
RESERVED_ENDINGS = ("_bronze", "_silver", "_quarantine", "_deleted", "_log", "_fresh")


def quoted(name: str) -> str:
    """A name as one quoted SQL identifier."""
    return "`" + name.replace("`", "``") + "`"


def schema_sql(root: str) -> str:
    """A catalog schema as SQL names it, every part quoted."""
    return ".".join(map(quoted, root.split(".")))


def listed(numbers: Iterable[int]) -> str:
    """Numbers as SQL lists them."""
    return ", ".join(map(str, numbers))


def literal(text: str) -> str:
    """A text as a SQL literal; for where SQL takes no parameters."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def key_text(text: str) -> str:
    """A key without the JSON object around it; a text without its quotes."""
    inside = text.removeprefix('{"key":').removesuffix("}") if text.startswith('{"key":') else text
    return inside.strip('"')


def check_topic_name(name: str) -> None:
    """Refuse a name that could not be a table's in every catalog, or that would clash with a table or view of another topic.

    Raises:
        InvalidRequest: saying what a name looks like.
    """
    if not isinstance(name, str) or not TOPIC_NAME.match(name) or len(name) > 200:
        raise InvalidRequest(f"{name!r} is no topic name: lower-case letters, digits and _, beginning with a letter.", name="INVALID_TOPIC")
    ending = next((ending for ending in RESERVED_ENDINGS if name.endswith(ending)), None)
    if ending or name.startswith("lakelog_"):
        raise InvalidRequest(
            f"{name!r} is no topic name: {ending or 'lakelog_'} is reserved for lakelog's own tables.", name="INVALID_TOPIC"
        )


def check_root(root: str) -> None:
    """Refuse what is neither a path nor the name of a catalog schema.

    Raises:
        InvalidRequest: saying what either looks like.
    """
    if not root or ("/" not in root and not all(re.fullmatch(r"\w+", part) for part in root.split("."))):
        raise InvalidRequest(
            f"{root!r} is no root: a path holds a / (./lake, /data/lake, s3a://…), a catalog schema is a name like main.lakelog."
        )
    if re.match(r"(?i)file:(?!///|/(?!/))", root):
        path = root[len("file:") :]
        if path.startswith("//"):
            # Behind it stands a host, where the first of the folders may have been meant.
            path = re.sub(r"^/localhost(?=/)", "", path[1:])
            path = path[1:] if path.startswith(("/.", "/~")) else path
        out = f" Or leave file: out: {path}." if "/" in path[1:] or root.startswith("file://localhost/") else ""
        raise InvalidRequest(
            f"{root!r} is no root: behind file: stands a whole path of this machine, file:/data/lake or file:///data/lake.{out}"
        )


def scheme_of(location: str) -> str:
    """The scheme of a URI such as ``s3a://…``; empty for a path."""
    found = re.match(r"([A-Za-z][A-Za-z0-9+.-]*)://", location)
    return found[1] if found else ""


def absolute_root(root: str, folder: str | os.PathLike[str] = "") -> str:
    """A root whose relative path is made absolute, from a folder (the current one); URIs and catalog schemas (no ``/``) stay as they are."""
    if "/" not in root or re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", root):
        return root
    return os.path.abspath(os.path.join(folder, os.path.expanduser(root)))


def absolute_folder(folder: str, base: str | os.PathLike[str] = "") -> str:
    """A folder whose relative path is made absolute, from ``base`` (the current folder); unlike a root it may have no ``/``. URIs stay as they are."""
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:", folder):
        return folder
    return absolute_root(folder if "/" in folder else f"./{folder}", base)


def local_path(location: str) -> str | None:
    """The path behind a location without a scheme, or with ``file:/…``, ``file:///…``; None for one with another scheme.

    Whether that is a path of this machine only the session knows (`delta.location.on_this_disk`).
    """
    path = re.sub(r"^file:(//)?(?=/)", "", location)
    return None if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:", path) else path


def shown(place: str) -> str:
    """A place, or a text that begins with one, as people write it: without the scheme ``file:`` of this machine."""
    return re.sub("^file:/+", "/", place)


@dataclass(frozen=True)
class TableRef:
    """A Delta table by path (the root holds a ``/``) or by catalog name; never one made from the other."""

    path: str | None = None
    name: tuple[str, ...] = ()

    @classmethod
    def of(cls, root: str, topic: str, table: str) -> TableRef:
        """The table of a topic under a root: ``root/topic/table``, or ``root.topic_table`` when the root is a catalog schema."""
        if "/" in root:
            return cls(path=f"{root.rstrip('/') or '/'}/{topic}/{table}")
        prefix = "lakelog" if topic == "_lakelog" else topic
        return cls(name=(*root.split("."), f"{prefix}_{table}"))

    def sql(self) -> str:
        """The table as SQL names it, every part quoted."""
        if self.path is not None:
            return f"delta.{quoted(self.path)}"
        return ".".join(quoted(part) for part in self.name)

    def __str__(self) -> str:
        """The table as people write it."""
        return self.path if self.path is not None else ".".join(self.name)
