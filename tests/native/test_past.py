"""Earlier versions of the latest table without a JVM: read while their files are kept, and then refused as through Spark."""

from __future__ import annotations

import datetime
import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow
import pytest
from deltalake import DeltaTable, write_deltalake

from lakelog import Damaged, Lake, NotFound
from lakelog.model.names import TableRef
from lakelog.native import past
from lakelog.native.table import Table
from tests.conftest import Answer
from tests.native.damages import commits, configured, data_files, three_versions
from tests.snapshots.test_kept import aged
from tests.snapshots.test_snapshots import DAY, put, topic

if TYPE_CHECKING:
    from tests.conftest import Clock


@pytest.fixture
def table(tmp_path: Path) -> TableRef:
    return three_versions(tmp_path / "table")


def now() -> int:
    return round(1000 * time.time())


@pytest.mark.parametrize(
    ("text", "expected"),
    [("interval 86400 seconds", 86_400), ("interval 1 week", 604_800), ("INTERVAL 2 Days 1 hour", 176_400), ("3 minutes", 180),
     ("interval 1 month", None), ("", None), ("interval", None)],
)  # fmt: skip
def test_the_length_of_an_interval(text: str, expected: int | None) -> None:
    assert past.seconds(text) == expected


def test_a_version_older_than_removed_files_are_kept_is_refused_unless_it_is_the_newest(table: TableRef) -> None:
    day_and_more = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(hours=30)
    for point in (0, 1, day_and_more):
        with pytest.raises(NotFound, match="cannot be read any more or does not exist.*86400 seconds") as refused:
            past.table_at(table, point, now=now())
        assert refused.value.name == "SNAPSHOT_NOT_FOUND"
    assert past.table_at(table, 1, now=now() - 3 * DAY // 2).records("SELECT n FROM t") == [{"n": 1}], (
        "as it was half a day after the commit"
    )
    for point in (2, datetime.datetime.now(datetime.timezone.utc)):
        assert past.table_at(table, point, now=now() + 90 * DAY).version == 2
    # A snapshot that is registered is opened without a look at the retention.
    assert Table(table, 0).records("SELECT n FROM t") == [{"n": 0}]


def test_a_file_that_is_missing_is_damage_of_the_newest_version_alone(table: TableRef) -> None:
    for file in data_files(Path(table.path or "")):
        file.unlink()
    for at in (0, 1):
        with pytest.raises(NotFound, match=f"cannot be read any more or does not exist: files of version {at} were removed") as refused:
            Table(table, at).records("SELECT n FROM t")
        assert refused.value.name == "SNAPSHOT_NOT_FOUND"
    for newest in (None, 2):
        with pytest.raises(Damaged, match="missing or broken"):
            Table(table, newest).records("SELECT n FROM t")


def test_a_file_that_the_newest_version_needs_as_well_is_damage_of_the_older_ones(table: TableRef) -> None:
    write_deltalake(table.path or "", pyarrow.table({"n": [3]}), mode="append")
    for file in data_files(Path(table.path or "")):
        file.unlink()
    for at, wrong in ((1, NotFound), (2, Damaged)):
        with pytest.raises(wrong, match="files of version 1 were removed" if at == 1 else "is missing"):
            Table(table, at).records("SELECT n FROM t")


def test_a_version_whose_commit_file_is_gone_is_read_from_its_checkpoint(table: TableRef) -> None:
    DeltaTable(table.path or "", version=1).create_checkpoint()
    for version in (0, 1):
        Path(table.path or "", "_delta_log", f"{version:020}.json").unlink()
    assert past.table_at(table, 1, now=now()).records("SELECT n FROM t") == [{"n": 1}], "when it was committed is not known"


