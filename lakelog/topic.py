"""A topic: one log (bronze), one latest table (silver), its configuration, and the verbs on them."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from lakelog.cleaning import segments
from lakelog.cleaning.verbs import CleaningVerbs
from lakelog.delta import table_properties
from lakelog.delta.lock import LOCKED
from lakelog.delta.table_properties import IDENTITY, PREFIX
from lakelog.errors import Conflict, InvalidRequest, NotFound, NotReady, TopicNotFound
from lakelog.formats.arrow import as_pandas
from lakelog.formats.csv import CsvOptions
from lakelog.inputs.sources import FileOptions, requested
from lakelog.latest import merge, status, verify, views
from lakelog.log import append, bronze, bulk
from lakelog.log.append import AppendOptions
from lakelog.log.state import require_whole
from lakelog.log.tail import LogEnd, log_end, true_end
from lakelog.log.tokens import Token
from lakelog.model import config
from lakelog.model.config import TopicConfig
from lakelog.model.names import TableRef
from lakelog.model.ordering import OrderingRule
from lakelog.model.records import Types, declared_type
from lakelog.model.topic_log import TopicLog
from lakelog.operations import configure, intents, repair
from lakelog.quality.merge_gate import Acceptance
from lakelog.quality.verbs import QualityVerbs
from lakelog.results import Appended, Loaded, Merged, Repaired, TopicDescription, Verified, html_table
from lakelog.retention import LogRetention
from lakelog.snapshots import point, take
from lakelog.snapshots.point import Point
from lakelog.snapshots.verbs import SnapshotVerbs
from lakelog.status_results import TopicStatus

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow
    from pyspark.sql import DataFrame, SparkSession

MERGE_ATTEMPTS = 10
LOGGER = logging.getLogger("lakelog")
LOGGER.addHandler(logging.NullHandler())


@dataclass(repr=False)
class Topic(LogRetention, SnapshotVerbs, QualityVerbs, CleaningVerbs):
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
        """
        from pyspark.sql.types import StructType

        stored = table_properties.read(self.spark, self.bronze)
        if stored is None or IDENTITY not in stored:
            self._types = None
            raise TopicNotFound(f"There is no topic {self.name} in {self.root}.")
        table_properties.require_readable(str(self.bronze), stored)
        if self._types is None or stored != self._stored:
            sides = StructType.fromJson(json.loads(stored[f"{PREFIX}topic.types"]))
            self._types = Types(sides["key"].dataType, sides["value"].dataType)
        self._stored = stored
        self.partitions = int(stored[f"{PREFIX}topic.partitions"])
        self.config = TopicConfig(
            {name: stored[PREFIX + name] for name in config.SETTINGS if PREFIX + name in stored}, self.lake_defaults()
        )
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

    # ---- writing ----

    def append(
        self,
        source: Any,
        *,
        format: str | None = None,
        delimiter: str = ",",
        encoding: str = "utf-8",
        null: str | None = None,
        expected_offset: Mapping[int, int] | None = None,
        token: str | Token | None = None,
        epoch: int | None = None,
        problems: int = 20,
    ) -> Appended:
        """Append records to the log, all or nothing, in one commit over all partitions they touch.

        Takes: a DataFrame of records (columns ``key``, ``value``, and where wanted ``headers``, ``timestamp``, ``tombstone``,
        ``partition``, ``expected_offset``; frames of Spark's Kafka source as they are) or of flat columns (the fields of key and
        value, ``_timestamp``, ``_headers``, ``_tombstone``, ``_partition``, ``_expected_offset``); a path or a list of paths
        (NDJSON, CSV, Parquet; ``.gz``), as text or `pathlib.Path`; frames of pandas and polars, Arrow tables and record batches, with the columns
        of a DataFrame; or records: a dict, or any iterable of dicts (a generator is consumed in batches), each as an NDJSON line would have it,
        with values as Python has them too: `bytes`, `Decimal`, `datetime`, `date`, `UUID` (as text), NaN for FLOAT and DOUBLE; a record's
        ``timestamp`` in milliseconds or as a `datetime`, of which milliseconds are kept. Times without a zone are UTC. Records without a
        partition go to ``pmod(xxhash64(key), partitions)``, records without a timestamp get the clock.

        Gives: for each partition the offsets [first, end) the records got, dense, in input order: frames in the order of their
        partitions, files by path, then by position in the file.

        Args:
            source: the records, as above.
            format: of files whose names do not tell it: ``ndjson``, ``csv`` or ``parquet``.
            delimiter: of CSV.
            encoding: of CSV, as Python names it: ``cp1252``, ``utf-16``.
            null: of CSV: the unquoted text that means NULL. As a rule an empty field does, and a quoted one (``""``) is empty text; but where a
                NULL would be the whole value, and so a delete, it is refused unless this is given or a column flags tombstones.
            expected_offset: partition to the offset where its log must end (KIP-27); -1 is unconditional. Records may each state
                theirs as well; any that does not hold refuses the whole request.
            token: the producer's name for this batch: it is written at most once, a repeat gets the first answer.
            epoch: the generation of the log the writer knows; an older one than the topic's is refused.
            problems: how many bad records a refusal lists.

        Raises:
            FencedEpoch: the epoch is older than the topic's, or the log was restored while the append ran.
            InvalidRecords: some records are wrong; the error lists the first of them and counts all.
            InvalidRequest: columns, files, partitions or expected offsets below -1.
            ExpectedOffsetMismatch: a condition does not hold; it names the first record that does not fit, the offset it would get,
                and where the log holds these very records already.
            GateFailed: the topic's expectations refuse the batch, or could not be evaluated (GATE_BROKEN); the verdict is recorded.
            Conflict: other writers were first too often; try again.
            TopicNotFound: the topic was deleted meanwhile.
            Damaged: a writer that is not lakelog changed the log.
            After any of them nothing was written.

        Cost: lists, Parquet files, frames that only select from such and cached frames are read twice, once to be summed up and once by the
        write (a file that gains records in between, or has others that would be refused, is refused as SOURCE_CHANGED; one that loses some is
        `Damaged`, then one commit is to be taken back); all else is evaluated once and kept in memory, or on local disk where there is too
        much of it. CSV is read by one task a file, as a stream where the files are local; elsewhere each is fetched as a whole (at most 2 GB).
        Four to six small Spark jobs; one sort by partition when several partitions are touched, none for one. A condition on a partition costs
        nothing more; conditions of records one small job; per key (``check.expected.offsets.scope=key``) a scan of the partition's keys. A
        token costs one look-up. A gate (``quality.suites``): its row rules are evaluated in these same passes; where records are put aside the
        request is read once more, without a token twice, and they are written by one MERGE; a small commit on the lake's table of verdicts; each
        other expectation one to three Spark jobs over the batch.
        """
        self._ready()
        options = AppendOptions(expected_offset, token, epoch, problems)
        conditional = any(offset >= 0 for offset in (expected_offset or {}).values()) and self.config.flag("check.expected.offsets")
        gate = self._append_gate(whole=conditional, now=self.clock())
        return self._append(source, FileOptions(format, CsvOptions(delimiter, encoding, null)), replace(options, gate=gate))

    def _append(self, source: Any, how: FileOptions, options: AppendOptions) -> Appended:
        """An append, past the gate that its options name; after `_ready`."""
        gate = options.gate
        appended, self._end = append.append(self.log, self.name, source, how, options, now=self.clock(), known=self._end)
        LOGGER.info("%s: appended %d records at %s, version %s", self.name, appended.records, appended.offsets, appended.version)
        return gate.written(appended) if gate is not None else appended

    def load(
        self,
        source: str | Sequence[str],
        *,
        format: str | None = None,
        delimiter: str = ",",
        encoding: str = "utf-8",
        null: str | None = None,
        identity: str,
        chunk: int = 1_000_000,
        tell: Callable[[int, int], None] = lambda done, total: None,
        problems: int = 20,
    ) -> Loaded:
        """Bulk load: write long ordered files in chunks; killed and started again, it goes on where the log ends, each record exactly once.

        Args:
            source: a path or a list of paths.
            format: of files whose names do not tell it.
            delimiter: of CSV, as ``encoding`` and ``null`` are (see `append`).
            encoding: of CSV.
            null: of CSV.
            identity: what the input is, the same at every start: for example its name, size and digest.
            chunk: records a commit.
            tell: called with (records done, records in all) after each chunk.
            problems: how many bad records a refusal lists.

        Raises:
            ExpectedOffsetMismatch: another writer appended in between; the chunks before it are written.
            InvalidRecords: some records are wrong; nothing of this start was written.
            GateFailed: the topic's expectations refuse the input, which is judged as a whole at each start; nothing of this start was written.
            Refused: the load was begun longer ago than ``producer.id.expiration.ms``, or with another input; nothing was written.

        Cost: the files are read once and kept in memory or on local disk, then one append a chunk.
        """
        self._ready()
        request = requested(self.spark, source, FileOptions(format, CsvOptions(delimiter, encoding, null)), self.types)
        self._end = None
        loaded = bulk.load(
            self.log, self.name, request, identity=identity, chunk=chunk, now=self.clock(), tell=tell, problems=problems,
            gate=self._append_gate(whole=True, now=self.clock()),
        )  # fmt: skip
        LOGGER.info("%s: loaded %d records in %d chunks at %s", self.name, loaded.records, loaded.chunks, loaded.offsets)
        return loaded

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
        if max_records is not None and max_records < 1:
            raise InvalidRequest(f"max_records={max_records}: it is a number of records, at least 1.")
        acceptance = None if accept is None else Acceptance.of(self.log, accept, reason)
        for attempt in range(MERGE_ATTEMPTS):
            known = self._ready(pin=True)
            gate = self._merge_gate(acceptance, now=self.clock())
            options = merge.MergeOptions(
                max_records,
                rebuild,
                expected_version,
                None if gate is None else gate.admit,
                None if acceptance is None else acceptance.span,
            )
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
            self._end = log_end(self.log, known=self._end, pin=pin)
            if self._end.intent is None:
                return self._end
            intents.finish(self.log, self._end, now=self.clock())
            self._end = None
        raise Conflict(f"{self.name}: operations of others follow one upon the other. Nothing was changed; try again later.")

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
            LogIncomplete: another rule is asked for, but the log no longer holds every record; nothing was changed.
        """
        self._ready()
        stored = {name: self._stored[PREFIX + name] for name in config.SETTINGS if PREFIX + name in self._stored}
        kind = declared_type(value, what="value") if value is not None else None
        after, _ = config.changed(stored, settings or {}, self.lake_defaults())
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
        if rule != self.rule:
            require_whole(self.log, self.name, log_end(self.log))

    # ---- reading (the log: `LogReading`) ----

    def verify(self, *, sample: float = 1.0) -> Verified:
        """Prove the topic by recomputation: commits of other writers, offsets given twice or missing, what the log says of itself, silver's rows.

        Silver is compared with a fold of the log that shares nothing with the merge's; where the log begins above its origin, the oldest
        snapshot that reaches its start stands for what is gone. The first keys that differ are named.

        Args:
            sample: the share of the keys that are recomputed, above 0 and at most 1; the same keys each time.

        Raises:
            InvalidRequest: ``sample`` is no share.

        Cost: the history of the log, one pass over the log, one fold of it, one full join with silver. Nothing is changed.
        """
        if not 0 < sample <= 1:
            raise InvalidRequest(f"sample={sample}: it is a share of the keys, above 0 and at most 1.")
        self.refresh()
        return verify.verify(self.log, self._snapshots_held(), sample)

    def repair(self) -> Repaired:
        """Bring a topic back into order whose bronze or silver was changed by hand; nothing is changed where nothing is wrong.

        Where bronze was changed (a RESTORE, rows deleted): a new epoch begins at the log's true end, so that offsets given again are told
        apart, and silver is computed anew under the same rule. Where silver alone is wrong: it is computed anew. A log that was truncated gives it from
        the oldest usable snapshot on. A restore that was cut off, and whose snapshot is gone since, is given up.

        Raises:
            Damaged: records of another writer are in the log. Nothing was changed.
            LogIncomplete: neither the log nor a snapshot gives silver; the remedy is named. Nothing was changed.

        Cost: as `verify`, then one commit on bronze and a rebuild, or a restore and a merge.
        """
        self.refresh()
        table_properties.require_writable(self.name, self._stored)
        self._end = None
        unfinished = intents.given_up(self.log, true_end(self.log), now=self.clock())
        return repair.repair(self.log, self._snapshots_held(), now=self.clock(), unfinished=unfinished)

    def rows(self, at: Point = None) -> DataFrame:
        """Silver as stored, without control rows: one row per (partition, key), tombstones included, in no order."""
        return point.rows(self.log, at)

    def latest(self, at: Point = None) -> DataFrame:
        """The live rows: one per (partition, key), in no order, struct keys and values flattened to columns.

        Columns: the key's and the value's fields (atomic ones ``key``, ``value``), ``_partition``, ``_offset``, ``_timestamp``, ``_version``.

        Args:
            at: for the table as it was: a snapshot (its name, its id, or what `snapshot` answered), silver's version (a number), or a time (a
                datetime, or ISO 8601 text; UTC where it has no zone).

        Raises:
            NotFound: there is no such snapshot, or that version or time cannot be read any more (``snapshot.retention.ms``).
            Damaged: the table is not as lakelog left it; versions before that can be asked.
        """
        if at is None:
            self.require_sound()
        return views.live(self.rows(at), self.types)

    def to_arrow(self, at: Point = None) -> pyarrow.Table:
        """`latest` as an Arrow table in this process' memory; of the log: ``topic.read(…).toArrow()``."""
        return self.latest(at).toArrow()

    def to_pandas(self, at: Point = None) -> pandas.DataFrame:
        """`latest` as a pandas DataFrame in this process' memory; integers and booleans in pandas' types that know NA (``Int64``, ``boolean``)."""
        return as_pandas(self.to_arrow(at))

    def to_polars(self, at: Point = None) -> polars.DataFrame:
        """`latest` as a polars DataFrame in this process' memory; of the log: ``polars.from_arrow(topic.read(…).toArrow())``.

        Raises:
            NotReady: polars is not installed.
        """
        try:
            import polars
        except ImportError as error:
            raise NotReady("polars is not installed: pip install polars.") from error
        return polars.DataFrame(self.to_arrow(at))

    def deleted(self, at: Point = None) -> DataFrame:
        """The tombstones with their payload, in the columns of `latest`."""
        if at is None:
            self.require_sound()
        return views.deleted(self.rows(at), self.types)

    def require_sound(self) -> None:
        """Raise `Damaged` where the latest table is not as lakelog left it. Cost: at most one small Spark job."""
        status.require_sound(self.log)

    def register(self, at: Point = None) -> None:
        """Make the topic's views known to the session's SQL: ``orders``, ``orders_deleted``, ``orders_log``."""
        live, gone, log = views.names(self.name)
        rows = self.rows(at)
        views.live(rows, self.types).createOrReplaceTempView(live)
        views.deleted(rows, self.types).createOrReplaceTempView(gone)
        bronze.records(self.log).createOrReplaceTempView(log)

    def describe(self) -> TopicDescription:
        """Identity, types, and every setting with its effective value and origin. No Spark job."""
        self.refresh()
        settings = [{"name": one.name, "value": one.value, "origin": one.origin, "says": one.says} for one in self.config.effective()]
        return TopicDescription(
            self.name, self.uuid, self.types.key.simpleString(), self.types.value.simpleString(), self.partitions, str(self.rule),
            str(self.bronze), str(self.silver), settings, self.config.warnings(),
        )  # fmt: skip

    def status(self) -> TopicStatus:
        """Where the topic stands, what its gates and audits last said, what there is to clean. Cost: eight small Spark jobs."""
        self.refresh()
        found, due = status.status(self.log, self.name, now=self.clock())
        return self._with_verdicts(replace(found, cleaning=segments.cleaning(self.log, due=due, now=self.clock())))
