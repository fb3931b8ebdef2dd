"""Kept means kept: time passes, old files are removed, and what has a name that is kept can still be read and restored.

Delta goes by the times of files and commits, so these are set back; lakelog goes by its clock.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import Row

from lakelog import Lake
from lakelog.delta import table_properties, tables
from lakelog.errors import NotFound
from lakelog.latest import silver
from lakelog.model.snapshot_id import SnapshotId
from lakelog.snapshots import restore
from lakelog.snapshots.keeping import SLACK_MS, needed_ms
from lakelog.snapshots.registry import Entry
from tests.snapshots.test_snapshots import DAY, live, put, topic
from tests.tables import commits, version_of

if TYPE_CHECKING:
    from lakelog import Topic
    from tests.conftest import Clock


def data_files(topic: Topic) -> set[str]:
    """Silver's data files, live and old."""
    return {str(path.name) for path in Path(topic.silver.path or "").rglob("*.parquet") if "_delta_log" not in path.parts}


def aged(lake: Lake, clock: Clock, days: int, *, checkpoints: bool = False) -> Lake:
    """So many days pass: a copy of the lake in which every file, commit and removal is that much older (Delta remembers what it read by path).

    ``checkpoints``: there may be some; the times of the removals in them stay.
    """
    clock.tick(days * DAY)
    later = shutil.copytree(lake.root, f"{lake.root}-later")
    for folder, _, names in os.walk(later):
        for path in (Path(folder, name) for name in names):
            if path.match(".*.json.crc"):
                path.unlink()  # of a text that is changed
                continue
            seen = path.stat().st_mtime - days * 86_400
            if path.suffix == ".json" and path.parent.name == "_delta_log":
                text = re.sub(
                    r'"deletionTimestamp":(\d+)', lambda found: f'"deletionTimestamp":{int(found[1]) - days * DAY}', path.read_text()
                )
                path.write_text(text)
            os.utime(path, (seen, seen))
        assert checkpoints or not any(name.endswith(".checkpoint.parquet") for name in names), "removals stand in checkpoints too"
    return Lake(lake.spark, str(later), clock=clock)


def live_files(topic: Topic, first: int) -> set[str]:
    """The data files that silver's versions from ``first`` on are made of."""
    last = version_of(Path(topic.silver.path or ""))
    return {
        Path(uri).name for version in range(first, last + 1) for uri in DeltaTable(topic.silver.path or "", version=version).file_uris()
    }


def operations(topic: Topic) -> list[str]:
    """What was done to silver, as Delta names it, oldest first."""
    return [commit["operation"] for commit in commits(Path(topic.silver.path or ""))]


def retentions(topic: Topic) -> list[str]:
    """How long silver keeps its commits, and the files that were removed from it."""
    stored = table_properties.read(topic.spark, topic.silver) or {}
    return [stored[name] for name in ("delta.logRetentionDuration", "delta.deletedFileRetentionDuration")]


def test_removed_files_are_needed_for_as_long_as_a_version_is_old_and_is_kept_on() -> None:
    now = 1000 * DAY

    def entry(version: int, kept_until: int | None, copy: str | None = None) -> Entry:
        return Entry("t", "u", "s", SnapshotId(0, {0: 1}), version, 0, "", 0, kept_until, None, copy)

    def needed(*held: Entry) -> int:
        return needed_ms({3: 30 * DAY, 4: 5 * DAY}, held, now=now)

    assert needed() == needed(entry(3, now + 60 * DAY, copy="snapshot_1")) == 0
    assert needed(entry(3, now + 60 * DAY - SLACK_MS)) == 90 * DAY, "in whole days, and time for a restore to end"
    assert needed(entry(3, now + 60 * DAY - SLACK_MS + 1)) == needed(entry(3, now + 60 * DAY)) == 91 * DAY
    assert needed(entry(3, now - 20 * DAY)) == needed(entry(3, None)) == 31 * DAY, "its time is over, and nobody has removed it"
    assert needed(entry(9, now + 60 * DAY)) == 61 * DAY, "a version that is made just now has no age"
    assert (
        needed(entry(4, now + 60 * DAY), entry(3, now + 9 * DAY)) == 66 * DAY == needed(entry(3, now + 9 * DAY), entry(4, now + 60 * DAY))
    )
    assert needed(entry(3, now + silver.AGES_MS)) == silver.AGES_MS


