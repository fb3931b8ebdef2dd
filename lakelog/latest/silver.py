"""Silver, the latest table: exactly one row per (partition, key), the record the ordering rule puts first.

A merge folds the log from the last merged offset on into silver in **one** MERGE that carries its own progress: control rows in the
reserved bucket -1 hold, per partition, the last merged offset, the append that ends there, the rule and the counts. The progress commits with the data,
travels back with a RESTORE, and gates the merge: it runs only if all control rows are still what it read, so of two merges at once one
wins and the other starts over, whichever partitions they move. Control rows have ``tombstone = true``: ``WHERE NOT tombstone`` is the live
table for any engine. A deleted key whose tombstone was cleaned away may leave a row with its version behind (`REMEMBERED`), so that a late older
record cannot bring the key back; it is a tombstone to other engines, and to lakelog's readers it is no row.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from lakelog.delta import frames, past, table_properties
from lakelog.delta.table_properties import FORMAT, FORMAT_VERSION, IDENTITY
from lakelog.latest.control_rows import CONTROL_BUCKET, has_control
from lakelog.latest.progress import Progress, not_as_left
from lakelog.log.notes import is_restore, restored_version
from lakelog.model.config import TopicConfig
from lakelog.model.names import TableRef, quoted
from lakelog.model.records import HEADERS, columns, instant, looked_up
from lakelog.model.topic_log import TopicLog
from lakelog.model.widening import shaped

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row, SparkSession
    from pyspark.sql.types import DataType, StructType


def schema(key: DataType, value: DataType, version: DataType) -> StructType:
    """Silver's columns."""
    return columns(
        bucket="integer", partition="integer", key=key, value=value, headers=HEADERS, timestamp="timestamp", version=version, offset="long",
        epoch="integer", tombstone="boolean", delete_horizon="timestamp", merged_at="timestamp", control="string",
    )  # fmt: skip


def skipping_columns(key: DataType) -> str:
    """The columns whose statistics skip files: keys where Delta can, then the numbers merges look for."""
    from pyspark.sql.types import StructType

    def able(kind: DataType) -> bool:
        return not kind.simpleString().startswith(("binary", "boolean", "struct"))

    if isinstance(key, StructType):
        keys = [f"key.{quoted(field.name)}" for field in key.fields if able(field.dataType)]
    else:
        keys = ["key"] if able(key) else []
    return ",".join(["partition", *keys, "offset", "timestamp"])


# The settings that silver carries as properties of its own.
SHAPING = {"snapshot.retention.ms", "deletion.vectors"}


# What ``control`` says of a deleted key whose tombstone has expired: its version is remembered, the row is no tombstone any more.
REMEMBERED = json.dumps({"type": "remembered"})


# Delta wants both of them, together.
RETENTIONS = ("delta.logRetentionDuration", "delta.deletedFileRetentionDuration")
# Delta's operations that leave these as they are.
LEAVING_RETENTIONS = ("MERGE", "WRITE", "DELETE", "UPDATE", "OPTIMIZE", "REORG", "VACUUM", "ADD COLUMN", "CHANGE COLUMN")
# What stands for ever: Delta's intervals end where microseconds do.
AGES_MS = 36500 * 86_400_000


def retention(settings: TopicConfig, kept_ms: int = 0) -> int:
    """How long silver's versions must stay readable, in milliseconds: ``snapshot.retention.ms``, and for kept snapshots ``kept_ms``."""
    asked = settings.number("snapshot.retention.ms")
    return max(AGES_MS if asked < 0 else asked, min(kept_ms, AGES_MS))


