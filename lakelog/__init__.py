"""lakelog: Kafka-style compacted topics on Delta Lake, run by plain scheduled Spark jobs.

A record is appended to *bronze* (the log), where it gets a permanent (partition, offset). A merge folds the log into *silver*, one row per
key, the winner under the topic's *ordering rule*. The folders are the architecture; imports go down this list only::

    job/          what a scheduler starts: a verb, its parameters, a report (``lakelog-job``; jobs/ calls it)
    cli/          the command line: its verbs; doctor.py, which says what is wrong with a machine
    terminal/     what it takes and prints: arguments, environment, clock, output
    page/         the status page: one file of a lake's topics, their history, runs, snapshots and verdicts
    running/      all that is due for a topic in one go (run), with a report; one run at a time (lease); how signals end it
    sources/      where a topic's records come from: directories, Delta tables, topics of Kafka, streams
    lake/         a root with its topics and defaults; how topics are created and deleted
    topic.py      the verbs on one topic; writing.py, reading.py, retention.py: those on its log and readers; latest_table.py: those that read
                  the latest table; commit_log.py: a topic as a commit log (KIP-27)
    native/       the verbs that only read, on the same tables without a JVM: delta-rs, DuckDB
    cleaning/     the log kept small: what nobody needs is planned and removed, segments closed, the log start moved (Kafka's log cleaner)
    transfer/     a topic as a directory of Parquet files with checksums: exported at a snapshot, imported under another root
    operations/   what touches several tables of a topic: configure, repair, upgrade; intents, by which the next writer finishes them
    readers/      positions in the log: read from one on, told where one stands, begun with the latest table, registered
    snapshots/    states of silver that are named, kept, compared and restored; the lake's registry of them (KIP-630)
    quality/      expectations before the log and the latest table, audits and their verdicts; the quarantine and its way back
    latest/       silver: the new part of the log is folded, compared with silver, written; views, status, verify
    log/          bronze: records are numbered and appended under a guard, expected offsets checked; the log's end and state; reading
    inputs/       a file, frame or list as a request: checked record by record, summed up
    formats/      how each format becomes columns: CSV, NDJSON, Parquet, Arrow, Avro, Python values; types fitted, nothing cut or guessed
    delta/        everything that knows Delta, Spark's settings or the file system; foreign errors become lakelog's here
    model/        values and Spark expressions without I/O: records, ordering, config, expected offsets, segments, names
    results.py    what verbs return (reader_results.py and so on: of that wing); errors.py: what they raise; arguments.py: what they take

Each of these folders is a *wing*; its ``__init__`` says which way data takes through its files. There are two *lanes* to the same tables: Spark, and
``native/``, which decides by the same values and reads files by itself. A *look* is a read of what a table, its commits or its settings are now; a
verb's docstring counts its looks because each is a trip to the store. An *intent* is a state row in the log that says what an operation is about to
do. Expected offsets, the conditions of an append (KIP-27), are ``model/expectations.py``; expectations of data, Great Expectations' and lakelog's
own, are ``quality/``. Where a change goes:

- a new setting is a line of ``SETTINGS`` in ``model/config.py``, with Kafka's name where Kafka has one, and of the README's table; what its value
  means is decided in the wing that uses it;
- a new verb on a topic is a method of ``topic.py`` or of the class it inherits it from (the list above), its work is in a wing, what it returns in
  the wing's results; its command in the file of ``cli/`` that has its kind, registered there, with an example in its help, which a test runs; a
  verb for schedulers in ``job/verbs.py`` too;
- a new operation on several tables is a file of ``operations/``, the name of its intent in ``model/log_state.py``, and its branch in
  ``operations/intents.py``, by which another writer finishes it;
- a new error is a ``name`` of the class in ``errors.py`` whose exit code says what its caller does next; a class of its own, with an exit code and
  a line in the README's table, only where a caller would act differently;
- a new header encoding is an expression in ``model/ordering.py`` and a value of ``compaction.header.encoding`` in ``model/config.py``;
- a new source format is a reader in ``formats/`` that ``inputs/sources.py`` makes a request with, and ``inputs/inference.py`` takes types from;
- a new status figure is a field of ``status_results.TopicStatus`` computed in ``latest/status.py`` (``status_of``, for both lanes), printed by
  ``terminal/output.py``; one that needs a look of its own is read in ``native/topic.py`` too;
- a new condition of appends is a value in ``model/expectations.py`` and its check in ``log/conditions.py``;
- a new reason why segments are cleaned or not is in ``cleaning/plan.py``, one why a record goes in ``cleaning/dropping.py``;
- a new check of ``lakelog doctor`` is in ``cli/doctor.py``.

Importing this package imports neither Spark nor Delta. The logger ``lakelog`` tells what verbs did (INFO) and when they try again (WARNING).
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lakelog.cleaning_results import Cleaned, Erased, Explained, Holder, RecordsDeleted, Rolled, WhatIf
    from lakelog.commit_log import CommitLog
    from lakelog.delta.session import local_session
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
    from lakelog.inputs.inference import types_like
    from lakelog.lake.lake import Lake
    from lakelog.model.ordering import OrderingRule
    from lakelog.quality_results import Dropped, Finding, Initialized, Requeued, Verdict
    from lakelog.reader_results import Committed, Exported, GroupLag, Lag, Position, Truncated, Validated
    from lakelog.readers.bootstrap import Bootstrap
    from lakelog.readers.read import Fetched
    from lakelog.results import (
        Appended,
        Loaded,
        Maintained,
        Merged,
        Repaired,
        Restored,
        Snapshot,
        SnapshotDeleted,
        TopicDeleted,
        TopicDescription,
        Upgraded,
        Verified,
    )
    from lakelog.sources.streaming import BatchAppender
    from lakelog.status_results import CleaningStatus, PartitionStatus, TopicStatus
    from lakelog.topic import Topic

_HOMES = {
    "cleaning_results": ("Cleaned", "Erased", "Explained", "Holder", "RecordsDeleted", "Rolled", "WhatIf"),
    "commit_log": ("CommitLog",),
    "errors": ("Conflict", "Damaged", "ExpectedOffsetMismatch", "FencedEpoch", "GateFailed", "Invalid", "InvalidConfig", "InvalidRecords",
               "InvalidRequest", "LakelogError", "LogIncomplete", "NotFound", "NotReady", "OffsetOutOfRange", "Refused", "TopicNotFound",
               "VersionMismatch"),
    "inputs.inference": ("types_like",),
    "lake.lake": ("Lake",),
    "model.ordering": ("OrderingRule",),
    "quality_results": ("Dropped", "Finding", "Initialized", "Requeued", "Verdict"),
    "reader_results": ("Committed", "Exported", "GroupLag", "Lag", "Position", "Truncated", "Validated"),
    "readers.bootstrap": ("Bootstrap",),
    "readers.read": ("Fetched",),
    "sources.streaming": ("BatchAppender",),
    "results": ("Appended", "Loaded", "Maintained", "Merged", "Repaired",
                "Restored", "Snapshot", "SnapshotDeleted", "TopicDeleted", "TopicDescription", "Upgraded", "Verified"),
    "status_results": ("CleaningStatus", "PartitionStatus", "TopicStatus"),
    "delta.session": ("local_session",),
    "topic": ("Topic",),
}  # fmt: skip
__version__ = "0.1.0"
__all__ = [
    "Appended", "BatchAppender", "Bootstrap", "Cleaned", "CleaningStatus", "CommitLog", "Committed", "Conflict", "Damaged", "Dropped", "Erased",
    "ExpectedOffsetMismatch", "Explained", "Exported", "FencedEpoch", "Fetched", "Finding", "GateFailed", "GroupLag", "Holder",
    "Initialized", "Invalid", "InvalidConfig", "InvalidRecords", "InvalidRequest", "Lag", "Lake", "LakelogError", "Loaded", "LogIncomplete",
    "Maintained", "Merged", "NotFound", "NotReady", "OffsetOutOfRange", "OrderingRule", "PartitionStatus", "Position", "RecordsDeleted",
    "Refused", "Repaired", "Requeued", "Restored", "Rolled", "Snapshot", "SnapshotDeleted", "Topic", "TopicDeleted", "TopicDescription",
    "TopicNotFound", "TopicStatus", "Truncated", "Upgraded", "Validated", "Verdict", "Verified", "VersionMismatch", "WhatIf",
    "local_session", "types_like",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(f"lakelog.{home}"), name)
    raise AttributeError(f"module 'lakelog' has no attribute {name!r}")
