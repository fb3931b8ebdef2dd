"""The verbs of a topic on its snapshots; `lakelog.topic.Topic` has them all."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from lakelog.delta import tables
from lakelog.errors import Conflict, Damaged, InvalidRequest
from lakelog.latest.progress import progress
from lakelog.log.notes import WHOLE_HISTORY, foreign_commits, since_repair
from lakelog.log.state import require_writable
from lakelog.log.tail import LogEnd, log_end, true_end
from lakelog.model import positions
from lakelog.model.log_state import ERASE, RESTORE
from lakelog.model.snapshot_id import Keep, check_name, expired, keep_ms
from lakelog.model.topic_log import TopicLog
from lakelog.results import Maintained, Merged, Restored, Snapshot, SnapshotDeleted
from lakelog.snapshots import maintain, plan, point, registry, restore, take
from lakelog.snapshots.point import Point
from lakelog.snapshots.registry import Entry

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LOGGER = logging.getLogger("lakelog")
ATTEMPTS = 10
# So many commits are looked at for other writers.


class SnapshotVerbs:
    """What `Topic` does with snapshots."""

    name: str
    clock: Callable[[], int]

    if TYPE_CHECKING:

        @property
        def log(self) -> TopicLog: ...  # noqa: D102 - Topic has them
        def refresh(self) -> None: ...  # noqa: D102
        def merge(self) -> Merged: ...  # noqa: D102
        def _ready(self, *, pin: bool = False) -> LogEnd: ...
        def _reached(self) -> dict[str, dict[int, int]]: ...

    def snapshot(self, name: str | None = None, *, keep: Keep = None, note: str | None = None, at: Point = None) -> Snapshot:
        """Merge, then make the merged state a snapshot: it can be queried (``latest(at=…)``), compared (`diff`) and restored.

        Writers go on meanwhile; the snapshot ends on whole commits. Its id are the end offsets of all partitions and the epoch. Where one of
        that id is there nothing is created, and it is answered, under the name that is asked for.

        Args:
            name: letters, digits, ``.``, ``_`` and ``-``, beginning with a letter. Without one, retention may remove the snapshot
                (``snapshot.retention.ms``, ``snapshot.retention.count``); the newest always stays.
            keep: until when the name is kept, from now: ``90 days``, ``12 hours``, ``2 weeks``, ``forever``, a timedelta or milliseconds;
                ``snapshot.retention.ms`` where it is not given. Until then it can be read and restored, whatever Delta's retention is.
            note: a text for people.
            at: do not merge, but take this earlier state: a version of silver or a time.

        Raises:
            InvalidRequest: the name or the keep is none; nothing was merged.
            Refused: the name is another snapshot's (SNAPSHOT_EXISTS), or the log begins above the state (SNAPSHOT_BELOW_LOG_START).
            NotFound: silver has no such version any more, or files of it were removed.
            Damaged: that version is the latest table of another log.
            What `merge` raises; then there is no snapshot.

        Cost: a merge, one small Spark job over silver's control rows, for a name one over the registry before the merge, and a small commit on
        the registry; it does not grow with the number of keys. A keep beyond silver's retention is one commit on silver more. (KIP-630;
        SEMANTICS 82-88)
        """
        kept = keep_ms(keep)
        if name is not None:
            check_name(name)
        if at is None and name is not None:
            self._ready()  # the log of a topic that was made anew is another one
            take.require_free(self.log, name, self._ready)
        for attempt in range(ATTEMPTS):
            if at is None:
                self.merge()
                end = self._ready()
                state = progress(self.log, from_rows=attempt > 0)
                version = state.version
            else:
                end = self._ready()
                version = point.find(self.log, at).version
                state = take.at_version(self.log, version) if version is not None else progress(self.log)
                version = state.version if version is None else version
                if state.uuid != self.log.uuid:
                    raise Damaged(
                        f"{self.name}: version {version} of {self.log.silver} is the latest table of another log. Nothing was created. Name a"
                        " later version, or none: then the present state is taken.", expected=self.log.uuid, actual=state.uuid,
                    )  # fmt: skip
            if version is not None and state.uuid == self.log.uuid:
                break
        else:
            raise Conflict(f"{self.name}: other merges kept the snapshot from being taken. Nothing was created; try again.")
        earlier = at is not None
        taken = take.take(self.log, state, version, end, name=name, keep=kept, note=note, now=self.clock(), earlier=earlier)
        maintain.leave_out_erased(self.log, name)
        LOGGER.info("%s: snapshot %s %s", self.name, taken.name or taken.id, "taken" if taken.created else "was there")
        return taken

    def snapshots(self) -> list[Snapshot]:
        """The topic's snapshots, lowest epoch first, then lowest end offsets. Cost: one small Spark job over the lake's registry."""
        self.refresh()
        held = registry.listed(registry.entries(self.log.spark, self.log.root, self.log.uuid))
        return [one.result(self.log.root) for one in held]

    def latest_snapshot(self) -> Snapshot | None:
        """The newest snapshot on the log's present history; None where there is none. Cost: as `snapshots`, and the log's end."""
        held = registry.listed(registry.entries(self.log.spark, self.log.root, self.log.uuid))
        found = take.newest(held, log_end(self.log)) if held else None
        return None if found is None else found.result(self.log.root)

    def describe_snapshot(self, name: str) -> Snapshot:
        """One snapshot, by its name or id, or ``latest`` or ``earliest`` in the order of the list. Cost: as `snapshots`.

        Raises:
            NotFound: there is none (SNAPSHOT_NOT_FOUND); lists what there is.
        """
        self.refresh()
        return point.named(self.log, name).result(self.log.root)

    def delete_snapshot(self, name: str | Snapshot, *, dry_run: bool = False) -> SnapshotDeleted:
        """Delete a snapshot by its name or id; the state stays readable as a version of silver for as long as Delta keeps that.

        Args:
            name: its name or id, or ``latest`` or ``earliest``; or what `describe_snapshot` answered: then that one alone. Of the same end offsets
                or name there may be another one since.
            dry_run: say what would be deleted, and change nothing.

        Raises:
            NotFound: there is none (SNAPSHOT_NOT_FOUND); lists what there is.

        Gives: what was deleted, with a ``warning`` where no other snapshot holds what the log no longer does: then nobody can recompute the latest
        table (`Topic.verify`) until the next snapshot is taken.

        Cost: a look at the registry, a small commit on it; a copy's files go with the next `maintain`.
        """
        self.refresh()
        entry = point.same(self.log, name) if isinstance(name, Snapshot) else point.named(self.log, name)
        end = log_end(self.log)
        # A restore that was cut off may need it; an erasure needs none, and cannot be finished while it has to copy one that cannot be read.
        if not dry_run and (end.intent is None or end.intent.operation != ERASE):
            end = self._ready()
        warning = self._stands_on(entry, end)
        if not dry_run:
            registry.remove(self.log.spark, self.log.root, [entry])
        return SnapshotDeleted(self.name, entry.id.text, entry.name, dry_run, warning)

    def expire_snapshots(self, *, dry_run: bool = False) -> list[SnapshotDeleted]:
        """Delete the snapshots whose time is over: names whose keep has ended, others by ``snapshot.retention.ms`` and ``.count``.

        The newest on the log's present history always stays. The log start does not move. (SEMANTICS 91)

        Cost: as `latest_snapshot`, then a small commit on the registry where any goes.
        """
        self.refresh()
        held = registry.entries(self.log.spark, self.log.root, self.log.uuid)
        if not held:
            return []
        config, newest = self.log.config, take.newest(held, log_end(self.log))
        keys = expired(
            [one.kept for one in held], newest.key if newest else None, now=self.clock(),
            retention_ms=config.number("snapshot.retention.ms"), count=config.number("snapshot.retention.count"),
        )  # fmt: skip
        gone = [one for one in held if one.key in keys]
        if gone and not dry_run:
            registry.remove(self.log.spark, self.log.root, gone, as_known=True)
            # What was kept longer meanwhile, by another caller, stays.
            stays = {(one.key, one.created) for one in registry.entries(self.log.spark, self.log.root, self.log.uuid)}
            gone = [one for one in gone if (one.key, one.created) not in stays]
        return [SnapshotDeleted(self.name, one.id.text, one.name, dry_run) for one in gone]

    def _stands_on(self, entry: Entry, end: LogEnd) -> str | None:
        """What to say where records are gone from the log, and this snapshot alone holds them."""
        states = {index: tail.state for index, tail in end.tails.items()}
        gone = next((one.gone for one in states.values() if one.lacks), None)
        if gone is None:
            return None
        held = registry.entries(self.log.spark, self.log.root, self.log.uuid)
        others = [point.place_of(one) for one in held if one.key != entry.key]
        if positions.covering(states, end.ends(), others) or not positions.covering(states, end.ends(), [point.place_of(entry)]):
            return None
        return (
            f"{gone}, and no other snapshot holds them: verify cannot recompute the latest table, nor repair compute it anew, until the next one is"
            " taken"
        )

    def maintain(self) -> Maintained:
        """Keep the topic's tables in shape; again, and little is done. Writers and readers go on meanwhile.

        Snapshots whose time is over are removed (`expire_snapshots`). Small files of closed segments and of silver are written together. Snapshots
        that have outlived ``snapshot.retention.ms`` get tables of their own. Then old files are vacuumed, with the retention that the kept
        snapshots need, whatever it was before: never past one. The lake's own tables (``_lakelog/runs`` and so on) get a small file from every run,
        verdict and registered position; where they have many, those are written together too, whichever topic is maintained.

        Raises:
            Conflict: another writer touched the same files; what was done stands, the next call goes on.

        Cost: files smaller than Delta's target are written once; all files of the tables are listed; a copy is as large as its snapshot.
        """
        end = self._ready()
        gone = [one.name or one.id for one in self.expire_snapshots()]
        done = maintain.maintain(self.log, end, gone, now=self.clock())
        LOGGER.info("%s: maintained, expired %s, promoted %s", self.name, done.expired, done.promoted)
        return done

    def diff(self, before: Point, after: Point = None) -> DataFrame:
        """The keys that were added, changed or removed between two points: snapshots, versions of silver, times; ``after`` None is now.

        Columns: ``partition``, ``key``, ``change``, ``before`` and ``after`` (the values, NULL where there was no row), ``before_offset``,
        ``after_offset``. In no order. A key whose record was replaced by one with an equal value did not change.

        Raises:
            NotFound: one of the points cannot be read any more (SNAPSHOT_NOT_FOUND). That its files are no more is seen when rows are asked for,
                within `reading` of both points.

        Cost: two reads of silver and one join by key, when rows are asked for.
        """
        self.refresh()
        return point.diff(self.log, before, after)

    def restore(self, to: Point, *, log: str = plan.TRUNCATE, dry_run: bool = False, unless_there: bool = False) -> Restored:
        """Bring the latest table back to a snapshot, a version of silver or a time; all or nothing.

        ``truncate``: the records beyond it leave the log and are kept in quarantine (reason RESTORED), the log ends where the snapshot does, and
        a new epoch begins, which fences writers and readers of the old one. A partition whose log no longer holds every row of the snapshot
        starts anew there. ``keep``: only the latest table is rewound; the next merge replays the log. Configuration and types are not rewound,
        other snapshots stay. Tokens of records that leave the log are forgotten: their batches may be appended again.

        An intent is written first. Cut off anywhere, the next writing verb of anybody finishes it; reading verbs tell of it in `status`.

        Args:
            to: the snapshot's name or id, or what `snapshot` answered; a version of silver; a time.
            log: ``truncate`` or ``keep``.
            dry_run: tell what it would do, and change nothing.
            unless_there: do nothing where the topic is as a restore to it left it, and nothing was appended since (``repeated``).

        Raises:
            NotFound: there is no such snapshot, or its files are no more (SNAPSHOT_NOT_FOUND).
            Refused: it was made under another ordering rule (RULE_CHANGED); the remedy is named.
            OffsetOutOfRange: ``keep``, and the log starts above the snapshot's end.
            LogIncomplete: ``keep``, and deletes beyond the snapshot have left the log, or the log's records are not those it was made of.
            Damaged: another writer changed the log. A RESTORE or a DELETE by hand is ended by ``truncate``, not by ``keep``.
            Conflict: other writers were first again and again.
            After any of them nothing was changed.

        Cost: lists of files and control rows; the records that leave the log are copied, those to be replayed are counted. It does not grow with
        the number of keys, unless the log was cleaned (then offsets are compared), the snapshot is a copy, or silver had a shorter retention at that
        version than what is kept now needs (then its rows are written anew). A dry run compares the two states key by key. (SEMANTICS 99, 102, Q19)
        """
        if log not in (plan.TRUNCATE, plan.KEEP):
            raise InvalidRequest(f"log={log!r}: it is truncate or keep. Nothing was changed.")
        for _ in range(ATTEMPTS):
            end, damaged = self._restorable(log, dry_run=dry_run)
            target = plan.target_of(self.log, to)
            cuts = {} if log == plan.KEEP else plan.cuts(self.log, target, end, damaged=damaged)
            if log == plan.KEEP:
                plan.require_replay(self.log, target, end)
            report = plan.report(self.log, target, cuts, end, self._reached(), mode=log)
            if unless_there and not damaged and plan.is_there_already(self.log, target, end):
                return replace(report, epoch=end.epoch, repeated=True, dry_run=dry_run)
            if log == plan.KEEP:
                report = plan.with_replay(self.log, target, end, report)
            if dry_run:
                return plan.counted(self.log, target, cuts, report)
            intent = restore.begin(self.log, target, cuts, end, mode=log, damaged=damaged, now=self.clock())
            if intent is not None:
                restore.carry_out(self.log, log_end(self.log), intent, now=self.clock())
                LOGGER.info("%s: restored to %s, log %s", self.name, report.to, log)
                return replace(report, epoch=intent.arguments["epoch"] or report.epoch)
        raise Conflict(f"{self.name}: other writers were first {ATTEMPTS} times in a row. Nothing was changed; try again later.")

    def _restorable(self, log: str, *, dry_run: bool) -> tuple[LogEnd, bool]:
        """The log's end, and whether it was restored, or records of it deleted, by hand, which a truncating restore ends: it begins a new epoch."""
        try:
            if not dry_run:
                return self._ready(pin=True), False
            self.refresh()
            end = log_end(self.log, pin=True)
        except Damaged as error:
            foreign = foreign_commits(since_repair(tables.history(self.log.spark, self.log.table, WHOLE_HISTORY)))
            # Records that were deleted are told by the rows; what else was written has no place in the log.
            if log == plan.KEEP or any(row["operation"].upper() != "DELETE" for row in foreign):
                raise
            self.refresh()
            end = true_end(self.log, error)
            # A restore that cannot be finished, since its snapshot is gone, gives way to this one.
            if end.intent is not None and end.intent.operation != RESTORE:
                raise
            return end, True
        require_writable(self.log, end)
        return end, False
