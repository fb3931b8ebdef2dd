"""The verbs of a topic on its log's size; `lakelog.topic.Topic` has them all."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from lakelog.arguments import check_whole
from lakelog.cleaning import clean, explain, retention
from lakelog.cleaning.receipt import receipt
from lakelog.cleaning.roll import is_old, roll, rolled
from lakelog.cleaning_results import Cleaned, Erased, Explained, RecordsDeleted, Rolled, WhatIf, still_overdue_ms
from lakelog.delta.table_properties import PREFIX
from lakelog.errors import Conflict, InvalidRequest
from lakelog.inputs.keys import named
from lakelog.latest import erased
from lakelog.latest.progress import Progress, progress
from lakelog.log.tail import LogEnd, log_end
from lakelog.model.config import SETTINGS, TopicConfig
from lakelog.model.topic_log import TopicLog
from lakelog.operations import erase as operation
from lakelog.operations.truncate import Held
from lakelog.results import Merged, SnapshotDeleted
from lakelog.snapshots import keeping
from lakelog.transfer import exports

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ATTEMPTS = 10
LOGGER = logging.getLogger("lakelog")


class CleaningVerbs:
    """What `Topic` does to keep its log small."""

    name: str
    root: str
    spark: SparkSession
    config: TopicConfig
    clock: Callable[[], int]
    partitions: int
    lake_defaults: Callable[[], Mapping[str, str]]
    _stored: dict[str, str]

    if TYPE_CHECKING:

        @property
        def log(self) -> TopicLog: ...  # noqa: D102 - Topic has them
        @property
        def uuid(self) -> str: ...  # noqa: D102
        def refresh(self) -> None: ...  # noqa: D102
        def merge(self) -> Merged: ...  # noqa: D102
        def expire_snapshots(self) -> list[SnapshotDeleted]: ...  # noqa: D102
        def _ready(self, *, pin: bool = False) -> LogEnd: ...
        def _end_for(self, *, dry_run: bool) -> LogEnd: ...
        def _held(self) -> Held: ...

    def plan_cleaning(self, *, force: bool = False, max_bytes: int | None = None, roll_idle: bool = False) -> Cleaned:
        """What `clean` would do now, as a value; nothing is written.

        What is not merged yet is folded in memory, and with ``roll_idle`` idle segments that are old enough count as closed, so that the plan is
        the one that a clean carries out after its merge.

        Gives and raises as `clean`; ``dry_run`` is True. Cost: as the reading half of a merge of what waits, then as the plan of `clean`.
        """
        check_whole("max_bytes", max_bytes, least=1)
        self.refresh()
        log, now = self.log, self.clock()
        state = progress(log)
        end = log_end(log, pin=True)
        if roll_idle:
            end = rolled(end, lambda tail: is_old(tail, log.config.roll_ms(), now))
        moves = retention.moves(log, end, self._held(), now=now)
        rows = clean.winners_of(log, state, end, ahead=True)
        made = clean.plan(log, end, rows, end.ends(), starts=moves.starts, force=force, max_bytes=max_bytes, now=now)
        retired = moves.retired(end.starts(), moves.starts)
        return made.result(self.name, dry_run=True, starts=end.starts(), retired=retired, errors={}, blocked=moves.blocked)

    def clean(self, *, dry_run: bool = False, force: bool = False, max_bytes: int | None = None, roll_idle: bool = False) -> Cleaned:
        """Remove from the log's closed segments what nobody needs any more: superseded records, expired tombstones, records without a key.

        What is not merged yet is merged first. Under ``cleanup.policy=delete`` old
        segments are dropped as a whole. Then each partition that is dirty enough (``min.cleanable.dirty.ratio``), or waited too long
        (``max.compaction.lag.ms``), is cleaned up to its active segment or the first that is too young (``min.compaction.lag.ms``): a record goes
        unless it is the latest of its key. The latest table, offsets, order and the log's end stay as they are. A tombstone that a clean keeps is
        given its horizon (``delete.retention.ms``), and a clean at or after that removes it from the log and the latest table; under rules with
        versions its version is remembered (``tombstone.version.retention.ms``). (Kafka's log cleaner; KIP-58, KIP-354, KIP-534; SEMANTICS 26-64)

        Args:
            dry_run: `plan_cleaning`.
            force: clean every partition, whatever its dirty ratio; the active segment and young ones stay all the same.
            max_bytes: octets of dirty segments that are cleaned at most, the dirtiest partitions first; one segment at least. Segments of these
                partitions that were cleaned before are not counted; they are written again where records of theirs were superseded since.
            roll_idle: close active segments older than ``segment.ms`` first. In Kafka, and here without it, only an append does, so that an idle
                partition keeps its last segment as it is (SEMANTICS 55); the command line and the jobs do it.

        Gives: by partition and segment whether it was cleaned, why not, and what went; what became of silver's tombstones.

        Raises:
            InvalidRequest: ``max_bytes`` is no whole number, or below 1.
            Conflict: other writers were first again and again, or changed the ordering rule meanwhile.
            A partition that fails is reported (``error``), the others are cleaned; the next clean goes on with it.

        Cost: a merge; two small Spark jobs over control rows and one over silver's flags. Where something goes: a small file per partition
        twice, one pass over those segments to count, one to write them again, 64 MB of records a commit, of any partitions; one MERGE on silver for its
        tombstones. Appends go on meanwhile, and may be told to try again while old segments are dropped. With nothing to do nothing is written.
        """
        if dry_run:
            return self.plan_cleaning(force=force, max_bytes=max_bytes, roll_idle=roll_idle)
        check_whole("max_bytes", max_bytes, least=1)
        known = self._ready(pin=True)
        while self.merge().remaining:
            pass
        log, now = self.log, self.clock()
        if roll_idle:
            roll(log, lambda tail: is_old(tail, log.config.roll_ms(), now), now=now)
            known = self._ready(pin=True)
        end = log_end(log, pin=True, known=known)
        before = end.starts()
        moves = retention.moves(log, end, self._held(), now=now)
        state = progress(log, from_rows=True)
        # What was appended since the merge is not in the latest table yet: its segments wait for the next clean.
        starts = {index: start if start <= state.next[index] else before[index] for index, start in moves.starts.items()}
        if starts != before or retention.lies_below(log, end):
            retention.move(log, end, starts, state.next, now=now)
            # In this order: what a restore does in between is told by the progress that is read after the log's end.
            end = log_end(log, pin=True)
            state = progress(log, from_rows=True)
        rows = clean.winners_of(log, state, end, ahead=False)
        made = clean.plan(log, end, rows, state.next, force=force, max_bytes=max_bytes, now=now)
        made, errors = clean.carry_out(log, made, rows, lambda: self._require_rule(log, state))
        retired = moves.retired(before, starts)
        done = made.result(self.name, dry_run=False, starts=before, retired=retired, errors=errors, blocked=moves.blocked)
        told = "%s: cleaned: %d records, %d past retention, %d tombstones expired, %d stamped"
        LOGGER.info(told, self.name, done.records, done.past_retention, done.expired, done.stamped)
        for index, error in errors.items():
            LOGGER.warning("%s: partition %d was not cleaned: %s", self.name, index, error)
        for one in done.partitions:
            if overdue := still_overdue_ms(vars(one)):
                told = "%s: compaction of partition %d is overdue for %d s (max.compaction.lag.ms), and was not done: %s"
                LOGGER.warning(told, self.name, one.partition, overdue // 1000, one.error or one.reason)
        return done

    def _require_rule(self, log: TopicLog, state: Progress) -> None:
        """Refuse to go on under another rule, or beside a latest table that was computed anew: other records are the latest in it.

        Raises:
            Conflict: the rule or the generation of the latest table is not as in ``log`` and ``state``.

        Cost: as `progress`.
        """
        self.refresh()
        found = progress(log)
        if {self.log.rule, found.rule} != {log.rule} or found.generation != state.generation:
            raise Conflict(
                f"{self.name}: the ordering rule was changed, or the latest table computed anew, while the clean was planned. No record was removed;"
                " clean again."
            )

    def roll(self) -> Rolled:
        """Close every partition's active segment that holds records, so that the next clean may clean it; the next append begins a new one.

        Raises:
            Conflict: other writers were first again and again; nothing was changed.

        Cost: a small file per partition in one commit; appends under way try again.
        """
        self._ready()
        return Rolled(self.name, roll(self.log, lambda tail: True, now=self.clock()))

    def delete_records(self, partition: int, offset: int, *, dry_run: bool = False) -> RecordsDeleted:
        """Move the log start of a partition up to an offset, and remove the records below it: Kafka's DeleteRecords. The latest table stays.

        What is not merged yet is merged first.

        Args:
            partition: its number.
            offset: the new log start; -1 is the log's end. One below the present start changes nothing.
            dry_run: say what would go, and refuse what would be refused; nothing is changed.

        Raises:
            InvalidRequest: there is no such partition.
            OffsetOutOfRange: below -1, or beyond the log's end.
            Refused: ``cleanup.policy`` has no ``delete`` (POLICY_VIOLATION); a kept snapshot or a registered reader needs what would go (LOG_HELD).
            Conflict: the log was restored or its state changed otherwise meanwhile, or other writers were first again and again.
            After any of them nothing was changed.

        Cost: a merge, a small file, and the removal of whole directories; the segment that lies across the offset is written again.
        """
        check_whole("partition", partition, needed=True)
        check_whole("offset", offset, needed=True)
        end = self._end_for(dry_run=dry_run)
        if not 0 <= partition < self.partitions:
            raise InvalidRequest(f"{self.name}: there is no partition {partition}; partitions are 0 to {self.partitions - 1}.")
        start = retention.require_deletable(self.log, end, self._held(), partition, offset)
        if dry_run:
            at = end.tails[partition].state.start
            return RecordsDeleted(self.name, partition, at, start, retention.records_below(self.log, partition, start), True)
        while self.merge().remaining:
            pass
        end = self._ready(pin=True)
        start = retention.require_deletable(self.log, end, self._held(), partition, offset)
        before = end.tails[partition].state.start
        merged = progress(self.log, from_rows=True).next
        gone = retention.move(self.log, end, {**end.starts(), partition: start}, merged, now=self.clock())
        LOGGER.info("%s: the log of partition %d starts at %d: %d records removed", self.name, partition, start, gone)
        return RecordsDeleted(self.name, partition, before, start, gone)

    def erase(self, key: Any, *, dry_run: bool = False) -> Erased:
        """Remove a key for good: from log, latest table, quarantine, kept snapshots, exports, verdicts, reports of runs; gives a receipt.

        For data that must not be kept, such as a person's. Records of the key in every partition go, whatever their version; offsets, order and the
        log's end stay. Snapshots that are kept by name, copies, and the newest become tables of their own without the key; those whose time is over
        are removed. Exports that the lake lists are written without it, or named in ``held`` where that cannot be done from here. Old files hold it
        for time travel until their retention is over, commit files in ``_delta_log``, of which it is the least or greatest key, until Delta removes
        them: ``held`` says where and until when. Called again then, it removes the old files, and the receipt is ``complete``. What checks observed
        and the messages of errors may quote any record: these texts go from all verdicts and reports of the topic, whichever key it is; counts, rules
        and names stay. No restore, import or requeue in this lake brings old records of the key back: a list of digests (``_lakelog/erased``) is
        consulted by each. New records of the key are taken as any others. (SEMANTICS L55)

        Readers that keep up are not told: append a delete of the key first, where they are to see it go. Readers behind the log's end in a partition
        that held the key begin anew from the latest table (OFFSET_OUT_OF_RANGE). Not searched: exports that were moved, input files, files of reports
        (``--report``), copies made by others, rows of the quarantine that are no records (``unread``), topics imported from this one before.

        Args:
            key: as a record would have it; of a STRUCT a dict of all its fields.
            dry_run: say what would be removed, and change nothing.

        Gives: the receipt (see `Erased`), which names the key by its digest alone. A key that was never there is entered in the list too.

        Raises:
            InvalidRequest: the key is none of the topic's type.
            Damaged: the latest table is not as lakelog left it, or older than the log tells; a snapshot cannot be read. Nothing was erased.
            Refused: the ordering rule is not the one silver was made under (RULE_CHANGED): merge with ``rebuild`` first, it needs the whole log.
            Conflict: other writers were first again and again. What was begun is finished by the next writing command.

        Cost: the keys of all tables, old files and exports are read once before and once after; the files that hold the key are written again,
        snapshots that hold it read as a whole and copied. Appends wait meanwhile. Then `expire_snapshots`, and VACUUM of all these tables.
        """
        end = self._end_for(dry_run=dry_run)
        wanted = named(self.spark, key, self.log.types.key)
        target = operation.Target.of(self.log, wanted)
        found = operation.find(self.log, target)
        if dry_run:
            return receipt(self.log, wanted, target, found, exports.find(self.log, target.digest), dry_run=True, now=self.clock())
        known = {one.digest for one in erased.entries(self.spark, self.root, self.uuid)}
        for _ in range(ATTEMPTS):
            if target.digest in known and not found.in_tables:
                operation.unquote(self.log, target)
                break
            intent = operation.begin(self.log, target, found.copies, end, now=self.clock())
            if intent is not None:
                operation.carry_out(self.log, log_end(self.log, pin=True), intent, now=self.clock())
                break
            end = self._ready(pin=True)
        else:
            raise Conflict(f"{self.name}: other writers were first again and again. Nothing was erased; try again later.")
        self.expire_snapshots()
        keeping.follow(self.log, self.config, now=self.clock())
        operation.vacuum(self.log, self._ready(pin=True))
        done = receipt(self.log, wanted, target, found, exports.remove(self.log, target.digest), dry_run=False, now=self.clock())
        LOGGER.info("%s: erased the key %s: %s", self.name, target.digest[:12], done.removed)
        return done

    def explain(self, key: Any, *, config: Mapping[str, Any] | None = None) -> Explained:
        """Why a key has the row it has: its records in the log, which one is the latest, why each other is not, what the cleaner does with each.

        Args:
            key: as a record would have it: a value of Python's or as NDJSON has it; of a STRUCT a dict of all its fields.
            config: settings of the ordering rule: the answer is as it would be under them. Nothing is changed.

        Gives: by partition that holds the key its records by offset (see `ExplainedRecord`), the unmerged among them. A delete that the cleaner
        removed and whose version is remembered is there with ``in_log=False``.

        Raises:
            InvalidRequest: the key is none of the topic's type, or a setting is not one of the rule's.
            InvalidConfig: a setting's value would be refused.

        Cost: the log is read once: there is no index over keys. Nothing is written.
        """
        self.refresh()
        other = self._under(config)
        state = progress(self.log)
        wanted = named(self.log.spark, key, self.log.types.key)
        return explain.explain(other, self.log, log_end(self.log, pin=True), state, wanted, now=self.clock())

    def what_if(self, config: Mapping[str, Any]) -> WhatIf:
        """How many keys would have another record under other settings of the ordering rule. Nothing is changed.

        Args:
            config: setting to value, such as ``{"compaction.strategy": "timestamp"}``.

        Raises:
            InvalidRequest: a setting is not one of the rule's.
            InvalidConfig: a setting's value would be refused.

        Cost: the log is folded twice, under each rule, and the two are joined.
        """
        self.refresh()
        return explain.what_if(self._under(config), self.log, log_end(self.log, pin=True))

    def _under(self, settings: Mapping[str, Any] | None) -> TopicLog:
        if not settings:
            return self.log
        own = {name: self._stored[PREFIX + name] for name in SETTINGS if PREFIX + name in self._stored}
        return explain.under(self.log, own, settings, self.lake_defaults())
