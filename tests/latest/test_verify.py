"""What `verify` finds, each in its own words: many tests end with it finding nothing."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from lakelog import Damaged
from lakelog.latest.verify import _wrong as wrong
from lakelog.log import inspection
from lakelog.model.log_state import PartitionState
from lakelog.model.segments import Tail
from lakelog.snapshots import restore
from tests.native.damages import UNREADABLE, deleted, rows_like

if TYPE_CHECKING:
    from lakelog import Lake, Topic

SIX = {"origin": 0, "start": 0, "cleaned": 0, "deletes_from": 0}


def says(merged: int | None = 6, end: int = 6, epochs: tuple[tuple[int, int], ...] = ((0, 0),), epoch: int = 0, **state: int) -> list[str]:
    """What is wrong with a partition of six records, all merged, that says so of itself."""
    return wrong(Tail(0, end, 0, 0, None, "b", PartitionState(0, 1, "b", epoch, epochs, **{**SIX, **state})), merged)


def test_what_a_partition_says_of_itself_and_cannot_be() -> None:
    assert says() == says(merged=0) == says(epochs=((0, 0), (2, 6)), epoch=2) == says(start=6, cleaned=6, deletes_from=6) == []
    for epochs, epoch in (
        (((0, 0), (0, 3)), 0), (((1, 0), (0, 3)), 0), (((0, 0), (1, 3)), 0), (((0, 0), (1, 3)), 2), (((0, 4), (1, 3)), 1), (((0, 0), (1, 7)), 1),
    ):  # fmt: skip
        listed = [list(pair) for pair in epochs]
        assert says(epochs=epochs, epoch=epoch) == [f"its epochs {listed} do not follow one upon the other up to epoch {epoch}"]
    assert says(start=7, merged=7)[0] == "the log start 7 lies outside [0, 6]"
    assert says(origin=3, start=2) == ["the log start 2 lies outside [3, 6]"]
    assert says(cleaned=7) == says(deletes_from=7) == says(cleaned=3, deletes_from=7) == ["it was cleaned up to 7, beyond its end 6"]
    assert says(records_from=7) == ["it lacks records below 7, beyond its end 6"]
    assert says(merged=None) == ["silver has no progress of it"]
    assert says(merged=7) == ["silver holds it up to 7, outside the log [0, 6)"]
    assert says(merged=2, start=3) == ["silver holds it up to 2, outside the log [3, 6)"]
    assert len(says(epochs=((0, 9),), start=7, cleaned=8, merged=None)) == 4, "one finding hides no other"


def put(topic: Topic, *keys: str) -> None:
    """Append a record of each of these keys to every partition."""
    topic.append([{"key": key, "value": "1", "partition": index} for index in range(topic.partitions) for key in keys])


def batches(bronze: Path, partition: int) -> list[str]:
    """The identities of a partition's appends, in order."""
    rows = DeltaTable(str(bronze)).to_pyarrow_table(columns=["partition", "segment", "offset", "control", "batch"]).to_pylist()
    ends = [row for row in rows if row["partition"] == partition and row["segment"] >= 0 and row["control"]]
    return [row["batch"] for row in sorted(ends, key=lambda row: row["offset"])]


def damage(bronze: Path) -> None:
    """Each partition but the first in another way, as a writer that does not know lakelog would; each holds three, two and one records."""
    first, second, third = batches(bronze, 0)
    # A segment that is no state's; of a record.
    one = {"segment": 0, "epoch": 0, "tombstone": False}
    deleted(bronze, "partition = 1 AND segment = -1")
    rows_like(bronze, **one, partition=2, offset=1, batch=first)
    for offset in (6, 7):
        rows_like(bronze, **one, partition=3, offset=offset, batch=third)
    rows_like(bronze, **one, partition=4, offset=6)
    rows_like(bronze, segment=0, tombstone=False, partition=4, offset=7, batch="no epoch")
    deleted(bronze, f"partition = 5 AND batch = '{second}' AND control IS NOT NULL")
    deleted(bronze, 'partition = 6 AND "offset" = 1')
    deleted(bronze, f"partition = 7 AND batch = '{second}'")
    control = {"type": "state", "sequence": 2, "epochs": [[0, 0]], "origin": 0, "start": 2, "cleaned": 2, "deletes_from": 2}
    rows_like(bronze, segment=-1, partition=8, offset=-3, epoch=0, tombstone=True, batch="later", control=json.dumps(control))
    rows_like(bronze, **one, partition=9, offset=0, batch=first)
    rows_like(bronze, **one, offset=0, batch=first)


