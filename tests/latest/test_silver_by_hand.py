"""What verify says of a latest table that others changed or brought back, or write beside it: what is wrong, all of it, and nothing else."""

from __future__ import annotations

import datetime
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakelog.errors import Damaged
from lakelog.latest import recompute, verify

if TYPE_CHECKING:
    from lakelog import Lake, Topic

pytestmark = pytest.mark.long

CLEANED = {"min.cleanable.dirty.ratio": 0}


def put(topic: Topic, **values: str | None) -> None:
    topic.append([{"key": key, "value": value} if value else {"key": key, "tombstone": True} for key, value in values.items()])


def live(topic: Topic, column: str = "value") -> dict[Any, Any]:
    """Key to value of the live rows; a key that stands twice fails."""
    rows = topic.latest().collect()
    found = {row["key"]: row[column] for row in rows}
    assert len(rows) == len(found)
    return found


@pytest.mark.parametrize("vectors", [False, True])
def test_a_key_that_stands_twice_is_named_and_no_merge_makes_it_worse(lake: Lake, vectors: bool) -> None:
    topic = lake.create_topic("t", key="STRING", value="STRING", config={"deletion.vectors": vectors})
    put(topic, a="1", b="1")
    old = topic.merge().version
    silver = topic.silver.sql()
    put(topic, b="2")
    topic.merge()
    # The very row of a, and of b the one before.
    lake.spark.sql(f"INSERT INTO {silver} SELECT * FROM {silver} VERSION AS OF {old} WHERE bucket >= 0")
    found = topic.verify()
    assert (found.problems, found.keys) == (["2 keys stand more than once in silver"], 2)
    assert {one["key"]: one["difference"] for one in found.differences} == {"a": "twice", "b": "twice"}
    put(topic, a="3", b="3")
    with pytest.raises(Damaged, match=r"holds a key more than once \(partition 0: 2 rows more .*Run verify with repair"):
        topic.merge()
    assert topic.repair().done == ["the latest table was computed anew"]
    assert (live(topic), topic.verify().problems) == ({"a": "3", "b": "3"}, [])


def test_a_remembered_version_that_stands_twice_is_one_again_after_a_repair(lake: Lake) -> None:
    config = {**CLEANED, "delete.retention.ms": 0, "compaction.strategy": "column", "compaction.strategy.column": "v"}
    topic = lake.create_topic("t", key="STRING", value="v INT", config={**config, "tombstone.unversioned": "lose"})
    topic.append([{"key": "k", "value": {"v": 5}}, {"key": "a", "value": {"v": 1}}])
    topic.append([{"key": "k", "value": {"v": 7}, "tombstone": True}])
    topic.merge()
    topic.roll()
    for _ in range(3):
        topic.clean(force=True)
    silver = topic.silver.sql()
    remembered = f"FROM {silver} WHERE bucket >= 0 AND control IS NOT NULL"
    assert (lake.spark.sql(f"SELECT * {remembered}").count(), topic.verify().problems) == (1, [])
    lake.spark.sql(f"INSERT INTO {silver} SELECT * {remembered}")
    assert topic.verify().problems == ["1 keys stand more than once in silver"]
    topic.repair()
    assert (lake.spark.sql(f"SELECT * {remembered}").count(), topic.verify().problems) == (1, [])
    topic.append([{"key": "k", "value": {"v": 6}}])
    assert topic.merge().late_after_delete == 1


def test_versions_and_times_of_the_latest_table_are_compared(lake: Lake) -> None:
    config = {"compaction.strategy": "column", "compaction.strategy.column": "v"}
    topic = lake.create_topic("t", key="STRING", value="v INT", config=config)
    topic.append([{"key": key, "value": {"v": 5}} for key in "abcd"])
    topic.merge()
    # Silver's versions are widened by the next merge.
    topic.configure(value="v BIGINT")
    assert topic.verify().problems == []
    for key, change in (("a", "version = 1"), ("b", "timestamp = TIMESTAMP '2001-01-01 00:00:00'"), ("c", "epoch = 7")):
        lake.spark.sql(f"UPDATE {topic.silver.sql()} SET {change} WHERE key = '{key}'")
    found = topic.verify()
    assert found.problems == [
        "1 rows of silver have another version than their record in the log",
        "2 rows of silver have another timestamp or epoch than their record in the log",
    ]
    assert {one["key"]: one["difference"] for one in found.differences} == {"a": "version", "b": "time", "c": "time"}
    topic.repair()
    topic.append([{"key": "a", "value": {"v": 3}}])
    assert (topic.merge().late, live(topic, "v")["a"], topic.verify().problems) == (1, 5, [])


