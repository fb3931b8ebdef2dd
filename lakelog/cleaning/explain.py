"""Why a key has the row it has: every record of it that the log holds, what became of each, and what the cleaner will do with it and when.

The same under another rule; and for a whole topic, how many keys another rule would give another record.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lakelog.cleaning import segments
from lakelog.cleaning.contest import Contender, Outcome, outcomes
from lakelog.cleaning.plan import ACTIVE, LAG, Decision, PartitionLog, Segment, decide
from lakelog.cleaning_results import Explained, ExplainedPartition, ExplainedRecord, WhatIf
from lakelog.delta import frames, tables
from lakelog.errors import InvalidRequest
from lakelog.inputs.keys import NamedKey
from lakelog.latest import recompute, silver
from lakelog.latest.progress import Progress
from lakelog.log import bronze
from lakelog.log.tail import LogEnd
from lakelog.model import config
from lakelog.model.config import RULE_SETTINGS, did_you_mean
from lakelog.model.json_values import plain
from lakelog.model.ordering import OrderingRule
from lakelog.model.records import as_datetime, looked_up
from lakelog.model.topic_log import TopicLog

if TYPE_CHECKING:
    from pyspark.sql import Row

# What the cleaner does with a record.
LATEST, TOMBSTONE, STAMPED, GOES, WAITS, NO_COMPACTION, GONE = (
    "latest-stays", "tombstone-waits-for-a-clean", "tombstone-goes-at", "goes-with-the-next-clean", "goes-when-dirty-enough", "policy", "gone",
)  # fmt: skip
# So many keys of another winner are named.
NAMED = 20


def under(log: TopicLog, stored: Mapping[str, str], settings: Mapping[str, Any], lake: Mapping[str, str]) -> TopicLog:
    """The topic as it would be under another rule.

    Raises:
        InvalidRequest: a setting that is not one of the rule's.
        InvalidConfig: a value that would be refused.
    """
    strange = next((name for name in settings if name not in RULE_SETTINGS), None)
    if strange is not None:
        raise InvalidRequest(
            f"{strange} is no setting of the ordering rule.{did_you_mean(strange, RULE_SETTINGS)} Those are {', '.join(RULE_SETTINGS)}."
        )
    after, _ = config.changed(stored, settings, lake)
    rule = OrderingRule.from_config(after)
    rule.version_type(log.types.value)
    return replace(log, config=after, rule=rule)


def explain(log: TopicLog, held: TopicLog, end: LogEnd, state: Progress, key: NamedKey, *, now: int) -> Explained:
    """The records of a key and what became of each.

    Args:
        log: the topic, under the rule that is asked about.
        held: the topic as it is.
        end: the log's end, pinned.
        state: silver's progress.
        key: which.
        now: the time in milliseconds.

    Cost: the log is read once (there is no index over keys), silver once; two small Spark jobs over control rows.
    """
    logs = segments.read(held, end).logs
    decisions = {index: decide(one, held.config, now=now) for index, one in logs.items()}
    stored = _rows(log, held, end, state, key)
    found = []
    for index in sorted({row["partition"] for row in stored}):
        mine = [row for row in stored if row["partition"] == index]
        contenders = [Contender(row["offset"], row["place"], row["tombstone"]) for row in mine]
        judged = outcomes(contenders, versioned=log.rule.versioned, barriers=log.rule.barriers)
        horizons = [row["horizon"] for row in mine if row["horizon"] is not None]
        horizon = horizons[0] if horizons else None
        place = _Place(log, logs[index], decisions[index], state.next[index], horizon)
        with tables.door(log.table):
            records = [place.told(row, judged[row["offset"]]) for row in sorted(mine, key=lambda row: row["offset"])]
        current = next((row["s_offset"] for row in mine if row["s_offset"] is not None), None)
        found.append(ExplainedPartition(index, state.next[index], current, end.tails[index].state.cleaned, records))
    return Explained(log.name, key.shown, str(log.rule), log.rule != held.rule, found)


def _rows(log: TopicLog, held: TopicLog, end: LogEnd, state: Progress, key: NamedKey) -> list[Row]:
    """The key's records in the log, and its row in silver where the log holds it no more: ``place`` is that of the version among them."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    columns = ["partition", "offset", "epoch", "timestamp", "tombstone", "value", "headers"]
    records = bronze.records(log, at=end.version).filter(key.test())
    starts = [end.starts()[index] for index in range(log.partitions)]
    records = records.filter(F.col("offset") >= looked_up(starts, F.col("partition")))
    records = records.select(*columns, log.rule.version().alias("version"), log.rule.invalid_version().alias("invalid"))
    latest = silver.rows(held, state.version).filter(key.test())
    latest = latest.select(
        *columns, log.rule.version().alias("version"), F.lit(False).alias("invalid"), F.col("delete_horizon").alias("horizon")
    )
    if log.rule == held.rule and log.rule.versioned:
        gone = silver.remembered(held).filter(key.test())
        latest = latest.unionAll(gone.select(*columns, "version", F.lit(False), F.lit(None).cast("timestamp")))
    beside = latest.select(
        F.col("partition").alias("s_partition"), F.col("offset").alias("s_offset"), F.unix_millis("horizon").alias("horizon")
    )  # fmt: skip
    same = (F.col("partition") == F.col("s_partition")) & (F.col("offset") == F.col("s_offset"))
    with tables.door(log.table):
        rows = frames.kept(records.join(F.broadcast(beside), same, "left").drop("s_partition").withColumn("in_log", F.lit(True)))
        missing = latest.join(rows.select("partition", "offset"), ["partition", "offset"], "left_anti")
        missing = missing.select(
            *columns, "version", "invalid", F.unix_millis("horizon").alias("horizon"), F.col("offset").alias("s_offset"), F.lit(False).alias("in_log")
        )  # fmt: skip
        whole = rows.select(*columns, "version", "invalid", "horizon", "s_offset", "in_log").unionAll(missing)
        places = F.dense_rank().over(Window.partitionBy("partition", F.col("version").isNotNull()).orderBy("version"))
        placed = whole.withColumn("place", F.when(F.col("version").isNotNull(), places))
        return frames.in_python(placed.select("*", F.unix_millis("timestamp").alias("ms"))).collect()


