"""What a topic shows at one moment, collected once and compared by every case laid in it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.conformance import support
from tests.tables import versions

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row

    from lakelog import Lake, Topic

Rows = list[dict[str, Any]]


def _text(octets: Any) -> str | None:
    return None if octets is None else bytes(octets).decode()


@dataclass(frozen=True)
class Picture:
    """Rows of the log (by partition and offset), live rows and tombstones, and log ends, starts, segments and epoch where they were asked for."""

    log: Rows
    latest: Rows
    tombstones: Rows
    leo: dict[int, int]
    lso: dict[int, int]
    segments: dict[int, list[int]]
    first_dirty: dict[int, int]
    epoch: int | None
    quarantine: Rows

    def of(self, base: int, count: int) -> Picture:
        """The part of a case: partitions from ``base``, numbered from 0."""

        def mine(rows: Rows) -> Rows:
            return [{**row, "partition": row["partition"] - base} for row in rows if base <= row["partition"] < base + count]

        def ours(by_partition: dict[int, Any]) -> dict[int, Any]:
            return {index - base: value for index, value in by_partition.items() if base <= index < base + count}

        return Picture(
            mine(self.log),
            mine(self.latest),
            mine(self.tombstones),
            ours(self.leo),
            ours(self.lso),
            ours(self.segments),
            ours(self.first_dirty),
            self.epoch,
            mine(self.quarantine),
        )

    def unlike(self, name: str, wanted: Any) -> Iterator[tuple[Any, Any]]:
        """(expected, actual) of everything under that name that is not as a case wants it."""
        if name == "log":
            actual = {index: [row["offset"] for row in self.log if str(row["partition"]) == index] for index in wanted}
            if actual != wanted:
                yield wanted, actual
        elif name in ("leo", "lso", "segments", "first_dirty"):
            seen = {str(index): value for index, value in getattr(self, name).items()}
            actual = {index: seen.get(index, [] if name == "segments" else None) for index in wanted}
            if actual != wanted:
                yield wanted, actual
        elif name == "epoch":
            if self.epoch != wanted:
                yield wanted, self.epoch
        elif name == "quarantine":
            yield from _unlike_rows(wanted, self.quarantine, ("partition", "offset", "epoch"), complete=True)
        elif name == "records":
            yield from _unlike_rows(wanted, self.log, ("partition", "offset"), complete=False)
        else:
            yield from _unlike_rows(wanted, getattr(self, name), ("partition", "key"), complete=True)


def _unlike_rows(wanted: Rows, actual: Rows, identity: tuple[str, ...], *, complete: bool) -> Iterator[tuple[Any, Any]]:
    """Rows of a table against expected ones that may leave out columns; ``complete``: there may be no others."""
    left = {tuple(row[name] for name in identity): row for row in actual}
    if len(left) < len(actual):
        yield f"one row per {identity}", actual
    for given in wanted:
        row = {"partition": 0, **given}
        found = left.pop(tuple(row[name] for name in identity), None)
        shown = None if found is None else {name: found.get(name) for name in row}
        if shown != row:
            yield row, shown
    if complete and left:
        yield "no other rows", list(left.values())


class Camera:
    """Takes pictures of a topic, and tells by the files of the tables' own logs whether anything was committed."""

    def __init__(self, lake: Lake, name: str) -> None:
        self.lake, self.name = lake, name

    def versions(self) -> dict[str, int]:
        """Version by table: what must not move when a step is refused."""
        return versions(self.lake.root, self.name)

    def picture(self, names: set[str]) -> Picture:
        """The topic as it is now, through a Topic opened anew: all rows in one Spark action, the rest as far as asked for."""
        topic = self.lake.topic(self.name)
        rows = _collected(
            {
                "latest": _view(topic.latest()),
                "tombstones": _view(topic.deleted()),
                "stored": _stored(topic.rows()),
                "log": _log(topic.read()),
            }
        )
        status = topic.status() if {"lso", "epoch"} & names else None
        return Picture(
            sorted(rows["log"], key=lambda row: (row["partition"], row["offset"])), *_agreed(rows), topic.ends() if "leo" in names else {},
            {part.partition: part.log_start_offset for part in status.partitions} if status else {},
            self._segments() if "segments" in names else {}, self._first_dirty(topic) if "first_dirty" in names else {},
            status.epoch - support.FIRST_EPOCH if status else None,
            [_plain(row) for row in topic.quarantined().collect()] if "quarantine" in names else [],
        )  # fmt: skip

    def loaded(self, snapshot: Any) -> Picture:
        """The live rows of a snapshot."""
        return Picture(
            [], [_plain(row) for row in _view(self.lake.topic(self.name).latest(snapshot)).collect()], [], {}, {}, {}, {}, None, []
        )

    def _first_dirty(self, topic: Topic) -> dict[int, int]:
        return {part.partition: part.from_dirty for part in topic.plan_cleaning().partitions}

    def _segments(self) -> dict[int, list[int]]:
        """Base offsets of the segments that hold records, from the folders of bronze: a segment is a folder."""
        rows = (
            self.lake.spark.read.format("delta").load(f"{self.lake.root}/{self.name}/bronze")
            .filter("control IS NULL").select("partition", "segment").distinct().collect()
        )  # fmt: skip
        found: dict[int, list[int]] = {}
        for row in sorted(rows):
            found.setdefault(row["partition"], []).append(row["segment"])
        return found


