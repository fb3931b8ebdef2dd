"""A topic as a commit log: the worked example of KIP-27 as a small helper.

A writer reads the log to its end, remembers it, and appends with consecutive expected offsets, at most one batch in flight. As long as its
appends succeed it has seen everything before them, so what it decided from what it read still holds. When another writer was faster, the
append is refused; `CommitLog.catch_up` returns what was missed, and the writer decides again.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lakelog.arguments import is_whole
from lakelog.errors import ExpectedOffsetMismatch, FencedEpoch, InvalidRequest
from lakelog.inputs.sources import FileOptions
from lakelog.log.append import AppendOptions
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
        _require_checks(topic)
        if not is_whole(partition) or not 0 <= partition < topic.partitions:
            raise InvalidRequest(f"{topic.name}: there is no partition {partition!r}; partitions are 0 to {topic.partitions - 1}.")
        self.topic = topic
        self.partition = partition
        self.position: int | None = None
        self.epoch: int | None = None
        # Of the topic that was read: another one of its name may end at the same offset.
        self._uuid: str | None = None
        self._in_flight = threading.Lock()

    def bootstrap(self) -> DataFrame:
        """Everything in the log from its start up to its present end, in order; the end is remembered as the position.

        Gives: the columns of `Topic.read`, ordered by offset.
        """
        from pyspark.sql import functions as F

        here, start = self.topic.position(), self.topic.start()
        end = here.offsets[self.partition]
        records = self.topic.read(self.partition, start.offsets[self.partition]).filter(F.col("offset") < end)
        self.position, self.epoch, self._uuid = end, here.epoch, here.uuid
        return records

    def append(self, records: Sequence[Mapping[str, Any]]) -> Appended:
        """Append records at the position, which moves behind them.

        Args:
            records: each as an NDJSON line would have it, without partition and expected offset.

        Raises:
            InvalidRequest: nothing was read yet: call `bootstrap` first; the topic no longer checks expected offsets; or these are no records. Nothing
                was written.
            ExpectedOffsetMismatch: another writer was faster; ``expected`` to ``actual`` is what was missed. Nothing was written: call
                `catch_up`, then decide again.
            FencedEpoch: the log was restored since, or the topic deleted and made anew; bootstrap again.
        """
        if self.position is None:
            raise InvalidRequest(f"{self.topic.name}: nothing was read yet: call bootstrap() first.")
        if not isinstance(records, Sequence) or not all(isinstance(record, Mapping) for record in records):
            raise InvalidRequest(f"{self.topic.name}: a commit log takes a list of records, each a dict. Nothing was written.")
        with self._in_flight:
            placed = [{**record, "partition": self.partition} for record in records]
            try:
                appended = self._append(placed, self.position)
            except ExpectedOffsetMismatch as mismatch:
                missed = f"offsets [{self.position}, {mismatch.actual}) of partition {self.partition} were written by another"
                raise ExpectedOffsetMismatch(
                    f"{self.topic.name}: {missed}. Nothing was written: catch_up() returns them; then decide again.",
                    partition=self.partition, record=0, expected=self.position, actual=mismatch.actual, duplicate_of=mismatch.duplicate_of,
                ) from mismatch  # fmt: skip
            if self.partition in appended.offsets:
                self.position = appended.offsets[self.partition][1]
            return appended

    def _append(self, placed: list[dict[str, Any]], position: int) -> Appended:
        """As `Topic.append`, under the configuration that was looked at: a change of it meanwhile makes the append start over."""
        topic = self.topic
        topic._ready()
        self._require_same(topic.uuid)
        _require_checks(topic)
        gate = topic._append_gate(whole=True, now=topic.clock())
        return topic._append(placed, FileOptions(), AppendOptions({self.partition: position}, epoch=self.epoch, gate=gate))

    def catch_up(self) -> DataFrame:
        """What others wrote since the position, in order; the position moves to the present end.

        Raises:
            InvalidRequest: nothing was read yet: call `bootstrap` first.
            FencedEpoch: the log was restored since, or the topic deleted and made anew. Bootstrap again.
            OffsetOutOfRange: the log no longer tells all that came after the position: records or a delete have left it. Bootstrap again.
            After any of them the position is as it was.
        """
        from pyspark.sql import functions as F

        if self.position is None:
            raise InvalidRequest(f"{self.topic.name}: nothing was read yet: call bootstrap() first.")
        here = self.topic.position()
        self._require_same(here.uuid)
        if here.epoch != self.epoch:
            raise FencedEpoch(
                f"{self.topic.name}: the log was restored or repaired since it was read: epoch {here.epoch} instead of {self.epoch}. What was read"
                " may be gone, and its offsets given again. Call bootstrap() and decide again.", expected=self.epoch, actual=here.epoch,
            )  # fmt: skip
        # Of the other partitions nothing is missed.
        fetched = self.topic.read(since=replace(here, offsets={**here.offsets, self.partition: self.position}))
        self.position = fetched.next.offsets[self.partition]
        return fetched.records.filter(F.col("partition") == self.partition)

    def _require_same(self, uuid: str | None) -> None:
        """Refuse another topic than the one that was read."""
        if uuid != self._uuid:
            raise FencedEpoch(
                f"{self.topic.name}: the topic was deleted and made anew since it was read, and nothing of the new one was read yet. Nothing was"
                " written. Call bootstrap() and decide again.", expected=self._uuid, actual=uuid,
            )  # fmt: skip


def _require_checks(topic: Topic) -> None:
    """Refuse a topic whose appends do not check the log end that they expect."""
    if not topic.config.flag("check.expected.offsets") or topic.config.text("check.expected.offsets.scope") != "partition":
        raise InvalidRequest(
            f"{topic.name}: a commit log needs check.expected.offsets=true with check.expected.offsets.scope=partition. Nothing was written."
        )
