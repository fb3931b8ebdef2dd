"""Every kind of bad input: a clear error, and tables that did not move."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakelog import Lake
from lakelog.errors import Invalid, InvalidConfig, InvalidRecords, InvalidRequest, LakelogError, NotFound, TopicNotFound
from tests.conftest import NOON
from tests.tables import versions, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakelog import Topic


@pytest.fixture(scope="module")
def text(house: Lake) -> Topic:
    """A topic of text keys and values with one record, small records only, and a window for timestamps."""
    config = {"max.message.bytes": 30, "message.timestamp.after.max.ms": 1000}
    topic = house.create_topic("text", key="STRING", value="STRING", partitions=2, config=config)
    topic.append([{"key": "first", "value": "1", "partition": 0}])
    topic.merge()
    return topic


def _refuses(topic: Topic, action: Callable[[], Any], kind: type[LakelogError], *words: str, name: str | None = None) -> Any:
    """The action raises that error, its text has all words, and no table of the topic moved."""
    before = versions(topic.root, topic.name)
    with pytest.raises(kind) as refused:
        action()
    for word in words:
        assert word in str(refused.value), f"{word!r} is missing in: {refused.value}"
    assert name is None or refused.value.name == name
    assert versions(topic.root, topic.name) == before
    return refused.value


# ---- bad records ----

BAD_LINES = {
    "broken JSON": ('{"key": "a", "value": ', "INVALID_RECORD", "JSON"),
    "not an object": ('["a"]', "INVALID_RECORD", "object"),
    "no key": ('{"value": "x"}', "INVALID_RECORD", "key"),
    "null key": ('{"key": null, "value": "x"}', "INVALID_RECORD", "key"),
    "unknown field": ('{"key": "a", "value": "x", "colour": 1}', "INVALID_RECORD", "colour"),
    "wrong type": ('{"key": "a", "value": 5}', "INVALID_RECORD", "value should be string"),
    "wrong flag": ('{"key": "a", "value": "x", "tombstone": "yes"}', "INVALID_RECORD", "tombstone"),
    "wrong headers": ('{"key": "a", "value": "x", "headers": {"h": 1}}', "INVALID_RECORD", "headers"),
    "too large": ('{"key": "a", "value": "0123456789012345678901234567890"}', "MESSAGE_TOO_LARGE", "max.message.bytes"),
    "out of the window": (f'{{"key": "a", "value": "x", "timestamp": {NOON + 1001}}}', "INVALID_TIMESTAMP", "after.max.ms"),
    "beyond all years": ('{"key": "a", "value": "x", "timestamp": 999999999999999999}', "INVALID_TIMESTAMP", "timestamp"),
    "no such partition": ('{"key": "a", "value": "x", "partition": 2}', "INVALID_RECORD", "partition"),
}


@pytest.mark.parametrize("bad", BAD_LINES)
def test_a_bad_line_is_named_by_file_and_line_and_nothing_is_written(bad: str, text: Topic, tmp_path: Path) -> None:
    """Whoever sent the file can open it at that line; a blank line before it counts, as it does in an editor."""
    line, name, word = BAD_LINES[bad]
    path = write(
        tmp_path / "batch.ndjson", '{"key": "a", "value": "x"}', "", '{"key": "b", "value": "y"}', line, '{"key": "c", "value": "z"}'
    )
    error = _refuses(text, lambda: text.append(path), InvalidRecords, "batch.ndjson", "line 4", word, name=name)
    assert (error.records, error.count) == ([2], 1)
    assert (error.problems[0]["line"], Path(error.problems[0]["file"]).name) == (4, "batch.ndjson")


def test_many_bad_records_are_counted_and_the_first_twenty_listed(text: Topic) -> None:
    """A broken export has thousands of bad records: the answer stays readable and still says how many."""
    records = [{"key": None if index % 2 else "k", "value": "v"} for index in range(60)]
    error = _refuses(text, lambda: text.append(records), InvalidRecords, "29 more")
    assert (error.records, error.count) == (list(range(1, 41, 2)), 30)


def test_the_line_of_a_bad_record_is_right_however_spark_splits_the_file(text: Topic, spark: SparkSession, tmp_path: Path) -> None:
    """Large files are read in pieces; the number is still that of the file, whose name Spark might take for a pattern."""
    lines = ['{"key": "k", "value": "v"}'] * 500
    lines[371] = '{"key": "k", "value": broken}'
    path = write(tmp_path / "long[1].ndjson", *lines)
    spark.conf.set("spark.sql.files.maxPartitionBytes", "2000")
    try:
        error = _refuses(text, lambda: text.append(path), InvalidRecords, "long[1].ndjson, line 372")
    finally:
        spark.conf.unset("spark.sql.files.maxPartitionBytes")
    assert error.records == [371]


# ---- bad frames, files, names, settings ----


def test_an_unknown_column_is_refused_with_a_suggestion(text: Topic, spark: SparkSession) -> None:
    """A misspelt column would otherwise be dropped without a word."""
    frame = spark.sql("SELECT 'a' AS key, 'b' AS value, true AS tombstoned")
    _refuses(text, lambda: text.append(frame), InvalidRequest, "tombstoned", "Did you mean tombstone?")


def test_a_column_of_the_wrong_type_is_refused(text: Topic, spark: SparkSession) -> None:
    """Nothing is cast where something could be lost."""
    _refuses(text, lambda: text.append(spark.sql("SELECT 'a' AS key, 5 AS value")), InvalidRequest, "value", "int", "string")


def test_a_frame_without_a_key_is_refused(text: Topic, spark: SparkSession) -> None:
    """Every record of a compacted topic has a key."""
    _refuses(text, lambda: text.append(spark.sql("SELECT 'b' AS value")), InvalidRequest, "key")


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_file_without_a_key_column_is_refused(ending: str, text: Topic, spark: SparkSession, tmp_path: Path) -> None:
    """The same for files with columns."""
    path = tmp_path / f"batch.{ending}"
    if ending == "csv":
        write(path, "value", "x")
    else:
        spark.sql("SELECT 'x' AS value").write.parquet(str(path))
    _refuses(text, lambda: text.append(str(path)), InvalidRequest, "key")


def test_a_null_key_in_a_frame_is_refused_by_its_position(text: Topic, spark: SparkSession) -> None:
    """The position counts over the whole request, in the order of the frame's partitions."""
    frame = spark.createDataFrame([("a", "1"), ("b", "2"), (None, "3"), ("c", "4")], "key STRING, value STRING").coalesce(1)
    assert _refuses(text, lambda: text.append(frame), InvalidRecords, "key", name="INVALID_RECORD").records == [2]


