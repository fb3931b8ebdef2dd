"""A key erased: from log, latest table, quarantine, snapshots and verdicts; its old records do not come back; a receipt says what still holds it."""

from __future__ import annotations

import datetime
import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from pyspark.sql.types import StringType

from lakelog import Lake, Topic
from lakelog.delta import tables
from lakelog.errors import GateFailed, InvalidRequest, OffsetOutOfRange, Refused
from lakelog.latest import erased
from lakelog.model.names import TableRef
from lakelog.operations import quotes
from lakelog.running.run import run
from tests.conftest import Clock
from tests.quality.folders import rows, stock, write
from tests.snapshots.test_kept import aged
from tests.tables import versions

DAY = 86_400_000


def people(topic: Topic, at: Any = None) -> dict[str, str]:
    return {row["key"]: row["mail"] for row in topic.latest(at=at).collect()}


def append(topic: Topic, **mails: str | None) -> None:
    topic.append([{"key": key, "value": None if mail is None else {"mail": mail}, "partition": 0} for key, mail in mails.items()])


@pytest.mark.long
def test_an_erased_key_is_gone_and_its_old_records_do_not_come_back(lake: Lake, clock: Clock, tmp_path: Path) -> None:
    topic = lake.create_topic("people", key="STRING", value="mail STRING", partitions=2)
    append(topic, ann="a1", bob="b1", eve="e1")
    first, early = topic.merge().version, topic.position()
    topic.export(tmp_path / "export")
    shutil.copytree(tmp_path / "export", tmp_path / "moved")
    topic.snapshot("before", keep="90 days")
    append(topic, ann="a2", kim="k1")
    topic.merge()
    append(topic, ann="a3", bob="b2")
    assert topic.read(since=early).records.count() == 4

    ends, version = topic.ends(), topic.status().bronze_version
    planned = topic.erase("ann", dry_run=True)
    assert planned.removed == {"log": 3, "silver": 1, "quarantine": 0, "verdicts": 0, "runs": 0, "exports": 1}
    assert (planned.snapshots, planned.was_live, planned.erased_at) == (["before"], True, None)
    assert (topic.status().bronze_version, people(topic)["ann"]) == (version, "a2"), "a dry run changes nothing"

    done = topic.erase("ann")
    assert (done.removed, done.snapshots, done.complete) == (planned.removed, ["before"], False)
    assert {one.where.split(" of ")[0] for one in done.held} == {"old files", "commit files"}, "in silver's it is the least key of a file"
    assert "ann" in commit_files(topic, "silver") and "ann" not in commit_files(topic, "bronze")
    assert all(one.files and one.until is not None for one in done.held)
    assert "ann" not in str(done)
    assert people(topic) == {"bob": "b1", "eve": "e1", "kim": "k1"}
    assert people(topic, at="before") == {"bob": "b1", "eve": "e1"}, "a kept snapshot is a table of its own, without it"
    assert topic.describe_snapshot("before").form == "table"
    assert topic.ends() == ends
    topic.merge()
    assert people(topic) == {"bob": "b2", "eve": "e1", "kim": "k1"}
    assert topic.verify().problems == []
    with pytest.raises(OffsetOutOfRange):
        topic.read(since=early)

    again = topic.erase("ann")
    assert set(again.removed.values()) == {0}
    assert not again.complete, "the files are there still"
    append(topic, ann="new")
    topic.merge()
    assert people(topic)["ann"] == "new", "a record that is appended later is a new one"

    topic.restore(first)
    assert people(topic) == {"bob": "b1", "eve": "e1"}, "silver's old version held it"
    assert topic.verify().problems == []
    copy = lake.import_topic(tmp_path / "moved", name="copy")
    assert people(copy) == {"bob": "b1", "eve": "e1"}, "so did the copy of an export, which the lake does not know of"
    assert copy.verify().problems == []

    aside = topic.erase("kim")
    assert aside.removed == {"log": 0, "silver": 0, "quarantine": 1, "verdicts": 0, "runs": 0, "exports": 0}, "the restore had put it there"
    assert topic.quarantined().filter("key = 'kim'").isEmpty()
    assert "kim" not in commit_files(topic, "quarantine"), "its statistics are of places and times alone"
    nobody = topic.erase("nobody")
    assert (set(nobody.removed.values()), nobody.complete) == ({0}, True)
    assert len(erased.entries(topic.spark, topic.root, topic.uuid)) == 3
    with pytest.raises(InvalidRequest):
        topic.erase(None)


def commit_files(topic: Topic, table: str) -> str:
    return "".join(file.read_text(encoding="utf-8") for file in Path(topic.root, topic.name, table, "_delta_log").glob("*.json"))