FOUND = [
    "partition None: there is no such partition, yet it holds 1 records",
    "partition 1: there is no state row",
    "partition 2: 1 offsets were given twice",
    "partition 3: 1 batches hold records beyond their last offset",
    "partition 4: 2 records carry no batch of lakelog's: another writer wrote them",
    "partition 5: 2 records belong to appends whose batch rows are missing",
    "partition 6: 1 records of its batches are missing",
    "partition 7: 2 offsets below its end belong to no append: whole appends are missing",
    "partition 8: holds offset 0 below the log start 2",
    "partition 9: there is no such partition, yet it holds 1 records",
]


@pytest.mark.long
def test_what_is_wrong_with_the_log_is_named(lake: Lake) -> None:
    topic = lake.create_topic("t", key="STRING", value="STRING", partitions=9)
    for keys in ("abc", "de", "f"):
        put(topic, *keys)
    assert inspection.problems(topic.log) == (54, [])
    bronze = Path(topic.bronze.path or "")
    before = DeltaTable(str(bronze)).version()
    damage(bronze)
    assert inspection.problems(topic.log) == (58, FOUND)

    verified = topic.verify()
    commits = DeltaTable(str(bronze)).version() - before
    foreign, rest = verified.problems[:commits], verified.problems[commits:]
    by = r"another writer changed the log: version (\d+) of .* \((?:WRITE|DELETE) by "
    assert [int(found[1]) for text in foreign if (found := re.match(by, text))] == list(range(before + commits, before, -1))
    assert rest == [*FOUND, f"{topic.bronze}: partition 1 has no state row. The log is not as lakelog left it."]
    assert (verified.records, verified.keys, verified.share, verified.ok) == (58, 0, 0.0, False)


@pytest.mark.soak
def test_where_records_are_missing_is_known_above_what_may_be_gone(lake: Lake) -> None:
    """Logs that begin at offset 3, or were cleaned up to 4: the appends are [0, 3), [3, 5) and [5, 6)."""
    topic = lake.create_topic("t", key="STRING", value="STRING", partitions=5)
    for keys in ("abc", "de", "f"):
        put(topic, *keys)
    bronze = Path(topic.bronze.path or "")
    first, second, _ = batches(bronze, 0)
    state = {"type": "state", "sequence": 2, "epochs": [[0, 0]], "origin": 0, "start": 3, "cleaned": 3, "deletes_from": 3}
    for index, said in ((1, state), (2, state), (4, {**state, "start": 0, "cleaned": 4})):
        rows_like(bronze, segment=-1, partition=index, offset=-3, epoch=0, tombstone=True, batch="later", control=json.dumps(said))
    deleted(bronze, f"partition IN (1, 2) AND batch = '{first}'")
    assert inspection.problems(topic.log)[1] == []
    deleted(bronze, 'partition = 1 AND "offset" = 3')
    deleted(bronze, f"partition IN (2, 4) AND batch = '{second}'")
    deleted(bronze, f"partition = 3 AND batch = '{second}' AND control IS NOT NULL")
    assert inspection.problems(topic.log)[1] == [
        "partition 1: 1 records of its batches are missing",
        "partition 2: 2 offsets below its end belong to no append: whole appends are missing",
        "partition 3: 2 records belong to appends whose batch rows are missing",
        "partition 4: 1 offsets below its end belong to no append: whole appends are missing",
    ]
    assert inspection.missing(topic.log) == {1: (3, 5), 2: (3, 5), 4: (4, 5)}
    # At offset 3 lies the second append, or nothing: with its row and half its records in 1, without its row in 3, gone in 2.
    assert inspection.across(topic.log, dict.fromkeys(range(5), (3, "another"))) == [0, 1, 3]
    assert inspection.across(topic.log, dict.fromkeys(range(5), (3, second))) == []


