"""Which version a commit of ours got: it is known by what it carries, its user metadata, and not by the order of commits."""

from __future__ import annotations

import contextlib
import json
import re
import uuid
from typing import TYPE_CHECKING

from lakelog.delta import commit_file
from lakelog.delta.errors import door
from lakelog.delta.session import setting
from lakelog.delta.statement import interpreted
from lakelog.errors import Damaged, NotFound
from lakelog.model.names import TableRef

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
# What stands before a sign in the condition of a statement.
MARK = "lakelog-note:"
LAST_COMMIT = "spark.databricks.delta.lastCommitVersionInSession"


def forget_version(spark: SparkSession) -> None:
    """Before a commit whose version is asked for: an older one is not to be taken for it (`version_committed`)."""
    with contextlib.suppress(Exception):
        spark.conf.unset(LAST_COMMIT)


def carrying(user_metadata: str) -> dict[str, str]:
    """The setting under which statements without options of their own (MERGE, CREATE) commit user metadata."""
    return {USER_METADATA: user_metadata}


def carries(spark: SparkSession, sign: str) -> bool:
    """Whether a statement that is run now commits this sign as its user metadata; serverless sessions refuse that setting."""
    return setting(spark, USER_METADATA) == sign


def marked(column: str, sign: str) -> str:
    """A condition that always holds and has the sign in it, for a statement whose session does not carry it (`carries`).

    Delta keeps the condition of a MERGE and of a DELETE with the commit; `sign_of` finds the sign there. It names a column, or Spark would
    leave it out as always true.
    """
    return f"(CAST({column} AS STRING) IS NULL OR CAST({column} AS STRING) <> '{MARK}{sign.encode().hex()}')"


def sign_of(commit: Row) -> str | None:
    """The user metadata of a commit as the history tells it, wherever it was put; None where it has none."""
    if commit["userMetadata"]:
        return str(commit["userMetadata"])
    found = re.search(rf"{MARK}([0-9a-f]+)", str((commit["operationParameters"] or {}).get("predicate")))
    return bytes.fromhex(found[1]).decode() if found else None


def version_before(spark: SparkSession, table: TableRef, sign: str) -> int | None:
    """Before a table is created or replaced, where the session does not carry the sign (`carries`): its version, -1 where there is none.

    None where the session carries it, as nearly everywhere.
    """
    if carries(spark, sign):
        return None
    try:
        with door(table), interpreted(spark):
            return int(spark.sql(f"DESCRIBE HISTORY {table.sql()} LIMIT 1").select("version").collect()[0]["version"])
    except NotFound:
        return -1


def signed(user_metadata: str | None) -> str:
    """A commit's user metadata (a JSON object) with a sign by which the commit is known among all others."""
    return json.dumps({**json.loads(user_metadata or "{}"), "commit": uuid.uuid4().hex})


def version_committed(spark: SparkSession, table: TableRef, sign: str, before: int | None = None) -> int:
    """The version of the commit just made, which carries ``sign`` as its user metadata.

    The session tells a version, but perhaps that of a commit that the caller made to another table meanwhile. Without a sign (``before``, as
    `version_before` gave it) it is the first commit since then that has none: who creates or replaces a table fails where another one did.

    Cost: nothing where the commit's file lies on this machine's disk; else one small Spark job.
    """
    told = setting(spark, LAST_COMMIT)
    if before is not None:
        version = _first_unsigned(spark, table, before)
    else:
        version = int(told) if told and commit_file.note(spark, table, int(told)) == sign else version_with(spark, table, sign)
    if version is None:
        raise Damaged(f"{table}: the history does not show the commit that was just made. Look at it before going on.")
    return version


def _first_unsigned(spark: SparkSession, table: TableRef, before: int) -> int | None:
    """The first commit after a version that creates or replaces the table and carries no user metadata."""
    from pyspark.sql import functions as F

    with door(table), interpreted(spark):
        commits = spark.sql(f"DESCRIBE HISTORY {table.sql()}").filter((F.col("version") > before) & F.col("userMetadata").isNull())
        writing = commits.filter(F.col("operation").rlike("^(CREATE|REPLACE)"))
        return writing.agg(F.min("version").alias("version")).collect()[0]["version"]  # type: ignore[no-any-return]


def version_with(spark: SparkSession, table: TableRef, sign: str) -> int | None:
    """The version of the commit whose user metadata contains a text; None when it cannot be found (any more).

    Cost: one small Spark job for the newest commit, one more for the newest hundred, then one that opens every commit file there is.
    """
    from pyspark.sql import functions as F

    for limit in (" LIMIT 1", " LIMIT 100", ""):
        with door(table), interpreted(spark):
            commits = spark.sql(f"DESCRIBE HISTORY {table.sql()}{limit}")
            hidden = F.contains(F.element_at("operationParameters", F.lit("predicate")), F.lit(sign.encode().hex()))
            found = commits.filter(F.contains("userMetadata", F.lit(sign)) | hidden).select("version").limit(1).collect()
        if found:
            return int(found[0]["version"])
    return None
