"""A restore: silver as it was at a snapshot, and the log cut to it (``truncate``) or left to be replayed (``keep``); all or nothing.

The intent is written first: appends under way conflict with it, later ones are refused, and whoever writes next finishes what was cut off. Then:
quarantine (requeues that were cut off are closed first), bronze, silver (without the keys that were erased since), silver's properties and columns,
the fence in silver's control rows, close. Each step passes over its finished result.

Silver is brought back by a RESTORE, which reads and writes no rows. Where that would remove commits that a kept snapshot needs, since the state had a
shorter retention (`keeping.loses_nothing`), its rows are written anew instead, in one commit, as those of a snapshot with a table of its own are.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lakelog.delta import past, table_properties, tables
from lakelog.errors import Conflict, Damaged, NotFound
from lakelog.latest import erased, evolution, silver, upsert
from lakelog.latest.progress import Progress, progress, stored
from lakelog.log import batch_rows, inspection, state
from lakelog.log.batch_rows import Lost
from lakelog.log.cut import Cut, cut
from lakelog.log.tail import LogEnd, log_end
from lakelog.model.log_state import RESTORE, Intent
from lakelog.model.topic_log import TopicLog
from lakelog.quality import quarantine, requeue
from lakelog.snapshots import epochs, keeping
from lakelog.snapshots.plan import KEEP, Target, control_of, copy_name, copy_table

ATTEMPTS = 20


@dataclass(frozen=True)
class Order:
    """What an intent says of a restore: where the state is, what becomes of each partition's log, the new epoch (None: the log is kept).

    ``last``: partition to the epoch of the state's last record; ``taken``: the epoch of the state.
    """

    version: int
    copy: str | None
    cuts: Mapping[int, Cut]
    batches: Mapping[int, str]
    epoch: int | None
    last: Mapping[int, int]
    taken: int

    @classmethod
    def of(cls, intent: Intent) -> Order:
        """The order that an intent holds."""
        said = intent.arguments
        cuts = {int(index): Cut(*numbers) for index, numbers in said["cuts"].items()}
        batches = {int(index): batch for index, batch in said["batches"].items()}
        last = {int(index): epoch for index, epoch in said.get("last", {}).items()}
        return cls(said["version"], said["copy"], cuts, batches, said["epoch"], last, said.get("taken", 0))

    def to_arguments(self) -> dict[str, Any]:
        """The order as an intent holds it."""
        cuts = {str(index): [one.leave, one.drop, one.start, one.end] for index, one in sorted(self.cuts.items())}
        batches = {str(index): batch for index, batch in sorted(self.batches.items())}
        last = {str(index): epoch for index, epoch in sorted(self.last.items())}
        return {
            "version": self.version, "copy": self.copy, "cuts": cuts, "batches": batches, "epoch": self.epoch, "last": last, "taken": self.taken,
        }  # fmt: skip


def order_of(target: Target, cuts: Mapping[int, Cut], epoch: int | None) -> Order:
    """The order to restore a state: with ``cuts`` and a new epoch, or without either where the log is kept."""
    last = {index: mark.epoch for index, mark in target.state.marks.items()}
    return Order(target.version, copy_name(target.place), cuts, target.state.batches, epoch, last, target.id.epoch)


def begin(
    log: TopicLog, target: Target, cuts: Mapping[int, Cut], end: LogEnd, *, mode: str, damaged: bool = False, now: int, more: Lost = ()
) -> Intent | None:  # fmt: skip
    """Write the intent into every partition of the log. Returns None when the log changed meanwhile, then nothing was written.

    Args:
        log: the topic's log.
        target: the state to be restored.
        cuts: what becomes of each partition's log; none for ``keep``.
        end: the log's end that all this was decided on.
        mode: ``truncate`` or ``keep``.
        damaged: the log was restored, or records of it deleted, by hand; this ends that: appends get their batch rows back, and what is missing
            counts as removed.
        now: the time in milliseconds.
        more: batch rows that are written again with it.

    Cost: where it is ``damaged`` two passes over the log's offsets; a small file per partition.
    """
    epoch = None if mode == KEEP else 1 + (epochs.greatest(log, end) if damaged else end.epoch)
    intent = Intent(RESTORE, uuid.uuid4().hex, order_of(target, cuts, epoch).to_arguments())
    states = {index: tail.state.next(intent.id, intent=intent) for index, tail in end.tails.items()}
    if damaged:
        missing, more = inspection.missing(log), batch_rows.lost(log, {})
        for index, tail in end.tails.items():
            # What a RESTORE by hand took away, or brought back, somebody may have read otherwise.
            states[index] = replace(states[index], forgotten=tail.end)
            if index in missing:
                states[index] = replace(states[index], cleaned=tail.end, deletes_from=tail.end)
    written = state.change_state(log, end, states, "repair" if damaged else "intent", now=now, more=more)
    return intent if written else None


def carry_out(log: TopicLog, end: LogEnd, intent: Intent, *, now: int) -> None:
    """Finish a restore that was begun; several processes may do so at once.

    Raises:
        Damaged: silver cannot be brought back, since files of the snapshot were removed; the remedy is named.
        Conflict: other writers were first again and again.
    """
    order = Order.of(intent)
    if order.epoch is not None and end.epoch < order.epoch:
        # Their records are quarantined as RESTORED: what they were made of is not to be requeued once more.
        requeue.close_appended(log, now=now)
        leave = {index: one.leave for index, one in order.cuts.items() if one.leave < end.tails[index].end}
        quarantine.put(log, leave, before=order.epoch, source=f"restore {intent.id}", now=now)
        _cut(log, order, intent, end, now=now)
    state.close(log, intent, now=now, known=_bring_back(log, order, intent, end, now=now))


def _cut(log: TopicLog, order: Order, intent: Intent, known: LogEnd, *, now: int) -> None:
    """Bronze: what lies beyond goes, a new epoch begins at the end, in a segment of its own."""
    assert order.epoch is not None
    for _ in range(ATTEMPTS):
        end = log_end(log, known=known)
        if end.intent is None or end.intent.id != intent.id or end.epoch >= order.epoch:
            return
        identity, states, ends = uuid.uuid4().hex, {}, []
        for index, one in sorted(order.cuts.items()):
            before = end.tails[index].state
            # A mirror whose source began above the snapshot's end begins at that end: it holds nothing below.
            kept = {name: min(getattr(before, name), one.end) for name in ("cleaned", "deletes_from", "records_from", "origin")}
            if one.anew and index in order.last:
                states[index] = before.begun_anew(
                    identity, one.end, number=order.epoch, last=order.last[index], taken=order.taken, intent=intent, **kept
                )
            else:
                states[index] = before.next_epoch(identity, one.end, number=order.epoch, intent=intent, start=one.start, **kept)
            if one.end > one.start:
                batch = order.batches.get(index, intent.id)
                ends.append(batch_rows.row(index, one.end, one.end - 1, before.epoch_at(one.end - 1), 0, batch))
        if cut(log, end, states, order.cuts, ends, order.last, now=now):
            return
    raise Conflict(f"{log.name}: other writers kept the log from being cut. Try again: any writing command goes on with the restore.")


def _bring_back(log: TopicLog, order: Order, intent: Intent, known: LogEnd, *, now: int) -> LogEnd:
    """Silver: as it was, with the properties and columns that the topic has now, and fenced. Gives the log's end as it was seen last."""
    for _ in range(ATTEMPTS):
        # Silver before the intent: while that is open, nobody has gone on from a finished restore, so all that comes after one is of a later version.
        version = _version(log)
        end = log_end(log, known=known)
        if _restored(log) == intent.id or end.intent is None or end.intent.id != intent.id:
            return end
        try:
            wanted = _wanted(log, order)
            anew = order.copy is None and not keeping.loses_nothing(log, order.version, now=now)
            # Rows that are written anew stand under the retention that silver has; that of a state where a RESTORE was cut off.
            if anew and keeping.raise_for(log, [], now=now):
                continue
            if not stands(log, version, _overwrite(log, order, anew=anew), now=now):
                continue
            erased.sweep(log.spark, log.silver, log.uuid, erased.entries(log.spark, log.root, log.uuid))
            properties = {**silver.table_settings(log), **silver.delta_properties(log.config, keeping.kept_ms(log, now=now))}
            held = table_properties.read(log.spark, log.silver) or {}
            if any(held.get(name) != text for name, text in properties.items()):
                table_properties.change(log.spark, log.silver, properties)
            evolution.reconcile(log, tables.read(log.spark, log.silver).schema)
            # A merge that knew silver as it now is may have come in between: it is undone by the next round.
            if upsert.write_progress(log, wanted, wanted.restored(intent.id), now=now):
                return end
        except Conflict as error:
            if error.name != Conflict.name:
                raise
        except (NotFound, Damaged) as error:
            raise Damaged(
                f"{log.name}: a restore was begun, and silver's version {order.version} cannot be brought back, its files were removed: {error} Run"
                " verify with repair: it gives that restore up, and computes the latest table anew.", version=order.version,
            ) from error  # fmt: skip
    raise Conflict(f"{log.name}: other writers kept silver from being restored. Try again: any writing command goes on with it.")


