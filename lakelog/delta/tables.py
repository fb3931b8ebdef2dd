"""The door to Delta: names and paths of tables, how they are created, read, appended to under a guard, merged.

Every Delta exception becomes one of ours at this door (delta/errors.py), and nowhere else. SQL names are quoted in table.py alone.
"""

from __future__ import annotations

import contextlib
import datetime
import uuid
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from lakelog.delta import commit_file, errors
from lakelog.delta.commits import carries, carrying, marked, signed, version_before
from lakelog.delta.commits import forget_version as forget_version
from lakelog.delta.commits import version_committed as version_committed
from lakelog.delta.commits import version_with as version_with
from lakelog.delta.errors import SOURCE_CHANGED as SOURCE_CHANGED
from lakelog.delta.errors import condition_of
from lakelog.delta.errors import source_door as source_door
from lakelog.delta.filesystem import is_cut_off, remove
from lakelog.delta.statement import committing, during, interpreted, within_retention
from lakelog.errors import Conflict, NotFound
from lakelog.model.names import TableRef, literal, quoted, schema_sql

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row, SparkSession

# The greatest number that a version can have.
LONGEST = 2**63 - 1
# Tables as this process analysed them (`analysed`), and which tables these were.
_analysed: dict[TableRef, tuple[object, DataFrame]] = {}


@contextlib.contextmanager
def door(table: object) -> Iterator[None]:
    """`errors.door`, where statements read what was analysed before: it is forgotten when the error says that it is out of date."""
    try:
        with errors.door(table):
            yield
    except Conflict as error:
        if error.__cause__ is not None and errors.is_out_of_date(error.__cause__):
            _analysed.clear()
        raise


def create(
    rows: DataFrame,
    table: TableRef,
    *,
    partitioned_by: tuple[str, ...] = (),
    properties: Mapping[str, str],
    replace: bool = False,
    user_metadata: str | None = None,
) -> int:
    """Create a table with its first rows and its properties, or ``replace`` the one there by it, in one commit. Returns its version.

    Raises:
        Conflict: the table came into being meanwhile.
        NotFound: there is none to be replaced.
    """
    from pyspark.sql import functions as F

    writer = rows.writeTo(table.sql()).using("delta")
    if partitioned_by:
        writer = writer.partitionedBy(*[F.col(name) for name in partitioned_by])
    for name, value in properties.items():
        writer = writer.tableProperty(name, value)
    spark, sign = rows.sparkSession, signed(user_metadata)
    with committing(spark, table, creating=True), door(table), during(spark, carrying(sign)):
        forget_version(spark)
        if table.path is not None and commit_file.newest(spark, table) is None and is_cut_off(spark, table.path):
            remove(spark, table.path)
        before = version_before(spark, table, sign)
        try:
            writer.replace() if replace else writer.create()
        except Exception as error:
            # By the path's files, or by the table: Delta asks for both, one after the other.
            if any(sign in condition_of(error) for sign in ("ALREADY_EXISTS", "NON_EMPTY_LOCATION")):
                raise Conflict(f"{table} was created by another writer meanwhile.") from error
            raise
        return version_committed(spark, table, sign, before)


def overwrite(rows: DataFrame, table: TableRef, *, partitioned_by: tuple[str, ...], user_metadata: str | None = None) -> int:
    """Replace all rows, the schema and the partitioning of a table in one commit; its properties and its identity stay.

    The rows may be made of the table itself, read in the transaction (`replace`). Where columns and partitioning stay as they are it is
    left to `replace`. Else to Spark's older writer, the only one that changes types and keeps a partitioning: one by `writeTo` leaves
    the table without any, and REPLACE TABLE makes another table.

    Returns:
        The version.

    Raises:
        NotFound: the table is gone.
        Conflict: another writer committed meanwhile.
    """
    from pyspark.sql import functions as F

    spark = rows.sparkSession
    # Spark Connect looks anew at what the rows are made of.
    with door(table):
        same = dict(rows.dtypes) == dict(read(spark, table).dtypes)
    if same and partition_columns(spark, table) == partitioned_by:
        return replace(rows, table, F.lit(True), user_metadata=user_metadata)
    sign = signed(user_metadata)
    writer = rows.write.format("delta").mode("overwrite").partitionBy(*partitioned_by)
    writer = writer.options(overwriteSchema="true", partitionOverwriteMode="static", userMetadata=sign)
    with committing(spark, table), door(table):
        forget_version(spark)
        writer.saveAsTable(table.sql())
        return version_committed(spark, table, sign)


