"""What others commit to bronze beside an append or a merge: what moves no rows stops nobody, what may have moved some is named."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from lakelog import topic as topics
from lakelog.errors import Conflict, Damaged, InvalidRecords
from lakelog.inputs import staging
from lakelog.log import guard
from lakelog.log.tokens import Token
from tests.interleaving import late
from tests.tables import versions, write

if TYPE_CHECKING:
    from pathlib import Path

    from lakelog import Lake, Topic

USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"


def record(key: str) -> dict[str, str]:
    return {"key": key, "value": "1"}


@pytest.mark.parametrize("text", ["nightly 7", "7", '["a list"]', '{"lakelog": "append"}'])
def test_a_harmless_commit_with_a_text_of_its_own_stops_no_append(text: str, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = lake.create_topic("t", key="STRING", value="STRING")
    topic.append([record("a")])

    def tag() -> None:
        lake.spark.conf.set(USER_METADATA, text)
        try:
            lake.spark.sql(f"ALTER TABLE {topic.bronze.sql()} SET TBLPROPERTIES ('team.tag' = 'x')")
        finally:
            lake.spark.conf.unset(USER_METADATA)

    with monkeypatch.context() as patch:
        late(patch, staging, "staged", tag)
        assert topic.append([record("b")]).offsets == {0: (1, 2)}
    assert topic.append([record("c")]).offsets == {0: (2, 3)}


def overwritten(lake: Lake, topic: Topic, condition: str) -> None:
    """What people do who take a record out of a table with Spark."""
    rows = lake.spark.read.table(topic.bronze.sql()).filter(condition)
    writer = rows.write.format("delta").mode("overwrite").option("overwriteSchema", "true").partitionBy("partition", "segment")
    writer.saveAsTable(topic.bronze.sql())


def test_a_log_that_was_written_over_is_named(lake: Lake) -> None:
    topic = lake.create_topic("t", key="STRING", value="STRING")
    topic.append([record(key) for key in "abc"])
    overwritten(lake, topic, "NOT (segment >= 0 AND offset = 1 AND control IS NULL)")
    before = versions(lake.root, "t")
    for verb in (lambda: lake.topic("t").append([record("d")]), lambda: lake.topic("t").merge()):
        with pytest.raises(Damaged, match=r"another writer changed the log: version 2 .*REPLACE.*RESTORE to version 1"):
            verb()
    assert versions(lake.root, "t") == before


def test_records_that_were_checked_under_other_settings_are_not_written(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = lake.create_topic("t", key="STRING", value="STRING", config={"check.expected.offsets": False})
    for setting, append in (
        ("check.expected.offsets", lambda: topic.append([record("a")], expected_offset={0: 7})),
        ("tombstone.strict", lambda: topic.append([{"key": "a", "value": None}])),
    ):
        with monkeypatch.context() as patch:
            late(patch, staging, "staged", lambda setting=setting: lake.topic("t").configure({setting: True}))  # type: ignore[misc]
            with pytest.raises(Conflict, match=f"were changed while the append ran: {setting}"):
                append()
    # One that decides nothing about records stops no append.
    with monkeypatch.context() as patch:
        late(patch, staging, "staged", lambda: lake.topic("t").configure({"retention.ms": 1}))
        assert topic.append([record("a")]).offsets == {0: (0, 1)}


@pytest.mark.parametrize(("owner", "name", "refusal"), [(Token, "remembered", Conflict), (topics, "log_end", InvalidRecords)])
def test_settings_that_are_changed_before_an_append_looks_at_the_log_are_known_to_it(
    owner: Any, name: str, refusal: type[Exception], lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After its topic was read: while it looks for its token, and before it has looked for the log's end, when it reads the topic again."""
    topic = lake.create_topic("t", key="STRING", value="STRING")
    late(monkeypatch, owner, name, lambda: lake.topic("t").configure({"tombstone.strict": True}))
    with pytest.raises(refusal, match=r"tombstone\.strict"):
        topic.append([{"key": "a", "value": None}], token="one")
    assert topic.ends() == {0: 0}


def test_a_version_that_was_read_under_another_encoding_is_not_written(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    config = {"compaction.strategy": "header", "compaction.strategy.header": "v", "compaction.header.invalid": "reject"}
    topic = lake.create_topic("t", key="STRING", value="STRING", config=config)
    late(monkeypatch, staging, "staged", lambda: lake.topic("t").configure({"compaction.header.encoding": "text"}))
    with pytest.raises(Conflict, match=r"were changed while the append ran: compaction\.header\.encoding"):
        topic.append([{**record("a"), "headers": [["v", 1]]}])
    assert topic.ends() == {0: 0}


@pytest.mark.long
def test_a_load_writes_no_chunk_of_records_that_were_checked_under_other_settings(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = lake.create_topic("t", key="STRING", value="STRING", partitions=2)
    path = write(tmp_path / "long.ndjson", *(json.dumps({**record(key), "partition": 0}) for key in "abcd"))

    def changed(setting: dict[str, object]) -> None:
        lake.topic("t").configure(setting)

    with monkeypatch.context() as patch:
        late(patch, staging, "staged", lambda: changed({"tombstone.strict": True}))
        with pytest.raises(Conflict, match=r"changed while the append ran: tombstone\.strict\. Nothing was written; try again\.$"):
            topic.load(path, identity="load", chunk=2)
    assert topic.ends() == {0: 0, 1: 0}
    # Others append to the other partition while a chunk is written, or do not: the end is read anew for the next one, or is known.
    for beside, bound, done in ((True, 900, 1), (False, 901, 2)):
        with monkeypatch.context() as patch:
            if beside:
                late(patch, guard, "insert", lambda: lake.topic("t").append([{**record("x"), "partition": 1}]))
            with pytest.raises(
                Conflict, match=rf"Nothing of this chunk was written; try again\. {done} of 4 records .* goes on behind them\.$"
            ):
                topic.load(
                    path,
                    identity="load",
                    chunk=1,
                    tell=lambda done, _, bound=bound: changed({"max.message.bytes": bound}),  # type: ignore[misc]
                )
        assert topic.ends() == {0: done, 1: 1}
    loaded = topic.load(path, identity="load", chunk=4)
    assert (loaded.found, topic.ends()) == (2, {0: 4, 1: 1})
