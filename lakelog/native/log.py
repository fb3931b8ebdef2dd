"""The log without a JVM: its end and state as its newest rows say, and its records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lakelog.cleaning.segments import Segments, of_control_rows
from lakelog.errors import InvalidRequest
from lakelog.log.notes import newest_note
from lakelog.log.rows import CLEANER_SEGMENT, RECORD_COLUMNS, STATE_SEGMENT
from lakelog.log.tail import LogEnd, clusters, is_newest, tails_of
from lakelog.model.kinds import Kind, struct
from lakelog.model.names import listed
from lakelog.model.segments import Tail
from lakelog.native import inspection
from lakelog.native.rows import Rows
from lakelog.native.shapes import shaped
from lakelog.native.table import Table

if TYPE_CHECKING:
    import pyarrow

PLACE = ("partition", "offset")
# So many rows, or octets of files, are put in order at once, and more where a single file has more.
SLICE, SLICE_OCTETS = 200_000, 64 << 20
IS_RECORD = '"partition" >= 0 AND "segment" >= 0 AND "control" IS NULL'


def log_end(table: Table, partitions: int) -> LogEnd:
    """The end of each partition's log at the version of bronze that was opened, as `log.tail.log_end` has it.

    Raises:
        Damaged: another writer changed the log, or its control rows are missing.

    Cost: the newest commit file; of the table the files behind the noted ends. After a RESTORE to a time, one pass over the log's offsets.
    """
    everyone = list(range(partitions))

    def is_whole(said: Mapping[str, Any]) -> bool:
        return not inspection.problems(table, partitions) and is_newest(_tails(table, everyone, {}), said)

    version, found = newest_note(table.ref, table.history, is_whole)  # type: ignore[arg-type]
    hints = {int(index): int(end) for index, end in found.get("ends", {}).items()}
    tails = _tails(table, everyone, hints)
    wrong = [index for index in everyone if tails[index].end < hints.get(index, 0)]
    if wrong:
        tails |= _tails(table, wrong, {})
    return LogEnd(version, tails, hints, found.get("batch"))


def _tails(table: Table, partitions: Sequence[int], hints: Mapping[int, int]) -> dict[int, Tail]:
    """The tails as their newest rows say."""
    states = table.records(
        f'SELECT "partition", "offset", "epoch", "batch", "control" FROM t WHERE "segment" = {STATE_SEGMENT}'
        f' AND "partition" IN ({listed(partitions)}) AND "control" IS NOT NULL'
    )
    newest: dict[int, tuple[Any, ...]] = {}
    for row in states:
        if '"type": "segment"' in row["control"]:
            continue
        order = (-row["offset"], row["epoch"], row["batch"] or "", row["control"])
        newest[row["partition"]] = max(newest.get(row["partition"], order), order)
    rows: list[tuple[Any, ...]] = [
        (index, epoch, -1, {"offset": 0, "segment": 0, "batch": batch or None, "control": control})
        for index, (_, epoch, batch, control) in newest.items()
    ]
    for least, group in clusters({index: hints.get(index, 0) for index in partitions}):
        behind = f'FROM t WHERE "partition" IN ({listed(group)}) AND "segment" >= 0 AND "offset" >= {least - 1}'
        tops = table.records(f'SELECT "partition", max("offset") AS top {behind} GROUP BY "partition"')
        last: dict[int, dict[str, Any]] = {}
        for row in table.records(f'SELECT "partition", "offset", "segment", "batch", "control" {behind} AND "control" IS NOT NULL'):
            kept = last.get(row["partition"])
            if kept is None or _place(row) > _place(kept):
                last[row["partition"]] = row
        rows += [(row["partition"], None, row["top"], last.get(row["partition"])) for row in tops]
    return tails_of(table.ref, partitions, rows)


def _place(row: Mapping[str, Any]) -> tuple[int, int, str, str]:
    return row["offset"], row["segment"], row["batch"] or "", row["control"]


def require_partition(table: Table, partition: int, partitions: int) -> None:
    """Refuse a partition that the log does not have.

    Raises:
        InvalidRequest: naming those it has.
    """
    if not 0 <= partition < partitions:
        raise InvalidRequest(f"{table.ref}: there is no partition {partition}; partitions are 0 to {partitions - 1}.")


def records(table: Table, value: Kind, *, partition: int | None = None, offset: int | None = None) -> Rows:
    """The log's records from an offset, with the columns of `RECORD_COLUMNS`; values in the type that the topic has now."""
    have = table.schema
    wheres = [IS_RECORD]
    wheres += [] if partition is None else [f'"partition" = {partition}']
    wheres += [] if offset is None else [f'"offset" >= {offset}']

    def read(ordered: Sequence[str], most: int | None) -> Iterator[pyarrow.RecordBatch]:
        names = ", ".join(f'"{name}"' for name in RECORD_COLUMNS)
        query = f"SELECT {names} FROM t WHERE {' AND '.join(wheres)}"
        left = most
        for part in slices(table.places(), most, partition, offset) if tuple(ordered) == PLACE else [""]:
            for batch in table.batches(query + part + _ending(ordered, left)):
                yield batch.set_column(RECORD_COLUMNS.index("value"), "value", shaped(batch.column("value"), have["value"].dataType, value))
                left = left if left is None else left - batch.num_rows
            if left is not None and left <= 0:
                return

    return Rows(struct([(name, value if name == "value" else have[name].dataType) for name in RECORD_COLUMNS]), read)


