"""Object stores that do not arbitrate two writers by themselves: S3, under nearly every LogStore that Delta has.

A commit to Delta's log must not replace another one's file. Azure, Google Cloud Storage and HDFS see to that. On S3 Delta's default LogStore
looks first and writes then: of two drivers that commit at once, one commit is lost, and neither is told.

S3 itself could refuse (a PUT with ``If-None-Match: *``), and delta-rs asks it to. Delta 4.4.0 has no LogStore that does: of those it brings,
only the one with a lock table in DynamoDB arbitrates. Its LogStores for other stores do not, whatever scheme they are named for: the one for
Google Cloud Storage creates files "unless they are there", which Hadoop's S3 connector (3.4.2) makes a look and a plain PUT of, or with
``fs.s3a.create.performance`` a plain PUT alone (tried: of two drivers one lost a commit).
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from lakelog.delta.session import setting
from lakelog.model.names import TableRef, scheme_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

S3_SCHEMES = ("s3", "s3a", "s3n")
# Delta's LogStores that look first and write then, or rename, on S3 too.
UNSAFE = re.compile(r"(io\.delta\.storage|org\.apache\.spark\.sql\.delta\.storage)\.(S3SingleDriver|GCS|HDFS|Azure|Local|Cloud)LogStore$")
REMEDY = (
    "Let one process write at a time, or name a LogStore that can, such as Delta's with a lock table in DynamoDB (a jar of its own):"
    " spark.delta.logStore.{scheme}.impl=io.delta.storage.S3DynamoDBLogStore."
)
# delta-rs' names of Hadoop's settings of S3.
NATIVE = {
    "fs.s3a.endpoint": "aws_endpoint",
    "fs.s3a.endpoint.region": "aws_region",
    "fs.s3a.access.key": "aws_access_key_id",
    "fs.s3a.secret.key": "aws_secret_access_key",
    "fs.s3a.session.token": "aws_session_token",
}
_warned: set[str] = set()


def unarbitrated(root: str, told: Callable[[str], str | None], environment: Mapping[str, str] = os.environ) -> str:
    """Why two writers of a lake could lose each other's commits, with the remedy; empty where they could not, or nothing is known.

    Args:
        root: the lake's.
        told: gives a setting of the Spark session by its name, None where it is not set.
        environment: Databricks commits to ``s3://`` by a service of its own.
    """
    scheme = scheme_of(root)
    if "/" not in root or scheme not in S3_SCHEMES or environment.get("DATABRICKS_RUNTIME_VERSION"):
        return ""
    store = log_store(root, told)
    if _arbitrates(store):
        return ""
    which = store.rpartition(".")[2] or "Delta's default LogStore"
    return f"{scheme}:// with {which} cannot arbitrate two writers: commits can be lost. {REMEDY.format(scheme=scheme)}"


def log_store(root: str, told: Callable[[str], str | None]) -> str:
    """The class of the LogStore that is named for a root; empty where none is."""
    return told(f"spark.delta.logStore.{scheme_of(root)}.impl") or ""


def _arbitrates(store: str) -> bool:
    """Whether a LogStore, as `log_store` gives it, lets one of two writers win on S3; Delta's default does not."""
    return bool(store) and not UNSAFE.search(store)


def only_spark_writes(spark: SparkSession, root: str) -> str:
    """Why delta-rs must not write to a lake on S3 beside a session; empty where it may, or the lake lies elsewhere.

    Cost: for a lake on S3 a question to the session; no job.
    """
    if scheme_of(root) not in S3_SCHEMES:
        return ""
    if os.environ.get("DATABRICKS_RUNTIME_VERSION") or ".connect." in type(spark).__module__:
        return "what commits to S3 for a session elsewhere is not known here"
    store = log_store(root, lambda name: setting(spark, name))
    return f"{store.rpartition('.')[2]} does not see what delta-rs commits to S3" if _arbitrates(store) else ""


def warn_of_two_writers(spark: SparkSession, table: TableRef) -> None:
    """Warn once for each store in which commits of two writers could be lost.

    Cost: for a table on S3 up to four questions to the session, the first time; no job.
    """
    place = table.path or ""
    store = "/".join(place.split("/")[:3])
    if scheme_of(place) not in S3_SCHEMES or store in _warned:
        return
    _warned.add(store)
    why = unarbitrated(place, lambda name: setting(spark, name))
    if why:
        warnings.warn(f"{store}: {why}", stacklevel=2)


def native_options(settings: Mapping[str, str]) -> dict[str, str]:
    """delta-rs' options for what Spark's settings say of S3; what they do not say, the environment does (``AWS_…``)."""
    hadoop = {name.removeprefix("spark.hadoop."): value for name, value in settings.items() if name.startswith("spark.hadoop.fs.s3a.")}
    options = {NATIVE[name]: value for name, value in hadoop.items() if name in NATIVE and value}
    endpoint = options.get("aws_endpoint", "")
    if endpoint and "://" not in endpoint:
        plain = hadoop.get("fs.s3a.connection.ssl.enabled", "true").lower() == "false"
        endpoint = options["aws_endpoint"] = f"{'http' if plain else 'https'}://{endpoint}"
    if endpoint.startswith("http://"):
        options["aws_allow_http"] = "true"
    if hadoop.get("fs.s3a.path.style.access", "").lower() == "false":
        options["aws_virtual_hosted_style_request"] = "true"
    return options
