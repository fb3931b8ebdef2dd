"""How far silver is: per partition the last merged offset, its epoch, the append that ends there, the rule and the counts.

The truth are silver's control rows, in the reserved bucket -1. The commit that writes them carries the same as its user metadata, so that
the next merge has it from the newest commit alone. A merge writes all control rows and is gated by the digests of all of them, moved or not,
so what a commit carries is what its rows say; where a gate fails, the rows are read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from lakelog.delta import past, tables
from lakelog.delta.commits import sign_of
from lakelog.errors import Damaged, NotFound
from lakelog.latest.control_rows import control_rows, control_rows_of, hashed
from lakelog.log.notes import is_harmless, is_restore
from lakelog.model.names import TableRef
from lakelog.model.ordering import OrderingRule
from lakelog.model.snapshot_id import SnapshotId
from lakelog.model.topic_log import TopicLog

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

COUNTS = (
    "records", "inserted", "updated", "deleted", "late", "late_after_delete", "duplicates", "invalid_versions", "ignored_deletes", "unkeyed",
)  # fmt: skip
# So many commits of silver are looked at for one that brought it back.
LOOK_BACK = 50
# The key of the user metadata, and how many characters a commit carries at most; beyond, the control rows are read.
NOTE, NOTE_MOST = "lakelog.progress", 32_768


# What to do where silver cannot be read.
REPAIR = "Run verify with repair: it begins a new epoch at the log's end and computes the latest table anew."
REBUILD = "Run verify with repair: it computes the latest table anew."


@dataclass(frozen=True)
class LogPlace:
    """A place in a partition's log between two appends: the offset behind it, the generation, and the append that ends there, if any."""

    end: int
    epoch: int
    batch: str | None


@dataclass(frozen=True)
class Mark:
    """A partition's control row: last merged offset, epoch, and the rest as JSON."""

    offset: int
    epoch: int
    control: str

    @property
    def digest(self) -> str:
        """A text that is equal for equal rows, for the gate of a merge."""
        return hashlib.sha256(f"{self.offset} {self.epoch} {self.control}".encode()).hexdigest()


def digest_sql(row: str = "") -> str:
    """`Mark.digest` of a control row of silver, in SQL; ``row`` is its alias."""
    alias = f"{row}." if row else ""
    return f"sha2(concat_ws(' ', {alias}offset, {alias}epoch, {alias}control), 256)"


