"""Arguments of a wrong type: each is refused by name, and nothing is written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lakelog import Lake
from lakelog.errors import InvalidConfig, InvalidRequest, LakelogError, NotFound
from tests.tables import versions, write

RECORD = {"key": "a", "value": "1"}


def test_arguments_of_a_wrong_type_are_refused_by_name(lake: Lake, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("key,value\na,1\n")
    table = str(tmp_path / "a.csv")
    orders: Any = lake.create_topic("orders", key="STRING", value="STRING")
    orders.append(RECORD)
    orders.merge()
    untyped: Any = lake
    native: Any = Lake(lake.root).topic("orders")
    before = versions(lake.root, "orders")
    file = write(tmp_path / "a.ndjson", '{"key": "a"}')
    stream = lake.spark.readStream.format("rate").load().selectExpr("CAST(value AS STRING) AS key", "'x' AS value")
    refused: list[tuple[Callable[[], object], type[LakelogError], str]] = [
        (lambda: untyped.create_topic(5, key="STRING"), InvalidRequest, r"^5 is no topic name"),
        (lambda: untyped.create_topic(None, key="STRING"), InvalidRequest, r"^None is no topic name"),
        (lambda: untyped.topic(5), NotFound, r"^There is no topic 5 in "),
        (lambda: untyped.delete_topic(5), NotFound, r"^There is no topic 5 in "),
        (lambda: untyped.create_topic("x", key=5), InvalidConfig, r"^key: 5 is no type"),
        (lambda: untyped.create_topic("x", key="STRING", value=["a"]), InvalidConfig, r"^value: \['a'\] is no type"),
        (lambda: untyped.create_topic("x", key="STRING", partitions="4"), InvalidConfig, r"^partitions='4': a topic has 1 to"),
        (lambda: untyped.create_topic("x", key="STRING", partitions=1.5), InvalidConfig, r"^partitions=1\.5: a topic has 1 to"),
        (lambda: untyped.create_topic("x", key="STRING", config=["a=b"]), InvalidConfig, r"^\['a=b'\] are no settings: they are a dict"),
        (lambda: untyped.configure("a=b"), InvalidConfig, r"^'a=b' are no settings"),
        (lambda: orders.configure(["a=b"]), InvalidConfig, r"^\['a=b'\] are no settings"),
        (lambda: orders.configure(value=5), InvalidConfig, r"^value: 5 is no type"),
        (lambda: orders.append(RECORD, expected_offset="0:3"), InvalidRequest, r"^expected_offset='0:3': it is a dict of partition"),
        (lambda: orders.append(RECORD, expected_offset={"0": 3}), InvalidRequest, r"^expected_offset={'0': 3}: it is a dict of partition"),
        (lambda: orders.append(RECORD, token=7), InvalidRequest, r"^token=7: it is a text"),
        (lambda: orders.append(RECORD, epoch="1"), InvalidRequest, r"^epoch='1': it is a whole number\.$"),
        (lambda: orders.append(RECORD, token="\udcff"), InvalidRequest, r"^A token is a text of 1 to 1024 octets\.$"),
        *[
            (
                lambda wrong=wrong: orders.append(RECORD, problems=wrong),
                InvalidRequest,
                rf"^problems={wrong!r}: it is a whole number, at least 1\.$",
            )
            for wrong in (0, -1, "5", None)
        ],
        *[
            (
                lambda wrong=wrong: orders.load(file, identity=wrong),
                InvalidRequest,
                r"^The identity of a bulk load's input is a text of 1 to 1000",
            )
            for wrong in ("", "x" * 1001, 5, "\udcff")
        ],
        *[
            (
                lambda wrong=wrong: orders.load(file, identity="x", chunk=wrong),
                InvalidRequest,
                r"^chunk=.*: it is a whole number, at least 1\.$",
            )
            for wrong in (0, "5", None, 1.5)
        ],
        (lambda: orders.load(file, identity="x", problems=0), InvalidRequest, r"^problems=0: it is a whole number, at least 1\.$"),
        (lambda: orders.append(stream), InvalidRequest, r"^append takes no streaming frame: append each batch of it, in foreachBatch"),
        (lambda: orders.append(table, format=5), InvalidRequest, r"^There is no file format 5\."),
        (lambda: orders.append(table, encoding=None), InvalidRequest, r"^encoding=None: there is no such encoding of text"),
        (lambda: orders.append(table, delimiter=None), InvalidRequest, r"^delimiter=None: it is one character"),
        (lambda: orders.append(table, null=0), InvalidRequest, r"^null is the text that means NULL; 0 is none\.$"),
        (lambda: orders.merge(max_records=0), InvalidRequest, r"^max_records=0: it is a whole number, at least 1\.$"),
        (lambda: orders.merge(max_records="9"), InvalidRequest, r"^max_records='9': it is a whole number, at least 1\.$"),
        (lambda: orders.snapshot(2026), InvalidRequest, r"^2026 is no name of a snapshot"),
        (lambda: orders.latest(at=-1), InvalidRequest, r"^at=-1 is neither a version"),
        (lambda: orders.latest(at=True), InvalidRequest, r"^at=True is neither a version"),
        (lambda: orders.read(partition="a", offset=0), InvalidRequest, r"^partition='a': it is a whole number\.$"),
        (lambda: orders.read(0, "0"), InvalidRequest, r"^offset='0': it is a whole number\.$"),
        (lambda: orders.read(0, 0, limit=-1), InvalidRequest, r"^limit=-1: it is a whole number, at least 0\.$"),
        (lambda: orders.verify(sample="0.5"), InvalidRequest, r"^sample='0\.5': it is a share of the keys"),
        (lambda: orders.verify(sample=True), InvalidRequest, r"^sample=True: it is a share of the keys"),
        (lambda: orders.clean(max_bytes="9"), InvalidRequest, r"^max_bytes='9': it is a whole number, at least 1\.$"),
        (lambda: orders.delete_records("0", 1), InvalidRequest, r"^partition='0': it is a whole number\.$"),
        (lambda: orders.delete_records(0, None), InvalidRequest, r"^offset=None: it is a whole number\.$"),
        (lambda: orders.describe_snapshot(5), InvalidRequest, r"^snapshot=5: it is a text\.$"),
        (lambda: orders.delete_snapshot(5), InvalidRequest, r"^snapshot=5: it is a text\.$"),
        (lambda: orders.truncate(5), InvalidRequest, r"^snapshot=5: it is a text\.$"),
        (lambda: untyped.sql(5), InvalidRequest, r"^query=5: it is a text\.$"),
        (lambda: untyped.sql(5, engine="duckdb"), InvalidRequest, r"^query=5: it is a text\.$"),
        (lambda: orders.latest("9" * 5000), InvalidRequest, r"^at='9+' is neither a version"),
        (lambda: orders.restore("9" * 5000, dry_run=True), InvalidRequest, r"^at='9+' is neither a version"),
        (lambda: native.read(partition="0"), InvalidRequest, r"^partition='0': it is a whole number\.$"),
        (lambda: native.read(partition=True), InvalidRequest, r"^partition=True: it is a whole number\.$"),
        (lambda: native.read(offset=0.5), InvalidRequest, r"^offset=0\.5: it is a whole number\.$"),
        (lambda: native.read(limit="5"), InvalidRequest, r"^limit='5': it is a whole number, at least 0\.$"),
        (lambda: native.read().limit(None), InvalidRequest, r"^limit=None: it is a whole number, at least 0\.$"),
        (lambda: native.describe_snapshot(5), InvalidRequest, r"^snapshot=5: it is a text\.$"),
        (lambda: orders.read(since=orders.start(), max_records=0), InvalidRequest, r"^max_records=0: it is a whole number, at least 1\.$"),
    ]
    for call, kind, message in refused:
        with pytest.raises(kind, match=message):
            call()
    assert versions(lake.root, "orders") == before
    assert [topic for topic in ("orders", "x") if (Path(lake.root) / topic).exists()] == ["orders"]


def test_a_type_has_no_order_by_what_it_is_not_by_the_names_of_its_fields(lake: Lake) -> None:
    value = "named STRUCT<map_id: INT, variants: ARRAY<STRING>>, deep ARRAY<STRUCT<at: MAP<STRING, INT>>>"
    rule = {"compaction.strategy": "column", "compaction.strategy.column": "named"}
    assert lake.create_topic("by_struct", key="STRING", value=value, config=rule).verify().problems == []
    with pytest.raises(InvalidConfig, match=r"deep is array<struct<at:map<string,int>>>, which has no order"):
        lake.create_topic("by_map", key="STRING", value=value, config={**rule, "compaction.strategy.column": "deep"})
