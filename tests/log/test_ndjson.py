"""NDJSON: one object a line, UTF-8, nothing passed over and nothing replaced."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakelog.errors import InvalidRecords
from tests.tables import versions

if TYPE_CHECKING:
    from lakelog import Lake

GOOD = b'{"key": "a", "value": "1"}'
WRONG = {
    b'{"key": "a"}{"key": "b"}': "text behind its object",
    b'{"key": "a"} {"key": "b"}': "text behind its object",
    b'{"key": "a"},{"key": "b"}': "text behind its object",
    b'{"key": "a"} trailing': "text behind its object",
    b'{"key": "a"}}': "text behind its object",
    b'{"key": "a"}, "key": {}': "text behind its object",
    b'{"key": "\xe9"}': "is not UTF-8 text",
    b'{"key": "caf\xc3"}': "is not UTF-8 text",
    b'{"key": "\\ud800"}': "half of a surrogate pair",
    b'{"key": "x\\uDFFFy"}': "half of a surrogate pair",
    b'{"key": "a", "value": "\\\\\\ud83d\\u0041"}': "half of a surrogate pair",
    b'{"key": "a", "headers": [["\\udc00\\ud800", 1]]}': "half of a surrogate pair",
    b'["a"]': "is not a JSON object",
    b'{"key": "a"': "is not a line of JSON",
    rb'{"key": "\ud83d\\\ude00"}': "half of a surrogate pair",
    b'\xef\xbb\xbf{"key": "a"}': "begins with a byte order mark",
    b'{"key": "a", "value": "1", "key": "b"}': "names key twice",
    b'{"key": "a", "value": {"x": 1, "y": 2, "x": 3}}': "names x twice in its value",
}
RIGHT = {b'{"key": "\\ud83d\\ude42"}': "🙂", b'{"key": "\\\\ud800"}': "\\ud800", b'  {"key": "}{"}\t\r': "}{", b'{"key": "\\u00e9"}': "é"}


def test_a_line_is_one_object_of_sound_text(lake: Lake, tmp_path: Path) -> None:
    topic = lake.create_topic("t", key="STRING", value="STRING")
    before = versions(lake.root, "t")
    path = tmp_path / "a.ndjson"
    path.write_bytes(b"\n".join([GOOD, b"", *WRONG, GOOD]))
    with pytest.raises(InvalidRecords) as caught:
        topic.append(str(path))
    found = {problem["line"]: problem["reason"] for problem in caught.value.problems}
    assert sorted(found) == list(range(3, 3 + len(WRONG)))
    assert [(line, said) for line, said, says in zip(found, found.values(), WRONG.values(), strict=True) if says not in said] == []
    assert versions(lake.root, "t") == before
    path.write_bytes(b"\n".join(RIGHT))
    topic.append(str(path))
    assert [row["key"] for row in topic.read().collect()] == list(RIGHT.values())


def test_numbers_that_json_does_not_have_go_in_as_text(lake: Lake) -> None:
    topic = lake.create_topic("t", key="STRING", value="DOUBLE")
    topic.append([{"key": text, "value": text} for text in ("NaN", "Infinity", "-Infinity")])
    assert [str(row["value"]) for row in topic.read().collect()] == ["nan", "inf", "-inf"]
    with pytest.raises(InvalidRecords) as caught:
        topic.append([{"key": "a", "value": text} for text in ("nan", "Inf", "1.5", "")])
    assert caught.value.count == 4
    assert json.dumps(caught.value.records) == "[0, 1, 2, 3]"


@pytest.mark.long
def test_a_null_where_any_value_may_stand_is_null(lake: Lake) -> None:
    """A VARIANT has a null of its own, which SQL takes for a value. Printed, it is the JSON that it was."""
    from lakelog.terminal.rows import records

    topic = lake.create_topic("t", key="STRING", value="VARIANT")
    topic.append([{"key": key, "value": {"x": 1}} for key in "ab"])
    topic.append([{"key": "a", "value": None}, {"key": "b"}, {"key": "c", "value": {"n": None, "d": 1.5, "s": "1"}}])
    assert [(row["key"], row["tombstone"]) for row in topic.read().filter("offset >= 2").collect()] == [
        ("a", True),
        ("b", True),
        ("c", False),
    ]
    topic.merge()
    assert [row["key"] for row in topic.latest().collect()] == ["c"]
    told = list(records(topic.read().filter("offset = 4")))
    assert [one["value"] for one in told] == [{"n": None, "d": 1.5, "s": "1"}]
    topic.append(told)
    assert topic.read().filter("offset >= 4").selectExpr("count(DISTINCT to_json(value)) AS n").collect()[0]["n"] == 1
    within = lake.create_topic("within", key="STRING", value="v VARIANT, l ARRAY<VARIANT>, m MAP<STRING, VARIANT>, i INT")
    within.append([{"key": "a", "value": {"v": None, "l": [1, None], "m": {"x": None, "y": [None]}, "i": 1}}])
    found = within.read().selectExpr("value.v IS NULL", "value.l[1] IS NULL", "value.m['x'] IS NULL", "to_json(value.m['y'])", "value.i")
    assert [tuple(row) for row in found.collect()] == [(True, True, True, "[null]", 1)]
    strict = lake.create_topic("strict", key="STRING", value="VARIANT", config={"tombstone.strict": "true"})
    with pytest.raises(InvalidRecords, match="null value without the tombstone flag"):
        strict.append([{"key": "a", "value": None}])
