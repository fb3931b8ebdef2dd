"""The files of an append as the command line names them, standard input among them."""

from __future__ import annotations

import contextlib
import glob
import io
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, TextIO

from lakelog.errors import GateFailed, InvalidConfig, InvalidRecords, InvalidRequest, LakelogError, NotFound
from lakelog.inputs.identity import matched
from lakelog.inputs.refusal import place
from lakelog.inputs.sources import file_format
from lakelog.terminal.words import spoken

STDIN = "standard input"
# How many bad records an error lists.
LISTED = 20


def require_files(files: Sequence[str], form: str | None) -> None:
    """Refuse files that are not there, or whose format is not told. Needs no Spark.

    Raises:
        InvalidRequest: the format; or standard input beside files.
        NotFound: the files that are not there.
    """
    if "-" in files:
        if len(files) > 1:
            raise InvalidRequest("- (standard input) cannot be combined with files: append the files with a command of their own.")
        file_format([], form or "ndjson")
        return
    missing = [path for path in files if not _is_uri(path) and not os.path.exists(path) and not glob.glob(path)]
    if missing:
        there = "there is no such file" if len(missing) == 1 else f"there are no such files: {', '.join(missing[1:])} neither"
        raise NotFound(f"{missing[0]}: {there}. Nothing was written.", files=missing)
    file_format(files, form)


@contextlib.contextmanager
def as_files(files: Sequence[str], form: str | None) -> Iterator[list[str]]:
    """The files as Spark finds them, whatever its own folder is, for a pattern those that fit; standard input goes through a temporary file."""
    if "-" not in files:
        yield [path if _is_uri(path) else os.path.abspath(path) for named in files for path in matched(named)]
        return
    with tempfile.TemporaryDirectory(prefix="lakelog-") as folder:
        file = Path(folder, f"stdin.{form or 'ndjson'}")
        with file.open("wb") as copy:
            while block := sys.stdin.buffer.read(1 << 20):
                copy.write(block)
        try:
            yield [str(file)]
        except LakelogError as error:
            error.args = (_named(str(error), str(file)),)
            error.details = _named(dict(error.details), str(file))
            if isinstance(error, InvalidRecords):
                error.problems = list(error.details["problems"])
            raise


def standard_input() -> TextIO:
    """Standard input as text, before anything of it was read.

    Octets that are not UTF-8 do not end it: they stand in it as in the arguments of a command line (surrogates), and what cannot take them
    refuses them.
    """
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="surrogateescape")
    return sys.stdin


@contextlib.contextmanager
def problems_to(file: Path | None) -> Iterator[int]:
    """Where records are refused, write all of them to a file, a line each; gives how many an error is to list.

    Raises:
        InvalidRequest: the file cannot be written.
    """
    if file is None:
        try:
            yield LISTED
        except InvalidRecords as error:
            if error.count > 1:
                error.args = (f"{error} --problems FILE lists them all.",)
            raise
        return
    try:
        file.write_text("", encoding="utf-8")
    except OSError as error:
        raise InvalidRequest(f"--problems {file}: {error.strerror}. Name a file that can be written.") from error
    try:
        yield 2**31 - 1
    except (InvalidRecords, GateFailed) as error:
        problems = list(error.details.get("problems", ()))
        with file.open("w", encoding="utf-8") as written:
            written.writelines(f"{place(problem)}: {spoken(problem['reason'], None)}\n" for problem in problems)
        few = {"records": [problem["record"] for problem in problems[:LISTED]], "problems": problems[:LISTED]}
        error.details = {**error.details, **few}
        error.args = (f"{error} All of them are listed in {file}.",)
        raise


def settings_of(texts: Sequence[str] | None, option: str = "--config") -> dict[str, str | None]:
    """Settings as an option gives them, NAME=VALUE each.

    Raises:
        InvalidConfig: there is no ``=``.
    """
    pairs: dict[str, str | None] = {}
    for text in texts or []:
        name, equals, value = text.partition("=")
        if not equals:
            hint = " (A lakelog.toml is named before the command: lakelog --config FILE …)" if option == "--config" else ""
            raise InvalidConfig(f"{option} {text}: write NAME=VALUE.{hint}")
        pairs[name.strip()] = value
    return pairs


def key_of(text: str | None, topic: Any) -> Any:
    """A key as people write it: text as it is, octets as text or ``{"hex": …}``, other types as JSON; of a key of one field that field's value.

    Raises:
        InvalidRequest: it is no JSON.
    """
    if text is None:
        return None
    kind = topic.types.key
    fields = getattr(kind, "fields", [])
    inner = fields[0].dataType if len(fields) == 1 and not text.lstrip().startswith("{") else kind
    name = inner.simpleString()
    try:
        value = text if name == "string" or (name == "binary" and not text.startswith('{"hex"')) else json.loads(text, parse_float=Decimal)
    except ValueError as error:
        raise InvalidRequest(f"key {text}: a key of {topic.name} is {kind.simpleString()}: write it as JSON.") from error
    return value if inner is kind else {fields[0].name: value}


def _is_uri(path: str) -> bool:
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]+:", path) is not None


def _named(told: Any, file: str) -> Any:
    """What is told of the temporary file, told of standard input."""
    if isinstance(told, str):
        return told.replace(f"file://{file}", STDIN).replace(file, STDIN)
    if isinstance(told, dict):
        return {name: _named(value, file) for name, value in told.items()}
    if isinstance(told, list):
        return [_named(value, file) for value in told]
    return told