def slices(
    files: Iterable[tuple[int, int, int, int]], most: int | None, partition: int | None = None, offset: int | None = None
) -> Iterator[str]:
    """Conditions that cut a log into slices one after the other, each put in order by itself: none of many more rows than `SLICE`, or octets.

    Args:
        files: (partition, least offset, rows, octets) of each, in that order.
        most: how many records are wanted; None for all. The first slice has files of twice as many rows, since some rows are none, and each later
            one of more: whoever wants the first records opens no other files.
        partition: the only one that is wanted.
        offset: the least one that is wanted.
    """
    after: tuple[int, int] | None = None
    rows, octets, enough, last = 0, 0, SLICE if most is None else min(2 * most, SLICE), None
    for index, least, count, size in files:
        if partition is not None and index != partition:
            continue
        place = (index, least)
        if (rows >= enough or octets >= SLICE_OCTETS) and place != last:
            yield _between(after, place)
            after, rows, octets, enough = place, 0, 0, min(4 * enough, SLICE)
        # Where offsets below are not wanted, the rows of a file that may hold some do not count.
        wanted = offset is None or least >= offset
        rows, octets, last = rows + wanted * count, octets + wanted * size, place
    yield _between(after, None)


def _between(after: tuple[int, int] | None, before: tuple[int, int] | None) -> str:
    """Conditions on the place of a record, as more of a WHERE."""
    found = ""
    if after is not None:
        found += f' AND ("partition" > {after[0]} OR ("partition" = {after[0]} AND "offset" >= {after[1]}))'
    if before is not None:
        found += f' AND ("partition" < {before[0]} OR ("partition" = {before[0]} AND "offset" < {before[1]}))'
    return found


def _ending(ordered: Sequence[str], most: int | None) -> str:
    """How a query ends that gives rows in the order of these columns, at most so many."""
    by = ", ".join(f'"{name}" ASC NULLS FIRST' for name in ordered)
    return f"{f' ORDER BY {by}' if by else ''}{'' if most is None else f' LIMIT {most}'}"


def held_segments(table: Table, end: LogEnd) -> tuple[Segments, int]:
    """The log's segments with their sizes and times, as `cleaning.segments.read` has them, by its control rows; and how many records it holds.

    Cost: one look at the control column of every file.
    """
    place = ", ".join(f'CASE WHEN "control" IS NOT NULL THEN "{name}" END AS "{name}"' for name in ("offset", "epoch"))
    rows = table.records(
        f'SELECT "partition", "segment", "control", {place}, count(*) AS n FROM t WHERE "partition" >= 0'
        f' AND ("segment" >= 0 OR "segment" = {CLEANER_SEGMENT}) GROUP BY 1, 2, 3, 4, 5'
    )
    said = [row for row in rows if row["control"] is not None for _ in range(row["n"])]
    segments = of_control_rows(((row["partition"], row["segment"], row["offset"], row["epoch"], row["control"]) for row in said), end)
    return segments, sum(row["n"] for row in rows if row["control"] is None and row["segment"] >= 0)


def oldest_age(table: Table, start: Mapping[int, int], ends: Mapping[int, int], now: int) -> int | None:
    """How long the oldest record that is not merged has waited, in milliseconds; None when none waits. Cost: as `within`."""
    waiting = [("", index, start[index], end) for index, end in sorted(ends.items()) if end > start[index]]
    _, first = within(table, waiting).get("", (0, None))
    return None if first is None else now - first


def within(table: Table, spans: Sequence[tuple[str, int, int, int]]) -> dict[str, tuple[int, int | None]]:
    """Name to how many records lie within its spans, and when the first of them was appended (milliseconds); names without any are left out.

    Args:
        table: bronze.
        spans: (name, partition, first offset, end) each, of one name several.

    Cost: one query, of the offsets and append times from the first offsets on: files before them are skipped by their statistics.
    """
    if not spans:
        return {}
    names = sorted({name for name, *_ in spans})
    lows: dict[int, int] = {}
    for _, index, low, _ in spans:
        lows[index] = min(low, lows.get(index, low))
    # What skips files, a few conditions: of one for each of thousands of partitions delta-rs makes no plan.
    near = " OR ".join(f'("partition" IN ({listed(group)}) AND "offset" >= {least})' for least, group in clusters(lows))
    exact = ", ".join(f"({names.index(name)}, {index}, {low}, {high})" for name, index, low, high in spans)
    rows = table.records(
        f"SELECT s.column1 AS name, count(*) AS records, arrow_cast(min(t.appended_at), 'Int64') AS us FROM t"
        f' JOIN (VALUES {exact}) AS s ON t."partition" = s.column2 AND t."offset" >= s.column3 AND t."offset" < s.column4'
        f" WHERE {IS_RECORD} AND ({near}) GROUP BY 1"
    )
    return {names[row["name"]]: (row["records"], None if row["us"] is None else int(row["us"]) // 1000) for row in rows}
