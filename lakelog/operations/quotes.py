"""What quotes keys beside the tables that hold records: verdicts, and the reports of runs (``_lakelog/runs``); and both without an erased key.

A list of keys is searched by digest. A text, such as what a check observed or the message of an error, may quote any record, in a form of its own and
cut short, so it cannot be searched: texts that show records are removed from all verdicts and reports of the topic. Their figures, rules and names
stay, and so do texts that are known to count alone. The lake's table of runs knows topics by name: reports of one that had the name before count too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakelog.delta import frames, table_properties, tables
from lakelog.delta.statement import interpreted
from lakelog.errors import Conflict
from lakelog.latest.erased import text_digest
from lakelog.model.names import TableRef
from lakelog.model.records import as_datetime
from lakelog.model.topic_log import TopicLog
from lakelog.quality import verdicts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ATTEMPTS = 20
# What stands where the message of an error stood.
REMOVED = "removed: it may have quoted a record of a key that was erased"
# What checks observe that counts alone; and the check whose text is a figure of lakelog's.
COUNTS = re.compile(
    r"\d+ of \d+ (break it|are none)(: [\d.]+% satisfy it, [\d.]+% must)?|\d+ groups have several rows|the query gives \d+ rows"
)
OF_FIGURE = "expect_figure_to_be_between"
# Fields of an error that tell of single records.
OF_RECORDS = ("problems", "key")


@dataclass(frozen=True)
class Quotes:
    """Verdicts' rules, as (run, rule, the keys without the erased one), and runs, as (run, the report without what may quote it)."""

    verdicts: Sequence[tuple[str, str, str]]
    runs: Sequence[tuple[str, str]]


def runs_of(root: str) -> TableRef:
    """Where a lake's runs are."""
    return TableRef.of(root, "_lakelog", "runs")


def find(log: TopicLog, quoted: Sequence[str]) -> Quotes:
    """What quotes a key, or may.

    Args:
        log: the topic.
        quoted: the digests of the key's texts.

    Cost: at most two small Spark jobs over the topic's verdicts and runs.
    """
    told = verdicts.rows(log)
    of_verdicts, of_runs = [], []
    if told is not None:
        with tables.door(verdicts.table_of(log.root)), interpreted(log.spark):
            of_verdicts = _telling(told).collect()
    if table_properties.read(log.spark, runs_of(log.root)) is not None:
        with tables.door(runs_of(log.root)), interpreted(log.spark):
            of_runs = _reports(tables.read(log.spark, runs_of(log.root)), log).collect()
    found = [(row["run"], row["rule"], _keys_without(log, row, quoted)) for row in of_verdicts]
    made = [(row["run_id"], without(row["report"], _is_quoted(log, quoted))) for row in of_runs]
    return Quotes(
        [(run, rule, keys) for run, rule, keys in found if keys is not None], [(run, text) for run, text in made if text is not None]
    )


def remove(log: TopicLog, quoted: Sequence[str]) -> None:
    """Write verdicts and reports without what quotes a key, or may; again, and nothing changes.

    Raises:
        Conflict: other writers were first again and again.
    """
    from pyspark.sql import functions as F

    found = find(log, quoted)
    if found.verdicts:
        rows = frames.small_frame(log.spark, "run STRING, rule STRING, keys STRING", list(found.verdicts)).withColumn(
            "uuid", F.lit(log.uuid)
        )
        _changed(
            rows, verdicts.table_of(log.root), "t.uuid = s.uuid AND t.run = s.run AND t.rule = s.rule", "t.keys = s.keys, t.observed = NULL"
        )
    if found.runs:
        rows = frames.small_frame(log.spark, "run STRING, report STRING", list(found.runs))
        _changed(rows, runs_of(log.root), "t.verb = 'run' AND t.run_id = s.run", "t.report = s.report")


def _changed(rows: DataFrame, table: TableRef, on: str, changes: str) -> None:
    insist(lambda: tables.merge(rows.coalesce(1), table, on=on, clauses=f"WHEN MATCHED THEN UPDATE SET {changes}", scatter=False))


def insist(write: Callable[[], object]) -> None:
    """Write again where another writer was first.

    Raises:
        Conflict: others were, again and again.
    """
    for attempt in range(ATTEMPTS):
        try:
            write()
            return
        except Conflict:
            if attempt == ATTEMPTS - 1:
                raise


