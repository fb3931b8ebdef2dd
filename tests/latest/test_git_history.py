"""Real data: the change histories of two public git repositories, one record per file change, as an independent witness.

At chosen points of a history git itself says which file has which content (``tree-*.tsv.gz``). The latest table must say the same.
All points are checked at once: the history up to each point lies in a partition of its own.
"""

from __future__ import annotations

import gzip
import json
import random
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.tables import versions

if TYPE_CHECKING:
    from lakelog import Lake, Topic

DATA = Path(__file__).parent.parent / "data" / "git-history"
TYPES = {"key": "STRING", "value": "commit STRING, blob STRING, mode STRING"}
NAMES = ("requests", "kafka")
SHORT, LONG = (pytest.param(name, id=name, marks=mark) for name, mark in (("requests", ()), ("kafka", pytest.mark.long)))
REPOSITORIES = [SHORT, LONG]
# The long suite merges the long history in ten steps; at once, and shuffled, it takes two minutes each: that is soak.
LONGEST = pytest.param("kafka", id="kafka", marks=pytest.mark.soak)
UNEVEN = (0, 1, 2, 9, 13, 30, 31, 55, 70, 99, 100)  # ten steps, in percent of a history


@dataclass(frozen=True)
class History:
    """A repository: its records, and per point (records so far, file to blob)."""

    records: list[dict[str, Any]]
    points: list[tuple[int, dict[str, str]]]


def _history(repository: str) -> History:
    folder = DATA / repository
    with gzip.open(folder / "records.ndjson.gz", "rt", encoding="utf-8") as lines:
        records = [json.loads(line) for line in lines]
    points = []
    for name, count in json.loads((folder / "points.json").read_text(encoding="utf-8"))["points"].items():
        with gzip.open(folder / f"tree-{name}.tsv.gz", "rt", encoding="utf-8", newline="\n") as lines:
            points.append((count, dict(line.rstrip("\n").rsplit("\t", 1) for line in lines)))
    assert points[-1][0] == len(records)
    return History(records, points)


def _append(topic: Topic, folder: Path, by_partition: dict[int, list[dict[str, Any]]]) -> None:
    """Append records as one NDJSON file, each to its partition."""
    path = folder / "batch.ndjson"
    with path.open("w", encoding="utf-8") as file:
        for partition, records in by_partition.items():
            file.writelines(json.dumps({**record, "partition": partition}) + "\n" for record in records)
    topic.append(str(path))


def _trees(topic: Topic, at: int | None = None) -> dict[int, dict[str, str]]:
    """Partition to (file to blob) of the live rows."""
    found: dict[int, dict[str, str]] = {}
    for row in topic.latest(at).select("_partition", "key", "blob").collect():
        assert row["key"] not in found.setdefault(row["_partition"], {}), "one live row per file"
        found[row["_partition"]][row["key"]] = row["blob"]
    return found


def _merge_twice(lake: Lake, topic: Topic) -> int:
    """Merge, and again: the second one must not write; gives silver's version."""
    version = topic.merge().version
    before = versions(lake.root, topic.name)
    assert topic.merge().version is None
    assert versions(lake.root, topic.name) == before
    assert version is not None
    return version


@pytest.mark.parametrize("repository", [SHORT, LONGEST])
def test_the_latest_rows_are_gits_trees_merged_in_one_go(repository: str, lake: Lake, tmp_path: Path) -> None:
    """The history up to every point, appended at once and merged once (and again): exactly the files git has there."""
    history = _history(repository)
    topic = lake.create_topic("files", partitions=len(history.points), **TYPES)
    _append(topic, tmp_path, {index: history.records[:count] for index, (count, _) in enumerate(history.points)})
    _merge_twice(lake, topic)
    assert _trees(topic) == {index: tree for index, (_, tree) in enumerate(history.points)}


