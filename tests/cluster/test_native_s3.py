"""A lake on S3 is read without a JVM, with the store's settings from lakelog.toml or the environment.

Spark itself on S3 needs 640 MB of jars and is in the soak suite (test_cluster.py); here the lake is written on this disk and copied there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lakelog import Lake
from lakelog.errors import NotFound
from lakelog.native.table import use_settings
from tests.cluster.servers import ACCESS, BUCKET, REGION, SECRET, Store, moto
from tests.conftest import Answer


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
    orders = lake.create_topic("orders", key="STRING", value="BIGINT")
    orders.append([{"key": "a", "value": 1}, {"key": "b", "value": 2}])
    orders.merge()
    copied(store, Path(lake.root))
    settings = "\n".join(f'"{name}" = "{value}"' for name, value in store.spark.items())
    (tmp_path / "lakelog.toml").write_text(
        f'root = "{store.root}"\n[session.config]\n"spark.jars.packages" = "org.apache.hadoop:hadoop-aws:3.4.2"\n{settings}\n'
    )
    monkeypatch.chdir(tmp_path)

    listed = cli("topic list --engine native")
    latest = cli("latest orders --engine native --format csv")
    queried = cli(["sql", "SELECT count(*) AS n FROM orders_log", "--engine", "duckdb", "--format", "csv"])

    assert (listed.code, "orders" in listed.out) == (0, True), listed.err
    assert [line.split(",")[:2] for line in latest.out.splitlines()[1:]] == [["a", "1"], ["b", "2"]], latest.err
    assert queried.out.split() == ["n", "2"], queried.err

    use_settings({})
    environment = {"AWS_ENDPOINT_URL": store.endpoint, "AWS_ACCESS_KEY_ID": ACCESS, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": REGION}
    for name, value in {**environment, "AWS_ALLOW_HTTP": "true"}.items():
        monkeypatch.setenv(name, value)
    assert Lake(store.root).topic("orders").latest().count() == 2
    with pytest.raises(NotFound):
        Lake(f"s3://{BUCKET}/nowhere").topics()
