"""Files of a directory are taken once each, for good, whatever expires, is cleaned, killed or restored."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lakelog import InvalidRecords, Lake, NotFound, Refused, Topic
from lakelog.inputs.directory import listed
from lakelog.running_results import Taken
from lakelog.sources import directory
from lakelog.sources.append import append_from
from lakelog.sources.configured import DirectorySource
from tests.conftest import Clock
from tests.quality.folders import rows
from tests.quality.folders import write as suite

DAY = 86_400_000


def write(folder: Path, name: str, *keys: str, value: str = "x") -> Path:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps({"key": key, "value": value}) + "\n" for key in keys))
    return file


def keys(topic: Topic) -> list[str]:
    return [row["key"] for row in topic.read().orderBy("partition", "offset").collect()]


def names(taken: Taken) -> list[list[str]]:
    return [one.names for one in taken.batches]


@pytest.fixture
def inbox(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    return tmp_path / "in"


def test_a_file_is_taken_once_for_good(lake: Lake, clock: Clock, inbox: Path) -> None:
    topic = lake.create_topic("orders", key="STRING", value="STRING", config={"producer.id.expiration.ms": 1000, "segment.ms": DAY})
    source = DirectorySource(str(inbox))
    write(inbox, "b.ndjson", "b1", "b2")
    write(inbox, "a.ndjson", "a1")
    write(inbox, "c.ndjson.tmp", "no")
    write(inbox, "_d.ndjson", "no")
    write(inbox, ".e.ndjson", "no")
    write(inbox, "f.ndjson.part", "no")
    write(inbox, "h.ndjson._COPYING_", "no")
    write(inbox, "empty.ndjson")
    write(inbox, "below/g.ndjson", "no")
    first = append_from(topic, [source])[0]

    assert (first.files, first.records, first.known, first.offsets) == (2, 3, 0, {0: (0, 3)})
    assert names(first) == [["a.ndjson", "b.ndjson"]]
    assert first.passed_over == [".e.ndjson", "_d.ndjson", "c.ndjson.tmp", "empty.ndjson", "f.ndjson.part", "h.ndjson._COPYING_"]
    assert first.octets == sum((inbox / name).stat().st_size for name in ("a.ndjson", "b.ndjson"))

    # Tokens are long forgotten, and the log was cleaned and cut off.
    topic.append([{"key": "a1", "value": "new"}, {"key": "b1", "value": "new"}])
    clock.tick(30 * DAY)
    (inbox / "c.ndjson.tmp").rename(inbox / "c.ndjson")
    write(inbox, "0.ndjson", "late")
    os.utime(inbox / "a.ndjson")
    second = append_from(topic, [source])[0]
    assert (names(second), second.known) == ([["0.ndjson", "c.ndjson"]], 2)
    topic.merge()
    topic.snapshot("friday")
    clock.tick(30 * DAY)
    assert topic.clean(force=True).records == 2
    topic.truncate("friday")
    third = append_from(topic, [source])[0]
    assert (third.files, third.records, third.known, third.offsets) == (0, 0, 4, {})
    assert topic.ends() == {0: 7}
    assert topic.verify().problems == []


@pytest.mark.long
def test_a_file_whose_rest_cannot_be_read_is_not_taken_where_records_are_put_aside(lake: Lake, inbox: Path) -> None:
    suites = suite(inbox.parent / "suites", "orders", append=[rows("any", "true")])
    config = {"quality.suites": suites, "quality.on.failure": "quarantine"}
    topic, source = lake.create_topic("orders", key="STRING", value="STRING", config=config), DirectorySource(str(inbox))
    (inbox / "a.csv").write_text("key,value\na1,x\na2,x,y\n")
    (inbox / "b.csv").write_text('key,value\nb1,"x" y\nb2,x\n')
    with pytest.raises(InvalidRecords, match=r"b\.csv, line 2: is not CSV.*mend the file, or leave it out") as wrong:
        append_from(topic, [source])
    assert "taken" in wrong.value.details
    assert (keys(topic), [row["raw"] for row in topic.quarantined().collect()]) == (["a1"], ["a2,x,y"])
    (inbox / "b.csv").write_text('key,value\nb1,"x y"\nb2,x\n')
    done = append_from(topic, [source])[0]
    assert (names(done), done.known, keys(topic)) == ([["b.csv"]], 1, ["a1", "b1", "b2"])


@pytest.mark.long
def test_a_file_that_changed_is_named_and_nothing_is_written(lake: Lake, inbox: Path) -> None:
    topic = lake.create_topic("orders", key="STRING", value="STRING")
    source = DirectorySource(str(inbox))
    write(inbox, "a.ndjson", "a1")
    append_from(topic, [source])
    write(inbox, "a.ndjson", "a2")
    write(inbox, "b.ndjson", "b1")
    with pytest.raises(Refused, match=r"/in/a\.ndjson is no longer the file .* another name") as refused:
        append_from(topic, [DirectorySource(str(inbox), name="other", pattern="b*"), source])
    assert refused.value.name == "SOURCE_FILE_CHANGED"
    assert topic.ends() == {0: 1}

    # Either remedy works.
    (inbox / "a.ndjson").rename(inbox / "a2.ndjson")
    write(inbox, "a.ndjson", "a1")
    assert names(append_from(topic, [source])[0]) == [["a2.ndjson", "b.ndjson"]]
    assert keys(topic) == ["a1", "a2", "b1"]

    # A bad record refuses its batch; what was taken before it stays, and is not taken again.
    (inbox / "c d.ndjson").write_text('{"key": "c"}\n{"key"')
    write(inbox, "c.ndjson", "c1")
    with pytest.raises(InvalidRecords, match=r"c d\.ndjson, line 2") as wrong:
        append_from(topic, [source])
    assert "taken" in wrong.value.details
    (inbox / "c d.ndjson").write_text('{"key": "c", "tombstone": true}\n')
    done = append_from(topic, [source])[0]
    assert names(done) == [["c d.ndjson"], ["c.ndjson"]]
    assert (done.known, topic.ends()) == (3, {0: 5})

    # Somebody writes while it is read.
    growing = write(inbox, "e.ndjson", "e1")
    from lakelog.inputs import staging

    staged = staging.staged

    def while_it_grows(*given: object, **named: object) -> object:
        batch = staged(*given, **named)  # type: ignore[arg-type]
        growing.write_text(growing.read_text() * 2)
        return batch

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(staging, "staged", while_it_grows)
        with pytest.raises(Refused, match=r"e\.ndjson was changed while it was read") as refused:
            append_from(topic, [source])
    assert topic.ends() == {0: 5}
    assert append_from(topic, [source])[0].records == 2


@pytest.mark.long
def test_a_restore_rewinds_the_ledger_with_the_records_it_cut(lake: Lake, clock: Clock, inbox: Path) -> None:
    topic = lake.create_topic("orders", key="STRING", value="STRING", partitions=2)
    source = DirectorySource(str(inbox))
    write(inbox, "a.ndjson", *[f"a{n}" for n in range(20)])
    append_from(topic, [source])
    topic.merge()
    topic.snapshot("before")
    write(inbox, "b.ndjson", "b1")
    append_from(topic, [source])
    write(inbox, "c.ndjson", *[f"c{n}" for n in range(20)])
    append_from(topic, [source])
    topic.merge()
    clock.tick(1000)
    topic.restore("before", log="keep")
    topic.merge()
    assert append_from(topic, [source])[0].files == 0
    topic.restore("before", log="truncate")
    again = append_from(topic, [source])[0]

    assert (names(again), again.known) == ([["b.ndjson", "c.ndjson"]], 1)
    assert sorted(keys(topic)) == sorted([f"a{n}" for n in range(20)] + ["b1"] + [f"c{n}" for n in range(20)])
    assert append_from(topic, [source])[0].files == 0
    topic.merge()
    assert topic.verify().problems == []


@pytest.mark.soak
def test_a_restore_to_a_newer_snapshot_brings_the_ledger_back(lake: Lake, clock: Clock, inbox: Path) -> None:
    topic = lake.create_topic("orders", key="STRING", value="STRING")
    source = DirectorySource(str(inbox))
    for name in ("a", "b"):
        write(inbox, f"{name}.ndjson", name)
        append_from(topic, [source])
        topic.merge()
        topic.snapshot(f"with_{name}")
    topic.restore("with_a")
    topic.restore("with_b")
    assert append_from(topic, [source])[0].files == 0
    # Taken again in another branch of the log: each snapshot knows its own.
    topic.restore("with_a")
    write(inbox, "c.ndjson", "c")
    assert names(append_from(topic, [source])[0]) == [["b.ndjson", "c.ndjson"]]
    topic.merge()
    topic.snapshot("with_c")
    topic.restore("with_b")
    assert names(append_from(topic, [source])[0]) == [["c.ndjson"]]
    topic.restore("with_c")
    assert append_from(topic, [source])[0].files == 0
    topic.merge()
    assert sorted(row["key"] for row in topic.latest().collect()) == ["a", "b", "c"]


@pytest.mark.long
def test_names_of_every_kind_and_links(lake: Lake, inbox: Path) -> None:
    """Spark takes some of these for patterns, or shows them otherwise than they are written."""
    topic = lake.create_topic("orders", key="STRING", value="STRING")
    plain, odd = ["a.ndjson", "b.ndjson"], ["a b.ndjson", "a?.ndjson", "[a].ndjson", "{a,b}.ndjson", "100%.ndjson", "c d/[e]/*.ndjson"]
    for name in (*plain, *odd):
        write(inbox, name, name)
    (inbox / "c d" / "loop").symlink_to(inbox)
    (inbox / "x.csv").write_text("key,value\nx.csv,1\n")
    (inbox / "[x] y.csv").write_text("key,value\n[x] y.csv,1\n")
    done = append_from(topic, [DirectorySource(str(inbox), recursive=True)])[0]
    assert (done.files, done.records) == (10, 10)
    assert sorted(keys(topic)) == sorted([*plain, *odd, "x.csv", "[x] y.csv"])
    assert append_from(topic, [DirectorySource(str(inbox), recursive=True)])[0].files == 0


def test_what_goes_into_one_append(lake: Lake, inbox: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = lake.create_topic("orders", key="STRING", value="STRING")
    monkeypatch.setattr(directory, "BATCH_FILES", 2)
    for name in ("1.ndjson", "2.ndjson", "3.ndjson"):
        write(inbox, name, name)
    for name, text in {
        "4.csv": "key,value\nd,1\n",
        "5.csv": "key,value\ne,1\n",
        "6.csv": "value,key\n1,f\n",
        "7.txt": "key;value\ng;1\n",
    }.items():
        (inbox / name).write_text(text)
    write(inbox, "deep/8.ndjson", "h")
    told: list[tuple[int, int]] = []
    done = append_from(
        topic,
        [
            DirectorySource(str(inbox), pattern="[1-6].*"),
            DirectorySource(str(inbox), name="notes", pattern="7*", format="csv", delimiter=";"),
            DirectorySource(str(inbox), name="deep", recursive=True, pattern="8*"),
        ],
        tell=lambda count, total: told.append((count, total)),
    )
    assert names(done[0]) == [["1.ndjson", "2.ndjson"], ["3.ndjson"], ["4.csv", "5.csv"], ["6.csv"]]
    assert told[:4] == [(2, 6), (3, 6), (5, 6), (6, 6)]
    assert names(done[2]) == [["deep/8.ndjson"]]
    assert [row["key"] for row in topic.read().orderBy("offset").collect()] == ["1.ndjson", "2.ndjson", "3.ndjson", "d", "e", "f", "g", "h"]
    with pytest.raises(NotFound, match="there is no such directory"):
        append_from(topic, [DirectorySource(str(inbox / "nowhere"))])


def test_files_that_begin_with_a_blank_line_are_taken_alone(inbox: Path) -> None:
    """Their first line does not tell whether they have the same columns."""
    for number, start in enumerate(("\n", "\n", " \r\n", "\ufeff\n", "\ufeff\n", "key,value\n", "key,value\n")):
        (inbox / f"{number}.csv").write_text(f"{start}key,value\na,1\n")
    topic: Any = SimpleNamespace(config=SimpleNamespace(text=lambda name: ""))
    found = directory._batches(topic, DirectorySource(str(inbox)), listed(str(inbox), recursive=False))
    assert [list(one) for one in found] == [["0.csv"], ["1.csv"], ["2.csv"], ["3.csv"], ["4.csv"], ["5.csv", "6.csv"]]


def test_two_at_once_take_each_file_once(lake: Lake, inbox: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other process takes files between our look and our commit."""
    topic, other = lake.create_topic("orders", key="STRING", value="STRING"), lake.topic("orders")
    source = DirectorySource(str(inbox))
    for name in ("a", "b", "c"):
        write(inbox, f"{name}.ndjson", name)
    looked, raced = directory.look, []

    def slowly(*given: object) -> directory.Listing:
        found = looked(*given)  # type: ignore[arg-type]
        if not raced:
            raced.append(True)
            (inbox / "c.ndjson").rename(inbox / "c.tmp")
            assert append_from(other, [source])[0].files == 2
            (inbox / "c.tmp").rename(inbox / "c.ndjson")
        return found

    monkeypatch.setattr(directory, "look", slowly)
    mine = append_from(topic, [source])[0]
    assert (names(mine), mine.known) == ([["c.ndjson"]], 2)
    assert keys(topic) == ["a", "b", "c"]


@pytest.mark.long
def test_a_directory_is_the_same_however_its_path_is_written(lake: Lake, inbox: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = lake.create_topic("orders", key="STRING", value="STRING")
    write(inbox, "a.ndjson", "a")
    ways = [DirectorySource(f"{scheme}{inbox}") for scheme in ("file://", "file:", "")]
    # What was taken when the path was a part of the identity as it was written is known too.
    with monkeypatch.context() as patch:
        patch.setattr(DirectorySource, "identity", property(lambda source: f"directory {source.directory}"))
        append_from(topic, ways[:1])
    for source in ways:
        assert append_from(topic, [source])[0].known == 1
    write(inbox, "b.ndjson", "b")
    assert [append_from(topic, [source])[0].files for source in ways] == [1, 0, 0]
    assert keys(topic) == ["a", "b"]
