"""A key erased: from log, silver, quarantine, copies of snapshots, verdicts and reports of runs; by its digest, so that no table names it again.

The intent is written first: appends under way conflict with it, and whoever writes next finishes what was cut off. Then: the list of erased keys
(`lakelog.latest.erased`), which every restore, import and requeue consults; named snapshots that hold the key become tables of their own
without it; silver, fenced, so that no merge that knew the key can commit; the log, whose state says first that records will be missing;
quarantine, verdicts and runs (`quotes`); close. Each step passes over its finished result. The old files stay until their retention is over
(`lakelog.cleaning.receipt`).
"""

from __future__ import annotations

import itertools
import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lakelog.delta import frames, past, table_properties, tables
from lakelog.delta.statement import interpreted
from lakelog.errors import Conflict
from lakelog.inputs import keys
from lakelog.inputs.keys import NamedKey
from lakelog.latest import erased, merge, upsert
from lakelog.latest.erased import Erasure, digest_sql, text_digest
from lakelog.latest.progress import progress
from lakelog.log import cut, state
from lakelog.log.notes import note
from lakelog.log.tail import LogEnd, log_end
from lakelog.model.json_values import plain
from lakelog.model.log_state import ERASE, Intent
from lakelog.model.names import TableRef, key_text
from lakelog.model.topic_log import TopicLog
from lakelog.operations import quotes
from lakelog.quality import quarantine, verdicts
from lakelog.snapshots import maintain, point, registry, take
from lakelog.snapshots.registry import Entry

ATTEMPTS = 20
AGAIN = "Try again: any writing command goes on with the erasure."


@dataclass(frozen=True)
class Target:
    """What is erased: the digest of the key, and those of the texts by which verdicts and reports quote it."""

    digest: str
    quoted: tuple[str, ...]

    @classmethod
    def of(cls, log: TopicLog, key: NamedKey) -> Target:
        """The target of a key that somebody names. Cost: one Spark job over one row."""
        spelled = _spellings(key.value)
        rows = keys.frame(log.spark, spelled, key.kind)
        with interpreted(log.spark):
            found = rows.selectExpr(f"{digest_sql(log.uuid, key.kind)} AS digest", "to_json(struct(key)) AS text").collect()
        texts = {key_text(row["text"]) for row in found}
        texts |= {write(plain(one, key.kind)) for one in spelled for write in (json.dumps, str)}
        return cls(found[0]["digest"], tuple(sorted(text_digest(log.uuid, text) for text in texts)))

    @classmethod
    def of_intent(cls, intent: Intent) -> Target:
        """The target that an intent names."""
        return cls(intent.arguments["digest"], tuple(intent.arguments["quoted"]))


def _spellings(value: Any) -> list[Any]:
    """A key in all its spellings that are one key to the fold: each 0.0 in it as -0.0 too."""
    from pyspark.sql import Row

    if isinstance(value, Row):
        fields = value.asDict()
        return [Row(**dict(zip(fields, one, strict=True))) for one in itertools.product(*map(_spellings, fields.values()))]
    return [0.0, -0.0] if isinstance(value, float) and value == 0 else [value]


@dataclass(frozen=True)
class Found:
    """Where a key is: records of the log by partition, (count, last offset); rows of silver, how many of them live; of the quarantine.

    ``verdicts``: rules whose verdict quotes it, or may; ``runs``: runs whose report does. ``snapshots``: names (ids) of those that hold it
    and can be edited or promoted, ``copies``: their own tables. ``unread``: rows of the quarantine that are no records, which may quote it unseen.
    """

    log: Mapping[int, tuple[int, int]]
    silver: int
    live: int
    quarantine: int
    verdicts: int
    runs: int
    snapshots: tuple[str, ...]
    copies: tuple[str, ...]
    unread: int

    @property
    def records(self) -> int:
        """Records in the log."""
        return sum(count for count, _ in self.log.values())

    @property
    def in_tables(self) -> bool:
        """Whether there are records or rows of the key: what else there is quotes it, or may."""
        return bool(self.log or self.silver or self.quarantine or self.snapshots)


def find(log: TopicLog, target: Target) -> Found:
    """Look for a key everywhere. Cost: the keys of log, silver, quarantine and each named snapshot or copy are read once, holders as a whole.

    Raises:
        Damaged: a snapshot that holds it cannot be read as a whole: begun, an erasure that has to copy it could not be finished.
    """
    from pyspark.sql import functions as F

    hit = F.expr(f"{digest_sql(log.uuid, log.types.key)} = '{target.digest}'")
    records = _in_log(log, target)
    with tables.door(log.silver):
        rows = tables.read(log.spark, log.silver).filter((F.col("bucket") >= 0) & hit)
        held = frames.sums(rows, held=F.lit(1), live=F.when(~F.col("tombstone"), 1).otherwise(0))
    aside = {"held": 0, "unread": 0}
    if quarantine.exists(log):
        with tables.door(log.quarantine):
            unread = F.col("key").isNull() & F.col("raw").isNotNull()
            aside = frames.sums(
                tables.read(log.spark, log.quarantine), held=F.when(hit, 1).otherwise(0), unread=F.when(unread, 1).otherwise(0)
            )
    told = quotes.find(log, target.quoted)
    holding = _holding(log, target)
    for one in holding:
        point.require_whole(log, one)
    shots = tuple(sorted(one.name or one.id.text for one in holding))
    own = tuple(sorted({one.copy for one in holding if one.copy is not None}))
    return Found(records, held["held"], held["live"], aside["held"], len(told.verdicts), len(told.runs), shots, own, aside["unread"])


