"""Is the log as appends leave it? What `log.inspection` finds, without a JVM."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from lakelog.latest.control_rows import said
from lakelog.log.inspection import told
from lakelog.log.rows import STATE_SEGMENT
from lakelog.native.table import Table

# What is there of an append in a partition, and what its batch row claims; as `log.inspection` names it.
NOTHING: Mapping[str, Any] = {
    "records": 0, "offsets": 0, "first": None, "last": None, "unmarked": 0, "end": None, "claimed": None, "holes": None,
}  # fmt: skip
Batches = dict[Any, dict[Any, dict[str, Any]]]


def problems(table: Table, partitions: int) -> list[str]:
    """What is wrong with the log in sentences, as `log.inspection.problems` says it; empty where nothing is.

    Cost: one pass over the log's offsets; a row of each append is kept in memory.
    """
    here = '("partition" IS NULL OR "partition" >= 0)'
    batches: Batches = {}
    for row in table.records(
        'SELECT "partition", "batch", count(*) AS records, count(DISTINCT "offset") AS offsets, min("offset") AS first, max("offset") AS last,'
        ' sum(CASE WHEN "segment" IS NULL OR "epoch" IS NULL THEN 1 ELSE 0 END) AS unmarked'
        f' FROM t WHERE {here} AND ("segment" IS NULL OR "segment" >= 0) AND "control" IS NULL GROUP BY 1, 2'
    ):
        batches.setdefault(row["partition"], {})[row["batch"]] = {**NOTHING, **row}
    states: dict[Any, tuple[Any, ...]] = {}
    for row in table.records(
        f'SELECT "partition", "segment", "offset", "epoch", "batch", "control" FROM t WHERE {here}'
        f' AND ("segment" IS NULL OR "segment" >= 0 OR "segment" = {STATE_SEGMENT}) AND "control" IS NOT NULL'
    ):
        content = said(row)
        if row["segment"] == STATE_SEGMENT:
            if content.get("type", "segment") != "segment":
                order = (-(row["offset"] or 0), row["epoch"] or 0, row["control"])
                states[row["partition"]] = max(states.get(row["partition"], order), order)
            continue
        one = batches.setdefault(row["partition"], {}).setdefault(row["batch"], dict(NOTHING))
        if content.get("type") == "batch":
            claims = {"end": row["offset"], "claimed": content.get("records"), "holes": content.get("holes")}
            one |= {name: max((each for each in (one[name], new) if each is not None), default=None) for name, new in claims.items()}
    return told(_by_partition(batches, states), partitions)


def _by_partition(batches: Batches, states: Mapping[Any, tuple[Any, ...]]) -> Iterator[dict[str, Any]]:
    """Figures of each partition, as `log.inspection` has them."""
    for index in sorted({*batches, *states}, key=lambda index: -1 if index is None else index):
        state = None
        if index in states:
            _, epoch, control = states[index]
            state = {"epoch": epoch, "control": control}
        content = {} if state is None else said(state)
        # Records below this offset may have been removed.
        floor = max(content.get("cleaned") or 0, content.get("start") or 0)
        yield {"partition": index, "state": state, **_figures(batches.get(index, {}), floor)}


def _figures(batches: Mapping[Any, Mapping[str, Any]], floor: int) -> dict[str, Any]:
    """Of the appends to a partition: how many records there are, and how many of what should not be."""
    found = dict.fromkeys(("records", "twice", "strange", "unended", "missing", "between", "outside"), 0)
    for batch, one in batches.items():
        found["records"] += one["records"]
        found["twice"] += one["records"] - one["offsets"]
        found["strange"] += one["records"] if batch is None else one["unmarked"]
        found["unended"] += one["records"] - one["unmarked"] if batch is not None and one["end"] is None else 0
    spans = sorted((one["first"], one["last"]) for one in batches.values() if one["first"] is not None)
    reached = -1
    for first, last in spans:
        # An offset given twice by two batches overlaps: the batch behind begins before the one in front ends.
        found["twice"] += max(0, min(last, reached) - first + 1)
        reached = max(reached, last)
    ends = [(one["last"] if one["end"] is None else one["end"], batch) for batch, one in batches.items()]
    behind = 0
    for reach, batch in sorted((pair for pair in ends if pair[0] is not None), key=lambda pair: pair[0]):
        one = batches[batch]
        end, claimed = one["end"], one["claimed"]
        if batch is not None and end is not None:
            found["outside"] += one["last"] is not None and one["last"] > end
            if end >= floor:
                own = end + 1 - (one["records"] if claimed is None else claimed) - (one["holes"] or 0)
                # Of a batch that lies across the floor as many records may be gone as it has offsets below.
                found["missing"] += 0 if claimed is None else max(0, claimed - max(floor - own, 0) - one["records"])
                found["between"] += max(0, own - max(behind, floor))
        behind = reach + 1
    return {**found, "first": spans[0][0] if spans else None}