def delta_properties(settings: TopicConfig, kept_ms: int = 0) -> dict[str, str]:
    """The Delta properties of silver that follow from a configuration, and from the snapshots that are kept for ``kept_ms`` (`retention`)."""
    seconds = max(1, -(-retention(settings, kept_ms) // 1000))
    kept = dict.fromkeys(RETENTIONS, f"interval {seconds} seconds")
    return {**kept, "delta.enableDeletionVectors": str(settings.flag("deletion.vectors")).lower()}


def follow(spark: SparkSession, table: TableRef, settings: TopicConfig, kept_ms: int = 0, *, raising: bool = False) -> bool:
    """Give silver the Delta properties that follow from a configuration, where it has others: a lake's default may have changed.

    Returns whether it had.

    Args:
        spark: the session.
        table: silver.
        settings: the topic's.
        kept_ms: for how long removed files must be kept for the sake of snapshots.
        raising: only where the retention it has is shorter than it must be.
    """
    stored, wanted = table_properties.read(spark, table) or {}, delta_properties(settings, kept_ms)
    if raising and all(_seconds(stored.get(name)) >= _seconds(wanted[name]) for name in RETENTIONS):
        return False
    if any(stored.get(name) != text for name, text in wanted.items()):
        # All of them: Delta wants the retentions together.
        table_properties.change(spark, table, wanted)
        return True
    return False


def stored_retention(spark: SparkSession, table: TableRef) -> int:
    """For how long silver keeps the files that were removed from it, in milliseconds, as its properties say now. No Spark job."""
    return 1000 * _seconds((table_properties.read(spark, table) or {}).get(RETENTIONS[1]))


def retention_at(commits: Sequence[Row], version: int, stored: Mapping[str, str]) -> int:
    """For how long silver kept its commits and removed files at a version, in milliseconds, as the history tells it; 0 where it does not.

    Args:
        commits: silver's, newest first (`past.commits`).
        version: of silver.
        stored: the properties that it has now.
    """
    setting = [(int(row["version"]), row) for row in commits if _sets_retentions(row)]
    last = next((row for at, row in setting if at <= version), None)
    if not setting or setting[0][0] <= version:
        said = stored
    elif last is None:
        return 0
    elif is_restore(last):
        to = restored_version(last)
        return 0 if to is None or to >= last["version"] else retention_at(commits, to, stored)
    else:
        said = _said(last)
    return 1000 * min(_seconds(said.get(name)) for name in RETENTIONS)


def _sets_retentions(commit: Row) -> bool:
    """Whether a commit may have changed `RETENTIONS`."""
    operation, text = str(commit["operation"]).upper(), str((commit["operationParameters"] or {}).get("properties"))
    if operation in ("SET TBLPROPERTIES", "UNSET TBLPROPERTIES"):
        return any(name in text for name in RETENTIONS)
    return not operation.startswith(LEAVING_RETENTIONS)


def _said(commit: Row) -> dict[str, str]:
    """The properties that a commit set; none where it says nothing of them."""
    try:
        found = json.loads((commit["operationParameters"] or {})["properties"])
    except (KeyError, TypeError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _seconds(interval: str | None) -> int:
    """The length of an interval as `delta_properties` writes it; 0 where somebody else wrote it in another way."""
    found = re.fullmatch(r"interval (\d+) seconds", interval or "")
    return int(found[1]) if found else 0


def table_settings(log: TopicLog) -> dict[str, str]:
    """All properties of a latest table."""
    skipping = {"delta.dataSkippingStatsColumns": skipping_columns(log.types.key)}
    return {FORMAT: str(FORMAT_VERSION), IDENTITY: log.uuid, **skipping, **delta_properties(log.config)}


def control_frame(log: TopicLog, state: Progress, now: int, replaces: Progress | None = None) -> DataFrame:
    """The control rows of all partitions in silver's columns; then, where wanted, the offset and digest of the rows they replace."""
    from pyspark.sql import functions as F

    rows = []
    for index, mark in sorted(state.marks.items()):
        before = (replaces.marks[index].offset, replaces.marks[index].digest) if replaces else (None, None)
        rows.append((CONTROL_BUCKET, index, mark.offset, mark.epoch, True, mark.control, *before))
    ddl = "bucket INT, partition INT, offset BIGINT, epoch INT, tombstone BOOLEAN, control STRING, match_offset BIGINT, match_digest STRING"
    frame = frames.small_frame(log.spark, ddl, rows).coalesce(1)
    given = {**{name: F.col(name) for name in frame.columns}, "merged_at": instant(now, "partition")}
    fields = schema(log.types.key, log.types.value, log.rule.version_type(log.types.value)).fields
    columns = [given.get(field.name, F.lit(None).cast(field.dataType)).alias(field.name) for field in fields]
    return frame.select(*columns, *(["match_offset", "match_digest"] if replaces else []))


def stored_rows(log: TopicLog, rows: DataFrame, now: int, *more: Column) -> DataFrame:
    """Winners in silver's columns, and then ``more``."""
    from pyspark.sql import functions as F

    fixed = {
        "delete_horizon": F.lit(None).cast("timestamp"),
        "merged_at": instant(now, "partition"),
        "control": F.lit(None).cast("string"),
    }
    fields = schema(log.types.key, log.types.value, log.rule.version_type(log.types.value)).fields
    return rows.select(*[fixed.get(field.name, F.col(field.name)).alias(field.name) for field in fields], *more)


# ---- reading ----


def rows(log: TopicLog, at: int | None = None) -> DataFrame:
    """Silver without control rows and remembered versions, now or at a version that the caller goes by; values in the types that the topic has now."""
    return without_control(log, past.pinned(log.spark, log.silver, at))


def remembered(log: TopicLog, at: int | None = None) -> DataFrame:
    """Silver's remembered versions: deleted keys whose tombstone the cleaner removed, with offset and version, without value and headers."""
    from pyspark.sql import functions as F

    return with_remembered(log, past.pinned(log.spark, log.silver, at)).filter(F.col("control").isNotNull()).drop("control")


def stamped(log: TopicLog, below: Mapping[int, int], at: int | None = None) -> DataFrame:
    """Silver's tombstones that have a delete horizon, below an offset of each partition: a clean may have taken them out of the log already."""
    from pyspark.sql import functions as F

    limits = looked_up([below.get(index, 0) for index in range(log.partitions)], F.col("partition"))
    return rows(log, at).filter(F.col("tombstone") & F.col("delete_horizon").isNotNull() & (F.col("offset") < limits))


def withheld(log: TopicLog, below: Mapping[int, int]) -> DataFrame:
    """The deletes that the log may not give any more, for a silver that is computed anew: `remembered`, and `stamped` as these will be remembered."""
    from pyspark.sql import functions as F

    bare = stamped(log, below)
    for name in ("value", "headers"):
        bare = bare.withColumn(name, F.lit(None).cast(bare.schema[name].dataType))
    return remembered(log).unionAll(bare)


def carried(log: TopicLog, rows: DataFrame, below: Mapping[int, int], changes: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Changes for a silver that is computed anew, and the remembered versions that stay in it: the log does not give them any more.

    Args:
        log: the topic's log.
        rows: the deletes that silver knows and the log may not (`withheld`).
        below: partition to the offset below which they stay; what lies beyond is of a log that is no more.
        changes: the winners of the log, with their ``rank``.

    Returns:
        (the changes without those that lose to such a delete; the versions that lose to no change, in silver's columns, one for each key).
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    ends = looked_up([below.get(index, 0) for index in range(log.partitions)], F.col("partition"))
    # Of a key that another writer brought back beside itself the strongest.
    strongest = F.row_number().over(Window.partitionBy("partition", "key").orderBy(log.rule.rank().desc()))
    mine = rows.filter(F.col("offset") < ends).withColumn("strongest", strongest).filter("strongest = 1").drop("strongest")
    place = [F.col("partition").alias("r_partition"), F.col("key").alias("r_key")]
    same = (F.col("partition") == F.col("r_partition")) & (F.col("key") == F.col("r_key"))
    stronger = same & (F.col("rank") < F.col("r_rank"))
    left = changes.join(mine.select(*place, log.rule.rank().alias("r_rank")), stronger, "left_anti")
    stays = mine.join(left.select(*place), same, "left_anti")
    names = schema(log.types.key, log.types.value, log.rule.version_type(log.types.value)).names
    return left, stays.select(*[F.lit(REMEMBERED).alias(name) if name == "control" else F.col(name) for name in names])


def with_remembered(log: TopicLog, stored: DataFrame) -> DataFrame:
    """Silver as stored without control rows; of remembered versions ``control`` says so. Values in the types that the topic has now."""
    from pyspark.sql import functions as F

    have = stored.schema
    if not has_control(have.names):
        raise not_as_left(log.silver)
    found = stored.filter(F.col("bucket") > CONTROL_BUCKET)
    return found.withColumn("value", shaped(F.col("value"), have["value"].dataType, log.types.value))


def without_control(log: TopicLog, stored: DataFrame) -> DataFrame:
    """Silver as stored without control rows and remembered versions; values in the types that the topic has now."""
    from pyspark.sql import functions as F

    return with_remembered(log, stored).filter(F.col("control").isNull()).drop("control")