@dataclass(frozen=True)
class Progress:
    """A mark per partition, and silver's version where it is known. ``by_hand``: another writer brought silver to this, by a RESTORE or otherwise."""

    marks: dict[int, Mark]
    version: int | None = None
    by_hand: bool = False

    @classmethod
    def start(
        cls, ends: Mapping[int, LogPlace], counts: Mapping[int, Mapping[str, int]], *, rule: OrderingRule, uuid: str, generation: int,
        remembers: bool = False,
    ) -> Progress:  # fmt: skip
        """The progress of a silver that was just created, or computed anew up to ``ends``; with ``remembers`` rows of an earlier one stay in it."""
        common = {"topic": uuid, "rule": rule.to_json(), "generation": generation, **({"remembers": True} if remembers else {})}
        return cls({index: _mark(place, common, counts.get(index, {})) for index, place in sorted(ends.items())})

    def after(self, ends: Mapping[int, LogPlace], counts: Mapping[int, Mapping[str, int]]) -> Progress:
        """The progress when the log was merged up to ``ends``; a partition that does not move keeps its mark."""
        marks = dict(self.marks)
        for index, place in ends.items():
            if place.end > self.next[index]:
                before, known = self.controls[index]["counts"], counts.get(index, {})
                marks[index] = _mark(place, self.controls[index], {n: before.get(n, 0) + known.get(n, 0) for n in COUNTS})
        return Progress(marks)

    def restored(self, identity: str) -> Progress:
        """The progress behind a fence: the same, but no merge that knew the one before can commit (its gate does not find it)."""
        marks = {
            index: Mark(mark.offset, mark.epoch, json.dumps({**self.controls[index], "restore": identity}, sort_keys=True))
            for index, mark in self.marks.items()
        }
        return Progress(marks, by_hand=self.by_hand)

    @property
    def restore(self) -> str | None:
        """The identity of the restore that silver came out of, if there was one and every partition says so."""
        found = {control.get("restore") for control in self.controls.values()}
        return found.pop() if len(found) == 1 else None

    @cached_property
    def controls(self) -> dict[int, dict[str, Any]]:
        """Partition to what its control row says."""
        return {index: json.loads(mark.control) for index, mark in self.marks.items()}

    @property
    def is_told(self) -> bool:
        """Whether each control row says what merges say: place, epoch, and as JSON the topic, the rule, the number of this silver, and counts."""
        try:
            numbers = [part for index, mark in self.marks.items() for part in (index, mark.offset, mark.epoch)]
            for control in self.controls.values():
                numbers += [control["generation"], *control["counts"].values()]
            rules = {(control["topic"], control["rule"]) for control in self.controls.values()}
            return all(isinstance(one, int) for one in numbers) and all(topic and OrderingRule.from_json(rule) for topic, rule in rules)
        except (AttributeError, KeyError, TypeError, ValueError):
            return False

    @property
    def next(self) -> dict[int, int]:
        """Partition to the first offset that is not merged yet."""
        return {index: mark.offset + 1 for index, mark in self.marks.items()}

    @property
    def snapshot_id(self) -> SnapshotId:
        """What a snapshot of this state is called: its epoch, and the end offset of each partition."""
        return SnapshotId(max(mark.epoch for mark in self.marks.values()), self.next)

    @property
    def batches(self) -> dict[int, str]:
        """Partition to the append that ends at the last merged offset, where that is known: of silver tables of format 1 it is not."""
        return {index: control["batch"] for index, control in self.controls.items() if control.get("batch")}

    @property
    def rule(self) -> OrderingRule:
        """The rule silver was made under."""
        return OrderingRule.from_json(next(iter(self.controls.values()))["rule"])

    @property
    def uuid(self) -> str:
        """The identity of the topic that silver was made for."""
        return str(next(iter(self.controls.values()))["topic"])

    @property
    def empty(self) -> bool:
        """Whether silver holds no rows: nothing was merged yet, and nothing is remembered of what was merged into an earlier one."""
        return not self.totals()["records"] and not any(control.get("remembers") for control in self.controls.values())

    @property
    def generation(self) -> int:
        """How often silver was computed anew; where that count was lost once, from a time in milliseconds on."""
        return int(next(iter(self.controls.values()))["generation"])

    @property
    def fingerprint(self) -> str:
        """One text for all control rows together (`fingerprint_of`)."""
        return hashed((index, mark.offset, mark.epoch, mark.control) for index, mark in self.marks.items())

    def totals(self) -> dict[str, int]:
        """Counts since the topic was created or rebuilt, over all partitions."""
        return {name: sum(control["counts"].get(name, 0) for control in self.controls.values()) for name in COUNTS}

    def note(self) -> str | None:
        """The user metadata of the commit that writes this progress; None when it would be too long, or would hide a RESTORE by hand."""
        if self.by_hand:
            return None
        text = json.dumps({NOTE: {str(index): [mark.offset, mark.epoch, mark.control] for index, mark in self.marks.items()}})
        return text if len(text) <= NOTE_MOST else None


def _mark(place: LogPlace, common: Mapping[str, Any], counts: Mapping[str, int]) -> Mark:
    return Mark(place.end - 1, place.epoch, json.dumps({**common, "batch": place.batch, "counts": dict(counts)}, sort_keys=True))


