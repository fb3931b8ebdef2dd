"""A topic exported at a snapshot and imported under another root is the same topic: rows, log, offsets, epochs, settings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakelog import Damaged, InvalidRequest, Lake, NotFound, Topic
from lakelog.transfer import manifest
from tests.conftest import NOON
from tests.laws import topics
from tests.oracle import Model
from tests.races.operations import KIND, LATER, MERGED, MORE, WAITING, create, holds, records


def as_it_is(topic: Topic) -> tuple[object, ...]:
    """All that an import must have of the original."""
    settings = [(one["name"], one["value"]) for one in topic.describe().config]
    start = topic.bootstrap("s").position
    tail = topics.log(topic.read(since=start).records)
    return topics.silver(topic), tail, start.offsets, topic.ends(), topic.status().epoch, str(topic.rule), settings, topic.describe().value


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
