"""What becomes of an answer where stdout takes none of it, or not all signs; and of standard input that is not UTF-8."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from pathlib import Path

import pyarrow
import pytest
from deltalake import write_deltalake

from lakelog.delta.table_properties import FORMAT, FORMAT_VERSION
from tests.races.processes import REPOSITORY

MANY = ["sql", "--engine", "duckdb", "FROM range(100000)", "--format"]


def empty(lake: Path) -> None:
    """A lake without topics, made without Spark."""
    write_deltalake(lake / "_lakelog" / "runs", pyarrow.table({"run_id": ["none"]}))
    commit = lake / "_lakelog" / "runs" / "_delta_log" / f"{0:020}.json"
    commit.write_text(commit.read_text().replace('"configuration":{}', f'"configuration":{{"{FORMAT}":"{FORMAT_VERSION}"}}'))


def answered(lake: Path, *arguments: str, given: bytes = b"", closed: bool = False, **environment: str) -> tuple[int, str, str]:
    """Code, stdout and stderr of the command line as a process, ``given`` its standard input; ``closed``: nobody reads stdout."""
    empty(lake)
    ours, theirs = os.pipe()
    if closed:
        os.close(ours)
    process = subprocess.Popen(
        [sys.executable, "-m", "lakelog.cli.main", "--root", str(lake), *arguments],
        stdin=subprocess.PIPE, stdout=theirs, stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(REPOSITORY), **environment},
    )  # fmt: skip
    os.close(theirs)
    said = process.communicate(given)[1].decode()
    out = "" if closed else os.fdopen(ours).read()
    return process.returncode, out, said


@pytest.mark.parametrize("buffered", [True, False])
@pytest.mark.parametrize("command", [["--help"], [*MANY, "json"], [*MANY, "table", "--limit", "5000"]])
def test_nothing_is_wrong_where_nobody_reads_on(command: list[str], buffered: bool, tmp_path: Path) -> None:
    """``lakelog read orders | head -1``, whether the pipe is closed while a command prints or before its end."""
    assert answered(tmp_path / "lake", *command, closed=True, PYTHONUNBUFFERED="" if buffered else "1") == (0, "", "")


@pytest.mark.parametrize("buffered", [True, False])
def test_an_error_is_told_where_nobody_reads_the_answer(buffered: bool, tmp_path: Path) -> None:
    code, _, err = answered(tmp_path / "lake", "--json", "latest", "nope", closed=True, PYTHONUNBUFFERED="" if buffered else "1")
    assert (code, err.count("\n")) == (5, 1), err
    assert err.startswith("Error (UNKNOWN_TOPIC)")


@pytest.mark.parametrize("encoding", ["utf-8:strict", "ascii:strict"])
def test_an_error_is_told_in_any_encoding(encoding: str, tmp_path: Path) -> None:
    """A file's name that is no UTF-8 is in the message."""
    code, out, err = answered(tmp_path / "lake", "--json", "append", "t", os.fsdecode(b"\xff\xc3\xa9.csv"), PYTHONIOENCODING=encoding)
    assert (code, err.count("\n")) == (5, 1), err
    assert os.fsdecode(b"\xff\xc3\xa9") in json.loads(out)["message"]


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("command", ["topic list", "latest nope", "shell"])
def test_nothing_is_wrong_where_a_standard_stream_is_closed(closed: str, command: str, tmp_path: Path) -> None:
    empty(tmp_path / "lake")
    line = f"{sys.executable} -m lakelog.cli.main --root {tmp_path}/lake {command} {closed}"
    done = subprocess.run(line, shell=True, env={**os.environ, "PYTHONPATH": str(REPOSITORY)}, capture_output=True, text=True, check=False)
    assert (done.returncode, "Traceback" in done.stderr) == (5 if command == "latest nope" else 0, False), done.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs the device /dev/full")
@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_full_disk_under_stdout_is_told(options: list[str], tmp_path: Path) -> None:
    empty(tmp_path / "lake")
    command = [sys.executable, "-m", "lakelog.cli.main", "--root", str(tmp_path / "lake"), *options, "lake", "describe"]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(REPOSITORY)}, check=False)
    assert (done.returncode, done.stderr.decode()) == (
        1, "Error (OUTPUT_NOT_WRITTEN): The answer could not be written to standard output: No space left on device. What the command did until"
        " then is done.\n",
    )  # fmt: skip


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs the device /dev/full")
@pytest.mark.parametrize(
    ("command", "code"), [(["latest", "nope"], 5), (["--root", "/nowhere/lake", "topic", "list"], 5), ([*MANY, "table"], 0)]
)
def test_a_full_disk_under_stderr_changes_no_code(command: list[str], code: int, tmp_path: Path) -> None:
    empty(tmp_path / "lake")
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "lakelog.cli.main", "--root", str(tmp_path / "lake"), *command],
            stdout=subprocess.PIPE, stderr=full, env={**os.environ, "PYTHONPATH": str(REPOSITORY)}, check=False,
        )  # fmt: skip
    assert done.returncode == code


def test_standard_input_that_is_not_utf_8_is_refused_with_its_line(tmp_path: Path) -> None:
    def strict(*arguments: str, given: bytes) -> tuple[int, str, str]:
        """As where the locale is not C.UTF-8."""
        return answered(tmp_path / secrets.token_hex(4), *arguments, given=given, PYTHONIOENCODING="utf-8:strict")

    code, out, err = strict("shell", "--engine", "duckdb", given=b"-- caf\xe9\nhelp\n\nSELECT 'caf\xe9';\nhelp\n")
    assert (code, out.count("A verb of the command line")) == (2, 1), err
    assert "Error (NOT_A_QUERY): A text that is not UTF-8 (\"SELECT 'caf\", then '\\udce9')" in err
    assert err.endswith("The script ended at line 4: SELECT 'caf\\udce9';\n")
    for command in (["sql", "-", "--json"], ["sql", "-", "--json", "--engine", "duckdb"]):
        code, out, err = strict(*command, given=b"SELECT 'caf\xe9'")
        assert (code, json.loads(out)["error"]) == (2, "NOT_A_QUERY"), err
    for line in (b"latest caf\xe9", b"caf\xe9"):
        code, out, err = strict("--json", "shell", given=line)
        assert (code in (2, 5), json.loads(out)["error"] != "UNEXPECTED", err.count("line 1: ")) == (True, True, 1), err
