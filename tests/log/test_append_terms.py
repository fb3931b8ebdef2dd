"""What an append may ask: expected offsets, tokens, an epoch; what a commit log and a bulk load make of them; foreign writers named.

After every refusal the tables are looked at, not only the error.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lakelog import (
    CommitLog,
    Damaged,
    ExpectedOffsetMismatch,
    FencedEpoch,
    InvalidConfig,
    InvalidRequest,
    Lake,
    OffsetOutOfRange,
    Refused,
    Topic,
    VersionMismatch,
)
from tests.conftest import Clock
from tests.tables import versions


def records(*keys: str, **more: object) -> list[dict[str, object]]:
    return [{"key": key, "value": f"v{key}", **more} for key in keys]


@pytest.fixture
def topic(lake: Lake) -> Topic:
    return lake.create_topic("t", key="STRING", value="STRING", partitions=2)


def test_an_append_is_refused_unless_the_log_ends_where_it_expects(lake: Lake, topic: Topic) -> None:
    first = topic.append(records("a", "b", partition=0))
    assert (first.offsets, first.expected_offsets_checked) == ({0: (0, 2)}, None)
    second = topic.append(records("c", partition=0), expected_offset={0: 2, 1: -1})
    assert (second.offsets, second.expected_offsets_checked) == ({0: (2, 3)}, True)
    before = versions(lake.root, "t")

    with pytest.raises(ExpectedOffsetMismatch) as repeated:
        topic.append(records("c", partition=0), expected_offset={0: 2})
    with pytest.raises(ExpectedOffsetMismatch) as other:
        topic.append(records("x", partition=1) + records("d", partition=0), expected_offset={0: 9})
    with pytest.raises(ExpectedOffsetMismatch) as untouched:
        topic.append(records("x", partition=1), expected_offset={0: 1})
    with pytest.raises(ExpectedOffsetMismatch) as of_a_record:
        topic.append([*records("x", partition=1, expected_offset=0), *records("d", "e", partition=0, expected_offset=3)])
    with pytest.raises(InvalidRequest, match="below -1|0 or more"):
        topic.append(records("d", partition=0), expected_offset={0: -2})
    with pytest.raises(InvalidRequest, match="partitions are 0 to 1"):
        topic.append(records("d", partition=0), expected_offset={7: 1})

    error = repeated.value
    assert (error.partition, error.record, error.expected, error.actual, error.duplicate_of) == (0, 0, 2, 3, 2)
    error = other.value
    assert (error.partition, error.record, error.expected, error.actual, error.duplicate_of) == (0, 1, 9, 3, None)
    assert (untouched.value.partition, untouched.value.expected, untouched.value.actual) == (0, 1, 3)
    error = of_a_record.value
    assert (error.partition, error.record, error.expected, error.actual) == (0, 2, 3, 4)
    assert versions(lake.root, "t") == before


def test_a_token_is_written_once_and_answers_again_until_it_is_forgotten(lake: Lake, topic: Topic, clock) -> None:
    first = topic.append(records("a", partition=0) + records("b", partition=1), token="day 'one'")
    topic.append(records("x", partition=0))
    again = lake.topic("t").append(records("a", partition=0) + records("b", partition=1), token="day 'one'")

    assert (again.offsets, again.version, again.batch, again.repeated) == (first.offsets, first.version, first.batch, True)
    assert topic.ends() == {0: 2, 1: 1}

    clock.tick(topic.config.number("producer.id.expiration.ms"))
    forgotten = topic.append(records("a", partition=0), token="day 'one'")

    assert (forgotten.repeated, forgotten.offsets) == (False, {0: (2, 3)})


def test_a_writer_of_an_older_or_of_no_epoch_is_refused(lake: Lake, topic: Topic) -> None:
    topic.append(records("a"), epoch=0)
    before = versions(lake.root, "t")

    with pytest.raises(InvalidRequest, match="beyond the topic's epoch 0"):
        topic.append(records("a"), epoch=1)
    with pytest.raises(FencedEpoch):
        topic.append(records("a"), epoch=-1)

    assert versions(lake.root, "t") == before


def test_a_merge_runs_only_at_the_version_it_was_given(lake: Lake, topic: Topic) -> None:
    topic.append(records("a"))
    before = versions(lake.root, "t")

    with pytest.raises(VersionMismatch) as mismatch:
        topic.merge(expected_version=7)

    assert (mismatch.value.expected, mismatch.value.actual) == (7, 0)
    assert versions(lake.root, "t") == before
    assert topic.merge(expected_version=0).version == 1


def test_two_leaders_of_a_commit_log_learn_what_they_missed(topic: Topic) -> None:
    one, two = CommitLog(topic), CommitLog(topic)
    with pytest.raises(InvalidRequest, match="bootstrap"):
        one.append(records("a"))
    assert one.bootstrap().count() == two.bootstrap().count() == 0
    one.append(records("a", "b"))

    with pytest.raises(ExpectedOffsetMismatch, match=r"offsets \[0, 2\) of partition 0"):
        two.append(records("c"))
    assert [row["key"] for row in two.catch_up().collect()] == ["a", "b"]
    two.append(records("c"))

    with pytest.raises(ExpectedOffsetMismatch, match=r"offsets \[2, 3\)"):
        one.append(records("d"))
    assert [row["key"] for row in one.catch_up().collect()] == ["c"]
    assert [row["key"] for row in topic.read(0).collect()] == ["a", "b", "c"]


@pytest.mark.long
def test_a_commit_log_that_was_restored_is_read_anew(topic: Topic) -> None:
    """Offsets that it has read are given again for other records: none of those is passed over."""
    topic.append(records("a", partition=0))
    topic.snapshot("s")
    topic.append(records("b", "c", partition=0))
    log = CommitLog(topic)
    assert log.bootstrap().count() == 3
    topic.restore("s")
    topic.append(records("x", "y", "z", partition=0))
    for verb in (lambda: log.append(records("d")), log.catch_up):
        with pytest.raises(FencedEpoch):
            verb()
    assert log.position == 3
    assert [row["key"] for row in log.bootstrap().collect()] == ["a", "x", "y", "z"]


def test_a_bulk_load_goes_on_behind_its_own_chunks_and_stops_behind_others(lake: Lake, topic: Topic, tmp_path: Path) -> None:
    file = tmp_path / "long.ndjson"
    file.write_text("".join(json.dumps({"key": f"k{index}", "value": str(index), "partition": index % 2}) + "\n\n" for index in range(25)))
    topic.append(records("first", partition=0))
    loaded = topic.load(str(file), identity="long", chunk=10)
    assert (loaded.offsets, loaded.records, loaded.chunks, loaded.found) == ({0: (1, 14), 1: (0, 12)}, 25, 3, 0)
    before = versions(lake.root, "t")

    again = lake.topic("t").load(str(file), identity="long", chunk=10)

    assert (again.offsets, again.found) == (loaded.offsets, 3)
    assert versions(lake.root, "t") == before
    assert [row["value"] for row in topic.read(1).collect()] == [str(index) for index in range(1, 25, 2)]

    # Another writer appends between two chunks of a second file: the load stops there, what stood stands.
    other = tmp_path / "other.ndjson"
    other.write_text("".join(json.dumps({"key": f"o{index}", "value": str(index), "partition": 0}) + "\n" for index in range(4)))
    seen: list[int] = []

    def intrude(done: int, total: int) -> None:
        seen.append(done)
        lake.topic("t").append(records("intruder", partition=0))

    stated = tmp_path / "stated.ndjson"
    stated.write_text(json.dumps({"key": "a", "partition": 0, "expected_offset": 0}) + "\n")
    with pytest.raises(InvalidRequest, match="gives the expected offsets itself"):
        topic.load(str(stated), identity="stated")
    assert versions(lake.root, "t") == before
    with pytest.raises(ExpectedOffsetMismatch):
        topic.load(str(other), identity="other", chunk=2, tell=intrude)
    assert seen == [2]
    assert [row["key"] for row in topic.read(0, 14).collect()] == ["o0", "o1", "intruder"]


@pytest.mark.long
def test_a_bulk_load_never_writes_a_record_twice(lake: Lake, topic: Topic, tmp_path: Path, clock: Clock) -> None:
    """Whatever the chunk of a restart is, and however many of the load's tokens have expired."""
    file = tmp_path / "long.ndjson"
    file.write_text("".join(json.dumps({"key": f"k{index}", "value": str(index), "partition": index % 2}) + "\n" for index in range(25)))

    def killed(done: int, total: int) -> None:
        raise InterruptedError

    for chunk, at in ((10, 10), (7, 17)):
        with pytest.raises(InterruptedError):
            topic.load(str(file), identity="long", chunk=chunk, tell=killed)
        assert sum(topic.ends().values()) == at
        clock.tick(400_000_000)
    before = versions(lake.root, "t")

    with pytest.raises(Refused, match=r"17 of 25 records of the bulk load long .*producer\.id\.expiration\.ms") as refused:
        topic.load(str(file), identity="long", chunk=10, tell=killed)
    assert (refused.value.name, versions(lake.root, "t")) == ("LOAD_EXPIRED", before)

    topic.configure({"producer.id.expiration.ms": 2_000_000_000})
    loaded = topic.load(str(file), identity="long", chunk=100)
    again = topic.load(str(file), identity="long", chunk=3)

    assert (loaded.offsets, loaded.records, loaded.chunks, loaded.found) == ({0: (0, 13), 1: (0, 12)}, 25, 3, 2)
    assert (again.offsets, again.records, again.chunks, again.found) == (loaded.offsets, 25, 3, 3)
    assert sorted(int(row["value"]) for row in topic.read().collect()) == list(range(25))

    shorter = tmp_path / "shorter.ndjson"
    shorter.write_text(json.dumps({"key": "k0", "value": "0"}) + "\n")
    clock.tick(2_000_000_000)
    before = versions(lake.root, "t")
    with pytest.raises(Refused, match="another input"):
        topic.load(str(shorter), identity="long")
    with pytest.raises(Refused, match="25 of 25 records"):
        topic.load(str(file), identity="long", chunk=10)
    with pytest.raises(InvalidRequest, match="identity"):
        topic.load(str(file), identity="")
    assert versions(lake.root, "t") == before
    assert topic.load(str(shorter), identity="shorter").records == 1


