"""The verbs with which records come to a topic's log; `Topic` has all of them."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lakelog.formats.csv import CsvOptions
from lakelog.inputs.identity import InputIdentity
from lakelog.inputs.sources import FileOptions, requested
from lakelog.log import append, bulk
from lakelog.log.append import AppendOptions
from lakelog.log.tail import LogEnd
from lakelog.log.tokens import Token
from lakelog.model.config import TopicConfig
from lakelog.model.records import Types
from lakelog.model.topic_log import TopicLog
from lakelog.quality.gate import AppendGate, OpenGate
from lakelog.results import Appended, Loaded

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOGGER = logging.getLogger("lakelog")


class LogWriting(ABC):
    """What writers of a topic's log ask."""

    spark: SparkSession
    name: str
    clock: Callable[[], int]
    config: TopicConfig
    _end: LogEnd | None

    @property
    @abstractmethod
    def log(self) -> TopicLog:
        """The topic as the floors below know it."""

    @property
    @abstractmethod
    def types(self) -> Types:
        """The declared types of key and value."""

    @abstractmethod
    def _ready(self, *, pin: bool = False) -> LogEnd:
        """The log's end, after an operation that was cut off has been finished."""

    if TYPE_CHECKING:
        # `QualityVerbs` has it.
        def _append_gate(self, *, whole: bool, now: int, named: bool = False) -> AppendGate | None: ...

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
            Damaged: a writer that is not lakelog changed the log, or a file of its history cannot be read: look before it is repeated.
            After any other nothing was written; whatever failed, the log is asked for the batch before that is said. Where it cannot be read then
            (Damaged, OUTCOME_UNKNOWN) the batch may be there: under a token, or on expected offsets, a repeat writes it at most once.

        Cost: lists, Parquet files, frames that only select from such and cached frames are read twice, once to be summed up and once by the
        write (a file that gains records in between, or has others that would be refused, is refused as SOURCE_CHANGED; one that loses some is
        `Damaged`, then one commit is to be taken back); all else is evaluated once and kept in memory, or on local disk where there is too
        much of it. So are Parquet files under a token made of what they hold, as jobs and sources that are directories use: what it says and what
        is written is of one reading. CSV is read by one task a file, as a stream where the files are local; elsewhere each is fetched as a whole
        (at most 2 GB).
        Four to six small Spark jobs; one sort by partition when several partitions are touched, none for one. A condition on a partition costs
        nothing more; conditions of records one small job; per key (``check.expected.offsets.scope=key``) a scan of the partition's keys. A
        token costs a look-up, and one for a quarantine. A gate (``quality.suites``): its row rules are evaluated in these same passes; where
        records are put aside the request is read once more, without a token twice, and they are written by one MERGE; a small commit on the
        lake's table of verdicts; each other expectation one to three Spark jobs over the batch.
        """
        self._ready()
        options = AppendOptions(expected_offset, token, epoch, problems)
        conditional = any(offset >= 0 for offset in (expected_offset or {}).values()) and self.config.flag("check.expected.offsets")
        now = self.clock()
        gate = self._append_gate(whole=conditional, now=now, named=token is not None) or OpenGate(self.log, now)
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
        identity: str | InputIdentity,
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
            identity: what the input is, the same at every start: for example its name, size and digest. That of `inputs.identity.of_files` refuses
                files that are changed while they are read, too.
            chunk: records a commit.
            tell: called with (records done, records in all) after each chunk.
            problems: how many bad records a refusal lists.

        Raises:
            Conflict: settings by which records are let in were changed while it ran, or other writers were first too often; the chunks before that
                are written, and started again it goes on behind them.
            ExpectedOffsetMismatch: another writer appended in between; the chunks before it are written.
            InvalidRecords: some records are wrong; nothing of this start was written.
            GateFailed: the topic's expectations refuse the input, which is judged as a whole at each start; nothing of this start was written.
            FencedEpoch: the topic was restored while the load ran; started again, it writes what is gone.
            Refused: the load was begun longer ago than ``producer.id.expiration.ms``, or with another input, or its files were changed while they were
                read; nothing was written.

        Cost: the files are read once and kept in memory or on local disk, then one append a chunk.
        """
        self._ready()
        request = requested(self.spark, source, FileOptions(format, CsvOptions(delimiter, encoding, null)), self.types)
        self._end = None
        gate = self._append_gate(whole=True, now=self.clock())
        loaded = bulk.load(
            self.log, self.name, request, identity=identity, chunk=chunk, now=self.clock(), tell=tell, problems=problems, gate=gate
        )  # fmt: skip
        if gate is not None and gate.verdict is not None and loaded.version is not None:
            loaded = replace(loaded, run=gate.recorded(loaded.version), warnings=gate.verdict.warnings())
        LOGGER.info("%s: loaded %d records in %d chunks at %s", self.name, loaded.records, loaded.chunks, loaded.offsets)
        return loaded
