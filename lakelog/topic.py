"""A topic: one log (bronze), one latest table (silver), its configuration, and the verbs on them."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from lakelog.arguments import check_share, check_whole, settings_in
from lakelog.cleaning import segments
from lakelog.cleaning.verbs import CleaningVerbs
from lakelog.delta import frames, table_properties
from lakelog.delta.lock import LOCKED
from lakelog.delta.table_properties import IDENTITY, PARTITIONS, PREFIX, TYPES
from lakelog.delta.tables import door
from lakelog.errors import Conflict, NotFound, TopicNotFound
from lakelog.latest import merge, status, verify
from lakelog.latest_table import LatestTable
from lakelog.log.tail import LogEnd, log_end
from lakelog.model import config
from lakelog.model.config import TopicConfig
from lakelog.model.names import TableRef
from lakelog.model.ordering import OrderingRule
from lakelog.model.records import Types
from lakelog.model.topic_log import TopicLog
from lakelog.operations import configure, intents, repair
from lakelog.quality.merge_gate import Acceptance
from lakelog.quality.verbs import QualityVerbs
from lakelog.results import Merged, Repaired, TopicDescription, Verified, html_table
from lakelog.retention import LogRetention
from lakelog.snapshots import take
from lakelog.snapshots.verbs import SnapshotVerbs
from lakelog.status_results import TopicStatus
from lakelog.writing import LogWriting

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MERGE_ATTEMPTS = 10
LOGGER = logging.getLogger("lakelog")
LOGGER.addHandler(logging.NullHandler())


def _types(text: str) -> Types:
    """The declared types, as a property of the log has them."""
    from pyspark.sql.types import StructType

    sides = StructType.fromJson(json.loads(text))
    return Types(sides["key"].dataType, sides["value"].dataType)


@dataclass(repr=False)
class Topic(LatestTable, LogWriting, LogRetention, SnapshotVerbs, QualityVerbs, CleaningVerbs):
    """A topic of a lake. Get one from `Lake.create_topic` or `Lake.topic`; every verb reads the configuration anew."""

    spark: SparkSession
    root: str
    name: str
    clock: Callable[[], int]
    lake_defaults: Callable[[], Mapping[str, str]]
    _stored: dict[str, str] = field(default_factory=dict, repr=False)
    _types: Types | None = field(default=None, repr=False)
    _end: LogEnd | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        self.bronze = TableRef.of(self.root, self.name, "bronze")
        self.silver = TableRef.of(self.root, self.name, "silver")
        self.refresh()

    def _facts(self) -> dict[str, str]:
        kinds = {"key": self.types.key.simpleString(), "value": self.types.value.simpleString()}
        return {"root": self.root, **kinds, "partitions": str(self.partitions), "rule": str(self.rule)}

    def __repr__(self) -> str:
        return f"<Topic {self.name}: {', '.join(f'{name} {fact}' for name, fact in self._facts().items())}>"

    def _repr_html_(self) -> str:
        return html_table(["topic", *self._facts()], [[self.name, *self._facts().values()]])

    def refresh(self) -> None:
        """Read the topic's properties. No Spark job.

        Raises:
            TopicNotFound: there is no such topic, or a table that is not lakelog's.
            InvalidConfig: a newer lakelog wrote it.
            Damaged: a property is not as lakelog writes it.
        """
        stored = table_properties.read(self.spark, self.bronze)
        if stored is None or IDENTITY not in stored:
            self._types = None
            raise TopicNotFound(f"There is no topic {self.name} in {self.root}.")
        table_properties.require_readable(str(self.bronze), stored)
        if self._types is None or stored != self._stored:
            self._types = table_properties.parsed(self.bronze, stored, TYPES, _types)
        self._stored = stored
        self.partitions = table_properties.parsed(self.bronze, stored, PARTITIONS, int)
        self.config = TopicConfig(table_properties.settings(self.bronze, stored, config.SETTINGS), self.lake_defaults())
        self.rule = OrderingRule.from_config(self.config)

    @property
    def uuid(self) -> str:
        """The topic's identity: another topic of the same name has another one."""
        return self._stored[IDENTITY]

    @property
    def types(self) -> Types:
        """The declared types of key and value."""
        if self._types is None:
            raise TopicNotFound(f"There is no topic {self.name} in {self.root}.")
        return self._types

    @property
    def log(self) -> TopicLog:
        """The topic as the floors below know it: its tables, types and rules."""
        return TopicLog(
            self.name, self.root, self.uuid, self.spark, self.bronze, self.silver, self.types, self.partitions, self.config, self.rule
        )

    # ---- writing (the log: `LogWriting`) ----

    def merge(
        self,
        *,
        max_records: int | None = None,
        rebuild: bool = False,
        expected_version: int | None = None,
        accept: str | None = None,
        reason: str | None = None,
    ) -> Merged:
        """Fold the log, from the last merged offset to its end, into silver, in one commit; again, and nothing changes.

        Args:
            max_records: fold about so many records (rounded up to whole commits, in their order) and leave the rest to the next merge.
            rebuild: compute silver anew from the whole log; needed once after the ordering rule was changed.
            expected_version: run only if silver is at this version.
            accept: the run of a merge that the topic's expectations refused: let through exactly what it refused, and record it.
            reason: why.

        Gives: silver's version (None when there was nothing to do) and what became of the records.

        Raises:
            Refused: the ordering rule is not the one silver was made under; then merge with ``rebuild``.
            LogIncomplete: a rebuild needs records that the log no longer holds; silver is as it was.
            VersionMismatch: silver is not at ``expected_version``; silver is as it was.
            GateFailed: the topic's expectations refuse what would be written, or could not be evaluated; silver is as it was, keys are named.
            Conflict: other merges were first too often; try again.

        Cost: the new part of the log is read; silver's keys are scanned once where it holds rows in the same buckets; one MERGE
        commit. Late records alone rewrite no data file. A rebuild reads the whole log and writes silver once. A gate (``quality.suites``): one
        Spark job over the winners, one to three for each expectation about them as a whole, a small commit on the lake's table of verdicts.
        """
        check_whole("max_records", max_records, least=1)
        acceptance = None if accept is None else Acceptance.of(self.log, accept, reason)
        for attempt in range(MERGE_ATTEMPTS):
            known = self._ready(pin=True)
            gate = self._merge_gate(acceptance, now=self.clock())
            options = merge.MergeOptions(
                max_records, rebuild, expected_version,
                None if gate is None else gate.admit, None if acceptance is None else acceptance.span,
            )  # fmt: skip
            try:
                merged, self._end = merge.merge(self.log, options, now=self.clock(), known=known, from_rows=attempt > 0)
            except Conflict as error:
                if attempt == MERGE_ATTEMPTS - 1 or error.name == LOCKED:
                    raise
                merged = None
            except NotFound:
                # Where the topic was deleted meanwhile, that is what is said.
                self.refresh()
                raise
            if merged is not None:
                LOGGER.info("%s: merged %d records up to %s, version %s", self.name, merged.records, merged.to_offsets, merged.version)
                merged = merged if gate is None else gate.written(merged)
                return take.automatically(self.log, merged, known, now=self.clock())
            LOGGER.warning("%s: another merge was first; try %d of %d", self.name, attempt + 2, MERGE_ATTEMPTS)
        raise Conflict(f"{self.name}: other merges were first {MERGE_ATTEMPTS} times in a row. Nothing was changed; try again later.")

    def _ready(self, *, pin: bool = False) -> LogEnd:
        """The log's end, after an operation that was cut off has been finished. For verbs that write."""
        for _ in range(MERGE_ATTEMPTS):
            self.refresh()
            table_properties.require_writable(self.name, self._stored)
            before, self._end = self._end, log_end(self.log, known=self._end, pin=pin)
            if self._end is not before and self._end.file is not None:
                # Settings may have been changed between the two. Where nothing was committed since, that costs no look at the table.
                self.refresh()
            if self._end.intent is None:
                return self._end
            intents.finish(self.log, self._end, now=self.clock())
            self._end = None
        raise Conflict(f"{self.name}: operations of others follow one upon the other. Nothing was changed; try again later.")

    def _end_for(self, *, dry_run: bool) -> LogEnd:
        """The log's end, pinned: `_ready`, or where nothing may be written as it is, with what was cut off still open."""
        if not dry_run:
            return self._ready(pin=True)
        self.refresh()
        return log_end(self.log, pin=True)

    def configure(self, settings: Mapping[str, Any] | None = None, *, value: str | None = None) -> TopicDescription:
        """Change settings (None removes one), or widen the value's type.

        A change of the ordering rule on a topic with records takes effect with ``merge(rebuild=True)``; until then merges are refused, and the
        answer's ``warnings`` say so.

        Args:
            settings: name to value.
            value: the value's new type: the old one with fields added at any place, or with wider types; old records read NULLs. A wider
                type turns on Delta's type widening for the topic's tables, which not every reader knows; added fields need nothing.

        Raises:
            InvalidConfig: unknown, illegal or fixed settings, or a type that is not wider; nothing was changed.
            LogIncomplete: another rule is asked for than silver was made under, but the log no longer holds every record; nothing was changed.
        """
        self._ready()
        stored = {name: self._stored[PREFIX + name] for name in config.SETTINGS if PREFIX + name in self._stored}
        kind = frames.declared(self.log.spark, value, what="value") if value is not None else None
        after, _ = config.changed(stored, settings_in(settings or {}), self.lake_defaults())
        OrderingRule.from_config(after).version_type(kind or self.types.value)
        if kind is not None:
            configure.widen(self.log, kind, now=self.clock())
            self._end = None
            self.refresh()
        if settings:
            configure.change_settings(self.log, stored, settings, self.lake_defaults(), now=self.clock())
        LOGGER.info("%s: configured %s", self.name, settings if value is None else {**(settings or {}), "value": value})
        described = self.describe()
        return replace(described, warnings={**described.warnings, **status.outdated(self.log, self.name)})

    def require_whole_for(self, lake_defaults: Mapping[str, str]) -> None:
        """Refuse lake-wide defaults that give this topic another ordering rule while its log lacks records.

        Raises:
            LogIncomplete: naming what is gone.
            InvalidConfig: the topic could not work under them.
        """
        after = TopicConfig({name: self._stored[PREFIX + name] for name in config.SETTINGS if PREFIX + name in self._stored}, lake_defaults)
        after.check()
        rule = OrderingRule.from_config(after)
        rule.version_type(self.types.value)
        configure.require_rule(self.log, rule)

    # ---- reading (the latest table: `LatestTable`; the log: `LogReading`) ----

    def verify(self, *, sample: float = 1.0) -> Verified:
        """Prove the topic by recomputation: commits of other writers, offsets given twice or missing, what the log says of itself, silver's rows.

        Silver is compared with a fold of the log that shares nothing with the merge's; where the log does not hold all records, the oldest
        snapshot that reaches its start stands for what is gone. The first keys that differ are named.

        Args:
            sample: the share of the keys that are recomputed, above 0 and at most 1; the same keys each time.

        Raises:
            InvalidRequest: ``sample`` is no share.
            Damaged: a file of a table is missing or broken.

        Cost: the history of the log, one pass over the log, one fold of it, one full join with silver. Nothing is changed.
        """
        check_share("sample", sample)
        self.refresh()
        with door(self.name):
            return verify.verify(self.log, self._snapshots_held(), sample)

    def repair(self) -> Repaired:
        """Bring a topic back into order whose bronze or silver was changed by hand; nothing is changed where nothing is wrong.

        Where bronze was changed (a RESTORE, rows deleted): a new epoch begins at the log's true end, so that offsets given again are told
        apart, and silver is computed anew under the same rule. Where silver alone is wrong: it is computed anew. A log that was truncated gives it from
        the oldest usable snapshot on. What was cut off is finished, in the new epoch where one begins; a restore that was cut off, and whose snapshot
        is gone or whose log was changed since, is given up.

        Raises:
            Damaged: records of another writer are in the log, or a file of a table is missing or broken. Nothing was changed.
            LogIncomplete: neither the log nor a snapshot gives silver; the remedy is named. Nothing was changed.

        Cost: as `verify`, then one commit on bronze and a rebuild, or a restore and a merge.
        """
        self.refresh()
        table_properties.require_writable(self.name, self._stored)
        self._end = None
        # First of all the log: what is open on it can be finished only where it is sound.
        with door(self.name):
            begun = repair.new_epoch(self.log, self._snapshots_held(), now=self.clock())
            unfinished = intents.given_up(self.log, now=self.clock())
            self.refresh()
            return repair.repair(self.log, self._snapshots_held(), now=self.clock(), unfinished=unfinished, begun=begun)

    def describe(self) -> TopicDescription:
        """Identity, types, and every setting with its effective value and origin. No Spark job."""
        self.refresh()
        settings = [{"name": one.name, "value": one.value, "origin": one.origin, "says": one.says} for one in self.config.effective()]
        return TopicDescription(
            self.name, self.uuid, self.types.key.simpleString(), self.types.value.simpleString(), self.partitions, str(self.rule),
            str(self.bronze), str(self.silver), settings, self.config.warnings(),
        )  # fmt: skip

    def status(self) -> TopicStatus:
        """Where the topic stands, what its gates and audits last said, what there is to clean.

        Cost: five small Spark queries; one more each where records wait for a merge, and where there are verdicts.
        """
        self.refresh()
        now = self.clock()
        found, due, self._end = status.status(self.log, self.name, known=self._end, now=now)
        cleaning = segments.cleaning_status(segments.read(self.log, self._end), self.config, due=due, now=now)
        return self._with_verdicts(replace(found, cleaning=cleaning))
