"""A lake on S3 is read without a JVM, with the store's settings from lakelog.toml or the environment.

Spark itself on S3 needs 640 MB of jars and is in the soak suite (test_cluster.py); here the lake is written on this disk and copied there.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakelog import Lake
from lakelog.errors import NotFound
from lakelog.native.stores import use_settings
from lakelog.native.table import Table
from lakelog.running.interrupt import Interrupted
from lakelog.running.run import not_begun
from lakelog.running.runs import record, table_of
from lakelog.terminal.settings import Settings
from tests.cluster.servers import ACCESS, BUCKET, REGION, SECRET, Store, moto
from tests.conftest import Answer
from tests.running import runs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


ASKED = (
    "topic list", "topic describe orders", "lake describe", "status", "latest orders", "latest orders --at 1", "latest orders --at first",
    "latest orders --deleted", "read orders --partition 0 --offset 1", "lag", "snapshot list", "snapshot describe orders first",
)  # fmt: skip
# How long ago something was, by the machine's clock.
AGO = re.compile(r'"[\w-]*(age|last-run|expires|remaining)[\w-]*": -?\d+')


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """moto's S3."""
    with moto(tmp_path_factory.mktemp("s3")) as running:
        yield running


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """No test leaves the next one its settings."""
    yield
    use_settings({})


def copied(store: Store, folder: Path) -> None:
    """A lake of this disk, in the bucket."""
    client = store.client()
    for file in folder.rglob("*"):
        if file.is_file() and "locks" not in file.parts:
            client.put_object(Bucket=BUCKET, Key=f"lake/{file.relative_to(folder)}", Body=file.read_bytes())


def test_a_lake_on_s3_is_read_without_a_jvm(
    store: Store, lake: Lake, cli: Callable[..., Answer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark has no connector for it; whoever asks Spark is told so, and nobody else."""
    orders = lake.create_topic("orders", key="STRING", value="BIGINT")
    orders.append([{"key": "a", "value": 1}, {"key": "b", "value": 2}])
    orders.merge()
    orders.snapshot("first", keep="9000 days")
    orders.commit("readers", orders.position())
    orders.append([{"key": "b", "tombstone": True}])
    orders.merge()
    orders.append([{"key": "c", "value": 3}])
    copied(store, Path(lake.root))
    settings = "\n".join(f'"{name}" = "{value}"' for name, value in store.spark.items())
    (tmp_path / "lakelog.toml").write_text(f'root = "{store.root}"\n[session.config]\n{settings}\n')
    monkeypatch.chdir(tmp_path)

    def asked(command: str, root: str) -> tuple[int, str, str]:
        answer = cli(f"--root {root} {command} --engine native --json")
        return answer.code, AGO.sub("…", answer.out).replace(root, "ROOT"), answer.err

    for command in ASKED:
        here = asked(command, lake.root)
        assert here[0] == 0 and here[2] == ""
        assert asked(command, store.root) == here
        assert asked(command, f"s3://{BUCKET}/lake") == here
    latest = cli("latest orders --engine native --format csv")
    assert [line.split(",")[:2] for line in latest.out.splitlines()[1:]] == [["a", "1"]], latest.err
    query = "SELECT count(*) AS n FROM orders_log"
    queried = cli(["sql", query, "--engine", "duckdb", "--format", "csv"])
    assert queried.out.split() == ["n", "4"], queried.err
    script = cli("shell", stdin=f"topic list --engine native\n{query};\n")
    assert (script.code, script.out.split()[0], script.out.split()[-1]) == (0, "orders", "4"), script.err
    for engine in ("auto", "spark"):
        refused = cli(f"status --engine {engine}")
        assert (refused.code, "Spark has no connector for s3a://" in refused.err) == (2, True)

    use_settings({})
    environment = {"AWS_ENDPOINT_URL": store.endpoint, "AWS_ACCESS_KEY_ID": ACCESS, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": REGION}
    for name, value in {**environment, "AWS_ALLOW_HTTP": "true"}.items():
        monkeypatch.setenv(name, value)
    assert Lake(store.root).topic("orders").latest().count() == 1
    with pytest.raises(NotFound):
        Lake(f"s3://{BUCKET}/nowhere").topics()


@pytest.mark.classic("what commits to S3 for a session elsewhere is not known")
def test_a_run_that_a_signal_ended_is_recorded_on_s3_without_spark(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: SparkSession
) -> None:
    runs.make(tmp_path / "lake")
    copied(store, tmp_path / "lake")
    Settings(root=store.root, spark=store.spark).open_lake()

    made = [not_begun(store.root, "orders", Interrupted(signal.SIGTERM), clock=lambda: 0) for _ in range(2)]
    again = record(store.root, made[0], None)

    assert [one.recorded for one in made] == [True, True] and again is True
    rows = Table(table_of(store.root)).records("SELECT run_id, topic, error FROM t ORDER BY run_id")
    assert rows == [{"run_id": one.run, "topic": "orders", "error": "INTERRUPTED"} for one in sorted(made, key=lambda one: one.run)]

    nowhere = not_begun(f"s3://{BUCKET}/nowhere", "orders", Interrupted(signal.SIGTERM), clock=lambda: 0)
    assert "there is no Delta table" in str(nowhere.recorded)
    spark.conf.set("spark.delta.logStore.s3a.impl", "io.delta.storage.S3DynamoDBLogStore")
    try:
        Settings(root=store.root, spark=store.spark).open_lake()
    finally:
        spark.conf.unset("spark.delta.logStore.s3a.impl")
    beside = not_begun(store.root, "orders", Interrupted(signal.SIGTERM), clock=lambda: 0)
    assert beside.recorded == "there is no Spark, and S3DynamoDBLogStore does not see what delta-rs commits to S3"

    use_settings({**store.spark, "spark.hadoop.fs.s3a.endpoint": "http://127.0.0.1:1"}, s3_writer="")
    monkeypatch.setattr("lakelog.running.runs.PATIENCE", 1.0)
    silent = not_begun(store.root, "orders", Interrupted(signal.SIGTERM), clock=lambda: 0)
    assert "within 1 seconds" in str(silent.recorded)
