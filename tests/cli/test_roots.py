"""What is wrong with a root, or with a call, is told in one sentence with the remedy, and before Spark starts where Spark is not needed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakelog import Invalid, InvalidRequest, Lake, NotReady
from lakelog.cli import doctor
from lakelog.terminal import root
from lakelog.terminal.settings import Settings
from tests.conftest import Answer

ROOT = Path(__file__).parent.parent.parent
Cli = Callable[..., Answer]
NO_SPARK = """
import sys
from lakelog.delta import session
def started(*a, **k): raise SystemExit("Spark was started")
from lakelog.terminal import settings
settings.local_session = started
from lakelog.terminal import root
from lakelog.cli.main import main
if sys.argv[1] == "nobody":
    import os
    del sys.argv[1]
    # What is imported late, or looked for, is not everybody's to read: a checkout in a folder of its owner's alone.
    import deltalake
    import duckdb
    import pyarrow
    try:
        main(sys.argv[1:])
    except SystemExit:
        pass
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
code = main(sys.argv[1:])
sys.exit("pyspark was imported" if "pyspark" in sys.modules else code)
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with a lake, as far as files tell: a topic orders."""
    for table in ("_lakelog/runs", "orders/bronze", "orders/silver"):
        (tmp_path / "lake" / table / "_delta_log").mkdir(parents=True)
    (tmp_path / "afile").write_text("x")
    (tmp_path / "orders.ndjson").write_text('{"key": "a"}\n')
    return tmp_path


# A call, its exit code, and what its one line says.
EARLY = [
    ("append orders nope.ndjson --root ./lake", 5, "nope.ndjson: there is no such file"),
    ("append orders orders.ndjson nope.ndjson --root ./lake", 5, "Error (NOT_FOUND): nope.ndjson: there is no such file"),
    ("append orders orders.txt --root ./lake", 5, "orders.txt: there is no such file"),
    ("append orders afile --root ./lake", 2, "--format ndjson, csv or parquet"),
    ("append orders orders.ndjson --format cvs --root ./lake", 2, "Did you mean csv?"),
    ("append order orders.ndjson --root ./lake", 5, "Did you mean orders? Topics: orders."),
    (
        "append orders orders.ndjson --root ./nowhere",
        5,
        "is not a lake: there is no such folder. `lakelog topic create` makes it one.",
    ),
    ("append orders orders.ndjson --root ./lake --problems nowhere/bad.txt", 2, "Name a file that can be written"),
    ("merge orders2 --root ./lake", 5, "There is no topic orders2"),
    ("status order --root ./lake", 5, "Did you mean orders?"),
    ("verify order --root ./lake", 5, "Did you mean orders?"),
    ("read order --root ./lake", 5, "Did you mean orders?"),
    ("latest order --root ./lake", 5, "Did you mean orders?"),
    ("latest orders --at 2999-01-01 --root ./lake", 2, "--at 2999-01-01T00:00:00+00:00 lies in the future"),
    ("sql 'SELECT 1' --at 2026-13-45 --root ./lake", 2, "--at '2026-13-45' is neither a version, nor a time"),
    (
        "read orders --since 2026-99-99 --root ./lake",
        2,
        "--since '2026-99-99' is no time like 2026-05-06T12:00:00, and no position, start or end",
    ),
    ("commit orders billing now --root ./lake", 2, "POSITION 'now' is no time like"),
    (
        "topic list --root file:./lake",
        2,
        "behind file: stands a whole path of this machine, file:/data/lake or file:///data/lake. Or leave file: out",
    ),
    ("topic list --root file://localhost/lake", 2, "'file://localhost/lake' is no root"),
    ("topic list --root file://localhost/lake", 2, "Or leave file: out: /lake."),
    ("topic list --root file://data/lake", 2, "Or leave file: out: /data/lake."),
    ("topic list --root FILE://./lake", 2, "Or leave file: out: ./lake."),
    ("sql 'DROP TABLE orders' --root ./lake", 2, "DROP begins no query"),
    ("topic list --root ./afile", 2, "afile is a file"),
    ("topic create x --root ./afile", 2, "afile is a file"),
    ("topic create x --root ./afile/inside", 2, "nothing can be written in"),
    ("topic create x --root /proc/lakelog", 2, "nothing can be written in /proc"),
    ("topic create x --root s3a://bucket/lake", 2, '"spark.jars.packages" = "org.apache.hadoop:hadoop-aws:3.'),
    ("topic create x --root s3://bucket/lake", 2, "write s3a:// in place of s3://"),
    ("status --root abfss://c@a.dfs.core.windows.net/lake", 2, "org.apache.hadoop:hadoop-azure:3."),
    ("status --root gs://bucket/lake", 2, "gcs-connector"),
    ("topic create x --root default", 2, "For a folder write ./default. For a catalog write into lakelog.toml"),
    ("topic create x --root spark_catalog.sales", 2, '"spark.sql.catalogImplementation" = "hive"'),
    ("topic list --root main.sales", 2, '"spark.sql.catalog.main" = '),
    ("topic list --root 'my lake'", 2, "is no root"),
    ("topic create Orders --root ./lake", 2, "is no topic name"),
    ("topic create x --config segment.mz=1 --root ./lake", 2, "Did you mean segment.ms?"),
    ("topic create x --config log.roll.ms=1 --root ./lake", 2, "For a topic it is called segment.ms."),
    ("topic configure orders --config segment.ms=soon --root ./lake", 2, "must be a whole number"),
    (
        "lake configure --config segment.ms=1 --root ./lake",
        2,
        "There is no lake-wide default 'segment.ms'. Lake-wide it is called log.roll.ms.",
    ),
    ("lake configure --config silver.buckets=2 --root ./lake", 2, "Each topic has its own, from its creation on."),
]


@pytest.mark.parametrize(("call", "code", "says"), EARLY)
def test_what_needs_no_spark_is_told_without_it(
    call: str, code: int, says: str, place: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lakelog.terminal import settings

    monkeypatch.chdir(place)
    monkeypatch.setattr(settings, "local_session", lambda **_: pytest.fail("Spark was started"))
    before = sorted(place.rglob("*"))
    answer = cli(call)

    assert (answer.code, answer.out) == (code, "")
    assert answer.err.count("\n") == 1
    assert says in answer.err
    assert len(answer.err) < 500
    assert sorted(place.rglob("*")) == before
    document = json.loads(cli(f"{call} --json").out)
    assert says.removeprefix("Error (NOT_FOUND): ") in document["message"]


def test_it_is_told_without_an_import_of_pyspark(place: Path) -> None:
    for call in (["append", "orders", "nope.ndjson"], ["merge", "order"], ["sql", "DELETE FROM x"]):
        answer = subprocess.run(
            [sys.executable, "-c", NO_SPARK, *call, "--root", "./lake"],
            cwd=place, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False,
        )  # fmt: skip

        assert answer.returncode in (2, 5), answer.stderr


@pytest.fixture
def read_only() -> Iterator[Path]:
    """A lake in which nobody may write, and which everybody may read."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        for table in ("_lakelog/runs", "orders/bronze", "orders/silver"):
            Path(folder, "lake", table, "_delta_log").mkdir(parents=True)
        Path(folder, "orders.ndjson").write_text('{"key": "a"}\n')
        folders = [Path(folder), *[one for one in Path(folder).rglob("*") if one.is_dir()]]
        for one in folders:
            one.chmod(0o555)
        yield Path(folder)
        for one in folders:
            one.chmod(0o755)