def append(rows: DataFrame, table: TableRef) -> int:
    """Add rows to a table in one commit, whatever other writers do. Returns the version."""
    spark, sign = rows.sparkSession, signed(None)
    with committing(spark, table), door(table):
        forget_version(spark)
        rows.writeTo(table.sql()).option("userMetadata", sign).append()
        return version_committed(spark, table, sign)


def replace(rows: DataFrame, table: TableRef, where: Column, *, user_metadata: str | None) -> int:
    """Replace the rows of whole partitions (``where``) in one commit; the rows may be made of the table itself, read in the transaction.

    Every writer plans its rows within its transaction: what is committed before it begins is read, what is committed after conflicts.
    This one, by name, finds no table where a writer to a path would make one.

    Returns:
        The version.

    Raises:
        Conflict: a commit of another writer touched those partitions.
    """
    spark, sign = rows.sparkSession, signed(user_metadata)
    with committing(spark, table), door(table):
        forget_version(spark)
        rows.writeTo(table.sql()).option("userMetadata", sign).overwrite(where)
        return version_committed(spark, table, sign)


def size(spark: SparkSession, table: TableRef) -> int:
    """Octets of the table's live files. Cost: a look at the table's state, at most one small Spark job."""
    with door(table), interpreted(spark):
        return int(spark.sql(f"DESCRIBE DETAIL {table.sql()}").collect()[0]["sizeInBytes"])


def partition_columns(spark: SparkSession, table: TableRef) -> tuple[str, ...]:
    """The columns whose values are the table's directories. Cost: as `size`."""
    with door(table), interpreted(spark):
        return tuple(spark.sql(f"DESCRIBE DETAIL {table.sql()}").collect()[0]["partitionColumns"])


def identity(spark: SparkSession, table: TableRef) -> str:
    """Delta's own identity of a table: one that is made anew has another. Cost: as `size`."""
    with door(table), interpreted(spark):
        return str(spark.sql(f"DESCRIBE DETAIL {table.sql()}").collect()[0]["id"])


def read(spark: SparkSession, table: TableRef, at: int | datetime.datetime | None = None) -> DataFrame:
    """The table as it is, at a version, or at a time (see `version_at`)."""
    if isinstance(at, datetime.datetime):
        at = version_at(spark, table, at)
    with door(table):
        if at is None:
            return spark.read.table(table.sql())
        return within_retention(spark.sql(as_of(table, at)))


def as_of(table: TableRef, version: int) -> str:
    """The SELECT of a table's version.

    Raises:
        NotFound: no table has so many versions.
    """
    if int(version) > LONGEST:
        raise errors.no_version(table, version)
    return f"SELECT * FROM {table.sql()} VERSION AS OF {int(version)}"  # noqa: S608


def analysed(spark: SparkSession, table: TableRef, identity: object) -> DataFrame:
    """The table as it is whenever a statement reads it; under a path, analysed once for all statements of this process.

    Each name of a table in a statement is a look of Delta at its log before the one that reads it; this is none. A transaction reads the
    table as it found it. Not as the session's cache has it, which does not see what other processes commit: a copy there is dropped.
    Not for callers: frames of one analysis cannot be told apart in a join.

    Args:
        spark: the session.
        table: the table.
        identity: equal as long as the table is the same, its columns and types included; `door` forgets what was wrong all the same.
    """
    kept = _analysed.get(table)
    if kept is None or kept[0] != identity or kept[1].sparkSession is not spark:
        kept = (identity, read(spark, table))
        # Catalogs lend the means to read a table for a while only.
        if table.path is not None:
            _analysed[table] = kept
    level = kept[1].storageLevel
    return kept[1].unpersist() if level.useMemory or level.useDisk else kept[1]


