"""The verbs of a lake on the snapshots of all its topics; `lakelog.lake.lake.Lake` has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakelog.errors import NotFound, Refused
from lakelog.lake.lake_topics import LakeTopics
from lakelog.model.snapshot_id import Keep, check_name, keep_ms
from lakelog.native import snapshots as native
from lakelog.results import Restored, Snapshot
from lakelog.snapshots import registry
from lakelog.snapshots.plan import TRUNCATE

if TYPE_CHECKING:
    pass


class LakeSnapshots(LakeTopics):
    """What `Lake` does with the snapshots of all topics."""

    def snapshot(self, name: str, *, keep: Keep = None, note: str | None = None) -> list[Snapshot]:
        """Take a snapshot of every topic under one name, one topic after the other; each is a cut of its own.

        Cut off, the same call goes on: a topic that has a snapshot of that name keeps it as it is (``created`` False).

        Args:
            name: as for `Topic.snapshot`, as are ``keep`` and ``note``.
            keep: until when the name is kept.
            note: a text for people.

        Raises:
            InvalidRequest: the name or the keep is none.
            Refused: every topic has a snapshot of that name already (SNAPSHOT_EXISTS): nothing was created.
            What `Topic.snapshot` raises; the topics before have their snapshots, the next call goes on.

        Cost: a `Topic.snapshot` for each topic.
        """
        self._require_session("snapshot")
        check_name(name)
        keep_ms(keep)
        have = {one.uuid: one for one in registry.entries(self.spark, self.root) if one.name == name}
        topics = self._there(self.topic)
        if topics and all(topic.uuid in have for topic in topics):
            raise Refused(
                f"{self.root}: every topic has a snapshot {name} already. Nothing was created. Choose another name, or delete those first.",
                name="SNAPSHOT_EXISTS",
            )
        return [
            have[topic.uuid].result(self.root) if topic.uuid in have else topic.snapshot(name, keep=keep, note=note) for topic in topics
        ]

    def restore(self, name: str, *, log: str = TRUNCATE, dry_run: bool = False) -> list[Restored]:
        """Restore every topic that has a snapshot of this name, one after the other; topics without one stay as they are.

        Cut off, the same call goes on: a topic that is as its restore left it, with nothing appended since, is passed over (``repeated``).

        Args:
            name: the snapshot's.
            log: as for `Topic.restore`, as is ``dry_run``.
            dry_run: tell what it would do, and change nothing.

        Raises:
            NotFound: no topic has such a snapshot (SNAPSHOT_NOT_FOUND).
            What `Topic.restore` raises; the topics before are restored, the next call goes on.

        Cost: a `Topic.restore` for each topic.
        """
        self._require_session("restore")
        have = {one.uuid for one in registry.entries(self.spark, self.root) if one.name == name}
        topics = [topic for topic in self._there(self.topic) if topic.uuid in have]
        if not topics:
            raise NotFound(f"{self.root}: no topic has a snapshot {name}. Nothing was changed.", name="SNAPSHOT_NOT_FOUND")
        return [topic.restore(name, log=log, dry_run=dry_run, unless_there=True) for topic in topics]

    def snapshots(self) -> list[Snapshot]:
        """The snapshots of all topics, by topic, then lowest epoch and lowest end offsets first. Cost: one small Spark job, or none without a
        session."""
        there = {topic.uuid for topic in self._there(self.topic)}
        entries = registry.entries(self.spark, self.root) if self.has_session else native.entries(self.root)
        return [one.result(self.root) for one in registry.listed(entries) if one.uuid in there]
