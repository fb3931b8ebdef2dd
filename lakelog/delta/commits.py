"""Which version a commit of ours got: it is known by what it carries, its user metadata, and not by the order of commits."""

from __future__ import annotations

import contextlib
import json
import uuid
from typing import TYPE_CHECKING

from lakelog.delta import commit_file
from lakelog.delta.errors import door
from lakelog.delta.statement import interpreted
from lakelog.errors import Damaged
from lakelog.model.names import TableRef

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LAST_COMMIT = "spark.databricks.delta.lastCommitVersionInSession"


def forget_version(spark: SparkSession) -> None:
    """Before a commit whose version is asked for: an older one is not to be taken for it (`version_committed`)."""
    with contextlib.suppress(Exception):
        spark.conf.unset(LAST_COMMIT)


def carrying(user_metadata: str) -> dict[str, str]:
    """The setting under which statements without options of their own (MERGE, CREATE) commit user metadata."""
    return {"spark.databricks.delta.commitInfo.userMetadata": user_metadata}


def signed(user_metadata: str | None) -> str:
    """A commit's user metadata (a JSON object) with a sign by which the commit is known among all others."""
    return json.dumps({**json.loads(user_metadata or "{}"), "commit": uuid.uuid4().hex})


def version_committed(spark: SparkSession, table: TableRef, sign: str) -> int:
    """The version of the commit just made, which carries ``sign`` as its user metadata.

    The session tells a version, but perhaps that of a commit that the caller made to another table meanwhile.

    Cost: nothing where the commit's file lies on this machine's disk; else one small Spark job.
    """
    told = spark.conf.get(LAST_COMMIT, None)
    version = int(told) if told and commit_file.note(spark, table, int(told)) == sign else version_with(spark, table, sign)
    if version is None:
        raise Damaged(f"{table}: the history does not show the commit that was just made. Look at it before going on.")
    return version


def version_with(spark: SparkSession, table: TableRef, sign: str) -> int | None:
    """The version of the commit whose user metadata contains a text; None when it cannot be found (any more).

    Cost: one small Spark job for the newest commit, one more for the newest hundred, then one that opens every commit file there is.
    """
    from pyspark.sql import functions as F

    for limit in (" LIMIT 1", " LIMIT 100", ""):
        with door(table), interpreted(spark):
            commits = spark.sql(f"DESCRIBE HISTORY {table.sql()}{limit}")
            found = commits.filter(F.contains("userMetadata", F.lit(sign))).select("version").limit(1).collect()
        if found:
            return int(found[0]["version"])
    return None
