"""Reading on from a position: nothing is missed, nothing comes twice, whatever is done to the log between two reads."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

import pytest

from lakelog import FencedEpoch, InvalidRequest, OffsetOutOfRange, Position
from tests.conftest import CONNECT, NOON

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakelog import Lake, Topic
    from tests.conftest import Clock


def orders(lake: Lake, partitions: int = 2, **config: Any) -> Topic:
    return lake.create_topic("orders", key="STRING", value="STRING", partitions=partitions, config=config)


def put(topic: Topic, *pairs: tuple[int, str, str | None], **more: Any) -> None:
    topic.append([{"partition": partition, "key": key, "value": value, **more} for partition, key, value in pairs])


def seen(frame: Any) -> list[tuple[int, int, str, str | None]]:
    return [(row["partition"], row["offset"], row["key"], row["value"]) for row in frame.collect()]


def jobs(spark: SparkSession, run: Any) -> tuple[int, Any]:
    """How many Spark jobs a call starts, and what it gives. Spark Connect has no status tracker: there none is counted."""
    if CONNECT:
        return 0, run()
    context, group = spark.sparkContext, f"g{id(run)}"
    context.setJobGroup(group, "counted")
    try:
        found = run()
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)
    return len(context.statusTracker().getJobIdsForGroup(group)), found


def test_a_reader_reads_on_and_polls_an_unchanged_log_without_a_spark_job(lake: Lake, spark: SparkSession) -> None:
    topic = orders(lake)
    begin = topic.position()
    assert (begin.offsets, begin.epoch, begin.uuid) == ({0: 0, 1: 0}, 0, topic.uuid)
    put(topic, (0, "a", "1"), (1, "b", "1"), (0, "a", None))

    first = topic.read(since=begin)
    assert first.moved and first.next.offsets == {0: 2, 1: 1}
    put(topic, (1, "c", "1"))
    assert seen(first.records) == [(0, 0, "a", "1"), (0, 1, "a", None), (1, 0, "b", "1")], "bounded by the end at the start of the read"
    second = topic.read(since=Position.from_json(first.next.to_json()))
    assert (seen(second.records), second.next.offsets) == ([(1, 1, "c", "1")], {0: 2, 1: 2})

    def poll() -> Any:
        found = topic.read(since=second.next)
        return found.moved, found.records.collect(), found.next == second.next

    assert jobs(spark, poll) == (0, (False, [], True))
    again = lake.topic("orders")
    assert CONNECT or jobs(spark, lambda: again.read(since=second.next).records.collect())[0] > 0, (
        "the count sees jobs: a first look has some"
    )


def test_a_read_from_an_offset_ends_where_the_log_ended(lake: Lake, spark: SparkSession) -> None:
    """Whenever it is evaluated; and it costs no more than the look at the log's end, which a reader that keeps up has for nothing."""
    topic = orders(lake)
    put(topic, (0, "a", "1"), (0, "b", "1"), (1, "c", "1"))
    one, every = topic.read(0, 1), topic.read(offset=0)
    count, again = jobs(spark, lambda: topic.read(0, 1))
    nothing, plain = topic.read(1, 1), topic.read(0)
    put(topic, (0, "d", "1"), (1, "e", "1"))
    assert (count, seen(one), seen(again)) == (0, [(0, 1, "b", "1")], [(0, 1, "b", "1")])
    assert seen(every) == [(0, 0, "a", "1"), (0, 1, "b", "1"), (1, 0, "c", "1")]
    assert seen(nothing) == [], "from the log's end on there was nothing"
    assert [row[2] for row in seen(topic.read(0, 1))] == ["b", "d"]
    assert [row[2] for row in seen(plain)] == ["a", "b", "d"], "without an offset nobody looks at the log's end"


