"""Nothing of a record's key or value is rounded, cut or guessed, however deep it lies."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

from lakelog.errors import InvalidRecords
from tests.tables import versions

if TYPE_CHECKING:
    from pathlib import Path

    from lakelog import Lake

VALUE = "xs ARRAY<INT>, ss ARRAY<STRUCT<a: INT>>, m MAP<STRING, DECIMAL(4,1)>, d DECIMAL(38,0), e DECIMAL(10,2), f DECIMAL(30,20)"
EXACT = [
    {"xs": [1, None, 3], "ss": [{"a": 1}, {}, None], "m": {"x": 1.5, "y": None}, "d": 12345678901234567890123456789, "e": 1.50},
    {"xs": [], "ss": [], "m": {}, "d": "12345678901234567890123456789012345678", "e": "1.2500e1", "f": "1.12345678901234567890"},
    {"xs": None, "ss": None, "m": None, "d": 10**20, "e": 3, "f": 0.5},
    {"m": {"x": "0e-30"}, "d": "1e20", "e": " 12500.0E-3\t", "f": "1e-20"},
]
WRONG = [
    ({"xs": [1, "x"]}, "value.xs[] should be int but is string"),
    ({"xs": [2.7]}, "value.xs[] should be int but is decimal(2,1)"),
    ({"xs": {"a": 1}}, "value.xs should be array<int> but is object<a: bigint>"),
    ({"ss": [{"b": 1}]}, "value.ss[] has an unknown field b"),
    ({"ss": [{"a": 2**40}]}, "value.ss[].a should be int but is bigint"),
    ({"m": {"x": 1.25}}, "value.m[] should be decimal(4,1) but is decimal(3,2): it has more decimal places than that"),
    ({"m": [1]}, "value.m should be map<string,decimal(4,1)> but is array<bigint>"),
    ({"d": 1.5}, "value.d should be decimal(38,0) but is decimal(2,1): it has more decimal places than that"),
    ({"e": "1.239"}, "value.e should be decimal(10,2) but is string: it has more decimal places than that"),
    ({"e": "1.2555e1"}, "value.e should be decimal(10,2) but is string: it has more decimal places than that"),
    ({"e": "1.239 "}, "value.e should be decimal(10,2) but is string: it has more decimal places than that"),
    ({"e": "1e-30"}, "value.e should be decimal(10,2) but is string: it has more decimal places than that"),
    ({"f": "1e-21"}, "value.f should be decimal(30,20) but is string: it has more decimal places than that"),
    ({"e": "１.２３９"}, "value.e should be decimal(10,2) but is string"),
    ({"d": "1e38"}, "value.d should be decimal(38,0) but is string"),
    ({"e": "twelve"}, "value.e should be decimal(10,2) but is string"),
    ({"e": 123456789.1}, "value.e should be decimal(10,2) but is decimal(10,1)"),
    ({"f": "0.123456789012345678901"}, "value.f should be decimal(30,20) but is string: it has more decimal places than that"),
]


def test_values_go_in_and_out_as_they_are_or_not_at_all(lake: Lake, tmp_path: Path) -> None:
    topic = lake.create_topic("t", key="STRING", value=VALUE)
    topic.append([{"key": str(number), "value": value} for number, value in enumerate(EXACT)])
    rows = [row["value"].asDict(recursive=True) for row in topic.read().collect()]
    assert rows == [
        {"xs": [1, None, 3], "ss": [{"a": 1}, {"a": None}, None], "m": {"x": Decimal("1.5"), "y": None},
         "d": Decimal(12345678901234567890123456789), "e": Decimal("1.50"), "f": None},
        {"xs": [], "ss": [], "m": {}, "d": Decimal("12345678901234567890123456789012345678"), "e": Decimal("12.50"),
         "f": Decimal("1.12345678901234567890")},
        {"xs": None, "ss": None, "m": None, "d": Decimal(10**20), "e": Decimal(3), "f": Decimal("0.5")},
        {"xs": None, "ss": None, "m": {"x": Decimal(0)}, "d": Decimal(10**20), "e": Decimal("12.5"), "f": Decimal("1e-20")},
    ]  # fmt: skip
    before = versions(lake.root, "t")
    with pytest.raises(InvalidRecords) as caught:
        topic.append([{"key": "x", "value": value} for value, _ in WRONG])
    assert [problem["reason"] for problem in caught.value.details["problems"]] == [says for _, says in WRONG]

    prices = lake.create_topic("prices", key="sku STRING", value="price DECIMAL(10,2)")
    file = tmp_path / "prices.csv"
    file.write_text("sku,price\na,1.50\nb,1.2300\nc,\n")
    prices.append(str(file))
    assert [row["value"] and row["value"]["price"] for row in prices.read().collect()] == [Decimal("1.50"), Decimal("1.23"), None]
    file.write_text("sku,price\na,1.239\n")
    with pytest.raises(InvalidRecords, match=r"price should be decimal\(10,2\) but is 1.239"):
        prices.append(str(file))
    assert (versions(lake.root, "t"), prices.ends()) == (before, {0: 3})
