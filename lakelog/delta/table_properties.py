"""A Delta table's properties: read, and kept as long as the table has no other commit; changed. How lakelog names its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeVar

from lakelog.delta import commit_file
from lakelog.delta.commit_file import CommitFile
from lakelog.delta.errors import door
from lakelog.delta.statement import committing
from lakelog.errors import Conflict, Damaged, InvalidConfig, NotFound
from lakelog.model.config import Setting
from lakelog.model.names import TableRef, literal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")
# What is lakelog's among them. A table whose FORMAT is greater was written by a newer lakelog; every table of a topic bears its IDENTITY.
PREFIX = "lakelog."
FORMAT, IDENTITY = f"{PREFIX}format", f"{PREFIX}topic.uuid"
TYPES, PARTITIONS = f"{PREFIX}topic.types", f"{PREFIX}topic.partitions"
FORMAT_VERSION = 2
# What Spark shows in place of a value that it takes for a secret, by its name or by itself: url, token, hourly …
REDACTED = "*********(redacted)"
# A creation takes one or two seconds from its first file, from which on its path counts as taken, to its commit.
PATIENCE = 10.0
# What this process read, and at which commit of the table.
_known: dict[TableRef, tuple[CommitFile, dict[str, str]]] = {}


def read(spark: SparkSession, table: TableRef) -> dict[str, str] | None:
    """The table's properties; None when there is no such Delta table.

    Cost: no Spark job, but at most a small one where Spark hides a value; no look at the table where it is as it was.
    """
    if table in _known and commit_file.is_current(spark, table, _known[table][0]):
        return dict(_known[table][1])
    newest = commit_file.newest(spark, table)
    try:
        with door(table):
            found = {row[0]: row[1] for row in spark.sql(f"SHOW TBLPROPERTIES {table.sql()}").collect()}
            if REDACTED in found.values():
                found = dict(spark.sql(f"DESCRIBE DETAIL {table.sql()}").collect()[0]["properties"])
    except NotFound:
        return None
    # They are at least as new as the commit seen before them.
    if newest is not None:
        _known[table] = (newest, found)
    return dict(found)


def parsed(table: object, stored: Mapping[str, str], name: str, parse: Callable[[str], T], *, optional: bool = False) -> T:
    """A property of a table of lakelog's as the value that it stands for; ``optional`` is one without which there is a default.

    Raises:
        Damaged: it is missing, or its text is none that lakelog writes.
    """
    try:
        return parse(stored[name])
    except (AttributeError, InvalidConfig, LookupError, StopIteration, TypeError, ValueError) as error:
        found = f"is {stored[name]!r}, which lakelog does not write" if name in stored else "is missing"
        remedy = (
            f"or take it off for the default: ALTER TABLE … UNSET TBLPROPERTIES ('{name}')" if optional else "DESCRIBE HISTORY tells it"
        )
        raise Damaged(
            f"{table}: its property {name} {found}. Give it the value that it had: ALTER TABLE … SET TBLPROPERTIES ('{name}' = '…'); {remedy}."
        ) from error


def settings(table: object, stored: Mapping[str, str], known: Mapping[str, Setting]) -> dict[str, str]:
    """Those of a topic's or lake's settings that are among a table's properties, by their names there, as texts that can be parsed.

    Raises:
        Damaged: naming one that cannot.
    """
    found = {name: stored[PREFIX + name] for name in known if PREFIX + name in stored}
    for name in found:
        parsed(table, stored, PREFIX + name, known[name].parse, optional=True)
    return found


def require_readable(what: str, stored: Mapping[str, str], table: object = None) -> None:
    """Refuse a table of lakelog's, by its properties, that a newer version of it wrote; ``what`` is what it stands for, or the table.

    Raises:
        InvalidConfig: naming it and both formats.
        Damaged: its format is no number.
    """
    written = stored.get(FORMAT, "1")
    if parsed(table or what, {FORMAT: written}, FORMAT, int) > FORMAT_VERSION:
        raise InvalidConfig(f"{what} was written by a newer lakelog (format {written}, this one knows {FORMAT_VERSION}). Upgrade lakelog.")


def require_writable(what: str, stored: Mapping[str, str]) -> None:
    """Refuse to write a table of lakelog's, by its properties, that has an older format.

    Raises:
        InvalidConfig: naming it and both formats.
    """
    written = stored.get(FORMAT, "1")
    if int(written) < FORMAT_VERSION:
        raise InvalidConfig(
            f"{what} has format {written}, this lakelog writes format {FORMAT_VERSION}: it can be read as it is; to write it, upgrade the lake"
            " once (lake upgrade), when no older lakelog writes it any more. Nothing was changed.", name="UNSUPPORTED_VERSION",
        )  # fmt: skip


def appears(spark: SparkSession, table: TableRef, name: str, value: str | None = None) -> bool:
    """Whether a table that another process is creating comes to have a property (this value, if given) within `PATIENCE` seconds."""
    until = time.monotonic() + PATIENCE
    while True:
        found = (read(spark, table) or {}).get(name)
        if found is not None and value in (None, found):
            return True
        if time.monotonic() > until:
            return False
        time.sleep(0.1)


def wait_for(spark: SparkSession, table: TableRef, name: str, value: str | None = None) -> None:
    """Give another process that is creating a table the time to, until it has a property (`appears`).

    Raises:
        Conflict: it has not.
    """
    if not appears(spark, table, name, value):
        raise Conflict(
            f"{table}: another process is creating it, or was cut off while it did. Try again; if this stays, and nobody is at it, look into"
            " that place: there is no table of lakelog's in it. Delete what is there, then try again."
        )


def still_hold(table: TableRef, commit: CommitFile | None) -> None:
    """Take note of this process' own commit of rows: where it follows on the commit that the properties were read at, they still hold."""
    if commit is not None and table in _known and _known[table][0].version == commit.version - 1:
        _known[table] = (commit, _known[table][1])


def change(spark: SparkSession, table: TableRef, changes: Mapping[str, str | None]) -> None:
    """Set properties, or remove those given as None; at most two commits, each of which aborts writers in flight."""
    kept = {name: value for name, value in changes.items() if value is not None}
    gone = [name for name, value in changes.items() if value is None]
    pairs = ", ".join(f"{literal(name)} = {literal(value)}" for name, value in sorted(kept.items()))
    clauses = [f"SET TBLPROPERTIES ({pairs})"] if kept else []
    clauses += [f"UNSET TBLPROPERTIES IF EXISTS ({', '.join(map(literal, sorted(gone)))})"] if gone else []
    for clause in clauses:
        with committing(spark, table), door(table):
            spark.sql(f"ALTER TABLE {table.sql()} {clause}")
