"""Rows of Arrow as Python's values."""

from __future__ import annotations

import datetime

import pytest

from lakelog.native.query import asked, connection

AT = datetime.datetime(2026, 5, 6, 10, 0, 0, 250_000)
WHOLE = AT.replace(microsecond=0)


@pytest.mark.parametrize("kind", ["TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP", "TIMESTAMP_NS", "TIMESTAMPTZ"])
def test_a_time_is_the_same_in_any_unit(kind: str) -> None:
    """Alone, in a STRUCT, a LIST and a MAP."""
    query = f"SELECT t AS a, {{'t': t}} AS s, [t, NULL] AS l, MAP {{'k': t}} AS m, NULL::{kind} AS n FROM (SELECT '{AT}'::{kind} AS t)"
    found = asked(connection(), query, ()).collect()
    at = WHOLE if kind == "TIMESTAMP_S" else AT
    at = at.replace(tzinfo=datetime.timezone.utc) if kind == "TIMESTAMPTZ" else at
    assert found == [(at, (at,), [at, None], {"k": at}, None)]


def test_nanoseconds_are_cut_off() -> None:
    query = "SELECT t, [t] AS l FROM (SELECT '2026-05-06 10:00:00.123456789'::TIMESTAMP_NS AS t)"
    at = datetime.datetime(2026, 5, 6, 10, 0, 0, 123456)
    assert asked(connection(), query, ()).collect() == [(at, [at])]
