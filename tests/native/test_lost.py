"""A topic whose log was taken away, data files that are gone: every command names what is missing, and doctor finds it. Without Spark."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow
import pytest
from deltalake import write_deltalake

from lakelog import Damaged, Lake, TopicNotFound
from lakelog.delta.errors import damaged
from lakelog.log import inspection as through_spark
from lakelog.model.names import TableRef
from lakelog.native import inspection
from lakelog.native.table import Table
from tests.cli.test_roots import NO_SPARK
from tests.conftest import Answer
from tests.native.damages import UNREADABLE, commits, data_files, deleted, restored_to_now, rows_like
from tests.native.test_native import root  # noqa: F401
from tests.races.processes import REPOSITORY

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Cli = Callable[..., Answer]


@pytest.fixture
def lake(root: str, tmp_path: Path) -> Iterator[Path]:  # noqa: F811
    """A copy of a lake with one topic, orders."""
    yield Path(shutil.copytree(root, tmp_path / "lake"))


def checks(cli: Cli, lake: Path) -> dict[str, tuple[str, str]]:
    told = json.loads(cli(f"--root {lake} doctor --json").out)["checks"]
    return {one["name"]: (one["state"], f"{one['found']}. {one['todo']}") for one in told}


def test_a_topic_whose_log_is_gone_is_named_by_every_command(lake: Path, cli: Cli) -> None:
    assert checks(cli, lake)["topics"] == ("ok", "1 topic. ")
    shutil.rmtree(lake / "orders" / "bronze")
    assert cli(f"--root {lake} topic list").out == "orders\n"
    for command in (
        "status",
        "status orders",
        "lag",
        "lag orders",
        "latest orders",
        "read orders",
        "topic describe orders",
        "snapshot list orders",
    ):
        answer = cli(f"--root {lake} {command}")
        assert answer.code == 5, (command, answer)
        assert "Error (UNKNOWN_TOPIC): The topic orders is listed in " in answer.err, command
        assert "Put it back from a copy, or take it off the list: `lakelog topic delete`." in answer.err, command
    for query in ("SELECT * FROM orders", "DESCRIBE orders_log"):
        answer = cli(["--root", str(lake), "sql", "--engine", "duckdb", query])
        assert (answer.code, "(UNKNOWN_TOPIC): The topic orders is listed in " in answer.err) == (5, True), answer
    assert cli(["--root", str(lake), "sql", "--engine", "duckdb", "SELECT orders.a FROM (SELECT 1 AS a) orders"]).code == 0
    for command in ("status", "lag"):
        (entry,) = json.loads(cli(f"--root {lake} {command} --json").out)["topics"]
        assert (entry["topic"], entry["error"]) == ("orders", "UNKNOWN_TOPIC")
    with pytest.raises(TopicNotFound, match="is listed in"):
        Lake(str(lake)).topic("orders")
    state, told = checks(cli, lake)["topic orders"]
    assert state == "fail" and "is listed in" in told and "Put it back from a copy" in told
    assert cli(f"--root {lake} doctor").code == 2


@pytest.mark.parametrize(("table", "remedy"), [("bronze", ""), ("silver", "run `lakelog merge orders --rebuild` once")])
def test_a_data_file_that_is_gone_is_named_with_what_to_do(lake: Path, table: str, remedy: str, cli: Cli) -> None:
    lost = [file for file in data_files(lake / "orders" / table) if "=-" not in file.parent.name][0]
    lost.unlink()
    verb = "read" if table == "bronze" else "latest"
    answer = cli(f"--root {lake} {verb} orders")
    assert answer.code == 70
    assert (
        f"orders/{table}: {lost.relative_to(lake / 'orders' / table)} is missing. A file of the table is missing or broken: " in answer.err
    )
    assert "put it back from a copy before going on." in answer.err and remedy in answer.err
    with pytest.raises(Damaged, match="is missing"):
        Lake(str(lake)).topic("orders").require_whole()  # type: ignore[attr-defined]
    state, told = checks(cli, lake)["topic orders"]
    assert state == "fail" and lost.name in told and remedy in told


def test_a_broken_file_and_a_log_that_ends_too_early_are_found(lake: Path, cli: Cli) -> None:
    (broken,) = [file for file in data_files(lake / "orders" / "silver") if "=-" not in file.parent.name][:1]
    whole = broken.read_bytes()
    broken.write_bytes(whole[:-1])
    state, told = checks(cli, lake)["topic orders"]
    assert (state, f"{broken.name} is broken: it has {len(whole) - 1} octets of {len(whole)}" in told) == ("fail", True), told
    broken.write_bytes(whole)
    assert checks(cli, lake)["topics"][0] == "ok"
    # The append that the latest table holds, and the one after it.
    for file in commits(lake / "orders" / "bronze")[1:]:
        file.unlink()
    state, told = checks(cli, Path(f"file://{lake}"))["topic orders"]
    assert (state, "its log ends at 0: the log lost records. Run `lakelog verify orders --repair`" in told) == ("fail", True), told


def test_a_damaged_topic_hides_no_other_from_lag(lake: Path, cli: Cli) -> None:
    commits(lake / "orders" / "bronze")[0].write_text("{")
    for command in ("lag", "status"):
        answer = cli(f"--root {lake} {command} --json")
        assert (answer.code, [one["error"] for one in json.loads(answer.out)["topics"]]) == (70, ["DAMAGED"])


@pytest.mark.parametrize("damage", UNREADABLE)
def test_what_somebody_else_wrote_in_place_of_lakelogs_is_damage(damage: str, lake: Path, cli: Cli) -> None:
    """Control rows, properties and whole tables: what is wrong is named with its table and the remedy."""
    UNREADABLE[damage](lake, lake / "orders")
    kind = damage.split("-")[0]
    place = {"silver": lake / "orders" / "silver", "lake": lake / "_lakelog" / "runs"}.get(kind, lake / "orders" / "bronze")
    remedy = "verify orders --repair" if kind == "silver" else "ALTER TABLE"
    for command in (
        "status orders",
        "latest orders",
        *([] if kind == "silver" else ["read orders", "lag orders", "topic describe orders"]),
    ):
        answer = cli(f"--root {lake} {command}")
        assert (answer.code, "(DAMAGED)" in answer.err) == (70, True), (command, answer)
        assert str(place) in answer.err and remedy in answer.err, (command, answer.err)


@pytest.mark.long
@pytest.mark.parametrize("damage", UNREADABLE)
def test_both_engines_say_the_same_of_it(damage: str, lake: Path, cli: Cli) -> None:
    UNREADABLE[damage](lake, lake / "orders")
    for command in ("status orders --json", "latest orders --json"):
        native, through_spark = (cli(f"--root {lake} {command} --engine {engine}") for engine in ("native", "spark"))
        assert (native.code, native.out) == (through_spark.code, through_spark.out), command
        assert native.code == 70, (command, native)


@pytest.fixture
def readable(root: str) -> Iterator[Path]:  # noqa: F811
    """A copy that everybody may read."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        os.chmod(folder, 0o755)
        yield Path(shutil.copytree(root, Path(folder, "lake")))