def test_values_that_differ_by_microseconds_differ(lake: Lake) -> None:
    topic = lake.create_topic("t", key="STRING", value="at TIMESTAMP, local TIMESTAMP_NTZ")
    for micros in (100, 200):
        at = datetime.datetime(2026, 1, 1, 0, 0, 0, micros)
        topic.append([{"key": "a", "value": {"at": at.replace(tzinfo=datetime.timezone.utc), "local": at}}])
        topic.snapshot(f"of{micros}")
    assert [(row["key"], row["change"]) for row in topic.diff("of100", "of200").collect()] == [("a", "changed")]
    value = "named_struct('at', value.at, 'local', value.local + INTERVAL 100 MICROSECOND)"
    lake.spark.sql(f"UPDATE {topic.silver.sql()} SET value = {value} WHERE key = 'a'")
    assert topic.verify().problems == ["1 rows of silver differ from their record in the log"]


def test_log_and_latest_table_are_looked_at_in_one_moment(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    topic, other = lake.create_topic("t", key="STRING", value="STRING"), lake.topic("t")
    put(topic, a="1")
    topic.merge()

    def beside(module: Any, name: str, *, after: bool) -> None:
        """Let others write and merge once, before or after a function."""
        original = getattr(module, name)

        def called(*given: Any, **more: Any) -> Any:
            patch.setattr(module, name, original)
            found = original(*given, **more) if after else None
            put(other, a="2", b="1")
            other.merge()
            return found if after else original(*given, **more)

        patch.setattr(module, name, called)

    for module, name, after in ((verify, "true_end", True), (recompute, "winners", False), (verify.tables, "newest_version", True)):
        with monkeypatch.context() as patch:
            beside(module, name, after=after)
            assert topic.verify().problems == [], name


def test_a_latest_table_of_another_epoch_is_damaged_where_the_log_begins_at_its_end(lake: Lake) -> None:
    """What was merged last has left the log: its epoch alone tells that it is not what the log gave there."""
    topic = lake.create_topic("t", key="STRING", value="STRING")
    put(topic, a="1")
    topic.snapshot("s")
    put(topic, b="cut away")
    old = topic.merge().version
    topic.restore("s")
    put(topic, c="of epoch 1")
    topic.merge()
    topic.snapshot("s2")
    topic.delete_snapshot("s")
    topic.truncate("s2")
    assert topic.verify().problems == []
    lake.spark.sql(f"RESTORE TABLE {topic.silver.sql()} TO VERSION AS OF {old}").collect()
    put(topic, d="1")
    with pytest.raises(Damaged, match="up to offset 2, of epoch 0, but shares only what is below offset 1 .*Run verify with repair"):
        topic.merge()
    assert any("of epoch 0" in problem for problem in topic.verify().problems)
    topic.repair()
    assert (live(topic), topic.verify().problems) == ({"a": "1", "c": "of epoch 1", "d": "1"}, [])


@pytest.mark.parametrize("how", ["INSERT OVERWRITE {0} SELECT * FROM {0} VERSION AS OF {1}", "CREATE OR REPLACE TABLE"])
def test_a_latest_table_overwritten_with_an_old_version_was_brought_back(lake: Lake, how: str) -> None:
    """k was deleted, and no delete of it is in the log any more."""
    topic = lake.create_topic("t", key="STRING", value="STRING", config={**CLEANED, "delete.retention.ms": 0})
    put(topic, k="1", a="1")
    old = topic.merge().version
    put(topic, k=None)
    topic.merge()
    topic.roll()
    for _ in range(3):
        topic.clean(force=True)
    silver = topic.silver.sql()
    # A commit of another writer that brings nothing back is none of these.
    lake.spark.sql(f"UPDATE {silver} SET merged_at = NULL WHERE key = 'a'")
    put(topic, x="1")
    assert (topic.merge().inserted, live(topic)) == (1, {"a": "1", "x": "1"})
    if how.startswith("INSERT"):
        lake.spark.sql(how.format(silver, old))
    else:
        rows = lake.spark.sql(f"SELECT * FROM {silver} VERSION AS OF {old}")
        rows.write.format("delta").mode("overwrite").partitionBy("bucket").option("overwriteSchema", "true").save(topic.silver.path)
    put(topic, y="1")
    with pytest.raises(Damaged, match="the log holds every delete from offset 3 on: silver was brought back by hand"):
        topic.merge()
    topic.repair()
    topic.merge()
    assert (live(topic), topic.verify().problems) == ({"a": "1", "x": "1", "y": "1"}, [])


@pytest.mark.parametrize("how", ["restore", "RESTORE"])
def test_a_latest_table_brought_back_on_a_cleaned_log_is_not_wrong(lake: Lake, how: str) -> None:
    """The cleaner went by records that the latest table no longer holds."""
    topic = lake.create_topic("t", key="STRING", value="STRING", config=CLEANED)
    put(topic, a="1", b="1")
    topic.snapshot("s", keep="9 days")
    put(topic, a="2")
    topic.merge()
    topic.roll()
    assert topic.clean(force=True).records == 1
    if how == "restore":
        topic.restore("s", log="keep")
    else:
        lake.spark.sql(f"RESTORE TABLE {topic.silver.sql()} TO VERSION AS OF {topic.describe_snapshot('s').version}").collect()
    assert live(topic) == {"a": "1", "b": "1"}
    assert (topic.verify().problems, topic.repair().problems) == ([], [])
    assert live(topic) == {"a": "1", "b": "1"}, "nothing was undone"
    lake.spark.sql(f"UPDATE {topic.silver.sql()} SET key = 'z' WHERE key = 'b'")
    assert topic.verify().problems == ["1 keys are missing in silver", "1 keys of silver are not in the log"]
    lake.spark.sql(f"UPDATE {topic.silver.sql()} SET key = 'b' WHERE key = 'z'")
    topic.merge()
    assert (live(topic), topic.verify().problems) == ({"a": "2", "b": "1"}, [])


def test_a_snapshot_whose_files_are_gone_proves_nothing(lake: Lake) -> None:
    topic = lake.create_topic("t", key="STRING", value="STRING")
    put(topic, a="1", b="1")
    old = topic.snapshot("old").version
    topic.truncate("old")
    put(topic, a="2", b="2")
    new = topic.snapshot("new").version
    put(topic, c="1")
    topic.merge()
    assert "old" in str(topic.verify().base)

    def files(at: int | None) -> set[str]:
        asked = "" if at is None else f" VERSION AS OF {at}"
        return set(lake.spark.sql(f"SELECT * FROM {topic.silver.sql()}{asked} WHERE bucket >= 0").inputFiles())

    gone = files(old) - files(new) - files(None)
    assert gone
    for address in gone:
        os.remove(Path(address.removeprefix("file:").replace("///", "/")))
    found = topic.verify()
    assert found.problems == [] and "new" in str(found.base)
    assert topic.repair().done == []


def test_a_column_of_somebody_elses_is_named(lake: Lake) -> None:
    topic = lake.create_topic("t", key="STRING", value="STRING")
    put(topic, a="1")
    topic.merge()
    lake.spark.sql(f"ALTER TABLE {topic.silver.sql()} ADD COLUMNS (note STRING)")
    put(topic, b="1")
    assert any("columns that are not lakelog's: note" in problem for problem in topic.verify().problems)
    with pytest.raises(Damaged, match="columns that are not lakelog's: note.*Run verify with repair"):
        topic.merge()
    assert topic.repair().done == ["the latest table was computed anew"]
    assert (live(topic), topic.verify().problems) == ({"a": "1", "b": "1"}, [])


def test_keys_that_python_does_not_know_are_named_as_text(lake: Lake) -> None:
    topic = lake.create_topic("t", key="TIMESTAMP", value="STRING")
    far = "timestamp_millis(253402300800000 + 86400000)"
    topic.append(lake.spark.sql(f"SELECT {far} AS key, '1' AS value UNION ALL SELECT TIMESTAMP '2020-01-01', '1'"))
    topic.merge()
    lake.spark.sql(f"DELETE FROM {topic.silver.sql()} WHERE bucket >= 0 AND key > TIMESTAMP '2021-01-01'")
    found = topic.verify()
    assert (found.problems, [one["key"] for one in found.differences]) == (["1 keys are missing in silver"], ["+10000-01-02 00:00:00"])
    assert topic.repair().done == ["the latest table was computed anew"]
    assert topic.verify().problems == []


def test_a_key_that_was_erased_is_not_missing(lake: Lake) -> None:
    """A snapshot without a name still holds it, until its files go; the latest table is computed from there."""
    topic = lake.create_topic("t", key="STRING", value="STRING")
    put(topic, k="secret", a="1")
    first = topic.snapshot()
    put(topic, b="1")
    topic.snapshot("named")
    topic.truncate(first.id)
    assert first.id in str(topic.verify().base)
    topic.erase("k")
    found = topic.verify()
    assert (found.problems, first.id in str(found.base)) == ([], True)
    assert (topic.repair().problems, live(topic)) == ([], {"a": "1", "b": "1"})


@pytest.mark.parametrize("rule", ["offset", "column"])
def test_a_tombstone_that_expired_since_a_snapshot_is_not_missing(lake: Lake, rule: str) -> None:
    """The snapshot from which the latest table is computed still has it."""
    config = {**CLEANED, "delete.retention.ms": 0, "tombstone.version.retention.ms": -1}
    config |= {"compaction.strategy": "column", "compaction.strategy.column": "v"} if rule == "column" else {}
    topic = lake.create_topic("t", key="STRING", value="v INT", config=config)
    topic.append([{"key": "k", "value": {"v": 1}}, {"key": "a", "value": {"v": 1}}])
    topic.append([{"key": "k", "value": {"v": 2}, "tombstone": True}])
    topic.snapshot("with", keep="9 days")
    topic.roll()
    for _ in range(3):
        topic.clean(force=True)
    topic.truncate("with")
    found = topic.verify()
    assert (found.problems, "with" in str(found.base)) == ([], True)
