"""Tokens go with the records that they answer for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from lakelog import Lake, Topic


@pytest.fixture
def topic(lake: Lake) -> Topic:
    return lake.create_topic("t", key="STRING", value="STRING")


def values(topic: Topic) -> list[int]:
    return sorted(int(row["value"]) for row in topic.read().collect())


@pytest.mark.long
def test_a_restore_leaves_the_tokens_of_a_loads_chunks_whose_records_stay(lake: Lake, topic: Topic, tmp_path: Path) -> None:
    file = tmp_path / "long.ndjson"
    file.write_text("".join(json.dumps({"key": f"k{index}", "value": str(index)}) + "\n" for index in range(30)))

    def tell(done: int, total: int) -> None:
        if done == 10:
            other = lake.topic("t")
            other.merge()
            other.snapshot("first")

    topic.load(str(file), identity="long", chunk=10, tell=tell)
    topic.restore("first")
    assert topic.ends() == {0: 10}

    again = topic.load(str(file), identity="long", chunk=10)

    assert (again.found, again.chunks, again.offsets, values(topic)) == (1, 3, {0: (0, 30)}, list(range(30)))
