"""Rows of every type there is, drawn by chance: what both engines read, show and print of them."""

from __future__ import annotations

import datetime
import itertools
import json
import random
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given

from lakelog import Lake
from lakelog.model.json_values import plain
from lakelog.model.records import ATOMIC
from tests.conftest import NOON, Answer
from tests.strategies import dice, few

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.long

UTC = datetime.timezone.utc
NUMBERS = itertools.count()
KEYS, RECORDS = 60, 150
Maker = Callable[[], Any]
INTEGERS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
FLOATS = (0.0, -0.0, 1.5, -0.1, float("nan"), float("inf"), float("-inf"))
EDGES: Mapping[str, tuple[Any, ...]] = {
    "boolean": (True, False),
    "float": (*FLOATS, 1e-45, 3.4028234663852886e38),
    "double": (*FLOATS, 5e-324, 1.7976931348623157e308, 0.1),
    "string": ("", "a", "é\n\t\r", "\u2028 \U0001f600", "NULL", '"a", \\', " b ", "x" * 300),
    "binary": (b"", b"text", b"\x00\xff", bytes(range(256))),
    "date": (datetime.date(1, 1, 1), datetime.date(1582, 10, 10), datetime.date(1969, 12, 31), datetime.date(9999, 12, 31)),
    "timestamp_ntz": (datetime.datetime(1, 1, 2), datetime.datetime(1969, 12, 31, 23, 59, 59, 999999), datetime.datetime(2026, 5, 6, 12, 0, 0, 1),
                      datetime.datetime(9999, 12, 30, 23, 59, 59, 999999)),
}  # fmt: skip


def atomic(word: str, chance: random.Random) -> tuple[str, Maker]:
    """An atomic type in Spark's words, and what makes values of it; edges more often than others."""
    if word == "decimal":
        precision = chance.choice((1, 5, 9, 10, 18, 19, 38))
        scale = chance.randint(0, precision)
        # Built of digits: arithmetic would round to 28 of them.
        return f"decimal({precision},{scale})", lambda: Decimal(
            (chance.randint(0, 1), [chance.choice((0, 9, chance.randint(0, 9))) for _ in range(precision)], -scale)
        )
    if word in INTEGERS:
        most = 2 ** (INTEGERS[word] - 1)
        return word, lambda: chance.choice((0, -1, most - 1, -most, chance.randrange(-most, most)))
    if word == "timestamp":
        return word, lambda: chance.choice(EDGES["timestamp_ntz"]).replace(tzinfo=UTC)
    return word, lambda: chance.choice(EDGES[word])


def at_times(maker: Maker, chance: random.Random) -> Maker:
    """The same, or NULL."""
    return lambda: None if chance.random() < 0.2 else maker()


def array(inner: tuple[str, Maker], chance: random.Random) -> tuple[str, Maker]:
    kind, maker = inner[0], at_times(inner[1], chance)
    return f"array<{kind}>", lambda: [maker() for _ in range(chance.randint(0, 3))]


def mapping(inner: tuple[str, Maker], chance: random.Random) -> tuple[str, Maker]:
    """Its keys are texts: records that are dicts have no other names."""
    key_kind, key = atomic("string", chance)
    maker = at_times(inner[1], chance)
    return f"map<{key_kind}, {inner[0]}>", lambda: {key(): maker() for _ in range(chance.randint(0, 3))}


def struct(inner: tuple[str, Maker], chance: random.Random) -> tuple[str, Maker]:
    first, more = atomic(chance.choice(ATOMIC), chance), at_times(inner[1], chance)
    maker = at_times(first[1], chance)
    return f"struct<a: {first[0]}, b: {inner[0]}>", lambda: {"a": maker(), "b": more()}


def fields(kinds: Mapping[str, tuple[str, Maker]], chance: random.Random) -> tuple[str, Maker]:
    """A list of fields as a topic's types name them, and what makes them."""
    makers = {name: at_times(maker, chance) for name, (_, maker) in kinds.items()}
    return ", ".join(f"{name} {kind}" for name, (kind, _) in kinds.items()), lambda: {name: maker() for name, maker in makers.items()}


def types(chance: random.Random) -> tuple[tuple[str, Maker], tuple[str, Maker]]:
    """Keys with a field of every atomic type; values with those too, and with each of array, map and struct within each."""
    key = fields({f"k{place}": atomic(word, chance) for place, word in enumerate(ATOMIC)}, chance)
    made = {f"v{place}": atomic(word, chance) for place, word in enumerate(ATOMIC)}
    for outer, inner in itertools.product((array, mapping, struct), repeat=2):
        made[f"{outer.__name__}_of_{inner.__name__}"] = outer(inner(atomic(chance.choice(ATOMIC), chance), chance), chance)
    return key, fields(made, chance)


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """One lake for all examples."""
    return Lake(spark, str(tmp_path_factory.mktemp("frames") / "lake"), clock=lambda: NOON)


