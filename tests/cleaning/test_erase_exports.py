"""An erased key leaves the exports that the lake lists; they stay exports of the topic without it. What cannot be done is named."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow.parquet
import pytest

from lakelog import Conflict, Damaged, Lake, OffsetOutOfRange, Position, Topic
from lakelog.transfer import exports, manifest
from tests.cleaning.test_erase import append, people
from tests.interleaving import late


def keys(export: Path) -> set[str]:
    """The keys in all files of an export, those that its manifest does not name among them."""
    return {key for file in export.rglob("*.parquet") for key in pyarrow.parquet.read_table(file)["key"].to_pylist() if key is not None}


def of_people(lake: Lake) -> Topic:
    """ann is in the latest table at the snapshot, and in the log after it."""
    topic = lake.create_topic("people", key="STRING", value="mail STRING", partitions=2, config={"compaction.strategy": "timestamp"})
    append(topic, ann="a1", bob="b1", eve="e1")
    topic.merge()
    topic.snapshot("s")
    append(topic, bob="b2", ann="a2", kim="k1")
    return topic


@pytest.mark.long
def test_an_erased_key_leaves_the_exports_of_its_topic(lake: Lake, tmp_path: Path) -> None:
    topic = of_people(lake)
    topic.export(tmp_path / "whole", "s")
    version = topic.merge().version
    topic.export(tmp_path / "latest")
    before = (tmp_path / "whole" / manifest.NAME).read_text()
    planned = topic.erase("ann", dry_run=True)
    assert (planned.removed["exports"], keys(tmp_path / "latest")) == (3, {"ann", "bob", "eve", "kim"})
    assert (tmp_path / "whole" / manifest.NAME).read_text() == before, "a dry run writes nothing"

    done = topic.erase("ann")
    assert done.removed == planned.removed
    assert [keys(tmp_path / one) for one in ("whole", "latest")] == [{"bob", "eve", "kim"}] * 2
    assert not any("export" in one.where for one in done.held)
    assert topic.erase("ann").removed["exports"] == 0

    topic.export(tmp_path / "old", version)
    assert keys(tmp_path / "old") == {"bob", "eve", "kim"}, "silver's version from before holds it still"

    other = Lake(lake.spark, str(tmp_path / "other"), clock=lake.clock)
    imported = other.import_topic(tmp_path / "whole")
    assert people(imported) == {"bob": "b1", "eve": "e1"}
    assert [(row["key"], row["offset"]) for row in imported.read().collect()] == [("bob", 3), ("kim", 5)]
    assert imported.verify().problems == []
    with pytest.raises(OffsetOutOfRange):
        imported.read(since=Position({0: 3, 1: 0}, 0))
    imported.merge()
    append(imported, ann="new")
    imported.merge()
    assert people(imported) == {"ann": "new", "bob": "b2", "eve": "e1", "kim": "k1"}
    assert imported.verify().problems == []
    said = json.loads((tmp_path / "latest" / manifest.NAME).read_text())
    assert (said["rows"], said["records"]) == (3, 0)


@pytest.mark.soak
def test_an_export_that_an_erasure_overtakes_is_none(lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = of_people(lake)
    late(monkeypatch, manifest, "files", lambda: lake.topic("people").erase("ann"))
    with pytest.raises(Conflict, match="erased while"):
        topic.export(tmp_path / "out")
    assert keys(tmp_path / "out") == set()
    topic.merge()
    topic.export(tmp_path / "out")
    assert keys(tmp_path / "out") == {"bob", "eve", "kim"}


@pytest.mark.soak
def test_what_an_erasure_cannot_do_to_an_export_is_named_and_done_later(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cut off before its manifest is replaced; an export that was cut off; one that is damaged; one that is gone."""
    topic = of_people(lake)
    for name in ("cut", "half", "broken", "gone", "of_another"):
        topic.export(tmp_path / name)
    (tmp_path / "half" / manifest.NAME).unlink()
    (tmp_path / "broken" / manifest.NAME).write_text("{")
    shutil.rmtree(tmp_path / "gone")
    shutil.rmtree(tmp_path / "of_another")
    other = lake.create_topic("others", key="STRING", value="mail STRING")
    append(other, ann="theirs")
    other.merge()
    other.export(tmp_path / "of_another")

    write = manifest.write
    with monkeypatch.context() as patched:
        patched.setattr(exports.manifest, "write", lambda *_: (_ for _ in ()).throw(OSError("cut off")))
        done = topic.erase("ann")
    assert manifest.write is write
    held = {Path(one.where.split(",")[0].removeprefix("the export ")).name: one.where for one in done.held if "the export" in one.where}
    assert sorted(held) == ["broken", "cut", "half"] and "cut off: not searched" in held["half"] and "cut off" in held["cut"]
    with pytest.raises(Damaged, match="is not the export's"):
        lake.import_topic(tmp_path / "cut", name="copy")

    shutil.rmtree(tmp_path / "broken")
    shutil.rmtree(tmp_path / "half")
    again = topic.erase("ann")
    assert not any("the export" in one.where for one in again.held)
    assert again.removed["exports"] == 2, "in the latest table and in the log of the one that was cut off"
    assert (keys(tmp_path / "cut"), keys(tmp_path / "of_another")) == ({"bob", "eve", "kim"}, {"ann"})
    assert people(lake.import_topic(tmp_path / "cut", name="copy")) == {"bob": "b1", "eve": "e1"}
