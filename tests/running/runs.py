"""A lake's table of runs, made without Spark."""

from __future__ import annotations

from pathlib import Path

import pyarrow
from deltalake import write_deltalake


def make(lake: Path) -> Path:
    """A lake without topics. Returns it."""
    times, texts = pyarrow.timestamp("us", "UTC"), pyarrow.string()
    columns = {"started_at": times, "ended_at": times, **dict.fromkeys(("run_id", "verb", "topic", "error", "report"), texts)}
    (lake / "_lakelog" / "runs").mkdir(parents=True)
    write_deltalake(lake / "_lakelog" / "runs", pyarrow.schema(list(columns.items())).empty_table())
    return lake
