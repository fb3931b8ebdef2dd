"""How answers look: data on stdout (a table for people, JSON or CSV for programs), talk on stderr."""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from lakelog.errors import InvalidRequest, LakelogError
from lakelog.model.config import did_you_mean

if TYPE_CHECKING:
    from lakelog.results import Appended, Loaded, Merged, Repaired, TopicDeleted, TopicDescription, Upgraded, Verified

FORMATS = ("table", "json", "csv")
# What is described fits a page where it is no terminal's.
WIDTH, WIDEST = 100, 4000
# What each column of such a table has at least.
LEAST = 10


def check_form(form: str) -> None:
    """Refuse a format that is none."""
    if form not in FORMATS:
        raise InvalidRequest(f"--format {form}: must be one of {', '.join(FORMATS)}.{did_you_mean(form, FORMATS)}")


def say(text: str) -> None:
    """One line of talk, on stderr; where that takes none, the command goes on, and ends with its own code."""
    try:
        sys.stderr.write(text + "\n")
        sys.stderr.flush()
    except OSError:
        sys.stderr = open(os.devnull, "w")


def say_error(name: str, message: object) -> None:
    """An error as the command line tells it: one line, on stderr."""
    say(f"Error ({name}): {' '.join(str(message).split())}")


def failed(error: LakelogError, *, as_json: bool) -> None:
    """What a command, or a line of a shell, failed of: one line on stderr; ``as_json``: and one JSON object on stdout."""
    say_error(error.name, error)
    if as_json:
        document(error.to_dict())


def line(text: str) -> None:
    """One line of data, on stdout.

    Raises:
        LakelogError: stdout takes no more, such as a file on a full disk (OUTPUT_NOT_WRITTEN, exit 1: what was to be written is written).
    """
    try:
        sys.stdout.write(text + "\n")
    except OSError as error:
        raise _untaken(error) from error


def flush() -> None:
    """Give stdout what was said; else as `line`."""
    try:
        sys.stdout.flush()
    except OSError as error:
        raise _untaken(error) from error


def _untaken(error: OSError) -> Exception:
    """What becomes of an answer that stdout does not take: an error with a name, where the disk under it is full."""
    if error.errno not in (errno.ENOSPC, errno.EDQUOT):
        return error
    # What is still in its buffer would be tried again at the end of the process.
    sys.stdout = open(os.devnull, "w")
    return LakelogError(
        f"The answer could not be written to standard output: {error.strerror}. What the command did until then is done.",
        name="OUTPUT_NOT_WRITTEN",
    )


def document(content: Mapping[str, Any]) -> None:
    """One JSON object, on stdout; in ASCII where stdout does not take all its signs, such as those of a file's name that is no text."""
    try:
        line(json.dumps(content, default=str, ensure_ascii=False))
    except UnicodeEncodeError:
        line(json.dumps(content, default=str))


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


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, width: int = WIDEST) -> None:
    """A table for people: as wide as the terminal; elsewhere as needed, up to ``width``."""
    from rich import box
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    listed = [list(row) for row in rows]
    seen = sys.stdout.isatty()
    page = io.TextIOWrapper(io.BytesIO(), encoding=sys.stdout.encoding or "utf-8", errors=sys.stdout.errors, newline="\n")
    console = Console(file=page, force_terminal=seen, width=None if seen else width, highlight=False)
    shown = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    left = console.width - LEAST * len(columns) if width < WIDEST else 0
    for index, name in enumerate(columns):
        # Where a width is given, the last columns are those that give way; none is cut off.
        needed = max(cell_len(cell(one)) for one in (name, *(row[index] for row in listed))) + 2 - LEAST if left > 0 else 0
        rigid = index < len(columns) - 1 and 0 < left >= needed
        left -= needed if rigid else 0
        numbers = bool(listed) and all(isinstance(row[index], (int, float, Decimal, type(None))) for row in listed)
        shown.add_column(Text(name), justify="right" if numbers else "left", overflow="fold", no_wrap=rigid)
    for row in listed:
        shown.add_row(*[Text(cell(value)) for value in row])
    console.print(shown)
    page.seek(0)
    for text in page.read().splitlines():
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


# ---- results as text ----


