"""The verbs about who needs a topic's log, and how it is cut off: registered readers, their lag, truncation; `Topic` has all of them."""

from __future__ import annotations

import logging
from abc import abstractmethod
from dataclasses import replace

from lakelog.cleaning import segments
from lakelog.errors import Refused
from lakelog.latest import status
from lakelog.log.tail import LogEnd, log_end
from lakelog.model.ordering import OrderingRule
from lakelog.operations import truncate
from lakelog.operations.truncate import Held
from lakelog.reader_results import Committed, Lag, Position, Truncated
from lakelog.readers import lag, positions, validate
from lakelog.reading import LogReading
from lakelog.results import Merged
from lakelog.snapshots import point, registry

LOGGER = logging.getLogger("lakelog")


class LogRetention(LogReading):
    """What holds a topic's log, and how it is cut off."""

    @abstractmethod
    def merge(self) -> Merged:
        """Fold the log into silver."""

    @abstractmethod
    def _ready(self, *, pin: bool = False) -> LogEnd:
        """The log's end, after an operation that was cut off has been finished."""

    def commit(self, group: str, position: Position) -> Committed:
        """Register where a group of readers is: the log is not truncated beyond it for ``offsets.retention.ms``, and `lag` shows it.

        Commit what has been dealt with: the ``next`` of a batch, after its effects are safe. A group's commit replaces its last one, whatever
        that was. A truncation that decides at the same moment may not see a group's first commit: the next read then says that it came too late.

        Args:
            group: its name, 1 to 255 printable characters.
            position: of every partition; one from which the log can be read.

        Raises:
            OffsetOutOfRange: the log no longer tells what came after it, or does not reach it; the registration is as it was.
            FencedEpoch: a restore cut away what was read; the registration is as it was.
            InvalidRequest: no name of a group, or another topic's position.
            Conflict: other readers committed at the same time again and again; nothing was written.

        Cost: the look at the log's end, and one small MERGE.
        """
        positions.require_group(group)
        validate.require_valid(self.log, self._now(), position, self._places)
        stated = Position(dict(sorted(position.offsets.items())), position.epoch, self.log.uuid)
        found = positions.commit(self.log, group, stated, now=self.clock())
        return Committed(self.name, found.group, found.position, found.committed_ms, found.expires_ms)

    def committed(self, group: str) -> Position | None:
        """The position that a group committed last, expired or not; None where it never did. Cost: one small Spark job."""
        self.refresh()
        return next((one.position for one in positions.registered(self.log) if one.group == group), None)

    def forget(self, group: str) -> bool:
        """Take a group's registration away: it no longer holds the log. Returns whether there was one."""
        self.refresh()
        return positions.forget(self.log, group)

    def lag(self, *, cleaning: bool = False) -> Lag:
        """How far every registered group is behind the log's end: in offsets, records and time; whether it can go on.

        Args:
            cleaning: tell what there is to clean too, as `status` does. Readers that poll do without: it costs more than all the rest.

        Cost: two small Spark jobs; with ``cleaning`` three more, over control rows and silver's delete horizons.
        """
        end, now = self._now(), self.clock()
        found = lag.lag(self.log, end, positions.registered(self.log), now=now)
        if not cleaning:
            return found
        due = status.tombstones_due(self.log, now=now)
        return replace(found, cleaning=segments.cleaning_status(segments.read(self.log, end), self.log.config, due=due, now=now))

    def truncate(self, to_snapshot: str, *, dry_run: bool = False) -> Truncated:
        """Cut the log off below a live snapshot: each partition's log start moves to its end offset, and the records below are removed.

        What was not merged yet is merged first. The latest table, the log's end and all offsets stay; the snapshot and the log from there on still
        give everything. A start that lies beyond the snapshot's end already stays.

        Args:
            to_snapshot: its name or id, or ``latest`` or ``earliest``.
            dry_run: say what would go and who needs it, and change nothing.

        Gives: log starts before and after, records and octets that leave the log, who needs them.

        Raises:
            NotFound: there is no such live snapshot (SNAPSHOT_NOT_FOUND).
            OffsetOutOfRange: a restore cut away records that the snapshot holds.
            Refused: a kept snapshot or a registered reader still needs what would go (LOG_HELD); or the snapshot was made under another ordering
                rule (RULE_CHANGED).
            Damaged: records are gone from the log, and no snapshot holds them.
            Conflict: writers were first again and again.
            After any of them the log is as it was.

        Cost: a merge; then a look at the offsets below the new start, a small file per partition twice, and the removal: whole directories for
        closed segments, a rewrite of the files across the new start. Appends meanwhile are told to try again.
        """
        if dry_run:
            self.refresh()
        else:
            self._ready()
        entry = point.named(self.log, to_snapshot)
        if entry.rule != self.log.rule.to_json():
            raise Refused(
                f"{self.name}: the snapshot {entry.name or entry.id.text} was made under the rule {OrderingRule.from_json(entry.rule)}, the topic now"
                f" says {self.log.rule}: what it holds cannot stand for the log. Nothing was changed. Take a snapshot under the present rule, and"
                " truncate to that.", name="RULE_CHANGED", expected=str(self.log.rule), actual=str(OrderingRule.from_json(entry.rule)),
            )  # fmt: skip
        # What the log is to be cut off below must be there.
        point.stored(self.log, point.of(self.log, entry))
        place = point.place_of(entry)
        if not dry_run:
            # What would be refused is so before anything is merged.
            truncate.require_possible(self.log, log_end(self.log, pin=True), place, self._held())
            while self.merge().remaining:
                pass
        done = truncate.truncate(self.log, place, self._held, dry_run=dry_run, now=self.clock())
        if not dry_run:
            LOGGER.info("%s: truncated to %s: %d records removed", self.name, done.to_offsets, done.records)
        return done

    def _reached(self) -> dict[str, dict[int, int]]:
        """Group to the offsets it has committed, of the groups that hold the log."""
        now = self.clock()
        return {one.group: dict(one.position.offsets) for one in positions.registered(self.log) if one.holds(now)}

    def _held(self) -> Held:
        now, log = self.clock(), self.log
        entries = registry.entries(log.spark, log.root, log.uuid)
        kept = [point.place_of(one) for one in entries if one.kept_until is not None and one.kept_until > now]
        return Held(self._places(), kept, [one for one in positions.registered(self.log) if one.holds(now)])
