"""How a snapshot is taken: a state of silver, known by its control rows alone, entered in the registry."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from lakelog.delta import past, tables
from lakelog.errors import Conflict, LakelogError, Refused
from lakelog.latest.control_rows import last_merged
from lakelog.latest.merge import places
from lakelog.latest.progress import Progress, progress, stored
from lakelog.log import extent
from lakelog.log.tail import LogEnd, log_end
from lakelog.model.records import as_datetime
from lakelog.model.snapshot_id import FOREVER, SnapshotId, check_name, is_due, is_on, until
from lakelog.model.topic_log import TopicLog
from lakelog.results import Merged, Snapshot
from lakelog.snapshots import keeping, point, registry
from lakelog.snapshots.registry import Entry

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ATTEMPTS = 20
# So many are no count of rebuilds: where the count was lost with silver, a generation is a time.
MANY_GENERATIONS = 1_000_000


def take(
    log: TopicLog, state: Progress, version: int, end: LogEnd, *, name: str | None, keep: int | None, note: str | None, now: int,
    automatic: bool = False, earlier: bool = False,
) -> Snapshot:  # fmt: skip
    """Enter a state of silver in the registry.

    Args:
        log: the topic's log.
        state: what silver's control rows say at ``version``.
        version: silver's.
        end: the log's end.
        name: None for a snapshot that retention may remove.
        keep: for how long the name is kept, in milliseconds; None for ``snapshot.retention.ms``.
        note: a text for people.
        now: the time in milliseconds.
        automatic: a merge took it.
        earlier: ``version`` is a past one: whether its files are all there is looked at.

    Gives: the snapshot. Where one with the same end offsets and epoch is there, that one (``created`` False), under the name asked for;
    where it was made before silver was computed anew, this one takes its place. Where the log begins above an end offset nothing is created.

    Raises:
        InvalidRequest: the name is none.
        Refused: the name is another snapshot's (SNAPSHOT_EXISTS), or the log begins above the state that is to be named.
        NotFound: files of the ``earlier`` version were removed.
        Conflict: others changed the registry again and again.

    Cost: the registry is read and written (a small file); for a name, silver's history is read, and a commit on silver where its retention must
    be raised. Nothing depends on the number of keys.
    """
    if name is not None:
        check_name(name)
    entry = _entry(log, state, version, name=name, keep=keep, note=note, now=now, automatic=automatic)
    below = [index for index, start in end.starts().items() if entry.id.ends[index] < start]
    if below:
        return _below(log, entry, end, below[0])
    for _ in range(ATTEMPTS):
        held = registry.entries(log.spark, log.root, log.uuid)
        same = [one for one in held if one.id.text == entry.id.text]
        mine = next((one for one in held if one.name == name), None) if name is not None else next(iter(same), None)
        if mine is not None and mine.id.text != entry.id.text:
            raise _exists(mine, entry.id)
        if mine is not None:
            found = _again(log, mine, entry, now=now, earlier=earlier)
            if found is not None:
                return found
            continue
        if earlier:
            point.require_files(log, past.pinned(log.spark, log.silver, version), version)
        if name is not None:
            keeping.raise_for(log, [entry], now=now)
        if registry.add(log.spark, log.root, entry):
            older = [one for one in same if _is_older(one, entry, earlier=earlier)]
            registry.put_in_place(log.spark, log.root, *[_replaced(one, entry) for one in older])
            return entry.result(log.root, created=not same or bool(older))
    raise Conflict(f"{log.name}: the registry changed {ATTEMPTS} times while the snapshot was taken. Nothing was created; try again.")


def require_free(log: TopicLog, name: str, end: Callable[[], LogEnd]) -> None:
    """Refuse a name before the merge whose result it is for, where another snapshot than that of the log's end has it.

    Args:
        log: the topic's log.
        name: the wanted name, after `check_name`.
        end: a look at the log's end, no older than the call: who took the name before it took it for no later state.

    Raises:
        Refused: the name is another snapshot's (SNAPSHOT_EXISTS).
        Damaged: as `progress`, and as the merge would.

    Cost: one small Spark job over the registry; where it has the name, a look at the log's end and at how far silver is.
    """
    held = next((one for one in registry.entries(log.spark, log.root, log.uuid) if one.name == name), None)
    if held is None:
        return
    asked = progress(log).after(places(end()), {}).snapshot_id
    if held.id.text != asked.text:
        raise _exists(held, asked)


def _exists(held: Entry, asked: SnapshotId) -> Refused:
    return Refused(
        f"{held.topic}: the name {held.name} is taken by the snapshot {held.id.text} of {as_datetime(held.created).isoformat()}."
        " Nothing was created. Choose another name, or delete that one first.",
        name="SNAPSHOT_EXISTS", expected=asked.text, actual=held.id.text,
    )  # fmt: skip


def _entry(
    log: TopicLog, state: Progress, version: int, *, name: str | None, keep: int | None, note: str | None, now: int, automatic: bool
) -> Entry:
    kept_until = None
    if name is not None:
        retention = log.config.number("snapshot.retention.ms")
        kept_until = until(now, (FOREVER if retention < 0 else retention) if keep is None else keep)
    return Entry(
        log.name, log.uuid, name, state.snapshot_id, version, state.generation, state.rule.to_json(), now, kept_until, note,
        automatic=automatic,
    )  # fmt: skip


def _below(log: TopicLog, entry: Entry, end: LogEnd, partition: int) -> Snapshot:
    """The answer where the log begins above the state (SEMANTICS 86); a name that would silently not exist is refused."""
    if entry.name is not None:
        raise Refused(
            f"{log.name}: the log of partition {partition} begins at offset {end.starts()[partition]}, above the state that ends at"
            f" {entry.id.ends[partition]}: it can no longer be named. Nothing was created. Name the present state.",
            name="SNAPSHOT_BELOW_LOG_START", expected=entry.id.ends[partition], actual=end.starts()[partition],
        )  # fmt: skip
    return entry.result(log.root)


def _is_older(one: Entry, new: Entry, *, earlier: bool) -> bool:
    """Whether an entry of the same end offsets was made before silver was computed anew, or before a restore took that back.

    Versions tell, unless silver was lost in between and they began at 0 again. A restore takes generations back too: of an ``earlier`` state they
    say nothing but that.
    """
    if (new.generation, new.rule) == (one.generation, one.rule):
        return False
    return new.version > one.version or new.generation - one.generation > (MANY_GENERATIONS if earlier else 0)


def _replaced(one: Entry, new: Entry) -> Entry:
    """The entry in the place of one that was made before silver was computed anew: its name, its keep and its note stay."""
    return replace(one, version=new.version, generation=new.generation, rule=new.rule, copy=None)


def _again(log: TopicLog, mine: Entry, asked: Entry, *, now: int, earlier: bool) -> Snapshot | None:
    """The snapshot that is there already; kept as long as either call asked, and replaced where silver was computed anew since.

    None where the registry changed meanwhile: it may have been deleted.
    """
    older = _is_older(mine, asked, earlier=earlier)
    after = registry.kept_longer(_replaced(mine, asked) if older else mine, asked.kept_until)
    if after != mine:
        keeping.raise_for(log, [after], now=now)
        write = registry.put_in_place if older else registry.keep_longer
        if not write(log.spark, log.root, after):
            return None
    return after.result(log.root, created=older)


def automatically(log: TopicLog, merged: Merged, end: LogEnd, *, now: int) -> Merged:
    """Take a snapshot at the end of a merge where one is due (SEMANTICS 90). Returns the merge with the snapshot's id, if one was taken.

    A failure is told in the answer (``snapshot_error``) and the log of the process, and is no failure of the merge.

    Cost: nothing where both settings are 0; else the registry, and the control rows of the log since the last snapshot.
    """
    if merged.version is None or not takes_any(log):
        return merged
    try:
        taken = _where_due(log, merged.version, end, merged_at=now, now=now)
        return merged if taken is None else replace(merged, snapshot=taken.id)
    except LakelogError as error:
        logging.getLogger("lakelog").warning("%s: no snapshot was taken after the merge: %s", log.name, error)
        return replace(merged, snapshot_error={"error": error.name, "message": str(error), "exit_code": error.exit_code})


def overdue(log: TopicLog, *, now: int) -> Snapshot | None:
    """Take the snapshot that was due after the last merge and was not taken: it could not be, or the process ended before.

    Gives: the snapshot; None where none was due at the time of that merge, however long ago it was. One that was due and was deleted since is
    taken again.

    Raises:
        What `take` names.

    Cost: as of `automatically`; silver's history is asked for its version, and its control rows for the time.
    """
    if not takes_any(log):
        return None
    version = tables.newest_version(log.spark, log.silver)
    merged_at = last_merged(log.spark, log.silver, version)
    return None if merged_at is None else _where_due(log, version, log_end(log), merged_at=merged_at, now=now, moved=False)


def takes_any(log: TopicLog) -> bool:
    """Whether the topic is configured to take snapshots by itself."""
    return bool(log.config.number("max.snapshot.interval.ms") or log.config.number("max.record.bytes.between.snapshots"))


def _where_due(log: TopicLog, version: int, end: LogEnd, *, merged_at: int, now: int, moved: bool = True) -> Snapshot | None:
    """The snapshot of silver at a version, where one was due when it was merged; without ``moved`` none at the end offsets of the last one."""
    interval, octets = log.config.number("max.snapshot.interval.ms"), log.config.number("max.record.bytes.between.snapshots")
    state = stored(log.spark, log.silver, version)
    last = newest(registry.entries(log.spark, log.root, log.uuid), end)
    before = last.id.ends if last is not None else {index: tail.state.origin for index, tail in end.tails.items()}
    if not moved and state.next == before:
        return None
    since = last.created if last is not None else extent.created_at(log)
    held = extent.octets_between(log, before, state.next) if octets else 0
    if not is_due(since_ms=merged_at - since, octets=held, interval_ms=interval, most_octets=octets):
        return None
    return take(log, state, version, end, name=None, keep=None, note=None, now=now, automatic=True)


def newest(held: Sequence[Entry], end: LogEnd) -> Entry | None:
    """The newest snapshot on the log's present history: the greatest id among those whose records the log once gave as they are."""
    states = {index: tail.state for index, tail in end.tails.items()}
    here = [
        one for one in held
        if all(is_on(states[index].epochs, one.id.epoch, stop, forgotten=states[index].forgotten) for index, stop in one.id.ends.items())
    ]  # fmt: skip
    return max(here, key=lambda one: (one.id.order, one.created), default=None)


def at_version(log: TopicLog, version: int) -> Progress:
    """What silver's control rows said at a version. Cost: two small Spark jobs over one small file."""
    with tables.door(log.silver):
        return stored(log.spark, log.silver, version)
