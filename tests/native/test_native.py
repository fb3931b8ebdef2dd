"""Reading without a JVM: from Python without a session, and as commands that start no Java."""

from __future__ import annotations

import datetime
import json
import os
import random
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas
import psutil
import pytest
from deltalake import DeltaTable

from lakelog import Damaged, InvalidRequest, Lake, NotFound, NotReady, TopicNotFound
from lakelog.model.names import TableRef
from lakelog.native import log, table
from lakelog.native.query import connection as duckdb_connection
from tests.conftest import NOON, Answer
from tests.native.damages import commits, data_files
from tests.races.processes import REPOSITORY

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AT = datetime.datetime(2026, 5, 6, 12, 0, 0, 1, datetime.timezone.utc)
READING = ("topic list", "topic describe orders", "lake describe", "status", "latest orders", "latest orders --deleted --json", "read orders",
           "latest orders --at 0", "lag", "lag orders --cleaning", "snapshot list", "snapshot describe orders first", "latest orders --at first",
           "status --html page.html", "sql --engine duckdb 'select * from orders'", "shell")  # fmt: skip
SCRIPT = "status orders\nSELECT count(*) AS n FROM orders_log;\nlag orders\n"


@pytest.fixture(scope="module")
def root(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A lake with one topic: two live keys, a deleted one, and a record that waits for a merge."""
    folder = str(tmp_path_factory.mktemp("native") / "lake")
    orders = Lake(spark, folder, clock=lambda: NOON).create_topic(
        "orders", key="id INT", value="price DECIMAL(5,2), at TIMESTAMP", partitions=2
    )
    orders.append([{"key": {"id": n}, "value": {"price": "1.50", "at": AT}, "partition": n % 2} for n in range(3)]
                  + [{"key": {"id": 2}, "tombstone": True, "partition": 0}])  # fmt: skip
    orders.merge()
    orders.snapshot("first", keep="9000 days")
    orders.commit("readers", orders.position())
    orders.append([{"key": {"id": 9}, "headers": [["seq", 1]], "value": None, "tombstone": True, "partition": 1}])
    return folder


def test_a_lake_without_a_session_answers_what_one_with_a_session_does(spark: SparkSession, root: str) -> None:
    native, through_spark = Lake(root, clock=lambda: NOON + 5), Lake(spark, root, clock=lambda: NOON + 5)
    assert native.topics() == through_spark.topics() == ["orders"]
    assert native.describe() == through_spark.describe()
    mine, other = native.topic("orders"), through_spark.topic("orders")
    assert mine.describe() == other.describe()
    assert mine.status() == other.status()
    assert mine.status().unmerged_age_ms == 5
    for kept in ("latest", "deleted"):
        ours, theirs = (getattr(one, kept)().orderBy("_partition", "_offset").toArrow() for one in (mine, other))
        assert ours.to_pylist() == theirs.to_pylist()
        assert ours.schema.names == theirs.schema.names
    assert (
        [row["offset"] for row in mine.read(partition=1).collect()]
        == [row["offset"] for row in other.read(partition=1).collect()]
        == [0, 1]
    )


def test_a_status_tells_the_last_verdict_as_through_spark(spark: SparkSession, root: str) -> None:
    through_spark = Lake(spark, root, clock=lambda: NOON + 5).topic("orders")
    verdict = through_spark.check()
    found = Lake(root, clock=lambda: NOON + 5).topic("orders").status()
    assert found == through_spark.status()
    assert found.to_json() == through_spark.status().to_json()
    assert (found.last_verdict or {})["run"] == verdict.run
    assert (found.good_version, verdict.outcome) == (2, "passed"), "a snapshot that is kept is a version too"


def test_what_needs_spark_says_how_to_give_one(root: str) -> None:
    lake = Lake(root)
    topic = lake.topic("orders")
    for verb in (
        lambda: topic.append([]),
        lambda: topic.merge(),
        lambda: lake.create_topic("another"),
        lambda: lake.sql("SELECT 1"),
        lake.upgrade,
    ):
        with pytest.raises(NotReady, match="local_session"):
            verb()
    assert lake.sql("SELECT id FROM orders ORDER BY id", engine="duckdb").collect() == [(0,), (1,)]


def test_what_no_topic_has_is_no_matter_of_spark(root: str) -> None:
    topic = Lake(root).topic("orders")
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        topic.nonsense  # noqa: B018
    assert getattr(topic, "nonsense", 5) == 5
    found = topic.to_pandas()
    assert (found.dtypes["id"].name, found.dtypes["_version"].name) == ("Int32", "Int64"), "the same whether a value is missing or not"
    assert topic.latest().toPandas().equals(found)
    assert topic.to_polars().to_dicts() == topic.to_arrow().to_pylist()
    with pytest.raises(AttributeError, match="not a DataFrame of Spark's and have no select: ask in SQL"):
        topic.latest().select("id")
    with pytest.raises(AttributeError, match="'Rows' object has no attribute 'nonsense'"):
        topic.latest().nonsense  # noqa: B018


def test_a_lake_is_opened_at_a_path_of_python_and_asked_at_whatever_is_a_point(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(root).parent)
    for place in (Path(root), Path("lake")):
        assert Lake(place).root == root
        assert Lake(None, place).topics() == ["orders"]
    for lost in (Path("s3://bucket/lake"), Path("file:///lake"), Path("dbfs:/mnt/lake")):
        with pytest.raises(InvalidRequest, match="lost a / of its address"):
            Lake(lost)
    topic = Lake(root).topic("orders")
    for wrong in (1.5, True, [1], object(), pandas.NaT):
        with pytest.raises(InvalidRequest, match="neither a version .a whole number, 0 or above., nor a time like"):
            topic.latest(at=wrong)  # type: ignore[arg-type]
    with pytest.raises(NotFound, match="there is nothing to read at 2020-01-02T00:00:00"):
        topic.latest(at=datetime.date(2020, 1, 2))


def test_what_is_not_there_is_named_as_through_spark(root: str, tmp_path: Path) -> None:
    with pytest.raises(TopicNotFound, match="Did you mean orders"):
        Lake(root).topic("order")
    with pytest.raises(NotFound) as error:
        Lake(root).topic("orders").latest(at=99)
    assert error.value.name == "SNAPSHOT_NOT_FOUND"
    with pytest.raises(NotFound) as error:
        Lake(str(tmp_path)).topics()
    assert error.value.name == "NOT_A_LAKE"
    for wrong in ("main.lakelog", "hdfs://host/lake"):
        with pytest.raises(InvalidRequest, match="cannot be read without Spark"):
            Lake(wrong)
    with pytest.raises(InvalidRequest):
        Lake(None)


def test_a_latest_table_without_its_control_rows_is_damaged(root: str, tmp_path: Path) -> None:
    shutil.copytree(root, tmp_path / "lake")
    DeltaTable(str(tmp_path / "lake" / "orders" / "silver")).delete("bucket = -1")
    topic = Lake(str(tmp_path / "lake")).topic("orders")
    with pytest.raises(Damaged, match="control rows"):
        topic.latest()
    assert topic.latest(at=1).count() == 2


def test_a_version_whose_files_a_vacuum_may_take_is_refused_and_a_snapshot_is_read(root: str, tmp_path: Path) -> None:
    shutil.copytree(root, tmp_path / "lake")
    silver = tmp_path / "lake/orders/silver"
    DeltaTable(str(silver)).alter.set_table_properties({"delta.deletedFileRetentionDuration": "interval 1 days"})
    for file in commits(silver):
        os.utime(file, (time.time() - 2 * 86_400,) * 2)
    newest = DeltaTable(str(silver)).version()
    lake = Lake(str(tmp_path / "lake"))
    topic = lake.topic("orders")
    for point in (1, str(newest - 1)):
        for read in (topic.latest, topic.deleted, topic.to_arrow, lambda at: lake.sql("SELECT * FROM orders", engine="duckdb", at=at)):
            with pytest.raises(NotFound, match="cannot be read any more or does not exist") as refused:
                read(at=point)
            assert refused.value.name == "SNAPSHOT_NOT_FOUND"
    assert topic.latest(at=newest).count() == topic.latest().count() == topic.latest(at="first").count() == 2
    for file in data_files(silver):
        if file.parent.name != "bucket=-1":
            file.unlink()
    # The newest version needs them as well.
    for at in ("first", newest):
        with pytest.raises(Damaged, match="missing or broken"):
            topic.latest(at=at).collect()


def test_reading_commands_start_no_java(root: str, tmp_path: Path) -> None:
    """Not one process is started; and where no Java can be found, they answer all the same."""
    environment = {**os.environ, "PATH": "/nonexistent", "JAVA_HOME": "/nonexistent"}
    script = f"import io, shlex, sys; sys.stdin = io.StringIO({SCRIPT!r})\nfrom lakelog.cli.main import main"
    script += f"\nfor one in {READING!r}: assert main(['--root', {root!r}, *shlex.split(one)]) == 0"
    script += "\nassert 'pyspark' not in sys.modules"
    out = tmp_path / "out"
    with out.open("wb") as told, subprocess.Popen(
        [sys.executable, "-c", script], env={**environment, "PYTHONPATH": str(REPOSITORY)}, cwd=tmp_path, stdout=told, stderr=subprocess.PIPE
    ) as running:  # fmt: skip
        watched, children = psutil.Process(running.pid), set()
        while running.poll() is None:
            children |= {child.pid for child in watched.children(recursive=True)}
            time.sleep(0.01)
        assert running.stderr is not None
        assert running.returncode == 0, running.stderr.read().decode()
    assert not children
    assert (tmp_path / "page.html").stat().st_size > 0
    # The script's SELECT, behind its status and before its lag.
    assert re.search(r"\nn\n─+\n5\n", out.read_text()), out.read_text()[-2000:]


def test_the_engine_is_chosen_by_hand_or_by_what_can_be_read(cli: Callable[..., Answer], root: str) -> None:
    assert cli(f"--root {root} topic list --engine fast").code == 2
    assert cli("--root main.lakelog topic list --engine native").code == 2
    assert cli(f"--root {root} sql --engine native 'SELECT 1'").code == 2
    assert re.search(r"in\s+DuckDB's\s+dialect", cli("sql --help").out)


def test_sql_in_duckdb(cli: Callable[..., Answer], root: str) -> None:
    def asked(query: str, *more: str) -> Answer:
        return cli(["--root", root, "sql", "--engine", "duckdb", *more, query])

    counted = asked("SELECT (SELECT count(*) FROM orders) + 10 * (SELECT count(*) FROM orders_deleted) + 100 * (SELECT count(*) FROM orders_log) AS n",
                    "--format", "csv")  # fmt: skip
    assert counted.out == "n\n512\n"
    assert asked("SELECT count(*) AS n FROM orders", "--format", "csv", "--at", "0").out == "n\n0\n"
    for query, name in (("DELETE FROM orders", "NOT_A_QUERY"), ("SELECT * FROM nope", "UNKNOWN_TABLE"), ("SELECT nope FROM orders", "INVALID_QUERY"),
                        ("SELECT 1; SELECT 2", "NOT_A_QUERY"), ("SELECT FROM", "INVALID_QUERY")):  # fmt: skip
        refused = asked(query)
        assert refused.code in (2, 5), refused
        assert f"({name})" in refused.err
    assert "does not exist. Did you mean orders? Views: orders, orders_deleted, orders_log." in asked("SELECT * FROM order_s").err
    assert 'near "FROM". A column called offset needs quotes in DuckDB: "offset".' in asked("SELECT offset FROM orders_log").err
    for wrong in ("SELECT 'offset' FROM orders WHER x", "SELECT 1 LIMIT 1 OFFSET", "SELECT 1 OFFSET 1 LIMIT 2 3"):
        assert "needs quotes" not in asked(wrong).err, wrong
    assert "does not exist. Views: orders" in asked("SELECT * FROM x.y.z").err
    assert asked("-", "--format", "csv").code == 2
    assert cli(["--root", root, "sql", "--engine", "duckdb", "-", "--format", "csv"], stdin="\ufeffSELECT 1 AS a\n").out == "a\n1\n"
    plan = asked("EXPLAIN SELECT id FROM orders WHERE id > 1").out
    assert plan.count("\n") > 5 and "\\n" not in plan
    assert cli(["--root", root, "sql", "--engine", "duckdb", "SELECT '\udcff'"]).err.startswith(
        "Error (NOT_A_QUERY): A text that is not UTF-8 ("
    )


def test_columns_that_another_process_added_are_shown_by_a_topic_that_was_open(root: str, tmp_path: Path) -> None:
    shutil.copytree(root, tmp_path / "lake")
    opened = [Lake(str(tmp_path / "lake")).topic("orders") for _ in range(5)]
    bronze = DeltaTable(str(tmp_path / "lake/orders/bronze"))
    types = json.loads(bronze.metadata().configuration["lakelog.topic.types"])
    types["fields"][1]["type"]["fields"].append({"name": "later", "type": "string", "nullable": True, "metadata": {}})
    bronze.alter.set_table_properties({"lakelog.topic.types": json.dumps(types)}, raise_if_not_exists=False)
    verbs: list[Callable[[Any], list[str]]] = [
        lambda topic: topic.latest().columns, lambda topic: topic.deleted().columns, lambda topic: topic.latest(at="first").columns,
        lambda topic: topic.to_arrow().column_names, lambda topic: list(topic.to_pandas().columns),
    ]  # fmt: skip
    for topic, columns in zip(opened, verbs, strict=True):
        assert columns(topic) == ["id", "price", "at", "later", "_partition", "_offset", "_timestamp", "_version"]


def test_what_tells_of_views_reads_no_rows(root: str, tmp_path: Path) -> None:
    """The data files are taken away, but for those that tell how far the latest table is."""
    sound = Lake(root)
    topic = sound.topic("orders")
    for rows in (topic.latest(), topic.deleted(), topic.read()):
        assert rows.limit(0).toArrow().schema == rows.toArrow().schema
    shutil.copytree(root, tmp_path / "lake")
    for file in [*data_files(tmp_path / "lake/orders/bronze"), *data_files(tmp_path / "lake/orders/silver")]:
        if file.parent.name != "bucket=-1":
            file.unlink()
    lake = Lake(str(tmp_path / "lake"))
    for query in ("SHOW TABLES", "DESCRIBE orders", "DESCRIBE SELECT * FROM orders_log", "SHOW orders_deleted"):
        found = lake.sql(query, engine="duckdb").collect()
        assert len(found) >= 3
        assert found == sound.sql(query, engine="duckdb").collect()
    with pytest.raises(Damaged):
        lake.sql("SELECT * FROM orders", engine="duckdb")


def test_what_tells_of_views_passes_over_a_topic_that_is_damaged_and_not_named(root: str, tmp_path: Path) -> None:
    shutil.copytree(root, tmp_path / "lake")
    DeltaTable(str(tmp_path / "lake/orders/silver")).delete("bucket = -1")
    lake = Lake(str(tmp_path / "lake"))
    assert lake.sql("SHOW TABLES", engine="duckdb").collect() == []
    assert lake.sql("DESCRIBE SELECT 1 AS a", engine="duckdb").collect()[0][0] == "a"
    with pytest.raises(Damaged, match="control rows"):
        lake.sql("DESCRIBE orders", engine="duckdb")
    assert len(lake.sql("SHOW TABLES", engine="duckdb", at=1).collect()) == 3, "the version before is sound"
    with pytest.raises(InvalidRequest, match="neither a version"):
        lake.sql("SHOW TABLES", engine="duckdb", at="2026-99-99")


@pytest.mark.parametrize("at", [None, 1, "first"])
def test_a_query_reads_both_views_of_the_latest_table_at_one_version(
    root: str, monkeypatch: pytest.MonkeyPatch, at: int | str | None
) -> None:
    opened: list[tuple[str, int | None]] = []

    def counted(ref: TableRef, version: int | None) -> DeltaTable:
        opened.append((str(ref), version))
        return open_table(ref, version)

    open_table = table.opened
    monkeypatch.setattr(table, "opened", counted)
    query = "SELECT (SELECT count(*) FROM orders) + 10 * (SELECT count(*) FROM orders_deleted)"
    assert Lake(root).sql(query, engine="duckdb", at=at).collect() == [(12,)]
    assert opened.count((f"{root}/orders/silver", None if at is None else 1)) == 1


def test_the_slices_of_a_log_hold_every_place_once_and_in_order() -> None:
    """Whatever files overlap: whoever reads slice by slice reads the log in order, and of a long log only its beginning."""
    connection = duckdb_connection()
    for seed in range(40):
        dice = random.Random(seed)
        files = sorted((dice.randrange(3), dice.randrange(60), dice.randrange(1, 9), 1) for _ in range(dice.randrange(0, 30)))
        parts = list(log.slices(files, dice.randrange(1, 9)))
        connection.execute('CREATE OR REPLACE TABLE t AS SELECT p.range AS partition, o.range AS "offset" FROM range(3) p, range(70) o')
        found = [connection.execute(f'SELECT partition, "offset" FROM t WHERE true{part} ORDER BY 1, 2').fetchall() for part in parts]
        assert [place for rows in found for place in rows] == [(partition, offset) for partition in range(3) for offset in range(70)]
        assert len(parts) > 1 or sum(rows for _, _, rows, _ in files) < 40
    assert len(list(log.slices([(0, number, 1, 1) for number in range(10_000)], 20))) < 8
    assert next(iter(log.slices([(0, number, 1, 1) for number in range(10_000)], 20))).endswith('"offset" < 40))')
    assert len(list(log.slices([(0, number, 1, 40 << 20) for number in range(10)], None))) == 5, "large records, in few at once"
