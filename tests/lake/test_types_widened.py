"""The value's types widened: the version column follows, a change that is cut off or taken back by a RESTORE heals, and defaults are checked."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import TYPE_CHECKING, Any, cast

import pytest
from pyspark.sql.types import LongType, StructType

from lakelog.errors import InvalidConfig, LogIncomplete
from lakelog.latest import evolution
from lakelog.log.state import change_state
from lakelog.log.tail import log_end
from lakelog.model.log_state import Intent
from lakelog.operations import configure
from lakelog.terminal import standing
from tests.interleaving import late
from tests.tables import versions

if TYPE_CHECKING:
    from lakelog import Lake, Topic

BY_V = {"compaction.strategy": "column", "compaction.strategy.column": "v"}


def order(key: str, v: Any, **more: Any) -> dict[str, Any]:
    return {"key": key, "value": {"v": v, **more}}


def live(topic: Topic, column: str = "v") -> dict[str, Any]:
    return {row["key"]: row[column] for row in topic.latest().collect()}


@pytest.mark.parametrize(
    ("old", "new", "low", "high"),
    [
        pytest.param("FLOAT", "DOUBLE", 1.0000000001, 1.0000000002, marks=pytest.mark.long),
        pytest.param("INT", "BIGINT", 2**31, 2**40, marks=pytest.mark.long),
        ("DECIMAL(4,2)", "DECIMAL(12,4)", Decimal("99.1234"), Decimal("99.1235")),
    ],
)
def test_the_version_is_as_wide_as_its_field(lake: Lake, old: str, new: str, low: Any, high: Any) -> None:
    topic = lake.create_topic("t", key="STRING", value=f"v {old}", config=BY_V)
    topic.append([order("a", 1), order("b", 1)])
    topic.merge()
    topic.configure(value=f"v {new}")
    topic.append([order("a", high), order("b", low)])
    topic.merge()
    topic.append([order("a", low), order("b", high)])
    merged = topic.merge()
    assert (merged.late, merged.updated, live(topic)) == (1, 1, {"a": high, "b": high})
    assert topic.verify().problems == []


@pytest.mark.soak
def test_columns_that_another_process_added_are_shown_by_a_topic_that_was_open(lake: Lake) -> None:
    topic = lake.create_topic("t", key="STRING", value="v INT")
    topic.append([order("a", 1)])
    topic.merge()
    opened = [lake.topic("t") for _ in range(6)]
    topic.configure(value="v INT, more STRING")
    verbs: list[Callable[[Topic], list[str]]] = [
        lambda one: one.latest().columns, lambda one: one.latest(at=0).columns, lambda one: one.deleted().columns,
        lambda one: one.to_arrow().column_names,
    ]  # fmt: skip
    shown = ["key", "v", "more", "_partition", "_offset", "_timestamp", "_version"]
    assert [columns(one) for one, columns in zip(opened, verbs, strict=False)] == [shown] * 4
    assert [field.name for field in cast(StructType, opened[4].rows().schema["value"].dataType)] == ["v", "more"]
    opened[5].register()
    try:
        assert lake.spark.table("t").columns == shown
    finally:
        for view in ("t", "t_deleted", "t_log"):
            lake.spark.catalog.dropTempView(view)


@pytest.mark.long
def test_a_change_of_types_that_is_cut_off_anywhere_is_finished_by_the_next_writer(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Cut(Exception):
        pass

    def cut(*_: Any, **__: Any) -> None:
        raise Cut

    places = (
        (configure.evolution, "apply"),
        (configure.table_properties, "change"),
        (configure.evolution, "reconcile"),
        (configure.state, "close"),
    )
    for number, (module, name) in enumerate(places):
        topic = lake.create_topic(f"t{number}", key="STRING", value="v INT", config=BY_V)
        topic.append([order("a", 1)])
        topic.merge()
        with monkeypatch.context() as patch, pytest.raises(Cut):
            patch.setattr(module, name, cut)
            topic.configure(value="v BIGINT, note STRING")
        status = topic.status()
        assert status.intent == "configure"
        standing.status([status])
        assert f"t{number}: the operation configure was begun and is not finished" in capsys.readouterr().err
        assert live(lake.topic(topic.name)) == {"a": 1}, "it can be read all the time"
        topic.append([order("a", 2**40, note="x")])
        assert topic.merge().updated == 1
        assert (topic.status().intent, live(topic), live(topic, "note")) == (None, {"a": 2**40}, {"a": "x"})
        assert topic.types.value.simpleString() == "struct<v:bigint,note:string>"


@pytest.mark.long
def test_silver_restored_to_before_a_change_of_types_follows_again(lake: Lake) -> None:
    topic = lake.create_topic("t", key="STRING", value="v INT", config=BY_V)
    topic.append([order("a", 1), order("b", 2)])
    before = topic.merge().version
    topic.configure(value="v BIGINT, note STRING")
    topic.append([order("a", 2**40, note="x")])
    topic.merge()
    assert live(topic, "note") == {"a": "x", "b": None}
    old = topic.latest(at=before)
    assert (old.columns[:3], {row["key"]: (row["v"], row["note"]) for row in old.collect()}) == (
        ["key", "v", "note"],
        {"a": (1, None), "b": (2, None)},
    )
    lake.spark.sql(f"RESTORE TABLE {topic.silver.sql()} TO VERSION AS OF {before}")
    assert live(topic, "note") == {"a": None, "b": None}
    topic.append([order("b", 2**41, note="y")])
    assert topic.merge().records == 2
    assert (live(topic), live(topic, "note"), topic.verify().problems) == ({"a": 2**40, "b": 2**41}, {"a": "x", "b": "y"}, [])


def test_fields_with_names_that_sql_quotes_are_added_at_any_depth(lake: Lake) -> None:
    topic = lake.create_topic("t", key="STRING", value="v INT, `a-b` STRUCT<c: INT>")
    topic.append([order("a", 1)])
    topic.merge()
    added = "`a-b` STRUCT<c: INT, `d.e`: ARRAY<STRUCT<`x-y`: INT>>>, more STRUCT<`x-y`: INT, `select`: MAP<STRING, STRUCT<`1`: INT>>>"
    topic.configure(value=f"v INT, {added}")
    topic.append([order("b", 2, **{"a-b": {"c": 1, "d.e": [{"x-y": 7}]}, "more": {"x-y": 8, "select": {"m": {"1": 9}}}})])
    assert topic.merge().inserted == 1
    assert topic.status().intent is None
    found = {row["key"]: (row["a-b"], row["more"]) for row in topic.latest().collect()}
    assert found == {"a": (None, None), "b": ((1, [(7,)]), (8, {"m": (9,)}))}


def test_a_default_of_the_lake_changes_no_rule_whose_log_lacks_records(lake: Lake) -> None:
    topic = lake.create_topic("t", key="STRING", value="STRING")
    topic.append([{"key": "a", "value": "1", "timestamp": 5}, {"key": "a", "value": "2", "timestamp": 4}])
    topic.merge()
    end = log_end(topic.log)
    # As a cleaner would say it.
    assert change_state(topic.log, end, {0: end.tails[0].state.next("x", cleaned=1)}, "clean", now=lake.clock())
    before = versions(lake.root, "t") | versions(lake.root, "_lakelog")
    with pytest.raises(LogIncomplete, match="records below 1 were removed"):
        lake.configure({"log.cleaner.compaction.strategy": "timestamp"})
    with pytest.raises(LogIncomplete):
        topic.configure({"compaction.strategy": "timestamp"})
    assert versions(lake.root, "t") | versions(lake.root, "_lakelog") == before


@pytest.mark.long
def test_a_log_that_begins_above_0_is_like_any_other(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """As mirrored topics have it: nothing counts offsets from 0."""
    from lakelog.operations import create

    write = create.bronze.create
    with monkeypatch.context() as patch:
        patch.setattr(create.bronze, "create", lambda *given, **more: write(*given, **more, origins={0: 100, 1: 7}))
        topic = lake.create_topic("t", key="STRING", value="STRING", partitions=2)
    assert (topic.ends(), topic.status().partitions[0].log_start_offset) == ({0: 100, 1: 7}, 100)
    assert topic.append([{"key": "a", "value": "1", "partition": 0}], expected_offset={0: 100, 1: 7}).offsets == {0: (100, 101)}
    merged = topic.merge()
    assert (merged.from_offsets, merged.to_offsets, merged.inserted) == ({0: 100, 1: 7}, {0: 101, 1: 7}, 1)
    topic.append([{"key": "a", "value": "2", "partition": 0}, {"key": "b", "value": "1", "partition": 1}])
    assert (topic.merge().updated, topic.merge(rebuild=True).records) == (1, 3)
    topic.configure({"compaction.strategy": "timestamp"})
    assert (topic.merge(rebuild=True).records, topic.verify().problems, topic.repair().done) == (3, [], [])
    assert [row["offset"] for row in topic.read(0, 100).collect()] == [100, 101]
    with pytest.raises(Exception, match=r"holds offsets \[100, 102\)"):
        topic.read(0, 99)


@pytest.mark.soak
def test_of_two_changes_of_types_at_once_the_second_is_judged_by_the_first(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = lake.create_topic("t", key="STRING", value="v INT")
    topic.append([{"key": "a", "value": {"v": 1}}])
    with monkeypatch.context() as patch:
        late(patch, configure.state, "change_state", lambda: lake.topic("t").configure(value="v INT, g INT"))
        with pytest.raises(InvalidConfig, match="the field g is missing"):
            topic.configure(value="v INT, f INT")
    assert topic.status().intent is None
    assert topic.append([{"key": "b", "value": {"v": 1, "g": 2}}]).offsets == {0: (1, 2)}
    # One that is finished by another command, at the same moment.
    with monkeypatch.context() as patch:
        late(patch, evolution, "committing", lambda: lake.topic("t").append([{"key": "c", "value": {"v": 3}}]))
        topic.configure(value="v BIGINT, g INT, f INT")
    topic.append([{"key": "d", "value": {"v": 1 << 40, "f": 5}}])
    topic.merge()
    assert {row["key"]: (row["v"], row["g"], row["f"]) for row in topic.latest().collect()} == {
        "a": (1, None, None), "b": (1, 2, None), "c": (3, None, None), "d": (1 << 40, None, 5),
    }  # fmt: skip
    # One that an earlier lakelog began and that can never be done: it is given up.
    end = log_end(topic.log)
    impossible = Intent("configure", "x", {"value": StructType().add("value", StructType().add("v", LongType())).jsonValue()})
    states = {index: tail.state.next("x", intent=impossible) for index, tail in end.tails.items()}
    assert change_state(topic.log, end, states, "intent", now=0)
    with pytest.raises(InvalidConfig, match="is missing"):
        topic.append([{"key": "e", "value": {"v": 1}}])
    assert topic.append([{"key": "e", "value": {"v": 1}}]).offsets == {0: (4, 5)}