def test_batches_are_bounded_and_come_to_an_end(lake: Lake) -> None:
    topic = orders(lake)
    put(topic, *[(number % 2, f"k{number}", str(number)) for number in range(7)])
    found, sizes = [], []
    for batch in topic.follow(max_records=3):
        rows = seen(batch.records)
        found += rows
        sizes.append(len(rows))
        if len(sizes) == 2:
            put(topic, (1, "late", "x"))
    assert sizes == [3, 3, 2]
    assert sorted(found) == sorted([*[(n % 2, n // 2, f"k{n}", str(n)) for n in range(7)], (1, 3, "late", "x")])
    assert [batch.next.offsets for batch in topic.follow(Position({0: 3, 1: 1}, 0), max_records=2)] == [{0: 4, 1: 2}, {0: 4, 1: 4}]


def test_offset_for_a_time_is_the_first_record_at_or_after_it(lake: Lake, clock: Clock) -> None:
    topic = orders(lake)
    put(topic, (0, "a", "1"), (1, "b", "1"), timestamp=NOON)
    put(topic, (0, "a", "2"), timestamp=NOON + 5000)
    put(topic, (0, "a", "3"), timestamp=NOON + 1000)
    at = datetime.datetime.fromtimestamp(NOON / 1000 + 1, tz=datetime.timezone.utc)

    assert topic.offset_for(at).offsets == {0: 1, 1: 1}
    assert topic.offset_for(at.isoformat()) == topic.offset_for(at.replace(tzinfo=None))
    assert topic.offset_for("1970-01-01").offsets == {0: 0, 1: 0}
    assert topic.offset_for("2100-01-01").offsets == {0: 3, 1: 1}
    with pytest.raises(InvalidRequest):
        topic.offset_for("5")


def test_the_latest_table_and_the_log_from_there_are_everything(lake: Lake) -> None:
    topic = orders(lake)
    put(topic, (0, "a", "1"), (1, "b", "1"), (0, "c", "1"))
    early = topic.merge().version
    put(topic, (0, "a", None), (1, "b", "2"))

    for begin in (topic.bootstrap(), topic.bootstrap(early)):
        assert begin.position.offsets == {0: 2, 1: 1}
        table = {(row["partition"], row["key"]): row["value"] for row in begin.rows.collect() if not row["tombstone"]}
        assert table == {(0, "a"): "1", (1, "b"): "1", (0, "c"): "1"}
        assert {row["key"] for row in begin.latest.collect()} == {"a", "b", "c"}
        assert seen(topic.read(since=begin.position).records) == [(0, 2, "a", None), (1, 1, "b", "2")]
    topic.merge()
    assert topic.bootstrap().position.offsets == {0: 3, 1: 2} and topic.bootstrap(early).version == early


def test_what_is_no_position_of_this_topic_is_refused(lake: Lake) -> None:
    topic = orders(lake)
    put(topic, (0, "a", "1"))
    for wrong, says in (
        (Position({0: 0}, 0), "every partition"), (Position({0: 0, 1: 0, 2: 0}, 0), "every partition"),
        (Position({0: 0, 1: 0}, 1), "epoch 1"), (Position({0: 0, 1: 0}, 0, "another"), "another topic"),
    ):  # fmt: skip
        for call in (lambda wrong=wrong: topic.read(since=wrong), lambda wrong=wrong: topic.commit("g", wrong)):
            with pytest.raises(InvalidRequest, match=says):
                call()
    for beyond in (Position({0: 2, 1: 0}, 0), Position({0: 0, 1: -1}, 0)):
        with pytest.raises(OffsetOutOfRange, match="out of range"):
            topic.read(since=beyond)
    with pytest.raises(InvalidRequest, match="max_records goes with"):
        topic.read(max_records=5)  # type: ignore[call-overload]


@pytest.mark.long
def test_a_log_changed_by_hand_and_repaired_sends_readers_back_to_where_it_parted(lake: Lake, spark: SparkSession) -> None:
    topic = orders(lake, 1)
    put(topic, (0, "a", "1"))
    before = topic.position()
    version = spark.sql(f"DESCRIBE HISTORY {topic.bronze.sql()} LIMIT 1").collect()[0]["version"]
    put(topic, (0, "b", "1"), (0, "c", "1"))
    beyond = topic.position()
    spark.sql(f"RESTORE {topic.bronze.sql()} TO VERSION AS OF {version}")
    topic.repair()
    put(topic, (0, "d", "1"), (0, "e", "1"), (0, "f", "1"))

    with pytest.raises(FencedEpoch) as refused:
        topic.read(since=beyond)
    back = Position.from_dict(refused.value.expected)
    assert back.offsets == {0: 1}
    assert topic.validate(beyond).answer == "DIVERGING" and topic.validate(beyond).position == back
    assert [row[2] for row in seen(topic.read(since=back).records)] == ["d", "e", "f"]
    assert [row[2] for row in seen(topic.read(since=before).records)] == ["d", "e", "f"], "who had read no more goes on"
    assert topic.fetch(0, 3, 0).to_dict() == {**topic.fetch(0, 3, 0).to_dict(), "answer": "DIVERGING", "offset": 1, "epoch": 0}


@pytest.mark.long
def test_a_reader_from_the_start_is_told_to_bootstrap_where_a_late_record_lies_behind_an_expired_delete(lake: Lake, clock: Clock) -> None:
    """Alone in the log it looks like the latest of its key: that it lost, only the latest table tells."""
    topic = orders(lake, 1, **{"compaction.strategy": "timestamp", "delete.retention.ms": 0})
    put(topic, (0, "a", None), timestamp=20)
    put(topic, (0, "b", "1"), timestamp=20)
    topic.roll()
    start = topic.start()
    assert seen(topic.read(since=start).records) == [(0, 0, "a", None), (0, 1, "b", "1")]
    for _ in range(2):
        topic.clean(force=True)
        clock.tick(1)
    put(topic, (0, "a", "late"), timestamp=5)
    assert topic.merge().late_after_delete == 1
    for call in (lambda: topic.read(since=start), lambda: next(iter(topic.follow(start))), lambda: topic.commit("g", start)):
        with pytest.raises(OffsetOutOfRange, match=r"deletes below 1 have left it: one may have been missed\. Bootstrap"):
            call()
    begin = topic.bootstrap()
    assert [row["key"] for row in begin.latest.collect()] == ["b"]
    assert seen(topic.read(since=begin.position).records) == []
