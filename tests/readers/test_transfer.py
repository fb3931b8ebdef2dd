"""A topic exported at a snapshot and imported under another root is the same topic: rows, log, offsets, epochs, settings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakelog import Damaged, FencedEpoch, InvalidRequest, Lake, NotFound, Position, Topic
from lakelog.log.tail import log_end
from lakelog.transfer import load, manifest
from tests.conftest import NOON, Clock
from tests.laws import topics
from tests.oracle import Model
from tests.races.operations.state import KIND, LATER, MERGED, MORE, WAITING, create, holds, records
from tests.snapshots.test_repaired import LATE, without_tombstone
from tests.snapshots.test_snapshots import live, put


def as_it_is(topic: Topic) -> tuple[object, ...]:
    """All that an import must have of the original."""
    settings = [(one["name"], one["value"]) for one in topic.describe().config]
    start = topic.bootstrap("s").position
    tail = topics.log(topic.read(since=start).records)
    return topics.silver(topic), tail, start.offsets, topic.ends(), topic.status().epoch, str(topic.rule), settings, topic.describe().value


@pytest.mark.long
def test_an_import_is_the_original_under_another_root(spark: SparkSession, tmp_path: Path) -> None:
    topic = create(Lake(spark, str(tmp_path / "one"), clock=lambda: NOON))
    topic.append(records(MERGED))
    topic.append(records(WAITING))
    topic.snapshot("s")
    topic.append(records(MORE))

    exported = topic.export(tmp_path / "out", "s")
    assert (exported.snapshot, exported.starts, exported.ends, exported.records) == ("s", {0: 6, 1: 3}, {0: 8, 1: 5}, 4)
    with pytest.raises(InvalidRequest, match="not empty"):
        topic.export(tmp_path / "out")
    other = Lake(spark, str(tmp_path / "two"), clock=lambda: NOON)
    imported = other.import_topic(tmp_path / "out")
    assert imported.uuid != topic.uuid and other.topics() == ["t"]
    assert imported.start().offsets == {0: 6, 1: 3} and imported.snapshots()
    with pytest.raises(InvalidRequest, match="exists already"):
        other.import_topic(tmp_path / "out")

    imported.snapshot("s", at=0)
    for one in (topic, imported):
        one.append(records(LATER), epoch=0, expected_offset={0: 8, 1: 5})
        assert one.merge(max_records=1).remaining
        one.merge()
    assert as_it_is(other.topic("t")) == as_it_is(topic)
    holds(topic, MERGED, WAITING, MORE, LATER)
    model = Model(KIND.rule)
    for batch in (MERGED, WAITING, MORE, LATER):
        model.append(batch)
    topics.same(imported, model, topics.silver(imported), topics.wanted(model))
    assert imported.verify().problems == [] and imported.verify().base is not None


@pytest.mark.long
def test_a_later_epoch_and_log_start_are_the_same_in_an_import(lake: Lake, tmp_path: Path) -> None:
    """Offsets 0 to 2 are of epoch 0, as were 3 and 4, which a restore cut away; from 3 on they are of epoch 1. The log begins at 1."""
    topic = lake.create_topic("t", key="STRING", value="STRING", partitions=2)
    put(topic, a="1")
    topic.snapshot("begin")
    put(topic, b="1", c="1")
    topic.snapshot("s")
    put(topic, x="1", y="1")
    topic.restore("s")
    topic.truncate("begin")
    put(topic, d="1")
    topic.merge()
    put(topic, a="2")
    exported = topic.export(tmp_path / "out", "s")
    assert (exported.starts, exported.ends, exported.records) == ({0: 3, 1: 0}, {0: 5, 1: 0}, 2)
    imported = Lake(lake.spark, str(tmp_path / "two"), clock=lake.clock).import_topic(tmp_path / "out")

    states = [{index: tail.state for index, tail in log_end(one.log).tails.items()} for one in (topic, imported)]
    assert [{index: state.epochs for index, state in one.items()} for one in states] == [{0: ((0, 0), (1, 3)), 1: ((1, 0),)}] * 2
    assert [(one.status().epoch, one.start().offsets[0]) for one in (topic, imported)] == [(1, 1), (1, 3)]
    for offset, epoch, answer, back in (
        (3, 0, "VALID", None), (4, 0, "DIVERGING", 3), (5, 0, "DIVERGING", 3), (4, 1, "VALID", None), (5, 1, "VALID", None),
    ):  # fmt: skip
        for one in (topic, imported):
            found = one.validate(Position({0: offset, 1: 0}, epoch))
            assert (found.answer, found.position and found.position.offsets[0]) == (answer, back), f"{one.root}: {offset} of epoch {epoch}"
    for one in (topic, imported):
        read = one.read(since=Position({0: 3, 1: 0}, 0))
        assert [(row["offset"], row["key"], row["epoch"]) for row in read.records.collect()] == [(3, "d", 1), (4, "a", 1)]
        with pytest.raises(FencedEpoch):
            one.append([{"key": "z", "value": "1"}], epoch=0)
        one.merge()
    assert live(imported) == live(topic) == {"a": "2", "b": "1", "c": "1", "d": "1"}
    assert imported.verify().problems == []


def test_an_export_that_is_not_whole_is_not_imported(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(spark, str(tmp_path / "one"), clock=lambda: NOON)
    topic = create(lake)
    topic.append(records(MERGED))
    topic.merge()
    topic.export(tmp_path / "out")
    said = (tmp_path / "out" / manifest.NAME).read_text()
    file = tmp_path / "out" / json.loads(said)["files"][0]["path"]
    octets = file.read_bytes()

    for wrong, says in (
        (lambda: file.write_bytes(octets[:-9] + b"x" + octets[-8:]), "was changed"), (file.unlink, "is missing"),
        (lambda: file.with_name("more.parquet").write_bytes(octets), "is not the export's"),
    ):  # fmt: skip
        wrong()
        with pytest.raises(Damaged, match=says):
            lake.import_topic(tmp_path / "out", name="again")
        file.write_bytes(octets)
    file.with_name("more.parquet").unlink()
    (tmp_path / "out" / manifest.NAME).write_text(said[:-50])
    with pytest.raises(Damaged, match="not as lakelog writes it"):
        lake.import_topic(tmp_path / "out", name="again")
    (tmp_path / "out" / manifest.NAME).unlink()
    with pytest.raises(NotFound, match="cut off"):
        lake.import_topic(tmp_path / "out", name="again")
    topic.export(tmp_path / "out")
    assert topics.silver(lake.import_topic(tmp_path / "out", name="again")) == topics.silver(topic)
    assert lake.topics() == ["again", "t"]


@pytest.mark.soak
def test_a_log_that_was_cleaned_beyond_the_exported_snapshot_is_whole_in_an_import(lake: Lake, tmp_path: Path) -> None:
    """The clean took records above the snapshot's end, which batches of the exported log still tell of."""
    topic = lake.create_topic("t", key="STRING", value="STRING", config={"min.cleanable.dirty.ratio": 0})
    put(topic, a="1")
    topic.snapshot("s", keep="90 days")
    for value in ("2", "3", "4"):
        put(topic, a=value)
    topic.merge()
    topic.roll()
    topic.clean(force=True)
    assert topic.read().count() == 1
    topic.export(tmp_path / "out", "s")
    imported = lake.import_topic(tmp_path / "out", name="u")
    assert imported.verify().problems == []
    imported.merge()
    assert live(imported) == {"a": "4"} and imported.verify().problems == []
    states = [log_end(one.log).tails[0].state for one in (topic, imported)]
    assert [state.cleaned for state in states] == [states[0].cleaned] * 2

    # An export of before does not say how far it was cleaned.
    said = json.loads((tmp_path / "out" / manifest.NAME).read_text())
    for name in ("cleaned", "forgotten"):
        del said["states"]["0"][name]
    (tmp_path / "out" / manifest.NAME).write_text(json.dumps(said))
    assert lake.import_topic(tmp_path / "out", name="older").verify().problems == []


