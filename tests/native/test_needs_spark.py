"""Verbs that Spark carries out, of a Lake without a session: each says NEEDS_SPARK before it looks at the call, the lake or the topic."""

from __future__ import annotations

import datetime
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from deltalake import DeltaTable
from pyspark.sql.types import StringType, StructType

from lakelog import InvalidRequest, Lake, NotReady, Topic
from lakelog.delta.table_properties import FORMAT, FORMAT_VERSION, IDENTITY, PREFIX
from lakelog.lake.lake_table import LISTED
from lakelog.native.topic import NativeTopic
from lakelog.reader_results import Position

# Calls that are right, and calls with which something else is wrong too.
NEEDS_SPARK: dict[str, list[Callable[[Any], Any]]] = {
    "configure": [lambda lake: lake.configure({"log.roll.ms": 1}), lambda lake: lake.configure({"no.such.name": 1})],
    "upgrade": [lambda lake: lake.upgrade()],
    "create_topic": [
        lambda lake: lake.create_topic("t", key="BINARY"),
        lambda lake: lake.create_topic("new", key="order_id BIGINT", value="status STRING"),
        lambda lake: lake.create_topic("new", like="no/such/file.csv", key_columns=["a"]),
        lambda lake: lake.create_topic("No Name", key="NO TYPE", partitions=0, config={"no.such.name": 1}),
    ],
    "delete_topic": [lambda lake: lake.delete_topic("t", dry_run=True), lambda lake: lake.delete_topic("nobody")],
    "import_topic": [lambda lake: lake.import_topic("no/such/export"), lambda lake: lake.import_topic("no/such/export", name="t")],
    "snapshot": [lambda lake: lake.snapshot("s"), lambda lake: lake.snapshot("no name!", keep="for ever")],
    "restore": [lambda lake: lake.restore("s"), lambda lake: lake.restore("no name!", log="neither", dry_run=True)],
    "sql": [lambda lake: lake.sql("SELECT 1"), lambda lake: lake.sql("DROP TABLE t")],
    "spark": [lambda lake: lake.spark],
}
ANSWERED = {"describe", "has_session", "is_lake", "reading", "snapshots", "topic", "topics"}


def public(owner: Any) -> set[str]:
    return {name for name in dir(owner) if not name.startswith("_")}


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """A lake that lists one topic, by its properties alone; written without Spark."""
    types = StructType().add("key", StringType()).add("value", StringType()).json()
    of_topic = {IDENTITY: "u", f"{PREFIX}topic.types": types, f"{PREFIX}topic.partitions": "1"}
    kept = {"_lakelog/runs": {f"{LISTED}t": "u"}, "t/bronze": of_topic}
    for table, properties in kept.items():
        schema = pyarrow.schema([("partition", pyarrow.int32())])
        DeltaTable.create(
            str(tmp_path / "lake" / table), schema, configuration={FORMAT: str(FORMAT_VERSION), **properties}, raise_if_key_not_exists=False
        )
    return Lake(str(tmp_path / "lake"))


def refusal(call: Callable[[], Any]) -> NotReady:
    with pytest.raises(NotReady) as refused:
        call()
    assert refused.value.name == "NEEDS_SPARK", str(refused.value)
    assert "Give it one: Lake(local_session(), " in str(refused.value)
    return refused.value


def test_every_verb_of_a_lake_is_answered_or_says_that_it_needs_spark() -> None:
    assert public(Lake) == {*NEEDS_SPARK, *ANSWERED}


@pytest.mark.parametrize(("verb", "number"), [(verb, number) for verb, calls in NEEDS_SPARK.items() for number in range(len(calls))])
def test_a_verb_of_a_lake_says_first_that_it_needs_spark(lake: Lake, tmp_path: Path, verb: str, number: int) -> None:
    """Where there is a lake with a topic, and where there is none; nothing is made there."""
    for one in (lake, Lake(str(tmp_path / "none"))):
        said = str(refusal(lambda one=one: NEEDS_SPARK[verb][number](one)))
        assert said.startswith("This verb" if verb == "spark" else f"lake.{verb}"), said
    assert not (tmp_path / "none").exists()


def test_every_verb_of_a_topic_is_answered_or_says_first_that_it_needs_spark(lake: Lake) -> None:
    topic = lake.topic("t")
    assert isinstance(topic, NativeTopic)
    verbs = public(Topic) | {"spark"}
    for verb in sorted(verbs - public(topic)):
        assert str(refusal(lambda verb=verb: getattr(topic, verb))).startswith(f"topic.{verb} needs Spark"), verb
    for verb in sorted(verbs & public(NativeTopic)):
        mine, other = (inspect.signature(getattr(one, verb)).parameters for one in (NativeTopic, Topic))
        assert list(mine) == list(other), f"{verb}: an argument that needs Spark is taken, and refused with NEEDS_SPARK"
    with pytest.raises(AttributeError, match="'Topic' object has no attribute 'no_such_verb'"):
        topic.no_such_verb  # type: ignore[attr-defined]  # noqa: B018


def test_a_read_since_a_position_needs_spark(lake: Lake) -> None:
    topic = lake.topic("t")
    for more in ({"since": Position({0: 0}, 0, "u")}, {"since": Position({0: 0}, 0, "u"), "max_records": 1}, {"max_records": 1}):
        assert str(refusal(lambda more=more: topic.read(**more))).startswith("topic.read from a position (since=) needs Spark")


def test_what_python_cannot_hold_of_rows_is_told_as_through_spark(lake: Lake) -> None:
    for reading in (lake.topic("t").reading, lake.reading):
        with pytest.raises(InvalidRequest, match="outside of the years 1 to 9999"), reading():
            datetime.date(10_000, 1, 1)
