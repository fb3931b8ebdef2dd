"""Silver computed anew from the whole log, in one commit that replaces all its rows, whatever state it is in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakelog.delta import table_properties, tables
from lakelog.delta.errors import door, raised
from lakelog.delta.lock import LOCKED, held
from lakelog.delta.table_properties import IDENTITY
from lakelog.errors import Conflict, Damaged, NotFound
from lakelog.latest import silver
from lakelog.latest.compare import compare
from lakelog.latest.control_rows import CONTROL_BUCKET, control_rows, fingerprint, has_control, said
from lakelog.latest.fill import fill, large
from lakelog.latest.fold import fold
from lakelog.latest.progress import LogPlace, Progress
from lakelog.latest.upsert import PROGRESS_MOVED, Admit, Step, Winners, gated
from lakelog.model.ordering import OrderingRule
from lakelog.model.topic_log import TopicLog

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row


@dataclass(frozen=True)
class Unread:
    """Control rows that nobody can read, since a file of theirs is missing or broken; ``version``: silver's when that was found."""

    version: int


def found(log: TopicLog) -> list[Row] | Unread | None:
    """Silver's control rows as they are, whatever they say, for `rebuild`; None where silver is gone. Cost: as of `control_rows`."""
    try:
        version = tables.newest_version(log.spark, log.silver)
        try:
            return control_rows(log.spark, log.silver)
        except Damaged:
            return Unread(version)
    except NotFound:
        return None


def rebuild(
    log: TopicLog, starts: Mapping[int, int], places: Mapping[int, LogPlace], known: list[Row] | Unread | None, *, bronze_version: int,
    now: int, admit: Admit | None = None, remember: Mapping[int, int] | None = None,
) -> tuple[int | None, Step]:  # fmt: skip
    """Compute silver anew from the whole log under the topic's present rule, in one commit that replaces all rows; ``admit`` as for `merge`.

    Works whatever state silver is in: its control rows missing, lost or twice, another log's (its columns and properties are replaced), or gone.
    The commit holds only if the control rows are still ``known``, whichever log's they are; where silver was gone, if it still is. Rows that cannot be
    read are taken out first, in a commit of its own, if nobody wrote silver since.

    Args:
        log: the topic's log.
        starts: partition to its log start.
        places: partition to where the log ends.
        known: what `found` gave before the log's end was read: whatever fences silver, or goes on with it, since then is seen.
        bronze_version: the log's, at that end.
        now: the time in milliseconds.
        admit: as for `merge`.
        remember: the log may have been cleaned, deletes may have left it below an offset of each partition: those of them that silver has, stamped or
            remembered, stay under the same rule, as far as the log reaches.

    Returns:
        (silver's version, or None when another merge or rebuild was first; what the step did).

    Raises:
        Conflict: another process makes a silver that was gone, or was cut off while it did; or it holds the lock.

    Cost: the whole log is read, silver is written once. Counts start anew.
    """
    start = dict(starts)
    ends = {index: place.end for index, place in places.items()}
    counts: dict[int, dict[str, int]] = {}
    data = None
    readable = known if isinstance(known, list) else []
    generation, ours = _generation(log, readable, now)
    # Under another rule their versions say nothing, and may be of another type.
    comparable = log.rule.versioned and known is not None and ours and _same_rule(log, readable)
    remembered = silver.withheld(log, remember) if comparable and remember is not None else None
    if any(end > start[index] for index, end in ends.items()):
        # Where versions are remembered the rank of each winner is needed.
        whole = remembered is None and large(start, ends)
        compared = fill(log, start, ends, bronze_version) if whole else compare(log, fold(log, start, ends, bronze_version), None)
        changes = compared.changes
        if remembered is not None:
            changes, stays = silver.carried(log, remembered, ends, changes)
        counts, data = compared.counts, silver.stored_rows(log, changes, now)
        data = data if remembered is None else data.unionAll(stays)
        if admit is not None:
            admit(Winners(changes, Step(start, ends, counts), None, places, anew=True))
    carried = remembered is not None and data is not None
    after = Progress.start(places, counts, rule=log.rule, uuid=log.uuid, generation=generation, remembers=carried)
    return _written(log, after, data, known, replace=known is not None, ours=ours, now=now), Step(start, ends, counts)


