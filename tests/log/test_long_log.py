"""Nothing that an append or a merge reads grows with the log: all that is old enough may be missing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakelog.errors import ExpectedOffsetMismatch
from tests.benchmarks.append import long_log

if TYPE_CHECKING:
    from lakelog import Lake

COMMITS = 150


@pytest.mark.long
def test_appends_and_merges_read_the_end_of_the_log_alone(lake: Lake) -> None:
    lake.create_topic("long", key="STRING", value="STRING")
    table = Path(lake.root) / "long" / "bronze"
    long_log(table, COMMITS, lake.clock() - COMMITS)
    topic = lake.topic("long")
    assert topic.merge().inserted == COMMITS
    # Whoever reads a file from before the last commit, of records or of tokens, fails from here on. The epoch's file stays.
    old = sorted(table.glob("partition=0/segment=0/*.parquet"))[:-1]
    tokens = list(table.glob("partition=-1/*/*.parquet"))
    assert (len(old), len(tokens)) == (COMMITS - 1, COMMITS // 10)
    for file in (*old, *tokens):
        file.unlink()

    record = {"key": "new", "value": "v"}
    unconditional = topic.append([record])
    conditional = topic.append([record], expected_offset={0: COMMITS + 1})
    once = topic.append([record], token="once")
    again = topic.append([record], token="once")
    with pytest.raises(ExpectedOffsetMismatch) as mismatch:
        topic.append([record], expected_offset={0: COMMITS})
    merged = topic.merge()

    assert [one.offsets for one in (unconditional, conditional, once, again)] == [
        {0: (COMMITS, COMMITS + 1)}, {0: (COMMITS + 1, COMMITS + 2)}, {0: (COMMITS + 2, COMMITS + 3)}, {0: (COMMITS + 2, COMMITS + 3)},
    ]  # fmt: skip
    assert again.repeated
    assert mismatch.value.actual == COMMITS + 3
    assert (merged.inserted, merged.to_offsets) == (1, {0: COMMITS + 3})
