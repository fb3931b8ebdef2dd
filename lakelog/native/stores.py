"""Which stores delta-rs opens by itself, how it calls what lies there, and where it may write."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping

from lakelog.delta.object_store import S3_SCHEMES, native_options
from lakelog.errors import InvalidRequest
from lakelog.model.names import TableRef, local_path, scheme_of

# Object stores that delta-rs opens by itself, and how it calls those that Hadoop calls otherwise.
SCHEMES = {"": "", "file": "file", "s3": "s3", "s3a": "s3", "s3n": "s3", "abfs": "abfs", "abfss": "abfss", "gs": "gs", "az": "az"}
# What delta-rs reads otherwise in the path of a folder, as parts of an address.
UNREADABLE = ("#", "?", "%", "\\")
PACKAGES = ("deltalake", "pyarrow")
# What this process was told of S3, as delta-rs names it.
_s3_options: dict[str, str] = {}
UNKNOWN_WRITER = "which LogStore commits to S3 is not known"
# Why only Spark may write on S3.
_s3_writer = [UNKNOWN_WRITER]


def why_not(root: str) -> str:
    """Why a root cannot be read without Spark; empty where it can. Looks at no file but links."""
    if "/" not in root:
        return "a catalog is known to Spark alone"
    if scheme_of(root) not in SCHEMES:
        return f"delta-rs does not know {scheme_of(root)}://"
    path = local_path(root)
    if path is not None and (wrong := misread(path)):
        return wrong
    missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    return (
        f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} not installed (pip install 'lakelog[native]')" if missing else ""
    )


def misread(path: str) -> str:
    """Why delta-rs would look for a folder of this machine elsewhere; empty where it does not. Looks at no file but links."""
    # It follows links before it takes a folder for an address.
    wrong = next((one for one in UNREADABLE if one in f"{path} {os.path.realpath(path)}"), None)
    return f"delta-rs takes {wrong} in the name of a folder for part of an address" if wrong else ""


def why_not_written(root: str) -> str:
    """Why the lake's own bookkeeping cannot be written without Spark; empty where it can. Looks at no file.

    On S3 delta-rs lets the store refuse a commit that is there already. A LogStore that arbitrates by other means (a lock table, a service of
    Databricks) does not see that, so it writes only where the session is known to have none (`use_settings`).
    """
    if reason := why_not(root):
        return reason
    return _s3_writer[0] if scheme_of(root) in S3_SCHEMES else ""


def use_settings(spark: Mapping[str, str], *, s3_writer: str = UNKNOWN_WRITER) -> None:
    """Open tables on S3 from now on as Spark's settings say (``spark.hadoop.fs.s3a.…``: endpoint, region, keys).

    What they do not say is taken from the environment (``AWS_ENDPOINT_URL``, ``AWS_ACCESS_KEY_ID`` and so on); so is all that concerns Azure and
    Google Cloud Storage.

    Args:
        spark: the settings.
        s3_writer: why only Spark may write there; empty where delta-rs may too.
    """
    _s3_options.clear()
    _s3_options.update(native_options(spark))
    _s3_writer[0] = s3_writer


def location(ref: TableRef) -> str:
    """Where a table is, as delta-rs names it."""
    path = ref.path or ""
    local = local_path(path)
    if local is not None:
        return local
    scheme = scheme_of(path)
    return f"{SCHEMES[scheme]}{path[len(scheme) :]}"


def options(ref: TableRef) -> dict[str, str]:
    """What delta-rs is told to open a table."""
    return dict(_s3_options) if scheme_of(ref.path or "") in S3_SCHEMES else {}


def require_native(root: str) -> None:
    """Refuse a root that cannot be read without Spark.

    Raises:
        InvalidRequest: saying why, and what to do.
    """
    reason = why_not(root)
    if reason:
        raise InvalidRequest(f"{root} cannot be read without Spark: {reason}. Give the Lake a session: Lake(local_session(), {root!r}).")