def test_a_writer_that_is_not_lakelog_is_named(spark, lake: Lake, topic: Topic) -> None:
    topic.append(records("a", "b"))
    bronze = f"{lake.root}/t/bronze"
    copied = spark.read.format("delta").load(bronze).filter("control IS NULL").limit(1)
    copied.write.format("delta").mode("append").save(bronze)
    before = versions(lake.root, "t")

    with pytest.raises(Damaged, match=r"version 2 .*WRITE by Apache-Spark"):
        topic.append(records("c"))
    with pytest.raises(Damaged):
        topic.merge()
    found = topic.verify()

    assert versions(lake.root, "t") == before
    assert [problem.split(":")[0] for problem in found.problems][0] == "another writer changed the log"
    assert any("given twice" in problem for problem in found.problems)

    spark.sql(f"RESTORE TABLE delta.`{bronze}` TO VERSION AS OF 1")
    assert topic.append(records("c", partition=0)).offsets == {0: (1, 2)}
    topic.merge()
    assert topic.verify().ok
    spark.sql(f"RESTORE TABLE delta.`{bronze}` TO VERSION AS OF 1")
    before = versions(lake.root, "t")
    for verb in (topic.merge, lambda: topic.append(records("d"))):
        with pytest.raises(Damaged, match="restored by hand: version 5 .*RESTORE"):
            verb()
    assert versions(lake.root, "t") == before


