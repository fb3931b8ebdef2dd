"""A topic's quarantine: records that are not in its log, each with the reason, to be looked at, mended and appended again, or dropped.

A restore puts the records there that leave the log (reason RESTORED), a gate those that break its rules (GATE_FAILED) or that are no records
(INVALID_RECORD, …). The table is made when it is first needed.

A record that leaves the quarantine leaves a stub behind: where it was, why, what became of it and when, without its content. So a batch that is
appended again after a crash finds what was put aside of it before, and what was dropped is on record.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from lakelog.delta import past, table_properties, tables
from lakelog.delta.lock import LOCKED
from lakelog.delta.statement import interpreted
from lakelog.delta.table_properties import FORMAT, FORMAT_VERSION, IDENTITY
from lakelog.errors import Conflict
from lakelog.inputs import screening
from lakelog.inputs.screening import Screening
from lakelog.latest import evolution
from lakelog.log.rows import RECORD_COLUMNS
from lakelog.model.names import literal
from lakelog.model.records import instant, looked_up
from lakelog.model.topic_log import TopicLog
from lakelog.model.widening import Change, plan, shaped

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

RESTORED, GATE_FAILED, REQUEUED, DROPPED = "RESTORED", "GATE_FAILED", "requeued", "dropped"
# What is told of a record: why it is here, the rules it broke, where it came from, its token, since when, the raw input, its batch, its position there.
ABOUT = ("reason", "rules", "source", "token", "time", "raw", "batch", "record")
# What is kept beside that: an identity within the batch, how many records of its partition that were let in stand before it, where the log
# ended, what makes the batch known again, the try of the append that goes on with it; the requeue that has it in hand, or what closed it; what became
# of it (NULL: it is here), when, and why.
KEPT = {
    "batch": "string", "record": "bigint", "identity": "string", "position": "bigint", "log_end": "bigint", "digest": "string",
    "attempt": "string", "claim": "string", "outcome": "string", "closed_at": "timestamp", "note": "string",
}  # fmt: skip
ATTEMPTS = 10
# What makes a row known: where it stood in the log, or in its batch.
PLACE = ("source", "partition", "offset", "epoch", "batch", "identity")
SAME = " AND ".join(f"t.{name} <=> s.{name}" for name in PLACE)
CONTENT = ("key", "value", "headers", "raw")
STAYING = ("time", "claim", "outcome", "closed_at", "note")  # What a later try does not say anew of a record that is here.
# The commit files of the table show no content of a record.
SKIPPING = {"delta.dataSkippingStatsColumns": "partition,offset,timestamp,time"}


def broken_rules(log: TopicLog) -> list[str]:
    """The rules that records of a quarantine broke, of those that have left it too. Cost: one small Spark job."""
    from pyspark.sql import functions as F

    kept = tables.read(log.spark, log.quarantine).select(F.explode("rules").alias("rule")).distinct()
    with tables.door(log.quarantine):
        return sorted(row["rule"] for row in kept.collect())


def put(log: TopicLog, leave: Mapping[int, int], *, before: int, source: str, now: int) -> None:
    """Copy the log's records at and beyond an offset of each partition into the quarantine; again with the same source, and nothing changes.

    Args:
        log: the topic's log.
        leave: partition to the first offset.
        before: the epoch that begins without them; who comes late finds the log cut, and what was appended since is of this one.
        source: what takes them out of the log, by an identity of its own.
        now: the time in milliseconds.

    Cost: the records are read and written once; one MERGE that inserts.
    """
    from pyspark.sql import functions as F

    if not leave:
        return
    _ensure(log)
    first = looked_up([leave.get(index, 0) for index in range(log.partitions)], F.col("partition"))
    found = tables.read(log.spark, log.table).filter(
        F.col("partition").isin(sorted(leave)) & (F.col("segment") >= 0) & (F.col("offset") >= min(leave.values()))
    )
    found = found.filter(F.col("control").isNull() & (F.col("offset") >= first) & (F.col("epoch") < before))
    value = shaped(F.col("value"), found.schema["value"].dataType, log.types.value).alias("value")
    record = [value if name == "value" else F.col(name) for name in RECORD_COLUMNS]
    about = _about({"reason": F.lit(RESTORED), "source": F.lit(source), "time": instant(now, "partition")})
    same = " AND ".join(f"t.{name} = s.{name}" for name in ("source", "partition", "offset", "epoch"))
    _merge(log, found.select(*record, *about), on=same, clauses="WHEN NOT MATCHED THEN INSERT *")


def put_aside(
    log: TopicLog, found: Screening, *, batch: str, attempt: str, token: str | None, digest: str | None, ends: Mapping[int, int], epoch: int,
    earlier: str | None, now: int,
) -> None:  # fmt: skip
    """Put the records of a request aside that a gate keeps out; those that an ``earlier`` try put aside stay, as this one's.

    They get the place and the rules that this one finds: the request may have another order now, the suite other names. What the earlier one put
    aside under the same token, and this one does not, goes: its records were mended in between. But for what a requeue has in hand or has taken.

    Args:
        log: the topic's log.
        found: what the gate found.
        batch: the identity under which the others go into the log.
        attempt: the identity of this try.
        token: the caller's name for the batch.
        digest: what makes a batch without a token known again.
        ends: partition to the log end, as the append found it.
        epoch: the log's generation.
        earlier: the identity under which an earlier try put records of the batch aside; under a token it is to be another (`append.fence`).
        now: the time in milliseconds.

    Cost: `screening.aside`, written by one MERGE.
    """
    from pyspark.sql import functions as F

    _ensure(log)
    ordered = not log.rule.versioned
    rows = screening.aside(found, ordered=ordered, partitions=log.partitions)
    reason = F.when(F.col("problem").isNull(), F.lit(GATE_FAILED)).otherwise(F.regexp_replace("problem", "\t", ": "))
    inside = F.col("partition").between(0, log.partitions - 1)
    end = looked_up([ends.get(index, 0) for index in range(log.partitions)], F.when(inside, F.col("partition")).otherwise(0))
    about = {
        "reason": reason, "rules": F.col("rules"), "source": F.coalesce("src", F.lit("append")), "token": F.lit(token),
        "time": F.timestamp_millis(F.lit(now)), "raw": F.col("raw"), "batch": F.lit(batch), "record": F.col("record"),
        "attempt": F.lit(attempt), "identity": F.col("identity"), "position": F.col("position"), "log_end": end, "digest": F.lit(digest),
    }  # fmt: skip
    given = {"offset": F.lit(None).cast("bigint"), "epoch": F.lit(epoch)}
    record = [given.get(name, F.col(name)).alias(name) for name in RECORD_COLUMNS]
    here = f"t.batch IN ({literal(batch)}, {literal(earlier or batch)})"
    clauses = "WHEN NOT MATCHED THEN INSERT *"
    if earlier is not None:
        anew = ", ".join(f"t.{name} = s.{name}" for name in (*RECORD_COLUMNS, *dict.fromkeys((*ABOUT, *KEPT))) if name not in STAYING)
        here_still = f"WHEN MATCHED AND t.outcome IS NULL AND t.claim IS NULL THEN UPDATE SET {anew}"
        clauses = f"{here_still} WHEN MATCHED THEN UPDATE SET t.batch = s.batch, t.attempt = s.attempt {clauses}"
    if earlier is not None and token is not None:
        clauses += _let_go(here, batch)
    _merge(log, rows.select(*record, *_about(about)), on=f"{here} AND t.identity = s.identity", clauses=clauses)


def let_in(log: TopicLog, *, batch: str, earlier: str) -> None:
    """Let go of what an ``earlier`` try of a batch put aside that is let in as a whole now (`put_aside`). Cost: one MERGE."""
    _merge(log, _none(log).select(*PLACE), on=SAME, clauses=_let_go(f"t.batch = {literal(earlier)}", batch))


def _let_go(here: str, batch: str) -> str:
    """The clauses for what an earlier try put aside and this one does not: it goes, but for what a requeue has in hand or has taken."""
    gone = f" WHEN NOT MATCHED BY SOURCE AND {here}"
    return f"{gone} AND t.outcome IS NULL AND t.claim IS NULL THEN DELETE{gone} THEN UPDATE SET t.batch = {literal(batch)}"


def withdraw(log: TopicLog, batch: str, attempt: str) -> None:
    """Take back what a try put aside of a batch that was not written, and no other try goes on with. Cost: one small commit where there is any."""
    from pyspark.sql import functions as F

    mine = rows(log).filter((F.col("batch") == batch) & (F.col("attempt") == attempt))
    change(log, mine, f"WHEN MATCHED AND t.outcome IS NULL AND t.attempt = {literal(attempt)} THEN DELETE")


def tried(log: TopicLog, *, token: str | None, digest: str | None, since: int | None = None) -> list[str]:
    """The batches that another try of an append may have put records aside of, newest first: under the same token or, without one, alike.

    Args:
        log: the topic's log.
        token: the caller's name for the batch. What became of a record that was put aside under it is decided, and stays so.
        digest: of a batch without a token, by which a copy looks the same: one of which a record is taken in hand, or has left, is no longer meant.
        since: before this time (milliseconds) the same token was another batch's.

    Cost: at most one small Spark job.
    """
    from pyspark.sql import functions as F

    if not exists(log):
        return []
    same = F.col("token") == token if token is not None else F.col("token").isNull() & (F.col("digest") == digest)
    held = tables.read(log.spark, log.quarantine)
    if "batch" not in held.columns:
        return []
    if since is not None:
        same = same & (F.unix_millis("time") > since)
    with tables.door(log.quarantine), interpreted(log.spark):
        taken = F.max(F.col("outcome").isNotNull() | F.col("claim").isNotNull()) & F.lit(token is None)
        batches = held.filter(same & F.col("batch").isNotNull()).groupBy("batch").agg(F.max("time").alias("time"), taken.alias("taken"))
        found = batches.filter(~F.col("taken")).collect()
    return [row["batch"] for row in sorted(found, key=lambda row: row["time"], reverse=True)]


def rows(log: TopicLog, *, closed: bool = False, at: int | None = None) -> DataFrame:
    """What the quarantine holds, in the columns of the log's records, `ABOUT` and `KEPT`, and the types that the topic has now. Cost: none.

    Args:
        log: the topic's log.
        closed: the stubs of what has left it, in place of what is here.
        at: a version of the table.
    """
    from pyspark.sql import functions as F

    if not exists(log):
        return _none(log)
    held = past.pinned(log.spark, log.quarantine, at)
    absent = [name for name in KEPT if name not in held.columns]
    held = held.withColumns({name: F.lit(None).cast(KEPT[name]) for name in absent}) if absent else held
    held = held.withColumn("value", shaped(F.col("value"), held.schema["value"].dataType, log.types.value))
    return held.filter(F.col("outcome").isNotNull() if closed else F.col("outcome").isNull())


def as_read(rows: DataFrame) -> DataFrame:
    """Rows of a quarantine as they are shown: of one that could not be read the key, if any, and the raw input alone."""
    from pyspark.sql import functions as F

    return rows.withColumns({name: F.when(F.col("raw").isNull(), F.col(name)) for name in ("value", "headers", "tombstone")})


def count(log: TopicLog, batch: str) -> int:
    """How many records were put aside of a batch, those that have left the quarantine since too. Cost: one small Spark job where there is any."""
    from pyspark.sql import functions as F

    if not exists(log):
        return 0
    with tables.door(log.quarantine):
        return tables.read(log.spark, log.quarantine).filter(F.col("batch") == batch).count()


def exists(log: TopicLog) -> bool:
    """Whether the topic has a quarantine. No Spark job."""
    return (table_properties.read(log.spark, log.quarantine) or {}).get(IDENTITY) == log.uuid


def _none(log: TopicLog) -> DataFrame:
    empty = tables.read(log.spark, log.table).select(*RECORD_COLUMNS, *_about({}))
    return empty.limit(0)


def claim(log: TopicLog, chosen: DataFrame, token: str) -> int:
    """Take records in hand for a requeue that has this token; those that another one has in hand are left to it. Returns how many it has.

    Raises:
        Conflict: others changed the quarantine again and again.
    """
    from pyspark.sql import functions as F

    change(log, chosen, "WHEN MATCHED AND t.outcome IS NULL AND t.claim IS NULL THEN UPDATE SET t.claim = s.token", token=F.lit(token))
    return rows(log).filter(F.col("claim") == token).count()


def claims(log: TopicLog, chosen: DataFrame) -> list[str]:
    """The requeues that have some of the chosen records in hand. Cost: one small Spark job."""
    from pyspark.sql import functions as F

    with tables.door(log.quarantine), interpreted(log.spark):
        return sorted(row["claim"] for row in chosen.filter(F.col("claim").isNotNull()).select("claim").distinct().collect())


def release(log: TopicLog, token: str) -> None:
    """Put what a requeue had in hand back: nothing of it is in the log, and nothing will come."""
    from pyspark.sql import functions as F

    mine = rows(log).filter(F.col("claim") == token)
    change(log, mine, "WHEN MATCHED AND t.claim = s.token AND t.outcome IS NULL THEN UPDATE SET t.claim = NULL", token=F.lit(token))


def close(log: TopicLog, chosen: DataFrame, outcome: str, *, note: str | None, token: str, now: int) -> None:
    """Leave stubs, with this token, of open records that leave the quarantine: requeued, which that requeue has in hand; or dropped, which none has."""
    from pyspark.sql import functions as F

    mine = "t.claim IS NULL" if outcome == DROPPED else "t.claim = s.token"
    empty = ", ".join(f"t.{name} = NULL" for name in CONTENT)
    change(
        log, chosen,
        f"WHEN MATCHED AND t.outcome IS NULL AND {mine} THEN UPDATE SET t.outcome = s.outcome, t.claim = s.token, t.closed_at = s.closed_at,"
        f" t.note = s.note, {empty}",
        outcome=F.lit(outcome), token=F.lit(token), closed_at=F.timestamp_millis(F.lit(now)), note=F.lit(note).cast("string"),
    )  # fmt: skip


def change(log: TopicLog, chosen: DataFrame, clause: str, **more: Column) -> None:
    """Change the chosen rows by one MERGE."""
    _ensure(log)
    _merge(log, chosen.select(*PLACE, *[column.alias(name) for name, column in more.items()]), on=SAME, clauses=clause)


def _merge(log: TopicLog, source: DataFrame, *, on: str, clauses: str) -> None:
    """A MERGE that may be repeated, tried again where others changed the table meanwhile, or the answer to its own commit was lost."""
    for attempt in range(ATTEMPTS):
        try:
            tables.merge(source, log.quarantine, on=on, clauses=clauses, scatter=False)
            break
        except Conflict as error:
            if attempt == ATTEMPTS - 1 or error.name == LOCKED:
                raise


def _about(given: Mapping[str, Column]) -> list[Column]:
    from pyspark.sql import functions as F

    kinds: dict[str, str] = {**dict.fromkeys(ABOUT, "string"), "rules": "array<string>", "time": "timestamp", **KEPT}
    return [given.get(name, F.lit(None)).cast(kind).alias(name) for name, kind in kinds.items()]


def _ensure(log: TopicLog) -> None:
    """Make the table, or give it the columns and types that it has now."""
    stored = table_properties.read(log.spark, log.quarantine)
    if stored is not None and stored.get(IDENTITY) == log.uuid:
        held = tables.read(log.spark, log.quarantine).schema
        added = [Change((name,), kind, True) for name, kind in KEPT.items() if name not in held.names]
        evolution.apply(log.spark, log.quarantine, [*added, *plan(held["value"].dataType, log.types.value)])
        return
    try:
        properties = {FORMAT: str(FORMAT_VERSION), IDENTITY: log.uuid, **SKIPPING}
        tables.create(_none(log), log.quarantine, properties=properties, replace=stored is not None)
    except Conflict:
        table_properties.wait_for(log.spark, log.quarantine, IDENTITY, log.uuid)
