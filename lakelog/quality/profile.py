"""A starting set of suites, from a topic's types and a profile of its latest table, for people to edit.

What it proposes is what the table shows today: fields that are never NULL, few distinct texts, lengths and signs that all values share. Nothing is
guessed of an empty table beyond its types.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakelog.delta import tables
from lakelog.delta.frames import in_python
from lakelog.errors import InvalidRequest
from lakelog.latest import silver
from lakelog.model.names import literal, local_path, quoted
from lakelog.model.records import flat_columns
from lakelog.model.row_rules import MOST
from lakelog.model.topic_log import TopicLog
from lakelog.quality.conditions import flat_rows
from lakelog.quality.folder import shipped
from lakelog.quality.suites import DEFAULT, DOORS, FIGURE, ROWS, Suite, suite
from lakelog.quality_results import Initialized

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Texts are listed up to so many of them, where the table has at least so many rows for each.
DISTINCT, EACH = 12, 5
# What is said of a column, the most useful first; of each, keys before values.
USEFUL = ("present", "known", "form", "not_negative", "not_empty")
NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal")


def write(log: TopicLog, folder: str, *, now: int) -> Initialized:
    """Write the suites of a topic into a folder of this machine, and lakelog's default suites beside them; files that are there stay as they are.

    What is written is understood together with the default suites that hold beside it: no rule has the name of one of theirs, and of more rules than
    a door takes the most useful are written.

    Raises:
        InvalidRequest: the folder cannot be written, or is none of this machine.
        InvalidConfig: a default suite that is there is not understood.

    Cost: as `profile`.
    """
    named, folder = folder, local_path(folder) or ""
    if not folder:
        raise InvalidRequest(f"{named} is no folder of this machine: write the suites to one, look through them, and copy them there.")
    common = {door: _common(log.name, folder, door) for door in DOORS}
    found = profile(log, now=now)
    made = proposed(log.name, columns_of(log), found, {door: suite(log.name, door, [one]) for door, one in common.items()})
    documents = dict(made.documents)
    texts = {f"{DEFAULT}/{door}.json": common[door][1] for door in DOORS}
    if log.name == DEFAULT:
        # Such a topic's suites are the default ones.
        for door, document in documents.items():
            document["expectations"] = [*json.loads(common[door][1])["expectations"], *document["expectations"]]
    texts |= {f"{log.name}/{door}.json": json.dumps(documents[door], indent=2, ensure_ascii=False) + "\n" for door in DOORS}
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
    rules = sum(len(documents[door]["expectations"]) for door in DOORS)
    return Initialized(log.name, folder, written, kept, rules, found, made.left_out)


def _common(topic: str, folder: str, door: str) -> tuple[str, str]:
    """The default suite of a door that is to hold beside the topic's own: that of the folder, or else lakelog's."""
    path = Path(folder, DEFAULT, f"{door}.json")
    try:
        return (str(path), path.read_text(encoding="utf-8")) if path.is_file() and topic != DEFAULT else shipped(door)
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"{path} cannot be read: {error}.") from error


def columns_of(log: TopicLog) -> dict[str, tuple[str, str]]:
    """The columns that rules read of key and value: name to (side, type)."""
    sides: dict[str, Any] = {"key": log.types.key, "value": log.types.value}
    return {
        name: (side, (sides[side][inner].dataType if inner else sides[side]).simpleString())
        for name, side, inner in flat_columns(log.types.key, log.types.value)
    }


def profile(log: TopicLog, *, now: int) -> dict[str, Any]:
    """What the live rows of the latest table show: ``rows``, and ``columns``: of each nulls, distinct values, lengths, the least number.

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
        count, found = int(seen["rows"]), dict[str, Any]()
        for index, name in enumerate(columns):
            facts = {
                what: seen[f"{what}_{index}"]
                for what in ("nulls", "short", "long", "distinct", "hex", "least")
                if f"{what}_{index}" in seen
            }
            if count and 0 < (facts.get("distinct") or 0) <= DISTINCT and count >= EACH * facts["distinct"]:
                some = rows.select(quoted(name)).filter(F.col(quoted(name)).isNotNull()).distinct().limit(DISTINCT + 1)
                texts = in_python(some).collect()
                # The count of distinct ones was estimated.
                facts |= {"texts": sorted(row[0] for row in texts)} if len(texts) <= DISTINCT else {}
            found[name] = facts
    return {"rows": count, "columns": found}


@dataclass(frozen=True)
class Proposal:
    """The suites of all doors, as documents; ``left_out``: rules about rows for which a door has no room, by name."""

    documents: dict[str, dict[str, Any]]
    left_out: list[str]


