"""What a path lake's tables hold, seen without lakelog: by the files of the Delta log alone."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any


def version_of(table: Path) -> int:
    """A Delta table's version: the highest numbered commit file."""
    return max((int(file.stem) for file in (table / "_delta_log").glob("*.json")), default=-1)


def versions(root: str, topic: str) -> dict[str, int]:
    """Version by table of a topic: what must not move when an operation is refused."""
    return {folder.name: version_of(folder) for folder in sorted(Path(root, topic).iterdir()) if (folder / "_delta_log").is_dir()}


def commits(table: Path) -> list[dict[str, Any]]:
    """What DESCRIBE HISTORY tells of a Delta table's commits, oldest first, from its commit files: ``userMetadata``, ``isBlindAppend``, …"""
    found = []
    for file in sorted((table / "_delta_log").glob("*.json")):
        lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        found += [line["commitInfo"] for line in lines if "commitInfo" in line]
    return found


def append_notes(bronze: Path) -> list[dict[str, Any]]:
    """The notes of all appends of a topic, none of which was blind: Delta would let such a one in beside any other."""
    noted = [(json.loads(commit["userMetadata"]), commit) for commit in commits(bronze) if "userMetadata" in commit]
    appends = [(note, commit["isBlindAppend"]) for note, commit in noted if note.get("lakelog") == "append"]
    assert [note for note, blind in appends if blind is not False] == [], f"{bronze}: blind appends"
    return [note for note, _ in appends]


def with_times_of_96_bits(root: Path) -> list[Path]:
    """The Parquet files below a folder, those of Delta logs aside, that hold times as Spark writes them by default."""
    import pyarrow.parquet

    def kinds(file: Path) -> set[str]:
        schema = pyarrow.parquet.read_metadata(file).schema
        return {schema.column(place).physical_type for place in range(len(schema))}

    return [file for file in sorted(root.rglob("*.parquet")) if "_delta_log" not in file.parts and "INT96" in kinds(file)]


def unpacked(archive: Path, folder: Path) -> None:
    """Unpack an archive of the tests' own into a folder; what Python 3.10 and 3.11 got with a later release is used where it is there."""
    with tarfile.open(archive) as files:
        if hasattr(tarfile, "data_filter"):
            files.extractall(folder, filter="data")
        else:
            files.extractall(folder)


def write(path: Path, *lines: str) -> str:
    """A file of these lines; gives its path as text."""
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return str(path)
