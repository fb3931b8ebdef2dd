"""Folders of suites, as tests write them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def rows(name: str, expression: str, severity: str = "critical", **more: Any) -> dict[str, Any]:
    """A rule about single rows."""
    return {
        "type": "expect_rows_to_satisfy", "kwargs": {"name": name, "expression": expression, **more}, "severity": severity, "description": name,
    }  # fmt: skip


def figure(name: str, of: str, **bounds: float) -> dict[str, Any]:
    """A rule about a figure."""
    return {"type": "expect_figure_to_be_between", "kwargs": {"name": name, "figure": of, **bounds}, "description": name}


def stock(kind: str, severity: str = "critical", **kwargs: Any) -> dict[str, Any]:
    """One of Great Expectations' own."""
    return {"type": kind, "kwargs": kwargs, "severity": severity, "description": kind}


def write(folder: Path, topic: str, **doors: list[dict[str, Any]]) -> str:
    """Write suites of a topic; gives the folder."""
    (folder / topic).mkdir(parents=True, exist_ok=True)
    for door, expectations in doors.items():
        (folder / topic / f"{door}.json").write_text(
            json.dumps({"name": f"{topic}.{door}", "expectations": expectations}), encoding="utf-8"
        )
    return str(folder)