@pytest.mark.long
def test_what_is_wrong_with_the_latest_table_is_named_key_by_key(lake: Lake) -> None:
    topic = lake.create_topic("t", key="STRING", value="STRING")
    for keys in ("abcd", "ab"):
        put(topic, *keys)
    topic.merge()
    silver = topic.silver.sql()
    lake.spark.sql(f"UPDATE {silver} SET offset = 0 WHERE key = 'a'")
    lake.spark.sql(f"UPDATE {silver} SET tombstone = true WHERE key = 'c'")
    lake.spark.sql(f"DELETE FROM {silver} WHERE key = 'd'")
    rows_like(Path(topic.silver.path or ""), bucket=0, partition=0, key="z", value="1", offset=9, epoch=0, tombstone=False)
    verified = topic.verify()
    assert verified.problems == [
        "1 keys are missing in silver",
        "1 keys of silver are not in the log",
        "1 keys have another row in silver than the one the rule puts first",
        "1 rows of silver differ from their record in the log",
    ]
    assert {one["key"]: (one["difference"], one["expected"], one["found"]) for one in verified.differences} == {
        "a": ("other", 4, 0), "c": ("changed", 2, 2), "d": ("missing", 3, None), "z": ("unknown", None, 9),
    }  # fmt: skip
    assert verified.keys == 5


@pytest.mark.soak
def test_what_the_latest_table_says_of_itself_and_cannot_be_is_named(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = lake.create_topic("t", key="STRING", value="STRING", partitions=2)
    put(topic, "a")
    topic.snapshot("s")
    put(topic, "b")
    sound = topic.verify()
    assert (sound.problems, sound.keys, sound.commits) == ([], 2, 3), "what is not merged yet is not wrong"
    silver = topic.silver.sql()
    lake.spark.sql(f"UPDATE {silver} SET offset = 7 WHERE bucket = -1 AND partition = 1")
    assert topic.verify().problems[0] == "partition 1: silver holds it up to 8, outside the log [0, 2)"
    lake.spark.sql(f"DELETE FROM {silver} WHERE bucket = -1 AND partition = 1")
    assert topic.verify().problems[0] == "partition 1: silver has no progress of it"
    lake.spark.sql(f"RESTORE TABLE {silver} TO VERSION AS OF {topic.describe_snapshot('s').version}").collect()
    lake.spark.sql(f"UPDATE {silver} SET control = replace(control, '{topic.uuid}', 'other') WHERE bucket = -1")
    assert topic.verify().problems == ["silver was made for another topic (other)"]
    lake.spark.sql(f"RESTORE TABLE {silver} TO VERSION AS OF {topic.describe_snapshot('s').version}").collect()
    topic.configure({"compaction.strategy": "timestamp"})
    assert topic.verify().problems == ["silver was made under the rule offset, the topic says timestamp: run merge with rebuild"]
    topic.configure({"compaction.strategy": None})

    def cut(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(restore, "carry_out", cut)
        topic.restore("s")
    begun = topic.verify()
    assert begun.problems == ["the operation restore was begun and is not finished: the next command that writes finishes it"]
    assert (begun.keys, begun.share) == (0, 0.0)
    topic.merge()
    assert topic.verify().problems == []


@pytest.mark.long
@pytest.mark.parametrize("damage", ["silver-control-garbage", "silver-plain-table"])
def test_a_latest_table_that_somebody_else_wrote_is_computed_anew(lake: Lake, damage: str) -> None:
    topic = lake.create_topic("t", key="STRING", value="STRING", partitions=2)
    topic.append([{"key": "a", "value": "1"}, {"key": "b", "value": "1"}])
    topic.merge()
    UNREADABLE[damage](Path(lake.root), Path(lake.root, "t"))
    with pytest.raises(Damaged, match="the control rows of silver are not as lakelog left them"):
        topic.latest(at=0 if damage == "silver-plain-table" else None)
    assert len(topic.repair().problems) == 1
    assert sorted(row["key"] for row in topic.latest().collect()) == ["a", "b"]
    assert topic.verify().ok
