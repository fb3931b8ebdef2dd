"""A snapshot at each point of a real history: each is git's tree, a restore and the rest again end in the same tree, and so does a replay."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.latest.test_git_history import TYPES, _history, _trees

if TYPE_CHECKING:
    from lakelog import Lake


@pytest.mark.parametrize("repository", [pytest.param("kafka", marks=pytest.mark.long), pytest.param("requests", marks=pytest.mark.soak)])
def test_a_snapshot_at_each_point_of_a_history_is_gits_tree(repository: str, lake: Lake, tmp_path: Path) -> None:
    history = _history(repository)
    topic = lake.create_topic("history", **TYPES)

    def append(low: int, high: int) -> None:
        path = tmp_path / "part.ndjson"
        path.write_text("".join(json.dumps(record) + "\n" for record in history.records[low:high]), encoding="utf-8")
        topic.append(str(path))

    before = 0
    for number, (count, _) in enumerate(history.points):
        append(before, count)
        taken = topic.snapshot(f"point-{number}", keep="90 days")
        assert (taken.ends, taken.created) == ({0: count}, True)
        before = count
    trees = [tree for _, tree in history.points]
    for number, tree in enumerate(trees):
        rows = topic.latest(f"point-{number}").select("key", "blob").collect()
        assert {row["key"]: row["blob"] for row in rows} == tree

    first, last = trees[1], trees[-1]
    shown = {
        row["key"]: (row["change"], row["before"] and row["before"]["blob"], row["after"] and row["after"]["blob"])
        for row in topic.diff("point-1", f"point-{len(trees) - 1}").collect()
    }
    blobs = {key: both for key, both in shown.items() if both[1] != both[2]}
    wanted = {key: ("added", None, blob) for key, blob in last.items() if key not in first}
    wanted |= {key: ("removed", blob, None) for key, blob in first.items() if key not in last}
    wanted |= {key: ("changed", blob, last[key]) for key, blob in first.items() if last.get(key, blob) != blob}
    assert blobs == wanted
    assert {both[0] for key, both in shown.items() if key not in blobs} <= {"changed"}, "another commit or mode, the same content"

    topic.restore("point-1", log="keep")
    assert _trees(topic)[0] == first
    topic.merge()
    assert (_trees(topic)[0], topic.status().epoch) == (last, 0)

    topic.restore("point-1")
    assert (_trees(topic)[0], topic.ends()) == (first, {0: history.points[1][0]})
    append(history.points[1][0], len(history.records))
    topic.merge()
    assert (_trees(topic)[0], topic.status().epoch) == (last, 1)
    assert topic.quarantined().count() == len(history.records) - history.points[1][0]
    assert topic.verify().problems == []
