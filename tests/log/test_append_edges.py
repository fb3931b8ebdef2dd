"""Inputs at their edges: sources that change, two thousand fields, types and names that tables cannot hold, octets and times that are none."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow
import pytest
from pyarrow import parquet

from lakelog.errors import InvalidConfig, InvalidRecords, Refused
from lakelog.log import append as append_module
from tests.tables import versions, write

if TYPE_CHECKING:
    from lakelog import Lake

SWAPPED: dict[str, dict[str, Any]] = {
    "a null key": {"key": [None, "b"], "value": ["1", "2"]},
    "a record that is too large": {"key": ["a", "b"], "value": ["1", "x" * 100]},
    "a partition that is not there": {"key": ["a", "b"], "value": ["1", "2"], "partition": pyarrow.array([0, 7], pyarrow.int32())},
    "an expected offset": {"key": ["a", "b"], "value": ["1", "2"], "expected_offset": [9, 10]},
}


@pytest.mark.parametrize("what", SWAPPED)
def test_a_file_swapped_after_the_check_is_refused_by_the_write(
    what: str, lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = lake.create_topic("swapped", key="STRING", value="STRING", config={"max.message.bytes": 50})
    path = tmp_path / "a.parquet"
    full = {"key": ["a", "b"], "value": ["1", "2"], **{name: [None, None] for name in ("partition", "expected_offset")}}
    schema = pyarrow.schema(
        [("key", pyarrow.string()), ("value", pyarrow.string()), ("partition", pyarrow.int32()), ("expected_offset", pyarrow.int64())]
    )
    parquet.write_table(pyarrow.table(full, schema=schema), path)
    before = versions(lake.root, "swapped")
    write_batch = append_module.bronze.append

    def swap_first(*given: Any, **more: Any) -> Any:
        parquet.write_table(pyarrow.table({**full, **SWAPPED[what]}, schema=schema), path)
        return write_batch(*given, **more)

    monkeypatch.setattr(append_module.bronze, "append", swap_first)
    with pytest.raises(Refused, match="changed while it was appended") as caught:
        topic.append(str(path))
    assert caught.value.name == "SOURCE_CHANGED"
    assert versions(lake.root, "swapped") == before


def test_records_of_files_that_expect_offsets_are_written_as_they_were_checked(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = lake.create_topic("kept", key="STRING", value="STRING")
    path = tmp_path / "a.parquet"
    parquet.write_table(pyarrow.table({"key": ["a", "b"], "value": ["1", "2"], "expected_offset": [0, 1]}), path)
    write_batch = append_module.bronze.append

    def swap_first(*given: Any, **more: Any) -> Any:
        parquet.write_table(pyarrow.table({"key": ["a", "b"], "value": ["1", "2"], "expected_offset": [7, 8]}), path)
        return write_batch(*given, **more)

    monkeypatch.setattr(append_module.bronze, "append", swap_first)
    assert topic.append(str(path)).offsets == {0: (0, 2)}


@pytest.mark.long
def test_two_thousand_fields_are_appended_merged_and_read(lake: Lake, tmp_path: Path) -> None:
    names = [f"f{index}" for index in range(2000)]
    topic = lake.create_topic("wide", key="id BIGINT", value=", ".join(f"{name} INT" for name in names))
    record = {"key": {"id": 1}, "value": {name: index for index, name in enumerate(names)}}
    topic.append([record, {"key": {"id": 2}, "value": {}}])
    topic.merge()
    flat = pyarrow.table({"id": [3], **{name: pyarrow.array([index], pyarrow.int32()) for index, name in enumerate(names)}})
    parquet.write_table(flat, tmp_path / "wide.parquet")
    topic.append(str(tmp_path / "wide.parquet"))
    topic.merge()
    rows = {row["id"]: row for row in topic.latest().collect()}
    assert sorted(rows) == [1, 2, 3]
    assert [rows[1][name] for name in names] == [rows[3][name] for name in names] == list(range(2000))
    assert rows[2]["f1999"] is None


UNUSABLE = {
    "TIME": "time", "VOID": "void", "GEOMETRY(4326)": "geometry", "GEOGRAPHY(4326)": "geography", "INTERVAL DAY": "interval",
    "a STRUCT<b: VOID>": "void", "ARRAY<VOID>": "void", "MAP<STRING, TIME>": "time", "VARCHAR(5)": "Use STRING", "CHAR(3)": "Use STRING",
    "a INT, b ARRAY<VARCHAR(5)>": "Use STRING", "STRING COLLATE UNICODE_CI": "collate", "`a b` INT": "'a b'", "a STRUCT<`x=1`: INT>": "'x=1'",
    "`a,b` INT": "'a,b'", "`a(b)` INT": "'a(b)'", "a INT, A INT": "repeat", "x STRUCT<a: INT, A: INT>": "repeat", "no such type": "is no type",
}  # fmt: skip


def test_a_type_or_a_name_that_tables_cannot_hold_is_refused_at_creation(lake: Lake) -> None:
    lake.create_topic("there")
    for text, word in UNUSABLE.items():
        for side in ("key", "value"):
            with pytest.raises(InvalidConfig, match=re.escape(word) if side == "value" else None) as caught:
                lake.create_topic("never", **{side: text})
            assert "\n" not in str(caught.value), text
    for text in ("ARRAY<INT>", "MAP<STRING, INT>", "a VARIANT"):
        with pytest.raises(InvalidConfig, match="key: "):
            lake.create_topic("never", key=text)
    assert lake.topics() == ["there"]
    assert not Path(lake.root, "never").exists()


def test_names_of_fields_may_hold_anything_else(lake: Lake, tmp_path: Path) -> None:
    names = ["a.b", "c`d", "e'f", 'g"h', "i$j", "[k]", "l\\m", "né🙂", "'\""]
    ddl = ", ".join("`" + name.replace("`", "``") + "` STRING" for name in names)
    topic = lake.create_topic("names", key="`k.k` STRING", value=ddl)
    record = {"key": {"k.k": "1"}, "value": dict.fromkeys(names, "x")}
    topic.append([record])
    topic.append(write(tmp_path / "a.ndjson", json.dumps(record | {"key": {"k.k": "2"}}, ensure_ascii=False)))
    parquet.write_table(pyarrow.table({"k.k": ["3"], **dict.fromkeys(names, ["x"])}), tmp_path / "a.parquet")
    topic.append(str(tmp_path / "a.parquet"))
    topic.merge()
    assert [[row[name] for name in names] for row in topic.latest().collect()] == [["x"] * len(names)] * 3


def test_octets_that_are_none_and_keys_of_nulls_are_refused(lake: Lake) -> None:
    topic = lake.create_topic("octets", key="a STRING, b STRUCT<c: INT>", value="BINARY")
    before = versions(lake.root, "octets")
    good = {"a": "x"}
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"key": good, "value": {"hex": "abc"}}, "value should be binary"),
        ({"key": good, "value": {"hex": "zz"}}, "value should be binary"),
        ({"key": good, "value": "x", "headers": [["h", {"hex": "a"}]]}, "headers should be"),
        ({"key": {}, "value": "x"}, "fields are all null"),
        ({"key": {"a": None, "b": {"c": None}}, "value": "x"}, "fields are all null"),
    ]
    with pytest.raises(InvalidRecords) as caught:
        topic.append([record for record, _ in wrong])
    assert versions(lake.root, "octets") == before
    assert [word in problem["reason"] for problem, (_, word) in zip(caught.value.problems, wrong, strict=True)] == [True] * len(wrong)
    topic.append([{"key": {"b": {"c": 0}}, "value": {"hex": "0aBC"}, "headers": [["h", {"hex": ""}]]}])
    assert bytes(topic.read().collect()[0]["value"]) == b"\x0a\xbc"


def test_a_frames_time_beyond_all_years_is_refused_by_record(lake: Lake) -> None:
    topic = lake.create_topic("years", key="STRING", value="STRING")
    before = versions(lake.root, "years")
    frame = lake.spark.sql(
        "SELECT 'k' AS key, 'v' AS value, stack(3, TIMESTAMP '2020-01-01', TIMESTAMP '9999-12-31' + INTERVAL 1 DAY,"
        " TIMESTAMP '0001-01-01' - INTERVAL 1 SECOND) AS timestamp"
    )
    with pytest.raises(InvalidRecords) as caught:
        topic.append(frame)
    assert (caught.value.name, caught.value.records, versions(lake.root, "years")) == ("INVALID_TIMESTAMP", [1, 2], before)
