"""The gate before the log: a batch's records are judged in the pass that sums them up anyway, then the batch as a whole.

Records that break a critical rule, or are none, refuse the batch, or are put aside before the others are appended (``quality.on.failure``). The
commit on the quarantine comes first: killed in between, the same append again finds what was put aside by the batch's token, or by what the
records are, and goes on with it, so that nothing is lost and nothing is there twice. That an append was cut off is told by the log: with each
batch it commits a mark (`tokens.BatchMark`), even where nothing of the batch was let in. An append that goes on with other records under the same
token first takes that mark's place: the other one may be slow, and may not be written without what it had put aside.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lakelog.errors import LakelogError
from lakelog.inputs import screening
from lakelog.inputs.refusal import place
from lakelog.inputs.screening import Screening
from lakelog.inputs.staging import Batch
from lakelog.log import extent, tokens
from lakelog.log.append import Stage, fence
from lakelog.log.tail import LogEnd
from lakelog.model.records import as_datetime
from lakelog.model.row_rules import RowRule, RowRules
from lakelog.model.topic_log import TopicLog
from lakelog.quality import conditions, engine, judgement, quarantine, verdicts
from lakelog.quality.suites import FIGURE, Suite
from lakelog.quality_results import BROKEN, FAILED, QUARANTINED, Finding, Verdict
from lakelog.results import Appended

REFUSED = "nothing of the batch was written"
# What to do: of records that would be put aside under another setting, of those that may not be; of a batch as a whole; of a requeue.
ASIDE = "Correct the records, or the suite; with quality.on.failure=quarantine records that break row rules are put aside."
TOGETHER = "Correct the records, or the suite; a batch on expected offsets is let in or refused as a whole."
WHOLE = "It is about the batch as a whole, of which no record can be put aside: deliver it anew, or correct the suite."
REQUEUED = "The records are in the quarantine as before: mend them (a fix, or corrected records), or correct the suite."


@dataclass
class AppendGate:
    """The gate of one append. ``whole``: it is let in or refused as a whole, for it expects offsets or is a ``requeue``; ``named``: by a token."""

    log: TopicLog
    suite: Suite
    now: int
    whole: bool = False
    requeue: bool = False
    named: bool = False
    verdict: Verdict | None = field(default=None, init=False)
    # This try; and whether the records that were put aside are an earlier one's, which was cut off or is slow.
    _attempt: str = field(default_factory=lambda: uuid.uuid4().hex, init=False)
    _again: bool = field(default=False, init=False)

    @property
    def rules(self) -> RowRules:
        """The rules of single records, and whether those that break them are put aside."""
        return self.suite.rules(quarantine=self.log.config.text("quality.on.failure") == "quarantine" and not self.whole)

    def staged(self, stage: Stage, *, assume: bool = True) -> Batch:
        """Stage the request with the rules.

        Args:
            stage: stages it with rules, and leaves those that keep records out to the write where that is to be assumed.
            assume: that no record breaks one of these; taken only where a record that does refuses the batch anyway, and nothing else is asked
                of the batch as a whole.

        Raises:
            InvalidConfig: the suite is not understood.
            GateFailed: a rule could not be evaluated (GATE_BROKEN).

        Cost: none beside the staging; where it raises, a staging without rules, one for each rule, and where none raises alone one more with all.
        """
        rules = self.rules
        assume = assume and not rules.quarantine and all(check.splits or check.severity != "critical" for check in self.suite.checks)
        assume = assume and len(self.suite.row_checks) == len(self.suite.checks)
        # What an earlier try put aside goes before the write.
        assume = assume and not (self.named and quarantine.exists(self.log))
        engine.require_understood(self.suite.set_checks)
        rows = conditions.empty(self.log, placed=False)
        wrong = conditions.unsound(rules.rules, rows) | conditions.missing_columns(self.suite.set_checks, rows)
        if wrong:
            raise self._broken(wrong)
        try:
            return stage(rules, assume)
        except LakelogError:
            raise
        except Exception as error:
            # Is it the records, or a rule? What raises without rules passes as it is; records that are none are counted as with rules.
            stage(replace(rules, rules=()), False)

            def alone(some: Sequence[RowRule]) -> object:
                return stage(replace(rules, rules=tuple(some)), False)

            wrong = conditions.raising(rules.rules, alone)
            if wrong:
                raise self._broken(wrong) from error
            return self._staged_again(stage, rules, assume)

    def _staged_again(self, stage: Stage, rules: RowRules, assume: bool) -> Batch:
        """The batch, where no rule raises alone: what was raised may have passed, as when a source did not answer; else it is the rules together."""
        try:
            return stage(rules, assume)
        except LakelogError:
            raise
        except Exception as error:
            raise self._broken({rule.name: conditions.first_line(error) for rule in rules.rules}) from error

    def _broken(self, wrong: dict[str, str]) -> LakelogError:
        """The refusal for rules that could not be evaluated, recorded."""
        findings = [judgement.broken(check, wrong[check.name]) for check in self.suite.checks if check.name in wrong]
        return self._refused(self._verdict(findings, None))

    def admit(self, batch: Batch, *, token: str | None, end: LogEnd, since: int | None = None) -> str | None:
        """Let the batch in, or refuse it; put aside what is kept out.

        Args:
            batch: judged.
            token: its name.
            end: the log's end.
            since: before this time (milliseconds) the same token was another batch's.

        Returns:
            The identity that the batch is to have in the log, where records were put aside of it.

        Raises:
            GateFailed: a critical rule failed, or one could not be evaluated; nothing was written but the verdict.

        Cost: none for rules about single records and figures; the others as `engine.run`, over the records that are let in; where records are
        put aside, `quarantine.put_aside` and a look for those of an earlier try, without a token `screening.digest`. Under a token an earlier try is
        looked for where none are, too, whatever the gate does now: what it put aside, and this one lets in, goes (one small Spark job, and one MERGE
        where there is any).
        """
        found = batch.screening
        assert found is not None
        splits = self.rules.quarantine and not (batch.conditional and self.log.config.flag("check.expected.offsets"))
        findings = self._of_records(found, splits=splits)
        verdict = self._verdict(findings, found, splits=splits)
        if verdict.ok and self.suite.set_checks:
            rows = conditions.flat_rows(self.log, batch.rows, self.now)
            findings += engine.run(self.suite.set_checks, rows, parameters=self._parameters(found, splits=splits))
            verdict = self._verdict(findings, found, splits=splits)
        if not verdict.ok:
            raise self._refused(verdict, found)
        self.verdict = verdict
        if not splits or not found.aside:
            return _let_in_whole(self.log, token, since, now=self.now)
        digest = screening.digest(found) if token is None else None
        before = _earlier(self.log, token, digest, since, now=self.now)
        batch_id, self._again = before if before is not None and token is None else uuid.uuid4().hex, before is not None
        try:
            quarantine.put_aside(
                self.log, found, batch=batch_id, attempt=self._attempt, token=token, digest=digest, ends=end.ends(), epoch=end.epoch,
                earlier=before, now=self.now,
            )  # fmt: skip
        except LakelogError:
            # It may have been raised after the commit.
            self.withdraw(batch_id)
            raise
        return batch_id

    def withdraw(self, batch_id: str, *, answered: bool = False) -> None:
        """Take back what was put aside of a batch that is not written.

        What an earlier try put aside stays, for it may be slow and not cut off, unless the log has ``answered`` the token by another batch. What
        another one goes on with since stays.
        """
        if (
            self.verdict is not None
            and self.verdict.quarantined
            and (answered or not self._again)
            # What was raised may have been raised after the commit.
            and not tokens.marked(self.log, [batch_id])
        ):
            quarantine.withdraw(self.log, batch_id, self._attempt)

    def written(self, answer: Appended) -> Appended:
        """Record what was said of a batch that was written; gives the answer with what became of the rest of it.

        Cost: one small commit; of a repeated token a small Spark job for what was put aside of its batch.
        """
        if answer.repeated:
            aside = quarantine.count(self.log, answer.batch) if answer.batch is not None else 0
            return replace(answer, quarantined=aside)
        if self.verdict is None:
            return answer
        run = self.recorded(answer.version)
        return replace(answer, quarantined=self.verdict.quarantined, warnings=self.verdict.warnings(), run=run)

    def recorded(self, version: int | None) -> str | None:
        """Record what was said of a batch that is in the log, at a version of it. Returns the run; None where that failed, for the batch stands."""
        assert self.verdict is not None
        self.verdict = replace(self.verdict, version=version)
        return verdicts.record_written(self.log, self.verdict, "batch", now=self.now)

    # ---- what was found ----

    def _of_records(self, found: Screening, *, splits: bool) -> list[Finding]:
        """The findings of rules about single records and of figures."""
        checked = found.records - found.invalid
        findings = [
            judgement.of_rows(
                check, checked=checked - found.broken.get(check.beside, 0), failing=found.broken.get(check.name, 0), aside=splits
            )
            for check in self.suite.row_checks
        ]
        if found.invalid:
            says = "every record can be read, has a key and fits the topic"
            observed = f"{found.invalid} of {found.records} are none"
            findings.append(Finding("lakelog_record", "invariant", "critical", QUARANTINED, says, observed, found.records, found.invalid))
        return findings + [
            judgement.of_figure(check, self._parameters(found, splits=splits)) for check in self.suite.checks if check.type == FIGURE
        ]

    def _parameters(self, found: Screening, *, splits: bool) -> dict[str, Any]:
        """The figures of a batch; where it is let in or refused as a whole nothing is put aside."""
        aside = found.aside if splits else 0
        share = aside / found.records if found.records else 0.0
        return {"records": found.records - aside, "quarantined": aside, "quarantined_share": share, "now": as_datetime(self.now)}

    def _verdict(self, findings: list[Finding], found: Screening | None, *, splits: bool = False) -> Verdict:
        aside = found.aside if found is not None and splits else 0
        outcome = judgement.outcome(findings, quarantined=aside)
        records = None if found is None else found.records
        return Verdict(
            uuid.uuid4().hex, self.log.name, "append", outcome, findings, self.suite.digest, as_datetime(self.now), None, records,
            aside if outcome == QUARANTINED else 0,
        )  # fmt: skip

    def _refused(self, verdict: Verdict, found: Screening | None = None) -> LakelogError:
        """The refusal, after the verdict was recorded."""
        verdicts.record(self.log, verdict, now=self.now)
        problems = [] if found is None else found.problems
        count = 0 if found is None else found.aside
        where = ""
        if problems:
            where = f" First: {place(problems[0])}: {problems[0]['reason']}."
        return judgement.refusal(
            verdict, what=REFUSED, remedy=where.strip() + (" " if where else "") + self._remedy(verdict), problems=problems, count=count,
            records=[one["record"] for one in problems],
        )  # fmt: skip

    def _remedy(self, verdict: Verdict) -> str:
        """What is to be done about a batch that was refused."""
        if verdict.of(BROKEN):
            return judgement.SUITE.format("append")
        if self.requeue:
            return REQUEUED
        stopped = {one.rule for one in verdict.of(FAILED)}
        if not any(check.splits and check.name in stopped for check in self.suite.checks) and "lakelog_record" not in stopped:
            return WHOLE
        return TOGETHER if self.whole else ASIDE


@dataclass
class OpenGate:
    """The door of a topic without a suite: lets a batch in, and lets go of what an earlier try of it, past the gate there was, put aside."""

    log: TopicLog
    now: int
    rules: RowRules = field(default_factory=RowRules, init=False)

    def staged(self, stage: Stage, *, assume: bool = True) -> Batch:
        """Stage the request, without rules."""
        return stage(None, False)

    def admit(self, batch: Batch, *, token: str | None, end: LogEnd, since: int | None = None) -> str | None:
        """Let the batch in, as `AppendGate.admit`.

        Cost: under a token a look for the quarantine; where there is one a small Spark job, and a MERGE where an earlier try put records aside.
        """
        return _let_in_whole(self.log, token, since, now=self.now)

    def withdraw(self, batch_id: str, *, answered: bool = False) -> None:
        """Nothing is put aside here."""

    def written(self, answer: Appended) -> Appended:
        """The answer as it is."""
        return answer


def _let_in_whole(log: TopicLog, token: str | None, since: int | None, *, now: int) -> str | None:
    """The identity of a batch of which nothing is put aside: its own where an earlier try under its token put records aside, which are let go of."""
    before = None if token is None else _earlier(log, token, None, since, now=now)
    if before is None:
        return None
    batch = uuid.uuid4().hex
    quarantine.let_in(log, batch=batch, earlier=before)
    return batch


def _earlier(log: TopicLog, token: str | None, digest: str | None, since: int | None, *, now: int) -> str | None:
    """The identity under which an earlier try put records of this batch aside, and was cut off before the log knew of it.

    Under a token it can no longer be written: it was cut off, or a restore took it out, which left its mark. Not where it was written since the
    token was looked up: the token stands with it, and answers when this one is to be written.
    """
    tried = quarantine.tried(log, token=token, digest=digest, since=since)
    marked = tokens.marked(log, tried)
    written = marked if token is None else {batch for batch, _ in extent.batch_starts(log, tried)}
    found = next((batch for batch in tried if batch not in written), None)
    if found is None or token is None:
        return found
    gone = not tokens.named(log, found) if found in marked else fence(log, found, now=now)
    return found if gone else None