@pytest.mark.long
def test_a_version_that_is_kept_outlives_a_retention_lowered_by_hand(lake: Lake, clock: Clock) -> None:
    orders = topic(lake, **{"snapshot.retention.ms": 40 * DAY})
    put(orders, a="1")
    orders.snapshot("kept", keep="45 days")
    put(orders, a="2")
    version = orders.merge().version
    put(orders, a="3")
    orders.merge()
    assert retentions(orders) == [f"interval {46 * 86_400} seconds"] * 2
    lake = aged(lake, clock, 30)
    orders = lake.topic("t")
    assert orders.snapshot("old", at=version, keep="60 days").version == version
    assert retentions(orders) == [f"interval {91 * 86_400} seconds"] * 2, "30 days of age, and 60 to come"

    short = "'delta.logRetentionDuration' = 'interval 1 days', 'delta.deletedFileRetentionDuration' = 'interval 1 days'"
    lake.spark.sql(f"ALTER TABLE {orders.silver.sql()} SET TBLPROPERTIES ({short})")
    assert (live(orders, "kept"), live(orders, "old")) == ({"a": "1"}, {"a": "2"}), "whatever Delta's retention is"
    before = data_files(orders)
    done = orders.maintain()
    assert (done.promoted, done.expired) == ([], [])
    assert retentions(orders) == [f"interval {91 * 86_400} seconds"] * 2, "raised before anything is vacuumed"
    lake.spark.sql(f"VACUUM {orders.silver.sql()}")
    assert data_files(orders) >= before
    assert [(one.name, one.form) for one in orders.snapshots()] == [("kept", "version"), ("old", "version")]
    back = orders.restore("kept")
    assert (back.epoch, live(orders), live(orders, "old")) == (1, {"a": "1"}, {"a": "2"})
    assert orders.verify().problems == []


@pytest.mark.long
def test_what_is_kept_outlives_vacuum_and_what_is_not_is_gone(lake: Lake, clock: Clock) -> None:
    orders = topic(lake, **{"snapshot.retention.ms": DAY})
    put(orders, a="1")
    orders.snapshot("kept", keep="90 days")
    put(orders, a="2")
    version = orders.snapshot().version
    put(orders, a="3")
    orders.snapshot("brief", keep="2 days")
    put(orders, a="4")
    orders.snapshot()
    put(orders, a="5")
    orders.merge()
    lake = aged(lake, clock, 30)
    orders = lake.topic("t")
    # Whoever runs a VACUUM of their own: the table's retention covers the name that is kept longest.
    lake.spark.sql(f"VACUUM {orders.silver.sql()}")
    assert live(orders, "kept") == {"a": "1"}

    before, newest = data_files(orders), version_of(Path(orders.silver.path or ""))
    done = orders.maintain()
    assert sorted(done.expired) == ["0@2,0", "brief"]
    assert sorted(done.promoted) == ["0@4,0", "kept"], "what outlives the retention gets a table of its own; the newest stays in any case"
    assert data_files(orders) == live_files(orders, newest), "of silver itself nothing older than its retention is left"
    assert not before <= data_files(orders)
    assert retentions(orders) == ["interval 86400 seconds"] * 2
    shown = orders.describe_snapshot("kept")
    assert (shown.form, shown.table is not None) == ("table", True)
    assert [one.id for one in orders.snapshots()] == ["0@1,0", "0@4,0"]
    assert (live(orders, "kept"), live(orders, "0@4,0"), live(orders)) == ({"a": "1"}, {"a": "4"}, {"a": "5"})
    assert {row["value"] for row in lake.sql("SELECT value FROM t", at="kept").collect()} == {"1"}
    assert [row["change"] for row in orders.diff("kept").collect()] == ["changed"]
    for gone in ("0@2,0", "brief", version):
        with pytest.raises(NotFound) as missing:
            orders.latest(gone).collect()
        assert missing.value.name == "SNAPSHOT_NOT_FOUND"
    again = orders.maintain()
    assert (again.expired, again.promoted, again.dropped) == ([], [], [])

    orders.restore("kept")
    assert (live(orders), orders.status().epoch, orders.verify().problems) == ({"a": "1"}, 1, [])
    put(orders, b="1")
    orders.merge()
    assert live(orders) == {"a": "1", "b": "1"}

    def copies() -> list[str]:
        return [name for name in os.listdir(Path(lake.root, "t")) if name.startswith("snapshot_")]

    orders.delete_snapshot("kept")
    assert len(copies()) == 2
    done = orders.maintain()
    assert (done.expired, len(done.dropped), copies()) == (["0@4,0"], 2, []), "that one is old, and not on the history since the restore"


@pytest.mark.long
def test_a_restore_to_a_state_of_a_shorter_retention_loses_no_commit_that_a_kept_snapshot_needs(lake: Lake, clock: Clock) -> None:
    """Delta removes the commits before an old checkpoint when it writes another one, by the retention that the table has then."""
    orders = topic(lake, **{"snapshot.retention.ms": DAY})
    put(orders, a="1")
    early = orders.merge().version
    put(orders, a="2")
    kept = orders.snapshot("kept", keep="90 days").version
    while version_of(Path(orders.silver.path or "")) < 11:
        put(orders, b="1")
        orders.merge()
    lake = aged(lake, clock, 30, checkpoints=True)
    orders = lake.topic("t")
    orders.restore(early)
    assert (Path(orders.silver.path or "") / "_delta_log" / f"{kept:020}.json").exists()
    assert (live(orders), live(orders, "kept")) == ({"a": "1"}, {"a": "2"})
    assert retentions(orders) == [f"interval {91 * 86_400} seconds"] * 2
    # The state that is named is itself of before it was kept for longer.
    orders.restore("kept")
    assert (live(orders), live(orders, "kept"), orders.verify().problems) == ({"a": "2"}, {"a": "2"}, [])
    assert "RESTORE" not in operations(orders)


