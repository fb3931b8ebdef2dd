"""Batches of a stream that a restore takes out of the log are not passed over: the query does not send them again."""

from __future__ import annotations

from typing import Any

import pytest

from lakelog import BatchAppender, Lake, Refused
from lakelog.sources import streaming


def entry(number: int, *, epoch: int = 0) -> dict[str, Any]:
    return {"name": f"batch {number}", "more": {"number": number}, "offsets": {"0": [number, number + 1]}, "lives": [[epoch, epoch + 1]]}


def test_batches_before_one_that_are_not_in_the_log_again() -> None:
    aside = [entry(3), entry(2), entry(3, epoch=4), entry(1), entry(7)]
    found = streaming.rewound(aside, {"batch 1": None}, 7)
    assert {number: len(lives) for number, lives in found.items()} == {2: 1, 3: 2}
    assert list(found) == [2, 3]
    assert streaming.rewound(aside, {}, 1) == {}, "the query sends these again"
    assert list(streaming.rewound([{**entry(4), "more": {}}], {}, 5)) == [4], "as they were written without a number"


@pytest.mark.long
def test_a_query_that_goes_on_behind_what_a_restore_took_back_is_refused(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    # As the appender opens it.
    topic = Lake(lake.spark, lake.root).create_topic("orders", key="STRING", value="STRING")
    monkeypatch.setattr(streaming, "query_of", lambda spark, checkpoint: "q")
    appender = BatchAppender(lake.root, "orders", "/checkpoint")

    def send(number: int, *keys: str) -> None:
        appender(lake.spark.createDataFrame([(key, "x") for key in keys], "key STRING, value STRING"), number)

    def keys() -> list[str]:
        return sorted(row["key"] for row in topic.read().collect())

    send(0, "a")
    topic.merge()
    topic.snapshot("before")
    send(1, "b", "c")
    send(2, "d")
    topic.merge()
    topic.restore("before")
    with pytest.raises(Refused, match=r"appended as batch 1, 2 out of the log; the query goes on at batch 3") as refused:
        send(3, "e")
    assert (refused.value.name, refused.value.expected, refused.value.actual) == ("STREAM_REWOUND", [1, 2], 3)
    assert keys() == ["a"]
    # What it sends again, as with an older copy of its checkpoint, it may.
    send(1, "b", "c")
    with pytest.raises(Refused, match="appended as batch 2 out of the log"):
        send(3, "e")
    topic.requeue(rule="RESTORED", key="d")
    send(3, "e")
    assert keys() == ["a", "b", "c", "d", "e"]
