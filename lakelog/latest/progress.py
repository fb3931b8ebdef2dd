"""How far silver is: per partition the last merged offset, its epoch, the rule and the counts.

The truth are silver's control rows, in the reserved bucket -1. The commit that writes them carries the same as its user metadata, so that
the next merge has it from the newest commit alone. Every merge is gated by the digests of the rows themselves: a hint can be old, not wrong.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from lakelog.delta import tables
from lakelog.errors import Damaged
from lakelog.model.names import TableRef
from lakelog.model.ordering import OrderingRule

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COUNTS = ("records", "inserted", "updated", "deleted", "late", "duplicates", "invalid_versions", "ignored_deletes", "unkeyed")
CONTROL_BUCKET = -1
# The key of the user metadata, and how many characters a commit carries at most; beyond, the control rows are read.
NOTE, NOTE_MOST = "lakelog.progress", 32_768


@dataclass(frozen=True)
class Mark:
    """A partition's control row: last merged offset, epoch, and the rest as JSON."""

    offset: int
    epoch: int
    control: str

    @property
    def digest(self) -> str:
        """What stands for the row in the gate of a merge."""
        return hashlib.sha256(f"{self.offset} {self.epoch} {self.control}".encode()).hexdigest()


def digest_sql(row: str = "") -> str:
    """`Mark.digest` of a control row of silver, in SQL; ``row`` is its alias."""
    alias = f"{row}." if row else ""
    return f"sha2(concat_ws(' ', {alias}offset, {alias}epoch, {alias}control), 256)"


@dataclass(frozen=True)
class Progress:
    """A mark per partition, and silver's version where it is known."""

    marks: dict[int, Mark]
    version: int | None = None

    @classmethod
    def start(
        cls,
        ends: Mapping[int, int],
        epochs: Mapping[int, int],
        counts: Mapping[int, Mapping[str, int]],
        *,
        rule: OrderingRule,
        uuid: str,
        generation: int,
    ) -> Progress:
        """The progress of a silver that was just created (all ends 0) or computed anew up to ``ends``."""
        common = {"topic": uuid, "rule": rule.to_json(), "generation": generation}
        return cls({index: _mark(end - 1, epochs[index], common, counts.get(index, {})) for index, end in sorted(ends.items())})

    def after(self, ends: Mapping[int, int], counts: Mapping[int, Mapping[str, int]]) -> Progress:
        """The progress when the log was merged up to ``ends``; a partition that does not move keeps its mark."""
        marks = dict(self.marks)
        for index, end in ends.items():
            if end > self.next[index]:
                before, known = self.controls[index]["counts"], counts.get(index, {})
                marks[index] = _mark(
                    end - 1, marks[index].epoch, self.controls[index], {n: before.get(n, 0) + known.get(n, 0) for n in COUNTS}
                )
        return Progress(marks)

    @cached_property
    def controls(self) -> dict[int, dict[str, Any]]:
        """Partition to what its control row says."""
        return {index: json.loads(mark.control) for index, mark in self.marks.items()}

    @property
    def next(self) -> dict[int, int]:
        """Partition to the first offset that is not merged yet."""
        return {index: mark.offset + 1 for index, mark in self.marks.items()}

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
        """Whether nothing was merged yet: silver holds no rows."""
        return all(mark.offset < 0 for mark in self.marks.values())

    @property
    def generation(self) -> int:
        """How often silver was computed anew."""
        return int(next(iter(self.controls.values()))["generation"])

    def totals(self) -> dict[str, int]:
        """Counts since the topic was created or rebuilt, over all partitions."""
        return {name: sum(control["counts"].get(name, 0) for control in self.controls.values()) for name in COUNTS}

    def note(self) -> str | None:
        """The user metadata of the commit that writes this progress; None when it would be too long."""
        text = json.dumps({NOTE: {str(index): [mark.offset, mark.epoch, mark.control] for index, mark in self.marks.items()}})
        return text if len(text) <= NOTE_MOST else None


def _mark(offset: int, epoch: int, common: Mapping[str, Any], counts: Mapping[str, int]) -> Mark:
    return Mark(offset, epoch, json.dumps({**common, "counts": dict(counts)}, sort_keys=True))


def progress(spark: SparkSession, table: TableRef) -> Progress:
    """How far silver is, by its newest commit; by its control rows where that is not a merge. Cost: one small Spark job, else three.

    Raises:
        Damaged: there are no control rows, or two for a partition.
    """
    newest = tables.history(spark, table, 1)[0]
    version = int(newest["version"])
    try:
        noted = json.loads(newest["userMetadata"] or "{}").get(NOTE)
    except (ValueError, AttributeError):
        noted = None
    if noted and newest["operation"].upper().startswith(("MERGE", "WRITE", "CREATE")):
        return Progress({int(index): Mark(*mark) for index, mark in noted.items()}, version)
    return Progress(stored(spark, table).marks, version)


def stored(spark: SparkSession, table: TableRef) -> Progress:
    """Silver's control rows as they stand. Cost: two small Spark jobs over one small file.

    Raises:
        Damaged: there are none, or two for a partition.
    """
    with tables.door(table):
        rows = tables.read(spark, table).filter(f"bucket = {CONTROL_BUCKET}").select("partition", "offset", "epoch", "control").collect()
    if not rows or len({row["partition"] for row in rows}) < len(rows):
        raise Damaged(f"{table}: the control rows of silver are not as lakelog left them. Rebuild with merge(rebuild=True).")
    return Progress({row["partition"]: Mark(row["offset"], row["epoch"], row["control"]) for row in rows})
