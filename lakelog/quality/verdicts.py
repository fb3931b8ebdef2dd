"""The verdicts of a lake's gates and audits: ``_lakelog/verdicts`` (in a catalog ``lakelog_verdicts``), a row per run and a row per rule of it.

The row of a run has no rule. Verdicts are written after what they speak of: a run that was cut off may have none.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lakelog.delta import frames, table_properties, tables
from lakelog.delta.statement import interpreted
from lakelog.delta.table_properties import FORMAT, FORMAT_VERSION
from lakelog.errors import Conflict, NotFound
from lakelog.model.names import TableRef
from lakelog.model.records import as_datetime
from lakelog.model.topic_log import TopicLog
from lakelog.quality_results import PASSED, Finding, Verdict

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

COLUMNS = (
    "run STRING, uuid STRING, topic STRING, door STRING, version BIGINT, rule STRING, type STRING, severity STRING, outcome STRING,"
    " observed STRING, description STRING, checked BIGINT, failing BIGINT, keys STRING, suite STRING, at TIMESTAMP, details STRING"
)

LOGGER = logging.getLogger("lakelog")
# The commit files of the table show no text of a record.
SKIPPING = {"delta.dataSkippingStatsColumns": "uuid,version,at"}
# What a topic's status tells of its newest verdict.
SAID = ("run", "door", "outcome", "version", "at")


def table_of(root: str) -> TableRef:
    """Where a lake's verdicts are."""
    return TableRef.of(root, "_lakelog", "verdicts")


def record(log: TopicLog, verdict: Verdict, *, now: int) -> None:
    """Add a verdict. Cost: one small commit; the first one of a lake makes the table."""
    time, table = as_datetime(now), table_of(log.root)
    details = {
        "records": verdict.records, "quarantined": verdict.quarantined, "from": _keyed(verdict.from_offsets), "to": _keyed(verdict.to_offsets),
        "reason": verdict.reason, "accepts": verdict.accepts, "epochs": _keyed(verdict.to_epochs), "batches": _keyed(verdict.to_batches),
    }  # fmt: skip
    common = (verdict.run, log.uuid, verdict.topic, verdict.door, verdict.version)
    rows: list[tuple[Any, ...]] = [
        (*common, None, None, None, verdict.outcome, None, None, verdict.records, None, None, verdict.suite, time, json.dumps(details))
    ]
    rows += [
        (*common, one.rule, one.type, one.severity, one.outcome, one.observed, one.description, one.checked, one.failing, json.dumps(one.keys),
         verdict.suite, time, None)
        for one in verdict.findings
    ]  # fmt: skip
    frame = frames.small_frame(log.spark, COLUMNS, rows).coalesce(1)
    with interpreted(log.spark):
        if table_properties.read(log.spark, table) is None:
            try:
                tables.create(frame, table, properties={FORMAT: str(FORMAT_VERSION), **SKIPPING})
                return
            except Conflict:
                table_properties.wait_for(log.spark, table, FORMAT)
        tables.append(frame, table)


def record_written(log: TopicLog, verdict: Verdict, what: str, *, now: int) -> str | None:
    """Add the verdict on a batch or merge (``what``) that is written. Returns its run; None where that failed, for what is written stands.

    Cost: as `record`.
    """
    try:
        record(log, verdict, now=now)
    except Exception as error:
        LOGGER.warning("%s: the %s is written, but its verdict could not be recorded: %s", log.name, what, error)
        return None
    return verdict.run


def _keyed(by_partition: Mapping[int, Any]) -> dict[str, Any]:
    return {str(index): one for index, one in sorted(by_partition.items())}


def rows(log: TopicLog) -> DataFrame | None:
    """The verdicts of a topic as a frame with the columns of the table; None where the lake has none yet. Cost: none until it is read."""
    from pyspark.sql import functions as F

    properties = table_properties.read(log.spark, table_of(log.root))
    if properties is None:
        return None
    table_properties.require_readable(str(table_of(log.root)), properties)
    return tables.read(log.spark, table_of(log.root)).filter(F.col("uuid") == log.uuid)


def runs(log: TopicLog, *, door: str | None = None, limit: int = 100) -> list[Verdict]:
    """The newest verdicts of a topic, newest first, with their findings. Cost: at most one small Spark job."""
    from pyspark.sql import functions as F

    found = rows(log)
    if found is None:
        return []
    if door is not None:
        found = found.filter(F.col("door") == door)
    numbered = F.dense_rank().over(frames.whole(F.col("at").desc(), "run"))
    newest = found.withColumn("n", numbered).filter(F.col("n") <= limit).withColumn("ms", F.unix_millis("at"))
    with tables.door(table_of(log.root)), interpreted(log.spark):
        listed = newest.orderBy("n", F.col("rule").asc_nulls_first()).collect()
    return _verdicts(listed)


def run(log: TopicLog, identity: str) -> Verdict:
    """One verdict by its run, or by the beginning of its name.

    Raises:
        NotFound: there is none, or several begin so; lists the newest (RUN_NOT_FOUND).
    """
    known = runs(log, limit=1000)
    found = [one for one in known if one.run.startswith(identity)] if identity else []
    if len(found) != 1:
        newest = [one.run for one in known[:5]]
        raise NotFound(
            f"{log.name}: there is no run {identity!r}, or there are several. Newest runs: {', '.join(newest) or 'none'}.",
            name="RUN_NOT_FOUND", existing=newest,
        )  # fmt: skip
    return found[0]


def last(log: TopicLog) -> tuple[Verdict | None, int | None]:
    """The newest verdict of a topic, without findings, and the newest version of the latest table that an audit passed.

    Cost: at most one small Spark job.
    """
    from pyspark.sql import functions as F

    found = rows(log)
    if found is None:
        return None, None
    of_runs = found.filter("rule IS NULL").withColumn("ms", F.unix_millis("at"))
    good = (F.col("door") == "table") & (F.col("outcome") == PASSED)
    figures = of_runs.agg(F.max_by(F.struct("*"), "ms").alias("newest"), F.max(F.when(good, F.col("version"))).alias("good"))
    with tables.door(table_of(log.root)), interpreted(log.spark):
        row = figures.collect()[0]
    newest = _verdicts([row["newest"]])[0] if row["newest"] is not None else None
    return newest, None if row["good"] is None else int(row["good"])


def _verdicts(listed: Sequence[Row]) -> list[Verdict]:
    """Rows of the table as verdicts, in their order."""
    findings: dict[str, list[Finding]] = {}
    for row in listed:
        if row["rule"] is not None:
            findings.setdefault(row["run"], []).append(
                Finding(
                    row["rule"],
                    row["type"],
                    row["severity"],
                    row["outcome"],
                    row["description"] or "",
                    row["observed"] or "",
                    row["checked"],
                    row["failing"],
                    json.loads(row["keys"] or "[]"),
                )  # fmt: skip
            )
    made = []
    for row in listed:
        if row["rule"] is None:
            said = json.loads(row["details"] or "{}")
            starts, ends, epochs, batches = (
                {int(index): one for index, one in (said.get(edge) or {}).items()} for edge in ("from", "to", "epochs", "batches")
            )
            made.append(
                Verdict(
                    row["run"],
                    row["topic"],
                    row["door"],
                    row["outcome"],
                    findings.get(row["run"], []),
                    row["suite"],
                    as_datetime(row["ms"]),
                    row["version"],
                    said.get("records"),
                    said.get("quarantined") or 0,
                    starts,
                    ends,
                    said.get("reason"),
                    said.get("accepts"),
                    epochs,
                    batches,
                )  # fmt: skip
            )
    return made