@pytest.mark.parametrize(
    "closed", ["", "_lakelog", "orders", "orders/bronze", "orders/silver", "orders/silver/_delta_log", "orders/silver/bucket=0"]
)
def test_what_nobody_may_look_at_is_not_told_as_lost(closed: str, readable: Path) -> None:
    (readable / closed).chmod(0)
    other = ["nobody"] if os.geteuid() == 0 else []
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "LAKELOG_CACHE": str(readable.parent)}
    for command in ("doctor", "latest orders", "status", "lag", "topic list"):
        answer = subprocess.run(
            [sys.executable, "-c", NO_SPARK, *other, *command.split(), "--root", str(readable)],
            cwd="/", env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        told = answer.stdout + answer.stderr
        assert not re.search("UNEXPECTED|Traceback|is missing|DAMAGED|topic delete|--rebuild", told), (command, told)
        if command == "doctor":
            assert "Permission denied" in told
            continue
        # These two look elsewhere.
        needless = (command == "topic list" and closed.startswith("orders")) or (command == "lag" and "silver" in closed)
        assert (answer.returncode, "Permission denied" in told) == ((0, False) if needless else (2, True)), (command, told)
    (readable / closed).chmod(0o755)


def test_a_folder_that_is_no_lake_says_what_is_missing(lake: Path, cli: Cli) -> None:
    for folder, says in (
        (lake / "nowhere", "is not a lake: there is no such folder. `lakelog topic create` makes it one."),
        (lake.parent, f"is not a lake; lake in it is one: name {lake}"),
        (lake / "orders", f"is not a lake, but within one: name {lake}"),
    ):
        answer = cli(f"--root {folder} topic list")
        assert (answer.code, answer.err) == (5, f"Error (NOT_A_LAKE): {folder} {says}\n")
    assert checks(cli, lake.parent)["root"] == ("fail", f"{lake.parent} is not a lake; lake in it is one: name {lake}. ")
    shutil.rmtree(lake / "_lakelog" / "runs")
    answer = cli(f"--root {lake} topic list")
    assert (answer.code, f"{lake} is not a lake any more: it holds the topic orders, but not _lakelog/runs" in answer.err) == (5, True)
    write_deltalake(str(lake.parent / "medallion" / "sales" / "bronze"), pyarrow.table({"n": [1]}))
    answer = cli(f"--root {lake.parent / 'medallion'} topic list")
    assert "medallion is not a lake, and not empty. Name the root of a lake, or a new or empty folder." in answer.err


def test_the_remedy_is_told_by_the_table_and_not_by_the_name_of_a_folder() -> None:
    for table, found, advised in (
        (TableRef.of("/data/silver/lake", "t", "bronze"), "/data/silver/lake/t/bronze/x.parquet is missing", False),
        (TableRef.of("main.silver", "t", "silver"), "x", True), (TableRef.of("/lake", "silver", "bronze"), "x", False),
        ("quicksilver", "/lake/quicksilver/bronze/x.parquet is missing", False), ("/data/silver", "x", False),
        ("orders", "/data/bronze/orders/silver/bucket=0/x.parquet is missing", True),
    ):  # fmt: skip
        assert ("run merge with rebuild once" in str(damaged(table, found))) is advised, table


# What somebody does to the log of orders before it is restored to a time, and what is wrong with it then, of each partition.
BY_HAND: dict[str, tuple[Callable[[Path], None], str]] = {
    "nothing": (lambda bronze: None, ""),
    "a record is gone": (lambda bronze: deleted(bronze, "partition = 0 AND \"offset\" = 1 AND control IS NULL"), "records of its batches are missing"),
    "an append is gone": (lambda bronze: deleted(bronze, "partition = 1 AND segment >= 0 AND \"offset\" = 0"), "whole appends are missing"),
    "a batch row is gone": (lambda bronze: deleted(bronze, "partition = 1 AND \"offset\" = 0 AND control IS NOT NULL"), "whose batch rows are missing"),
    "a record without a batch": (lambda bronze: rows_like(bronze, partition=0, segment=0, offset=1, tombstone=False), "carry no batch"),
    "an offset given twice": (lambda bronze: rows_like(bronze, partition=0, segment=0, offset=1, epoch=0, batch="x"), "1 offsets were given twice"),
    "another partition": (lambda bronze: rows_like(bronze, partition=7, segment=0, offset=0, epoch=0, batch="x"), "there is no such partition"),
    "no state": (lambda bronze: deleted(bronze, "partition = 1 AND segment = -1"), "there is no state row"),
}  # fmt: skip


LEFT = r"another writer changed the log: version \d+ of .* by delta-rs.*A RESTORE to a time came after it, and may have left it\."


def test_what_a_log_restored_by_hand_to_a_time_may_have_left_is_named(lake: Path, cli: Cli) -> None:
    """That RESTORE took back nothing that gave offsets, but a DELETE of before stands, and no time hides it."""
    bronze = lake / "orders" / "bronze"
    restored_to_now(bronze)
    assert Lake(str(lake)).topic("orders").ends() == {0: 3, 1: 2}
    deleted(bronze, '"offset" = 0 AND control IS NULL')
    restored_to_now(bronze)
    for command in ("status", "read", "lag"):
        answer = cli(f"--root {lake} {command} orders{' --offset 0' if command == 'read' else ''} --engine native")
        assert answer.code == 70 and re.search(LEFT, answer.err), (command, answer)


@pytest.mark.long
def test_what_is_wrong_with_a_log_is_told_as_through_spark(root: str, tmp_path: Path, spark: SparkSession) -> None:  # noqa: F811
    for number, (damage, wrong) in enumerate(BY_HAND.values()):
        copy = Path(shutil.copytree(root, tmp_path / f"lake{number}"))
        topic = Lake(spark, str(copy)).topic("orders")
        damage(copy / "orders" / "bronze")
        found = inspection.problems(Table(TableRef(str(copy / "orders" / "bronze"))), topic.partitions)
        assert found == through_spark.problems(topic.log)[1]
        assert wrong in "; ".join(found) and bool(wrong) == bool(found), (wrong, found)
        restored_to_now(copy / "orders" / "bronze")
        for one in (Lake(str(copy)), Lake(spark, str(copy))):
            if wrong:
                with pytest.raises(Damaged, match=LEFT):
                    one.topic("orders").ends()
            else:
                assert one.topic("orders").ends() == {0: 3, 1: 2}
