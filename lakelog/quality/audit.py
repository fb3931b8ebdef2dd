"""The audit: Great Expectations runs the table suite on silver at one version, and what it says is recorded."""

from __future__ import annotations

import uuid

from lakelog.delta import tables
from lakelog.latest import silver
from lakelog.latest.progress import progress
from lakelog.model.records import as_datetime
from lakelog.model.row_rules import RowRule
from lakelog.model.topic_log import TopicLog
from lakelog.quality import conditions, engine, folder, judgement, verdicts
from lakelog.quality.suites import FIGURE
from lakelog.quality_results import Verdict


def audit(log: TopicLog, *, now: int) -> Verdict:
    """Run the table suite of a topic on its latest table as it is, pinned to the version that it has at the beginning.

    Args:
        log: the topic's log.
        now: the time in milliseconds.

    Raises:
        InvalidConfig: the suite is not understood.
        NotReady: Great Expectations is not installed.
        Damaged: the latest table is not as lakelog left it.

    Cost: one Spark job for all rules about single rows, one to three for each other; the whole table is read each time, nothing is cached.
    """
    suite = folder.auditing(log)
    state = progress(log)
    rows = silver.rows(log, state.version)
    flat = conditions.flat_rows(log, rows, now)
    known = [check for check in suite.checks if check.type != FIGURE]
    engine.require_understood(known)
    rules = [RowRule(check.name, check.condition or "") for check in suite.row_checks]
    wrong = conditions.unsound(rules, flat) | conditions.missing_columns(known, flat)
    figures: dict[str, float | int] = {}
    if any(check.type == FIGURE or "$PARAMETER" in str(check.kwargs) for check in suite.checks):
        with tables.door(log.silver):
            held = {row["tombstone"]: int(row["count"]) for row in rows.groupBy("tombstone").count().collect()}
        figures = {"keys": sum(held.values()), "live": held.get(False, 0), "tombstones": held.get(True, 0)}
    found = {check.name: judgement.broken(check, wrong[check.name]) for check in suite.checks if check.name in wrong}
    found |= {check.name: judgement.of_figure(check, figures) for check in suite.checks if check.type == FIGURE}
    left = [check for check in known if check.name not in found]
    with tables.door(log.silver):
        answers = engine.run(left, flat, parameters={**figures, "now": as_datetime(now)})
    found |= {one.rule: one for one in answers}
    findings = [found[check.name] for check in suite.checks]
    verdict = Verdict(
        uuid.uuid4().hex, log.name, "table", judgement.outcome(findings), findings, suite.digest, as_datetime(now), state.version,
        max((one.checked for one in findings if one.checked is not None), default=None),
    )  # fmt: skip
    verdicts.record(log, verdict, now=now)
    return verdict
