"""A topic as a commit log: the worked example of KIP-27 as a small helper.

A writer reads the log to its end, remembers it, and appends with consecutive expected offsets, at most one batch in flight. As long as its
appends succeed it has seen everything before them, so what it decided from what it read still holds. When another writer was faster, the
append is refused; `CommitLog.catch_up` returns what was missed, and the writer decides again.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lakelog.errors import ExpectedOffsetMismatch, FencedEpoch, InvalidRequest
from lakelog.results import Appended
from lakelog.topic import Topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class CommitLog:
    """One partition of a topic, written by whoever has read all of it.

    Args:
        topic: the topic; ``check.expected.offsets`` must be on, with scope ``partition``.
        partition: the partition that is the log.

    Raises:
        InvalidRequest: the topic does not check expected offsets per partition, or has no such partition.
    """

    def __init__(self, topic: Topic, partition: int = 0) -> None:
        if not topic.config.flag("check.expected.offsets") or topic.config.text("check.expected.offsets.scope") != "partition":
            raise InvalidRequest(
                f"{topic.name}: a commit log needs check.expected.offsets=true with check.expected.offsets.scope=partition."
            )
        if not 0 <= partition < topic.partitions:
            raise InvalidRequest(f"{topic.name}: there is no partition {partition}; partitions are 0 to {topic.partitions - 1}.")
        self.topic = topic
        self.partition = partition
        self.position: int | None = None
        self.epoch: int | None = None
        self._in_flight = threading.Lock()

    def bootstrap(self) -> DataFrame:
        """Everything in the log from its start up to its present end, in order; the end is remembered as the position.

        Gives: the columns of `Topic.read`, ordered by offset.
        """
        position = self.topic.position()
        self.position, self.epoch = position.offsets[self.partition], position.epoch
        return self._between(self.topic.start().offsets[self.partition], self.position)

    def append(self, records: Sequence[Mapping[str, Any]]) -> Appended:
        """Append records at the position, which moves behind them.

        Args:
            records: each as an NDJSON line would have it, without partition and expected offset.

        Raises:
            InvalidRequest: nothing was read yet: call `bootstrap` first.
            ExpectedOffsetMismatch: another writer was faster; ``expected`` to ``actual`` is what was missed. Nothing was written: call
                `catch_up`, then decide again.
            FencedEpoch: the log was restored since; bootstrap again.
        """
        if self.position is None:
            raise InvalidRequest(f"{self.topic.name}: nothing was read yet: call bootstrap() first.")
        with self._in_flight:
            placed = [{**record, "partition": self.partition} for record in records]
            try:
                appended = self.topic.append(placed, expected_offset={self.partition: self.position}, epoch=self.epoch)
            except ExpectedOffsetMismatch as mismatch:
                missed = f"offsets [{self.position}, {mismatch.actual}) of partition {self.partition} were written by another"
                raise ExpectedOffsetMismatch(
                    f"{self.topic.name}: {missed}. Nothing was written: catch_up() returns them; then decide again.",
                    partition=self.partition, record=0, expected=self.position, actual=mismatch.actual, duplicate_of=mismatch.duplicate_of,
                ) from mismatch  # fmt: skip
            if self.partition in appended.offsets:
                self.position = appended.offsets[self.partition][1]
            return appended

    def catch_up(self) -> DataFrame:
        """What others wrote since the position, in order; the position moves to the present end.

        Raises:
            InvalidRequest: nothing was read yet: call `bootstrap` first.
            FencedEpoch: the log was restored since; the position stays. Bootstrap again.
        """
        if self.position is None:
            raise InvalidRequest(f"{self.topic.name}: nothing was read yet: call bootstrap() first.")
        position = self.topic.position()
        if position.epoch != self.epoch:
            raise FencedEpoch(
                f"{self.topic.name}: the log was restored or repaired since it was read: epoch {position.epoch} instead of {self.epoch}. What was read"
                " may be gone, and its offsets given again. Call bootstrap() and decide again.", expected=self.epoch, actual=position.epoch,
            )  # fmt: skip
        start, self.position = self.position, position.offsets[self.partition]
        return self._between(start, self.position)

    def _between(self, start: int, end: int) -> DataFrame:
        from pyspark.sql import functions as F

        return self.topic.read(self.partition, start).filter(F.col("offset") < end)
