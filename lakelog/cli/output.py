"""How answers look: data on stdout (a table for people, JSON or CSV for programs), talk on stderr."""

from __future__ import annotations

import contextlib
import csv
import datetime
import json
import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from lakelog.results import Appended, Loaded, Merged, Repaired, TopicDeleted, TopicDescription, TopicStatus, Upgraded, Verified

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FORMATS = ("table", "json", "csv")
# A table on a screen ends here, with a word about the rest; JSON and CSV have every row.
TABLE_ROWS = 100


def say(text: str) -> None:
    """One line of talk, on stderr."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def line(text: str) -> None:
    """One line of data, on stdout."""
    sys.stdout.write(text + "\n")


def document(content: Mapping[str, Any]) -> None:
    """One JSON object, on stdout."""
    line(json.dumps(content, default=str, ensure_ascii=False))


@contextlib.contextmanager
def working(doing: str) -> Iterator[None]:
    """A spinner on a terminal while something long runs; nothing elsewhere."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(doing):
        yield


# ---- tables of rows ----


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """A table for people: as wide as the terminal, as wide as needed elsewhere."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    listed = [list(row) for row in rows]
    shown = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for index, name in enumerate(columns):
        numbers = bool(listed) and all(isinstance(row[index], (int, float, Decimal, type(None))) for row in listed)
        shown.add_column(Text(name), justify="right" if numbers else "left", overflow="fold")
    for row in listed:
        shown.add_row(*[Text(cell(value)) for value in row])
    console = Console(file=sys.stdout, width=None if sys.stdout.isatty() else 4000, highlight=False)
    with console.capture() as captured:
        console.print(shown)
    for text in captured.get().splitlines():
        line(text.rstrip())


def cell(value: Any) -> str:
    """A value in a table: NULL for none, compact JSON for nested ones, control characters escaped."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, (dict, list)):
        value = json.dumps(value, default=str, ensure_ascii=False)
    text = str(value)
    return text if text.isprintable() else "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in text)


def frame(rows: DataFrame, form: str, *, limit: int | None = None, whole: bool = False) -> None:
    """Print a DataFrame.

    Args:
        rows: any frame.
        form: ``table``, ``json`` (an object a line) or ``csv``.
        limit: at most so many rows; None prints the first 100 as a table and all of them otherwise.
        whole: one JSON object (``columns`` and ``rows``) in place of the lines.
    """
    if limit is not None:
        rows = rows.limit(limit)
    kinds = [field.dataType for field in rows.schema.fields]
    names = rows.schema.names
    if whole or form == "json":
        found = (dict(zip(names, map(plain, row, kinds), strict=True)) for row in rows.toLocalIterator())
        if whole:
            return document({"columns": names, "rows": list(found)})
        for one in found:
            document(one)
    elif form == "csv":
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(names)
        for row in rows.toLocalIterator():
            values = [spelled(value, kind) for value, kind in zip(row, kinds, strict=True)]
            writer.writerow(
                "" if value is None else cell(value) if isinstance(value, (bool, Decimal, dict, list)) else value for value in values
            )
    else:
        found_rows = rows.collect() if limit is not None else rows.limit(TABLE_ROWS + 1).collect()
        shown = found_rows if limit is not None else found_rows[:TABLE_ROWS]
        table(names, [[spelled(value, kind) for value, kind in zip(row, kinds, strict=True)] for row in shown])
        if len(shown) < len(found_rows):
            say(f"The first {TABLE_ROWS} rows; --limit N for another number, --format json or csv for all.")
    return None


