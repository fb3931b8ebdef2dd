"""The gate before the latest table: the winners that a merge is about to write, and what the merge would do to the table, are judged as a whole.

A failure leaves silver as it was and names the first keys that it concerns: those that break a rule about rows, that a delete or a drop takes
away, of groups that repeat, of rows that a query gives with ``_key``. A figure that only counts, and Great Expectations' own about columns, have
none. The remedies: append corrected records and merge again, since winners change with what is appended; or accept the run's failures with a
reason, which lets through exactly what was refused.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from lakelog.delta import tables
from lakelog.errors import InvalidRequest, LakelogError, Refused
from lakelog.latest import silver
from lakelog.latest.merge import Span
from lakelog.latest.upsert import Winners
from lakelog.model.names import key_text
from lakelog.model.records import as_datetime
from lakelog.model.row_rules import RowRules, bit, counted, judged
from lakelog.model.topic_log import TopicLog
from lakelog.quality import conditions, engine, judgement, verdicts
from lakelog.quality.suites import FIGURE, Suite
from lakelog.quality_results import ACCEPTED, FAILED, Finding, Verdict
from lakelog.results import Merged

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

KEYS = 20
OF_THE_TABLE = ("live_before", "live_after", "deleted_share", "drop_share")


@dataclass(frozen=True)
class Acceptance:
    """A run of the gate whose failures somebody accepts, and why."""

    verdict: Verdict
    reason: str

    @classmethod
    def of(cls, log: TopicLog, run: str, reason: str | None) -> Acceptance:
        """The acceptance of a run.

        Raises:
            NotFound: there is no such run.
            InvalidRequest: no reason is given.
            Refused: the run did not fail at the door merge (NOT_ACCEPTABLE).
        """
        if reason is None or not reason.strip():
            raise InvalidRequest(f"{log.name}: to accept a run takes a reason, which is recorded.")
        verdict = verdicts.run(log, run)
        if (verdict.door, verdict.outcome) != ("merge", FAILED):
            raise Refused(
                f"{log.name}: run {verdict.run} at the door {verdict.door} is {verdict.outcome}: a failed merge can be accepted, nothing else.",
                name="NOT_ACCEPTABLE", expected="merge failed", actual=f"{verdict.door} {verdict.outcome}",
            )  # fmt: skip
        return cls(verdict, reason.strip())

    @property
    def span(self) -> Span:
        """What the refused merge was to fold."""
        said = self.verdict
        return Span(said.from_offsets, said.to_offsets, said.to_epochs, said.to_batches)

    def covers(self, findings: Sequence[Finding], suite: Suite) -> bool:
        """Whether every failure was one of the accepted run, by the rules as they were then."""
        known = {one.rule for one in self.verdict.of(FAILED)}
        return self.verdict.suite == suite.digest and all(one.rule in known for one in findings if one.outcome == FAILED)


@dataclass
class MergeGate:
    """The gate of one merge, tried again with it."""

    log: TopicLog
    suite: Suite
    now: int
    acceptance: Acceptance | None = None
    verdict: Verdict | None = field(default=None, init=False)

    def admit(self, winners: Winners) -> None:
        """Let the winners be written, or refuse the merge.

        Raises:
            InvalidConfig: the suite is not understood.
            GateFailed: a critical rule failed, or one could not be evaluated; silver is as it was, the verdict is recorded.

        Cost: one Spark job over the winners for all rules about rows; a count of silver's live rows where a figure asks for it; keys of rules that
        failed one small job each; the others as `engine.run`.
        """
        engine.require_understood(self.suite.set_checks)
        rules = self.suite.rules(quarantine=False)
        rows = conditions.empty(self.log, placed=True)
        wrong = conditions.unsound(rules.rules, rows) | conditions.missing_columns(self.suite.set_checks, rows)
        findings = [judgement.broken(check, wrong[check.name]) for check in self.suite.checks if check.name in wrong]
        if not findings:
            findings = self._findings(rules, winners)
        outcome = judgement.outcome(findings)
        if outcome == FAILED and self.acceptance is not None and self.acceptance.covers(findings, self.suite):
            outcome = ACCEPTED
        accepted = self.acceptance if outcome == ACCEPTED else None
        span = Span.of(winners.step.start, winners.places)
        self.verdict = Verdict(
            uuid.uuid4().hex, self.log.name, "merge", outcome, findings, self.suite.digest, as_datetime(self.now), winners.version,
            winners.step.total("records"), 0, dict(winners.step.start), dict(winners.step.ends), accepted.reason if accepted else None,
            accepted.verdict.run if accepted else None, dict(span.epochs), dict(span.batches),
        )  # fmt: skip
        if not self.verdict.ok:
            verdicts.record(self.log, self.verdict, now=self.now)
            remedy = judgement.SUITE.format("merge")
            if outcome == FAILED:
                remedy = f"Append corrected records and merge again, or accept it: merge(accept='{self.verdict.run}', reason=…)."
                if self.acceptance is not None:
                    remedy = (
                        f"Run {self.acceptance.verdict.run} did not refuse just this: other rules fail, or the suite was edited. {remedy}"
                    )
            raise judgement.refusal(
                self.verdict, what="the latest table is as it was", remedy=remedy,
                from_offsets=self.verdict.from_offsets, to_offsets=self.verdict.to_offsets,
            )  # fmt: skip

    def written(self, merged: Merged) -> Merged:
        """Record what was said of a merge that was written; where that fails, the merge stands. Cost: one small commit."""
        if self.verdict is None or merged.version is None:
            return merged
        run = verdicts.record_written(self.log, replace(self.verdict, version=merged.version), "merge", now=self.now)
        return replace(merged, run=run)

    # ---- what was found ----

    def _findings(self, rules: RowRules, winners: Winners) -> list[Finding]:
        """The findings of all checks; one that raises is broken."""
        try:
            counts = self._counts(rules, winners)
        except LakelogError:
            raise
        except Exception as error:
            wrong = conditions.raising(rules.rules, lambda some: self._counts(RowRules(tuple(some)), winners))
            wrong = wrong or {rule.name: conditions.first_line(error) for rule in rules.rules}
            return [judgement.broken(check, wrong[check.name]) for check in self.suite.checks if check.name in wrong]
        broken, rows = counted(rules, counts), counts["winners"]
        figures = self._figures(winners, counts)
        findings = []
        for index, check in enumerate(self.suite.row_checks):
            found = judgement.of_rows(check, checked=rows - broken.get(check.beside, 0), failing=broken[check.name], aside=False)
            if found.outcome == FAILED:
                breaking = judged(winners.rows, self.log.types, rules, self.now).filter(bit(index))
                found = replace(found, keys=_first(breaking))
            findings.append(found)
        for check in self.suite.checks:
            if check.type == FIGURE:
                found = judgement.of_figure(check, figures)
                about = any(word in str(check.kwargs["figure"]) for word in ("delete", "drop", "live_after"))
                findings.append(replace(found, keys=_first(self._gone(winners))) if found.outcome == FAILED and about else found)
        if self.suite.set_checks:
            flat = conditions.flat_rows(self.log, winners.rows, self.now)
            findings += engine.run(self.suite.set_checks, flat, parameters={**figures, "now": as_datetime(self.now)})
        return findings

    def _counts(self, rules: RowRules, winners: Winners) -> dict[str, int]:
        """One aggregation over the winners: how many there are, how many rows go, how many break each rule."""
        from pyspark.sql import functions as F

        rows = judged(winners.rows, self.log.types, rules, self.now)
        named = {"winners": F.count(F.lit(1)), "going": F.count_if(self._goes(winners)), "live": F.count_if(~F.col("tombstone"))}
        with tables.door(self.log.silver):
            row = rows.agg(*[column.alias(name) for name, column in named.items()], *rules.counts()).collect()[0]
        return {name: int(count or 0) for name, count in row.asDict().items()}

    def _goes(self, winners: Winners) -> Column:
        """Whether a winner deletes a key that the table shows."""
        from pyspark.sql import functions as F

        if "old_offset" not in winners.rows.columns:
            return F.lit(False)
        return F.col("tombstone") & F.col("old_offset").isNotNull() & ~F.col("old_tombstone")

    def _figures(self, winners: Winners, counts: dict[str, int]) -> dict[str, Any]:
        """The figures of a merge; those of the table only where one is asked for."""
        step = winners.step
        figures: dict[str, Any] = {name: step.total(name) for name in ("records", "inserted", "updated", "late")}
        figures["deleted"] = counts["going"]
        asked = " ".join(str(dict(check.kwargs)) for check in self.suite.checks)
        if not any(name in asked for name in (*OF_THE_TABLE, *["deleted"] * winners.anew)):
            return figures
        before = _live(self.log, lost=winners.anew)
        after = counts["live"] if winners.anew else before + figures["inserted"] - counts["going"]
        gone = max(0, before - after) if winners.anew else counts["going"]
        dropped = max(0, before - after)
        shares = {"deleted_share": gone / before if before else 0.0, "drop_share": dropped / before if before else 0.0}
        return {**figures, "deleted": gone, "live_before": before, "live_after": after, **shares}

    def _gone(self, winners: Winners) -> DataFrame:
        """The keys that the merge takes out of the table; where it is computed anew those that it shows and the new one does not."""
        if not winners.anew:
            return winners.rows.filter(self._goes(winners))
        try:
            shown = silver.rows(self.log)
        except LakelogError:
            return winners.rows.limit(0)
        return shown.filter("NOT tombstone").join(winners.rows.filter("NOT tombstone"), ["partition", "key"], "left_anti")


def _first(rows: DataFrame) -> list[str]:
    """The first keys of rows, as JSON. Cost: one small Spark job."""
    from pyspark.sql import functions as F

    shown = rows.select(F.to_json(F.struct("key")).alias("key")).orderBy("key").limit(KEYS)
    return [key_text(row["key"]) for row in shown.collect()]


def _live(log: TopicLog, *, lost: bool) -> int:
    """How many live rows silver has; none in a silver that is computed anew and cannot be read (``lost``).

    Cost: one small Spark job, the flags are read.
    """
    try:
        with tables.door(log.silver):
            return silver.rows(log).filter("NOT tombstone").count()
    except LakelogError:
        if lost:
            return 0
        raise
