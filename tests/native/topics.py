"""A lake with topics of every type and layout, for asking the two engines about the same files."""

from __future__ import annotations

import dataclasses
import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from lakelog import Lake
from lakelog.model.config import TopicConfig
from lakelog.snapshots import maintain
from tests.native.damages import commits

UTC = datetime.timezone.utc
EVERY = (
    "b BOOLEAN, t TINYINT, s SMALLINT, i INT, l BIGINT, f FLOAT, d DOUBLE, n DECIMAL(10,2), m DECIMAL(38,10), x STRING, y BINARY, a DATE,"
    " z TIMESTAMP, q TIMESTAMP_NTZ, r ARRAY<INT>, g MAP<STRING, BIGINT>, e STRUCT<u: STRING, v: ARRAY<STRUCT<w: DECIMAL(5,1)>>>"
)
FULL: dict[str, Any] = {
    "b": True, "t": -128, "s": 32767, "i": -(2**31), "l": 2**63 - 1, "f": 0.1, "d": 1e300, "n": Decimal("12345678.90"),
    "m": Decimal("1234567890123456789012345678.0123456789"), "x": "héllo\n\t\u2028 \U0001f600", "y": b"\x00\xff", "a": datetime.date(1969, 12, 31),
    "z": datetime.datetime(2026, 5, 6, 12, 0, 0, 123456, UTC), "q": datetime.datetime(1999, 12, 31, 23, 59, 59, 999999),
    "r": [1, None, 3], "g": {"k": 1, "j": None}, "e": {"u": None, "v": [{"w": Decimal("1.5")}, None]},
}  # fmt: skip
EDGES: tuple[dict[str, Any], ...] = (
    FULL,
    dict.fromkeys(FULL),
    FULL | {"f": float("nan"), "d": float("-inf"), "x": "", "y": b"", "r": [], "g": {}, "n": Decimal("-0.01"), "m": Decimal(0)},
    FULL | {"f": -0.0, "d": 5e-324, "y": b"text", "a": datetime.date(1, 1, 1), "z": datetime.datetime(1, 1, 2, tzinfo=UTC)},
    FULL
    | {"a": datetime.date(9999, 12, 31), "q": datetime.datetime(2026, 1, 1), "z": datetime.datetime(2026, 1, 1, tzinfo=UTC), "x": "NULL"},
)
ATOMIC: dict[str, tuple[Any, ...]] = {
    "BINARY": (b"a", b"\xff\x00", b""), "STRING": ("a", "é", ""), "DECIMAL(20,3)": (Decimal("1.500"), Decimal(-7)),
    "TIMESTAMP": (datetime.datetime(2026, 5, 6, 1, 2, 3, 4, UTC),), "BOOLEAN": (True, False),
}  # fmt: skip
# Topics that hold no record, and those with registered snapshots.
EMPTY, WITH_SNAPSHOTS = ("blank", "empty"), ("every", "many")
HEADERS = [["seq", 7], ["trace", "é"], ["trace", None], ["", {"hex": "00ff"}]]


def build(lake: Lake, clock: Any) -> None:
    """Fill an empty lake; ``clock`` is its clock, which is moved on."""
    every = lake.create_topic("every", key="k INT", value=EVERY, partitions=2)
    every.append([{"key": {"k": n}, "value": value, "headers": HEADERS[: n % 5], "partition": n % 2} for n, value in enumerate(EDGES)])
    every.merge()
    clock.tick(60_000)
    every.append(
        [{"key": {"k": 1}, "tombstone": True, "partition": 1}, {"key": {"k": 0}, "value": EDGES[3], "tombstone": True, "partition": 0}]
    )
    every.snapshot("first", keep="90 days", note="before the rest")
    every.append([{"key": {"k": 77}, "value": FULL, "partition": 0}])
    every.merge()
    every.append([{"key": {"k": 78}, "value": FULL, "partition": 1, "timestamp": -1}])
    for number, (kind, values) in enumerate(ATOMIC.items()):
        topic = lake.create_topic(f"kind_{number}", key=kind, value=kind)
        topic.append([{"key": one, "value": one} for one in values] + [{"key": values[0], "tombstone": True}])
        topic.merge()
    _rules(lake, clock)
    _layouts(lake, clock)
    lake.create_topic("empty", value="STRING")
    _registered(lake, clock)
    lake.configure({"log.roll.ms": 86400000})


def _registered(lake: Lake, clock: Any) -> None:
    """Snapshots of each form, and groups of readers."""
    many = lake.topic("many")
    many.commit("started", many.start())
    many.snapshot("first", keep="400 days")
    # A table of its own, as maintain gives it to a snapshot that is older than silver's retention.
    brief = TopicConfig({"snapshot.retention.ms": "1"}, {})
    assert maintain.promote(dataclasses.replace(many.log, config=brief), now=clock()) == ["first"]
    many.append([{"key": "k1", "value": "later"}, {"key": "k2", "tombstone": True}])
    many.snapshot()
    many.commit("up-to-date", many.position())
    many.append([{"key": "k3", "value": "unmerged"}])
    assert [one.form for one in many.snapshots()] == ["table", "version"], "both forms are there"


