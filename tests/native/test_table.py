"""Delta tables through delta-rs while others write them, and what their commits say."""

from __future__ import annotations

import datetime
import json
import random
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake

from lakelog import Lake
from lakelog.delta import errors
from lakelog.errors import UNSUPPORTED_FEATURE, Damaged, NotFound, NotReady
from lakelog.model.names import TableRef
from lakelog.native import log
from lakelog.native.rows import Record
from lakelog.native.stores import why_not
from lakelog.native.table import Table
from tests.conftest import Answer

BEGUN = datetime.datetime(2026, 5, 6, tzinfo=datetime.timezone.utc)


def commit(path: str, number: int) -> None:
    properties = CommitProperties(custom_metadata={"userMetadata": f"note {number}"})
    write_deltalake(path, pyarrow.table({"n": [number]}), mode="append", commit_properties=properties)


@pytest.fixture
def ref(tmp_path: Path) -> TableRef:
    """Four commits, each with a note."""
    path = str(tmp_path / "table")
    for number in range(4):
        commit(path, number)
    return TableRef(path)


def file_of(ref: TableRef, version: int) -> Path:
    return Path(ref.path or "", "_delta_log", f"{version:020}.json")


def notes(table: Table, limit: int) -> list[tuple[int, str | None]]:
    return [(one["version"], one["userMetadata"]) for one in table.history(limit)]


def test_commits_are_told_by_the_names_of_their_files(ref: TableRef) -> None:
    """Whatever was committed since the table was opened, or is none of this version's."""
    newest, older = Table(ref), Table(ref, 1)
    commit(ref.path or "", 4)
    assert notes(newest, 2) == [(3, "note 3"), (2, "note 2")] and notes(older, 9) == [(1, "note 1"), (0, "note 0")]
    file_of(ref, 5).write_text(json.dumps({"txn": {"appId": "another", "version": 1}}) + "\n")
    silent = Table(ref)
    assert notes(silent, 2) == [(5, None), (4, "note 4")], "a commit need not say anything"
    assert (silent.history(1)[0]["operation"], silent.committed()) == ("", file_of(ref, 5).stat().st_mtime_ns // 1_000_000 / 1000)
    DeltaTable(ref.path or "").create_checkpoint()
    file_of(ref, 5).unlink()
    assert (notes(Table(ref), 3), Table(ref).committed()) == ([(5, None)], None), "its file is no more, its checkpoint is"


@pytest.mark.parametrize("version", [4, 1_795_725_600, 2**70])
def test_a_version_beyond_the_newest_is_refused_at_once(ref: TableRef, version: int) -> None:
    """A time in seconds, say. delta-rs looked for all those before it."""
    with pytest.raises(NotFound, match=f"there is no version {version}.") as refused:
        Table(ref, version)
    assert (" Its versions are 0 to 3." in str(refused.value)) == (version < 1 << 63), "as through Spark"
    assert ("A time is written 2026-" in str(refused.value)) == (version > 4)


def test_a_checksum_without_its_commit_is_no_damage(ref: TableRef) -> None:
    """A listing of the folder sees it in this way while the commit is written; for good where the commit was taken away."""
    info = DeltaTable(ref.path or "")
    lines = [json.loads(line) for line in file_of(ref, 0).read_text().splitlines()]
    said = {name: next(line[name] for line in lines if name in line) for name in ("metaData", "protocol")}
    sizes = {"tableSizeBytes": 1, "numFiles": 4, "numMetadata": 1, "numProtocol": 1}
    file_of(ref, 4).with_suffix(".crc").write_text(json.dumps({**sizes, "metadata": said["metaData"], "protocol": said["protocol"]}))
    assert info.version() == Table(ref).version == 3


def test_a_lost_checkpoint_is_left_to_spark_and_a_broken_one_is_damage(ref: TableRef) -> None:
    """Spark goes on with an older one, or with the commits alone."""
    DeltaTable(ref.path or "").create_checkpoint()
    (file,) = Path(ref.path or "", "_delta_log").glob("*.checkpoint.parquet")
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(Damaged, match="missing or broken"):
        Table(ref)
    file.unlink()
    with pytest.raises(NotReady, match="_last_checkpoint in its Delta log names a checkpoint that is not there") as refused:
        Table(ref)
    assert refused.value.name == UNSUPPORTED_FEATURE
    file_of(ref, 2).unlink()
    Path(ref.path or "", "_delta_log", "_last_checkpoint").unlink()
    with pytest.raises(Damaged):
        Table(ref)


@pytest.mark.long
def test_the_command_line_asks_spark_for_what_delta_rs_cannot_read(lake: Lake, cli: Callable[..., Answer]) -> None:
    """A checkpoint that is gone, of which all commits are there; a text that is none, from a writer who cast octets."""
    topic = lake.create_topic("t", key="STRING", value="STRING")
    topic.append([{"key": "a", "value": "1"}])
    topic.merge()
    commands = ("latest t --json", "status t --json", "read t --json")
    whole = [cli(f"--root {lake.root} {command} --engine spark").out for command in commands]
    for table in ("silver", "bronze"):
        place = Path(lake.root, "t", table)
        DeltaTable(str(place)).create_checkpoint()
        (file,) = (place / "_delta_log").glob("*.checkpoint.parquet")
        file.unlink()
        assert [cli(f"--root {lake.root} {command}").out for command in commands] == whole
    refused = cli(f"--root {lake.root} latest t --engine native")
    assert (refused.code, UNSUPPORTED_FEATURE in refused.err) == (2, True), refused
    texts = lake.create_topic("texts", key="STRING", value="STRING")
    texts.append([{"key": "a", "value": "A"}])
    # As an append of before did that checked no texts.
    lake.spark.sql(f"UPDATE delta.`{lake.root}/texts/bronze` SET value = CAST(X'41FF' AS STRING) WHERE control IS NULL")
    shown = cli(f"--root {lake.root} read texts --format json")
    assert (shown.code, shown.out.count("A\ufffd")) == (0, 1), shown


def test_how_much_lies_within_thousands_of_spans(tmp_path: Path) -> None:
    dice, partitions = random.Random(5), 7_000
    rows = [(index, dice.randrange(20)) for index in range(partitions) for _ in range(3)]
    times = [BEGUN + datetime.timedelta(milliseconds=dice.randrange(10_000)) for _ in rows]
    ints = {
        name: pyarrow.array([row[place] for row in rows], kind) for name, place, kind in (("partition", 0, "int32"), ("offset", 1, "int64"))
    }
    columns = {**ints, "segment": pyarrow.array([0] * len(rows), "int64"), "control": pyarrow.nulls(len(rows), "string")}
    write_deltalake(str(tmp_path / "log"), pyarrow.table({**columns, "appended_at": pyarrow.array(times, pyarrow.timestamp("us", "UTC"))}))
    spans = [(f"group {number}", index, dice.randrange(20), 15) for number in range(2) for index in range(number, partitions, number + 1)]
    spans.append(("nothing", 0, 50, 60))
    wanted: dict[str, list[datetime.datetime]] = {}
    for name, index, low, high in spans:
        for (partition, offset), time in zip(rows[3 * index : 3 * index + 3], times[3 * index : 3 * index + 3], strict=True):
            if partition == index and low <= offset < high:
                wanted.setdefault(name, []).append(time)
    found = log.within(Table(TableRef(str(tmp_path / "log"))), spans)
    assert found == {name: (len(times), round(min(times).timestamp() * 1000)) for name, times in wanted.items()}


def test_what_a_link_stands_for_counts(tmp_path: Path) -> None:
    (tmp_path / "a%20b").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "a%20b")
    assert why_not(str(tmp_path / "link")).startswith("delta-rs takes % in the name of a folder")


