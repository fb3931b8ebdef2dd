"""What Spark's and Delta's errors mean: each that has a meaning to lakelog's users becomes one of ours, here and nowhere else."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from urllib.parse import unquote

from lakelog.delta.prerequisites import missing_connector
from lakelog.errors import Conflict, Damaged, InvalidRequest, LakelogError, NotFound, NotReady, Refused
from lakelog.model.names import TableRef, scheme_of, shown

NOT_THERE = (
    "DELTA_TABLE_NOT_FOUND", "DELTA_MISSING_DELTA_TABLE", "DELTA_TABLE_ONLY_OPERATION", "PATH_NOT_FOUND", "TABLE_OR_VIEW_NOT_FOUND",
    "DELTA_PATH_DOES_NOT_EXIST", "SCHEMA_NOT_FOUND", "DELTA_NOT_A_DELTA_TABLE",
)  # fmt: skip
GONE = ("DELTA_UNSUPPORTED_TIME_TRAVEL", "DELTA_VERSIONS_NOT_CONTIGUOUS", "DELTA_CANNOT_RECREATE", "DELTA_TIMESTAMP",
        "DELTA_VERSION_NOT_FOUND", "DELTA_FILE_NOT_FOUND", "VersionNotFound", "DELTA_NO_RECREATABLE")  # fmt: skip

# What RESTORE says, without a condition, where files of the version were removed; and Java, where a table's whole folder was
# (over Connect the class of the exception is in brackets).
FILES_GONE = re.compile(r"Not all files from version \d+ are available in file system")
FOLDER_GONE = re.compile(r"FileNotFoundException[:)] [^\n]*_delta_log")
# What Java says of files that are not what was written, where Spark has no condition for it or puts another one around it.
BROKEN = re.compile(r"\[FAILED_READ_FILE|ChecksumException|JsonParseException|is not a Parquet file")
BROKEN_WITHIN = ("STAGE_MATERIALIZATION_MULTIPLE_FAILURES", "FAILED_READ_FILE")
LOST = re.compile(r"Encountered error while reading file (\S+?)\. File does not exist")
# What Python says of times that it does not have.
NO_YEAR = re.compile(r"(date|timestamp|year -?\d*) ?(value |is )?out of range|must have magnitude")
NO_VERSION = re.compile(r"time travel Delta table to version (\d+)\. Available versions: \[(\d+), (\d+)\]")

# What a plan raises when its source gives other records than when it was summed up.
SOURCE_CHANGED = "LAKELOG_SOURCE_CHANGED"
# What was analysed has the types from before.
WIDENED = "DELTA_SCHEMA_CHANGE_SINCE_ANALYSIS"
# What an append raises within Spark when the log it is to go to is no longer there.
LOG_GONE = "LAKELOG_LOG_GONE"


def condition_of(error: BaseException) -> str:
    """Spark's name of the error's condition; empty when it has none."""
    condition = getattr(error, "getCondition", lambda: None)() or ""
    if not condition:
        found = re.search(r"\[([A-Z][A-Z0-9_.]+)\]", str(error))
        condition = found[1] if found else ""
    return condition


def raised(error: BaseException, sign: str) -> bool:
    """Whether a plan of ours raised this; a message may show a whole plan, with what it could raise."""
    return f"[USER_RAISED_EXCEPTION] {sign}" in str(error)


def is_out_of_date(error: BaseException) -> bool:
    """Whether a frame was analysed before the types of its table were changed."""
    return condition_of(error).startswith(WIDENED)


def _is_contention(error: BaseException) -> bool:
    """Whether a Delta commit lost to another one: by class (classic), SQLSTATE (Connect), or condition."""
    try:
        import delta.exceptions as exceptions
    except ImportError:
        return False  # without Spark nobody commits

    classes = tuple(
        getattr(exceptions, name)
        for name in dir(exceptions)
        if name.startswith(("Concurrent", "DeltaConcurrent", "MetadataChanged", "ProtocolChanged"))
    )
    if isinstance(error, classes):
        return True
    state = getattr(error, "getSqlState", lambda: None)() or ""
    return state == "2D521" or bool(
        re.search(r"DELTA_(CONCURRENT_|METADATA_CHANGED|PROTOCOL_CHANGED|MAX_COMMIT_RETRIES)", condition_of(error))
    )


def no_version(table: object, version: int, known: tuple[int, int] | None = None) -> NotFound:
    """The refusal of a version that a table never had; ``known``: its first and last."""
    listed = "" if known is None else f" Its versions are {known[0]} to {known[1]}."
    # A number so large is one of seconds or milliseconds.
    hint = " A time is written 2026-05-06T10:00:00Z." if version > 10**8 else ""
    return NotFound(f"{table}: there is no version {version}.{listed}{hint}", name="SNAPSHOT_NOT_FOUND")


def files_removed(table: object, version: int) -> NotFound:
    """The refusal of a version of a table whose files were removed, as a VACUUM does with those of older versions."""
    return NotFound(
        f"{table}: that version cannot be read any more or does not exist: files of version {version} were removed.",
        name="SNAPSHOT_NOT_FOUND",
    )


def lost_file(error: BaseException | None) -> str | None:
    """The path of the data file that Spark did not find, as people write it; None where an error says something else."""
    found = LOST.search(str(error))
    return unquote(shown(found[1])) if found else None


def damaged(table: object, found: str) -> Damaged:
    """The refusal of a table of which a file is missing or broken."""
    # By the table, or where that is a topic's name, by the file: the last of the folders that tables lie in.
    named = [str(table)] if isinstance(table, TableRef) else re.findall(r"[/.](bronze|silver|quarantine|runs|snapshots)/", found)
    is_silver = bool(named) and named[-1].endswith("silver")
    anew = " If the log holds all its records, the latest table can be written anew, too: run merge with rebuild once." if is_silver else ""
    return Damaged(
        f"{table}: {found.rstrip('.')}. A file of the table is missing or broken: put it back from a copy before going on.{anew}"
    )


def first_line(error: BaseException) -> str:
    """The line of what an error says that tells most: Java's own words behind what Python says of the call."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    if lines[0].startswith("An error occurred while calling"):
        told = [line for line in lines[1:] if not line.startswith(("\tat ", "\t..."))] or lines
        lines = [line for line in told if BROKEN.search(line)] or told
    return lines[0].removeprefix(": ").strip()[:300]


