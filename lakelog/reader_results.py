"""What the verbs about readers answer: positions, where a reader stands, registrations, lag, a truncated log (`results.Result`)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lakelog.errors import InvalidRequest
from lakelog.results import Result, TopicDescription
from lakelog.status_results import CleaningStatus, TopicStatus


@dataclass(frozen=True)
class Position(Result):
    """Where a reader is: partition to the next offset it reads, the epoch of the log it read, and the topic's identity (None: not stated)."""

    offsets: dict[int, int]
    epoch: int
    uuid: str | None = None

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Position:
        """A position from plain JSON types, as `to_dict` gives them.

        Raises:
            InvalidRequest: it is none.
        """
        try:
            uuid = stored.get("uuid")
            return cls({int(index): int(offset) for index, offset in stored["offsets"].items()}, int(stored["epoch"]), uuid and str(uuid))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise InvalidRequest(f'{stored!r} is no position: it looks like {{"offsets": {{"0": 120}}, "epoch": 0}}.') from error

    @classmethod
    def from_json(cls, text: str) -> Position:
        """A position from one line of JSON, as `to_json` gives it; else as `from_dict`."""
        try:
            stored = json.loads(text)
        except ValueError as error:
            raise InvalidRequest(f'{text!r} is no position: it looks like {{"offsets": {{"0": 120}}, "epoch": 0}}.') from error
        return cls.from_dict(stored)


@dataclass(frozen=True)
class Validated(Result):
    """Where a reader stands: ``answer`` is VALID, DIVERGING or SNAPSHOT.

    VALID: it goes on. DIVERGING: a restore cut away what it read from ``position`` on; undo that, and go on from there (of one partition
    ``offset`` and ``epoch`` say the same). SNAPSHOT: the log no longer tells all that it has not read; load the snapshot ``snapshot`` (its
    name or id; None: `Topic.bootstrap`), silver's ``version``, and go on from its end offsets ``ends`` and ``epoch``.
    """

    topic: str
    answer: str
    offset: int | None = None
    epoch: int | None = None
    position: Position | None = None
    snapshot: str | None = None
    ends: dict[int, int] | None = None
    version: int | None = None


@dataclass(frozen=True)
class Committed(Result):
    """A reader's position as it is registered: it holds the log until ``expires_ms`` (milliseconds since 1970), or the group's next commit."""

    topic: str
    group: str
    position: Position
    committed_ms: int
    expires_ms: int


@dataclass(frozen=True)
class GroupLag(Result):
    """How far a group of readers is behind the log's end.

    ``offsets``: partition to the distance of its position from the log's end; ``records``: how many records exist between; ``age_ms``: how long
    the oldest of those has waited (None: none waits). ``expired``: the position was committed longer ago than ``offsets.retention.ms`` and no
    longer holds the log. ``answer``: whether it can go on from there (VALID), see `Validated`.
    """

    group: str
    position: Position
    offsets: dict[int, int]
    records: int
    age_ms: int | None
    committed_ms: int
    expires_ms: int
    expired: bool
    answer: str


@dataclass(frozen=True)
class Lag(Result):
    """A topic's registered readers, those farthest behind first; ``cleaning``: what there is to clean, where that was asked for."""

    topic: str
    ends: dict[int, int]
    epoch: int
    groups: list[GroupLag]
    cleaning: CleaningStatus | None = None


@dataclass(frozen=True)
class Truncated(Result):
    """A log truncated to a snapshot, or with ``dry_run`` what that would do.

    ``from_offsets`` and ``to_offsets``: partition to the log start before and after; ``records`` and ``octets`` (of the files) leave the log,
    ``segments`` as whole directories. ``blockers``: who still needs what would go, a sentence each; with any of them it is refused, and a dry run
    tells so: ``refusal`` has the words.
    """

    topic: str
    snapshot: str
    from_offsets: dict[int, int]
    to_offsets: dict[int, int]
    records: int
    octets: int
    segments: int
    blockers: list[str]
    dry_run: bool
    refusal: str | None = None


@dataclass(frozen=True)
class Exported(Result):
    """A topic exported to a directory: the latest table at ``snapshot`` (``rows``, tombstones included), the log from ``starts`` to ``ends``."""

    topic: str
    directory: str
    snapshot: str
    starts: dict[int, int]
    ends: dict[int, int]
    epoch: int
    rows: int
    records: int
    files: int
    octets: int


@dataclass(frozen=True)
class Imported(TopicDescription):
    """A topic made of an export: its description, the latest table's ``live`` rows and ``tombstones``, the log from ``starts`` to ``ends``.

    ``unmerged_records``: how many of the log's records the next merge folds into the latest table.
    """

    live: int
    tombstones: int
    starts: dict[int, int]
    ends: dict[int, int]
    unmerged_records: int

    @classmethod
    def of(cls, description: TopicDescription, status: TopicStatus) -> Imported:
        """What a topic says of itself right after an import."""
        starts = {one.partition: one.log_start_offset for one in status.partitions}
        ends = {one.partition: one.log_end_offset for one in status.partitions}
        return cls(**vars(description), live=status.live, tombstones=status.tombstones, starts=starts, ends=ends,
                   unmerged_records=status.unmerged_records)  # fmt: skip