@pytest.mark.parametrize("name", ["v%31", "b\\s"])
def test_a_table_behind_a_link_to_a_folder_that_delta_rs_reads_otherwise_is_left_to_spark(tmp_path: Path, name: str) -> None:
    """It followed the link, and read the table of another folder, or found none."""
    commit(str(tmp_path / "v1"), 1)
    commit(str(tmp_path / "made"), 2)
    (tmp_path / "made").rename(tmp_path / name)
    (tmp_path / "lake" / "orders").parent.mkdir()
    (tmp_path / "lake" / "orders").symlink_to(tmp_path / name)
    with pytest.raises(NotReady, match=f"delta-rs takes {re.escape(name[1])} in the name of a folder") as refused:
        Table(TableRef(str(tmp_path / "lake" / "orders")))
    assert refused.value.name == UNSUPPORTED_FEATURE


@pytest.mark.parametrize("sign", ["#", "?", "%20", "\\"])
def test_folders_whose_names_delta_rs_reads_otherwise_are_left_to_spark(sign: str) -> None:
    assert why_not(f"/lakes/a{sign}b").startswith(f"delta-rs takes {sign[0]} in the name of a folder")
    assert why_not(f"s3://bucket/a{sign}b") == why_not("/lakes/a b") == ""


def test_an_error_that_is_none_of_ours_needs_no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader of the output that went away, say."""
    for name in ("delta", "delta.exceptions", "pyspark"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(BrokenPipeError), errors.door("table"):
        raise BrokenPipeError


def test_a_record_has_its_values_by_name() -> None:
    record = Record((1, "x"), ["a", "b c"])
    assert (record.a, record["b c"], hasattr(record, "c"), record.asDict()) == (1, "x", False, {"a": 1, "b c": "x"})
