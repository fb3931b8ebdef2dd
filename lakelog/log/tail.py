"""The log's end, read cold at a cost that does not grow with the log, and what other writers did to the table since.

Every lakelog commit on bronze carries a note (its user metadata): where the log ends are, up to which version the commits were looked
at, and how many attempts an append took (more than one: other writers were first). The ends are a hint where to look, never the truth;
commits without a note that changed data are another writer's and are named.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakelog.delta import commit_file, tables
from lakelog.delta.commit_file import CommitFile
from lakelog.delta.statement import interpreted
from lakelog.errors import Damaged
from lakelog.log.rows import log_rows
from lakelog.model.segments import Tail
from lakelog.model.topic_log import TopicLog

if TYPE_CHECKING:
    from pyspark.sql import Row

# Delta's operations that change no record: properties, columns, files rewritten as they are.
HARMLESS = ("OPTIMIZE", "VACUUM", "SET TBLPROPERTIES", "UNSET TBLPROPERTIES", "ADD COLUMN", "CHANGE COLUMN", "UPGRADE PROTOCOL", "COMPUTE STATS",
            "ADD FEATURE", "REORG", "CREATE", "SET TABLE PROPERTIES", "RESTORE")  # fmt: skip
# So many commits are looked at in one go for other writers; beyond, `verify` does.
LOOK_BACK = 200


@dataclass(frozen=True)
class LogEnd:
    """The end of the log at a version of bronze: a tail per partition asked for, what the notes say of the others.

    ``batch`` is the newest append's and ``file`` that of the newest commit, where they are known: a topic deleted and made anew may come to
    the same version.
    """

    version: int
    tails: dict[int, Tail]
    noted: dict[int, int]
    batch: str | None = None
    file: CommitFile | None = None

    def covers(self, partitions: Sequence[int]) -> bool:
        """Whether the tails of all these partitions are known."""
        return all(index in self.tails for index in partitions)

    @property
    def epoch(self) -> int:
        """The generation of the log: the newest of the partitions'."""
        return max(tail.epoch for tail in self.tails.values())

    def ends(self) -> dict[int, int]:
        """Partition to log end: what is known, else what was noted."""
        return self.noted | {index: tail.end for index, tail in sorted(self.tails.items())}


def note(kind: str, *, ends: Mapping[int, int], checked: int, **more: Any) -> str:
    """The user metadata of a lakelog commit on bronze."""
    return json.dumps({"lakelog": kind, **more, "checked": checked, "ends": {str(index): end for index, end in sorted(ends.items())}})


def _noted(row: Row) -> dict[str, Any]:
    try:
        found = json.loads(row["userMetadata"] or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) and "lakelog" in found else {}


def standing(rows: Sequence[Row]) -> list[Row]:
    """Of commits, newest first, those that no later RESTORE took back."""
    found: list[Row] = []
    version, until = None, None
    for row in rows:
        if (version is not None and row["version"] > version) or (until is not None and str(row["timestamp"]) > until):
            continue
        found.append(row)
        if row["operation"].upper().startswith("RESTORE"):
            to = row["operationParameters"]
            version, until = (int(to["version"]), None) if to.get("version") else (None, to.get("timestamp"))
    return found


def foreign_commits(rows: Sequence[Row]) -> list[Row]:
    """The commits among these, newest first, that changed records, were not taken back and are not lakelog's."""
    strange = []
    for row in standing(rows):
        created = row["version"] == 0
        if not created and not _noted(row) and not row["operation"].upper().startswith(HARMLESS):
            strange.append(row)
    return strange


def describe_foreign(row: Row) -> str:
    """A foreign commit in words: version, time, operation, engine, user."""
    who = row["userName"] or row["userId"]
    by = f"{row['engineInfo'] or 'an unknown engine'}{f', user {who}' if who else ''}"
    return f"version {row['version']} of {row['timestamp']} ({row['operation']} by {by})"


def newest_commit(log: TopicLog) -> tuple[int, dict[str, Any]]:
    """Bronze's version and the newest commit's note (empty when it has none); refuses what another writer did since the last look.

    Raises:
        Damaged: a commit that is not lakelog's changed records; it is named.
    """
    newest = tables.history(log.spark, log.table, 1)[0]
    version, found = int(newest["version"]), _noted(newest)
    checked = int(found.get("checked", -1)) if found else -1
    unseen = version - checked - 1 if found else version
    rows = [newest]
    if (found and unseen > 0) or not found:
        rows = standing(tables.history(log.spark, log.table, min(max(unseen, 1) + 1, LOOK_BACK)))
        found = next((_noted(row) for row in rows if _noted(row)), {})
        reached = int(found.get("checked", -1))
        rows = [row for row in rows if row["version"] > reached]
    strange = foreign_commits(rows)
    if strange:
        raise Damaged(
            f"{log.table}: another writer changed the log: {describe_foreign(strange[-1])}. lakelog gives the offsets itself; take that commit"
            f" back (RESTORE to version {strange[-1]['version'] - 1}), append its records with lakelog, and run verify.",
            version=strange[-1]["version"],
        )
    return version, found