def test_a_file_that_is_not_there_or_of_no_known_format_is_refused(text: Topic, tmp_path: Path) -> None:
    """A wrong path is the commonest mistake of all."""
    _refuses(text, lambda: text.append(str(tmp_path / "absent.ndjson")), LakelogError, "absent.ndjson")
    _refuses(text, lambda: text.append(write(tmp_path / "batch.xml", "<x/>")), InvalidRequest, "batch.xml", "ndjson")
    _refuses(text, lambda: text.append([]) and text.append([1]), InvalidRequest)  # type: ignore[list-item]


def test_an_unknown_topic_is_answered_with_those_there_are(house: Lake, text: Topic) -> None:
    """A misspelt name costs a second, not a search."""
    error = _refuses(text, lambda: house.topic("texd"), TopicNotFound, "texd", "Did you mean text?", name="UNKNOWN_TOPIC")
    assert "text" in error.details["existing"]


def test_an_existing_topic_is_not_created_again(house: Lake, text: Topic) -> None:
    """Creating must never empty what is there."""
    _refuses(text, lambda: house.create_topic("text"), Invalid, "text", name="TOPIC_ALREADY_EXISTS")


@pytest.mark.parametrize("name", ["a'b", 'a"b', "a.b", "a`b", "", "Orders", "9lives", "a b", "x_silver", "lakelog_runs", "../up", "a;drop"])
def test_a_hostile_or_reserved_topic_name_is_refused(name: str, house: Lake, text: Topic) -> None:
    """Names become folders, tables and views: none may reach SQL or the file system as anything else than a name."""
    _refuses(text, lambda: house.create_topic(name), Invalid)
    _refuses(text, lambda: house.topic(name), TopicNotFound)
    assert name not in house.topics()


def test_a_bad_setting_is_refused_before_anything_is_created(house: Lake, text: Topic) -> None:
    """An illegal value, an unknown name, an illegal combination, a name of a later release: each says what is wrong."""
    bad: list[tuple[dict[str, Any], str]] = [
        ({"segment.bytes": 3}, "segment.bytes"),
        ({"segment.bytes": "many"}, "segment.bytes"),
        ({"compaction.stratagy": "offset"}, "Did you mean compaction.strategy?"),
        ({"compaction.strategy": "newest"}, "compaction.strategy"),
        ({"compaction.strategy": "column"}, "compaction.strategy.column"),
        ({"compaction.strategy": "header", "compaction.header.required": True}, "compaction.strategy.header"),
    ]
    for config, word in bad:
        _refuses(text, lambda config=config: house.create_topic("never", config=config), InvalidConfig, word, name="INVALID_CONFIG")
        _refuses(text, lambda config=config: text.configure(config), InvalidConfig, word)
    assert "never" not in house.topics()


def test_a_folder_that_is_no_lake_is_left_alone(spark: SparkSession, tmp_path: Path) -> None:
    """Neither read as a lake nor filled with tables between somebody's files."""
    write(tmp_path / "thesis.txt", "do not touch")
    lake = Lake(spark, str(tmp_path))
    for action in (lake.topics, lambda: lake.topic("t")):
        with pytest.raises(NotFound, match="not a lake"):
            action()
    with pytest.raises(LakelogError, match="thesis.txt"):
        lake.create_topic("t")
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_lake_or_topic_of_a_newer_release_is_refused(spark: SparkSession, lake: Lake) -> None:
    """An older program must not write what it does not understand."""
    topic = lake.create_topic("t")
    spark.sql(f"ALTER TABLE delta.`{lake.root}/t/bronze` SET TBLPROPERTIES ('lakelog.format' = '99')")
    for action in (lambda: topic.append([{"key": "a", "value": "b"}]), topic.merge, lambda: lake.topic("t")):
        _refuses(topic, action, LakelogError, "newer lakelog")
    spark.sql(f"ALTER TABLE delta.`{lake.root}/_lakelog/runs` SET TBLPROPERTIES ('lakelog.format' = '99')")
    with pytest.raises(LakelogError, match="newer lakelog"):
        lake.topics()


def test_an_empty_append_writes_nothing(text: Topic, spark: SparkSession) -> None:
    """A quiet day is no error and no commit."""
    before = versions(text.root, text.name)
    assert text.append(spark.createDataFrame([], "key STRING, value STRING")).offsets == {}
    assert text.append([]).records == 0
    assert versions(text.root, text.name) == before
