"""Two imports of one export under one name: the log says which of them made the topic, and the latest table is that one's."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakelog import Conflict, Damaged, InvalidRequest, Lake
from lakelog.delta import table_properties
from lakelog.delta.table_properties import IDENTITY
from lakelog.latest.progress import progress
from lakelog.transfer import load
from tests.interleaving import late
from tests.snapshots.test_snapshots import live, put
from tests.tables import versions

if TYPE_CHECKING:
    from lakelog import Topic

ROWS = {"a": "1", "b": "1"}


@pytest.fixture
def exported(lake: Lake, tmp_path: Path) -> Path:
    """An export of two keys, all of them in the latest table, none in the log."""
    topic = lake.create_topic("t", key="STRING", value="STRING")
    put(topic, **ROWS)
    topic.merge()
    topic.export(tmp_path / "out")
    return tmp_path / "out"


def another(lake: Lake) -> Lake:
    """Another writer of the same lake."""
    return Lake(lake.spark, lake.root, clock=lake.clock)


def cut_off(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def goes_on(topic: Topic, rows: dict[str, str]) -> None:
    """The topic is as it was imported, and takes more."""
    assert (live(topic), topic.verify().problems) == (rows, [])
    assert not progress(topic.log).by_hand, "nobody takes what brought the latest table back for a RESTORE by hand"
    put(topic, z="1")
    topic.merge()
    assert (live(topic), topic.verify().problems, topic.repair().done) == ({**rows, "z": "1"}, [], [])


@pytest.mark.long
def test_the_second_import_waits_for_the_first(lake: Lake, exported: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a disk of this machine: it finds the topic then, and has changed nothing."""
    answers: list[BaseException] = []

    def second() -> None:
        with pytest.raises((InvalidRequest, Conflict)) as caught:
            another(lake).import_topic(exported, name="i")
        answers.append(caught.value)

    thread = threading.Thread(target=second)

    def begin() -> None:
        thread.start()
        thread.join(5)
        assert thread.is_alive(), f"it waits: {answers}"

    late(monkeypatch, load.bronze, "create", begin)
    topic = lake.import_topic(exported, name="i")
    thread.join(300)
    assert [getattr(one, "name", "") for one in answers] == ["TOPIC_ALREADY_EXISTS"]
    assert versions(lake.root, "i") == {"bronze": 0, "silver": 0}
    goes_on(topic, ROWS)


@pytest.mark.soak
def test_whoever_makes_the_log_brings_its_latest_table_back(lake: Lake, exported: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other one has replaced it and is cut off. (A thread may hold a lock repeatedly: here nothing keeps the two apart.)"""
    create, calls = load.bronze.create, []

    def create_log(*given: Any, **more: Any) -> None:
        calls.append(more["properties"][IDENTITY])
        if len(calls) > 1:
            raise KeyboardInterrupt
        with pytest.raises(KeyboardInterrupt):
            another(lake).import_topic(exported, name="i")
        create(*given, **more)

    monkeypatch.setattr(load.bronze, "create", create_log)
    topic = lake.import_topic(exported, name="i")
    assert topic.uuid == calls[0] != calls[1]
    assert [one.version for one in topic.snapshots()] == [0]
    goes_on(topic, ROWS)


@pytest.mark.soak
@pytest.mark.parametrize("end", ["it brings the topic's back", "it is cut off"])
def test_a_late_import_does_not_keep_the_latest_table(lake: Lake, exported: Path, monkeypatch: pytest.MonkeyPatch, end: str) -> None:
    """It has looked before there was a log, and replaces the latest table when the topic was made, and has gone on."""
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(load.bronze, "create", cut_off)
        lake.import_topic(exported, name="i")

    def first() -> None:
        topic = another(lake).import_topic(exported, name="i")
        put(topic, c="1")
        topic.merge()
        if end == "it is cut off":
            monkeypatch.setattr(load.bronze, "create", cut_off)

    late(monkeypatch, load.tables, "create", first)
    with pytest.raises(Conflict if end == "it brings the topic's back" else KeyboardInterrupt):
        lake.import_topic(exported, name="i")
    topic = lake.topic("i")
    if end == "it is cut off":
        with pytest.raises(Damaged, match="another log.*verify with repair"):
            topic.merge()
        assert topic.repair().problems != []
    goes_on(topic, {**ROWS, "c": "1"})


@pytest.mark.soak
def test_the_one_that_loses_leaves_the_other_one_as_it_is(lake: Lake, exported: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    late(monkeypatch, load.bronze, "create", lambda: another(lake).import_topic(exported, name="i"))
    with pytest.raises(Conflict):
        lake.import_topic(exported, name="i")
    before = versions(lake.root, "i")
    assert before == {"bronze": 0, "silver": 1}
    goes_on(lake.topic("i"), ROWS)


@pytest.mark.soak
@pytest.mark.parametrize("lost", ["gone", "another's"])
def test_an_imported_latest_table_that_is_lost_is_never_made_anew_empty(
    lake: Lake, exported: Path, monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    """The import was cut off behind its log, and the latest table, which alone holds the rows, was lost before it was completed."""
    monkeypatch.setattr(table_properties, "PATIENCE", 0.1)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(lake, "_complete", cut_off)
        lake.import_topic(exported, name="i")
    silver = Path(lake.root, "i", "silver")
    shutil.rmtree(silver)
    if lost == "another's":
        shutil.copytree(Path(lake.root, "t", "silver"), silver)
    for verb in (lambda: lake.import_topic(exported, name="i"), lambda: lake.create_topic("i", key="STRING", value="STRING")):
        with pytest.raises(Damaged, match="Delete the topic .*, then import the export again"):
            verb()
        assert silver.exists() == (lost == "another's")
    lake.delete_topic("i")
    goes_on(lake.import_topic(exported, name="i"), ROWS)


@pytest.mark.soak
def test_a_topic_off_the_list_whose_latest_table_is_gone_can_be_repaired(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the log's records were removed: that it held them, its end says."""
    monkeypatch.setattr(table_properties, "PATIENCE", 0.1)
    topic = lake.create_topic("t", key="STRING", value="STRING")
    put(topic, **ROWS)
    topic.merge()
    shutil.rmtree(topic.silver.path or "")
    lake._own.list_topic("t", None)
    with pytest.raises(Damaged, match="Run verify with repair"):
        lake.create_topic("t", key="STRING", value="STRING")
    assert not Path(topic.silver.path or "").exists()
    topic = lake.topic("t")
    assert topic.repair().done == ["the latest table was computed anew"]
    goes_on(topic, ROWS)
