"""CSV as RFC 4180 has it: quoted fields with delimiters, line breaks and doubled quotes; an empty field is NULL, a quoted empty one is text.

Python's csv module reads, strictly: a quote that is not closed, or text after a closing one, is refused, not guessed at.
"""

from __future__ import annotations

import codecs
import contextlib
import csv
import functools
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from lakelog.errors import InvalidRequest
from lakelog.formats.files import read_by
from lakelog.model.names import shown

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame, SparkSession

DELIMITERS = (",", ";", "\t", "|")
# What every encoding of text can write and read.
SAMPLE = 'key,"value"\n'
QUOTED = re.compile('"(?:[^"]|"")*"')
# A batch of records ends at so many characters, or records.
CHARACTERS, RECORDS = 1 << 22, 20_000


@dataclass(frozen=True)
class CsvOptions:
    """How a CSV file is written: its delimiter, its encoding, and the unquoted text that means NULL (None: the empty one, where that is safe)."""

    delimiter: str = ","
    encoding: str = "utf-8"
    null: str | None = None

    def check(self) -> None:
        """Refuse what no file is written in.

        Raises:
            InvalidRequest: naming the option.
        """
        if not isinstance(self.delimiter, str) or len(self.delimiter) != 1 or self.delimiter in '"\r\n':
            raise InvalidRequest(
                f"delimiter={self.delimiter!r}: it is one character, for example ';', and neither a quote nor a line break."
            )
        if not isinstance(self.null, (str, type(None))):
            raise InvalidRequest(f"null is the text that means NULL; {self.null!r} is none.")
        try:
            # As files are read; codecs that do not make text of octets, or not piece by piece, fail here.
            written = SAMPLE.encode(self.encoding)
            read = codecs.getincrementaldecoder(self.codec)("surrogateescape").decode(written, True)
        except (LookupError, TypeError, ValueError):
            read = None
        if read != SAMPLE:
            raise InvalidRequest(
                f"encoding={self.encoding!r}: there is no such encoding of text. Name one, for example utf-8, cp1252 or utf-16."
            )

    @property
    def codec(self) -> str:
        """The encoding; of UTF-8, with or without a mark at the beginning."""
        name = codecs.lookup(self.encoding).name
        return "utf-8-sig" if name == "utf-8" else name

    @property
    def octets(self) -> str:
        """The encoding that makes a line's octets of its text; of UTF-8 without a mark."""
        return self.codec.removesuffix("-sig")

    @property
    def errors(self) -> str:
        """How octets that are no text are read: as lone surrogates, which no text has; not at all where a character has several octets at least."""
        try:
            return "surrogateescape" if "\udc80".encode(self.octets, "surrogateescape") == b"\x80" else "strict"
        except ValueError:
            return "strict"


def frame(spark: SparkSession, paths: Sequence[str], options: CsvOptions) -> tuple[DataFrame, list[str]]:
    """CSV files as a frame of text: ``src``, ``line`` (where the record begins), ``problem`` (what makes it unreadable), ``rest`` (whether that
    concerns the rest of the file, which is not read), ``raw`` (the lines of a record that cannot be read alone), ``c0``, ``c1``, ….

    Returns:
        (the frame, the names in the first line, which every file must have).

    Raises:
        InvalidRequest: options, encoding or first line are wrong.

    Cost: two small Spark jobs here; the files are read when the frame is evaluated, each by one task.
    """
    options.check()
    names, of = header(spark, paths, options)
    columns = ", ".join(f"c{index} STRING" for index in range(len(names)))
    # Plain values: what travels to Spark's tasks must not need this package there.
    said = {name: getattr(options, name) for name in ("delimiter", "encoding", "codec", "octets", "errors")}
    read = functools.partial(batches, names=names, of=of, options=SimpleNamespace(**said, null=options.null or ""))
    return read_by(spark, paths, read, f"src STRING, line BIGINT, problem STRING, rest BOOLEAN, raw STRING, {columns}"), names


