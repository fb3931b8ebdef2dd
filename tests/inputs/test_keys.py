"""A key that somebody names is the one that the tables hold, whatever its type and the zone of the machine."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from pyspark.sql import functions as F

from lakelog import Lake
from lakelog.inputs import keys
from lakelog.latest import erased
from lakelog.model.records import ddl, declared_type
from lakelog.operations import erase

# A value of every type that keys have, as SQL writes it and as NDJSON does.
EVERY_TYPE = [
    ("BOOLEAN", "true", True),
    ("TINYINT", "-7", -7),
    ("BIGINT", "9007199254740993", 9007199254740993),
    ("FLOAT", "0.1", 0.1),
    ("DOUBLE", "-0.0D", -0.0),
    ("DOUBLE", "'NaN'", "NaN"),
    ("DECIMAL(38,18)", "12345678901234567890.000000000000000001BD", "12345678901234567890.000000000000000001"),
    ("STRING", "'größe'", "größe"),
    ("BINARY", "X'00FF'", {"hex": "00ff"}),
    ("DATE", "DATE '0001-01-02'", "0001-01-02"),
    ("TIMESTAMP", "TIMESTAMP '2026-05-06 10:00:00.000001Z'", "2026-05-06T10:00:00.000001Z"),
    ("TIMESTAMP", "TIMESTAMP '0001-01-01 00:00:00Z'", "0001-01-01T00:00:00Z"),
    ("TIMESTAMP_NTZ", "TIMESTAMP_NTZ '2026-03-08 02:30:00.000001'", "2026-03-08T02:30:00.000001"),
]


@pytest.fixture
def new_york(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The machine's zone."""
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def test_a_key_of_every_type_is_the_one_that_the_tables_hold(lake: Lake, new_york: None) -> None:
    """A TIMESTAMP_NTZ that does not exist there, in March, and the first moment of year 1, which is one of the year before there."""
    log = lake.create_topic("t", key="STRING", value="INT").log
    fields = {f"f{n}": (kind, sql, value) for n, (kind, sql, value) in enumerate([*EVERY_TYPE, ("STRING", "NULL", None)])}
    whole = (
        ", ".join(f"{name} {kind}" for name, (kind, _, _) in fields.items()),
        f"named_struct({', '.join(f'{name!r}, CAST({sql} AS {kind})' for name, (kind, sql, _) in fields.items())})",
        {name: value for name, (_, _, value) in fields.items()},
    )
    for text, sql, value in [*EVERY_TYPE, whole]:
        kind = declared_type(text, what="key")
        key = keys.named(lake.spark, value, kind)
        rows = lake.spark.sql(f"SELECT CAST({sql} AS {ddl(kind)}) AS key")
        found = rows.select(key.test(), F.expr(erased.digest_sql(log.uuid, kind))).collect()
        assert [tuple(row) for row in found] == [(True, erase.Target.of(log, key).digest)], text


def test_where_the_commit_files_show_it_a_key_of_times_and_inner_fields_is_told(lake: Lake, new_york: None) -> None:
    """Delta's statistics hold the least and greatest key of a data file, times cut to milliseconds."""
    topic = lake.create_topic("t", key="n TIMESTAMP_NTZ, day DATE, inner STRUCT<at: TIMESTAMP, by: STRING>", value="INT")
    key = {"n": "2026-03-08T02:30:00.000001", "day": "0999-12-31", "inner": {"at": "2026-05-06T10:00:00.000001Z", "by": None}}
    other = {**key, "inner": {"at": "2026-05-06T10:00:00.000001Z", "by": "x"}}
    topic.append([{"key": key, "value": 1}, {"key": {**key, "day": "2026-01-01"}, "value": 2}])
    topic.merge()
    assert [one.value for one in topic.explain(key).partitions[0].records] == [1]
    assert [one for part in topic.explain(other).partitions for one in part.records] == []
    done = topic.erase(key)
    assert (done.removed["log"], done.removed["silver"]) == (1, 1)
    assert [one for one in done.held if one.where.startswith("commit files of")] != [], [one.where for one in done.held]
    assert [row["value"] for row in topic.latest().collect()] == [2]