@pytest.mark.long
@pytest.mark.parametrize("repository", REPOSITORIES)
def test_the_latest_rows_are_gits_trees_merged_in_ten_uneven_steps(repository: str, lake: Lake, tmp_path: Path) -> None:
    """The same in ten appends of very different size, a merge (and another) after each: how jobs cut the day changes nothing."""
    history = _history(repository)
    topic = lake.create_topic("files", partitions=len(history.points), **TYPES)
    for low, high in zip(UNEVEN, UNEVEN[1:], strict=False):
        pieces = {index: history.records[count * low // 100 : count * high // 100] for index, (count, _) in enumerate(history.points)}
        _append(topic, tmp_path, {index: piece for index, piece in pieces.items() if piece})
        _merge_twice(lake, topic)
    assert _trees(topic) == {index: tree for index, (_, tree) in enumerate(history.points)}


@pytest.mark.long
@pytest.mark.parametrize("repository", NAMES)
def test_every_point_of_the_past_can_be_read_again_by_its_version(repository: str, lake: Lake, tmp_path: Path) -> None:
    """One table that grew point by point: silver's version at each point shows git's tree of that day, after all later merges."""
    history = _history(repository)
    points = history.points
    topic = lake.create_topic("files", **TYPES)
    seen, done = [], 0
    for count, _ in points:
        _append(topic, tmp_path, {0: history.records[done:count]})
        seen.append(_merge_twice(lake, topic))
        done = count
    for version, (_, tree) in zip(seen, points, strict=True):
        assert _trees(topic, version)[0] == tree


@pytest.mark.long
@pytest.mark.parametrize("repository", REPOSITORIES)
def test_under_timestamp_the_result_is_that_of_plain_python(repository: str, lake: Lake) -> None:
    """Commit times run backwards in places: late records must lose, whatever came last. The compressed file is appended as it is."""
    history = _history(repository)
    expected: dict[str, tuple[int, int]] = {}
    late = 0
    for offset, record in enumerate(history.records):
        rank = (record["timestamp"], offset)
        late += rank < expected.get(record["key"], rank)
        expected[record["key"]] = max(rank, expected.get(record["key"], rank))
    assert late, "this history has late records, or the test shows nothing"
    topic = lake.create_topic("files", config={"compaction.strategy": "timestamp"}, **TYPES)
    topic.append(str(DATA / repository / "records.ndjson.gz"))
    topic.merge()
    rows = topic.rows().select("key", "offset", "tombstone", "value.commit", "value.blob").collect()
    assert {row["key"]: row["offset"] for row in rows} == {key: offset for key, (_, offset) in expected.items()}
    for row in rows:
        record = history.records[row["offset"]]
        assert (row["tombstone"], row["commit"], row["blob"]) == (
            record["tombstone"],
            record["value"]["commit"],
            record["value"].get("blob"),
        )
    assert topic.status().counts["late"] == late


@pytest.mark.parametrize("repository", [pytest.param("requests", id="requests", marks=pytest.mark.long), LONGEST])
def test_a_shuffled_history_with_its_line_numbers_as_versions_gives_the_same_trees(repository: str, lake: Lake, tmp_path: Path) -> None:
    """Under ``header`` the order of arrival is nothing: the line number in a header puts every record in its place again."""
    history = _history(repository)
    chance = random.Random(20260506)
    config = {"compaction.strategy": "header", "compaction.strategy.header": "line"}
    topic = lake.create_topic("files", partitions=len(history.points), config=config, **TYPES)
    shuffled = {}
    for index, (count, _) in enumerate(history.points):
        shuffled[index] = [{**record, "headers": [["line", number]]} for number, record in enumerate(history.records[:count])]
        chance.shuffle(shuffled[index])
    for third in range(3):
        _append(topic, tmp_path, {index: records[third::3] for index, records in shuffled.items()})
        topic.merge()
    assert _trees(topic) == {index: tree for index, (_, tree) in enumerate(history.points)}
