"""Bronze changed by hand: a RESTORE, rows deleted, another writer. Nothing is skipped in silence, and a repair brings the topic back."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

from lakelog.errors import Conflict, Damaged, FencedEpoch
from lakelog.log import guard, notes
from lakelog.log.notes import appends_above, lost_appends, standing
from lakelog.operations import repair
from lakelog.snapshots import restore
from tests.interleaving import late
from tests.tables import versions

if TYPE_CHECKING:
    from lakelog import Lake, Topic


def record(key: str, value: str = "v", partition: int = 0) -> dict[str, Any]:
    return {"key": key, "value": value, "partition": partition}


def live(topic: Topic) -> dict[str, str]:
    return {row["key"]: row["value"] for row in topic.latest().collect()}


def test_records_after_a_restore_of_the_log_are_never_skipped(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log is restored by hand and appended to by a lakelog that does not notice: offsets mean other records than those silver has merged."""
    topic = lake.create_topic("t", key="STRING", value="STRING", partitions=2)
    topic.append([record("a"), record("p", partition=1)])
    topic.append([record("b"), record("c")])
    topic.merge()
    lake.spark.sql(f"RESTORE TABLE {topic.bronze.sql()} TO VERSION AS OF 1")
    before = versions(lake.root, "t")
    for verb in (topic.merge, lambda: topic.append([record("x")]), lambda: lake.topic("t").append([record("x")], token="once")):
        with pytest.raises(Damaged, match=r"restored by hand: version 3 .*RESTORE.*repair"):
            verb()
    assert versions(lake.root, "t") == before
    with monkeypatch.context() as patch:
        patch.setattr(notes, "lost_appends", lambda rows: None)
        assert topic.append([record("d"), record("e")]).offsets == {0: (1, 3)}, "the same offsets as b and c had"
    # The RESTORE lies behind a note of lakelog's now; silver remembers which append ends at its progress.
    with pytest.raises(Damaged, match=r"offsets were given a second time.*repair"):
        topic.merge()
    repaired = topic.repair()
    assert (repaired.epoch, repaired.ends, live(topic)) == (1, {0: 3, 1: 1}, {"a": "v", "d": "v", "e": "v", "p": "v"})
    assert topic.verify().problems == []
    with pytest.raises(FencedEpoch):
        topic.append([record("f")], epoch=0)
    topic.append([record("a", "w")], epoch=1)
    assert (topic.merge().updated, topic.repair().done) == (1, [])
    rows = topic.read().orderBy("partition", "offset").collect()
    assert [(row["partition"], row["offset"], row["epoch"]) for row in rows] == [(0, 0, 0), (0, 1, 0), (0, 2, 0), (0, 3, 1), (1, 0, 0)]