def seen(rows: Any, order: tuple[str, str]) -> tuple[list[str], list[str]]:
    """Rows as Arrow has them, and as they are printed, where a map has no order; a line each, since NaN equals nothing."""
    ordered = rows.orderBy(*order)
    kinds = [field.dataType for field in ordered.schema.fields]
    printed = [
        json.dumps([plain(value, kind) for value, kind in zip(row, kinds, strict=True)], sort_keys=True) for row in ordered.collect()
    ]
    return [repr(row) for row in ordered.toArrow().to_pylist()], printed


@given(dice())
@few(3)
def test_both_engines_read_the_same_of_any_rows(lake: Lake, chance: random.Random) -> None:
    (key_type, key), (value_type, value) = types(chance)
    topic = lake.create_topic(f"t{next(NUMBERS)}", key=key_type, value=value_type, partitions=2)
    keys = [key() for _ in range(KEYS)]

    def record() -> dict[str, Any]:
        content = None if chance.random() < 0.1 else value()
        return {"key": chance.choice(keys), "value": content, "tombstone": chance.random() < 0.25, "headers": [["h", b"\x00"]]}

    topic.append([record() for _ in range(RECORDS)])
    topic.merge()
    topic.append([record() for _ in range(RECORDS // 3)])
    topic.merge()
    native = Lake(lake.root).topic(topic.name)

    place = ("_partition", "_offset")
    found = {name: seen(getattr(topic, name)(), place) for name in ("latest", "deleted")}
    found |= {"first": seen(topic.latest(at=1), place), "log": seen(topic.read(), ("partition", "offset"))}
    assert (len(found["log"][0]), len(found["first"][0]) > 0, len(found["deleted"][0]) > 0) == (RECORDS + RECORDS // 3, True, True)
    assert seen(native.latest(), place) == found["latest"]
    assert seen(native.deleted(), place) == found["deleted"]
    assert seen(native.latest(at=1), place) == found["first"]
    assert seen(native.read(), ("partition", "offset")) == found["log"]
    assert native.describe() == topic.describe()
    assert [field.name for field in native.latest().schema.fields] == [field.name for field in topic.latest().schema.fields]


DIFFERENT = (
    "d DECIMAL(10,8), e DECIMAL(38,38), m MAP<STRING, TIMESTAMP>, a MAP<ARRAY<INT>, DECIMAL(10,8)>,"
    " n ARRAY<STRUCT<x: MAP<STRUCT<y: ARRAY<STRING>>, MAP<ARRAY<STRING>, INT>>>>"
)


def test_values_that_the_engines_hold_differently_are_told_in_the_same_words(lake: Lake, cli: Callable[..., Answer]) -> None:
    """Decimals that Java writes with an exponent, entries of maps, of which Python's dicts have some not, and a limit beyond what Py4J takes."""
    topic = lake.create_topic(f"t{next(NUMBERS)}", key="k INT", value=DIFFERENT)
    topic.append(lake.spark.sql("""
        SELECT 1 AS k, CAST(0.00000001 AS DECIMAL(10,8)) AS d, CAST('1E-38' AS DECIMAL(38,38)) AS e,
            map('k', TIMESTAMP '2026-05-06 10:00:00', 'n', NULL, '', TIMESTAMP '1969-12-31 23:59:59') AS m,
            map(array(2, NULL), CAST(0.00000001 AS DECIMAL(10,8)), array(1), NULL) AS a,
            array(named_struct('x', map(named_struct('y', array('b', NULL)), map(array('c'), 1))), named_struct('x', NULL), NULL) AS n
        UNION ALL SELECT 2, 1.5, CAST(0 AS DECIMAL(38,38)), NULL, NULL, NULL"""))  # fmt: skip
    topic.merge()
    wrong = []
    for command in (*(f"{verb} {topic.name} --format {form}" for verb in ("latest", "read") for form in ("table", "json", "csv")),
                    f"latest {topic.name} --limit 3000000000 --json", f"read {topic.name} --limit 2147483648 --json"):  # fmt: skip
        native, through_spark = (cli(f"--root {lake.root} {command} --engine {engine}") for engine in ("native", "spark"))
        if (
            native != through_spark
            or native.code
            or "0.000000010" in native.out
            or not all(part in native.out for part in ("0.00000001", "2, null]"))
        ):
            wrong.append(f"{command}\n  native {native}\n  spark  {through_spark}")
    assert not wrong, "\n".join(wrong)
    assert topic.read(limit=2**31).count() == 2
    (record,) = topic.explain({"k": 1}).partitions[0].records
    assert record.value["a"] == {"[1]": None, "[2, null]": "0.00000001"}
    query = "SELECT map(array(1), 2) AS m, 3 AS n, 4 AS n, map(array(array(1)), array('x')) AS `a.b`"
    assert cli(["--root", lake.root, "sql", query, "--format", "csv"]).out == 'm,n,n,a.b\n"{""[1]"": 2}",3,4,"{""[[1]]"": [""x""]}"\n'