def log_end(log: TopicLog, partitions: Sequence[int] | None = None, known: LogEnd | None = None) -> LogEnd:
    """The end of each partition's log (of all, when none are named).

    Args:
        log: the topic's log.
        partitions: those wanted.
        known: as this process last saw it; good as long as bronze is still at that version, and the same append its newest.

    Raises:
        Damaged: another writer changed the log, or its control rows are missing.

    Cost: nothing where the files of the table tell that it is as ``known``; else one look at the newest commit and, unless ``known`` still
    holds, one small Spark query. What it reads does not grow with the log: files before the noted ends are skipped by their statistics.
    """
    wanted = list(partitions) if partitions is not None else list(range(log.partitions))
    if known is not None and known.covers(wanted) and commit_file.stands(log.spark, log.table, known.file):
        return known
    version, found = newest_commit(log)
    newest = found.get("batch")
    if known is not None and (known.version, known.batch) == (version, newest) and known.covers(wanted):
        return known
    hints = {int(index): int(end) for index, end in found.get("ends", {}).items()}
    tails = _read(log, wanted, hints)
    wrong = [index for index in wanted if tails[index].end < hints.get(index, 0)]
    if wrong:
        tails |= _read(log, wrong, {})
    return LogEnd(version, tails, hints, newest, commit_file.at(log.spark, log.table, version))


def clusters(hints: Mapping[int, int], most: int = 16) -> list[tuple[int, list[int]]]:
    """Partitions with about the same noted end, to be read together from the least of them on: (least end, partitions).

    Statistics skip the files before the least. A scan costs more than a few files too many, so ends within ten thousand offsets or a
    quarter of each other share one.
    """
    found: list[tuple[int, list[int]]] = []
    for index, end in sorted(hints.items(), key=lambda item: (item[1], item[0])):
        if found and (end <= max(found[-1][0] * 1.25, found[-1][0] + 10_000) or len(found) == most):
            found[-1][1].append(index)
        else:
            found.append((end, [index]))
    return found


def _read(log: TopicLog, partitions: list[int], hints: Mapping[int, int]) -> dict[int, Tail]:
    """The tails as their newest rows say: the control row of the last batch, and segment -1 for the epoch."""
    from pyspark.sql import functions as F

    table = log_rows(log)
    none = F.lit(None).cast("struct<offset:bigint,segment:bigint,control:string>")
    wanted = table.filter(F.col("partition").isin(partitions) & (F.col("segment") == -1))
    wanted = wanted.groupBy("partition").agg(F.max("epoch").alias("epoch")).select("partition", "epoch", F.lit(-1).cast("bigint"), none)
    for least, group in clusters({index: hints.get(index, 0) for index in partitions}):
        newest = table.filter(F.col("partition").isin(group) & (F.col("segment") >= 0) & (F.col("offset") >= least - 1))
        of_batches = F.when(F.col("control").isNotNull(), F.struct("offset", "segment", "control"))
        ends = newest.groupBy("partition").agg(F.max("offset").alias("top"), F.max(of_batches).alias("last"))
        wanted = wanted.unionAll(ends.select("partition", F.lit(None).cast("int"), "top", "last"))
    with tables.door(log.table), interpreted(log.spark):
        rows = wanted.collect()
    epochs = {row[0]: row[1] for row in rows if row[1] is not None}
    found = {index: Tail(index, 0, 0, 0, None, epochs[index]) for index in partitions if index in epochs}
    if len(found) < len(set(partitions)):
        missing = min(set(partitions) - set(found))
        raise Damaged(f"{log.table}: partition {missing} has no epoch row. The log is not as lakelog left it.")
    for index, epoch, top, last in rows:
        if epoch is not None:
            continue
        end = last["offset"] + 1 if last is not None else 0
        if top >= end:
            raise Damaged(
                f"{log.table}: partition {index} holds offset {top} beyond its log end {end}: another writer was here. Run verify."
            )
        content = json.loads(last["control"])
        found[index] = Tail(index, end, last["segment"], content["octets"], content["first"], epochs[index])
    return found


def followed(log: TopicLog, known: LogEnd) -> LogEnd | None:
    """The log's end after the appends that were committed since ``known``, by their notes; None where the files of the table do not tell it.

    Only where nothing else was committed meanwhile, and the table is on this machine's disk. No Spark job: a file is opened for each append.
    """
    if known.file is None or not known.covers(range(log.partitions)) or not commit_file.is_there(log.spark, log.table, known.file):
        return None
    version, tails, noted, newest = known.version, dict(known.tails), dict(known.noted), known.batch
    while version < known.version + LOOK_BACK and (text := commit_file.note(log.spark, log.table, version + 1)) is not None:
        found = json.loads(text)
        if found.get("lakelog") != "append" or "tails" not in found:
            return None
        tails |= {int(index): Tail(*tail) for index, tail in found["tails"].items()}
        noted |= {int(index): int(end) for index, end in found["ends"].items()}
        version, newest = version + 1, found["batch"]
    file = commit_file.at(log.spark, log.table, version)
    return None if file is None else LogEnd(version, tails, noted, newest, file)
