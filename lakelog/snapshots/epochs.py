"""Which epochs of a topic there ever were, when its log may have forgotten some: a RESTORE by hand takes state rows away."""

from __future__ import annotations

import contextlib

from lakelog.delta import tables
from lakelog.errors import Damaged, NotFound
from lakelog.latest import erased
from lakelog.latest.progress import stored
from lakelog.log.notes import WHOLE_HISTORY, noted_epoch
from lakelog.log.tail import LogEnd
from lakelog.model.topic_log import TopicLog
from lakelog.snapshots import registry


def greatest(log: TopicLog, end: LogEnd) -> int:
    """The greatest epoch that log, latest table, snapshots, erasures or any commit on the log know of: the next one must be above it.

    Cost: the log's whole history is listed; two small Spark jobs over the lake's tables, one over silver's control rows.
    """
    known = [end.epoch, noted_epoch(tables.history(log.spark, log.table, WHOLE_HISTORY))]
    known += [one.id.epoch for one in registry.entries(log.spark, log.root, log.uuid)]
    known += [one.epoch for one in erased.entries(log.spark, log.root, log.uuid)]
    # A latest table of which nothing can be read knows of none.
    with contextlib.suppress(Damaged, NotFound):
        known += [mark.epoch for mark in stored(log.spark, log.silver).marks.values()]
    return max(known)
