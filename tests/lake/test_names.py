"""Names that mean something to Spark or to lakelog itself, as names of fields, files, tables, settings and folders."""

from __future__ import annotations

import datetime
import gzip
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F

from lakelog import Lake
from lakelog.errors import Invalid, InvalidRequest, NotFound
from tests.conftest import Answer
from tests.tables import versions

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from lakelog import Topic

FIELDS = ["src", "block", "row_order", "line", "corrupt", "record", "position", "octets"]


@pytest.fixture
def schema(lake: Lake) -> str:
    """A catalog schema of its own."""
    name = lake.root.split("/")[-2]
    lake.spark.sql(f"CREATE SCHEMA {name}")
    return f"spark_catalog.{name}"


def test_fields_may_be_called_like_lakelogs_own_columns(lake: Lake, tmp_path: Path) -> None:
    topic = lake.create_topic("t", key="url STRING", value=", ".join(f"{name} DOUBLE" for name in FIELDS))
    rows = [{"url": f"k{number}", **{name: number * 10.0 + place for place, name in enumerate(FIELDS)}} for number in range(3)]
    frame = lake.spark.createDataFrame([tuple(row.values()) for row in rows[:1]], list(rows[0]))
    text = "\n".join(",".join(map(str, row.values())) for row in rows[1:2])
    (tmp_path / "in.csv").write_text(",".join(rows[0]) + "\n" + text + "\n")
    lake.spark.createDataFrame([tuple(row.values()) for row in rows[2:]], list(rows[0])).write.parquet(str(tmp_path / "in"))

    topic.append(frame)
    topic.append(str(tmp_path / "in.csv"))
    topic.append(str(tmp_path / "in"), format="parquet")
    assert topic.merge().inserted == 3
    found = topic.latest().orderBy("url").select("url", *FIELDS).collect()
    assert [row.asDict() for row in found] == rows


def test_values_that_spark_takes_for_secrets_are_read_as_they_are(lake: Lake) -> None:
    """Spark hides properties whose name or value looks like a secret's, url and token among them."""
    settings = {"compaction.strategy": "header", "compaction.strategy.header": "token_seq"}
    topic = lake.create_topic("url_tokens", key="hourly STRING", value="password STRING", config=settings)
    again = Lake(lake.spark, lake.root, clock=lake.clock).topic("url_tokens")
    assert (again.uuid, again.rule.header, str(again.types.key.simpleString())) == (topic.uuid, "token_seq", "struct<hourly:string>")
    newer = {"key": {"hourly": "a"}, "value": {"password": "x"}, "headers": [["token_seq", 2]]}
    again.append([newer, {**newer, "headers": [["token_seq", 1]]}])
    assert (again.merge().late, lake.topics()) == (1, ["url_tokens"])


def test_files_are_read_by_exactly_their_names(lake: Lake, tmp_path: Path) -> None:
    topic = lake.create_topic("t", key="STRING", value="STRING")
    (tmp_path / "a1.ndjson").write_text('{"key": "other"}\n')
    (tmp_path / "a[1].ndjson").write_text('{"key": "mine"}\n')
    (tmp_path / "_b.ndjson").write_text('{"key": "hidden"}\n')
    (tmp_path / "f.ndjson._COPYING_").write_text('{"key": "hidden"}\n')
    (tmp_path / "_day=1").mkdir()
    (tmp_path / "_day=1" / "e.ndjson").write_text('{"key": "of a partition"}\n')
    (tmp_path / "c.ndjson.gz").write_bytes(gzip.compress(b'{"key": "cut off"}\n' * 1000)[:-20])
    (tmp_path / "d.parquet").write_bytes(b"no Parquet")
    before = versions(lake.root, "t")
    for name, form, says in (
        ("_b.ndjson", None, "names begin with _"), ("f.ndjson._COPYING_", "ndjson", "end in ._COPYING_"),
        ("c.ndjson.gz", None, "cannot be read"), ("d.parquet", None, "d.parquet"),
    ):  # fmt: skip
        with pytest.raises(InvalidRequest, match=says):
            topic.append(str(tmp_path / name), format=form)
    assert versions(lake.root, "t") == before
    topic.append(str(tmp_path / "a[1].ndjson"))
    topic.append(str(tmp_path / "_day=1"), format="ndjson")
    assert sorted(row["key"] for row in topic.read().collect()) == ["mine", "of a partition"]


