"""A topic's quarantine: records that are not in its log, each with the reason, to be looked at and appended again.

A restore puts the records there that leave the log (reason RESTORED). The table is made when it is first needed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING

from lakelog.delta import table_properties, tables
from lakelog.delta.table_properties import FORMAT, FORMAT_VERSION, IDENTITY
from lakelog.errors import Conflict
from lakelog.latest import evolution
from lakelog.log.rows import RECORD_COLUMNS
from lakelog.model.records import instant, looked_up
from lakelog.model.topic_log import TopicLog
from lakelog.model.widening import plan, shaped

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

RESTORED = "RESTORED"
# What is told of a record beside the record: why it is here, the rules it broke, where it came from, its token, since when, the raw input.
ABOUT = ("reason", "rules", "source", "token", "time", "raw")


def put(log: TopicLog, leave: Mapping[int, int], *, source: str, now: int) -> None:
    """Copy the log's records at and beyond an offset of each partition into the quarantine; again with the same source, and nothing changes.

    Args:
        log: the topic's log.
        leave: partition to the first offset.
        source: what takes them out of the log, by an identity of its own.
        now: the time in milliseconds.

    Cost: the records are read and written once; one MERGE that inserts.
    """
    from pyspark.sql import functions as F

    if not leave:
        return
    _ensure(log)
    first = looked_up([leave.get(index, 0) for index in range(log.partitions)], F.col("partition"))
    rows = tables.read(log.spark, log.table).filter(
        F.col("partition").isin(sorted(leave)) & (F.col("segment") >= 0) & (F.col("offset") >= min(leave.values()))
    )
    rows = rows.filter(F.col("control").isNull() & (F.col("offset") >= first))
    value = shaped(F.col("value"), rows.schema["value"].dataType, log.types.value).alias("value")
    record = [value if name == "value" else F.col(name) for name in RECORD_COLUMNS]
    tables.merge(
        rows.select(*record, *_about(F.lit(RESTORED), F.lit(source), instant(now, "partition"))),
        log.quarantine,
        on="t.source = s.source AND t.partition = s.partition AND t.offset = s.offset AND t.epoch = s.epoch",
        clauses="WHEN NOT MATCHED THEN INSERT *",
        scatter=False,
    )


def rows(log: TopicLog) -> DataFrame:
    """What the quarantine holds, in the columns of the log's records and `ABOUT`. Cost: none until it is read."""
    if (table_properties.read(log.spark, log.quarantine) or {}).get(IDENTITY) != log.uuid:
        return _none(log)
    return tables.read(log.spark, log.quarantine)


def _none(log: TopicLog) -> DataFrame:
    from pyspark.sql import functions as F

    empty = tables.read(log.spark, log.table).select(*RECORD_COLUMNS, *_about(F.lit(""), F.lit(""), F.lit(0).cast("timestamp")))
    return empty.limit(0)


def identity(chosen: DataFrame) -> tuple[int, str]:
    """How many records were chosen, and a token that stands for just these. Cost: one Spark job."""
    from pyspark.sql import functions as F

    place = F.concat_ws(" ", "partition", "offset", "epoch", "source")
    count, text = chosen.agg(F.count(F.lit(1)), F.concat_ws("\n", F.sort_array(F.collect_list(F.sha2(place, 256))))).collect()[0]
    return int(count), f"requeue-{hashlib.sha256(text.encode()).hexdigest()}"


def remove(log: TopicLog, chosen: DataFrame) -> None:
    """Take records out of the quarantine; those that are not there are passed over."""
    tables.merge(
        chosen.select("partition", "offset", "epoch", "source"),
        log.quarantine,
        on="t.source = s.source AND t.partition = s.partition AND t.offset = s.offset AND t.epoch = s.epoch",
        clauses="WHEN MATCHED THEN DELETE",
        scatter=False,
    )


def _about(reason: Column, source: Column, time: Column) -> list[Column]:
    from pyspark.sql import functions as F

    text = F.lit(None).cast("string")
    given = {"reason": reason, "rules": F.lit(None).cast("array<string>"), "source": source, "token": text, "time": time, "raw": text}
    return [given[name].alias(name) for name in ABOUT]


def _ensure(log: TopicLog) -> None:
    """Make the table, or give it the types that the topic has now."""
    stored = table_properties.read(log.spark, log.quarantine)
    if stored is not None and stored.get(IDENTITY) == log.uuid:
        held = tables.read(log.spark, log.quarantine).schema["value"].dataType
        evolution.apply(log.spark, log.quarantine, plan(held, log.types.value))
        return
    properties = {FORMAT: str(FORMAT_VERSION), IDENTITY: log.uuid}
    try:
        tables.create(_none(log), log.quarantine, properties=properties, replace=stored is not None)
    except Conflict:
        table_properties.wait_for(log.spark, log.quarantine, IDENTITY, log.uuid)
