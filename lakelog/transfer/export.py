"""A topic written to a directory: the latest table at a snapshot, the log from its end offsets on, and the manifest that makes it whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakelog.delta import frames, past
from lakelog.delta.statement import writing
from lakelog.errors import Conflict, InvalidRequest, OffsetOutOfRange
from lakelog.latest import erased, evolution, merge, silver
from lakelog.latest.progress import Progress
from lakelog.log.tail import LogEnd
from lakelog.model.log_state import CONFIGURE, TRUNCATE
from lakelog.model.positions import SnapshotPlace, usable
from lakelog.model.topic_log import TopicLog
from lakelog.reader_results import Exported
from lakelog.transfer import exports, manifest
from lakelog.transfer.manifest import LOG, SILVER, Manifest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def export(log: TopicLog, directory: str, place: SnapshotPlace, held: Progress, stored: DataFrame, end: LogEnd, *, now: int) -> Exported:
    """Write a topic to a new or empty directory; one in which an export was cut off is written anew.

    Args:
        log: the topic.
        directory: a path or URI that both Spark and pyarrow can write.
        place: the snapshot.
        held: silver's progress there.
        stored: silver's rows there.
        end: the log's end, at its version.
        now: the time in milliseconds.

    Raises:
        InvalidRequest: the directory holds something else.
        OffsetOutOfRange: the log no longer tells all that came after the snapshot.
        Conflict: the topic is being restored or repaired, or a key was erased meanwhile.

    Cost: silver at the snapshot and the log from its end are read once and written once; every file is read again for its checksum. The export
    is entered in the lake's list first (`exports`), so that an erasure finds it.
    """
    if end.intent is not None and end.intent.operation not in (CONFIGURE, TRUNCATE):
        raise Conflict(
            f"{log.name}: the operation {end.intent.operation} is not finished. Nothing was exported; the next writing command finishes it."
        )
    merge.require_same_log(log, held, end)
    if not usable({index: tail.state for index, tail in end.tails.items()}, end.ends(), [place]):
        raise OffsetOutOfRange(
            f"{log.name}: {place} cannot be exported: the log no longer tells all that came after it. Nothing was exported. Merge, and export the"
            " latest table or a newer snapshot.", starts=end.starts(), ends=dict(place.ends),
        )  # fmt: skip
    if manifest.is_there(directory):
        raise InvalidRequest(f"{directory} is not empty. Name a new or empty directory. Nothing was exported.", name="NOT_EMPTY")
    exports.enter(log, directory, now=now)
    gone = erased.entries(log.spark, log.root, log.uuid)
    root = directory.rstrip("/")
    # A version from before a key was erased holds it still.
    rows, records = erased.without(silver.with_remembered(log, stored), log.uuid, gone), _tail(log, place, end)
    with writing(log.spark):
        rows.write.mode("overwrite").parquet(f"{root}/{SILVER}")
        records.write.mode("overwrite").parquet(f"{root}/{LOG}")
    written = log.spark.read.schema(rows.schema).parquet(f"{root}/{SILVER}")
    counts = (written.filter("control IS NULL").count(), records.filter("control IS NULL").count())
    settings = {one.name: _text(one.value) for one in log.config.effective() if one.origin != "default"}
    states = {
        str(index): {
            "epoch": tail.state.epoch, "epochs": [list(pair) for pair in tail.state.epochs], "origin": tail.state.origin,
            "deletes_from": tail.state.deletes_from, "cleaned": tail.state.cleaned, "forgotten": tail.state.forgotten, "end": tail.end,
        }
        for index, tail in sorted(end.tails.items())
    }  # fmt: skip
    marks = {str(index): [mark.offset, mark.epoch, mark.control] for index, mark in sorted(held.marks.items())}
    files = manifest.files(directory)
    if erased.entries(log.spark, log.root, log.uuid) != gone:
        manifest.remove(directory, files)
        raise Conflict(f"{log.name}: a key was erased while its topic was exported. Nothing was exported; export again.")
    manifest.write(
        directory,
        Manifest(
            log.name, log.uuid, evolution.types_json(log.types.key, log.types.value), log.partitions, settings, log.rule.to_json(), end.epoch,
            str(place.point), states, marks, *counts, end.version, files,
        ),
    )  # fmt: skip
    return Exported(
        log.name, directory, str(place.point), dict(sorted(place.ends.items())), end.ends(), end.epoch, *counts, len(files),
        sum(one.octets for one in files),
    )  # fmt: skip


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _tail(log: TopicLog, place: SnapshotPlace, end: LogEnd) -> DataFrame:
    """Bronze's rows from the snapshot's end offsets to the log's end, the appends' batch rows among them."""
    from pyspark.sql import functions as F

    spans = [(index, place.ends[index], tail.end) for index, tail in sorted(end.tails.items())]
    limits = frames.small_frame(log.spark, "l_partition INT, l_start BIGINT, l_end BIGINT", spans)
    rows = past.pinned(log.spark, log.table, end.version).filter(F.col("segment") >= 0)
    inside = (F.col("partition") == F.col("l_partition")) & (F.col("offset") >= F.col("l_start")) & (F.col("offset") < F.col("l_end"))
    return rows.join(F.broadcast(limits), inside, "left_semi")
