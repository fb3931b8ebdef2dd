"""Data files that are gone: the verbs that look at everything name the file and the remedy, and what is said to help helps."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lakelog import Damaged, Lake
from tests.conftest import Answer
from tests.native.damages import data_files


def lose(lake: Lake, table: str) -> str:
    """Take the data files of a topic's records away; gives the first one's name."""
    folder = Path(lake.root, "orders", table)
    lost = [file for file in data_files(folder) if "=-" not in str(file.relative_to(folder))]
    for file in lost:
        file.unlink()
    return f"{lost[0].parent.name}/" if len(lost) > 1 else str(lost[0].relative_to(folder))


def test_a_lost_file_is_named_and_the_latest_table_is_written_anew(lake: Lake, cli: Callable[..., Answer]) -> None:
    topic = lake.create_topic("orders", key="STRING", value="STRING")
    topic.append([{"key": key, "value": "1"} for key in "abc"])
    topic.merge()
    topic.append([{"key": "b", "value": "2"}])
    lost = lose(lake, "silver")
    verbs: list[Callable[[], object]] = [topic.merge, topic.verify]
    for verb in verbs:
        with pytest.raises(Damaged, match="run merge with rebuild once") as refused:
            verb()
        assert f"{lost} is missing. A file of the table is missing or broken: put it back from a copy" in str(refused.value)
    for command in ("merge", "verify", "latest --engine spark"):
        answer = cli(f"--root {lake.root} {command.replace(' ', ' orders ', 1) if ' ' in command else f'{command} orders'}")
        assert (answer.code, "run `lakelog merge orders --rebuild` once" in answer.err) == (70, True), answer
    assert topic.merge(rebuild=True).inserted == 3
    assert topic.verify().ok
    again = lose(lake, "silver")
    mended = topic.repair()
    assert again in mended.problems[0] and mended.done == ["the latest table was computed anew"]
    assert topic.verify().ok
    assert sorted(row["value"] for row in topic.latest().collect()) == ["1", "1", "2"]

    lost = lose(lake, "bronze")
    before = sorted(str(file) for file in Path(lake.root).rglob("*") if file.is_file())
    for verb in (topic.verify, topic.repair):
        with pytest.raises(Damaged, match="is missing or broken: put it back from a copy before going on") as refused:
            verb()
        assert lost in str(refused.value) and "anew" not in str(refused.value)
    assert sorted(str(file) for file in Path(lake.root).rglob("*") if file.is_file()) == before, "nothing was written"
    answer = cli(f"--root {lake.root} read orders --engine spark")
    assert (answer.code, lost in answer.err) == (70, True), answer
