"""Rows as they are printed: a frame as a table, JSON or CSV, the log's records as append takes them."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator
from decimal import Decimal
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from lakelog.delta import frames
from lakelog.errors import InvalidRequest
from lakelog.model.json_values import EPOCH, instant, octets, plain
from lakelog.terminal import output

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# A table on a screen ends here, with a word about the rest; JSON and CSV have every row.
TABLE_ROWS = 100
# How to see others, of a verb and of a query in a shell, which has no options.
OF_VERB, IN_QUERY = "--limit N for another number, --format json or csv for all", "LIMIT N within the query for another number"
MUST_BE_QUOTED = re.compile(r'[",\r\n]')


def frame(rows: DataFrame, form: str, *, limit: int | None = None, whole: bool = False, more: str = "") -> None:
    """Print a DataFrame.

    Args:
        rows: any frame.
        form: ``table``, ``json`` (an object a line) or ``csv``.
        limit: at most so many rows; None prints the first 100 as a table and all of them otherwise.
        whole: one JSON object (``columns`` and ``rows``) in place of the lines.
        more: how to see the rows that a table leaves out; else by the options of a verb.
    """
    if whole or form == "json":
        _require_names(rows.schema)
    if limit is not None:
        rows = frames.at_most(rows, limit)
    kinds = [field.dataType for field in rows.schema.fields]
    rows = frames.in_python(rows)
    names = rows.schema.names
    if whole or form == "json":
        found = (dict(zip(names, map(plain, row, kinds), strict=True)) for row in rows.toLocalIterator())
        if whole:
            return output.document({"columns": names, "rows": list(found)})
        for one in found:
            output.document(one)
    elif form == "csv":
        listed = iter(rows.toLocalIterator())
        # Rows that cannot be read print nothing, not even the header: another engine may print them.
        first = list(islice(listed, 1))
        output.line(",".join(map(_csv_field, names)))
        for row in chain(first, listed):
            fields = [_csv_field(spelled(value, kind)) for value, kind in zip(row, kinds, strict=True)]
            # A line without a character would be no record to most readers.
            output.line(",".join(fields) or '""')
    else:
        found_rows = rows.collect() if limit is not None else rows.limit(TABLE_ROWS + 1).collect()
        shown = found_rows if limit is not None else found_rows[:TABLE_ROWS]
        output.table(names, [[spelled(value, kind) for value, kind in zip(row, kinds, strict=True)] for row in shown])
        if len(shown) < len(found_rows):
            output.say(f"The first {TABLE_ROWS} rows; {more or OF_VERB}.")
    return None


def plan(found: DataFrame) -> None:
    """Print what EXPLAIN answers: a text of many lines, in the last column."""
    output.line("\n".join(str(row[-1]).rstrip() for row in found.collect()))


def _csv_field(value: Any) -> str:
    """A field of CSV as append reads it: NULL is an empty field, empty text a quoted one; quoted where it must be."""
    if value is None:
        return ""
    text = output.cell(value) if isinstance(value, (bool, Decimal, dict, list)) else str(value)
    return text if text and not MUST_BE_QUOTED.search(text) else '"' + text.replace('"', '""') + '"'


def spelled(value: Any, kind: Any) -> Any:
    """A value of a row for tables and CSV: as `plain`, a decimal as the number it is."""
    return Decimal(plain(value, kind)) if isinstance(value, Decimal) else plain(value, kind)


def _require_names(kind: Any) -> None:
    """Refuse rows that an object of JSON cannot hold: a later field of the same name would take the place of the first."""
    name = kind.typeName()
    inside = [field.dataType for field in kind.fields] if name == "struct" else []
    inside += [kind.elementType] if name == "array" else [kind.valueType] if name == "map" else []
    twice = next((one for one in kind.names if kind.names.count(one) > 1), None) if name == "struct" else None
    if twice is not None:
        raise InvalidRequest(
            f"Two columns of the answer are called {twice}: JSON can hold one. Give the other another name (… AS {twice}_2), or ask for"
            " --format csv.",
            name="INVALID_QUERY",
        )
    for one in inside:
        _require_names(one)


def records(rows: DataFrame, *, placed: bool = False) -> Iterator[dict[str, Any]]:
    """The rows of `Topic.read` as NDJSON records, each fit to be appended again; ``placed`` adds offset and epoch, which append gives."""
    kinds = {field.name: field.dataType for field in rows.schema.fields}
    for row in frames.in_python(rows).toLocalIterator():
        stamp = None
        # Another writer's row may have none.
        if row["timestamp"] is not None:
            stamp = instant(row["timestamp"]) - EPOCH
        record = {name: plain(row[name], kinds[name]) for name in ("key", "value")}
        record |= {"timestamp": None if stamp is None else stamp // datetime.timedelta(milliseconds=1), "partition": row["partition"]}
        if placed:
            record |= {"offset": row["offset"], "epoch": row["epoch"]}
        if row["headers"]:
            record["headers"] = [[one["key"], None if one["value"] is None else octets(bytes(one["value"]))] for one in row["headers"]]
        if row["tombstone"]:
            record["tombstone"] = True
        yield record
