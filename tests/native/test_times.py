"""Times of every year that Spark has, however a file holds them: 64 bits as lakelog writes them, 96 bits as an OPTIMIZE by hand does."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

import pyarrow
import pyarrow.parquet
from deltalake import write_deltalake

from lakelog.model.names import TableRef
from lakelog.native.table import Table
from tests.native.damages import data_files
from tests.tables import with_times_of_96_bits

UTC = datetime.timezone.utc
# The last time there is, and such as 64 bits of nanoseconds do not hold; the very first day Spark cannot bring to Python.
TIMES = [datetime.datetime(1, 1, 2, tzinfo=UTC), datetime.datetime(1600, 1, 1, 0, 0, 0, 1, UTC), datetime.datetime(2026, 1, 1, tzinfo=UTC),
         datetime.datetime(2300, 1, 1, tzinfo=UTC), datetime.datetime(9999, 12, 31, 23, 59, 59, 999999, UTC)]  # fmt: skip


def test_times_of_96_bits_are_read_as_they_are(tmp_path: Path) -> None:
    times = [datetime.datetime(1, 1, 1, tzinfo=UTC), *TIMES]
    time = pyarrow.timestamp("us", "UTC")
    within = pyarrow.struct([("u", pyarrow.list_(pyarrow.struct([("w", time)])))])
    rows = pyarrow.table({
        "z": pyarrow.array(times, time), "r": pyarrow.array([[one, None] for one in times], pyarrow.list_(time)),
        "g": pyarrow.array([[(one, one)] for one in times], pyarrow.map_(time, time)),
        "e": pyarrow.array([{"u": [{"w": one}]} for one in times], within),
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