def translated(error: BaseException, table: object) -> LakelogError | None:
    """The lakelog error a Spark or Delta error stands for, about a table named by its text; None for one that is a defect."""
    condition, first = condition_of(error), first_line(error)
    if isinstance(error, (OverflowError, ValueError)) and NO_YEAR.search(str(error)):
        return InvalidRequest(
            f"{table}: a date or time lies outside of the years 1 to 9999, beyond what Python knows. Ask for it as text: CAST(… AS STRING) in SQL."
        )
    if _is_contention(error):
        return Conflict(
            f"{table}: another writer committed first ({condition.split('.')[0] or type(error).__name__}). Nothing was written; try again."
        )
    if raised(error, SOURCE_CHANGED):
        return Refused(
            f"{table}: the source gave other records when it was read again: it changed while it was appended. Nothing was written. Append"
            " files that stay as they are, then try again.", name="SOURCE_CHANGED",
        )  # fmt: skip
    if condition.startswith(NOT_THERE) or FOLDER_GONE.search(str(error)):
        return NotFound(f"{table}: there is no Delta table or file of that name.")
    if is_out_of_date(error):
        return Conflict(f"{table}: its types were widened meanwhile. Nothing was written; try again.")
    unknown = NO_VERSION.search(str(error))
    if unknown:
        return no_version(table, int(unknown[1]), (int(unknown[2]), int(unknown[3])))
    if condition.startswith(GONE) or FILES_GONE.search(str(error)):
        return NotFound(f"{table}: that version cannot be read any more or does not exist: {first}", name="SNAPSHOT_NOT_FOUND")
    if (
        condition.startswith(
            ("DELTA_TRUNCATED_TRANSACTION_LOG", "DELTA_STATE_RECOVER", "DELTA_LOG_FILE", "FAILED_READ_FILE", "DELTA_CHECKPOINT")
        )
        or (not condition or condition.startswith(BROKEN_WITHIN))
        and BROKEN.search(str(error))
    ):
        lost = lost_file(error)
        return damaged(table, f"{lost.removeprefix(f'{table}/')} is missing" if lost else first)
    return _unreachable(error, table)


