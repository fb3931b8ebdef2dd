"""The past of a table: versions that are kept, how old they are, RESTORE; and what keeps it in bounds: OPTIMIZE and VACUUM."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakelog.delta.commits import carries, carrying, signed, version_with
from lakelog.delta.statement import beyond_retention, committing, during, interpreted, planned_beyond_retention
from lakelog.delta.tables import as_of, door, overwrite, read
from lakelog.model.names import TableRef

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

# Spark lists folders with thousands of tasks otherwise, which takes a minute for a small table.
FEW_TASKS = {"spark.sql.sources.parallelPartitionDiscovery.parallelism": "4"}


def pinned(spark: SparkSession, table: TableRef, version: int | None) -> DataFrame:
    """A version that is kept for a snapshot, or that this process goes by, however old; None: the table as it is.

    The newest version of a table that was not written for longer than its retention is refused by Delta as soon as another commit follows it. Where
    the session must not be told otherwise (serverless) it is, as by `tables.read`.
    """
    if version is None:
        return read(spark, table)
    with door(table), planned_beyond_retention(spark):
        rows = spark.sql(as_of(table, version))
        # Spark Connect looks at the table only when it is asked for something.
        rows.schema  # noqa: B018
        return rows


def ages(spark: SparkSession, table: TableRef) -> dict[int, int]:
    """How long ago each version was committed, in milliseconds, by the clock that Delta's retention goes by. Cost: as `version_at`."""
    return {int(row["version"]): int(row["age"]) for row in commits(spark, table)}


def commits(spark: SparkSession, table: TableRef) -> list[Row]:
    """All commits that the history still tells of, newest first: ``version``, ``age`` (as `ages`), ``operation`` and, of its ``operationParameters``,
    what it says of properties and of the version it went back to. Cost: as `version_at`.
    """
    from pyspark.sql import functions as F

    with door(table), interpreted(spark):
        age = (F.unix_millis(F.current_timestamp()) - F.unix_millis("timestamp")).alias("age")
        told = F.map_filter("operationParameters", lambda name, _: name.isin("properties", "version")).alias("operationParameters")
        rows = spark.sql(f"DESCRIBE HISTORY {table.sql()}").select("version", age, "operation", told).collect()
    return sorted(rows, key=lambda row: -int(row["version"]))


def restore(spark: SparkSession, table: TableRef, version: int) -> int | None:
    """RESTORE a table to a version: rows, columns and properties; whatever another writer committed before the statement began is taken back too.

    Returns:
        The version of the commit. None where there is none, as the table is as it was then, or where the session cannot sign it (serverless).

    Raises:
        NotFound: that version, or a file of it, is no more; the table is as it was.
        Conflict: another writer committed meanwhile; the table is as it was.

    Delta writes a checkpoint with it, and removes commits older than the ``delta.logRetentionDuration`` of the version that is brought back.

    Cost: the lists of files of two versions are compared; no data file is read or written; one look at the newest commit.
    """
    sign = signed(None)
    with committing(spark, table), door(table), beyond_retention(spark), during(spark, carrying(sign)):
        spark.sql(f"RESTORE TABLE {table.sql()} TO VERSION AS OF {int(version)}").collect()
        return version_with(spark, table, sign) if carries(spark, sign) else None


def rewrite(spark: SparkSession, table: TableRef, version: int, *, partitioned_by: tuple[str, ...]) -> int:
    """Bring the rows and columns of a version back in one commit, as `tables.overwrite`: the table keeps the properties that it has.

    Raises:
        NotFound: that version, or a file of it, is no more; the table is as it was.
        Conflict: another writer committed meanwhile; the table is as it was.

    Cost: the rows of that version are read and written once.
    """
    with beyond_retention(spark):
        return overwrite(pinned(spark, table, version), table, partitioned_by=partitioned_by)


def files(rows: DataFrame) -> list[str]:
    """The addresses of the files that a table is read from. No Spark job but that of Delta's look at its log."""
    return list(rows.inputFiles())


def optimize(spark: SparkSession, table: TableRef, where: str | None = None, *, user_metadata: str | None = None) -> tuple[int, int]:
    """Write small files of some partitions together. Returns how many files there are fewer: (removed, added).

    Args:
        spark: the session.
        table: the table.
        where: a condition on its partition columns alone, with literals; else all partitions.
        user_metadata: what the commit carries.

    Raises:
        Conflict: another writer touched those files; the table is as it was.

    Cost: files smaller than Delta's target are read and written once. Readers and appends go on.
    """
    with committing(spark, table), door(table), during(spark, carrying(signed(user_metadata))):
        metrics = spark.sql(f"OPTIMIZE {table.sql()}{f' WHERE {where}' if where else ''}").collect()[0]["metrics"]
    return int(metrics["numFilesRemoved"]), int(metrics["numFilesAdded"])


def purge(spark: SparkSession, table: TableRef) -> None:
    """Write the files anew of which rows are marked as deleted, so that no live file holds such a row.

    Raises:
        Conflict: another writer touched those files; the table is as it was.

    Cost: those files are read and written once.
    """
    with committing(spark, table), door(table), during(spark, carrying(signed(None))):
        spark.sql(f"REORG TABLE {table.sql()} APPLY (PURGE)").collect()


def vacuum(spark: SparkSession, table: TableRef, *, user_metadata: str | None = None) -> None:
    """Remove the files that no version within the table's retention needs. Never with another retention than the table's own.

    Cost: all files of the table are listed.
    """
    with committing(spark, table), door(table), during(spark, {**FEW_TASKS, **carrying(signed(user_metadata))}):
        spark.sql(f"VACUUM {table.sql()}").collect()