def version_at(spark: SparkSession, table: TableRef, at: datetime.datetime) -> int:
    """The version that a table had at a time; after the newest commit, that one.

    By the table's history, since ``TIMESTAMP AS OF`` is off by hours, silently, where the time zones of the session and of the Java process
    differ, whatever offset the time states.

    Raises:
        NotFound: the table's history does not go back so far.

    Cost: one Spark job that opens every commit file there is.
    """
    from pyspark.sql import functions as F

    ms = (at - datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)) // datetime.timedelta(milliseconds=1)
    with door(table), interpreted(spark):
        commits = spark.sql(f"DESCRIBE HISTORY {table.sql()}").select("version", F.unix_millis("timestamp").alias("ms"))
        known, first = commits.agg(F.max(F.when(F.col("ms") <= ms, F.col("version"))), F.min("ms")).collect()[0]
    if known is None:
        oldest = datetime.datetime.fromtimestamp(first / 1000, tz=datetime.timezone.utc).isoformat()
        raise NotFound(
            f"{table}: there is nothing to read at {at.isoformat()}: its versions go back to {oldest}.", name="SNAPSHOT_NOT_FOUND"
        )
    return int(known)


def history(spark: SparkSession, table: TableRef, limit: int) -> list[Row]:
    """The newest commits, newest first; one small Spark job that opens ``limit`` commit files, none for the newest on this machine's disk."""
    if limit == 1 and (told := commit_file.told(spark, table)) is not None:
        return [told]
    with door(table), interpreted(spark):
        return list(spark.sql(f"DESCRIBE HISTORY {table.sql()} LIMIT {int(limit)}").collect())


def newest_version(spark: SparkSession, table: TableRef) -> int:
    """The version of the newest commit. Cost: as `history`."""
    return int(history(spark, table, 1)[0]["version"])


def merge(
    source: DataFrame, table: TableRef, *, on: str, clauses: str, scatter: bool = True, user_metadata: str | None = None
) -> int | None:
    """MERGE a source (alias ``s``) into a table (alias ``t``).

    The source must be deterministic: Delta reads it up to three times and is told not to copy it first.

    Args:
        source: the rows, with a hint to broadcast them where they are few.
        table: the target.
        on: the condition, with literal partitions of ``t``.
        clauses: the WHEN clauses.
        scatter: shuffle the rows by the table's partitions before they are written; needless where there is one.
        user_metadata: what the commit carries (a setting of the session while the statement runs).

    Returns:
        The version, or None when no row was changed (then there is no commit).

    Raises:
        Conflict: a commit of another writer touched what this one read.
    """
    spark, sign = source.sparkSession, signed(user_metadata)
    settings = {
        "spark.databricks.delta.merge.materializeSource": "none",
        # The source has columns that the target must not get.
        "spark.databricks.delta.schema.autoMerge.enabled": "false",
        "spark.databricks.delta.merge.repartitionBeforeWrite.enabled": str(scatter).lower(),
        # A small source is hashed, so that the rows of the table need no sort where the join cannot broadcast (full outer).
        "spark.sql.adaptive.maxShuffledHashJoinLocalMapThreshold": "64MB",
        **carrying(sign),
    }
    view = f"lakelog_{uuid.uuid4().hex}"
    source.createOrReplaceTempView(view)
    try:
        with committing(spark, table), door(table):
            forget_version(spark)
            with during(spark, settings):
                condition = on if carries(spark, sign) else f"{on} AND {marked(f's.{quoted(source.columns[0])}', sign)}"
                answer = spark.sql(f"MERGE INTO {table.sql()} t USING {quoted(view)} s ON {condition} {clauses}").collect()
            if not answer or not answer[0][0]:
                return None
            return version_committed(spark, table, sign)
    finally:
        spark.catalog.dropTempView(view)


def names(spark: SparkSession, schema: str, beginning: str) -> list[str]:
    """The names of a catalog schema's tables and views that begin so (letters, digits and _), sorted; no temporary ones. No Spark job."""
    with door(schema):
        found = spark.sql(f"SHOW TABLES IN {schema_sql(schema)} LIKE {literal(f'{beginning}*')}").collect()
    return sorted(row["tableName"] for row in found if not row["isTemporary"])


def drop(spark: SparkSession, table: TableRef) -> None:
    """Remove a table of a catalog with its files; nothing where there is none."""
    with door(table):
        spark.sql(f"DROP TABLE IF EXISTS {table.sql()}")