def header(spark: SparkSession, paths: Sequence[str], options: CsvOptions) -> tuple[list[str], str]:
    """The column names in the first line of a file, and which file.

    Raises:
        InvalidRequest: there is none, it cannot be read, a name repeats, or the delimiter is another.
    """
    from pyspark.sql import functions as F

    lines = spark.read.option("lineSep", "\n").text(list(paths)).filter(F.col("_metadata.file_block_start") == 0)
    lines = lines.select(
        F.col("value").cast("binary").alias("line"), F.col("_metadata.file_path").alias("src"), F.btrim("value", F.lit(" \r")).alias("t")
    )
    # Without the text: Spark Connect sends none that is not UTF-8.
    first = lines.filter(F.length("t") > 0).select("line", "src").limit(1).collect()
    if not first:
        raise InvalidRequest(f"{paths[0]}: a CSV file begins with a line of column names.")
    src = shown(str(first[0]["src"]))
    try:
        text = codecs.getincrementaldecoder(options.codec)().decode(bytes(first[0]["line"])).rstrip("\r\n")
        names = next(csv.reader([text], delimiter=options.delimiter, strict=True))
    except UnicodeDecodeError as error:
        raise InvalidRequest(
            f"{src}, line 1: is not {options.encoding} text. Name the encoding (encoding='cp1252', for example)."
        ) from error
    except csv.Error as error:
        raise InvalidRequest(f"{src}, line 1: the column names cannot be read: {error}.{_other_delimiter(text, options)}") from error
    hint = _other_delimiter(text, options)
    if len(names) == 1 and hint:
        raise InvalidRequest(f"{src}: its first line has no {options.delimiter!r}.{hint}")
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated or "" in names:
        nameless = "column {} has no name.".format(names.index("") + 1 if "" in names else 0)
        if names[0] == "":
            nameless += " pandas writes its index so: write the file with to_csv(…, index=False), or name the index."
        raise InvalidRequest(f"{src}, line 1: " + (f"the column {repeated[0]!r} is named twice." if repeated and repeated[0] else nameless))
    return names, src


def _other_delimiter(text: str, options: CsvOptions) -> str:
    """A sentence where the first line looks like columns with another delimiter than the one named."""
    found: list[tuple[int, str]] = []
    for other in DELIMITERS:
        with contextlib.suppress(csv.Error):
            found.append((len(next(csv.reader([text], delimiter=other, strict=True))), other))
    columns, delimiter = max(found, default=(1, ""))
    if columns == 1 or delimiter == options.delimiter:
        return ""
    return f" It looks like one of {columns} columns with another delimiter. Name it: delimiter={delimiter!r}."


# ---- within Spark's tasks ----


def batches(src: str, data: Any, *, names: list[str], of: str, options: SimpleNamespace) -> Iterator[pyarrow.RecordBatch]:
    """The records of a file; one that cannot be read has a problem in place of its fields.

    Behind a problem of the ``rest`` of the file nothing is read: where the next record begins, or what its fields are, is not certain.
    """
    rows: list[tuple[Any, ...]] = []
    size, first = 0, True
    nothing = [None] * len(names)
    for line, fields, raw, problem in records(data, options):
        rest = problem is not None
        if first and not rest:
            first = False
            if fields == names:
                continue
            rest, problem = True, f"names the columns {', '.join(fields)[:200]}, but {of} names {', '.join(names)[:200]}: append it alone"
        elif problem is None and len(fields) != len(names):
            problem = f"does not have as many fields as the first line names: {len(fields)} instead of {len(names)}"
        lines = "" if rest else "".join(raw)
        rows.append((src, line, problem, rest, lines, *(nothing if problem else with_nulls(fields, raw, options))))
        if rest:
            break
        size += len(lines)
        if size >= CHARACTERS or len(rows) >= RECORDS:
            yield batch(rows, options)
            rows, size = [], 0
    if rows:
        yield batch(rows, options)


