"""An erasure that others get in the way of: it comes late, or a kept snapshot cannot be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakelog import Lake
from lakelog.delta import tables
from lakelog.errors import LakelogError
from lakelog.operations import erase
from lakelog.snapshots import point
from tests.cleaning.test_erase import append, people
from tests.interleaving import late
from tests.quality.folders import rows, write


@pytest.mark.long
def test_a_late_erasure_removes_no_record_that_was_appended_since(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another writer has finished it, and the key is appended anew."""
    topic = lake.create_topic("people", key="STRING", value="mail STRING")
    append(topic, ann="a1", bob="b1")
    topic.merge()
    late(monkeypatch, erase.cut, "remove", lambda: append(lake.topic("people"), ann="new"))
    topic.erase("ann")
    assert [(row["key"], row["offset"]) for row in topic.read().collect()] == [("bob", 1), ("ann", 2)]
    topic.merge()
    assert people(topic) == {"ann": "new", "bob": "b1"}


@pytest.mark.soak
def test_a_late_erasure_removes_no_record_that_was_put_aside_since(lake: Lake, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Another writer has finished it, and a record of the key is put aside anew: before the quarantine is looked at, and before the DELETE."""
    suites = write(tmp_path / "suites", "t", append=[rows("positive", "_tombstone OR value > 0")])
    topic = lake.create_topic("t", key="STRING", value="INT", config={"quality.suites": suites, "quality.on.failure": "quarantine"})
    topic.append([{"key": "ann", "value": -1}, {"key": "bob", "value": -1}, {"key": "bob", "value": 1}])
    topic.merge()

    def aside() -> list[tuple[str, int]]:
        return sorted((row["key"], row["value"]) for row in topic.quarantined().collect())

    for step, (owner, name) in enumerate(((erase, "_others"), (erase.quarantine, "change")), start=7):
        late(monkeypatch, owner, name, lambda step=step: lake.topic("t").append([{"key": "ann", "value": -step}]))
        topic.erase("ann")
        assert aside() == [("ann", -step), ("bob", -1)]
    topic.erase("ann")
    assert aside() == [("bob", -1)]


@pytest.mark.long
def test_a_snapshot_that_cannot_be_copied_stops_an_erasure_before_it_begins(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its file with the key is there, another one is not. Begun all the same, the erasure is finished once the snapshot is deleted."""
    topic = lake.create_topic("people", key="STRING", value="mail STRING")
    for key, mail in {"ann": "".join(map(str, range(9000))), "bob": "b1"}.items():
        append(topic, **{key: mail})
        topic.merge()
    (old,) = tables.read(lake.spark, topic.silver).filter("key = 'bob'").select("_metadata.file_path").collect()
    topic.snapshot("s", keep="90 days")
    append(topic, ann="a2", bob="b2")
    topic.merge()
    Path(old["file_path"].removeprefix("file:")).unlink()

    with pytest.raises(LakelogError) as refused:
        topic.erase("ann")
    assert topic.status().intent is None
    append(topic, ann="a3")
    assert "the snapshot s cannot be read as a whole" in str(refused.value) and "delete_snapshot" in str(refused.value)

    # As where a look for the key stops before it comes to that file, and the file goes after the proof.
    monkeypatch.setattr(point, "holds", lambda log, entry, condition: True)
    monkeypatch.setattr(point, "require_whole", lambda log, entry: None)
    with pytest.raises(LakelogError, match="the snapshot s cannot be read"):
        topic.erase("ann")
    assert topic.status().intent == "erase"
    topic.delete_snapshot("s")
    assert set(topic.erase("ann").removed.values()) == {0}
    assert (people(topic), topic.status().intent) == ({"bob": "b2"}, None)