def files(log: TopicLog, quoted: Sequence[str], at: int) -> dict[str, int]:
    """Of verdicts and runs: how many data files on storage, those of old versions too, hold what quotes a key, or may, and was written up to a time.

    Tables of a catalog are left out.

    Args:
        log: the topic.
        quoted: the digests of the key's texts.
        at: the time in milliseconds: what was written later quotes new records, where it quotes the key.

    Cost: the texts in all files of both tables are read.
    """
    from pyspark.sql import functions as F

    found = {}
    for name, table, schema, time in (
        ("verdicts", verdicts.table_of(log.root), verdicts.COLUMNS, "at"),
        ("runs", runs_of(log.root), "ended_at TIMESTAMP, run_id STRING, verb STRING, topic STRING, report STRING", "ended_at"),
    ):
        if table.path is None or table_properties.read(log.spark, table) is None:
            continue
        every = log.spark.read.options(recursiveFileLookup="true", pathGlobFilter="*.parquet").schema(schema).parquet(table.path)
        every = every.filter(F.col(time) <= F.lit(as_datetime(at)))
        chosen = _telling(every.filter(F.col("uuid") == log.uuid)) if name == "verdicts" else _reports(every, log)
        with tables.door(table):
            rows = chosen.select("*", F.col("_metadata.file_path").alias("file")).collect()
        hit = {
            row["file"] for row in rows
            if (_keys_without(log, row, quoted) if name == "verdicts" else without(row["report"], _is_quoted(log, quoted))) is not None
        }  # fmt: skip
        if hit:
            found[name] = len(hit)
    return found


def _telling(rows: DataFrame) -> DataFrame:
    """The verdicts' rows of rules that tell keys, or what they observed."""
    return rows.filter("rule IS NOT NULL AND (coalesce(keys, '[]') != '[]' OR coalesce(observed, '') != '')")


def _reports(rows: DataFrame, log: TopicLog) -> DataFrame:
    """The rows of a topic's runs."""
    from pyspark.sql import functions as F

    return rows.filter((F.col("topic") == log.name) & (F.col("verb") == "run") & F.col("report").isNotNull())


def _is_quoted(log: TopicLog, quoted: Sequence[str]) -> Callable[[str], bool]:
    return lambda text: text_digest(log.uuid, text) in quoted


def _keys_without(log: TopicLog, row: Any, quoted: Sequence[str]) -> str | None:
    """The keys of a verdict's rule as they are to be; None where it quotes nothing."""
    keys = json.loads(row["keys"] or "[]")
    left = [key for key in keys if text_digest(log.uuid, key) not in quoted]
    return json.dumps(left) if len(left) < len(keys) or shows_records(row["observed"], row["type"]) else None


def shows_records(observed: str | None, kind: str | None) -> bool:
    """Whether what a check of some type observed may show records, and not counts alone."""
    return bool(observed) and kind != OF_FIGURE and COUNTS.fullmatch(str(observed)) is None


def without(report: str, is_quoted: Callable[[str], bool]) -> str | None:
    """A run's report without what quotes a key, or may; None where nothing does.

    Args:
        report: JSON.
        is_quoted: whether a text of a list of keys is the key.
    """
    try:
        told = json.loads(report)
    except ValueError:
        return None
    left = _left(told, is_quoted)
    return None if left == told else json.dumps(left)


def _left(node: Any, is_quoted: Callable[[str], bool]) -> Any:
    if isinstance(node, list):
        return [_left(one, is_quoted) for one in node]
    if not isinstance(node, dict):
        return node
    left = {name: _left(value, is_quoted) for name, value in node.items()}
    if isinstance(left.get("keys"), list):
        left["keys"] = [key for key in left["keys"] if not (isinstance(key, str) and is_quoted(key))]
    if isinstance(left.get("observed"), str) and shows_records(left["observed"], left.get("type")):
        left["observed"] = ""
    # An error that a retry mends tells of writers and tables alone.
    if "error" in left and isinstance(left.get("message"), str) and not left.get("retry"):
        left |= {"message": REMOVED, **{name: None for name in OF_RECORDS if name in left}}
    return left