def appended(result: Appended) -> None:
    """One line about an append."""
    did = "had appended" if result.repeated else "appended"
    line(f"{result.topic}: {did} {count(result.records, 'record')}{spans(result.offsets)}")
    if result.quarantined:
        say(f"{count(result.quarantined, 'record')} put aside: lakelog quarantine list {result.topic}")
    for rule, failing in result.warnings.items():
        say(f"Warning: {rule} is broken by {count(failing, 'record')}")
    if result.repeated:
        say(f"The token {result.token} is known: nothing was written, this is the first answer.")
    if result.expected_offsets_checked is False:
        say("Expected offsets were not checked: check.expected.offsets is false.")


def loaded(result: Loaded) -> None:
    """One line about a bulk load."""
    found = f", {result.found} of them from an earlier start" if result.found else ""
    line(f"{result.topic}: loaded {count(result.records, 'record')} in {count(result.chunks, 'chunk')}{found}{spans(result.offsets)}")
    for rule, failing in result.warnings.items():
        say(f"Warning: {rule} is broken by {count(failing, 'record')}")


def spans(offsets: Mapping[int, tuple[int, int]]) -> str:
    """Where records stand, by partition: from the first offset to the end, which is the next one to be given."""
    told = [f"[{first}, {end}) of partition {index}" for index, (first, end) in sorted(offsets.items()) if end > first]
    return f": offsets {', '.join(told)}" if told else ""


def verified(result: Verified) -> None:
    """What a verification found, a line a problem."""
    looked = f"{count(result.records, 'record')}, {count(result.keys, 'key')}, {count(result.commits, 'commit')}"
    well = "all is well" if result.unproved is None else "the log is sound, the latest table was NOT checked"
    line(f"{result.topic}: {well if result.ok else count(len(result.problems), 'problem')} ({looked})")
    for problem in result.problems:
        line(f"  {problem}")
    for one in result.differences:
        told = "none" if one["found"] is None else one["found"]
        wanted = "none" if one["expected"] is None else one["expected"]
        line(f"    partition {one['partition']}, key {cell(one['key'])}: {one['difference']}: offset {wanted} expected, {told} found")
    if result.unproved is not None:
        say(f"{result.topic}: {result.unproved}: lakelog snapshot create {result.topic}")
    elif result.share < 1:
        say(f"{result.share:.2%} of the keys were recomputed.")
    if result.base is not None:
        say(f"The log does not hold all records: {result.base} stood for those below its end.")


def repaired(result: Repaired) -> None:
    """What a repair found and did."""
    if not result.problems:
        line(f"{result.topic}: {'nothing to repair was found' if result.done else 'all is well'}, nothing was changed")
        for sentence in result.done:
            line(f"  {sentence}")
        return None
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
    """One line about a merge, and one a record that was late after a delete; counts of zero are left out, but for inserted, updated and deleted."""
    if result.version is None:
        return line(f"{result.topic}: nothing to merge")
    always = f"{result.inserted} inserted, {result.updated} updated, {result.deleted} deleted"
    rest = ("late", "late_after_delete", "duplicates", "invalid_versions", "ignored_deletes", "unkeyed", "remaining")
    told = [f"{getattr(result, name)} {name.replace('_', ' ')}" for name in rest if getattr(result, name)]
    told += [f"snapshot {result.snapshot}"] * bool(result.snapshot)
    line(f"{result.topic}: merged {count(result.records, 'record')} into version {result.version}: " + ", ".join([always, *told]))
    for one in result.late_after_delete_examples:
        place = f"partition {one['partition']}, offset {one['offset']}, key {cell(one['key'])}"
        line(f"  late after delete: {place}: lost to the delete at offset {one['lost_to']}")
    if result.snapshot_error is not None:
        say(f"Warning: the snapshot that was due was not taken: {result.snapshot_error['message']}")
    return None


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
        told = textwrap.wrap(str(getattr(result, name)), WIDTH - 12, break_on_hyphens=False)
        line("\n".join(f"{'' if index else name:<12}{text}" for index, text in enumerate(told)))
    line("")
    settings(result.config)
    warned(result)


def settings(entries: Iterable[Mapping[str, Any]]) -> None:
    """Settings with value, origin and meaning."""
    rows = [[one["name"], cell(one["value"]), one["origin"], one["says"]] for one in entries]
    table(["setting", "value", "origin", "meaning"], rows, width=WIDTH)


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
