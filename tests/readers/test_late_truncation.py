"""A truncation whose last step comes late: another writer has finished it, and the log has gone on since."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakelog.operations import truncate
from tests.interleaving import late
from tests.readers.test_reading import orders, put, seen

if TYPE_CHECKING:
    from lakelog import Lake, Topic


# As many octets as a segment has at least.
LONG = "12345678901234"


@pytest.mark.long
@pytest.mark.parametrize("segment_bytes", [14, 1_000_000], ids=["whole segments", "a part of the active segment"])
def test_what_was_appended_to_a_log_begun_anew_stays(lake: Lake, monkeypatch: pytest.MonkeyPatch, segment_bytes: int) -> None:
    """The restore begins the log anew below the truncation's start: at offsets, and in a segment, that the truncation was to remove."""
    topic = orders(lake, 1, **{"segment.bytes": segment_bytes})
    put(topic, (0, "a", LONG))
    early = topic.merge().version
    for key in ("b", "c"):
        put(topic, (0, key, LONG))
    topic.snapshot("s")
    put(topic, (0, "d", "1"))
    other: list[Topic] = []

    def goes_on() -> None:
        other.append(lake.topic("orders"))
        other[0].restore(early)
        put(other[0], (0, "x", "1"), (0, "y", "1"))

    late(monkeypatch, truncate.cut, "drop" if segment_bytes == 14 else "remove", goes_on)
    topic.truncate("s")
    assert other, "the step is made"
    assert (topic.ends(), topic.start().offsets) == ({0: 3}, {0: 1})
    assert seen(topic.read()) == [(0, 1, "x", "1"), (0, 2, "y", "1")]
    topic.merge()
    assert {row["key"] for row in topic.latest().collect()} == {"a", "x", "y"}