def _in_log(log: TopicLog, target: Target) -> dict[int, tuple[int, int]]:
    from pyspark.sql import functions as F

    rows = tables.read(log.spark, log.table).filter((F.col("segment") >= 0) & F.col("control").isNull())
    found = rows.filter(f"{digest_sql(log.uuid, log.types.key)} = '{target.digest}'").groupBy("partition")
    with tables.door(log.table):
        counted = found.agg(F.count(F.lit(1)).alias("records"), F.max("offset").alias("last")).orderBy("partition").collect()
    return {row["partition"]: (row["records"], row["last"]) for row in counted}


def _holding(log: TopicLog, target: Target) -> list[Entry]:
    """The snapshots that hold the key and are kept by name, are copies, or are the newest, which always stays."""
    every = registry.entries(log.spark, log.root, log.uuid)
    newest = take.newest(every, log_end(log))
    entries = [one for one in every if one.name is not None or one.copy is not None or one is newest or one is every[-1]]
    known: dict[tuple[int, str | None], bool] = {}
    for one in entries:
        place = (one.version, one.copy)
        if place not in known:
            known[place] = point.holds(log, one, f"bucket >= 0 AND {digest_sql(log.uuid, log.types.key)} = '{target.digest}'")
    return [one for one in entries if known[(one.version, one.copy)]]


def begin(log: TopicLog, target: Target, copies: Sequence[str], end: LogEnd, *, now: int) -> Intent | None:
    """Write the intent, with the ``copies`` that hold the key, into every partition of the log. Returns None when the log changed meanwhile, then
    nothing was written.

    Raises:
        Damaged: silver's control rows are not as lakelog left them, or it was brought back by hand to before what the log still tells.
        Refused: silver was made under another rule (RULE_CHANGED): the rebuild needs a whole log, and an erasure leaves none.
    """
    state.require_writable(log, end)
    # A silver that does not know how far it is could not be fenced: refused here, before anything is written.
    held = progress(log, from_rows=True)
    merge.require_rule(log, held)
    merge.require_reached(log, held, end)
    intent = Intent(ERASE, uuid.uuid4().hex, {"digest": target.digest, "quoted": list(target.quoted), "copies": list(copies), "at": now})
    states = {index: tail.state.next(intent.id, intent=intent) for index, tail in end.tails.items()}
    return intent if state.change_state(log, end, states, "intent", now=now) else None


def carry_out(log: TopicLog, end: LogEnd, intent: Intent, *, now: int) -> None:
    """Finish an erasure that was begun; several processes may do so at once.

    Raises:
        Conflict: other writers were first again and again.
    """
    target = Target.of_intent(intent)
    # Nothing is appended while the intent is open: the ends are the same, whoever goes on.
    erasure = Erasure(log.uuid, intent.id, target.digest, end.epoch, end.ends(), intent.arguments["at"])
    erased.add(log.spark, log.root, erasure)
    held = erased.entries(log.spark, log.root, log.uuid)
    _snapshots(log, target, intent)
    _silver(log, intent, held, now=now)
    _log(log, target, intent, now=now)
    _others(log, target, intent)
    state.close(log, intent, now=now)


def _snapshots(log: TopicLog, target: Target, intent: Intent) -> None:
    """Snapshots that hold the key become tables of their own without it; the copies that held it go.

    Raises:
        Conflict: the registry changed again and again.
        Damaged: one cannot be read; it can be deleted all the same.
    """
    made: dict[tuple[int, str | None], str] = {}
    for _ in range(ATTEMPTS):
        stale = False
        for one in _holding(log, target):
            place = (one.version, one.copy)
            if place not in made:
                made[place] = maintain.copy_name(f"{one.uuid} {one.id.text} {one.version} {one.copy} {target.digest}")
            # It may be in another table, or of another state, or gone by now: looked at again.
            with point.naming(log, one):
                stale |= not maintain.own_table(log, one, made[place])
        if not stale:
            break
    else:
        raise Conflict(f"{log.name}: others kept the snapshots from being written. {AGAIN}")
    # Also those that were replaced before it was cut off: no snapshot leads to them any more. An older lakelog did not name them.
    for name in sorted({*intent.arguments.get("copies", ()), *(copy for _, copy in made if copy is not None)}):
        maintain.drop_copy(log, name)


