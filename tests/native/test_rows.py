"""Rows of Arrow as Python's values."""

from __future__ import annotations

import copy
import datetime
import pickle
from collections.abc import Iterator
from typing import Any

import pytest

from lakelog.errors import UNSUPPORTED_FEATURE, InvalidRequest, NotReady
from lakelog.model.kinds import Kind, struct
from lakelog.native.query import asked, connection
from lakelog.native.rows import Rows
from lakelog.terminal.rows import frame

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


def test_what_python_has_no_value_for_is_a_text() -> None:
    query = "SELECT INTERVAL 90 MINUTE AS \"a \"\" b\", '10:00:00+02'::TIMETZ AS z, '101'::BIT AS b, [1, 2]::INT[2] AS l, 1 AS n"
    assert asked(connection(), query, ()).collect() == [("01:30:00", "10:00:00+02", "101", [1, 2], 1)]
    assert asked(connection(), f"SELECT {2**128 - 1}::UHUGEINT AS a, {2**127 - 1}::HUGEINT AS b", ()).collect() == [
        (str(2**128 - 1), 2**127 - 1)
    ]


@pytest.mark.parametrize(("value", "text"), [
    ("INTERVAL 1 DAY", "1 day"), ("'12:00:00+01'::TIMETZ", "12:00:00+01"), ("'101'::BIT", "101"), ("7::BIGNUM", "7"), ("7::UHUGEINT", "7"),
    ("'12:00:00.123456789'::TIME_NS", "12:00:00.123456789"),
])  # fmt: skip
def test_what_python_has_no_value_for_is_a_text_however_deep_it_lies(value: str, text: str) -> None:
    """Fields that are called as such a type is, and types with words of their own, stay as they are."""
    kind = value.split("::")[-1].split()[0]
    query = f"""SELECT [v, NULL] AS l, {{'interval': 1, 'a b"c': [v]}} AS s, MAP {{v: {{'x': v}}}} AS m, [v]::{kind}[1] AS f,
        ['b'::ENUM('a', 'b')] AS e, {{'bit': 1, 'j': '{{}}'::JSON}} AS j, union_value(u := v) AS u FROM (SELECT {value} AS v)"""
    assert asked(connection(), query, ()).collect() == [([text, None], (1, [text]), {text: (text,)}, [text], ["b"], (1, "{}"), text)]


def test_a_map_whose_keys_are_nested_has_tuples_as_keys(capsys: pytest.CaptureFixture[str]) -> None:
    query = "SELECT MAP {[2, NULL]: 1, [1]: 2} AS a, MAP {{'x': [1]}: 3} AS b, MAP {MAP {[1]: 2}: 4} AS c"
    rows = asked(connection(), query, ())
    assert rows.collect() == [({(2, None): 1, (1,): 2}, {((1,),): 3}, {(((1,), 2),): 4})]
    for form, shown in (
        ("json", '{"a": {"[1]": 2, "[2, null]": 1}, "b": {"{\\"x\\": [1]}": 3}, "c": {"{\\"[1]\\": 2}": 4}}'),
        ("table", '{"[1]": 2, "[2, null]": 1}'), ("csv", '"{""[1]"": 2, ""[2, null]"": 1}"'),
    ):  # fmt: skip
        frame(rows, form)  # type: ignore[arg-type]
        assert shown in capsys.readouterr().out, form


def test_a_limit_is_a_whole_number_of_rows() -> None:
    rows = asked(connection(), "SELECT * FROM range(3)", ())
    assert [rows.limit(number).count() for number in (0, 2, 2**63, 10**30)] == [0, 2, 3, 3]
    for wrong in (-1, 1.5, True, "1 OFFSET 2"):
        with pytest.raises(InvalidRequest, match=": it is a whole number, at least 0"):
            rows.limit(wrong)  # type: ignore[arg-type]


def test_a_row_can_be_copied_and_sent_to_another_process() -> None:
    (row,) = asked(connection(), "SELECT 1 AS a, {'b': 2} AS s", ()).collect()
    for again in (copy.copy(row), copy.deepcopy(row), pickle.loads(pickle.dumps(row))):
        assert (again, again.a, again["s"].b, again.asDict()) == (row, 1, 2, row.asDict())


def test_nanoseconds_are_cut_off() -> None:
    query = "SELECT t, [t] AS l FROM (SELECT '2026-05-06 10:00:00.123456789'::TIMESTAMP_NS AS t)"
    at = datetime.datetime(2026, 5, 6, 10, 0, 0, 123456)
    assert asked(connection(), query, ()).collect() == [(at, [at])]


def test_a_limit_that_spark_does_not_take_is_its_largest(capsys: pytest.CaptureFixture[str]) -> None:
    """Py4J takes a number of 32 bits for the limit of a frame."""
    taken: list[int] = []

    class Limited(Rows):
        def limit(self, number: int) -> Rows:
            taken.append(number)
            return super().limit(number)

    rows = Limited(struct([("a", Kind("long"))]), lambda *_: iter(()))
    for limit in (3, 2**31 - 1, 2**31, 10**30):
        frame(rows, "csv", limit=limit)  # type: ignore[arg-type]
    assert taken == [3, 2**31 - 1, 2**31 - 1, 2**31 - 1]
    assert capsys.readouterr().out == "a\n" * 4


@pytest.mark.parametrize("form", ["table", "json", "csv"])
def test_rows_that_cannot_be_read_print_nothing(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    """So that Spark can print them in place of this lane."""

    def read(*_: Any) -> Iterator[Any]:
        raise NotReady("beyond delta-rs", name=UNSUPPORTED_FEATURE)
        yield

    with pytest.raises(NotReady):
        frame(Rows(struct([("a", Kind("long"))]), read), form)  # type: ignore[arg-type]
    assert capsys.readouterr().out == ""


def test_csv_without_rows_has_its_header(capsys: pytest.CaptureFixture[str]) -> None:
    frame(Rows(struct([("a", Kind("long")), ("b", Kind("long"))]), lambda *_: iter(())), "csv")  # type: ignore[arg-type]
    assert capsys.readouterr().out == "a,b\n"