def create(log: TopicLog, places: Mapping[int, LogPlace], known: list[Row] | Unread | None, *, replace: bool, now: int) -> bool:
    """Make an empty silver whose progress is at the log's end, or ``replace`` what is there by it, if its control rows are still ``known``.

    Where ``known`` is None what is there, a table without control rows, is not looked at.

    Returns:
        False when somebody else was first, then nothing was changed.

    Raises:
        Conflict: as `rebuild`.
    """
    after = Progress.start(places, {}, rule=log.rule, uuid=log.uuid, generation=0)
    return _written(log, after, None, known, replace=replace, ours=False, now=now) is not None


def _written(
    log: TopicLog, after: Progress, data: DataFrame | None, known: list[Row] | Unread | None, *, replace: bool, ours: bool, now: int
) -> int | None:  # fmt: skip
    """Write silver's rows and progress in one commit, if it is still as ``known``; returns its version, or None.

    Where there is a silver, they ``replace`` its rows where it is ``ours``, and else the table.
    """
    control = silver.control_frame(log, after, now)
    if isinstance(known, Unread):
        if not _taken_out(log, known, control):
            return None
        known = []
    if known is not None:
        # A statement that replaces the table reads it in its transaction too: what is committed meanwhile conflicts.
        stands = tables.read(log.spark, log.silver)
        # Spark Connect looks for the table no sooner than here.
        with door(log.silver):
            control = gated(control, stands, fingerprint(known)) if has_control(stands.columns) else control
    rows = control if data is None else data.unionAll(control)
    try:
        if replace and ours:
            return tables.overwrite(rows, log.silver, partitioned_by=("bucket",), user_metadata=after.note())
        return tables.create(
            rows,
            log.silver,
            partitioned_by=("bucket",),
            properties=silver.table_settings(log),
            replace=replace,
            user_metadata=after.note(),
        )
    except Conflict as error:
        if error.name == LOCKED:
            raise
        if not replace:
            # Its path is taken before there is a table.
            table_properties.wait_for(log.spark, log.silver, IDENTITY)
    except Exception as error:
        if not raised(error, PROGRESS_MOVED):
            raise
    return None


def _taken_out(log: TopicLog, known: Unread, like: DataFrame) -> bool:
    """Take control rows that nobody can read out of silver, by their folder alone. Returns False where somebody wrote silver since they were looked at.

    Where it is cut off silver does not say how far it is, as before. ``like``: rows with silver's columns.
    """
    from pyspark.sql import functions as F

    with held(log.spark, log.silver):
        if tables.newest_version(log.spark, log.silver) != known.version:
            return False
        made = tables.replace(like.filter(F.lit(False)), log.silver, F.col("bucket") == CONTROL_BUCKET, user_metadata=None)
    return made == known.version + 1


def _same_rule(log: TopicLog, known: Sequence[Row]) -> bool:
    """Whether silver's control rows say that it was made under the topic's present rule."""
    rules = {said(row).get("rule") for row in known}
    return all(rule is not None and OrderingRule.from_json(rule) == log.rule for rule in rules)


def _generation(log: TopicLog, known: Sequence[Row], now: int) -> tuple[int, bool]:
    """The number of a silver that is computed anew now, by the control rows of the one before, and whether that is this topic's.

    One more than that one's; where the count is lost, the time in milliseconds, which no count has come to.
    """
    controls = [said(row) for row in known]
    properties = table_properties.read(log.spark, log.silver) or {}
    ours = properties.get(IDENTITY) == log.uuid and all(control.get("topic") == log.uuid for control in controls)
    return (max(int(control.get("generation", 0)) for control in controls) + 1 if controls and ours else now), ours
