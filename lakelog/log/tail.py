"""The log's end and state, read cold at a cost that does not grow with the log, and what other writers did to the table since.

Every lakelog commit on bronze carries a note (its user metadata): where the log ends are, up to which version the commits were looked
at, and how many attempts an append took (more than one: other writers were first). The ends are a hint where to look, never the truth;
commits without a note that changed data are another writer's and are named.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lakelog.delta import commit_file, past, tables
from lakelog.delta.commit_file import CommitFile
from lakelog.delta.statement import interpreted
from lakelog.errors import Damaged
from lakelog.log import inspection
from lakelog.log.notes import LOOK_BACK, newest_note, parsed
from lakelog.log.rows import STATE_SEGMENT, log_rows
from lakelog.model.log_state import Intent, PartitionState
from lakelog.model.segments import Tail
from lakelog.model.topic_log import TopicLog


@dataclass(frozen=True)
class LogEnd:
    """The end of the log at a version of bronze: a tail per partition asked for, what the notes say of the others.

    ``batch`` is the identity of the newest append or change of state, and ``file`` that of the newest commit, where they are known: a topic
    deleted and made anew may come to the same version.
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

    @property
    def lacks(self) -> bool:
        """Whether the log alone does not give the latest table, by what it says of itself."""
        return any(tail.state.lacks for tail in self.tails.values())

    @property
    def intent(self) -> Intent | None:
        """The operation that was begun on the log and not finished, if there is one."""
        return next((tail.state.intent for tail in self.tails.values() if tail.state.intent is not None), None)

    @property
    def format(self) -> int:
        """The format of the log: 1 where a partition has no state row."""
        return 2 if all(tail.state.sequence for tail in self.tails.values()) else 1

    def starts(self) -> dict[int, int]:
        """Partition to log start offset."""
        return {index: tail.state.start for index, tail in sorted(self.tails.items())}

    def deletes_from(self) -> dict[int, int]:
        """Partition to the offset below which tombstones may have left the log."""
        return {index: tail.state.deletes_from for index, tail in sorted(self.tails.items())}

    def ends(self) -> dict[int, int]:
        """Partition to log end: what is known, else what was noted."""
        return self.noted | {index: tail.end for index, tail in sorted(self.tails.items())}


def newest_commit(log: TopicLog) -> tuple[int, dict[str, Any]]:
    """Bronze's version and the newest note among its commits (empty where there is none); refuses what other writers did since that note.

    Raises:
        Damaged: a commit that is not lakelog's changed records, or a RESTORE took back records; it is named.

    Cost: one commit file is opened, off this machine's disk by a small Spark job; where commits were not looked at yet, those too. After
    a RESTORE to a time, one pass over the log's offsets.
    """

    def is_whole(said: Mapping[str, Any]) -> bool:
        return not inspection.problems(log)[1] and is_newest(_read(log, list(range(log.partitions)), {}, None), said)

    return newest_note(log.table, lambda limit: tables.history(log.spark, log.table, limit), is_whole)


def is_newest(tails: Mapping[int, Tail], said: Mapping[str, Any]) -> bool:
    """Whether the append or the change of state that a note is of is the newest of its partitions, by their tails.

    A note that names no rows, of an older lakelog's, is held against its ends and its epoch.
    """
    if said.get("tails"):
        return all(tails[int(index)].batch == said["batch"] for index in said["tails"])
    if said.get("state"):
        index, batch = said["state"]
        return bool(tails[index].state.batch == batch)
    epoch = max(tail.epoch for tail in tails.values())
    ends = {int(index): end for index, end in said.get("ends", {}).items()}
    return ends == {index: tail.end for index, tail in tails.items()} and said.get("epoch", epoch) == epoch


def log_end(log: TopicLog, partitions: Sequence[int] | None = None, known: LogEnd | None = None, *, pin: bool = False) -> LogEnd:
    """The end of each partition's log (of all, when none are named).

    Args:
        log: the topic's log.
        partitions: those wanted.
        known: as this process last saw it; good as long as bronze is still at that version, and the same append its newest.
        pin: read the rows at exactly the version that is answered; else what is committed meanwhile may be in them.

    Raises:
        Damaged: another writer changed the log, or its control rows are missing.

    Cost: nothing where the files of the table tell that it is as ``known``; else one look at the newest commit and, unless ``known`` still
    holds, one small Spark query. What it reads does not grow with the log: files before the noted ends are skipped by their statistics.
    """
    wanted = list(partitions) if partitions is not None else list(range(log.partitions))
    if known is not None and known.covers(wanted) and commit_file.is_current(log.spark, log.table, known.file):
        return known
    version, found = newest_commit(log)
    newest = found.get("batch") or found.get("id")
    # What was read when a version was the newest, and is so still, is of that version exactly; that it is the same table, the note tells.
    same = known is not None and (known.version, known.batch) == (version, newest) and (newest is not None or not pin)
    if known is not None and same and known.covers(wanted):
        return known
    hints = {int(index): int(end) for index, end in found.get("ends", {}).items()}
    at = version if pin else None
    tails = _read(log, wanted, hints, at)
    wrong = [index for index in wanted if tails[index].end < hints.get(index, 0)]
    if wrong:
        tails |= _read(log, wrong, {}, at)
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


