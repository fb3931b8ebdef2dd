"""Tokens go with the records that they answer for, and a known one answers before anything else is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakelog.errors import ExpectedOffsetMismatch, FencedEpoch
from lakelog.inputs import staging
from lakelog.log import bulk
from tests.interleaving import late

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakelog import Lake, Topic


@pytest.fixture
def topic(lake: Lake) -> Topic:
    return lake.create_topic("t", key="STRING", value="STRING")


def values(topic: Topic) -> list[int]:
    return sorted(int(row["value"]) for row in topic.read().collect())


def numbered(folder: Path, count: int) -> str:
    """A file of so many records."""
    file = folder / "long.ndjson"
    file.write_text("".join(json.dumps({"key": f"k{index}", "value": str(index)}) + "\n" for index in range(count)))
    return str(file)


def take_snapshot(lake: Lake) -> None:
    """As somebody else takes it, beside a load."""
    other = lake.topic("t")
    other.merge()
    other.snapshot("first")


def while_staging(monkeypatch: pytest.MonkeyPatch, what: Callable[[], Any]) -> None:
    """Do something once, while the next append reads its records."""
    staged = staging.staged

    def slow(*given: Any, **more: Any) -> Any:
        monkeypatch.setattr(staging, "staged", staged)
        what()
        return staged(*given, **more)

    monkeypatch.setattr(staging, "staged", slow)


@pytest.mark.long
def test_a_restore_leaves_the_tokens_of_a_loads_chunks_whose_records_stay(lake: Lake, topic: Topic, tmp_path: Path) -> None:
    file = numbered(tmp_path, 30)

    def tell(done: int, total: int) -> None:
        if done == 10:
            take_snapshot(lake)

    topic.load(file, identity="long", chunk=10, tell=tell)
    topic.restore("first")
    assert topic.ends() == {0: 10}

    again = topic.load(file, identity="long", chunk=10)

    assert (again.found, again.chunks, again.offsets, values(topic)) == (1, 3, {0: (0, 30)}, list(range(30)))


@pytest.mark.long
def test_a_load_does_not_go_on_behind_chunks_that_a_restore_takes_away(
    lake: Lake, topic: Topic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The restore comes after the load has looked for its chunks, and before it writes the next one."""
    file = numbered(tmp_path, 6)

    def tell(done: int, total: int) -> None:
        if done == 2:
            take_snapshot(lake)
        if done == 4:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        topic.load(file, identity="long", chunk=2, tell=tell)
    with monkeypatch.context() as patch, pytest.raises(FencedEpoch, match="the log was restored while the load ran: epoch 1 instead of 0"):
        late(patch, bulk, "_part", lambda: lake.topic("t").restore("first"))
        topic.load(file, identity="long", chunk=2)
    assert values(topic) == [0, 1]
    assert (topic.load(file, identity="long", chunk=2).found, values(topic)) == (1, list(range(6)))


def test_a_token_that_is_written_while_the_repeat_is_read_answers_before_the_expected_offset(
    lake: Lake, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = [{"key": "a", "value": "1"}]
    first = []
    while_staging(monkeypatch, lambda: first.append(lake.topic("t").append(records, token="one", expected_offset={0: 0})))

    again = topic.append(records, token="one", expected_offset={0: 0})

    assert (again.repeated, again.offsets, again.batch, topic.ends()) == (True, {0: (0, 1)}, first[0].batch, {0: 1})
    while_staging(monkeypatch, lambda: lake.topic("t").append(records, token="two"))
    with pytest.raises(ExpectedOffsetMismatch):
        topic.append(records, token="three", expected_offset={0: 1})


def test_two_processes_at_one_bulk_load_share_it(lake: Lake, topic: Topic, tmp_path: Path) -> None:
    file = numbered(tmp_path, 3)

    def beside(done: int, total: int) -> None:
        if done == 1:
            lake.topic("t").load(file, identity="long", chunk=1)

    loaded = topic.load(file, identity="long", chunk=1, tell=beside)

    assert (loaded.found, loaded.chunks, loaded.offsets, values(topic)) == (0, 3, {0: (0, 3)}, [0, 1, 2])


@pytest.mark.soak
def test_a_token_answers_although_the_log_was_restored_behind_it_meanwhile(
    lake: Lake, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = [{"key": "a", "value": "1"}]

    def first() -> None:
        other = lake.topic("t")
        other.append(records, token="one")
        other.merge()
        other.snapshot("s")
        other.restore("s")

    while_staging(monkeypatch, first)
    assert topic.append(records, token="one", epoch=0).repeated
    with pytest.raises(FencedEpoch):
        topic.append(records, token="two", epoch=0)
    assert values(topic) == [1]


def test_a_token_may_be_called_as_a_load_is(topic: Topic, tmp_path: Path) -> None:
    file = tmp_path / "x.ndjson"
    file.write_text(json.dumps({"key": "a", "value": "1"}) + "\n", encoding="utf-8")
    topic.load(str(file), identity="orders")
    assert topic.append([{"key": "b", "value": "2"}], token="orders").offsets == {0: (1, 2)}
    assert topic.append([{"key": "b", "value": "2"}], token="orders").repeated
    assert topic.load(str(file), identity="orders").found == 1
    assert values(topic) == [1, 2]
