"""What of the case format lakelog can do today, as data. Each later part moves names from the "not yet" side to this one.

Settings need no entry here: what `lakelog.config.SETTINGS` accepts is supported.
"""

from __future__ import annotations

# Steps that run.
VERBS = {"append", "merge", "configure", "rebuild", "read", "expect"}
# Steps that are passed over as long as they cannot run: the case is partial, and what they would have changed is not compared.
PASSED_OVER = {"roll", "clean"} - VERBS
# Fields of an append's step or records that are understood beyond key, value, timestamp, headers, tombstone and partition.
APPEND_FIELDS = {"expected", "token", "epoch"}
# Fields of an `expect` step that can be seen.
LOOKS = {"log", "records", "latest", "tombstones", "leo", "lso", "epoch", "segments", "counts", "config"}
# Counts that exist; the others belong to the cleaner.
COUNTS = {"invalid_versions", "ignored_deletes", "late"}
# Cases that are about the cleaner itself, although a model without one agrees with all they look at.
ABOUT_THE_CLEANER = {"Z04"}
# Looks that a passed-over step may have changed.
CHANGED_BY_CLEANING = {"log", "lso", "segments", "records", "first_dirty"}
# The first epoch of a topic here; the cases count from 0.
FIRST_EPOCH = 0

# Every setting that the format knows. A name that is none of these is a case's deliberate mistake, not something to wait for.
FORMAT_SETTINGS = {
    "compaction.strategy", "compaction.strategy.header", "compaction.header.invalid", "compaction.header.required", "tombstone.unversioned",
    "tombstone.strict", "tombstone.version.retention.ms", "check.expected.offsets", "check.expected.offsets.scope", "cleanup.policy",
    "delete.retention.ms", "min.compaction.lag.ms", "max.compaction.lag.ms", "min.cleanable.dirty.ratio", "retention.ms", "retention.bytes",
    "segment.ms", "segment.bytes", "max.message.bytes", "message.timestamp.type", "message.timestamp.before.max.ms",
    "message.timestamp.after.max.ms", "snapshot.retention.ms", "snapshot.retention.count", "max.snapshot.interval.ms",
    "max.record.bytes.between.snapshots", "producer.id.expiration.ms",
}  # fmt: skip
DELETE_RETENTION_MS = 86_400_000
