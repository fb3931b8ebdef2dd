"""Entries of the ledger that a restore took out of it, kept aside: a restore to a snapshot that holds their records brings them back.

An entry is in the log for some generations of it: from that in which it was written up to that which the restore began (``lives``, of both the
number). A snapshot holds its records where each partition of the snapshot ends at or behind them and its last record there is of such a
generation. The rows lie in a directory of their own, which nothing else reads: (partition -1, segment -4).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lakelog.delta import tables
from lakelog.delta.statement import interpreted
from lakelog.log import ledger
from lakelog.log.rows import WITHDRAWN_SEGMENT, control_row
from lakelog.log.tokens import TOKEN_PARTITION, remembered_since
from lakelog.model.topic_log import TopicLog

if TYPE_CHECKING:
    from pyspark.sql import Row

# Partition to (from which offset on records leave the log, where the snapshot ends, the generation of its last record; None: not known).
Places = Mapping[int, tuple[int, int, int | None]]


def changes(log: TopicLog, places: Places, number: int) -> tuple[list[tuple[int, int, str]], list[tuple[Any, ...]]]:
    """What a restore that begins a generation does to tokens and ledger.

    Args:
        log: the topic's log.
        places: what becomes of each partition.
        number: the generation's.

    Gives: (segment, offset, batch) of the token and ledger rows that answer with offsets which go, as others may lie at the same place; control
    rows to be written: the entries among them, put aside, and those put aside before whose records the snapshot holds.

    Cost: the rows of tokens, ledger and what was put aside are read.
    """
    from pyspark.sql import functions as F

    rows = tables.read(log.spark, log.table).filter(F.col("partition") == TOKEN_PARTITION)
    rows = rows.filter((F.col("segment") >= 0) | (F.col("segment") == WITHDRAWN_SEGMENT))
    with tables.door(log.table), interpreted(log.spark):
        found = rows.select("segment", "offset", "epoch", "batch", "control", F.unix_millis("appended_at").alias("ms")).collect()
    return decided([(row, json.loads(row["control"])) for row in found], places, number)


def told(log: TopicLog, source: str) -> list[Mapping[str, Any]]:
    """What the entries of a source that were put aside say for the source to go on. Cost: one small Spark query."""
    return [said["more"] for said in entries(log, source)]


def entries(log: TopicLog, source: str) -> list[Mapping[str, Any]]:
    """The entries of a source that were put aside, whole. Cost: one small Spark query."""
    from pyspark.sql import functions as F

    rows = tables.read(log.spark, log.table).filter((F.col("partition") == TOKEN_PARTITION) & (F.col("segment") == WITHDRAWN_SEGMENT))
    with tables.door(log.table), interpreted(log.spark):
        found = [json.loads(row["control"]) for row in rows.select("control").collect()]
    return [said for said in found if said["type"] == ledger.TYPE and said["source"] == source]


def claimed(log: TopicLog, spans: Mapping[int, tuple[int, int]], *, now: int) -> list[str]:
    """The tokens and entries of sources that say of records that they are in the log, where these are missing from it, in words.

    Args:
        log: the topic's log.
        spans: partition to the offsets between which records are missing, and none was cleaned.
        now: the time in milliseconds; tokens that are forgotten by then are left out.

    Cost: the rows of tokens and ledger are read, and the offsets of the log in those spans; nothing without spans.
    """
    from pyspark.sql import functions as F

    if not spans:
        return []
    table, here = tables.read(log.spark, log.table), F.lit(False)
    for index, (first, below) in sorted(spans.items()):
        here |= (F.col("partition") == index) & F.col("offset").between(first, below - 1)
    answers = table.filter((F.col("partition") == TOKEN_PARTITION) & (F.col("segment") >= 0))
    answers = answers.select("batch", "control", F.unix_millis("appended_at").alias("ms"))
    records = table.filter(here & F.col("control").isNull()).groupBy("partition", "batch").count()
    with tables.door(log.table), interpreted(log.spark):
        found = [(row, json.loads(row["control"])) for row in answers.collect()]
        held = {(row["partition"], row["batch"]): row["count"] for row in records.collect()}
    valid = [(row["batch"], said) for row, said in found if said["type"] == ledger.TYPE or row["ms"] > remembered_since(log, now)]
    return sorted({_named(said) for batch, said in valid if _lacks(batch, said["offsets"], spans, held)})


def _lacks(
    batch: str, offsets: Mapping[str, Sequence[int]], spans: Mapping[int, tuple[int, int]], held: Mapping[tuple[int, str], int]
) -> bool:
    """Whether an append of which a row says that it has some offsets has fewer records in ``spans`` than offsets."""
    for name, (low, high) in offsets.items():
        first, below = spans.get(int(name), (0, 0))
        if min(high, below) - max(low, first) > held.get((int(name), batch), 0):
            return True
    return False


def _named(said: Mapping[str, Any]) -> str:
    """A token or an entry of a source in words."""
    return f"{said['name']} of the source {said['source']}" if said["type"] == ledger.TYPE else f"the token {said['token']}"


def decided(
    rows: Sequence[tuple[Row | Mapping[str, Any], Mapping[str, Any]]], places: Places, number: int
) -> tuple[list[tuple[int, int, str]], list[tuple[Any, ...]]]:
    """`changes`, of rows and their contents."""
    gone, written = set(), []
    stay = set()
    for row, said in rows:
        if row["segment"] == WITHDRAWN_SEGMENT:
            continue
        if not _leaves(said["offsets"], places):
            stay.add((row["segment"], said["digest"]))
            continue
        gone.add((int(row["segment"]), int(row["offset"]), str(row["batch"])))
        if said["type"] == ledger.TYPE:
            aside = {**said, "lives": [*said.get("lives", []), [row["epoch"], number]], "taken": said.get("taken", row["ms"])}
            written.append(_row(WITHDRAWN_SEGMENT, row, row["epoch"], {**aside, "segment": row["segment"]}))
    for row, said in rows:
        if row["segment"] != WITHDRAWN_SEGMENT or (said["segment"], said["digest"]) in stay or not _holds(said, places):
            continue
        stay.add((said["segment"], said["digest"]))
        written.append(_row(said["segment"], row, number, {name: one for name, one in said.items() if name != "segment"}))
    return sorted(gone), written


def _leaves(offsets: Mapping[str, Sequence[int]], places: Places) -> bool:
    """Whether records at these offsets leave the log."""
    return any(span[1] > places[int(index)][0] for index, span in offsets.items() if int(index) in places)


def _holds(said: Mapping[str, Any], places: Places) -> bool:
    """Whether a snapshot holds the records of an entry."""
    for index, (_, end) in said["offsets"].items():
        _, stop, epoch = places.get(int(index), (0, 0, None))
        if epoch is None or end > stop or not any(first <= epoch < last for first, last in said["lives"]):
            return False
    return bool(said["offsets"])


def _row(segment: int, row: Row | Mapping[str, Any], epoch: int, content: Mapping[str, Any]) -> tuple[Any, ...]:
    return control_row(TOKEN_PARTITION, segment, row["offset"], epoch, content, row["batch"])
