"""kill -9 at four moments of an append, then the same call again: the log holds each record exactly once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lakelog import Lake
from tests.races.processes import kill, kill_when, start

pytestmark = pytest.mark.long
MOMENTS = ("before the data files", "after the data files", "at the commit", "after the commit, before the answer")


def killed(plan: dict[str, Any], moment: str, bronze: Path) -> bool:
    """Run a plan and kill it at the moment; whether it was (a fast machine may end first)."""
    failpoint = {MOMENTS[0]: "append.before_write", MOMENTS[3]: "append.after_commit"}.get(moment, "")
    data = set(bronze.glob("partition=0/**/*.parquet"))
    commits = set((bronze / "_delta_log").glob("*.json"))
    writer = start({**plan, "wait": False}, failpoint=failpoint)
    if failpoint:
        writer.wait(timeout=300)
        return writer.returncode == -9
    if moment == MOMENTS[1]:
        return kill_when(writer, lambda: set(bronze.glob("partition=0/**/*.parquet")) > data)
    return kill_when(writer, lambda: set((bronze / "_delta_log").glob("*.json")) > commits)


def again(plan: dict[str, Any]) -> list[dict[str, Any]]:
    """The same call, to its end."""
    writer = start({**plan, "wait": False})
    out, err = writer.communicate(timeout=600)
    kill(writer)
    lines = [json.loads(line) for line in out.splitlines()]
    assert lines and "end" in lines[-1], err[-2000:]
    return lines


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("mode", ["expected", "token", "bulk", "plain"])
def test_an_append_killed_and_repeated_is_in_the_log_exactly_once(lake: Lake, tmp_path: Path, moment: str, mode: str) -> None:
    topic = lake.create_topic("t", key="STRING", value="STRING")
    topic.append([{"key": "first", "value": "x"}])
    before = topic.ends()[0]
    plan = {"root": lake.root, "topic": "t", "name": "w", "mode": mode, "count": 1, "token": "t", "expected": before}
    if mode == "bulk":
        file = tmp_path / "long.ndjson"
        file.write_text("".join(json.dumps({"key": f"w-0-{index}", "value": "x"}) + "\n" for index in range(9)))
        plan |= {"file": str(file), "identity": "long", "chunk": 3}
    was_killed = killed(plan, moment, Path(lake.root, "t", "bronze"))
    assert was_killed or mode == "bulk"
    topic = lake.topic("t")
    written = topic.ends()[0] > before
    if mode == "plain":
        # A plain append makes no promise for its repeat: the writer looks at the log's end, and repeats what is not there.
        assert topic.ends()[0] in (before, before + 3)
        lines = [] if written else again(plan)
    else:
        lines = again(plan)
    if mode == "expected" and written:
        assert [line["error"] for line in lines if "error" in line] == ["EXPECTED_OFFSET_MISMATCH"]
        assert f"from offset {before} on" in next(line["message"] for line in lines if "error" in line)
    keys = [row["key"] for row in topic.read().select("key").collect()]
    assert keys == ["first", *[f"w-0-{index}" for index in range(9 if mode == "bulk" else 3)]]
    assert topic.verify().problems == []