@pytest.mark.long
def test_verdicts_and_reports_of_runs_quote_an_erased_key_no_more(lake: Lake, clock: Clock, tmp_path: Path) -> None:
    """In lists of keys, and in what checks observed and errors said: there it cannot be searched, so these texts go as a whole."""
    suites = write(
        tmp_path / "suites", "people", append=[stock("expect_groups_to_be_unique", columns=["key"])],
        merge=[stock("expect_column_values_to_not_be_null", column="mail"), rows("mail_there", "mail IS NOT NULL")],
    )  # fmt: skip
    topic = lake.create_topic("people", key="STRING", value="mail STRING", config={"quality.suites": suites})
    topic.append([{"key": "bob", "value": {"mail": "b1"}}])
    topic.merge()
    with pytest.raises(GateFailed):
        topic.append([{"key": "ann@example.org", "value": {"mail": mail}} for mail in ("a1", "a2")])
    topic.append([{"key": "ann@example.org", "value": {"mail": None}}])
    clock.tick(1)
    assert run(lake, "people").exit_code == GateFailed.exit_code
    runs = TableRef.of(lake.root, "_lakelog", "runs")

    def texts() -> str:
        reports = [row["report"] for row in tables.read(lake.spark, runs).collect()]
        return "".join([*reports, *(verdict.to_json() for verdict in topic.verdicts())])

    assert texts().count("ann@example.org") >= 3
    planned = topic.erase("ann@example.org", dry_run=True)
    assert (planned.removed["log"], planned.removed["runs"]) == (1, 1) and planned.removed["verdicts"] >= 2
    done = topic.erase("ann@example.org")
    assert done.removed == planned.removed
    assert "ann@example.org" not in texts()
    assert "ann@example.org" not in "".join(
        file.read_text(encoding="utf-8") for file in Path(lake.root, "_lakelog", "verdicts", "_delta_log").glob("*.json")
    )
    assert {one.where for one in done.held} >= {"old files of the lake's verdicts", "old files of the lake's runs"}
    failed = next(one for one in topic.verdicts() if one.door == "merge" and not one.ok)
    assert any(one.failing == 1 and not one.observed for one in failed.findings), "its figures stay"
    again = topic.erase("ann@example.org")
    assert set(again.removed.values()) == {0}
    assert {one.where for one in again.held} >= {"old files of the lake's verdicts", "old files of the lake's runs"}, "they are there still"


def test_of_a_report_only_texts_that_may_quote_a_record_go() -> None:
    finding = {"type": "expect_groups_to_be_unique", "observed": '1 groups have several rows: {"key":"ann"}', "keys": ["ann", "bob"]}
    counted = {"type": "expect_rows_to_satisfy", "observed": "1 of 3 break it: 66.6667% satisfy it, 90.0000% must", "keys": []}
    error = {"error": "GATE_FAILED", "message": "people: … Keys: ann.", "retry": False, "keys": ["ann"], "run": "r1"}
    told = {"steps": [{"report": {"findings": [finding, counted]}}], "error": error, "counts": {"merged": 3}}
    left = json.loads(quotes.without(json.dumps(told), lambda text: text == "ann") or "")
    assert left["steps"][0]["report"]["findings"] == [{**finding, "observed": "", "keys": ["bob"]}, counted]
    assert left["error"] == {**error, "message": quotes.REMOVED, "keys": []}
    assert left["counts"] == told["counts"]
    conflict = {"error": {"error": "CONFLICT", "message": "people: other writers were first.", "retry": True}}
    assert quotes.without(json.dumps(conflict), lambda text: True) is None
    assert quotes.without(json.dumps(left), lambda text: text == "ann") is None, "again, and nothing changes"


@pytest.mark.long
def test_a_file_that_a_writer_left_unfinished_is_told_and_does_no_harm(lake: Lake) -> None:
    """As a merge leaves it that was refused while it wrote: nobody knows what it holds."""
    topic = lake.create_topic("people", key="STRING", value="mail STRING")
    append(topic, ann="a1", bob="b1")
    topic.merge()
    Path(topic.silver.path or "", "bucket=0", "part-00000-cut-off.c000.zstd.parquet").write_bytes(b"PAR1")
    clean = topic.erase("nobody")
    assert [(one.where.split(":")[0], one.files) for one in clean.held] == [(f"old files of {topic.silver}", 1)]
    done = topic.erase("ann")
    assert [(one.where.split(":")[0], one.files) for one in done.held if one.where.startswith("old files of " + str(topic.silver))] == [
        (f"old files of {topic.silver}", 2)
    ]
    assert people(topic) == {"bob": "b1"}


@pytest.mark.long
def test_keys_that_differ_by_a_microsecond_are_two(lake: Lake) -> None:
    topic = lake.create_topic("t", key="at TIMESTAMP, by STRING", value="n INT", config={"deletion.vectors": True})
    moment = datetime.datetime(2026, 5, 6, 10, 0, 0, 1, tzinfo=datetime.timezone.utc)
    one, other, nobody = ({"at": at, "by": by} for at, by in ((moment, None), (moment.replace(microsecond=2), None), (moment, "x")))
    topic.append([{"key": key, "value": {"n": n}} for n, key in enumerate((one, other, nobody))])
    version = topic.merge().version
    done = topic.erase(one)
    assert (done.removed["log"], done.removed["silver"]) == (1, 1)
    assert sorted(row["n"] for row in topic.latest().collect()) == [1, 2]
    assert topic.verify().problems == []
    assert topic.snapshot("old", at=version, keep="9 days").created
    assert sorted(row["n"] for row in topic.latest("old").collect()) == [1, 2], "a name that is given later does not bring it back"


