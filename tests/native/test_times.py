"""Times of every year that Spark has, however a file holds them: 64 bits as lakelog writes them, 96 bits as an OPTIMIZE by hand does."""

from __future__ import annotations

import datetime
import json
import math
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
from deltalake import write_deltalake

from lakelog import Lake
from lakelog.model.names import TableRef
from lakelog.native.table import EPOCH, Table
from tests.conftest import Answer, Clock
from tests.native.damages import data_files
from tests.tables import with_times_of_96_bits

UTC = datetime.timezone.utc
# The first time and the last one there are, and such as 64 bits of nanoseconds do not hold.
TIMES = [datetime.datetime(1, 1, 1, tzinfo=UTC), datetime.datetime(1600, 1, 1, 0, 0, 0, 1, UTC), datetime.datetime(2026, 1, 1, tzinfo=UTC),
         datetime.datetime(2300, 1, 1, tzinfo=UTC), datetime.datetime(9999, 12, 31, 23, 59, 59, 999999, UTC)]  # fmt: skip
NESTED = "z TIMESTAMP, r ARRAY<TIMESTAMP>, g MAP<STRING, TIMESTAMP>, e STRUCT<u: ARRAY<STRUCT<w: TIMESTAMP>>>"


def test_times_of_96_bits_are_read_as_they_are(tmp_path: Path) -> None:
    kind = pyarrow.timestamp("us", "UTC")
    within = pyarrow.struct([("u", pyarrow.list_(pyarrow.struct([("w", kind)])))])
    rows = pyarrow.table({
        "z": pyarrow.array(TIMES, kind), "r": pyarrow.array([[one, None] for one in TIMES], pyarrow.list_(kind)),
        "g": pyarrow.array([[(one, one)] for one in TIMES], pyarrow.map_(kind, kind)),
        "e": pyarrow.array([{"u": [{"w": one}]} for one in TIMES], within),
    })  # fmt: skip
    write_deltalake(str(tmp_path / "t"), rows)
    (file,) = data_files(tmp_path / "t")
    pyarrow.parquet.write_table(rows, file, use_deprecated_int96_timestamps=True, store_schema=False)
    assert with_times_of_96_bits(tmp_path) == [file]
    commit = tmp_path / "t/_delta_log" / f"{0:020}.json"
    lines = [json.loads(line) for line in commit.read_text().splitlines()]
    for line in lines:
        line.get("add", {})["size"] = file.stat().st_size
    commit.write_text("".join(json.dumps(line) + "\n" for line in lines))
    table = Table(TableRef(str(tmp_path / "t")))
    assert pyarrow.Table.from_batches(table.batches("SELECT * FROM t ORDER BY z")).cast(rows.schema).equals(rows)
    later = "z > arrow_cast('2200-01-01', 'Timestamp(Microsecond, Some(\"UTC\"))')"
    assert table.records(f"SELECT count(*) AS n FROM t WHERE {later}") == [{"n": 2}]


def test_what_read_prints_is_appended_again_wherever_the_machine_is(
    lake: Lake, cli: Callable[..., Answer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = lake.create_topic("contracts", key="INT", value=f"{NESTED}, n DOUBLE, f ARRAY<FLOAT>")
    numbers = (math.nan, math.inf, -math.inf, 1.5, None)
    topic.append([
        {"key": key, "value": {"z": one, "r": [one, None], "g": {"until": one}, "e": {"u": [{"w": one}]}, "n": number, "f": [number]}}
        for key, (one, number) in enumerate(zip(TIMES, numbers, strict=True))
    ])  # fmt: skip
    topic.merge()
    printed = []
    try:
        for zone in ("Asia/Kolkata", "America/Los_Angeles"):
            monkeypatch.setenv("TZ", zone)
            time.tzset()
            for command in ("read contracts --format json", "latest contracts --format csv", "latest contracts"):
                native, spark = (cli(f"--root {lake.root} {command} --engine {engine}") for engine in ("native", "spark"))
                assert (native.code, native.out) == (0, spark.out), command
                printed.append(native.out)
    finally:
        monkeypatch.undo()
        time.tzset()
    (tmp_path / "again.ndjson").write_text(printed[0])
    assert topic.append(str(tmp_path / "again.ndjson")).records == len(TIMES)
    assert cli(f"--root {lake.root} read contracts --format json --offset 5").out == printed[0]


@pytest.mark.long
def test_whoever_wrote_the_files_both_engines_tell_the_same_times(
    lake: Lake, clock: Clock, cli: Callable[..., Answer], tmp_path: Path
) -> None:
    """Spark's sessions write 96 bits by default; lakelog writes 64, whatever it writes."""
    config = {"deletion.vectors": True, "segment.bytes": 14, "compaction.strategy": "column", "compaction.strategy.column": "z"}
    topic = lake.create_topic("contracts", key="STRING", value=NESTED, config=config)
    for times in (TIMES[:2], TIMES[2:]):
        values = [(one, {"z": one, "r": [one, None], "g": {"until": one}, "e": {"u": [{"w": one}]}}) for one in times]
        topic.append([
            {"key": f"{name}{one.year}", "value": value, "timestamp": (one - EPOCH) // datetime.timedelta(milliseconds=1)}
            for one, value in values for name in ("k", "gone")
        ])  # fmt: skip
        topic.merge()
    topic.snapshot("kept", keep="400 days")
    topic.export(tmp_path / "out")
    topic.erase("gone1")
    clock.tick(3_600_000)
    topic.maintain()
    assert with_times_of_96_bits(tmp_path) == []

    topic.append([{"key": "late", "value": {"z": TIMES[-1]}}])
    topic.merge()
    commands = ["latest contracts --format csv", "read contracts --format json"]
    queries = [f'sql "SELECT * FROM contracts{view} ORDER BY key" --format json' for view in ("", "_log")]

    def told() -> list[str]:
        found = []
        for command in [*commands, *queries]:
            engines = ("native" if command in commands else "duckdb", "spark")
            answers = [cli(f"--root {lake.root} {command} --engine {engine}") for engine in engines]
            assert (answers[0].code, answers[0].out) == (0, answers[1].out), command
            found.append(answers[0].out)
        return found

    lake.spark.sql(f"OPTIMIZE {topic.silver.sql()}")
    lake.spark.sql(f"OPTIMIZE {topic.bronze.sql()}")
    assert {file.relative_to(lake.root).parts[1] for file in with_times_of_96_bits(Path(lake.root))} == {"bronze", "silver"}
    assert all("9999-12-31T23:59:59.999999Z" in one and "0001-01-01T00:00:00Z" in one for one in told())
    assert {row["z"] for row in Lake(lake.root).topic("contracts").latest().collect()} == set(TIMES)
