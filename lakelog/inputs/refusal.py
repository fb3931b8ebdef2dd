"""The refusal of a request whose records are wrong: which ones, where they are in the input, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lakelog.errors import InvalidRecords
from lakelog.inputs.sources import ORDER

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def refused(
    problems: DataFrame,
    positions: Mapping[tuple[Any, ...], tuple[int, int, int]],
    count: int,
    *,
    listed: int = 20,
    text_files: Sequence[str] = (),
    numbered: bool = False,
    offsets: bool = False,
    remedy: str = "",
) -> InvalidRecords:
    """The error that lists what is wrong: the first records by position, with the file, and the line in text files.

    Args:
        problems: the staged rows whose ``problem`` is set.
        positions: (src, block, Spark partition) to (position of its first record, its lowest ``row_order``, position of its last).
        count: how many records are wrong.
        listed: how many of them the error lists.
        text_files: the NDJSON files of the request, all of them, to number their lines.
        numbered: ``line`` is the line of the file already.
        offsets: ``line`` is the offset in the partition ``src`` of the log that the record comes from.
        remedy: a sentence, with a blank before it, that says what else there is to know.
    """
    from pyspark.sql import functions as F

    names = [row["name"] for row in problems.select(F.split("problem", "\t")[0].alias("name")).distinct().collect()]
    told = listing(problems, positions, listed=listed, text_files=text_files, numbered=numbered, offsets=offsets)
    name = next((name for name in ("INVALID_TIMESTAMP", "INVALID_RECORD", "MESSAGE_TOO_LARGE") if name in names), "INVALID_RECORD")
    first = told[0]
    more = f" (and {count - 1} more)" if count > 1 else ""
    return InvalidRecords(
        f"{place(first)}: {first['reason']}{more}. Nothing of the batch was written.{remedy}", name=name, problems=told, count=count
    )


def place(problem: Mapping[str, Any]) -> str:
    """Where a record that is wrong stands, as messages say it: file and line, partition and offset, or its number in the request."""
    where = [f"{word} {problem[word]}" for word in ("line", "row", "offset") if word in problem]
    return ", ".join([str(problem["file"]), *where]) if "file" in problem else ", ".join(where) or f"record {problem['record']}"


def listing(
    problems: DataFrame,
    positions: Mapping[tuple[Any, ...], tuple[int, int, int]],
    *,
    listed: int = 20,
    text_files: Sequence[str] = (),
    numbered: bool = False,
    offsets: bool = False,
) -> list[dict[str, Any]]:
    """The first rows whose ``problem`` is set, each with its place in the input and the reason; arguments as for `refused`."""
    rows = problems.orderBy(*ORDER).limit(listed).select(*ORDER, "line", "problem").collect()
    lines = _line_numbers(problems.sparkSession, text_files) if text_files else {}
    first_of_file: dict[str, int] = {}
    for (source, _, _), (base, _, _) in positions.items():
        first_of_file[source] = min(base, first_of_file.get(source, base))
    told: list[dict[str, Any]] = []
    for row in rows:
        group = (row["src"], row["block"], row["row_order"] >> 33)
        base, least, _ = positions[group]
        entry: dict[str, Any] = {"record": base + row["row_order"] - least, "reason": row["problem"].split("\t", 1)[1]}
        if offsets:
            entry |= {"file": row["src"], "offset": row["line"]}
        elif row["src"]:
            entry["file"] = file_shown(row["src"])
            before, least_line = lines.get(group, (0, 0))
            if numbered:
                entry["line"] = row["line"]
            elif lines:
                entry["line"] = before + row["line"] - least_line + 1
            else:
                entry["row"] = entry["record"] - first_of_file[row["src"]] + 1
        told.append(entry)
    return told


def file_shown(source: str) -> str:
    """A file of a request as people write its path."""
    from urllib.parse import unquote, urlparse

    parsed = urlparse(source)
    return unquote(parsed.path) if parsed.scheme == "file" else source


def _line_numbers(spark: SparkSession, files: Sequence[str]) -> dict[tuple[Any, ...], tuple[int, int]]:
    """(file, block, Spark partition) to (lines of the file before it, its lowest row number), blank lines included."""
    from pyspark.sql import functions as F

    rows = (
        spark.read.text(list(files))
        .select(F.col("_metadata.file_path").alias("src"), F.col("_metadata.file_block_start").alias("block"),
                F.monotonically_increasing_id().alias("line"))
        .groupBy("src", "block", F.shiftright("line", 33).alias("task")).agg(F.count(F.lit(1)).alias("n"), F.min("line").alias("least"))
        .orderBy("src", "block").collect()
    )  # fmt: skip
    found: dict[tuple[Any, ...], tuple[int, int]] = {}
    before: dict[str, int] = {}
    for row in rows:
        found[(row["src"], row["block"], row["task"])] = (before.get(row["src"], 0), row["least"])
        before[row["src"]] = before.get(row["src"], 0) + row["n"]
    return found
