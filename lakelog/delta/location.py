"""Where a location lies: on this machine's disk, or elsewhere. Whatever looks at a table's files past Spark asks here first.

A path without a scheme belongs to Spark's default file system, which on a cluster is HDFS, DBFS or a bucket, and not the disk of the
machine that this process runs on. The disk of a Spark Connect server is another machine's.
"""

from __future__ import annotations

import os
import re
import uuid
import weakref
from typing import TYPE_CHECKING

from lakelog.delta.errors import condition_of
from lakelog.model.names import local_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# What this process found out: how full addresses of paths without a scheme begin.
_defaults: weakref.WeakKeyDictionary[SparkSession, str] = weakref.WeakKeyDictionary()


def on_this_disk(spark: SparkSession | None, location: str) -> str | None:
    """The path behind a location, where it certainly is one of this machine (a mounted one too); else None.

    Without a session a path without a scheme is one of this machine: there is no Spark whose default file system it could be in.

    Cost: none, but the first call of a session asks Spark once, without a job.
    """
    path = local_path(location)
    if spark is None:
        return path
    if path is None or not _shares_this_disk(spark):
        return None
    return path if path != location or _default(spark).startswith("file:") else None


def over_connect(spark: SparkSession) -> bool:
    """Whether a session is a client of Spark Connect, whose server may be another machine and analyses a frame anew for every action."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def address(spark: SparkSession, location: str) -> str:
    """A location with its scheme, as storage tools outside of Spark name it."""
    if local_path(location) != location:
        return location
    return f"{_default(spark).rstrip('/')}{location}"


def _shares_this_disk(spark: SparkSession) -> bool:
    """Whether Spark's driver runs on this machine: always beside a classic session; of Spark Connect only a server that PySpark started here."""
    if not over_connect(spark):
        return True
    host = str(getattr(getattr(spark, "client", None), "host", ""))
    return "SPARK_LOCAL_REMOTE" in os.environ and host in ("localhost", "127.0.0.1", "::1")


def _default(spark: SparkSession) -> str:
    """How the full address of a path without a scheme begins: ``file:``, ``hdfs://host:8020``; empty where Spark does not tell."""
    if spark not in _defaults:
        _defaults[spark] = _asked(spark)
    return _defaults[spark]


def _asked(spark: SparkSession) -> str:
    """The same, told by the full address in the error about a path that is not there: settings may stand in files, or change while it runs."""
    nowhere = f"/lakelog-{uuid.uuid4().hex}"
    try:
        # Spark Connect analyses a frame only when it is asked for something.
        spark.read.text(nowhere).schema  # noqa: B018
    except Exception as error:
        found = re.search(rf"([A-Za-z][A-Za-z0-9+.-]+:[^\s]*?){nowhere}", str(error))
        if found and condition_of(error).startswith("PATH_NOT_FOUND"):
            return re.sub(r"^file:/*$", "file:", found[1])
    return ""