def progress(log: TopicLog, *, from_rows: bool = False, passing_over: Sequence[int] = ()) -> Progress:
    """How far silver is, by its newest commit; by its control rows where that is not a merge. Cost: as `tables.history`, else four small Spark jobs.

    Args:
        log: the topic's log.
        from_rows: do not believe the newest commit's note.
        passing_over: versions that are no commits by hand.

    Raises:
        Damaged: there is no silver, it is another log's, or its control rows are not as merges leave them.
    """
    spark, table = log.spark, log.silver
    try:
        newest = tables.history(spark, table, 1)[0]
    except NotFound as error:
        raise Damaged(f"{table}: the latest table is gone. {REBUILD}") from error
    noted, version = noted_progress(newest), int(newest["version"])
    if noted is not None and not from_rows:
        return own(log, noted)
    rows = tables.history(spark, table, LOOK_BACK) if noted is None else []
    found = from_control_rows(table, control_rows_of(past.pinned(spark, table, version), table), version)
    by_hand = _brought_back([row for row in rows if row["version"] not in passing_over], found.marks)
    return own(log, replace(found, by_hand=by_hand))


def own(log: TopicLog, state: Progress) -> Progress:
    """The progress of a log's own silver.

    Raises:
        Damaged: it was made for another log, or does not say how far it is in every partition.
    """
    made_for = {control["topic"] for control in state.controls.values()}
    if made_for != {log.uuid}:
        raise Damaged(
            f"{log.name}: {log.silver} is the latest table of another log. Bring the right one back, or run verify with repair: it computes it anew.",
            expected=log.uuid, actual=state.uuid,
        )  # fmt: skip
    if sorted(state.marks) != list(range(log.partitions)):
        raise not_as_left(log.silver)
    return state


def _brought_back(rows: Sequence[Row], marks: Mapping[int, Mark]) -> bool:
    """Whether another writer brought silver to these marks, by its newest commits, newest first, since lakelog last wrote its progress with one.

    By a RESTORE; or by a commit that may have changed rows, such as one that put the rows of an older version in their place: where the marks are no
    longer those that were written, or nobody knows which were.
    """
    changed = False
    for row in rows:
        noted = noted_progress(row)
        if noted is not None:
            return changed and noted.marks != marks
        if is_restore(row):
            return True
        changed = changed or _is_foreign(row)
    return changed


def _is_foreign(row: Row) -> bool:
    """Whether a commit on silver may have changed rows and is not lakelog's, which signs all of its own (`commits.signed`)."""
    sign = sign_of(row) or ""
    return row["version"] != 0 and not is_harmless(row) and not ('"commit"' in sign or '"lakelog' in sign)


def noted_progress(newest: Row) -> Progress | None:
    """The progress that silver's newest commit carries; None where it is not a merge."""
    try:
        noted = json.loads(sign_of(newest) or "{}").get(NOTE)
    except (ValueError, AttributeError):
        noted = None
    if noted and newest["operation"].upper().startswith(("MERGE", "WRITE", "CREATE")):
        return Progress({int(index): Mark(*mark) for index, mark in noted.items()}, int(newest["version"]))
    return None


def stored(spark: SparkSession, table: TableRef, at: int | None = None) -> Progress:
    """The progress by silver's control rows.

    Raises:
        Damaged: as `from_control_rows`.
    """
    return from_control_rows(table, control_rows(spark, table, at))


def from_control_rows(table: object, rows: Sequence[Row], version: int | None = None, *, remedy: str = REBUILD) -> Progress:
    """The progress that control rows of silver say.

    Raises:
        Damaged: there are none, or two for a partition, or one does not say what merges write.
    """
    found = Progress({row["partition"]: Mark(row["offset"], row["epoch"], row["control"]) for row in rows}, version)
    if not rows or len(found.marks) < len(rows) or not found.is_told:
        raise not_as_left(table, remedy)
    return found


def not_as_left(table: object, remedy: str = REBUILD) -> Damaged:
    """The refusal of a silver that does not say how far it is."""
    return Damaged(f"{table}: the control rows of silver are not as lakelog left them. {remedy}")


def require_held(topic: str, state: Progress, ends: Mapping[int, int]) -> None:
    """Refuse a silver that holds more than the log.

    Raises:
        Damaged: naming the partition.
    """
    for index, end in sorted(ends.items()):
        if end < state.next[index]:
            raise Damaged(
                f"{topic}: silver holds partition {index} up to offset {state.next[index]}, its log ends at {end}: the log lost records. {REPAIR}",
                expected=state.next[index], actual=end,
            )  # fmt: skip