def plain(value: Any, kind: Any) -> Any:
    """A value of a row as JSON has it: times ISO 8601 in UTC, octets as text where they are text, else ``{"hex": …}``."""
    if value is None:
        return None
    name = kind.typeName()
    if name == "timestamp":
        return value.astimezone(datetime.timezone.utc).isoformat().replace("+00:00", "Z")
    if name == "struct":
        return {field.name: plain(value[field.name], field.dataType) for field in kind.fields}
    if name == "array":
        return [plain(item, kind.elementType) for item in value]
    if name == "map":
        return {str(plain(key, kind.keyType)): plain(item, kind.valueType) for key, item in value.items()}
    if name == "binary":
        return octets(bytes(value))
    if isinstance(value, Decimal):
        near = float(value)
        return near if "e" not in repr(near) and Decimal(repr(near)) == value else str(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if isinstance(value, (str, int, float)) else str(value)


def spelled(value: Any, kind: Any) -> Any:
    """A value of a row for tables and CSV: as `plain`, a decimal with all digits of its scale."""
    return value if isinstance(value, Decimal) else plain(value, kind)


def octets(value: bytes) -> Any:
    """Octets as the record format has them: text where they are printable UTF-8, else ``{"hex": …}``."""
    with contextlib.suppress(UnicodeDecodeError):
        text = value.decode("utf-8")
        if text.isprintable():
            return text
    return {"hex": value.hex()}


def records(rows: DataFrame) -> Iterator[dict[str, Any]]:
    """The rows of `Topic.read` as NDJSON records, each fit to be appended again; ``offset`` is left out."""
    kinds = {field.name: field.dataType for field in rows.schema.fields}
    for row in rows.toLocalIterator():
        stamp = row["timestamp"].astimezone(datetime.timezone.utc) - datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
        record = {name: plain(row[name], kinds[name]) for name in ("key", "value")}
        record |= {"timestamp": stamp // datetime.timedelta(milliseconds=1), "partition": row["partition"]}
        if row["headers"]:
            record["headers"] = [[one["key"], None if one["value"] is None else octets(bytes(one["value"]))] for one in row["headers"]]
        if row["tombstone"]:
            record["tombstone"] = True
        yield record


# ---- results as text ----


def appended(result: Appended) -> None:
    """One line about an append."""
    spans = [(index, first, end - 1) for index, (first, end) in sorted(result.offsets.items()) if end > first]
    places = ", ".join(f"partition {index}: offsets {first} to {last}" for index, first, last in spans)
    did = "had appended" if result.repeated else "appended"
    line(f"{result.topic}: {did} {count(result.records, 'record')}{f' ({places})' if places else ''}")
    if result.repeated:
        say(f"The token {result.token} is known: nothing was written, this is the first answer.")
    if result.expected_offsets_checked is False:
        say("Expected offsets were not checked: check.expected.offsets is false.")


def loaded(result: Loaded) -> None:
    """One line about a bulk load."""
    spans = ", ".join(f"partition {index}: offsets {first} to {end - 1}" for index, (first, end) in result.offsets.items())
    found = f", {result.found} of them from an earlier start" if result.found else ""
    line(f"{result.topic}: loaded {count(result.records, 'record')} in {count(result.chunks, 'chunk')}{found} ({spans})")


def progress(done: int, total: int) -> None:
    """How far a long piece of work is."""
    say(f"{done} of {total} records")


def verified(result: Verified) -> None:
    """What a verification found, a line a problem."""
    looked = f"{count(result.records, 'record')}, {count(result.keys, 'key')}, {count(result.commits, 'commit')}"
    line(f"{result.topic}: {'all is well' if result.ok else count(len(result.problems), 'problem')} ({looked})")
    for problem in result.problems:
        line(f"  {problem}")


def repaired(result: Repaired) -> None:
    """What a repair found and did."""
    if not result.problems:
        return line(f"{result.topic}: all is well, nothing was changed")
    line(f"{result.topic}: found {count(len(result.problems), 'problem')}")
    for problem in result.problems:
        line(f"  {problem}")
    line(f"{result.topic}: repaired (epoch {result.epoch}, the latest table is at version {result.version})")
    for sentence in result.done:
        line(f"  {sentence}")
    return None


def upgraded(result: Upgraded) -> None:
    """What an upgrade did, a line each."""
    if not result.done:
        return line(f"{result.root}: has format {result.format} already")
    for sentence in result.done:
        line(sentence)
    return None


def merged(result: Merged) -> None:
    """One line about a merge; counts of zero are left out, but for inserted, updated and deleted."""
    if result.version is None:
        return line(f"{result.topic}: nothing to merge")
    always = f"{result.inserted} inserted, {result.updated} updated, {result.deleted} deleted"
    rest = ("late", "duplicates", "invalid_versions", "ignored_deletes", "unkeyed", "remaining")
    told = [f"{getattr(result, name)} {name.replace('_', ' ')}" for name in rest if getattr(result, name)]
    return line(f"{result.topic}: merged {count(result.records, 'record')} into version {result.version}: " + ", ".join([always, *told]))


def created(result: TopicDescription) -> None:
    """One line about a new topic, and its warnings on stderr."""
    shape = f"key {result.key}, value {result.value}, {count(result.partitions, 'partition')}, rule {result.rule}"
    line(f"created topic {result.topic}: {shape}")
    warned(result)


def deleted(result: TopicDeleted) -> None:
    """One line about a topic that went, or would go, and its tables."""
    line(f"{'would delete' if result.dry_run else 'deleted'} topic {result.topic}: {', '.join(result.tables) or 'no table was left'}")


def warned(result: TopicDescription) -> None:
    """Settings that are legal and surely not meant, on stderr."""
    for sentence in result.warnings.values():
        say(f"Warning: {sentence}")


def described(result: TopicDescription) -> None:
    """A topic's identity, then its settings with value and origin."""
    facts = ("topic", "uuid", "key", "value", "partitions", "rule", "bronze", "silver")
    for name in facts:
        line(f"{name:<12}{getattr(result, name)}")
    line("")
    settings(result.config)
    warned(result)


def settings(entries: Iterable[Mapping[str, Any]]) -> None:
    """Settings with value, origin and meaning."""
    rows = [[one["name"], cell(one["value"]), one["origin"], one["says"]] for one in entries]
    table(["setting", "value", "origin", "meaning"], rows)


def status(topics: Sequence[TopicStatus]) -> None:
    """A line per topic: counts, the log's ends, what waits for a merge and since when, versions, rule."""
    columns = ["topic", "records", "keys", "live", "tombstones", "log", "unmerged", "waiting", "bronze", "silver", "rule"]
    table(columns, [_status_row(one) for one in topics])


def _status_row(one: TopicStatus) -> list[Any]:
    spans = [f"{part.log_start_offset}-{part.log_end_offset}" for part in one.partitions]
    if len(spans) > 1:
        spans = [f"{part.partition}: {span}" for part, span in zip(one.partitions, spans, strict=True)]
    shown = ", ".join(spans[:4]) + (", …" if len(spans) > 4 else "")
    return [
        one.topic, one.records, one.keys, one.live, one.tombstones, shown, one.unmerged_records,
        age(one.unmerged_age_ms), f"v{one.bronze_version}", f"v{one.silver_version}", one.rule,
    ]  # fmt: skip


def age(ms: int | None) -> str:
    """A duration for people."""
    if ms is None:
        return "-"
    for size, unit in ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min")):
        if ms >= 2 * size:
            return f"{ms // size} {unit}"
    return f"{max(ms, 0) // 1000} s"


def count(number: int, noun: str) -> str:
    """``1 record``, ``2 records``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