def proposed(topic: str, columns: dict[str, tuple[str, str]], found: dict[str, Any], common: Mapping[str, Suite]) -> Proposal:
    """The suites of all doors, as documents, from what a table shows.

    Args:
        topic: the topic's name.
        columns: name to (side, type).
        found: what `profile` gave.
        common: the default suite of each door, which holds beside the topic's own.
    """
    taken = {check.name for one in common.values() for check in one.checks}
    rules = [rule for name, (side, kind) in columns.items() for rule in _of_column(name, side, kind, found)]
    of_keys = {name for name, (side, _) in columns.items() if side == "key"}
    ranked = sorted(rules, key=lambda rule: (USEFUL.index(rule.what), rule.column not in of_keys))
    documents, left_out = {}, dict[str, None]()
    figures = {
        "append": [_figure("few_quarantined", "quarantined_share", 0.05, "at most one record in twenty is put aside", taken)],
        "merge": [
            _figure("few_deletes", "deleted_share", 0.5, "a merge deletes at most half of the live rows", taken),
            _figure("no_drop", "drop_share", 0.5, "the table does not lose more than half of its rows at once", taken),
        ],
        "table": [],
    }
    for door, of_door in figures.items():
        made: list[dict[str, Any]] = []
        if door != "merge":
            room = MOST - len(common[door].rules(quarantine=False).rules)
            fit = set(ranked[: max(room, 0)])
            made = [_rows(rule, taken) for rule in rules if rule in fit]
            left_out |= {_free(rule.name, taken): None for rule in rules if rule not in fit}
            if not rules:
                made.append(_rows(Proposed("_key", "present", "_key IS NOT NULL", "there is a key", "key_present"), taken))
        documents[door] = {"name": f"{topic}.{door}", "expectations": [*made, *of_door]}
    return Proposal(documents, list(left_out))


@dataclass(frozen=True)
class Proposed:
    """A rule about single rows: the column that it is about, which of `USEFUL` it is, and what it says."""

    column: str
    what: str
    expression: str
    description: str
    name: str


def _of_column(name: str, side: str, kind: str, found: dict[str, Any]) -> list[Proposed]:
    """The rules about a column, from what the table shows of it."""
    facts, column = found.get("columns", {}).get(name, {}), quoted(name)
    free = "" if side == "key" else "_tombstone OR "
    rules: list[Proposed] = []
    if not found["rows"]:
        return rules

    def add(what: str, expression: str, description: str) -> None:
        rules.append(Proposed(name, what, f"{free}{expression}", f"{name} {description}", f"{name}_{what}"))

    if facts.get("nulls") == 0:
        add("present", f"{column} IS NOT NULL", "is there")
    if facts.get("texts"):
        listed = ", ".join(literal(text) for text in facts["texts"])
        add("known", f"{column} IS NULL OR {column} IN ({listed})", "is one of the values known today")
    elif kind == "string" and facts.get("short") is not None and facts["short"] == facts["long"]:
        length = facts["long"]
        if length and facts.get("hex") == 0:
            shape = literal(f"^[0-9a-f]{{{length}}}$")
            add("form", f"{column} IS NULL OR {column} RLIKE {shape}", f"has {length} hexadecimal digits")
        else:
            add("form", f"{column} IS NULL OR length({column}) = {length}", f"has {length} characters")
    elif kind == "string" and (facts.get("short") or 0) > 0:
        add("not_empty", f"{column} IS NULL OR length({column}) > 0", "is not an empty text")
    if kind.startswith(NUMBERS) and facts.get("least") is not None and facts["least"] >= 0:
        add("not_negative", f"{column} IS NULL OR {column} >= 0", "is not negative")
    return rules


def _free(name: str, taken: Collection[str]) -> str:
    """The name of a rule, another one where a default suite has a rule of that name."""
    number = 2
    free = name
    while free in taken:
        free, number = f"{name}_{number}", number + 1
    return free


def _rows(rule: Proposed, taken: Collection[str]) -> dict[str, Any]:
    kwargs = {"name": _free(rule.name, taken), "expression": rule.expression}
    return {"type": ROWS, "kwargs": kwargs, "severity": "critical", "description": rule.description}


def _figure(name: str, figure: str, most: float, description: str, taken: Collection[str]) -> dict[str, Any]:
    kwargs = {"name": _free(name, taken), "figure": figure, "max_value": most}
    return {"type": FIGURE, "kwargs": kwargs, "severity": "critical", "description": description}
