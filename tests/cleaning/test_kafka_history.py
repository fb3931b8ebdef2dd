"""The log cleaner on a real history: the change history of the kafka repository, cut into small segments."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.conftest import Clock
from tests.latest.test_git_history import TYPES, _append, _history, _trees
from tests.tables import versions

if TYPE_CHECKING:
    from lakelog import Lake

PARTS = 12
DAY = 86_400_000


@pytest.mark.long
def test_the_cleaned_history_is_gits_tree_and_the_log_shrinks_to_the_winners(lake: Lake, clock: Clock, tmp_path: Path) -> None:
    history = _history("kafka")
    records, tree = history.records, history.points[-1][1]
    topic = lake.create_topic("history", **TYPES, config={"segment.bytes": 1000, "delete.retention.ms": DAY})
    edges = [len(records) * part // PARTS for part in range(PARTS + 1)]
    for low, high in zip(edges, edges[1:], strict=False):
        _append(topic, tmp_path, {0: records[low:high]})
    last = {record["key"]: (offset, record) for offset, record in enumerate(records)}
    winners = {offset for offset, _ in last.values()}
    deleted = {offset for offset, record in last.values() if record["tombstone"]}
    active = edges[-2]

    planned = topic.clean(dry_run=True)
    done = topic.clean()
    assert done.partitions == planned.partitions, "a run does what its dry run says"
    held = {row["offset"] for row in topic.read().select("offset").collect()}
    assert held == winners | set(range(active, len(records)))
    assert _trees(topic)[0] == tree
    fold = {}
    for row in topic.read().select("offset", "key", "value.blob").orderBy("offset").collect():
        fold[row["key"]] = row["blob"]
    assert {key: blob for key, blob in fold.items() if blob is not None} == tree, "an independent fold of the cleaned log"
    assert topic.ends() == {0: len(records)}

    before = versions(lake.root, topic.name)
    assert topic.clean().records == 0
    assert versions(lake.root, topic.name) == before, "a second clean commits nothing, to neither table"

    clock.now += 2 * DAY
    topic.roll()
    topic.append([{"key": "new", "value": {"commit": "c", "blob": "b", "mode": "m"}}])
    gone = topic.clean(force=True)
    assert gone.expired == sum(offset < active for offset in deleted), "those that the first clean gave a horizon"
    clock.now += 2 * DAY
    assert topic.clean(force=True).expired == sum(offset >= active for offset in deleted)
    held = {row["offset"] for row in topic.read().select("offset").collect()}
    assert held == (winners - deleted) | {len(records)}
    assert _trees(topic)[0] == {**tree, "new": "b"}
    assert topic.verify().problems == []