def _silver(log: TopicLog, intent: Intent, held: list[Erasure], *, now: int) -> None:
    """Silver fenced, then without the key: a merge that knew silver as it was cannot commit any more."""
    for _ in range(ATTEMPTS):
        before = progress(log, from_rows=True)
        if before.restore != intent.id and not upsert.write_progress(log, before, before.restored(intent.id), now=now):
            continue
        try:
            erased.sweep(log.spark, log.silver, log.uuid, held, user_metadata=json.dumps({"lakelog": ERASE}))
            if log.config.flag("deletion.vectors"):
                past.purge(log.spark, log.silver)
            return
        except Conflict as error:
            if error.name != Conflict.name:
                raise
    raise Conflict(f"{log.name}: other writers kept silver from being written. {AGAIN}")


def _log(log: TopicLog, target: Target, intent: Intent, *, now: int) -> None:
    """The log: its state says that records will be missing, deletes too; then they go. Batch rows stay, so offsets and ends do."""
    for _ in range(ATTEMPTS):
        end, found = log_end(log, pin=True), _in_log(log, target)
        if not found or end.intent is None or end.intent.id != intent.id:
            return
        states = {
            index: end.tails[index].state.next(
                uuid.uuid4().hex, cleaned=max(end.tails[index].state.cleaned, last + 1), deletes_from=end.tails[index].end
            )
            for index, (_, last) in found.items()
            if end.tails[index].state.cleaned <= last or end.tails[index].state.deletes_from < end.tails[index].end
        }
        if states and not state.change_state(log, end, states, ERASE, now=now):
            continue
        # What was appended since is new, whoever finishes the erasure: it lies behind what was found, or is of a later epoch.
        places = " OR ".join(f"(partition = {index} AND offset <= {last})" for index, (_, last) in sorted(found.items()))
        where = f"partition IN ({', '.join(map(str, sorted(found)))}) AND ({places}) AND segment >= 0 AND epoch <= {end.epoch} AND control IS NULL"
        try:
            cut.remove(
                log, f"{where} AND {digest_sql(log.uuid, log.types.key)} = '{target.digest}'",
                user_metadata=note(ERASE, id=intent.id, checked=end.version, ends=end.ends()),
            )  # fmt: skip
            return
        except Conflict as error:
            if error.name != Conflict.name:
                raise
    raise Conflict(f"{log.name}: other writers kept the log from being written. {AGAIN}")


def _others(log: TopicLog, target: Target, intent: Intent) -> None:
    """Quarantine, verdicts and runs. What was put aside when another writer had finished the erasure is new: what was seen before goes alone."""
    from pyspark.sql import functions as F

    there = quarantine.exists(log)
    for _ in range(ATTEMPTS):
        held = quarantine.rows(log, at=tables.newest_version(log.spark, log.quarantine)) if there else None
        end = log_end(log, pin=True)
        if end.intent is None or end.intent.id != intent.id:
            return
        seen = None if held is None else held.filter(f"key IS NOT NULL AND {digest_sql(log.uuid, log.types.key)} = '{target.digest}'")
        with tables.door(log.quarantine):
            if seen is None or seen.isEmpty():
                break
        # Until there is none: an append that was begun before may have gone on with one meanwhile.
        quarantine.change(log, seen, "WHEN MATCHED AND t.outcome IS NULL AND t.attempt <=> s.attempt THEN DELETE", attempt=F.col("attempt"))
    else:
        raise Conflict(f"{log.name}: other writers kept the quarantine from being written. {AGAIN}")
    quotes.remove(log, target.quoted)


def unquote(log: TopicLog, target: Target) -> None:
    """Remove what quotes a key that was erased before, or may; nothing else holds it. Cost: that of `quotes.find`, and of what is to be written.

    Raises:
        Conflict: other writers were first again and again.
    """
    quotes.remove(log, target.quoted)


def stored_tables(log: TopicLog) -> dict[str, TableRef]:
    """The tables with the topic's records or keys: bronze, silver, and where there is one the quarantine."""
    held = {"log": log.table, "silver": log.silver}
    return {**held, "quarantine": log.quarantine} if quarantine.exists(log) else held


def vacuum(log: TopicLog, end: LogEnd) -> None:
    """Remove the old files whose retention is over, from every table of the topic and from the lake's verdicts and runs."""
    for table in stored_tables(log).values():
        past.vacuum(log.spark, table, user_metadata=note("maintain", checked=end.version, ends=end.ends()) if table == log.table else None)
    for table in (verdicts.table_of(log.root), quotes.runs_of(log.root)):
        if table_properties.read(log.spark, table) is not None:
            past.vacuum(log.spark, table)