@pytest.mark.parametrize("begun", [None, 1])
def test_a_table_that_keeps_the_times_of_its_commits_goes_by_them(table: TableRef, begun: int | None) -> None:
    """From the version on at which that was turned on; its files have the times at which they were copied."""
    path, now = Path(table.path or ""), round(1000 * time.time())
    times = {version: now - (3 - version) * DAY + 7 for version in range(3)}
    for file in commits(path):
        version = int(file.stem)
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        for line in lines:
            if "commitInfo" in line and version >= (begun or 0):
                line["commitInfo"]["inCommitTimestamp"] = times[version]
        file.write_text("".join(json.dumps(line) + "\n" for line in sorted(lines, key=lambda line: "commitInfo" not in line)))
    configured(path, "delta.enableInCommitTimestamps", "true")
    if begun is not None:
        configured(path, "delta.inCommitTimestampEnablementVersion", str(begun))
        configured(path, "delta.inCommitTimestampEnablementTimestamp", str(times[begun]))
    for file in commits(path):
        when = times[0] / 1000 if int(file.stem) < (begun or 0) else now / 1000 + 60
        os.utime(file, (when, when))
    for version, when in times.items():
        for later in (0, DAY - 1):
            at = datetime.datetime.fromtimestamp((when + later) / 1000, tz=datetime.timezone.utc)
            assert Table(table).version_at(at) == version, (version, later)
    with pytest.raises(NotFound, match="its versions go back to"):
        Table(table).version_at(datetime.datetime.fromtimestamp((times[0] - 2) / 1000, tz=datetime.timezone.utc))
    configured(path, "delta.enableInCommitTimestamps", "false")
    for file in commits(path):
        os.utime(file, (now / 1000 + 60, now / 1000 + 60))
    with pytest.raises(NotFound, match="its versions go back to"):
        Table(table).version_at(datetime.datetime.fromtimestamp(times[2] / 1000, tz=datetime.timezone.utc))


@pytest.mark.long
def test_both_engines_go_by_the_times_that_commits_keep(lake: Lake, cli: Callable[..., Answer], tmp_path: Path) -> None:
    """Kept from a version in the middle on, in a lake that was copied with other times of its files."""
    orders = topic(lake)
    put(orders, a="1")
    orders.merge()
    lake.spark.sql(f"ALTER TABLE {orders.silver.sql()} SET TBLPROPERTIES ('delta.enableInCommitTimestamps' = 'true')")
    put(orders, a="2")
    orders.merge()
    copied = Path(shutil.copytree(lake.root, tmp_path / "copied"))
    files = commits(copied / "t" / "silver")
    begun = next(int(file.stem) for file in files if "delta.inCommitTimestampEnablementVersion" in file.read_text())
    first, last = (json.loads(files[place].read_text().splitlines()[0])["commitInfo"]["inCommitTimestamp"] for place in (begun, -1))
    assert 0 < begun < int(files[-1].stem)
    for file in files:
        when = (first if int(file.stem) < begun else last) / 1000 + 3600
        os.utime(file, (when, when))
    for at, code in ((first - 1, 5), (first, 0), (last - 1, 0), (last, 0)):
        text = datetime.datetime.fromtimestamp(at / 1000, tz=datetime.timezone.utc).isoformat()
        native, through_spark = (cli(f"--root {copied} latest t --at {text} --json --engine {engine}") for engine in ("native", "spark"))
        assert (native.code, through_spark.code) == (code, code), (at, native, through_spark)
        assert native.out == through_spark.out or code, at


@pytest.mark.long
def test_both_engines_refuse_the_same_versions(lake: Lake, clock: Clock, cli: Callable[..., Answer]) -> None:
    orders = topic(lake, **{"snapshot.retention.ms": DAY})
    put(orders, a="1")
    orders.snapshot("kept", keep="9000 days")
    put(orders, a="2")
    orders.merge()
    short = "'delta.logRetentionDuration' = 'interval 1 days', 'delta.deletedFileRetentionDuration' = 'interval 1 days'"
    lake.spark.sql(f"ALTER TABLE {orders.silver.sql()} SET TBLPROPERTIES ({short})")
    lake = aged(lake, clock, 30)
    newest = Table(lake.topic("t").silver).version
    old = (datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(days=29)).isoformat()
    for at, code in (("1", 5), (str(newest - 1), 5), (str(newest), 0), ("kept", 0), (old, 0), ("2001-01-01", 5)):
        native, through_spark = (cli(f"--root {lake.root} latest t --at {at} --json --engine {engine}") for engine in ("native", "spark"))
        assert (native.code, through_spark.code) == (code, code), (at, native, through_spark)
        same = ("SNAPSHOT_NOT_FOUND" in native.out, "SNAPSHOT_NOT_FOUND" in through_spark.out) if code else (native.out, through_spark.out)
        assert same[0] == same[1] and same[0], at
    orders = lake.topic("t")
    kept, asked = orders.latest(at="kept"), lake.sql("SELECT value FROM t", at="kept")
    for at in (1, newest - 1):
        with pytest.raises(NotFound, match="cannot be read any more"):
            orders.latest(at=at).collect()
    # Rows of a kept one may be asked for later.
    assert [row["value"] for row in (*kept.collect(), *kept.filter("value > 0").collect(), *asked.collect())] == ["1"] * 3
