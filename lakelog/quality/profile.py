"""A starting set of suites, from a topic's types and a profile of its latest table, for people to edit.

What it proposes is what the table shows today: fields that are never NULL, few distinct texts, lengths and signs that all values share. Nothing is
guessed of an empty table beyond its types.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakelog.delta import tables
from lakelog.errors import InvalidRequest
from lakelog.latest import silver
from lakelog.model.names import literal, quoted
from lakelog.model.records import flat_columns
from lakelog.model.topic_log import TopicLog
from lakelog.quality.conditions import flat_rows
from lakelog.quality.folder import shipped
from lakelog.quality.suites import DEFAULT, DOORS, FIGURE, ROWS
from lakelog.quality_results import Initialized

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Texts are listed up to so many of them, where the table has at least so many rows for each.
DISTINCT, EACH = 12, 5
NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal")


def write(log: TopicLog, folder: str, *, now: int) -> Initialized:
    """Write the suites of a topic into a folder of this machine, and lakelog's default suites beside them; files that are there stay as they are.

    Raises:
        InvalidRequest: the folder cannot be written.

    Cost: as `profile`.
    """
    found = profile(log, now=now)
    documents = proposed(log.name, columns_of(log), found)
    texts = {f"{log.name}/{door}.json": json.dumps(documents[door], indent=2, ensure_ascii=False) + "\n" for door in DOORS}
    texts |= {f"{DEFAULT}/{door}.json": shipped(door)[1] for door in DOORS}
    written, kept = [], []
    for name, text in texts.items():
        path = Path(folder, name)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.exists():
                kept.append(str(path))
            else:
                path.write_text(text, encoding="utf-8")
                written.append(str(path))
        except OSError as error:
            raise InvalidRequest(f"{path} cannot be written: {error.strerror}.") from error
    return Initialized(log.name, folder, written, kept, sum(len(documents[door]["expectations"]) for door in DOORS), found)


def columns_of(log: TopicLog) -> dict[str, tuple[str, str]]:
    """The columns that rules read of key and value: name to (side, type)."""
    sides: dict[str, Any] = {"key": log.types.key, "value": log.types.value}
    return {
        name: (side, (sides[side][inner].dataType if inner else sides[side]).simpleString())
        for name, side, inner in flat_columns(log.types.key, log.types.value)
    }


def profile(log: TopicLog, *, now: int) -> dict[str, Any]:
    """What the live rows of the latest table show: ``rows``, and for each column nulls, distinct values, lengths, the least number.

    Cost: one Spark job over the table, and one for each column of few texts.
    """
    from pyspark.sql import functions as F

    rows: DataFrame = flat_rows(log, silver.rows(log), now).filter(~F.col("_tombstone"))
    asked = {"rows": F.count(F.lit(1))}
    columns = columns_of(log)
    for index, (name, (_, kind)) in enumerate(columns.items()):
        column = F.col(quoted(name))
        asked[f"nulls_{index}"] = F.count_if(column.isNull())
        if kind == "string":
            asked |= {f"short_{index}": F.min(F.length(column)), f"long_{index}": F.max(F.length(column))}
            asked[f"distinct_{index}"] = F.approx_count_distinct(column)
            asked[f"hex_{index}"] = F.count_if(~column.rlike("^[0-9a-f]+$"))
        if kind.startswith(NUMBERS):
            asked[f"least_{index}"] = F.min(column).cast("double")
    with tables.door(log.silver):
        seen = rows.agg(*[column.alias(name) for name, column in asked.items()]).collect()[0].asDict()
        found: dict[str, Any] = {"rows": int(seen["rows"])}
        for index, name in enumerate(columns):
            facts = {
                what: seen[f"{what}_{index}"]
                for what in ("nulls", "short", "long", "distinct", "hex", "least")
                if f"{what}_{index}" in seen
            }
            if found["rows"] and 0 < (facts.get("distinct") or 0) <= DISTINCT and found["rows"] >= EACH * facts["distinct"]:
                texts = rows.select(quoted(name)).filter(F.col(quoted(name)).isNotNull()).distinct().limit(DISTINCT + 1).collect()
                facts["texts"] = sorted(row[0] for row in texts)
            found[name] = facts
    return found


def proposed(topic: str, columns: dict[str, tuple[str, str]], found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The suites of all doors, as documents, from what a table shows.

    Args:
        topic: the topic's name.
        columns: name to (side, type).
        found: what `profile` gave.
    """
    records, table = [], []
    for name, (side, kind) in columns.items():
        facts, column = found.get(name, {}), quoted(name)
        free = "" if side == "key" else "_tombstone OR "
        rules: list[tuple[str, str, str, str]] = []
        if found["rows"] and facts.get("nulls") == 0:
            rules.append((f"{name}_present", f"{free}{column} IS NOT NULL", "critical", f"{name} is there"))
        if facts.get("texts"):
            listed = ", ".join(literal(text) for text in facts["texts"])
            rules.append(
                (
                    f"{name}_known",
                    f"{free}{column} IS NULL OR {column} IN ({listed})",
                    "critical",
                    f"{name} is one of the values known today",
                )
            )
        elif found["rows"] and kind == "string" and facts.get("short") is not None and facts["short"] == facts["long"]:
            shape = f"^[0-9a-f]{{{facts['long']}}}$" if facts.get("hex") == 0 else f"^.{{{facts['long']}}}$"
            says = f"{name} has {facts['long']} {'hexadecimal digits' if facts.get('hex') == 0 else 'characters'}"
            rules.append((f"{name}_form", f"{free}{column} IS NULL OR {column} RLIKE {literal(shape)}", "critical", says))
        elif found["rows"] and kind == "string" and (facts.get("short") or 0) > 0:
            rules.append(
                (f"{name}_not_empty", f"{free}{column} IS NULL OR length({column}) > 0", "critical", f"{name} is not an empty text")
            )
        if found["rows"] and kind.startswith(NUMBERS) and facts.get("least") is not None and facts["least"] >= 0:
            rules.append((f"{name}_not_negative", f"{free}{column} IS NULL OR {column} >= 0", "critical", f"{name} is not negative"))
        made = [_rows(*rule) for rule in rules]
        records += made
        table += made
    if not records:
        records.append(_rows("key_present", "_key IS NOT NULL", "critical", "every record has a key"))
    merge = [_figure("few_deletes", "deleted_share", 0.5, "a merge deletes at most half of the live rows")]
    merge.append(_figure("no_drop", "drop_share", 0.5, "the table does not lose more than half of its rows at once"))
    figures = [_figure("few_quarantined", "quarantined_share", 0.05, "at most one record in twenty is put aside")]
    return {
        "append": {"name": f"{topic}.append", "expectations": [*records, *figures]},
        "merge": {"name": f"{topic}.merge", "expectations": merge},
        "table": {
            "name": f"{topic}.table",
            "expectations": table or [_rows("key_present", "_key IS NOT NULL", "critical", "every row has a key")],
        },
    }


def _rows(name: str, expression: str, severity: str, description: str) -> dict[str, Any]:
    return {"type": ROWS, "kwargs": {"name": name, "expression": expression}, "severity": severity, "description": description}


def _figure(name: str, figure: str, most: float, description: str) -> dict[str, Any]:
    return {
        "type": FIGURE,
        "kwargs": {"name": name, "figure": figure, "max_value": most},
        "severity": "critical",
        "description": description,
    }
