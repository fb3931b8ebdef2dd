"""What a partition's log says of itself: epochs, log start, what was cleaned, an open intent. Values; no I/O.

The newest state row of a partition says everything (it does not add to older ones), so a reader looks at one row, however often the state
changed. ``sequence`` counts the changes from 1 on; 0 is a log of format 1, whose state is what that format assumed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

CONFIGURE, REPAIR, DELETE, RESTORE, TRUNCATE, ERASE = "configure", "repair", "delete", "restore", "truncate", "erase"


@dataclass(frozen=True)
class Intent:
    """An operation over several tables that was begun and is not finished: its name, an identity of its own, and what it needs to go on."""

    operation: str
    id: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class PartitionState:
    """The state of one partition's log.

    Attributes:
        partition: its number.
        sequence: counts the state rows of the partition.
        batch: the identity of the write that made the row; two rows with one sequence (after a RESTORE by hand) differ in it.
        epoch: the generation of the log.
        epochs: (epoch, first offset of it), oldest first.
        origin: the first offset the log ever had; above 0 where a source is mirrored.
        start: the log start offset: the first offset that can be read.
        cleaned: below this offset, records may have been removed.
        deletes_from: from this offset on, the log still holds every delete that its other records do not tell: tombstones that were the latest of
            their keys, and barriers.
        records_from: from this offset on, the log still holds every record that no later one replaced; above ``origin`` where a repair found
            records missing that a snapshot holds.
        intent: an operation that was begun and not finished.
        rolled: segments that begin below this offset are closed, although no append has begun a new one.
        forgotten: up to this offset, epochs that are not among ``epochs`` may have had other records; 0 where none had.
        mirror: the source whose offsets the records keep (model/mirroring.py); None where the log gives its own.
    """

    partition: int
    sequence: int
    batch: str
    epoch: int
    epochs: tuple[tuple[int, int], ...]
    origin: int = 0
    start: int = 0
    cleaned: int = 0
    deletes_from: int = 0
    intent: Intent | None = None
    rolled: int = 0
    forgotten: int = 0
    mirror: str | None = None
    records_from: int = 0

    @classmethod
    def first(cls, partition: int, batch: str, *, origin: int = 0) -> PartitionState:
        """The state of a log that is created empty."""
        return cls(partition, 1, batch, 0, ((0, origin),), origin, origin, origin, origin)

    @property
    def tells_from(self) -> int:
        """From which offset on the log tells everything but the deletes that expired (``deletes_from``)."""
        return max(self.start, self.records_from)

    @property
    def lacks(self) -> bool:
        """Whether the log alone does not give the latest table: what came below `tells_from` is in snapshots."""
        return self.tells_from > self.origin

    @property
    def gone(self) -> str:
        """What it lacks, in words that begin a sentence."""
        if self.start > self.origin and self.start >= self.records_from:
            return f"the log of partition {self.partition} starts at offset {self.start}, its records from {self.origin} on are gone"
        return f"the log of partition {self.partition} lacks records below offset {self.records_from}, as a repair found"

    @property
    def whole(self) -> bool:
        """Whether nothing was ever removed from the log."""
        return self.start == self.origin and self.cleaned <= self.origin

    def epoch_at(self, offset: int) -> int:
        """The generation of the log that an offset belongs to."""
        return max((number for number, first in self.epochs if first <= offset), default=self.epochs[0][0])

    def next(self, batch: str, **changes: Any) -> PartitionState:
        """The state after a change."""
        return replace(self, sequence=self.sequence + 1, batch=batch, **changes)

    def cut_below(self, start: int, intent: Intent) -> PartitionState:
        """The state in which an operation is open that moves the log start up to an offset; one that lies below the present start moves nothing."""
        if start <= self.start:
            return self.next(intent.id, intent=intent)
        return self.next(
            intent.id, intent=intent, start=start, cleaned=max(self.cleaned, start), deletes_from=max(self.deletes_from, start)
        )

    def mirroring(self, batch: str, source: str, first: int) -> PartitionState:
        """The state of an empty log that begins to mirror a source at an offset."""
        return self.next(batch, mirror=source, epochs=((self.epoch, first),), origin=first, start=first, cleaned=first, deletes_from=first)

    def next_epoch(self, batch: str, first: int, *, number: int | None = None, **changes: Any) -> PartitionState:
        """The state in which a new generation of the log begins, at offset ``first``; generations that began there or beyond are no more."""
        changes.setdefault("rolled", min(self.rolled, first))
        before = tuple(pair for pair in self.epochs if pair[1] < first)
        epoch = self.epoch + 1 if number is None else number
        return self.next(batch, epoch=epoch, epochs=(*before, (epoch, first)), **changes)

    def begun_anew(self, batch: str, first: int, *, number: int, last: int, taken: int, **changes: Any) -> PartitionState:
        """The state of a log that begins anew behind a snapshot, whose records it does not hold: its history is the snapshot's.

        Args:
            batch: the identity of the write.
            first: the snapshot's end offset.
            number: the new generation.
            last: the generation of the snapshot's last record.
            taken: the one in which the snapshot was taken.
            changes: of other attributes.
        """
        before = [pair for pair in self.epochs if pair[0] <= last and pair[1] < first]
        if first > self.origin and (not before or before[-1][0] != last):
            before.append((last, first - 1))
        before += [(taken, first)] * (taken > last)
        changes.setdefault("rolled", min(self.rolled, first))
        return self.next(batch, epoch=number, epochs=(*before, (number, first)), start=first, forgotten=first, **changes)

    @property
    def row_offset(self) -> int:
        """The offset that the state row carries: below 0, and the newest row has the least."""
        return -1 - self.sequence

    def to_json(self, topic: str) -> str:
        """The control row's content, with the topic's identity."""
        content: dict[str, Any] = {
            "type": "state", "topic": topic, "sequence": self.sequence, "epochs": [list(pair) for pair in self.epochs], "origin": self.origin,
            "start": self.start, "cleaned": self.cleaned, "deletes_from": self.deletes_from, "rolled": self.rolled,
            "forgotten": self.forgotten, "records_from": self.records_from,
        }  # fmt: skip
        if self.mirror is not None:
            content["mirror"] = self.mirror
        if self.intent is not None:
            content["intent"] = {"operation": self.intent.operation, "id": self.intent.id, "arguments": dict(self.intent.arguments)}
        return json.dumps(content, sort_keys=True)

    @classmethod
    def from_row(cls, partition: int, epoch: int, batch: str | None, control: str) -> PartitionState:
        """The state that a control row of segment -1 says; a row of format 1 says the epoch alone."""
        content = json.loads(control)
        if content["type"] != "state":
            return cls(partition, 0, batch or "", epoch, ((epoch, content.get("start", 0)),))
        intent = content.get("intent")
        return cls(
            partition, content["sequence"], batch or "", epoch, tuple((number, first) for number, first in content["epochs"]), content["origin"],
            content["start"], content["cleaned"], content["deletes_from"],
            Intent(intent["operation"], intent["id"], intent["arguments"]) if intent else None, content.get("rolled", 0),
            content.get("forgotten", 0),
            content.get("mirror"), content.get("records_from", 0),
        )  # fmt: skip
