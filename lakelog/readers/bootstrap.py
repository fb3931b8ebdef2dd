"""Where a new reader begins: the latest table as of one version, and the position from which the log goes on. No gap, no overlap."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakelog.delta import tables
from lakelog.errors import Conflict, OffsetOutOfRange, Refused
from lakelog.latest import merge, views
from lakelog.latest.progress import Progress, progress, stored
from lakelog.log.tail import LogEnd
from lakelog.model.log_state import CONFIGURE, TRUNCATE
from lakelog.model.ordering import OrderingRule
from lakelog.model.positions import SnapshotPlace, usable
from lakelog.model.topic_log import TopicLog
from lakelog.reader_results import Position

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Bootstrap:
    """The latest table at one of its versions, and the position from which the log tells all that it does not hold.

    A reader loads ``latest`` (or ``rows``) and then applies the records that ``topic.read(since=position)`` gives: a delete removes its key,
    any other record replaces it, if the topic's rule puts it first. Under the rule ``offset`` that is each record in the log's order; under
    another one a record counts only where its (version, offset) is greater than what the reader holds of the key, deletes included: ``rows``.

    Attributes:
        version: silver's.
        position: where the log goes on.
        rows: silver's rows of that version as stored, with their ``version``, and all tombstones: of a deleted key whose tombstone has expired,
            the remembered version, without value and headers.
        latest: the live rows as people see them.
        snapshot: its name, where one was asked for.
    """

    version: int
    position: Position
    rows: DataFrame
    latest: DataFrame
    snapshot: str | None = None


def bootstrap(log: TopicLog, end: LogEnd, held: Progress, place: SnapshotPlace, rows: Callable[[SnapshotPlace], DataFrame]) -> Bootstrap:
    """A snapshot, or the latest table as it is, with its position.

    Args:
        log: the topic.
        end: the log's end, read after silver's progress.
        held: silver's progress.
        place: the one to begin with.
        rows: gives silver's rows of a snapshot.

    Raises:
        Conflict: silver and log are being restored or repaired; try again.
        OffsetOutOfRange: the log no longer tells all from the snapshot's end offsets on.
        Damaged: silver holds what the log does not.

    Cost: at most one small Spark job; the rows are read when the frames are evaluated.
    """
    if end.intent is not None and end.intent.operation not in (CONFIGURE, TRUNCATE):
        raise Conflict(
            f"{log.name}: the operation {end.intent.operation} is under way, or was cut off: latest table and log do not fit yet. Try again; the next"
            " writing command finishes it."
        )
    merge.require_same_log(log, held, end)
    merge.require_reached(log, held, end)
    _require_usable(log, end, held, place)
    found = rows(place)
    position = Position(dict(sorted(place.ends.items())), place.epoch, log.uuid)
    return Bootstrap(place.version or 0, position, found, views.live(found, log.types), place.name)


def _require_usable(log: TopicLog, end: LogEnd, held: Progress, place: SnapshotPlace) -> None:
    """Refuse a snapshot from whose end offsets on the log does not tell everything.

    Raises:
        OffsetOutOfRange: the remedy is the latest table; where that does not reach up to the last erasure, a merge before.
    """
    states = {index: tail.state for index, tail in end.tails.items()}
    if usable(states, end.ends(), [place]):
        return
    remedy = "Leave it out: the latest table does."
    if not usable(states, end.ends(), [place_of(held)]):
        remedy = "Merge, then begin with the latest table: a key was erased from records that are not merged yet."
    raise OffsetOutOfRange(
        f"{log.name}: {place} does not do for a reader: the log no longer tells all that came after it. {remedy}", starts=end.starts(),
        ends=dict(place.ends),
    )  # fmt: skip


def at_version(log: TopicLog, version: int) -> SnapshotPlace:
    """Any version of silver as a snapshot: its control rows tell what it holds.

    Raises:
        NotFound: that version cannot be read.
        Refused: as `require_rule`.
    """
    held = stored(log.spark, log.silver, version)
    if not held.empty:
        require_rule(log, held.rule, f"version {version} of silver")
    return place_of(held, version)


def latest(log: TopicLog, held: Progress) -> SnapshotPlace:
    """The latest table as it is, as a snapshot.

    Raises:
        Refused: it has rows, and was made under another rule (RULE_CHANGED).
    """
    if not held.empty:
        merge.require_rule(log, held)
    return place_of(held)


def require_rule(log: TopicLog, rule: OrderingRule, what: str) -> None:
    """Refuse a snapshot that was made under another rule than the topic's.

    Raises:
        Refused: naming both (RULE_CHANGED).
    """
    if rule != log.rule:
        raise Refused(
            f"{log.name}: {what} was made under the rule {rule}, the topic now says {log.rule}: the log from there on does not give the latest table."
            " Name a snapshot that was made under the present rule, or none.", name="RULE_CHANGED", expected=str(log.rule), actual=str(rule),
        )  # fmt: skip


def place_of(held: Progress, version: int | None = None) -> SnapshotPlace:
    """The state of silver that has a progress, as a snapshot."""
    return SnapshotPlace(max(mark.epoch for mark in held.marks.values()), held.next, version=held.version if version is None else version)


def current(log: TopicLog) -> Progress:
    """Silver's progress; read it before the log's end, which then lies at or behind it."""
    with tables.door(log.silver):
        return progress(log)
