"""A deletion that is cut off: whoever writes next finishes it, and nothing of the topic comes back."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakelog.errors import Conflict, Damaged, TopicNotFound
from lakelog.latest import upsert
from lakelog.log import guard
from lakelog.operations import delete

if TYPE_CHECKING:
    from lakelog import Lake


class Cut(Exception):
    pass


def cut(*_: Any, **__: Any) -> None:
    raise Cut


@pytest.mark.long
def test_a_deletion_that_is_cut_off_is_finished_by_the_next_writer(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    for number, write in enumerate(("append", "merge", "create", "delete")):
        name = f"t{number}"
        topic = lake.create_topic(name, key="STRING", value="STRING", partitions=2)
        topic.append([{"key": "a", "value": "1"}])
        with monkeypatch.context() as patch, pytest.raises(Cut):
            remove = delete.remove
            patch.setattr(delete, "remove", lambda spark, path, remove=remove: cut() if path.endswith("bronze") else remove(spark, path))
            lake.delete_topic(name)
        assert (Path(topic.bronze.path or "").exists(), Path(topic.silver.path or "").exists()) == (True, False)
        assert topic.read().count() == 1, "reading verbs do not write"
        if write == "create":
            assert lake.create_topic(name, key="STRING", value="INT").status().records == 0
            assert name in lake.topics()
            continue
        if write == "delete":
            lake.delete_topic(name)
        else:
            with pytest.raises(TopicNotFound, match="is deleted now"):
                topic.append([{"key": "b"}]) if write == "append" else topic.merge()
        assert not Path(lake.root, name).exists()
        with pytest.raises(TopicNotFound):
            lake.topic(name)
        assert lake.create_topic(name, key="STRING", value="STRING").status().records == 0


@pytest.mark.long
def test_writers_under_way_make_nothing_of_a_topic_that_is_deleted_meanwhile(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rebuild, a merge and an append that were about to commit: no table appears, the name can be used again."""
    for module, name, write in (
        (upsert.tables, "overwrite", lambda topic: topic.merge(rebuild=True)),
        (upsert.tables, "merge", lambda topic: topic.merge()),
        (guard, "_appended", lambda topic: topic.append([{"key": "c", "value": "1"}])),
    ):
        topic = lake.create_topic("t", key="STRING", value="STRING")
        topic.append([{"key": "a", "value": "1"}])
        topic.merge()
        topic.append([{"key": "b", "value": "1"}])
        original, seen = getattr(module, name), []

        def first(*given: Any, original: Any = original, seen: list[int] = seen, **more: Any) -> Any:
            if not seen:
                seen.append(1)
                lake.delete_topic("t")
            return original(*given, **more)

        with monkeypatch.context() as patch, pytest.raises((TopicNotFound, Conflict)):
            patch.setattr(module, name, first)
            patch.setattr(upsert, "MOSTLY", 10)
            write(topic)
        assert seen
        # Delta may leave an empty folder where it looked for a table; there is no commit in it, and it blocks no name.
        assert list(Path(lake.root, "t").rglob("*.json")) == []
        assert lake.topics() == []
    assert lake.create_topic("t", key="STRING", value="STRING").status().records == 0


@pytest.mark.soak
def test_the_slower_of_two_deletions_leaves_a_topic_that_was_made_since(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before it announces, before it drops, between two tables; and a writer that finishes a deletion."""
    for number, (step, by) in enumerate((("require_droppable", "delete"), ("drop", "delete"), ("remove", "delete"), ("drop", "append"))):
        name = f"t{number}"
        topic = lake.create_topic(name, key="STRING", value="STRING")
        topic.append([{"key": "old", "value": "1"}])
        if by == "append":
            with monkeypatch.context() as patch, pytest.raises(Cut):
                patch.setattr(delete, "remove", cut)
                lake.delete_topic(name)
        original, seen = getattr(delete, step), []

        def later(*given: Any, name: str = name, step: str = step, original: Any = original, seen: list[int] = seen) -> Any:
            first, done = not seen, None
            seen.append(1)
            if step == "remove":
                done = original(*given)
            if first:
                lake.delete_topic(name)
                made = lake.create_topic(name, key="STRING", value="STRING")
                made.append([{"key": "new", "value": "1"}])
                made.merge()
            return done if step == "remove" else original(*given)

        with monkeypatch.context() as patch:
            patch.setattr(delete, step, later)
            if by == "delete":
                lake.delete_topic(name)
            else:
                with pytest.raises(TopicNotFound, match="is deleted now"):
                    topic.append([{"key": "b", "value": "1"}])
        assert seen
        again = lake.topic(name)
        assert ([row["key"] for row in again.read().collect()], again.status().intent) == (["new"], None)
        assert [row["key"] for row in again.latest().collect()] == ["new"]
        lake.delete_topic(name)
        assert (lake.topics(), Path(lake.root, name).exists()) == ([], False)


@pytest.mark.long
@pytest.mark.parametrize("lost", ["bronze/_delta_log", "bronze"])
def test_a_topic_whose_log_is_lost_is_not_made_anew_over_what_is_left(lost: str, lake: Lake, tmp_path: Path) -> None:
    """Its data files, or its latest table, are all there is of it."""
    topic = lake.create_topic("t", key="STRING", value="STRING")
    topic.append([{"key": "a", "value": "1"}])
    topic.merge()
    # Elsewhere: this process knows the tables where they are.
    again = type(lake)(lake.spark, str(shutil.copytree(lake.root, tmp_path / "copy")), clock=lake.clock)
    shutil.move(Path(again.root, "t", lost), tmp_path / "lost")
    before = sorted(Path(again.root, "t").rglob("*"))
    for _ in range(2):
        with pytest.raises(Damaged, match="the Delta log of .*/bronze is gone, and what it held is not: .*silver.*delete_topic removes"):
            again.create_topic("t", key="STRING", value="STRING")
    assert sorted(Path(again.root, "t").rglob("*")) == before
    if lost == "bronze":
        assert len(again.delete_topic("t").tables) == 1
        assert again.create_topic("t", key="STRING", value="STRING").status().records == 0
    else:
        shutil.move(tmp_path / "lost", Path(again.root, "t", lost))
        assert [row["key"] for row in again.topic("t").latest().collect()] == ["a"]
