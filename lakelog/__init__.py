"""lakelog: Kafka-style compacted topics on Delta Lake, run by plain scheduled Spark jobs.

The map, imports going down only::

    5  cli admin call show settings doctor demo (and jobs/)    arguments, environment, session
    4  lake topic topic_tables lake_table    the verbs people call; how topics are made and removed, where they are listed
    4  commit_log                      a topic as a commit log (KIP-27)
    3  ndjson sources refusal staging tail tokens conditional guard bronze appender bulk             records into the log
    3  progress fold compare silver merger, views evolution status verify identity    the log into the latest table; what is seen
    2  delta delta_errors statement table_properties commit_file filesystem session prerequisites    the doors: Delta (its errors ours), files, Spark
    1  records ordering config condition segments steps table moment results    values and expressions, no I/O
    0  errors

A record is appended to *bronze* (the log), where it gets a permanent (partition, offset). A merge folds the log into *silver*, one row per
key, the winner under the topic's *ordering rule*. Importing this package imports neither Spark nor Delta.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lakelog.commit_log import CommitLog
    from lakelog.errors import (
        Conflict,
        Damaged,
        ExpectedOffsetMismatch,
        FencedEpoch,
        GateFailed,
        Invalid,
        InvalidConfig,
        InvalidRecords,
        InvalidRequest,
        LakelogError,
        LogIncomplete,
        NotFound,
        NotReady,
        OffsetOutOfRange,
        Refused,
        TopicNotFound,
        VersionMismatch,
    )
    from lakelog.lake import Lake
    from lakelog.ordering import OrderingRule
    from lakelog.results import Appended, Loaded, Merged, PartitionStatus, Position, TopicDeleted, TopicDescription, TopicStatus, Verified
    from lakelog.session import local_session
    from lakelog.topic import Topic

_HOMES = {
    "commit_log": ("CommitLog",),
    "errors": ("Conflict", "Damaged", "ExpectedOffsetMismatch", "FencedEpoch", "GateFailed", "Invalid", "InvalidConfig", "InvalidRecords",
               "InvalidRequest", "LakelogError", "LogIncomplete", "NotFound", "NotReady", "OffsetOutOfRange", "Refused", "TopicNotFound",
               "VersionMismatch"),
    "lake": ("Lake",),
    "ordering": ("OrderingRule",),
    "results": ("Appended", "Loaded", "Merged", "PartitionStatus", "Position", "TopicDeleted", "TopicDescription", "TopicStatus",
                "Verified"),
    "session": ("local_session",),
    "topic": ("Topic",),
}  # fmt: skip
__version__ = "0.1.0"
__all__ = [
    "Appended", "CommitLog", "Conflict", "Damaged", "ExpectedOffsetMismatch", "FencedEpoch", "GateFailed", "Invalid", "InvalidConfig", "InvalidRecords",
    "InvalidRequest", "Lake", "LakelogError", "Loaded", "LogIncomplete", "Merged", "NotFound", "NotReady", "OffsetOutOfRange", "OrderingRule",
    "PartitionStatus", "Position", "Refused", "Topic",
    "TopicDeleted", "TopicDescription", "TopicNotFound", "TopicStatus", "Verified", "VersionMismatch", "local_session",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(f"lakelog.{home}"), name)
    raise AttributeError(f"module 'lakelog' has no attribute {name!r}")
