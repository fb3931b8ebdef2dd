"""Values of rows as they are printed: the same words, whichever engine gave the value."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest

from lakelog.model.json_values import plain
from lakelog.model.kinds import Kind
from lakelog.terminal.output import cell
from lakelog.terminal.rows import spelled

TEXT = Kind("string")


@pytest.mark.parametrize(("value", "kind", "text"), [
    # So PySpark gives values that Java writes with an exponent.
    ("1.0E-8", "10,8", "0.00000001"), ("1.0E-38", "38,38", f"0.{'0' * 37}1"), ("0E-8", "10,8", "0.00000000"), ("-1.20E-7", "10,8", "-0.00000012"),
    ("9" * 38, "38,0", "9" * 38), (f"0.{'9' * 38}", "38,38", f"0.{'9' * 38}"), ("1.50", "10,2", "1.50"), ("-0.01", "10, 2", "-0.01"),
])  # fmt: skip
def test_a_decimal_has_the_digits_of_its_type(value: str, kind: str, text: str) -> None:
    number, of = Decimal(value), Kind("decimal", kind)
    assert (plain(number, of), cell(spelled(number, of)), type(spelled(number, of))) == (text, text, Decimal)
    assert plain([number], Kind("array", elementType=of)) == [text]


def test_a_decimal_of_a_type_without_digits_has_those_of_its_own() -> None:
    """Such as one of DuckDB's UNION."""
    assert plain(Decimal("1.50"), Kind("sparse_union<a: decimal128(3, 2)=0>")) == "1.50"


@pytest.mark.parametrize(("number", "text"), [(math.nan, "NaN"), (math.inf, "Infinity"), (-math.inf, "-Infinity")])
def test_numbers_that_json_does_not_have_are_told_as_append_takes_them(number: float, text: str) -> None:
    assert (plain(number, Kind("double")), spelled(number, Kind("float"))) == (text, text)


@pytest.mark.parametrize(("time", "text"), [
    (0, "1970-01-01T00:00:00Z"), (-62_135_596_800_000_000, "0001-01-01T00:00:00Z"), (253_402_300_799_999_999, "9999-12-31T23:59:59.999999Z"),
    (datetime.datetime(9999, 12, 31, tzinfo=datetime.timezone.utc), "9999-12-31T00:00:00Z"),
])  # fmt: skip
def test_a_time_is_told_in_utc(time: Any, text: str) -> None:
    assert plain(time, Kind("timestamp")) == text


@pytest.mark.parametrize(("value", "kind", "keys"), [
    ({"k": 1, "n": None, "": 3}, TEXT, ["", "k", "n"]), ({10: 1, 9: None, -1: 2}, Kind("integer"), ["-1", "10", "9"]),
    ({True: 1, False: 2}, Kind("boolean"), ["false", "true"]), ({b"b": 1, b"\xff": 2, b"a": 3}, Kind("binary"), ["a", "b", '{"hex": "ff"}']),
    ([((2, None), 1), ((1,), 2)], Kind("array", elementType=Kind("integer")), ["[1]", "[2, null]"]),
])  # fmt: skip
def test_the_entries_of_a_map_are_in_the_order_of_their_names(value: Any, kind: Kind, keys: list[str]) -> None:
    """A map has no order: Arrow gives the entries as they are stored, Spark as Java's hashes are."""
    shown = plain(value, Kind("map", keyType=kind, valueType=Kind("integer")))
    assert list(shown) == keys


@pytest.mark.parametrize(("value", "shown"), [
    ({"x": [1, None, True, "1"], "d": Decimal("1.50")}, {"x": [1, None, True, "1"], "d": 1.5}), (Decimal("9" * 38), int("9" * 38)),
    (Decimal("0.12345678901234567890"), "0.12345678901234567890"), (math.nan, "NaN"), (b"\xff", {"hex": "ff"}), ("text", "text"), (None, None),
    (datetime.date(2026, 5, 6), "2026-05-06"), (datetime.datetime(2026, 5, 6, 10, tzinfo=datetime.timezone.utc), "2026-05-06T10:00:00Z"),
    (datetime.datetime(2026, 5, 6, 10), "2026-05-06T10:00:00"),
])  # fmt: skip
def test_a_variant_is_the_value_that_it_holds(value: Any, shown: Any) -> None:
    """No text of JSON: appended again it is what it was. A number whose digits readers of JSON would not keep is a text, as decimals are."""
    assert plain(SimpleNamespace(toPython=lambda: value), Kind("variant")) == shown


@pytest.mark.parametrize(("unscaled", "scale", "shown"), [
    (12345678901234567890123456789012345678, 0, 12345678901234567890123456789012345678), (10**29 + 1, 0, 10**29 + 1),
    (-(10**38 - 1), 10, f"-{'9' * 28}.{'9' * 10}"), (10**29 + 1, 38, f"0.{'0' * 8}1{'0' * 28}1"),
])  # fmt: skip
def test_a_number_in_a_variant_keeps_all_of_its_digits(unscaled: int, scale: int, shown: Any) -> None:
    """PySpark multiplies it, in Python's context of 28 digits."""
    from pyspark.sql.types import VariantVal

    # A primitive value, a decimal of sixteen octets; and metadata without names.
    value = bytes([10 << 2, scale]) + unscaled.to_bytes(16, "little", signed=True)
    assert plain(VariantVal(value, b"\x01\x00\x00"), Kind("variant")) == shown
