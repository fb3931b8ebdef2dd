"""What a run was made with and where it found the topic: versions of packages, the configuration's digest, versions and offsets of the tables."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import importlib.metadata
import json
import platform
from collections.abc import Sequence
from typing import Any

from lakelog.lake.lake import Lake
from lakelog.latest.progress import progress
from lakelog.log.tail import log_end
from lakelog.sources.configured import Source
from lakelog.topic import Topic


def place(topic: Topic) -> dict[str, Any]:
    """Where a topic stands; empty where it cannot tell."""
    try:
        end = log_end(topic.log)
        latest = progress(topic.log)
    except Exception:
        return {}
    return {
        "bronze": end.version, "silver": latest.version, "epoch": end.epoch,
        "ends": {str(index): offset for index, offset in end.ends().items()},
        "merged": {str(index): offset for index, offset in sorted(latest.next.items())},
    }  # fmt: skip


def configuration(topic: Topic, sources: Sequence[Source]) -> str:
    """SHA-256 of what decides what a run does: the topic's types and effective settings, and its sources."""
    described = topic.describe()
    settings = {one["name"]: one["value"] for one in described.config}
    said = [described.uuid, described.key, described.value, described.partitions, settings, [dataclasses.asdict(one) for one in sources]]
    return hashlib.sha256(json.dumps(said, sort_keys=True, default=str).encode()).hexdigest()


def versions(lake: Lake | None) -> dict[str, str]:
    """The versions of lakelog, of Spark and Delta, and of Python; of the packages that are installed where there is no session to be asked."""
    from lakelog import __version__

    found = {"lakelog": __version__, "python": platform.python_version()}
    for name, package in (("spark", "pyspark"), ("delta", "delta-spark")):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(package)
    if lake is not None:
        with contextlib.suppress(Exception):
            found["spark"] = lake.spark.version
    return found