@pytest.mark.parametrize(
    "call", ["append orders orders.ndjson", "merge orders", "topic create other", "topic configure orders --unset segment.ms"]
)
def test_a_read_only_root_is_told_before_anything_is_tried(call: str, read_only: Path) -> None:
    other = ["nobody"] if os.geteuid() == 0 else []
    answer = subprocess.run(
        [sys.executable, "-c", NO_SPARK, *other, *call.split(), "--root", "./lake"],
        cwd=read_only, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert answer.returncode == 2, answer.stderr
    assert answer.stderr.startswith("Error (NOT_READY): ")
    assert "(Permission denied). Make it writable for the user who runs this, or name another root." in answer.stderr
    assert answer.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("named", "found"),
    [("afile", "is a file"), ("/proc/lakelog", "nothing can be written"), ("s3a://bucket/lake", "no connector"), ("default", "outlasts")],
)
def test_the_doctor_finds_it(named: str, found: str, place: Path) -> None:
    where = f"{place}/{named}" if named == "afile" else named
    wrong = [check for check in doctor.lake(Settings(root=where)) if check.state == "fail"]

    assert [found in check.found for check in wrong] == [True]
    assert wrong[0].todo


def test_a_configured_catalog_or_connector_is_fine() -> None:
    for named, settings in (
        ("default", {"spark.sql.catalogImplementation": "hive"}),
        ("main.sales", {"spark.sql.catalog.main": "io.unitycatalog.spark.UCSingleCatalog"}),
        ("s3a://bucket/lake", {"spark.jars.packages": "org.apache.hadoop:hadoop-aws:3.4.2"}),
    ):
        assert [check.found for check in doctor.lake(Settings(root=named, spark=settings)) if check.state == "fail"] == []


def test_python_gets_a_sentence_too(spark: SparkSession, place: Path) -> None:
    for named, kind, says in (
        (f"{place}/afile", InvalidRequest, "is a file. The root of a lake is a folder"),
        ("/proc/lakelog", Invalid, "Writers of this lake need the right to write there|nothing can be written there"),
        ("s3a://bucket/lake", NotReady, "org.apache.hadoop:hadoop-aws:3."),
        ("nfs://host/lake", NotReady, "Spark cannot open nfs://"),
        ("hdfs://no-such-host.invalid/lake", NotReady, "there is no host"),
    ):
        with pytest.raises(kind, match=says) as refused:
            Lake(spark, named).create_topic("orders")
        assert len(str(refused.value)) < 400
        assert "\n" not in str(refused.value)


def test_a_path_of_another_default_file_system_is_not_looked_for_here(tmp_path: Path) -> None:
    elsewhere = {"spark.hadoop.fs.defaultFS": "hdfs://names:8020"}
    assert root.local(Settings(root=str(tmp_path))) == tmp_path
    assert root.local(Settings(root=str(tmp_path), spark=elsewhere)) is None
    assert root.local(Settings(root=f"file://{tmp_path}", spark=elsewhere)) == tmp_path
    root.require(Settings(root="/no/such/place", spark=elsewhere), ["orders"])