def test_settings_of_conditional_appends_do_what_they_say(lake: Lake) -> None:
    off = lake.create_topic("off", key="STRING", value="STRING", config={"check.expected.offsets": False})
    appended = off.append(records("a", expected_offset=77), expected_offset={0: 99})
    assert (appended.offsets, appended.expected_offsets_checked) == ({0: (0, 1)}, False)
    with pytest.raises(InvalidRequest, match=r"check\.expected\.offsets"):
        CommitLog(off)
    per_key = lake.create_topic("keys", key="STRING", value="STRING", config={"check.expected.offsets.scope": "key"})
    per_key.append(records("a", "b"))
    before = versions(lake.root, "keys")
    with pytest.raises(ExpectedOffsetMismatch, match="record 0 expected offset 1 of partition 0, it would get 2") as mismatch:
        per_key.append(records("c", expected_offset=7), expected_offset={0: 1})
    assert (mismatch.value.expected, mismatch.value.actual, versions(lake.root, "keys")) == (1, 2, before)
    assert per_key.append(records("c", expected_offset=7), expected_offset={0: 2}).offsets == {0: (2, 3)}
    with pytest.raises(InvalidConfig, match="partition, key"):
        lake.create_topic("bad", config={"check.expected.offsets.scope": "table"})
    with pytest.raises(OffsetOutOfRange):
        off.read(0, 5)


@pytest.mark.long
def test_a_late_record_that_lost_is_its_keys_last_until_it_is_cleaned(lake: Lake) -> None:
    """The same request is refused before the clean and accepted after it: the latest record of the key is the one at offset 0 all along."""
    config = {"compaction.strategy": "timestamp", "check.expected.offsets.scope": "key"}
    topic = lake.create_topic("t", key="STRING", value="STRING", config=config)
    topic.append(records("a", timestamp=2000))
    topic.append([*records("a", timestamp=1000), *records("z", timestamp=1000)])
    topic.merge()
    topic.roll()
    request = records("a", timestamp=3000, expected_offset=1)
    with pytest.raises(ExpectedOffsetMismatch, match="greater than its key's last, 1, but states 1") as mismatch:
        topic.append(request)
    assert (mismatch.value.expected, mismatch.value.actual) == (1, 1)
    latest = [(row["key"], row["value"], row["_offset"]) for row in topic.latest().orderBy("key").collect()]
    topic.clean(force=True)
    assert [(row["key"], row["value"], row["_offset"]) for row in topic.latest().orderBy("key").collect()] == latest
    assert topic.append(request).offsets == {0: (3, 4)}
