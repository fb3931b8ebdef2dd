"""A standalone cluster of processes on loopback, the lake on a real S3 server: the main path, two drivers at once, and the same lake natively.

All of it is in the soak suite: it builds the S3 server, fetches 640 MB of jars, once, and starts half a dozen processes. What the quick suite
has of S3 is in test_native_s3.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lakelog import Lake
from lakelog.delta.session import LOOPBACK
from lakelog.native.stores import use_settings
from tests.cluster.servers import BUCKET, Store, s3_jars, standalone, versitygw
from tests.conftest import Answer
from tests.races.processes import race

pytestmark = pytest.mark.soak
# Small data: what the executors take is the least that Spark lets them.
SMALL = {
    "spark.sql.shuffle.partitions": "2", "spark.executor.memory": "512m", "spark.executor.cores": "1",
    "spark.sql.codegen.wholeStage": "false", "spark.databricks.delta.snapshotPartitions": "1",
}  # fmt: skip


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """The S3 server of this module."""
    with versitygw(tmp_path_factory.mktemp("s3")) as running:
        yield running


def plan(store: Store, name: str, root: str, **what: Any) -> dict[str, Any]:
    """A driver's plan; the jars lie on every machine, and are not sent."""
    jars = ",".join(f"local:{jar}" for jar in s3_jars())
    config = {**SMALL, **LOOPBACK, **store.spark, "spark.jars": jars}
    return {"name": name, "root": root, "master": "local[1]", "config": config, **what}


def test_the_main_path_on_a_cluster(store: Store, tmp_path: Path, cli: Callable[..., Answer], monkeypatch: pytest.MonkeyPatch) -> None:
    with standalone(tmp_path / "cluster") as master:
        said = race([plan(store, "path", store.root, master=master, mode="path", folder=str(tmp_path))], module="tests.cluster.driver")
        registered = (tmp_path / "cluster" / "master.log").read_text(encoding="utf-8")

    assert registered.count("Registering worker") == 2
    (told,) = [line["warnings"] for line in said["path"] if "warnings" in line]
    assert len(told) == 1 and "cannot arbitrate two writers" in told[0]
    # The same lake without a JVM, the store's settings from lakelog.toml.
    settings = "\n".join(f'"{name}" = "{value}"' for name, value in store.spark.items())
    (tmp_path / "lakelog.toml").write_text(f'root = "{store.root}"\n[session.config]\n"spark.jars.packages" = "hadoop-aws"\n{settings}\n')
    monkeypatch.chdir(tmp_path)
    rows = cli("latest orders --engine native --format json --limit 100")
    assert rows.code == 0, rows.err
    latest = {row["order_id"]: row["status"] for row in map(json.loads, rows.out.splitlines())}
    assert (len(latest), latest[0], latest[7], latest[15]) == (21, "done", "shipped", "new")


def test_two_drivers_at_once(store: Store) -> None:
    """Delta 4.4.0 has no LogStore that lets S3 refuse a second commit: each driver says so. What is lost is chance; what a driver lost it
    reports as Damaged, or another one as a log that is not as it was, and never as written.
    """
    root = f"s3a://{BUCKET}/two"
    race([plan(store, "maker", root, mode="create")], module="tests.cluster.driver")
    said = race([plan(store, name, root, mode="append", count=8) for name in "ab"], module="tests.cluster.driver")

    told = [line["warnings"] for lines in said.values() for line in lines if "warnings" in line]
    assert [len(one) for one in told] == [1, 1]
    assert all("S3DynamoDBLogStore" in one[0] for one in told)
    broken = [line for lines in said.values() for line in lines if "damaged" in line]
    if broken:
        return
    use_settings(store.spark)
    offsets = sorted(row["offset"] for row in Lake(root).topic("orders").read().collect())
    assert offsets == list(range(len(offsets)))
    written = {offset for lines in said.values() for line in lines if "append" in line for offset in range(*line["offsets"]["0"])}
    assert written == set(offsets), "an append that was answered is in the log"