def test_a_key_is_erased_in_all_its_spellings_whatever_its_fields_are_called(lake: Lake) -> None:
    """0.0 and -0.0 are one key to the fold, within a STRUCT too; keys without floating numbers keep the digests that they had."""
    topic = lake.create_topic("t", key="`order-id` STRING, `größe` DOUBLE", value="n INT")
    keys = [{"order-id": "a", "größe": size} for size in (-0.0, 0.0, 1.5)]
    topic.append([{"key": key, "value": {"n": n}, "partition": 0} for n, key in enumerate(keys)])
    topic.merge()
    done = topic.erase(keys[1])
    assert (done.removed["log"], done.removed["silver"]) == (2, 1)
    assert [row["n"] for row in topic.latest().collect()] == [2]
    assert not done.complete and {one.files for one in done.held if "bronze" in one.where} == {1}
    assert erased.digest_sql("u", StringType()).startswith("sha2(concat('u ', to_json(struct(key AS key), map(")


@pytest.mark.soak
def test_a_key_is_not_erased_between_a_change_of_the_rule_and_the_rebuild(lake: Lake) -> None:
    """The rebuild needs the whole log, and an erasure leaves none."""
    topic = lake.create_topic("people", key="STRING", value="mail STRING")
    append(topic, ann="a1", bob="b1")
    topic.merge()
    topic.configure({"compaction.strategy": "timestamp"})
    before = versions(lake.root, "people")
    with pytest.raises(Refused, match="under the rule offset, the topic now says timestamp.* merge with rebuild") as refused:
        topic.erase("bob")
    assert (refused.value.name, versions(lake.root, "people")) == ("RULE_CHANGED", before)
    topic.merge(rebuild=True)
    topic.erase("bob")
    assert people(topic) == {"ann": "a1"}


@pytest.mark.long
def test_who_begins_anew_after_an_erasure_of_what_is_not_merged_yet_is_told_to_merge(lake: Lake, tmp_path: Path) -> None:
    topic = lake.create_topic("people", key="STRING", value="mail STRING")
    append(topic, ann="a1", bob="b1")
    topic.merge()
    append(topic, ann="a2", bob="b2")
    topic.erase("ann")
    for begin in (topic.bootstrap, lambda: topic.export(tmp_path / "out")):
        with pytest.raises(OffsetOutOfRange, match=r"\bMerge, "):
            begin()
    topic.merge()
    assert {row["key"]: row["mail"] for row in topic.bootstrap().latest.collect()} == {"bob": "b2"}
    assert topic.export(tmp_path / "out").rows == 1


def files_with(lake: Lake, key: str) -> set[str]:
    """The Parquet files of a lake that hold a record of a key, old ones too, by their table; read without Spark and Delta."""
    found = set()
    for file in Path(lake.root).rglob("*.parquet"):
        if "_delta_log" not in file.parts and "key" in pyarrow.parquet.read_schema(file).names:
            keys = pyarrow.parquet.ParquetFile(file).read(columns=["key"])["key"].to_pylist()
            found |= {file.relative_to(lake.root).parts[1]} if key in keys else set()
    return found


@pytest.mark.long
def test_an_erasure_is_complete_once_the_retention_of_the_old_files_is_over(lake: Lake, clock: Clock) -> None:
    """Of a key that is the edge of no file, so that commit files do not tell it."""
    topic = lake.create_topic("people", key="STRING", value="mail STRING", config={"snapshot.retention.ms": 20 * DAY})
    append(topic, ann="a1", bob="b1", eve="e1")
    older = topic.snapshot()
    append(topic, ann="a2")
    newer = topic.snapshot()
    done = topic.erase("bob")
    times = {days: datetime.datetime.fromtimestamp((clock.now + days * DAY) / 1000, datetime.timezone.utc) for days in (7, 20)}
    told = [(one.where, one.files, one.until) for one in done.held]
    assert told == [
        (f"old files of {topic.bronze}: time travel shows it", 1, times[7]),
        (f"old files of {topic.silver}: time travel shows it", 2, times[20]),
        (f"snapshot {older.id}, silver version {older.version}", None, None),
    ]
    assert (done.complete, done.snapshots, files_with(lake, "bob")) == (False, [newer.id], {"bronze", "silver"})
    erased_at, lake = clock.now, aged(lake, clock, 40)
    assert files_with(lake, "bob") == {"bronze", "silver"}
    topic = lake.topic("people")
    again = topic.erase("bob")
    assert (again.complete, again.held, set(again.removed.values())) == (True, [], {0})
    assert again.erased_at == datetime.datetime.fromtimestamp(erased_at / 1000, datetime.timezone.utc)
    assert files_with(lake, "bob") == set() and files_with(lake, "eve") >= {"bronze", "silver"}
    assert people(topic) == {"ann": "a2", "eve": "e1"}
    assert topic.verify().problems == []