@dataclass(frozen=True)
class _Place:
    """A partition, as what is told of its records needs it."""

    log: TopicLog
    segments: PartitionLog
    decision: Decision
    merged: int
    horizon: int | None

    def told(self, row: Row, outcome: Outcome) -> ExplainedRecord:
        kinds = {"value": self.log.types.value, "version": self.log.rule.version_type(self.log.types.value)}
        segment = next((one for one in self.segments.segments if one.base <= row["offset"] < one.end), None)
        action, at = self.action(row, outcome, segment)
        headers = [] if row["headers"] is None else [[one["key"], one["value"]] for one in row["headers"]]
        return ExplainedRecord(
            row["offset"], row["epoch"], None if segment is None or not row["in_log"] else segment.base, as_datetime(row["ms"]), row["tombstone"],
            plain(row["value"], kinds["value"]), headers, plain(row["version"], kinds["version"]), row["invalid"], row["offset"] < self.merged,
            row["in_log"], outcome.reason, outcome.lost_to, outcome.late_behind, action, None if at is None else as_datetime(at),
        )  # fmt: skip

    def action(self, row: Row, outcome: Outcome, segment: Segment | None) -> tuple[str, int | None]:
        """What the cleaner does with a record, and from which time on."""
        if not row["in_log"] or segment is None:
            return GONE, None
        if not self.log.config.policy("compact"):
            return NO_COMPACTION, None
        if outcome.reason is None:
            if not row["tombstone"]:
                return LATEST, None
            return (TOMBSTONE, None) if self.horizon is None else (STAMPED, self.horizon)
        kept = self.decision.why_not(segment, self.segments.active)
        if kept == LAG:
            return LAG, segment.largest_ms + self.log.config.number("min.compaction.lag.ms")
        return (ACTIVE, None) if kept == ACTIVE else (GOES, None) if kept is None else (WAITS, None)


def what_if(log: TopicLog, held: TopicLog, end: LogEnd) -> WhatIf:
    """How many keys another rule would give another record, folding the log as it is under both.

    Args:
        log: the topic under the other rule.
        held: the topic as it is.
        end: the log's end, pinned.

    Cost: the log is read twice, and shuffled by key three times.
    """
    from pyspark.sql import functions as F

    ends = end.ends()
    now_ = recompute.winners(held, ends).select(
        "partition", "key", F.col("offset").alias("from_offset"), F.col("tombstone").alias("from_tombstone")
    )  # fmt: skip
    other = recompute.winners(log, ends, remembered=False)
    names = {"partition": "t_partition", "key": "t_key", "offset": "to_offset", "tombstone": "to_tombstone"}
    then = other.select([F.col(name).alias(alias) for name, alias in names.items()])
    same_key = (F.col("partition") == F.col("t_partition")) & F.col("key").eqNullSafe(F.col("t_key"))
    both = then.join(now_, same_key, "left")
    with tables.door(log.table):
        both = frames.kept(both.select("t_partition", "t_key", "from_offset", "from_tombstone", "to_offset", "to_tombstone"))
        changed = ~F.col("from_offset").eqNullSafe(F.col("to_offset"))
        was, is_ = ~F.coalesce("from_tombstone", F.lit(True)), ~F.col("to_tombstone")
        told = both.agg(
            F.count(F.lit(1)).alias("keys"), F.count_if(changed).alias("changed"), F.count_if(changed & was & ~is_).alias("deleted"),
            F.count_if(changed & ~was & is_).alias("live_again"),
        ).collect()[0]  # fmt: skip
        first = both.filter(changed).orderBy("t_partition", "to_offset").limit(NAMED)
        named = frames.in_python(first).collect() if told["changed"] else []
        keys = [plain(row["t_key"], log.types.key) for row in named]
    examples = [
        {"partition": row["t_partition"], "key": key, "from_offset": row["from_offset"], "to_offset": row["to_offset"]}
        for row, key in zip(named, keys, strict=True)
    ]
    cleaned = _incomplete(end)
    return WhatIf(
        log.name, str(held.rule), str(log.rule), told["keys"], told["changed"], told["deleted"], told["live_again"], examples, cleaned
    )


def _incomplete(end: LogEnd) -> Sequence[int]:
    """The partitions whose log no longer holds every record."""
    return [index for index, tail in sorted(end.tails.items()) if not tail.state.whole]