def true_end(log: TopicLog, found: Damaged | None = None, *, at: int | None = None) -> LogEnd:
    """Where the log ends by its rows alone, whatever its commits say: behind the last record or batch row. For a repair.

    Args:
        log: the topic's log.
        found: what is wrong with it, and what to do where its rows do not even tell that: raised then.
        at: a version of bronze; None for the newest.

    Cost: one pass over the log's control rows and offsets.
    """
    version = tables.newest_version(log.spark, log.table) if at is None else at
    try:
        tails = _read(log, list(range(log.partitions)), {}, version, records_beyond=True)
    except Damaged:
        if found is None:
            raise
        raise found from None
    return LogEnd(version, tails, {})


def _read(
    log: TopicLog, partitions: list[int], hints: Mapping[int, int], version: int | None, *, records_beyond: bool = False
) -> dict[int, Tail]:
    """The tails as their newest rows say: the control row of the last batch, and the newest state row; at a version, or as they are.

    Records beyond the last batch row are damage, or, with ``records_beyond``, where the log ends.
    """
    from pyspark.sql import functions as F

    table = log_rows(log) if version is None else past.pinned(log.spark, log.table, version)
    row = "struct<offset:bigint,segment:bigint,batch:string,control:string>"
    newest = table.filter(F.col("partition").isin(partitions) & (F.col("segment") == STATE_SEGMENT)).groupBy("partition")
    # Of format 1, whose rows all have the offset -1, the newest epoch's.
    of_epochs = F.when(F.get_json_object("control", "$.type") != "segment", F.struct(-F.col("offset"), "epoch", "batch", "control"))
    states = newest.agg(F.max(of_epochs).alias("state")).select(
        "partition", F.col("state.epoch").alias("epoch"), F.lit(-1).cast("bigint").alias("top"),
        F.struct(F.lit(0).cast("bigint"), F.lit(0).cast("bigint"), F.col("state.batch"), F.col("state.control")).cast(row).alias("last"),
    )  # fmt: skip
    wanted = states
    for least, group in clusters({index: hints.get(index, 0) for index in partitions}):
        ends = table.filter(F.col("partition").isin(group) & (F.col("segment") >= 0) & (F.col("offset") >= least - 1))
        of_batches = F.when(F.col("control").isNotNull(), F.struct("offset", "segment", "batch", "control"))
        last = ends.groupBy("partition").agg(F.max("offset").alias("top"), F.max(of_batches).alias("last"))
        wanted = wanted.unionAll(last.select("partition", F.lit(None).cast("int"), "top", "last"))
    with tables.door(log.table), interpreted(log.spark):
        rows = wanted.collect()
    return tails_of(log.table, partitions, rows, records_beyond=records_beyond)


def tails_of(table: object, partitions: Sequence[int], rows: Iterable[Sequence[Any]], *, records_beyond: bool = False) -> dict[int, Tail]:
    """The tails that a log's newest rows say.

    Args:
        table: bronze, as messages name it.
        partitions: those wanted.
        rows: of each partition its newest state row: (partition, epoch, -1, what it holds), and where it has rows behind the noted end:
            (partition, None, the largest offset, the last control row); what a row holds has ``offset``, ``segment``, ``batch``, ``control``.
        records_beyond: records beyond the last batch row are where the log ends, not damage.

    Raises:
        Damaged: a partition has no state row, or records beyond its end.
    """
    rows = list(rows)
    states_found = {
        index: PartitionState.from_row(index, epoch, said["batch"], said["control"])
        for index, epoch, _, said in rows
        if epoch is not None and said["control"] is not None
    }
    missing = set(partitions) - set(states_found)
    if missing:
        raise Damaged(f"{table}: partition {min(missing)} has no state row. The log is not as lakelog left it.")
    found = {index: Tail.empty(state) for index, state in states_found.items()}
    for index, epoch, top, last in rows:
        if epoch is not None:
            continue
        state = states_found[index]
        end = max(last["offset"] + 1 if last is not None else 0, state.start)
        if top >= end and records_beyond:
            found[index] = Tail(index, top + 1, 0 if last is None else last["segment"], 0, None, None, state)
            continue
        if top >= end:
            raise Damaged(f"{table}: partition {index} holds offset {top} beyond its log end {end}: another writer was here. Run verify.")
        if last is not None and last["offset"] + 1 == end:
            content = json.loads(last["control"])
            found[index] = Tail(index, end, last["segment"], content["octets"], content["first"], last["batch"], state)
    return found


def followed(log: TopicLog, known: LogEnd) -> LogEnd | None:
    """The log's end after the appends that were committed since ``known``, by their notes; None where the files of the table do not tell it.

    Only where nothing else was committed meanwhile, and the table is on this machine's disk. No Spark job: a file is opened for each append.
    """
    if known.file is None or not known.covers(range(log.partitions)) or not commit_file.is_there(log.spark, log.table, known.file):
        return None
    version, tails, noted, newest = known.version, dict(known.tails), dict(known.noted), known.batch
    while version < known.version + LOOK_BACK and (text := commit_file.note(log.spark, log.table, version + 1)) is not None:
        found = parsed(text)
        if found.get("lakelog") != "append" or "tails" not in found:
            return None
        tails |= {int(index): tails[int(index)].appended(found["batch"], tail) for index, tail in found["tails"].items()}
        noted |= {int(index): int(end) for index, end in found["ends"].items()}
        version, newest = version + 1, found["batch"]
    file = commit_file.at(log.spark, log.table, version)
    return None if file is None else LogEnd(version, tails, noted, newest, file)