@pytest.mark.long
def test_a_deleted_key_whose_tombstone_is_gone_stays_deleted_in_an_import(lake: Lake, clock: Clock, tmp_path: Path) -> None:
    """What silver remembers of it is in the export; one of before that has no such column, and can be imported too."""
    topic = without_tombstone(lake)
    exported = topic.export(tmp_path / "out")
    assert exported.rows == 2
    imported = lake.import_topic(tmp_path / "out", name="u")
    for one in (topic, imported):
        one.append(LATE)
        assert one.merge().late_after_delete == 1
        assert live(one) == {"a": "old", "b": "1"}

    silver = tmp_path / "out" / manifest.SILVER
    rows = lake.spark.read.parquet(str(silver)).filter("control IS NULL").drop("control").toPandas()
    schema = lake.spark.read.parquet(str(silver)).drop("control").schema
    lake.spark.createDataFrame(rows, schema).write.mode("overwrite").parquet(str(silver))
    said = json.loads((tmp_path / "out" / manifest.NAME).read_text())
    said["files"] = [one.__dict__ for one in manifest.files(str(tmp_path / "out"))]
    (tmp_path / "out" / manifest.NAME).write_text(json.dumps(said))
    assert live(lake.import_topic(tmp_path / "out", name="older")) == {"a": "old", "b": "1"}


@pytest.mark.soak
def test_an_import_that_was_cut_off_and_made_again_has_its_own_snapshot(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The latest table of the attempt that was cut off is replaced, so the one that stands does not begin at version 0."""
    topic = lake.create_topic("t", key="STRING", value="STRING")
    put(topic, a="1", b="1")
    topic.merge()
    topic.export(tmp_path / "out")
    other = lake.create_topic("other", key="STRING", value="STRING")
    put(other, z="1")
    other.merge()
    other.export(tmp_path / "other")

    def cut(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    for name, first in (("u", "out"), ("v", "other")):
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(load.bronze, "create", cut)
            lake.import_topic(tmp_path / first, name=name)
        imported = lake.import_topic(tmp_path / "out", name=name)
        assert [(one.id, one.version) for one in imported.snapshots()] == [("0@2", 1)]
        with pytest.raises(Damaged, match="another log"):
            imported.snapshot("wrong", at=0)
        put(imported, c="1")
        imported.merge()
        imported.restore("0@2")
        assert (live(imported), imported.verify().problems) == ({"a": "1", "b": "1"}, [])