def records(data: Any, options: SimpleNamespace) -> Iterator[tuple[int, list[str], list[str], str | None]]:
    """(line where the record begins, its fields, its raw lines, what makes it unreadable); after an unreadable one there is no other."""
    csv.field_size_limit(2**31 - 1)
    lines = io.TextIOWrapper(data, encoding=options.codec, errors=options.errors, newline="\n")
    raw: list[str] = []

    def fed() -> Iterator[str]:
        for one in lines:
            raw.append(one)
            yield one

    reader, before = csv.reader(fed(), delimiter=options.delimiter, strict=True), 0
    while True:
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            reason = str(error).partition(" - ")[0]
            says = f"is not CSV: {reason}; quotes within a field are doubled, line breaks are quoted"
            says = "a quoted field is not closed" if "unexpected end" in reason else says
            yield before + 1, [], raw, says
            return
        except UnicodeDecodeError:
            yield (
                before + 1,
                [],
                raw,
                f"is not {options.encoding} text, here or shortly after: name the encoding (encoding='cp1252', for example)",
            )
            return
        except (OSError, EOFError, ValueError) as error:
            yield before + 1, [], raw, f"cannot be read, here or shortly after: the file is broken, or not what its name says ({error})"
            return
        if fields:
            yield before + 1, fields, raw, None
        before = reader.line_num
        raw.clear()


def with_nulls(fields: list[str], raw: list[str], options: SimpleNamespace) -> Sequence[str | None]:
    """The fields, those that mean NULL as None: no quoted one does."""
    if options.null not in fields:
        return fields
    text, at = "".join(raw), 0
    if '"' not in text:
        return [None if field == options.null else field for field in fields]
    found: list[str | None] = []
    for field in fields:
        quoted = QUOTED.match(text, at)
        found.append(None if field == options.null and not quoted else field)
        at = text.find(options.delimiter, quoted.end() if quoted else at) + 1
    return found


def batch(rows: list[tuple[Any, ...]], options: SimpleNamespace) -> pyarrow.RecordBatch:
    """Rows as Arrow; those whose text, or the problem that quotes it, is not of the encoding get that for a problem in place of their fields."""
    import pyarrow

    kinds = {1: pyarrow.int64(), 3: pyarrow.bool_()}

    def made() -> pyarrow.RecordBatch:
        columns = list(zip(*rows))  # noqa: B905
        # Of a record that can be read its fields say all.
        columns[4] = tuple(None if problem is None else as_read(raw, options) for problem, raw in zip(columns[2], columns[4]))  # noqa: B905
        arrays = [pyarrow.array(column, kinds.get(index, pyarrow.string())) for index, column in enumerate(columns)]
        names = ["src", "line", "problem", "rest", "raw", *[f"c{index}" for index in range(len(arrays) - 5)]]
        return pyarrow.RecordBatch.from_arrays(arrays, names)

    try:
        return made()
    except UnicodeEncodeError:
        says = f"is not {options.encoding} text: name the encoding (encoding='cp1252', for example)"
        for index, (src, line, problem, rest, raw, *fields) in enumerate(rows):
            if any(holds_octets(text) for text in (problem, *fields) if text):
                rows[index] = (src, line, says, rest, raw, *[None] * len(fields))
        return made()


def as_read(raw: str, options: SimpleNamespace) -> str | None:
    """A record's lines without the end of the last; where they are no text, their octets: ``{"hex": "…"}``."""
    lines = raw.removesuffix("\n").removesuffix("\r")
    if not holds_octets(lines):
        return lines or None
    return f'{{"hex": "{lines.encode(options.octets, "surrogateescape").hex()}"}}'


def holds_octets(text: str) -> bool:
    """Whether there are octets in a text that are none in its encoding: read as lone surrogates."""
    return not text.isascii() and any("\udc80" <= sign <= "\udcff" for sign in text)