def _version(log: TopicLog) -> int:
    """Silver's version; -1 where it is gone."""
    try:
        return tables.newest_version(log.spark, log.silver)
    except NotFound:
        return -1


def stands(log: TopicLog, before: int, made: int | None, *, now: int) -> bool:
    """Whether the commit that brought silver back follows the version that was looked at. Else it is taken back: another came first.

    Delta has no condition for a RESTORE. What came first may be a merge after the restore, which somebody else has finished. So may what comes
    before this one is taken back: then that is taken back in turn, until nothing stood between.
    """
    own: list[int] = []
    while made is not None and made != before + 1:
        own.append(made)
        before, made = made, _back_to(log, made - 1, anew=not keeping.loses_nothing(log, made - 1, now=now))
    if not own:
        return True
    settle(log, [*own, made], now=now)
    return False


def settle(log: TopicLog, restores: Sequence[int | None], *, now: int) -> None:
    """Write silver's control rows anew, as they are, after RESTOREs of lakelog's: nobody takes these for RESTOREs by hand.

    Unless the state that is there again was brought back by hand.
    """
    held = progress(log, from_rows=True, passing_over=[version for version in restores if version is not None])
    upsert.write_progress(log, held, held, now=now)


def _restored(log: TopicLog) -> str | None:
    try:
        return progress(log, from_rows=True).restore
    except Damaged:
        return None


def _wanted(log: TopicLog, order: Order) -> Progress:
    """What the control rows of the state say."""
    copy = copy_table(log, order.copy)
    return stored(log.spark, copy) if copy is not None else control_of(log, past.pinned(log.spark, log.silver, order.version))


def _overwrite(log: TopicLog, order: Order, *, anew: bool) -> int | None:
    """Silver as the state was, as `_back_to` where that is a version of it; the version of the commit."""
    copy = copy_table(log, order.copy)
    if copy is None:
        return _back_to(log, order.version, anew=anew)
    rows = tables.read(log.spark, copy)
    try:
        return tables.overwrite(rows, log.silver, partitioned_by=("bucket",))
    except NotFound:
        return tables.create(rows, log.silver, partitioned_by=("bucket",), properties=silver.table_settings(log))


def _back_to(log: TopicLog, version: int, *, anew: bool) -> int | None:
    """Silver as it was at a version, by a RESTORE, or ``anew``: its rows are read and written once. The version of the commit, as `past.restore`."""
    if anew:
        return past.rewrite(log.spark, log.silver, version, partitioned_by=("bucket",))
    return past.restore(log.spark, log.silver, version)
