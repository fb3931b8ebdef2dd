"""Silver's tombstones: stamped with a delete horizon by the first clean that keeps them, removed at or after it; versions that are remembered."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lakelog.delta import frames, tables
from lakelog.delta.errors import raised
from lakelog.errors import Conflict
from lakelog.latest.control_rows import CONTROL_BUCKET
from lakelog.latest.progress import Progress, digest_sql
from lakelog.latest.silver import REMEMBERED
from lakelog.latest.upsert import PROGRESS_MOVED
from lakelog.model.names import listed, literal
from lakelog.model.topic_log import TopicLog

# No horizon lies beyond: the last millisecond of the year 9999, which every reader can show.
LAST_MS = 253_402_300_799_999


@dataclass(frozen=True)
class Tombstones:
    """What is to become of silver's tombstones: per partition below which offset they are stamped, and expire. ``now`` in milliseconds.

    ``withheld``: partition to the offsets of remembered versions that stay although they are due; None: all stay. ``late``: the same of tombstones
    at their horizon, where versions are not to be remembered. ``failed``: partitions of which
    none is forgotten. ``known``: silver's progress when it was decided which are forgotten;
    without it none is.
    """

    stamp_below: Mapping[int, int]
    expire_below: Mapping[int, int]
    delete_retention_ms: int
    version_retention_ms: int
    now: int
    withheld: Mapping[int, Sequence[int]] | None = None
    late: Mapping[int, Sequence[int]] | None = None
    failed: Sequence[int] = ()
    known: Progress | None = None

    def write(self, log: TopicLog) -> int | None:
        """One MERGE on silver; rows of other kinds are not touched.

        A tombstone at its horizon loses value and headers and is remembered, or goes where nothing is to be remembered: under the order ``offset``,
        and with ``tombstone.version.retention.ms=0`` unless the log holds a late record of its key (``late``). Rows that a merge replaced
        meanwhile are not meant any more: each is judged as it stands.

        Returns:
            Silver's version, None where nothing was to be done.

        Raises:
            Conflict: a commit of another writer touched what this one read; versions were to be forgotten, and silver was merged since (a late
                record counts, and leaves no other trace in silver).

        Cost: silver's flags and offsets are read; files with such rows are rewritten.
        """
        partitions = sorted({*self.stamp_below, *self.expire_below})
        limits = [(index, self.stamp_below.get(index, -1), self.expire_below.get(index, -1)) for index in partitions]
        if self.version_retention_ms >= 0:
            limits = [*limits, *((index, -1, -1) for index in range(log.partitions) if index not in partitions)]
        if not limits:
            return None
        horizon = "unix_millis(t.delete_horizon)"
        row = "t.tombstone AND t.partition = s.partition"
        expire = f"t.control IS NULL AND {horizon} <= {self.now} AND t.offset < s.expire_below"
        stamp = "t.control IS NULL AND t.delete_horizon IS NULL AND t.offset < s.stamp_below"
        forget, moved = self._forget()
        at_once = "FALSE" if log.rule.versioned else "TRUE"
        if moved is not None and self.version_retention_ms == 0 and self.late is not None:
            at_once = " AND ".join(["TRUE", *(f"NOT ({one})" for one in _places(self.late))])
        remember = (
            f"UPDATE SET value = NULL, headers = NULL, control = {literal(REMEMBERED)}, delete_horizon = timestamp_millis({self.now})"
        )
        stamped = f"UPDATE SET delete_horizon = timestamp_millis({min(self.now + self.delete_retention_ms, LAST_MS)})"
        rows = f"t.bucket >= 0 AND (({expire}) OR ({stamp}) OR ({forget}))"
        rows = rows if moved is None else f"(({rows}) OR ({moved}))"
        marks = {} if self.known is None else self.known.marks
        gated = [(*limit, marks[limit[0]].digest if limit[0] in marks else None) for limit in limits]
        stop = f"UPDATE SET bucket = CAST(raise_error('{PROGRESS_MOVED}') AS INT)"
        try:
            return tables.merge(
                frames.small_frame(log.spark, "partition INT, stamp_below BIGINT, expire_below BIGINT, known STRING", gated),
                log.silver,
                on=f"{row} AND {rows}",
                clauses=(
                    f"WHEN MATCHED AND t.bucket = {CONTROL_BUCKET} THEN {stop} WHEN MATCHED AND {expire} AND {at_once} THEN DELETE"
                    f" WHEN MATCHED AND {expire} THEN {remember} WHEN MATCHED AND {stamp} THEN {stamped} WHEN MATCHED THEN DELETE"
                ),
                scatter=False,
                user_metadata=json.dumps({"lakelog": "clean"}),
            )
        except Exception as error:
            if not raised(error, PROGRESS_MOVED):
                raise
            raise Conflict(f"{log.silver}: it was merged while versions were to be forgotten. Nothing was changed.") from error

    def _forget(self) -> tuple[str, str | None]:
        """Which rows of silver are forgotten, and which tell that it was merged since, both in SQL; None where nothing is forgotten.

        The latter are read in the same transaction: a merge before it is seen, and one beside it conflicts with it.
        """
        if self.version_retention_ms < 0 or self.withheld is None or self.known is None:
            return "FALSE", None
        stays = _places(self.withheld)
        stays += [f"t.partition IN ({listed(self.failed)})"] * bool(self.failed)
        due = f"t.control IS NOT NULL AND unix_millis(t.delete_horizon) <= {self.now - self.version_retention_ms}"
        moved = f"t.bucket = {CONTROL_BUCKET} AND NOT s.known <=> {digest_sql('t')}"
        return due + "".join(f" AND NOT ({one})" for one in stays), moved


def _places(offsets: Mapping[int, Sequence[int]]) -> list[str]:
    """The rows of a partition at some offsets, for each partition, in SQL."""
    return [f"t.partition = {index} AND t.offset IN ({listed(some)})" for index, some in sorted(offsets.items())]
