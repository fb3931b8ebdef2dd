"""Arguments of a wrong type: each is refused by name, and nothing is written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lakelog import Lake
from lakelog.errors import InvalidConfig, InvalidRequest, LakelogError, NotFound
from tests.tables import versions

RECORD = {"key": "a", "value": "1"}


def test_arguments_of_a_wrong_type_are_refused_by_name(lake: Lake) -> None:
    orders: Any = lake.create_topic("orders", key="STRING", value="STRING")
    orders.append(RECORD)
    orders.merge()
    untyped: Any = lake
    before = versions(lake.root, "orders")
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
        (lambda: orders.merge(max_records=0), InvalidRequest, r"^max_records=0: it is a whole number, at least 1\.$"),
        (lambda: orders.merge(max_records="9"), InvalidRequest, r"^max_records='9': it is a whole number, at least 1\.$"),
        (lambda: orders.snapshot(2026), InvalidRequest, r"^2026 is no name of a snapshot"),
        (lambda: orders.latest(at=-1), InvalidRequest, r"^at=-1 is neither a version"),
        (lambda: orders.latest(at=True), InvalidRequest, r"^at=True is neither a version"),
        (lambda: orders.read(partition="a", offset=0), InvalidRequest, r"^partition='a': it is a whole number\.$"),
        (lambda: orders.read(0, "0"), InvalidRequest, r"^offset='0': it is a whole number\.$"),
        (lambda: orders.read(0, 0, limit=-1), InvalidRequest, r"^limit=-1: it is a whole number, at least 0\.$"),
        (lambda: orders.read(since=orders.start(), max_records=0), InvalidRequest, r"^max_records=0: it is a whole number, at least 1\.$"),
    ]
    for call, kind, message in refused:
        with pytest.raises(kind, match=message):
            call()
    assert versions(lake.root, "orders") == before
    assert [topic for topic in ("orders", "x") if (Path(lake.root) / topic).exists()] == ["orders"]
