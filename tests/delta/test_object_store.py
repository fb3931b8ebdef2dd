"""Which LogStore arbitrates two writers on S3, and what delta-rs is told of Spark's settings."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import pytest

from lakelog.delta import object_store
from lakelog.delta.object_store import native_options, unarbitrated, warn_of_two_writers
from lakelog.model.names import TableRef

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STORE = "spark.delta.logStore.s3a.impl"


@pytest.mark.parametrize(
    ("store", "says"),
    [
        ("", "Delta's default LogStore cannot arbitrate two writers"),
        ("io.delta.storage.S3SingleDriverLogStore", "S3SingleDriverLogStore cannot arbitrate two writers"),
        ("io.delta.storage.GCSLogStore", "GCSLogStore cannot arbitrate two writers"),
        ("io.delta.storage.S3DynamoDBLogStore", ""),
        ("com.example.ConditionalLogStore", ""),
    ],
)
def test_what_lets_s3_arbitrate(store: str, says: str) -> None:
    why = unarbitrated("s3a://bucket/lake", {STORE: store}.get, {})

    assert says in why and bool(says) == bool(why)
    assert unarbitrated("s3://bucket/lake", {}.get, {"DATABRICKS_RUNTIME_VERSION": "17.3"}) == ""
    assert (
        unarbitrated("abfss://lake@account/x", {}.get, {})
        == unarbitrated("/data/lake", {}.get, {})
        == unarbitrated("main.x", {}.get, {})
        == ""
    )


def test_a_writer_of_plain_s3_is_warned_once(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_store, "_warned", set())
    told = []
    for bucket in ("one", "one", "two"):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for table in ("bronze", "silver"):
                warn_of_two_writers(spark, TableRef.of(f"s3a://{bucket}/lake", "orders", table))
        told += [str(one.message).partition(" with")[0] for one in caught]
    assert told == ["s3a://one: s3a://", "s3a://two: s3a://"]


def test_settings_of_hadoop_become_those_of_delta_rs() -> None:
    hadoop = {
        "endpoint": "127.0.0.1:9000",
        "connection.ssl.enabled": "false",
        "access.key": "a",
        "secret.key": "b",
        "path.style.access": "true",
    }

    assert native_options({f"spark.hadoop.fs.s3a.{name}": value for name, value in hadoop.items()}) == {
        "aws_endpoint": "http://127.0.0.1:9000", "aws_allow_http": "true", "aws_access_key_id": "a", "aws_secret_access_key": "b",
    }  # fmt: skip
    assert native_options({"spark.hadoop.fs.s3a.endpoint": "s3.example.com"}) == {"aws_endpoint": "https://s3.example.com"}
    assert native_options({"spark.sql.shuffle.partitions": "2"}) == {}
