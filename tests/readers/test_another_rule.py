"""A latest table or a snapshot made under another rule than the topic's is no beginning: the log from there on does not give the latest table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lakelog import Lake, Refused
from tests.tables import versions


@pytest.mark.long
def test_readers_and_exports_begin_with_what_the_present_rule_made(lake: Lake, tmp_path: Path) -> None:
    topic = lake.create_topic("t", key="STRING", value="STRING")
    for value, version in (("five", 5), ("three", 3)):
        topic.append([{"key": "a", "value": value, "headers": [["v", version]]}])
    early = topic.merge().version
    topic.snapshot("s", keep="9 days")
    topic.configure({"compaction.strategy": "header", "compaction.strategy.header": "v"})
    out = tmp_path / "out"

    def refused(remedy: str, *verbs: Callable[[], Any]) -> None:
        before = versions(lake.root, "t")
        for verb in verbs:
            with pytest.raises(Refused, match=rf"made under the rule offset, the topic now says header.*{remedy}") as error:
                verb()
            assert error.value.name == "RULE_CHANGED"
        assert (versions(lake.root, "t"), out.exists()) == (before, False)

    of_snapshots = [lambda at=at: topic.bootstrap(at) for at in ("s", early)] + [lambda at=at: topic.export(out, at) for at in ("s", early)]
    refused("merge with rebuild", topic.bootstrap, lambda: topic.export(out))
    refused("under the present rule", *of_snapshots)
    topic.merge(rebuild=True)
    refused("under the present rule", *of_snapshots)
    assert [row["value"] for row in topic.bootstrap().latest.collect()] == ["five"]
    topic.export(out)
    imported = lake.import_topic(out, name="u")
    assert (imported.merge().version, [row["value"] for row in imported.latest().collect()]) == (None, ["five"])


def test_a_topic_that_was_never_merged_is_of_any_rule(lake: Lake, tmp_path: Path) -> None:
    topic = lake.create_topic("t", key="STRING", value="STRING")
    topic.append([{"key": "a", "value": "1"}])
    topic.configure({"compaction.strategy": "timestamp"})
    assert topic.bootstrap().position.offsets == {0: 0}
    topic.export(tmp_path / "out")
    imported = lake.import_topic(tmp_path / "out", name="u")
    imported.merge()
    assert [row["value"] for row in imported.latest().collect()] == ["1"]