# What Java says, and what it means, of a place that cannot be opened or written.
UNWRITABLE = re.compile(
    r"DELTA_CANNOT_CREATE_LOG_PATH|Permission denied|AccessDenied|AccessControlException|Read-only file system|Mkdirs failed"
)
UNCONNECTED = re.compile(r"No FileSystem for scheme \W?(\w+)|Class (org\.apache\.hadoop\.fs\.\S+|com\.google\.\S+) not found")


def _unreachable(error: BaseException, table: object) -> LakelogError | None:
    """A place that Spark cannot open, or cannot write in; None where the error says nothing of that."""
    told = "\n".join(line for line in str(error).splitlines() if not line.startswith(("\tat ", "\t...")))
    place, scheme = str(table), scheme_of(str(table))
    if UNCONNECTED.search(told):
        remedy = "Put its connector on Spark's class path (spark.jars.packages), or name another root."
        told = missing_connector(scheme, {}) or f"Spark cannot open {scheme}://. {remedy}"
        return NotReady(f"{place}: {told}")
    host = re.search(r"UnknownHostException(?::|\)) ([^\s:]+)", told)
    if host:
        return NotReady(f"{place}: there is no host {host[1]}. Correct the root, or the settings of the network.")
    found = UNWRITABLE.search(told)
    if found:
        why = "" if "_" in found[0] else f" ({found[0]})"
        return NotReady(f"{place}: nothing can be written there{why}. Make it writable for the user who runs this, or name another root.")
    return None


@contextlib.contextmanager
def source_door() -> Iterator[None]:
    """Where nothing but the records to be appended is read: a file or table that cannot be read is the caller's, not the topic's."""
    try:
        yield
    except LakelogError:
        # It may quote a record that names a condition of Spark's.
        raise
    except Exception as error:
        # Spark Connect looks for a file no sooner than it is read.
        gone = (
            re.search(r"Path does not exist: (\S+?)\.?(?:\s|$)", str(error)) if condition_of(error).startswith("PATH_NOT_FOUND") else None
        )
        if gone:
            raise NotFound(f"{shown(gone[1])}: there is no Delta table or file of that name.") from error
        if condition_of(error).startswith((*NOT_THERE, *GONE)) or FOLDER_GONE.search(str(error)):
            raise NotFound(f"The source of the records cannot be read: {first_line(error).rstrip('.')}. Nothing was written.") from error
        if is_out_of_date(error):
            raise InvalidRequest(
                "The table that the frame of the records reads has other columns by now, or is gone. Nothing was written. Read it anew."
            ) from error
        if not condition_of(error).startswith("FAILED_READ_FILE"):
            raise
        found = re.search(r"\[FAILED_READ_FILE\S*\] ([^\n]{1,300})", str(error))
        first = found[1] if found else "A file could not be read."
        raise InvalidRequest(
            f"{first} A file of the records cannot be read: it is broken, or not what its name says. Nothing was written."
        ) from error


@contextlib.contextmanager
def door(table: object) -> Iterator[None]:
    """Turn the errors of Spark and Delta into lakelog's; those that are none of ours pass as they are."""
    try:
        yield
    except LakelogError:
        raise
    except Exception as error:
        ours = translated(error, table)
        if ours is None:
            raise
        raise ours from error
