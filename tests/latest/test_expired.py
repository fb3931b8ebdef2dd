"""What verify and repair make of deletes that expired: those that left log and latest table, and those that have left one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lakelog.cleaning.tombstones import Tombstones
from tests.latest.test_silver_by_hand import CLEANED, live, put

if TYPE_CHECKING:
    from lakelog import Lake, Topic

pytestmark = pytest.mark.long

AT_ONCE = {**CLEANED, "delete.retention.ms": 0}
VERSIONED = {**AT_ONCE, "compaction.strategy": "timestamp"}


def cleaned(topic: Topic, times: int = 1) -> None:
    topic.merge()
    topic.roll()
    for _ in range(times):
        topic.clean(force=True)


def timed(topic: Topic, **values: tuple[int, str | None]) -> None:
    """Append values, or deletes, at times."""
    topic.append(
        [{"key": key, "timestamp": at, **({"value": value} if value else {"tombstone": True})} for key, (at, value) in values.items()]
    )


def test_deletes_that_expire_where_a_restore_began_the_log_anew_are_not_missing(lake: Lake) -> None:
    """The delete lies below the log's start then, in no segment, so that the log says nothing of its leaving."""
    topic = lake.create_topic("t", key="STRING", value="STRING", config=AT_ONCE)
    put(topic, k="1", a="1")
    put(topic, k=None)
    topic.snapshot("s", keep="9 days")
    put(topic, a="2")
    cleaned(topic)
    topic.restore("s")
    for key in "bc":
        put(topic, **{key: "1"})
        cleaned(topic, 2)
    assert topic.latest().count() == 3
    assert (topic.verify().problems, topic.repair().problems) == ([], [])
    assert live(topic) == {"a": "1", "b": "1", "c": "1"}


def test_a_key_that_lives_again_after_its_delete_was_forgotten_is_not_wrong(lake: Lake) -> None:
    """The snapshot that stands for the log still has the delete, which is newer than what was written since."""
    config = {**VERSIONED, "tombstone.version.retention.ms": 0}
    topic = lake.create_topic("t", key="STRING", value="STRING", config=config)
    timed(topic, k=(1, "1"))
    timed(topic, k=(10, None))
    topic.snapshot("s", keep="9 days")
    topic.truncate("s")
    timed(topic, b=(1, "1"))
    cleaned(topic, 3)
    timed(topic, k=(5, "5"))
    topic.merge()
    assert live(topic) == {"b": "1", "k": "5"}
    found = topic.verify()
    assert (found.problems, "snapshot s" in str(found.base)) == ([], True)
    assert topic.repair().problems == []
    # What is wrong is still seen: the row, and a delete that has not expired.
    lake.spark.sql(f"UPDATE {topic.silver.sql()} SET value = '6' WHERE key = 'k'")
    assert topic.verify().problems == ["1 rows of silver differ from their record in the log"]


def test_a_delete_that_a_clean_took_out_of_the_log_alone_still_stands(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clean is cut off between its two commits, and a late record of the key is in the log."""
    topic = lake.create_topic("t", key="STRING", value="STRING", config={**VERSIONED, "tombstone.version.retention.ms": -1})
    timed(topic, k=(10, "10"), a=(1, "1"))
    timed(topic, k=(20, None))
    cleaned(topic)
    timed(topic, k=(15, "late"))
    topic.merge()

    def cut_off(*given: Any) -> int | None:
        raise OSError("cut off")

    with monkeypatch.context() as patch:
        patch.setattr(Tombstones, "write", cut_off)
        with pytest.raises(OSError, match="cut off"):
            topic.clean(force=True)
    assert {row["offset"] for row in topic.read().collect()} == {1, 3}, "the delete, at offset 2, has left the log"
    assert (topic.verify().problems, topic.repair().problems, live(topic)) == ([], [], {"a": "1"})
    lake.spark.sql(f"DELETE FROM {topic.silver.sql()} WHERE key = 'a'")
    assert topic.verify().problems == ["1 keys are missing in silver"]
    assert topic.repair().done == ["the latest table was computed anew"]
    assert (topic.verify().problems, live(topic)) == ([], {"a": "1"})
    cleaned(topic, 2)
    timed(topic, k=(16, "late too"))
    assert (topic.merge().late_after_delete, live(topic), topic.verify().problems) == (1, {"a": "1"}, [])
