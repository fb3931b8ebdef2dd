"""Rows of a Delta table into a topic's log: those that were appended to it since the last time, version by version, once each.

The ledger says up to which version the rows are in the log, in the commit of these rows. Versions that changed or removed rows are refused: a log
has nothing to say of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakelog.delta import past, tables
from lakelog.errors import LakelogError, NotFound, Refused
from lakelog.log import ledger
from lakelog.log.ledger import Entry, SourceToken
from lakelog.log.notes import describe_commit, is_harmless
from lakelog.log.tail import log_end
from lakelog.running_results import Taken, TakenBatch
from lakelog.sources.configured import TableSource
from lakelog.sources.directory import appended, joined
from lakelog.topic import Topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

# Operations that add rows, and no more than that, where they are told to append.
APPENDS = ("WRITE", "STREAMING UPDATE", "COPY INTO")
BEFORE = -1
SLACK = 100


@dataclass(frozen=True)
class Position:
    """What is to be taken of a table: its identity, the version up to which its rows are in the log (None: none yet), versions with more.

    ``epoch``: the log's, of which this is said: a restore takes back what the ledger says.
    """

    identity: str
    taken: int | None
    versions: list[int]
    epoch: int


def look(topic: Topic, source: TableSource) -> Position:
    """What of a table is to be taken.

    Raises:
        NotFound: there is no such table.
        Refused: it is another table than the one that was taken (SOURCE_REPLACED), a version changed or removed rows (SOURCE_REWRITTEN), or its
            history does not reach back to what was taken (SOURCE_EXPIRED).

    Cost: the ledger is read by one small Spark query, the table's history since then by another.
    """
    epoch = log_end(topic.log).epoch
    identity = tables.identity(topic.spark, source.ref)
    entries = ledger.entries(topic.log, *source.identities).values()
    last = max(entries, key=lambda one: int((one.more or {})["to"]), default=None)
    if last is not None and last.content != identity:
        raise Refused(
            f"{topic.name}: {source} is not the table whose rows were taken: it was made anew. Nothing was written. Give the source another name,"
            " then all of it is taken.", name="SOURCE_REPLACED", expected=last.content, actual=identity, source=str(source),
        )  # fmt: skip
    newest = tables.newest_version(topic.spark, source.ref)
    taken = None if last is None else int((last.more or {})["to"])
    if taken is None and source.starting_version is not None:
        taken = source.starting_version - 1
    if taken is None:
        return Position(identity, None, [newest], epoch)
    if taken > newest:
        raise Refused(
            f"{topic.name}: {source} is at version {newest}, but rows up to version {taken} were to be taken before. Nothing was written. Correct"
            " starting_version, or give the source another name.", name="SOURCE_REPLACED", expected=taken, actual=newest, source=str(source),
        )  # fmt: skip
    # Some more than there were: others may commit meanwhile, and none may be missed.
    rows = {int(row["version"]): row for row in tables.history(topic.spark, source.ref, newest - taken + SLACK)}
    newest = max(rows)
    wanted = range(taken + 1, newest + 1)
    if any(version not in rows for version in wanted):
        raise Refused(
            f"{topic.name}: the history of {source} does not reach back to version {taken + 1}. Nothing was written. Give the source another"
            " name, then all rows it holds are taken; or name it anew with a starting_version.", name="SOURCE_EXPIRED", source=str(source),
        )  # fmt: skip
    return Position(identity, taken, [version for version in wanted if _adds(topic.name, source, rows[version])], epoch)


def _adds(topic: str, source: TableSource, row: Row) -> bool:
    """Whether a commit added rows; one that may have changed or removed some is refused."""
    operation, how = str(row["operation"]).upper(), row["operationParameters"] or {}
    if is_harmless(row):
        return False
    if operation.startswith("CREATE TABLE") and "SELECT" not in operation:
        return False
    if operation.startswith("CREATE TABLE AS") or (
        operation in APPENDS and str(how.get("mode", how.get("outputMode", "Append"))).lower() in ("append", "errorifexists")
    ):
        return True
    raise Refused(
        f"{topic}: {source} was changed otherwise than by appends: {describe_commit(row)}. Nothing of it was written. Give the source"
        f" another name, then all rows it holds are taken; or name it anew with starting_version = {int(row['version']) + 1}, which leaves that out.",
        name="SOURCE_REWRITTEN", source=str(source), version=int(row["version"]),
    )  # fmt: skip


def take(topic: Topic, source: TableSource, *, tell: Callable[[int, int], None] = lambda done, total: None) -> Taken:
    """Append the rows that were appended to a table since the last time, an append for each of its versions.

    Args:
        topic: the topic.
        source: the table.
        tell: called with (versions done, versions in all) after each append.

    Raises:
        What `look` and `Topic.append` name; versions before the one that was refused are in the log.

    Cost: as `look`; for each version the list of files that it and the one before it consist of, and an append of what is new.
    """
    done: list[TakenBatch] = []
    position = look(topic, source)
    try:
        # Each time another process is first, there is less left to be taken.
        while True:
            at = BEFORE if position.taken is None else position.taken
            for count, version in enumerate(position.versions, start=1):
                entry = Entry(str(at), 0, position.identity, more={"to": version})
                rows = _rows(topic, source, version, whole=position.taken is None)
                answer = appended(topic, rows, SourceToken.of(source.identity, [entry]), position.epoch)
                if answer is None:
                    position = look(topic, source)
                    break
                done.append(
                    TakenBatch([f"version {version}"], 0, answer.version, answer.records, answer.offsets, answer.quarantined, answer.run)
                )
                at = version
                tell(count, len(position.versions))
            else:
                return _taken(topic.name, source, done, at)
    except LakelogError as error:
        error.details = {**error.details, "taken": _taken(topic.name, source, done, at if done else position.taken).to_dict()}
        raise


def _rows(topic: Topic, source: TableSource, version: int, *, whole: bool) -> DataFrame:
    """The rows that a version added; all that it has (``whole``)."""
    from pyspark.sql import functions as F

    rows = past.pinned(topic.spark, source.ref, version)
    if whole or version == 0:
        return rows
    try:
        before = _files(past.pinned(topic.spark, source.ref, version - 1))
    except NotFound as error:
        raise Refused(
            f"{topic.name}: version {version - 1} of {source} can be read no more, so what version {version} added cannot be told. Nothing of it was"
            " written. Give the source another name, then all rows it holds are taken.", name="SOURCE_EXPIRED", source=str(source),
        ) from error  # fmt: skip
    added = _files(rows) - before
    return rows.filter(F.element_at(F.split("_metadata.file_path", "/"), -1).isin(sorted(added)) if added else F.lit(False))


def _files(rows: DataFrame) -> set[str]:
    """The names of the files that a table consists of; they are unique."""
    return {path.rsplit("/", 1)[-1] for path in rows.inputFiles()}


def _taken(topic: str, source: TableSource, done: Sequence[TakenBatch], position: Any) -> Taken:
    spans = joined([one.offsets for one in done])
    return Taken(topic, str(source), len(done), 0, sum(one.records for one in done), spans, list(done), position=position, kind="version")
