"""What a restore would do, and whether it may: decided from silver's control rows at the target and the log's state, before anything is written."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lakelog.delta import tables
from lakelog.errors import Damaged, InvalidRequest, LogIncomplete, NotFound, OffsetOutOfRange, Refused
from lakelog.latest import erased, silver
from lakelog.latest.control_rows import control_rows_of
from lakelog.latest.progress import Progress, from_control_rows, progress
from lakelog.latest.progress import stored as stored_progress
from lakelog.log import bronze
from lakelog.log.cut import Cut
from lakelog.log.tail import LogEnd
from lakelog.model.names import TableRef
from lakelog.model.records import looked_up
from lakelog.model.snapshot_id import SnapshotId, common_end
from lakelog.model.topic_log import TopicLog
from lakelog.results import Restored
from lakelog.snapshots import point, registry
from lakelog.snapshots.point import Place, Point

TRUNCATE, KEEP = "truncate", "keep"


@dataclass(frozen=True)
class Target:
    """The state to be restored: where it is, what its control rows say."""

    place: Place
    version: int
    state: Progress

    @property
    def id(self) -> SnapshotId:
        """Its end offsets and epoch."""
        return self.state.snapshot_id

    @property
    def text(self) -> str:
        """Its name, or its id."""
        entry = self.place.entry
        return entry.name if entry is not None and entry.name is not None else self.id.text


def target_of(log: TopicLog, to: Point) -> Target:
    """The state that a caller wants back, and proof that it can be read.

    Raises:
        NotFound: there is no such snapshot, or it cannot be read any more (SNAPSHOT_NOT_FOUND).
        Refused: it was made under another rule (RULE_CHANGED).
        Damaged: it is another topic's.

    Cost: two small Spark jobs over silver's control rows.
    """
    place = point.find(log, to)
    if place.version is None:
        raise InvalidRequest("Restore to what? Name a snapshot, a version of silver, or a time.")
    try:
        if place.copy is not None:
            state = stored_progress(log.spark, place.copy)
        else:
            rows = point.stored(log, place)
            point.require_files(log, rows, place.version)
            state = control_of(log, rows)
    except NotFound as error:
        raise NotFound(f"{log.name}: {to} cannot be restored: {error}", name="SNAPSHOT_NOT_FOUND") from error
    if state.uuid != log.uuid:
        raise Damaged(f"{log.name}: version {place.version} of {log.silver} is the latest table of another log.", expected=log.uuid)
    if state.rule != log.rule:
        raise Refused(
            f"{log.name}: that state was made under the rule {state.rule}, the topic now says {log.rule}: later merges would not fit it. Nothing"
            f" was changed. Configure the topic to the rule {state.rule} first, restore, and then change the rule again with a rebuild; or choose"
            " a snapshot that was made under the present rule.", name="RULE_CHANGED", expected=str(log.rule), actual=str(state.rule),
        )  # fmt: skip
    return Target(place, place.version, state)


def control_of(log: TopicLog, rows: Any) -> Progress:
    """What the control rows of a state of silver say."""
    return from_control_rows(log.silver, control_rows_of(rows, log.silver), remedy="Choose another version.")


def cuts(log: TopicLog, target: Target, end: LogEnd, *, damaged: bool) -> dict[int, Cut]:
    """What `truncate` does to each partition (SEMANTICS 99, Q19).

    Args:
        log: the topic's log.
        target: the state to be restored.
        end: the log's end.
        damaged: the log was restored by hand: nothing is known of it but its rows.

    Cost: nothing where nothing was ever removed from the log; else the snapshot's offsets and the log's are compared.
    """
    found, doubtful = {}, []
    for index, mark in sorted(target.state.marks.items()):
        stop, tail = mark.offset + 1, end.tails[index]
        shared = common_end(tail.state.epochs, mark.epoch, stop, forgotten=tail.state.forgotten)
        anew = shared < stop or stop < tail.state.start or stop > tail.end
        found[index] = Cut(min(shared, stop), 0, stop, stop) if anew else Cut(stop, stop, min(tail.state.start, stop), stop)
        if not anew and stop > tail.state.start and (damaged or tail.state.cleaned > tail.state.start):
            doubtful.append(index)
    for index in lacking(log, target, end, doubtful):
        found[index] = Cut(found[index].leave, 0, found[index].end, found[index].end)
    return found


def lacking(log: TopicLog, target: Target, end: LogEnd, partitions: Sequence[int]) -> list[int]:
    """Those of some partitions whose log lacks a row of the snapshot that it should hold, at or above its start."""
    from pyspark.sql import functions as F

    if not partitions:
        return []
    start = looked_up([end.tails[index].state.start for index in range(log.partitions)], F.col("partition"))
    wanted = silver.without_control(log, point.stored(log, target.place)).filter(
        F.col("partition").isin(list(partitions)) & (F.col("offset") >= start)
    )
    wanted = erased.without(wanted, log.uuid, erased.entries(log.spark, log.root, log.uuid))
    held = bronze.records(log).select("partition", "offset")
    with tables.door(log.table):
        rows = (
            wanted.select("partition", "offset").join(held, ["partition", "offset"], "left_anti").select("partition").distinct().collect()
        )
    return sorted(row["partition"] for row in rows)


def require_replay(log: TopicLog, target: Target, end: LogEnd) -> None:
    """Refuse `keep` where the log cannot give, from the snapshot on, what the latest table was made of.

    Raises:
        OffsetOutOfRange: the log starts above the snapshot's end.
        LogIncomplete: a delete beyond the snapshot has left the log: the replay would bring back what it deleted. Or the log's records below the
            snapshot's end are not the snapshot's: a restore took those away, or a repair found them missing.
    """
    for index, mark in sorted(target.state.marks.items()):
        stop, tail = mark.offset + 1, end.tails[index]
        if tail.state.start > stop:
            raise OffsetOutOfRange(
                f"{log.name}: log=keep replays partition {index} from offset {stop} on, but its log begins at {tail.state.start}. Nothing was"
                " changed. Restore with log=truncate, or choose a later snapshot.", offset=stop, start=tail.state.start, end=tail.end,
            )  # fmt: skip
        if tail.state.records_from > stop:
            raise LogIncomplete(
                f"{log.name}: {tail.state.gone}: the log cannot be replayed from offset {stop} on. Nothing was changed. Restore with log=truncate, or"
                " choose a later snapshot.", expected=stop, actual=tail.state.records_from, partition=index,
            )  # fmt: skip
        if tail.state.deletes_from > stop:
            raise LogIncomplete(
                f"{log.name}: deletes of partition {index} between offset {stop} and {tail.state.deletes_from} have left the log: what they deleted"
                " would come back. Nothing was changed. Restore with log=truncate, or choose a later snapshot.",
                expected=stop, actual=tail.state.deletes_from, partition=index,
            )  # fmt: skip
        shared = min(common_end(tail.state.epochs, mark.epoch, stop, forgotten=tail.state.forgotten), tail.end)
        if shared < stop:
            raise LogIncomplete(
                f"{log.name}: the log of partition {index} has other records than the snapshot from offset {shared} on, or none: a restore or a"
                " repair began another history there. Nothing was changed. Restore with log=truncate.", expected=stop, actual=shared, partition=index,
            )  # fmt: skip


def is_there_already(log: TopicLog, target: Target, end: LogEnd) -> bool:
    """Whether the topic is as a restore to this state left it, and nothing was appended since."""
    try:
        state = progress(log)
    except Damaged:
        return False
    places = [{index: (mark.offset, mark.epoch) for index, mark in one.marks.items()} for one in (state, target.state)]
    return state.restore is not None and places[0] == places[1] and state.next == end.ends()


def report(
    log: TopicLog, target: Target, found: Mapping[int, Cut], end: LogEnd, reached: Mapping[str, Mapping[int, int]], *, mode: str
) -> Restored:
    """What a restore does to a topic, as it is answered; what would be counted over all rows is left out (`counted`).

    Args:
        log: the topic's log.
        target: the state to be restored.
        found: what becomes of each partition's log.
        end: the log's end before it.
        reached: group of readers to the offsets it has committed.
        mode: ``truncate`` or ``keep``.
    """
    here = target.id
    later = [
        one.name or one.id.text
        for one in registry.listed(registry.entries(log.spark, log.root, log.uuid))
        if one.id.epoch > here.epoch or any(one.id.ends[index] > stop for index, stop in here.ends.items())
    ]
    anew = [index for index, cut in sorted(found.items()) if cut.anew]
    ends = dict(sorted(here.ends.items())) if mode == TRUNCATE else end.ends()
    epoch = end.epoch + 1 if mode == TRUNCATE else end.epoch
    fenced = sorted(group for group, offsets in reached.items() if any(offsets.get(index, 0) > cut.leave for index, cut in found.items()))
    return Restored(log.name, target.text, here.text, target.version, mode, epoch, ends, spans(found, end), anew, later, fenced)


def with_replay(log: TopicLog, target: Target, end: LogEnd, done: Restored) -> Restored:
    """The report of a restore that keeps the log, with what the next merge folds again.

    Cost: one small Spark job over the log's files beyond the snapshot; none where nothing is.
    """
    starts, ends = target.state.next, end.ends()
    replay = {index: (first, ends[index]) for index, first in sorted(starts.items()) if ends[index] > first}
    if not replay:
        return done
    with tables.door(log.table):
        records = bronze.between(log, starts, ends, end.version).count()
    return dataclasses.replace(done, replay=replay, replay_records=records)


def counted(log: TopicLog, target: Target, found: Mapping[int, Cut], done: Restored) -> Restored:
    """The report with what a dry run counts. Cost: two reads of silver and a join by key; the records that leave the log are counted."""
    from pyspark.sql import functions as F

    changes = point.compared(log, target.place, Place(None))
    kinds = [F.count_if(F.col("change") == name).alias(name) for name in ("added", "changed", "removed")]
    with tables.door(log.silver):
        # From the latest table to the snapshot: what was added since will be removed.
        keys = changes.agg(*kinds).collect()[0]
        leave = {index: cut.leave for index, cut in found.items()}
        first = looked_up([leave.get(index, 0) for index in range(log.partitions)], F.col("partition"))
        rows = bronze.records(log).filter(F.col("partition").isin(sorted(leave)) & (F.col("offset") >= first))
        records = rows.count() if done.leaving else 0
    return dataclasses.replace(
        done, dry_run=True, records=records, added=keys["removed"], changed=keys["changed"], removed=keys["added"]
    )  # fmt: skip


def copy_name(place: Place) -> str | None:
    """The name of the copy that a state is read from; None for a version of silver."""
    return place.entry.copy if place.entry is not None else None


def copy_table(log: TopicLog, name: str | None) -> TableRef | None:
    """A copy by its name."""
    return None if name is None else TableRef.of(log.root, log.name, name)


def spans(found: Mapping[int, Cut], end: LogEnd) -> dict[int, tuple[int, int]]:
    """Partition to [first offset, log end) of what leaves the log; partitions that lose nothing are left out."""
    return {index: (cut.leave, end.tails[index].end) for index, cut in sorted(found.items()) if cut.leave < end.tails[index].end}
