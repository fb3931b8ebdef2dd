"""``lakelog demo``: the whole path on real data, the change history of a public git repository (requests), one step after the other.

A record is one change of one file: the key is the path, the value names the commit and the content, a tombstone is a deletion. The
records lie in the order in which changes entered the repository; ``timestamp`` is when the author wrote them, which is sometimes earlier
than a change that was already in. Every step is a command of the CLI, run as shown.
"""

from __future__ import annotations

import contextlib
import gzip
import os
import shlex
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator, Sequence
from importlib import resources
from pathlib import Path

from lakelog.errors import InvalidRequest, LakelogError
from lakelog.terminal import output
from lakelog.terminal.settings import FILE

# Record 979 changes requests/sessions.py; it was written two days before record 964, which changed the same file and is in already.
LATE = 979
PARTS = {"2011.ndjson": slice(0, LATE), "late.ndjson": slice(LATE, LATE + 1), "2012-2026.ndjson": slice(LATE + 1, None)}
VALUE = "commit STRING, blob STRING, mode STRING"
ONE_FILE = "SELECT key, left(commit, 8) AS commit, _timestamp, _offset FROM files WHERE key = 'requests/sessions.py'"
FOLDERS = "SELECT split(key, '/')[0] AS name, count(*) AS files FROM files GROUP BY 1 ORDER BY files DESC, name LIMIT 5"
GONE = "SELECT key, left(commit, 8) AS deleted_by, _timestamp FROM files_deleted ORDER BY _timestamp DESC LIMIT 3"
HOW_MANY = "SELECT count(*) AS files FROM files"

# A Java process that lives a minute spends most of it compiling itself; this keeps it from doing so thoroughly.
SHORT_LIVED = "-XX:TieredStopAtLevel=1"

STEPS: Sequence[tuple[str, Sequence[Sequence[str]]]] = (
    (
        "A topic is a log and a table of the latest record per key. Here the key is a file's path, and the latest is the one with the"
        " largest timestamp, whatever the order of arrival.",
        [["topic", "create", "files", "--key", "STRING", "--value", VALUE, "--config", "compaction.strategy=timestamp"]],
    ),
    (
        "Append the first year of the history to the log, and fold the log into the table.",
        [["append", "files", "2011.ndjson"], ["merge", "files"]],
    ),
    ("Ask with SQL: where are the files?", [["sql", FOLDERS]]),
    (
        "Out of order: a change of requests/sessions.py that was written before the one in the table, but arrives after it. It is"
        " appended like any record; the merge sees that it is late, counts it, and the table stays as it is.",
        [["sql", ONE_FILE], ["append", "files", "late.ndjson"], ["merge", "files"], ["sql", ONE_FILE]],
    ),
    ("The rest of the history, fourteen years of it.", [["append", "files", "2012-2026.ndjson"], ["merge", "files"]]),
    (
        "Tombstones: a deleted file is gone from `files`; `files_deleted` remembers it, with what the tombstone says.",
        [["sql", HOW_MANY], ["sql", GONE]],
    ),
    ("Time travel: every merge made a version, and each can be asked.", [["sql", HOW_MANY, "--at", "1"]]),
    ("Where things stand.", [["status", "files"]]),
)
# Each answers without Spark.
NEXT: Sequence[Sequence[str]] = (
    ["sql", "--engine", "duckdb", "SELECT key, count(*) AS changes FROM files_log GROUP BY key ORDER BY changes DESC LIMIT 5"],
    ["read", "files", "--offset", "978", "--limit", "3"],
    ["latest", "files", "--at", "1", "--limit", "5"],
    ["topic", "describe", "files"],
)


def run(main: Callable[[Sequence[str]], int], *, folder: Path | None = None) -> None:
    """Run the demo.

    Args:
        main: the CLI's entry: arguments to exit code.
        folder: where to work, new or empty; None makes a temporary folder, which stays.

    Raises:
        InvalidRequest: the folder is not empty.
        LakelogError: a step failed; it has said why.
    """
    where = Path(folder or tempfile.mkdtemp(prefix="lakelog-demo-")).absolute()
    where.mkdir(parents=True, exist_ok=True)
    if any(where.iterdir()):
        raise InvalidRequest(f"{where} is not empty: the demo wants a folder of its own.")
    total = unpack(where)
    tell(
        f"{total:,} changes of the files of a public git repository (requests, 2011 to 2026), one record each, lie in {where} as NDJSON."
        f" A {FILE} beside them says where the lake is. Starting Spark…"
    )
    output.line(f"\n$ cd {shlex.quote(str(where))}")
    with inside(where):
        for number, (words, commands) in enumerate(STEPS, start=1):
            output.line("")
            tell(f"{number}. {words}")
            for command in commands:
                output.line(f"\n$ {typed('lakelog', command)}")
                if code := main(command):
                    raise LakelogError(f"The demo stopped: `{typed('lakelog', command)}` ended with exit code {code}.", name="DEMO")
    output.line("")
    tell(f"The lake lies in {where / 'lake'}, as plain Delta tables, and stays there: remove {where} when you are done. What next:")
    output.line(f"\n  cd {shlex.quote(str(where))}")
    for command in NEXT:
        output.line("  " + typed(program(), command))


def unpack(folder: Path) -> int:
    """Write the bundled records as NDJSON files, and the lakelog.toml; return how many records there are."""
    packed = resources.files("lakelog").joinpath("data/records.ndjson.gz").read_bytes()
    lines = gzip.decompress(packed).decode("utf-8").splitlines(keepends=True)
    for name, part in PARTS.items():
        (folder / name).write_text("".join(lines[part]), encoding="utf-8")
    (folder / FILE).write_text('root = "./lake"\n', encoding="utf-8")
    return len(lines)


def tell(text: str) -> None:
    """Explain, in lines that fit a terminal."""
    output.line(textwrap.fill(text, 100))


def typed(name: str, command: Sequence[str]) -> str:
    """A command as one would type it: in double quotes what holds single ones."""
    return " ".join(f'"{word}"' if "'" in word and not set(word) & set('"$`\\!') else shlex.quote(word) for word in [name, *command])


def program() -> str:
    """How the CLI was called, so that the commands shown work from any folder."""
    called = Path(sys.argv[0])
    return str(called.absolute()) if called.name == "lakelog" and called.exists() else "lakelog"


@contextlib.contextmanager
def inside(folder: Path) -> Iterator[None]:
    """Work in a folder, with its own lakelog.toml and nothing else saying where the lake is, on a Java that compiles little."""
    before = Path.cwd()
    kept = {name: os.environ.pop(name) for name in ("LAKELOG_ROOT", "LAKELOG_CONFIG", "JDK_JAVA_OPTIONS") if name in os.environ}
    os.environ["JDK_JAVA_OPTIONS"] = f"{kept.get('JDK_JAVA_OPTIONS', '')} {SHORT_LIVED}".strip()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
        del os.environ["JDK_JAVA_OPTIONS"]
        os.environ.update(kept)