@pytest.mark.long
def test_a_repair_that_is_cut_off_is_finished_by_the_next_writer(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = lake.create_topic("t", key="STRING", value="STRING")
    topic.append([record("a"), record("b"), record("c")])
    topic.merge()
    topic.append([record("d")])
    # Rows deleted by hand, the last append's batch row with them: its record stays.
    lake.spark.sql(f"DELETE FROM {topic.bronze.sql()} WHERE offset = 0 AND control IS NULL AND partition = 0")
    lake.spark.sql(f"DELETE FROM {topic.bronze.sql()} WHERE offset = 3 AND control IS NOT NULL AND partition = 0")
    for verb in (topic.merge, lambda: topic.append([record("x")])):
        with pytest.raises(Damaged):
            verb()

    class Cut(Exception):
        pass

    def cut(*_: Any, **__: Any) -> None:
        raise Cut

    for module, name in ((repair.rebuild, "rebuild"), (repair.state, "close")):
        with monkeypatch.context() as patch, pytest.raises(Cut):
            patch.setattr(module, name, cut)
            lake.topic("t").repair()
    assert lake.topic("t").status().intent == "repair"
    assert topic.append([record("e")]).offsets == {0: (4, 5)}
    assert topic.status().intent is None
    topic.merge()
    assert (live(topic), topic.verify().problems) == (dict.fromkeys("bcde", "v"), [])


@pytest.mark.long
def test_a_restore_to_a_time_is_judged_by_the_rows(lake: Lake) -> None:
    """Delta notes that time in a zone nobody else knows; the other writer's rows are there, or they are not."""
    topic = lake.create_topic("t", key="STRING", value="STRING")
    topic.append([record("a"), record("b")])
    bronze = topic.bronze.sql()
    at = (
        lake.spark.sql(f"DESCRIBE HISTORY {bronze} LIMIT 1")
        .select(F.expr("timestamp + INTERVAL 1 MILLISECOND").cast("string"))
        .collect()[0][0]
    )

    def foreign() -> None:
        copied = lake.spark.read.table(bronze).filter("control IS NULL").limit(1).collect()
        rows = lake.spark.createDataFrame(copied, lake.spark.read.table(bronze).schema)
        rows.write.format("delta").mode("append").save(topic.bronze.path)

    before = lake.spark.conf.get("spark.sql.session.timeZone")
    try:
        for zone in ("America/New_York", "Asia/Tokyo"):
            lake.spark.conf.set("spark.sql.session.timeZone", zone)
            foreign()
            with pytest.raises(Damaged, match="another writer changed the log"):
                topic.append([record("x")])
            lake.spark.conf.set("spark.sql.session.timeZone", before)
            lake.spark.sql(f"RESTORE TABLE {bronze} TO TIMESTAMP AS OF '{at}'")
            lake.spark.conf.set("spark.sql.session.timeZone", zone)
            assert lake.topic("t").ends() == {0: 2}, "what was taken back is gone"
    finally:
        lake.spark.conf.set("spark.sql.session.timeZone", before)
    # A commit that stands, beside a RESTORE that did not take it back, and took back another.
    lake.spark.sql(f"UPDATE {bronze} SET value = 'forged' WHERE partition = 0 AND key = 'a'")
    forged = lake.spark.sql(f"DESCRIBE HISTORY {bronze} LIMIT 1").select(
        F.expr("timestamp + INTERVAL 1 MILLISECOND").cast("string"), "version"
    )
    text, version = forged.collect()[0]
    foreign()
    lake.spark.sql(f"RESTORE TABLE {bronze} TO TIMESTAMP AS OF '{text}'")
    for verb in (lambda: lake.topic("t").append([record("x")]), lambda: lake.topic("t").merge()):
        with pytest.raises(Damaged, match=f"another writer changed the log: version {version} .*UPDATE"):
            verb()
    assert f"version {version}" in lake.topic("t").verify().problems[0]
    lake.spark.sql(f"RESTORE TABLE {bronze} TO VERSION AS OF {version - 1}")
    assert lake.topic("t").ends() == {0: 2}
    foreign()
    version = lake.spark.sql(f"DESCRIBE HISTORY {bronze} LIMIT 1").collect()[0]["version"]
    now = (
        lake.spark.sql(f"DESCRIBE HISTORY {bronze} LIMIT 1")
        .select(F.expr("timestamp + INTERVAL 1 MILLISECOND").cast("string"))
        .collect()[0][0]
    )
    lake.spark.sql(f"OPTIMIZE {bronze}")
    lake.spark.sql(f"DELETE FROM {bronze} WHERE partition = 77")
    lake.spark.sql(f"ALTER TABLE {bronze} SET TBLPROPERTIES ('a.user' = 'was here')")
    lake.spark.sql(f"RESTORE TABLE {bronze} TO TIMESTAMP AS OF '{now}'")
    with pytest.raises(Damaged, match="another writer|restored by hand"):
        lake.topic("t").append([record("x")])
    assert version


def test_a_restore_of_records_that_were_not_merged_is_told_by_verify(lake: Lake) -> None:
    topic = lake.create_topic("t", key="STRING", value="STRING")
    topic.append([record("a")])
    topic.append([record("b")])
    lake.spark.sql(f"RESTORE TABLE {topic.bronze.sql()} TO VERSION AS OF 1")
    (told,) = topic.verify().problems
    assert "the log was restored by hand: version 3" in told and "Run verify with repair" in told


@pytest.mark.soak
def test_a_restore_to_a_time_before_an_epoch_is_seen_where_the_log_ends_at_the_same_offsets(lake: Lake) -> None:
    topic = lake.create_topic("t", key="STRING", value="STRING")
    topic.append([record("a")])
    topic.snapshot("s")
    topic.append([record("b"), record("c")])
    history = lake.spark.sql(f"DESCRIBE HISTORY {topic.bronze.sql()} LIMIT 1")
    at = history.select(F.expr("timestamp + INTERVAL 1 MILLISECOND").cast("string")).collect()[0][0]
    topic.restore("s")
    topic.append([record("x"), record("y")])
    lake.spark.sql(f"RESTORE TABLE {topic.bronze.sql()} TO TIMESTAMP AS OF '{at}'")
    with pytest.raises(Damaged, match="restored by hand"):
        lake.topic("t").append([record("z")])
    assert lake.topic("t").repair().epoch == 2


def test_what_restores_took_back_is_told_by_versions() -> None:
    def commit(version: int, operation: str = "WRITE", **more: Any) -> dict[str, Any]:
        note = '{"lakelog": "append"}' if more.get("ours") else None
        return {"version": version, "operation": operation, "operationParameters": {"version": more.get("to")}, "userMetadata": note}

    rows = [commit(6), commit(5, "RESTORE", to="2"), commit(4, ours=True), commit(3), commit(2, ours=True), commit(1)]
    assert [row["version"] for row in standing(rows)] == [6, 5, 2, 1]
    assert (lost_appends(rows) or {})["version"] == 5
    rows[1] = commit(5, "RESTORE", to="4")
    assert lost_appends(rows) is None
    unknown = [commit(5, "RESTORE"), *rows[2:]]
    assert [row["version"] for row in standing(unknown)] == [5, 4, 3, 2, 1], "a time: it may have left all of them"
    assert [row["version"] for row in standing(unknown, surely=True)] == [5]


def test_an_append_that_a_restore_had_cut_away_is_not_asked_for_again() -> None:
    def commit(version: int, kind: str, *ends: int, to: int = 0) -> dict[str, Any]:
        said = {"lakelog": kind, "batch": f"b{version}", "ends": dict(enumerate(ends))} | (
            {"tails": {str(to): []}} if kind == "append" else {}
        )
        return {"version": version, "operation": "WRITE", "operationParameters": {}, "userMetadata": json.dumps(said)}

    # An append knows the ends of other partitions by hearsay: that of version 5 says less than there is.
    rows = [
        commit(6, "append", 9, 4, to=1),
        commit(5, "append", 2, 3, to=1),
        commit(4, "restore", 6, 2),
        commit(3, "append", 9, 2),
        commit(2, "append", 6, 2),
    ]
    said = appends_above([*rows, commit(1, "append", 1, 2)], 1)
    assert [part[:9] for part in said.split("; ")] == ["version 2", "version 5", "version 6"]


@pytest.mark.soak
def test_a_repair_does_not_give_up_what_another_began_meanwhile(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    topic, other = lake.create_topic("t", key="STRING", value="STRING"), lake.topic("t")
    topic.append([record("a")])
    topic.merge()
    topic.snapshot("s")
    for key in "bc":
        topic.append([record(key)])
    topic.merge()
    newest = lake.spark.sql(f"DESCRIBE HISTORY {topic.bronze.sql()} LIMIT 1").collect()[0]["version"]
    lake.spark.sql(f"RESTORE TABLE {topic.bronze.sql()} TO VERSION AS OF {newest - 1}")

    def begin() -> None:
        with monkeypatch.context() as cut:
            cut.setattr(restore, "carry_out", lambda *given, **more: None)
            other.restore("s")

    with monkeypatch.context() as patch:
        late(patch, repair.inspection, "problems", begin)
        with pytest.raises(Conflict, match="the operation restore was begun meanwhile"):
            topic.repair()
    assert topic.append([record("d")]).offsets == {0: (1, 2)}, "it is finished first"
    topic.merge()
    assert (live(topic), topic.verify().problems) == (dict.fromkeys("ad", "v"), [])


@pytest.mark.soak
def test_the_appends_that_the_advice_against_another_writer_takes_back_are_named(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other writer commits while an append is about to: what was acknowledged after it goes with it."""
    topic = lake.create_topic("t", key="STRING", value="STRING", partitions=2)
    topic.append([record("a"), record("p", partition=1)])

    def foreign() -> None:
        rows = lake.spark.read.table(topic.bronze.sql()).filter("partition = 1 AND segment >= 0 AND control IS NULL")
        rows.withColumns({"offset": F.col("offset") + 50, "batch": F.lit(None).cast("string")}).write.format("delta").mode("append").save(
            topic.bronze.path
        )

    with monkeypatch.context() as patch:
        late(patch, guard, "_appended", foreign)
        mine = topic.append([record("mine")])
    assert mine.offsets == {0: (1, 2)}
    named = rf"version 3 \(batch {mine.batch}: up to offset 2 of partition 0\)\. Append their records again"
    with pytest.raises(Damaged, match=rf"RESTORE to version 1\).* takes back appends too: {named}"):
        topic.append([record("n")])
    lake.spark.sql(f"RESTORE TABLE {topic.bronze.sql()} TO VERSION AS OF 1")
    with pytest.raises(Damaged, match=f"restored by hand: version 4 .*It took back appends: {named}"):
        topic.append([record("n")])
    repaired = topic.repair()
    assert mine.batch in repaired.problems[0]
    held = lake.spark.sql(
        f"SELECT key FROM {topic.bronze.sql()} VERSION AS OF 3 WHERE batch = '{mine.batch}' AND control IS NULL"
    ).collect()
    assert [row["key"] for row in held] == ["mine"]


@pytest.mark.soak
def test_readers_of_what_a_hole_took_go_back_to_it(lake: Lake) -> None:
    """Rows deleted by hand: a reader that has them differs from the latest table, which is computed without them."""
    topic = lake.create_topic("t", key="STRING", value="STRING", partitions=2)
    topic.append([record("a"), record("p", partition=1)])
    before = topic.position()
    topic.append([record("k", "1"), record("p", "w", partition=1)])
    topic.append([record("k", "2"), record("z")])
    topic.merge()
    behind, reader = topic.read(since=before), topic.position()
    assert behind.records.count() == 4
    lake.spark.sql(f"DELETE FROM {topic.bronze.sql()} WHERE partition = 0 AND offset = 2 AND control IS NULL")
    repaired = topic.repair()
    assert repaired.done[:2] == ["epoch 1 begins at offset 2 of partition 0", "epoch 1 begins at offset 2 of partition 1"]
    assert live(topic) == {"a": "v", "k": "1", "p": "w", "z": "v"}
    assert topic.validate(before).answer == "VALID", "it has read nothing that is gone"
    found = topic.validate(reader)
    assert (found.answer, found.position.offsets) == ("DIVERGING", {0: 2, 1: 2})
    with pytest.raises(FencedEpoch):
        topic.read(since=reader)
    assert [row["key"] for row in topic.read(since=found.position).records.collect()] == ["z"]
    topic.append([record("n")])
    topic.merge()
    assert (topic.validate(topic.position()).answer, topic.verify().problems) == ("VALID", [])