def log_rows(frame: DataFrame) -> Rows:
    """Records of the log in the words of a case, in the frame's order."""
    return [_plain(row) for row in _log(frame).collect()]


def _plain(row: Row) -> dict[str, Any]:
    shown = row.asDict(recursive=True)
    headers = [[header["key"], None if header["value"] is None else bytes(header["value"]).hex()] for header in shown.get("headers") or []]
    return {**shown, "key": _text(shown["key"]), "value": _text(shown["value"]), "headers": headers}


def _log(frame: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    return frame.withColumn("timestamp", F.unix_millis("timestamp"))


def _version(frame: DataFrame, name: str) -> Column:
    from pyspark.sql import functions as F

    return (F.unix_millis(name) if frame.schema[name].dataType.simpleString() == "timestamp" else F.col(name)).alias("version")


def _view(frame: DataFrame) -> DataFrame:
    """`latest` or `deleted` with a case's names."""
    from pyspark.sql import functions as F

    return frame.select(
        F.col("_partition").alias("partition"), "key", "value", F.col("_offset").alias("offset"),
        F.unix_millis("_timestamp").alias("timestamp"), _version(frame, "_version"), F.lit(None).cast("int").alias("epoch"),
        F.lit(None).cast("boolean").alias("tombstone"),
    )  # fmt: skip


def _stored(frame: DataFrame) -> DataFrame:
    """Silver's rows with a case's names."""
    from pyspark.sql import functions as F

    stamp = F.unix_millis("timestamp").alias("timestamp")
    return frame.select("partition", "key", "value", "offset", stamp, _version(frame, "version"), "epoch", "tombstone")


def _collected(frames: dict[str, DataFrame]) -> dict[str, Rows]:
    """Several frames in one Spark action."""
    from pyspark.sql import functions as F

    union = None
    for name, frame in frames.items():
        named = frame.withColumn("frame", F.lit(name))
        union = named if union is None else union.unionByName(named, allowMissingColumns=True)
    found: dict[str, Rows] = {name: [] for name in frames}
    for row in union.collect() if union is not None else []:
        shown = _plain(row)
        found[shown.pop("frame")].append(shown)
    return found


def _agreed(views: dict[str, Rows]) -> tuple[Rows, Rows]:
    """Live rows and tombstones as the views show them, with the epoch of silver's rows, which must tell the same."""
    stored = {(row["partition"], row["key"]): row for row in views["stored"]}
    assert len(stored) == len(views["stored"]) == len(views["latest"]) + len(views["tombstones"]), (
        "silver holds exactly one row per partition and key"
    )
    for name, deleted in (("latest", False), ("tombstones", True)):
        for row in views[name]:
            same = stored[row["partition"], row["key"]]
            row["epoch"], row["tombstone"] = same["epoch"], deleted
            assert row == same, f"the view and silver's row agree: {row} {same}"
    return views["latest"], views["tombstones"]
