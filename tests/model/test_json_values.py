"""Values of rows as they are printed: the same words, whichever engine gave the value."""

from __future__ import annotations

from decimal import Decimal

import pytest

from lakelog.model.json_values import plain
from lakelog.model.kinds import Kind
from lakelog.terminal.output import cell
from lakelog.terminal.rows import spelled


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
