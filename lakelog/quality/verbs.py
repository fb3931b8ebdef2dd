"""The verbs of a topic on the quality of its records; `lakelog.topic.Topic` has them all."""

from __future__ import annotations

import datetime
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lakelog.errors import InvalidRequest
from lakelog.inputs.sources import FileOptions
from lakelog.log.append import AppendOptions
from lakelog.log.rows import RECORD_COLUMNS
from lakelog.log.tail import LogEnd
from lakelog.model.config import did_you_mean
from lakelog.model.topic_log import TopicLog
from lakelog.quality import audit, folder, pages, profile, quarantine, requeue, verdicts
from lakelog.quality.gate import AppendGate
from lakelog.quality.merge_gate import Acceptance, MergeGate
from lakelog.quality.requeue import Mending
from lakelog.quality.selection import Fix, Selection
from lakelog.quality_results import Dropped, Initialized, Requeued, Verdict
from lakelog.results import Appended
from lakelog.status_results import TopicStatus

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LOGGER = logging.getLogger("lakelog")
Time = datetime.datetime | None


class QualityVerbs:
    """What `Topic` does with expectations, verdicts and the quarantine."""

    name: str
    clock: Callable[[], int]

    if TYPE_CHECKING:

        @property
        def log(self) -> TopicLog: ...  # noqa: D102 - Topic has them
        def refresh(self) -> None: ...  # noqa: D102
        def _ready(self, *, pin: bool = False) -> LogEnd: ...
        def _append(self, source: Any, how: FileOptions, options: AppendOptions) -> Appended: ...

    # ---- the gates ----

    def _append_gate(self, *, whole: bool, now: int, named: bool = False) -> AppendGate | None:
        """The gate before the log, of an append that is ``named`` by a token; None where the topic has no suite for it."""
        suite = folder.gating(self.log, "append")
        return None if suite is None else AppendGate(self.log, suite, now, whole=whole, named=named)

    def _merge_gate(self, acceptance: Acceptance | None, *, now: int) -> MergeGate | None:
        """The gate before the latest table; None where the topic has no suite for it."""
        suite = folder.gating(self.log, "merge")
        return None if suite is None else MergeGate(self.log, suite, now, acceptance)

    # ---- the audit ----

    def check(self, *, page: str | None = None) -> Verdict:
        """Audit the latest table: run the topic's table suite on it, at the version that it has now, and record the verdict.

        A topic without a table suite is held against lakelog's own invariants. The verdict is an answer, not an error: look at ``ok``.

        Args:
            page: a file that gets the newest verdicts of the topic as an HTML page, which needs no network.

        Raises:
            InvalidConfig: a suite is not understood.
            NotReady: great-expectations is not installed (``pip install 'lakelog[quality]'``).
            Damaged: the latest table is not as lakelog left it.

        Cost: one Spark job over the table for all rules about single rows, one to three for each other rule; nothing is cached. A small commit on
        the lake's table of verdicts.
        """
        self.refresh()
        verdict = audit.audit(self.log, now=self.clock())
        LOGGER.info("%s: audit of version %s: %s", self.name, verdict.version, verdict.outcome)
        if page is not None:
            self.write_page(page)
        return verdict

    def verdicts(self, *, door: str | None = None, limit: int = 100) -> list[Verdict]:
        """What the topic's gates and audits said, newest first, rule by rule. Cost: at most one small Spark job.

        Args:
            door: ``append``, ``merge`` or ``table``; None is all.
            limit: at most so many.
        """
        self.refresh()
        return verdicts.runs(self.log, door=door, limit=limit)

    def write_page(self, path: str) -> None:
        """Write the newest verdicts of the topic to one HTML file that opens from disk, without the network. Cost: as `verdicts`."""
        pages.write(path, self.name, self.verdicts())

    def init_suites(self, path: str | None = None) -> Initialized:
        """Write a starting set of suites from the topic's types and a profile of its latest table, to be edited; files that are there stay.

        Of more rules than a door takes the most useful are written; the answer names those that are left out.

        Args:
            path: the folder, on this machine; None is that of ``quality.suites``.

        Raises:
            InvalidRequest: there is no folder to write to, or it is none of this machine.
            InvalidConfig: a default suite that lies in the folder is not understood.

        Cost: one Spark job over the latest table.
        """
        self.refresh()
        target = path or self.log.config.text("quality.suites").strip()
        if not target:
            raise InvalidRequest(f"{self.name}: where are the suites to be written? Name the folder, or set quality.suites.")
        return profile.write(self.log, target, now=self.clock())

    def _with_verdicts(self, found: TopicStatus) -> TopicStatus:
        """A status with the last verdict and the last good version. Cost: at most one small Spark job."""
        newest, good = verdicts.last(self.log)
        if newest is None:
            return found
        return replace(found, last_verdict={name: getattr(newest, name) for name in verdicts.SAID}, good_version=good)

    # ---- the quarantine ----

    def quarantined(
        self,
        *,
        rule: str | None = None,
        key: Any = None,
        source: str | None = None,
        token: str | None = None,
        since: Time = None,
        until: Time = None,
        closed: bool = False,
    ) -> DataFrame:
        """The records that are not in the log: after a restore those that left it, of a gated topic those that were put aside.

        Columns: those of `read`, and ``reason``, ``rules`` (those that the record breaks), ``source``, ``token``, ``time``, ``raw`` (the input of
        one that cannot be read, which has no value, headers and flag: they would be what was left of it), ``batch`` and ``record`` (its position
        in the request). In no order; `lakelog quarantine list` orders them by time, batch, epoch, partition, offset and record.

        Args:
            rule: only those that break this one.
            key: only those of this key; of a STRUCT a dict. What has left the quarantine has none.
            source: only what this put there.
            token: only what was to be appended under this token.
            since: only those put there at or after this time.
            until: only those put there before it.
            closed: in place of what is there, what has left it: without content, with ``outcome`` (requeued, dropped), ``closed_at`` and ``note``.
        """
        self.refresh()
        chosen = Selection(rule=rule, key=key, source=source, token=token, since=since, until=until)
        rows = quarantine.as_read(chosen.of(quarantine.rows(self.log, closed=closed), self.log.types.key))
        return rows.select(*RECORD_COLUMNS, *quarantine.ABOUT, *(("outcome", "closed_at", "note") if closed else ()))

    def requeue(
        self,
        *,
        rule: str | None = None,
        key: Any = None,
        partition: int | None = None,
        first: int | None = None,
        end: int | None = None,
        source: str | None = None,
        token: str | None = None,
        fix: Mapping[str, str] | None = None,
        corrected: Any = None,
        overwrite: bool = False,
        dry_run: bool = False,
    ) -> Requeued:
        """Append records of the quarantine again, to the partitions they were in, and take them out of it; all that are not excluded.

        They get new offsets, in the order in which they came, in one append, and pass the gate as any batch does: one that still breaks a rule
        refuses them all. They compete by their own versions. Where the last appended wins (under ``offset``; of equal versions or none; against a
        delete without a version that is a barrier), a record that would overwrite a newer one of its key is refused. A fix of the key takes a
        record to the partition of the new one, unless it was appended to a partition of its own. Cut off anywhere, the same call or another one
        goes on; no record is appended twice, or lost.

        Args:
            rule: only records that break this one.
            key: only records of this key; of a STRUCT a dict.
            partition: only records of this one.
            first: only from this old offset on (of records that left the log).
            end: only below this old offset.
            source: only what this put there, as ``quarantined`` shows it: ``restore …``, a file.
            token: only what was to be appended under this token.
            fix: a column (a field of key or value, ``_timestamp``, ``_headers``, ``_tombstone``, ``_partition``) to the SQL expression that it is set
                to; it may read all of these, and ``_raw``.
            corrected: records, in any form that `append` takes, in the place of the chosen ones: one for each, in the order of `quarantine list`.
            overwrite: overwrite newer records of their keys.
            dry_run: tell how many they are and which keys they would overwrite, and change nothing.

        Raises:
            Refused: they would overwrite newer records, whose keys are listed (WOULD_OVERWRITE).
            InvalidRequest: a fix is no SQL over the columns, or gives what a column's type would round or cut; it leaves something of a record
                that could not be read; corrected records are more or fewer than those chosen.
            GateFailed: they still break rules.
            Conflict: another requeue has some of them in hand, or others wrote to the log again and again.
            What `append` raises; then the records are still in quarantine.

        Cost: an append of the records, and two MERGEs on the quarantine; a scan of the keys of silver and of the log's new part, or of all of
        it where deletes without a version are barriers.
        """
        if fix and corrected is not None:
            raise InvalidRequest("Give a fix or corrected records, not both.")
        chosen = Selection(rule, key, partition, first, end, source, token)
        mending = Mending(Fix(fix or {}), corrected)
        self._ready()
        log = self.log

        def rows() -> DataFrame:
            return chosen.of(quarantine.rows(log), log.types.key)

        if dry_run:
            return self._would_requeue(rows(), mending, rule)
        count, offsets, keys = requeue.requeue(log, rows, mending, self._requeued, overwrite=overwrite, now=self.clock)
        if not count:
            self._require_known(rule)
        LOGGER.info("%s: requeued %d records at %s", self.name, count, offsets)
        return Requeued(self.name, count, dict(offsets), False, keys)

    def _require_known(self, rule: str | None) -> None:
        """Refuse the name of a rule of which the quarantine knows nothing, but of one that is nearly called so."""
        if rule is None or not quarantine.exists(self.log):
            return
        known = quarantine.broken_rules(self.log)
        near = "" if rule in known else did_you_mean(rule, known)
        if near:
            raise InvalidRequest(
                f"{self.name}: no record of the quarantine broke {rule!r}.{near} Rules that were broken: {', '.join(known)}."
            )

    def _would_requeue(self, rows: DataFrame, mending: Mending, rule: str | None) -> Requeued:
        """What a requeue would do."""
        log, count = self.log, rows.count()
        if not count:
            self._require_known(rule)
        keys = requeue.would_overwrite(log, rows, mending, self._ready(pin=True), now=self.clock()) if count else []
        return Requeued(self.name, count, {}, True, keys)

    def _requeued(self, source: Any, options: AppendOptions) -> Appended:
        """The append of a requeue: the rules about single records hold for it; those about deliveries as a whole, and shares of them, do not."""
        gate = None if source == [] else self._append_gate(whole=True, now=self.clock())
        if gate is not None:
            gate.requeue = True
            gate.suite = replace(gate.suite, checks=tuple(check for check in gate.suite.row_checks if check.mostly >= 1))
        return self._append(source, FileOptions(), replace(options, gate=gate))

    def drop(
        self,
        reason: str,
        *,
        rule: str | None = None,
        key: Any = None,
        partition: int | None = None,
        first: int | None = None,
        end: int | None = None,
        source: str | None = None,
        token: str | None = None,
        dry_run: bool = False,
    ) -> Dropped:
        """Take records out of the quarantine for good; their content goes, what they broke and the reason stay (``quarantined(closed=True)``).

        What a requeue beside it has in hand is left to that, and does not count as dropped.

        Args:
            reason: why; recorded.
            rule: as for `requeue`, like all that follow.
            key: only records of this key.
            partition: only records of this one.
            first: only from this old offset on.
            end: only below this old offset.
            source: only what this put there.
            token: only what was to be appended under this token.
            dry_run: tell how many they are, and change nothing.

        Raises:
            InvalidRequest: there is no reason.

        Cost: one MERGE. The content leaves the files with the next `maintain`, after Delta's retention.
        """
        if not reason.strip():
            raise InvalidRequest(f"{self.name}: to drop records takes a reason, which is recorded.")
        chosen = Selection(rule, key, partition, first, end, source, token)
        if dry_run:
            self.refresh()
        else:
            self._ready()
        log = self.log

        def rows() -> DataFrame:
            return chosen.of(quarantine.rows(log), log.types.key)

        count = rows().count() if dry_run else requeue.drop(log, rows, reason.strip(), self._requeued, now=self.clock)
        if not count:
            self._require_known(rule)
        elif not dry_run:
            LOGGER.info("%s: dropped %d records of the quarantine: %s", self.name, count, reason)
        return Dropped(self.name, count, reason.strip(), dry_run)