def test_a_relative_folder_is_a_root_wherever_its_slash_stands(lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert [Lake(lake.spark, root).root for root in ("lake/", "./lake", "a/../lake", "s3a://bucket/lake/", "lake")] == [
        str(tmp_path / "lake"), str(tmp_path / "lake"), str(tmp_path / "lake"), "s3a://bucket/lake", "lake",
    ]  # fmt: skip
    # What a creation leaves that was cut off at once is no reason not to create.
    runs = tmp_path / "lake" / "_lakelog" / "runs"
    (runs / "_delta_log").mkdir(parents=True)
    assert Lake(lake.spark, "lake/").create_topic("t").bronze.path == str(tmp_path / "lake" / "t" / "bronze")


def test_type_names_within_field_names_are_no_types(lake: Lake) -> None:
    topic = lake.create_topic("t", key="variant_id BIGINT, roadmap_id STRING, array_size INT", value="interval_days INT, collated STRING")
    assert topic.types.key.names == ["variant_id", "roadmap_id", "array_size"]


def test_a_topic_is_never_created_over_what_is_not_lakelogs(schema: str, lake: Lake) -> None:
    spark: SparkSession = lake.spark
    mine = Lake(spark, schema, clock=lake.clock)
    mine.create_topic("fine")
    spark.sql(f"CREATE TABLE {schema}.a_silver USING delta AS SELECT 1 AS x")
    spark.sql(f"CREATE TABLE {schema}.b USING delta AS SELECT 2 AS x")
    spark.sql(f"CREATE VIEW {schema}.c_deleted AS SELECT 3 AS x")
    for topic, table in (("a", "a_silver"), ("b", "b"), ("c", "c_deleted")):
        with pytest.raises(InvalidRequest, match=f"{table}.* is not lakelog's"):
            mine.create_topic(topic)
    with pytest.raises(Invalid, match=r"a_silver is not lakelog's"):
        mine.delete_topic("a")
    assert [spark.table(f"{schema}.{name}").collect()[0][0] for name in ("a_silver", "b", "c_deleted")] == [1, 2, 3]
    assert mine.topics() == ["fine"]


@pytest.mark.long
def test_a_catalog_is_read_by_spark_without_a_word(
    schema: str, lake: Lake, cli: Callable[..., Answer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The quick lane sees no catalog; asked for by name, it says so."""
    orders = Lake(lake.spark, schema, clock=lake.clock).create_topic("orders", key="STRING", value="INT")
    orders.append([{"key": "a", "value": 1}])
    orders.merge()
    (tmp_path / "lakelog.toml").write_text(f'root = "{schema}"\n[session.config]\n"spark.sql.catalogImplementation" = "hive"\n')
    monkeypatch.chdir(tmp_path)
    verbs = ("topic list", "topic describe orders", "lake describe", "status", "latest orders", "read orders", "lag", "snapshot list")
    for verb in verbs:
        answers = [cli(f"{verb}{engine}") for engine in ("", " --engine spark")]
        assert [(one.code, one.err) for one in answers] == [(0, "")] * 2, verb
        assert answers[0].out == answers[1].out != "" or verb == "status"
        refused = cli(f"{verb} --engine native")
        assert (refused.code, refused.out) == (2, "")
        assert f"{schema} cannot be read without Spark: a catalog is known to Spark alone. Ask with --engine spark." in refused.err
    assert cli("read orders --format json").out.startswith('{"key": "a", "value": 1, ')
    shell = cli("shell", stdin="topic list\nSELECT value + 1 AS n FROM orders;\n")
    assert (shell.code, shell.out.split()[0], shell.out.split()[-1], shell.err) == (0, "orders", "2", ""), "its queries are Spark's"
    assert "a catalog is known to Spark alone" in cli(["sql", "SELECT 1", "--engine", "duckdb"]).err


@pytest.mark.long
def test_views_of_a_catalog_follow_a_wider_value_whose_new_field_is_named_first(schema: str, lake: Lake) -> None:
    topic = Lake(lake.spark, schema, clock=lake.clock).create_topic("t", key="STRING", value="a INT")
    topic.append([{"key": "k", "value": {"a": 1}}])
    topic.merge()
    topic.configure(value="b STRING, a INT")
    topic.append([{"key": "l", "value": {"a": 2, "b": "x"}}])
    assert topic.merge().inserted == 1
    found = lake.spark.sql(f"SELECT key, a, b FROM {schema}.t ORDER BY key").collect()
    assert [tuple(row) for row in found] == [("k", 1, None), ("l", 2, "x")]


def test_settings_of_the_callers_session_change_nothing(lake: Lake) -> None:
    ours = {
        "spark.databricks.delta.schema.autoMerge.enabled": "true",
        "spark.sql.sources.partitionOverwriteMode": "dynamic",
        "spark.sql.session.timeZone": "America/New_York",
        # Under these Delta passes over a second write.
        "spark.databricks.delta.write.txnAppId": "of the caller",
        "spark.databricks.delta.write.txnVersion": "1",
    }
    before = {name: lake.spark.conf.get(name, None) for name in ours}
    for name, value in ours.items():
        lake.spark.conf.set(name, value)
    try:
        topic = lake.create_topic("t", key="STRING", value="STRING")
        columns = lake.spark.table(topic.silver.sql()).columns
        topic.append([{"key": "a", "value": "1"}])
        first = topic.merge().version
        committed = committed_at(topic, first)
        topic.append([{"key": "a", "value": "2"}])
        topic.merge()
        assert lake.spark.table(topic.silver.sql()).columns == columns
        # A time without a zone is UTC, and after the newest version the table is as that left it.
        assert [row["value"] for row in topic.latest(at=committed).collect()] == ["1"]
        assert [row["value"] for row in topic.latest(at="2999-01-01").collect()] == ["2"]
        with pytest.raises(NotFound, match="go back to"):
            topic.latest(at="2020-01-01T00:00:00+02:00")
        topic.merge(rebuild=True)
        assert [row["value"] for row in topic.latest().collect()] == ["2"]
        assert {name: lake.spark.conf.get(name) for name in ours} == ours
    finally:
        for name, value in before.items():
            lake.spark.conf.set(name, value) if value is not None else lake.spark.conf.unset(name)


def committed_at(topic: Topic, version: int) -> str:
    """When a version of silver was committed, in UTC, without a zone, rounded up to a millisecond."""
    rows = topic.spark.sql(f"DESCRIBE HISTORY {topic.silver.sql()}").filter(F.col("version") == version)
    ms = rows.select(F.unix_millis("timestamp")).collect()[0][0] + 1
    return datetime.datetime.fromtimestamp(ms / 1000, tz=datetime.timezone.utc).replace(tzinfo=None).isoformat()
