"""Law 7, one winner: writers in processes of their own, real commits; what is checked is the tables, not the return values."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lakelog import Lake
from lakelog.delta import tables
from tests.races.processes import race


def in_the_log(topic: Any) -> dict[int, list[tuple[int, str]]]:
    """Partition to (offset, key), in order, as the table has it."""
    found: dict[int, list[tuple[int, str]]] = {}
    for row in topic.read().select("partition", "offset", "key").collect():
        found.setdefault(row["partition"], []).append((row["offset"], row["key"]))
    return found


def dense_and_once(topic: Any) -> None:
    """Offsets from 0 without a gap, no record twice."""
    for partition, rows in in_the_log(topic).items():
        assert [offset for offset, _ in rows] == list(range(len(rows))), partition
        keys = [key for _, key in rows]
        assert len(set(keys)) == len(keys), partition


def conditional(lake: Lake, writers: int, appends: int) -> None:
    # 9 records of about 24 octets an append: every third append or so begins a new segment.
    topic = lake.create_topic("t", key="STRING", value="STRING", config={"segment.bytes": 150})
    plans = [{"root": lake.root, "topic": "t", "name": f"w{index}", "mode": "conditional", "count": appends} for index in range(writers)]
    lines = race(plans)
    wins = [line for told in lines.values() for line in told if "append" in line]
    starts = sorted(line["offsets"][0] for line in wins)
    assert len(wins) == writers * appends
    assert len(set(starts)) == len(starts), "two writers won the same expected offset"
    assert all(line["offsets"][0] == line["expected"] for line in wins)
    dense_and_once(topic)
    rows = in_the_log(topic)[0]
    assert len(rows) == writers * appends * 3
    for name, told in lines.items():
        for line in told:
            if "append" in line:
                low, high = line["offsets"]
                assert [key for _, key in rows[low:high]] == [f"{name}-{line['append']}-{index}" for index in range(3)]
            if "refused" in line:
                assert line["actual"] > line["expected"], "a refusal carries a log end that is not the true one"
                assert line["actual"] in {*starts, len(rows)}
    assert topic.status().partitions[0].active_segment > 0, "no append rolled to a new segment"
    assert topic.verify().problems == []


def test_of_conditional_appends_of_three_processes_exactly_one_wins_each_offset(lake: Lake) -> None:
    conditional(lake, writers=3, appends=4)


@pytest.mark.long
def test_of_conditional_appends_of_six_processes_exactly_one_wins_each_offset(lake: Lake) -> None:
    conditional(lake, writers=6, appends=8)


@pytest.mark.long
def test_writers_of_different_partitions_never_disturb_each_other(lake: Lake) -> None:
    topic = lake.create_topic("t", key="STRING", value="STRING", partitions=4)
    plans = [
        {"root": lake.root, "topic": "t", "name": f"w{index}", "mode": "conditional", "count": 6, "partition": index} for index in range(4)
    ]
    lines = race(plans)
    assert [line for told in lines.values() for line in told if "refused" in line] == []
    notes = [json.loads(row["userMetadata"]) for row in tables.history(lake.spark, topic.bronze, 100) if row["userMetadata"]]
    assert [found["attempts"] for found in notes if found["lakelog"] == "append"] == [1] * 24, "a conflict between partitions"
    dense_and_once(topic)
    assert topic.ends() == dict.fromkeys(range(4), 18)


@pytest.mark.long
def test_unconditional_appends_of_six_processes_all_get_in_each_in_its_own_order(lake: Lake) -> None:
    topic = lake.create_topic("t", key="STRING", value="STRING")
    lines = race([{"root": lake.root, "topic": "t", "name": f"w{index}", "mode": "plain", "count": 8} for index in range(6)])
    assert all(len([line for line in told if "append" in line]) == 8 for told in lines.values())
    dense_and_once(topic)
    keys = [key for _, key in in_the_log(topic)[0]]
    assert len(keys) == 6 * 8 * 3
    for name in lines:
        own = [key for key in keys if key.startswith(f"{name}-")]
        assert own == [f"{name}-{number}-{index}" for number in range(8) for index in range(3)]


@pytest.mark.long
def test_appends_get_in_while_optimize_merges_and_configuration_run(lake: Lake) -> None:
    topic = lake.create_topic("t", key="STRING", value="STRING", config={"segment.bytes": 100})
    plan = {"root": lake.root, "topic": "t", "count": 6}
    lines = race([
        {**plan, "name": "writer", "mode": "plain", "count": 10},
        {**plan, "name": "merger", "mode": "merge"},
        {**plan, "name": "optimizer", "mode": "optimize"},
        {**plan, "name": "admin", "mode": "configure"},
    ])  # fmt: skip
    errors = [line for line in lines["writer"] if "error" in line]
    assert all(line["retry"] for line in errors), errors
    assert len([line for line in lines["writer"] if "append" in line]) == 10 or errors
    dense_and_once(topic)
    topic.merge()
    assert topic.verify().problems == []


@pytest.mark.long
def test_two_merges_at_once_end_as_one(lake: Lake) -> None:
    topic = lake.create_topic("t", key="STRING", value="STRING")
    topic.append([{"key": f"k{index % 5}", "value": str(index)} for index in range(50)])
    race([{"root": lake.root, "topic": "t", "name": f"m{index}", "mode": "merge", "count": 2} for index in range(2)])
    assert topic.status().counts["records"] == 50
    assert topic.verify().problems == []