def _rules(lake: Lake, clock: Any) -> None:
    headed = lake.create_topic(
        "headed", key="STRING", value="STRING", config={"compaction.strategy": "header", "compaction.strategy.header": "seq"}
    )
    headed.append([{"key": f"k{n % 3}", "value": f"v{n}", "headers": [["seq", 10 - n]] if n % 4 else []} for n in range(12)])
    headed.append([{"key": "k0", "tombstone": True}, {"key": "k1", "tombstone": True, "headers": [["seq", 99]]}])
    headed.merge()
    with pytest.warns(UserWarning, match="without a header name"):
        lake.create_topic("blank", config={"compaction.strategy": "header"})
    dated = lake.create_topic("dated", key="STRING", value="v BIGINT, w STRING", partitions=3,
                              config={"compaction.strategy": "column", "compaction.strategy.column": "v, w"})  # fmt: skip
    dated.append([{"key": f"k{n}", "value": {"v": n, "w": None}} for n in range(20)])
    dated.merge()
    clock.tick(3_600_000)
    dated.append([{"key": f"k{n}", "value": {"v": 1, "w": "late"}} for n in range(5)])
    timed = lake.create_topic("timed", key="a BIGINT, b STRING", value="STRING", config={"compaction.strategy": "timestamp"})
    timed.append([{"key": {"a": n % 4, "b": None if n % 2 else "x"}, "value": str(n), "timestamp": 1000 - n} for n in range(9)])
    timed.merge()


def _grown(lake: Lake) -> None:
    """A topic to whose values fields were added at two depths, before and behind those there were."""
    grown = lake.create_topic(
        "grown", key="INT", value="n INT, s STRUCT<u: STRING, t: STRUCT<x: INT>>, l ARRAY<STRUCT<y: INT>>", partitions=2
    )
    old = {"n": 1, "s": {"u": "old", "t": {"x": 7}}, "l": [{"y": 1}, None]}
    olds = [old, old | {"s": None}, old | {"s": {"u": None, "t": None}, "l": None}, dict.fromkeys(old), None]
    grown.append([{"key": n, "value": value, "partition": n % 2} for n, value in enumerate(olds)])
    grown.append([{"key": 9, "value": old, "tombstone": True, "partition": 1}])
    grown.merge()
    grown.configure(value="first DATE, n INT, s STRUCT<w: DECIMAL(9,2), u: STRING, t: STRUCT<x: INT, z: ARRAY<TIMESTAMP>>>,"
                          " l ARRAY<STRUCT<y: INT>>, m MAP<STRING, BINARY>")  # fmt: skip
    at = datetime.datetime(2026, 5, 6, 12, 0, 0, 1, UTC)
    new = {"first": datetime.date(2026, 1, 1), "n": 2, "s": {"w": Decimal("1.50"), "u": "new", "t": {"x": 8, "z": [at, None]}}, "l": [],
           "m": {"k": b"\x00", "j": None}}  # fmt: skip
    grown.append([{"key": 1, "value": new, "partition": 1}, {"key": 20, "value": new | {"s": None, "m": None}, "partition": 0}])
    grown.merge()
    grown.append([{"key": 0, "value": new, "partition": 0}])


def _layouts(lake: Lake, clock: Any) -> None:
    vectors = lake.create_topic(
        "vectors", key="BIGINT", value="x STRING", partitions=2, config={"deletion.vectors": True, "silver.buckets": 3}
    )
    vectors.append([{"key": n, "value": {"x": f"first {n}"}} for n in range(200)])
    vectors.merge()
    for turn in range(2):
        clock.tick(1000)
        vectors.append(
            [{"key": n, "value": {"x": f"turn {turn}"}} for n in range(turn * 10, turn * 10 + 5)] + [{"key": 150 + turn, "tombstone": True}]
        )
        vectors.merge()
    assert any('"deletionVector":{' in file.read_text() for file in commits(Path(lake.root, "vectors", "silver"))), (
        "it has deletion vectors"
    )
    _grown(lake)
    wide = lake.create_topic("wide", key="INT", value="n INT, d DECIMAL(5,2), s STRUCT<u: SMALLINT>", config={"segment.bytes": 14})
    wide.append([{"key": n, "value": {"n": n, "d": Decimal("1.25"), "s": {"u": n}}} for n in range(6)])
    wide.merge()
    wide.configure(value="n BIGINT, d DECIMAL(12,4), s STRUCT<u: INT, w: STRING>, later DATE")
    new = {"n": 2**40, "d": Decimal("12345678.1234"), "s": {"u": 70000, "w": "new"}, "later": datetime.date(2026, 1, 1)}
    wide.append([{"key": 3, "value": new}, {"key": 99, "value": new}])
    wide.merge()
    many = lake.create_topic("many", key="STRING", value="STRING", partitions=3)
    for turn in range(4):
        clock.tick(10)
        many.append([{"key": f"k{n}", "value": f"{turn}"} for n in range(turn, turn + 20)], token=f"t{turn}")
        if turn == 2:
            many.merge()
