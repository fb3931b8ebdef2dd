"""What of the case format lakelog can do today, as data. Each later part moves names from the "not yet" side to this one.

Settings need no entry here: what `lakelog.config.SETTINGS` accepts is supported.
"""

from __future__ import annotations

# Steps that run.
VERBS = {"append", "merge", "configure", "rebuild", "read", "expect", "snapshot", "snapshots", "load", "expire_snapshots", "restore",
         "fetch", "truncate_log", "roll", "clean", "delete_records"}  # fmt: skip
# Cases with these steps stand alone in topics of their own and take ten verbs each: they belong to the long suite (and tests/snapshots,
# tests/readers and tests/cleaning to the quick one).
LONG_VERBS = {"snapshot", "snapshots", "load", "expire_snapshots", "restore", "fetch", "truncate_log", "roll", "clean",
              "delete_records"}  # fmt: skip
# Steps that are passed over as long as they cannot run: the case is run in part, what they would have changed is not compared, and a case that
# passes so counts as waiting.
PASSED_OVER = {"roll", "clean"} - VERBS
# Fields of an append's step or records that are understood beyond key, value, timestamp, headers, tombstone and partition.
APPEND_FIELDS = {"expected", "token", "epoch"}
# Fields of an `expect` step that can be seen.
LOOKS = {"log", "records", "latest", "tombstones", "leo", "lso", "epoch", "segments", "counts", "config", "quarantine", "first_dirty"}
# Counts that exist; the others belong to the cleaner.
COUNTS = {"invalid_versions", "ignored_deletes", "late", "late_after_delete", "unkeyed"}
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

# By which method of a topic a step could run, where the two do not bear the same name. None: by none that would say so.
METHODS = {"rebuild": "merge", "expect": "latest", "load": "latest", "truncate_log": "truncate"}
# Rules that cases rest on, and for which no case runs at all.
RULES_NOT_RUN: set[int] = set()
# Rules whose cases all have steps of LONG_VERBS.
RULES_RUN_LONG = {
    4, 5, 6, 9, 10, 11, 13, 14, 15, 16, 17, 21, 22, 26, 28, 29, 30, 32, 33, 35, 36, 37, 38, 39, 40, 42, 43, 47, 49, 50, 51, 52, 53, 54, 57, 60,
    61, 62, 64, 68, 82, 84, 85, 86, 89, 90, 91, 92, 93, 94, 95, 96, 97, 98, 99, 102, 103,
}  # fmt: skip
RULES_RUN_IN_PART: set[int] = set()