@pytest.mark.soak
def test_where_rows_are_written_anew_columns_and_types_are_those_that_the_topic_has_now(lake: Lake) -> None:
    config = {"snapshot.retention.ms": 1, "deletion.vectors": True}
    orders = lake.create_topic("t", key="STRING", value="n INT", partitions=1, config=config)
    orders.append([{"key": "a", "value": {"n": 1}}, {"key": "b", "value": {"n": 1}}])
    orders.merge()
    orders.append([{"key": "b", "value": {"n": 2}}])
    early = orders.merge().version
    orders.snapshot("kept", keep="90 days")
    orders.configure(value="n BIGINT, m STRING")
    orders.append([{"key": "a", "value": {"n": 2**40, "m": "x"}}])
    orders.merge()
    orders.restore(early)
    assert "RESTORE" not in operations(orders)
    assert orders.describe().value == "struct<n:bigint,m:string>"
    assert sorted(tuple(row)[:3] for row in orders.latest().collect()) == [("a", 1, None), ("b", 2, None)]
    assert sorted(row["n"] for row in orders.latest("kept").collect()) == [1, 2]
    assert (orders.requeue().records, orders.merge().updated) == (1, 1)
    assert sorted(tuple(row)[:3] for row in orders.latest().collect()) == [("a", 2**40, "x"), ("b", 2, None)]
    assert (tables.partition_columns(lake.spark, orders.silver), orders.verify().problems) == (("bucket",), [])


@pytest.mark.soak
def test_a_restore_rewrites_no_rows_where_nothing_that_is_kept_is_older_than_the_retention_of_the_state(lake: Lake) -> None:
    orders = topic(lake)
    put(orders, a="1")
    orders.snapshot("kept", keep="90 days")
    put(orders, b="1")
    orders.merge()
    path = Path(orders.silver.path or "")
    before = set(path.glob("bucket=0/*.parquet"))
    orders.restore("kept")
    assert (live(orders), set(path.glob("bucket=0/*.parquet"))) == ({"a": "1"}, before)
    assert operations(orders).count("RESTORE") == 1


@pytest.mark.soak
def test_where_a_restore_was_cut_off_after_a_restore_of_delta_the_retention_is_raised_before_rows_are_written_anew(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As lakelog did it before it looked at the retention of the state."""
    orders = topic(lake, **{"snapshot.retention.ms": 1})
    put(orders, a="1")
    early = orders.merge().version
    put(orders, a="2")
    orders.snapshot("kept", keep="90 days")

    def cut_off(*given: Any, **more: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(restore, "carry_out", cut_off)
        orders.restore(early)
    lake.spark.sql(f"RESTORE TABLE {orders.silver.sql()} TO VERSION AS OF {early}").collect()
    assert retentions(orders) == ["interval 1 seconds"] * 2
    put(orders, b="1")
    assert operations(orders)[-4:] == ["RESTORE", "SET TBLPROPERTIES", "WRITE", "MERGE"]
    assert retentions(orders) == [f"interval {91 * 86_400} seconds"] * 2
    orders.merge()
    assert (live(orders), live(orders, "kept"), orders.verify().problems) == ({"a": "1", "b": "1"}, {"a": "2"}, [])


def test_the_retention_that_a_version_had_is_what_the_history_says_or_none() -> None:
    def stated(days: int, names: tuple[str, ...] = silver.RETENTIONS) -> dict[str, str]:
        return {"properties": json.dumps(dict.fromkeys(names, f"interval {days * 86_400} seconds"))}

    told: list[tuple[str, dict[str, str]]] = [
        ("CREATE TABLE AS SELECT", stated(1)),
        ("MERGE", {}),
        ("SET TBLPROPERTIES", stated(91)),
        ("SET TBLPROPERTIES", {"properties": '{"delta.enableTypeWidening":"true"}'}),
        ("RESTORE", {"version": "1"}),
        ("SET TBLPROPERTIES", stated(2)),
        ("UNSET TBLPROPERTIES", {"properties": json.dumps(list(silver.RETENTIONS))}),
        ("SET TBLPROPERTIES", stated(3)),
        ("SET TBLPROPERTIES", stated(4, silver.RETENTIONS[:1])),
        ("SET TBLPROPERTIES", stated(5)),
        ("SOMETHING NEW", {}),
        ("OPTIMIZE", {}),
    ]
    history = [Row(version=version, operation=one, operationParameters=said) for version, (one, said) in enumerate(told)][::-1]
    now = json.loads(stated(7)["properties"])
    days = [silver.retention_at(history, version, now) // DAY for version in range(len(told))]
    assert days == [1, 1, 91, 91, 1, 2, 0, 3, 0, 5, 7, 7], "of what nobody knows only the present is known"
    later = history[:-5]
    assert [silver.retention_at(later, version, now) // DAY for version in (4, 5, 11)] == [0, 2, 7], "what is before is not told any more"
    restored = [Row(version=12, operation="RESTORE", operationParameters={"version": "4"}), *later]
    assert silver.retention_at([Row(version=13, operation="SET TBLPROPERTIES", operationParameters=stated(8)), *restored], 12, now) == 0
