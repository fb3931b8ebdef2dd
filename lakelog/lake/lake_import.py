"""The verb of a lake that makes a topic of an export; `lakelog.lake.lake.Lake` has it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from lakelog.delta import table_properties
from lakelog.delta.table_properties import IDENTITY
from lakelog.errors import Conflict, Damaged, InvalidRequest
from lakelog.lake.lake_topics import LakeTopics
from lakelog.model.names import TableRef, absolute_root, check_topic_name

if TYPE_CHECKING:
    from lakelog.topic import Topic


class LakeImport(LakeTopics):
    """What `Lake` does with exports."""

    def import_topic(self, directory: str | os.PathLike[str], *, name: str | None = None) -> Topic:
        """Make a topic of an export (`Topic.export`), in this lake, under its name or another one.

        The latest table, the log from the snapshot's end on, offsets, epochs and settings are those of the original; the identity is a new one,
        tokens are forgotten, and registered readers are not in it. The snapshot is registered, so that the log is covered from its start.

        Args:
            directory: the export.
            name: of the new topic; the original's by default.

        Raises:
            NotFound: the directory is no export, or one that was cut off (NOT_AN_EXPORT).
            Damaged: files of the export are missing or changed; nothing was imported. Or the import was cut off before, and its latest table is
                gone since; the remedy is named.
            InvalidRequest: a topic of that name is there already.
            Conflict: another process is making one.

        Cut off, the same call begins anew; once there is a log it completes it, as `create_topic` of that name does. Of two at once one makes the
        topic: on a disk of this machine the other waits for it, and finds the topic there; elsewhere it is told of the conflict.

        Cost: every file is read twice, once for its checksum; both tables are written once.
        """
        self._require_session("import_topic")
        from lakelog.transfer import load, manifest

        place = absolute_root(os.fspath(directory))
        if "/" not in place:
            place = os.path.abspath(place)
        said = manifest.read(place)
        called = said.topic if name is None else name
        check_topic_name(called)
        if not self.is_lake():
            self._own.create()
        if called in self._own.topics():
            raise InvalidRequest(
                f"The topic {called} exists already in {self.root}. Import under another name.", name="TOPIC_ALREADY_EXISTS"
            )
        if not self._was_cut_off(called, said.identity):
            try:
                load.load(self.spark, self.root, called, place, said, self._own.defaults(), now=self.clock())
            except Conflict:
                self._give_way(called)
                raise
        topic = self._topic(called)
        self._complete(topic)
        return topic

    def _was_cut_off(self, name: str, export: str) -> bool:
        """Whether there is a log of that name that was made of the same export, and nobody lists it."""
        from lakelog.operations import create

        stored = table_properties.read(self.spark, TableRef.of(self.root, name, "bronze")) or {}
        known = create.imported(stored)
        return known is not None and known[1] == export and not self._own.is_listed(name, stored[IDENTITY])

    def _give_way(self, name: str) -> None:
        """Bring back the latest table of the topic that somebody else made first, where the import that lost has replaced it."""
        from lakelog.operations import create

        if table_properties.appears(self.spark, TableRef.of(self.root, name, "bronze"), IDENTITY):
            create.bring_back(self._topic(name).log, now=self.clock())

    def _complete(self, topic: Topic) -> None:
        """Make what a topic has beside its log, and list it; again, and nothing changes. An imported one has the snapshot at which its log begins."""
        from lakelog.operations import create

        known = create.imported(table_properties.read(self.spark, topic.bronze) or {})
        try:
            create.complete(topic.log, now=self.clock())
        except Damaged:
            if known is None:
                # Its log is no new one. Listed, it can be opened and repaired.
                self._own.list_topic(topic.name, topic.uuid)
            raise
        if known is not None:
            topic.snapshot(at=known[0])
        self._own.list_topic(topic.name, topic.uuid)
