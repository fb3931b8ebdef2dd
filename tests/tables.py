"""What a path lake's tables hold, seen without lakelog: by the files of the Delta log alone."""

from __future__ import annotations

from pathlib import Path


def version_of(table: Path) -> int:
    """A Delta table's version: the highest numbered commit file."""
    return max((int(file.stem) for file in (table / "_delta_log").glob("*.json")), default=-1)


def versions(root: str, topic: str) -> dict[str, int]:
    """Version by table of a topic: what must not move when an operation is refused."""
    return {folder.name: version_of(folder) for folder in sorted(Path(root, topic).iterdir()) if (folder / "_delta_log").is_dir()}


def write(path: Path, *lines: str) -> str:
    """A file of these lines; gives its path as text."""
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return str(path)
