"""Bad inputs, all of them by one table: the exit code, the error's name, one line on stderr, nothing on stdout, the tables as they were."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakelog import Lake
from lakelog.model.config import SETTINGS
from tests.conftest import Answer
from tests.tables import versions, write

Cli = Callable[..., Answer]


@dataclass(frozen=True)
class Case:
    """A call, where it is made (the folder has a lake, and files), what it is to answer."""

    call: str
    name: str
    code: int
    says: str = ""
    stdin: str = ""


def bad(name: str, code: int, *calls: str | tuple[str, str]) -> list[Case]:
    """Cases with the same answer: calls, or calls with what they say."""
    return [Case(one, name, code) if isinstance(one, str) else Case(one[0], name, code, one[1]) for one in calls]


IN = "--root ./lake"
# Every command that opens a lake, with what it needs.
OPENING = [
    "append orders good.ndjson", "append orders -", "append orders good.ndjson --bulk", "merge orders", "merge orders prices", "sql 'SELECT 1'",
    "latest orders", "latest orders --deleted", "read orders", "status", "status orders", "verify orders", "topic list", "topic describe orders",
    "topic configure orders --unset segment.ms", "topic delete orders --yes", "topic delete orders --dry-run", "lake describe",
    "lake configure --unset log.roll.ms", "snapshot create orders", "snapshot create --all --name a", "snapshot list", "snapshot list orders",
    "snapshot describe orders latest", "snapshot diff orders 0", "snapshot delete orders a --yes", "snapshot export orders ./out",
    "restore orders --to a --yes", "restore orders --to a --dry-run", "restore --all --to a --yes", "maintain orders", "clean orders", "clean orders --dry-run", "quarantine list orders",
    "quarantine requeue orders", "read orders --since start", "read orders --follow", "commit orders billing", "lag", "lag orders",
    "truncate orders --to-snapshot a --yes",
]  # fmt: skip
CREATING = "topic create other"
OF_A_TOPIC = [
    "append {} good.ndjson", "append {} good.csv", "append {} good.parquet", "append {} -", "append {} good.ndjson --bulk", "merge {}", "latest {}",
    "latest {} --deleted", "read {}", "status {}", "verify {}", "topic describe {}", "topic configure {} --unset segment.ms",
    "snapshot create {}", "snapshot list {}", "snapshot describe {} latest", "snapshot diff {} 0", "snapshot delete {} a --yes",
    "snapshot export {} ./out", "restore {} --to a --yes", "maintain {}", "clean {}", "quarantine list {}", "quarantine requeue {}", "read {} --since end",
    "commit {} billing", "lag {}", "truncate {} --to-snapshot a --yes",
]  # fmt: skip

# ---- told without Spark ----

ROOTS: list[Case] = [
    *[case for one in OPENING for case in bad("NOT_A_LAKE", 5, (f"{one} --root ./nowhere", "is not a lake"))],
    *[case for one in [*OPENING, CREATING] for case in bad("NOT_A_LAKE", 2, (f"{one} --root ./afile", "is a file"))],
    *[case for one in [*OPENING, CREATING] for case in bad("NOT_READY", 2, (f"{one} --root s3a://bucket/lake", "hadoop-aws"))],
    *[case for one in [*OPENING, CREATING] for case in bad("INVALID_CONFIG", 2, (f"{one} --root default", "./default"))],
    *[
        case
        for one in ["status", CREATING]
        for case in bad("INVALID_REQUEST", 2, (f"{one} --root 'a lake'", "is no root"), (one, "Which lake?"))
    ],
]
TOPICS = [
    *[case for one in OF_A_TOPIC for case in bad("UNKNOWN_TOPIC", 5, (f"{one.format('order')} {IN}", "Did you mean orders?"))],
    *[case for one in OF_A_TOPIC[5:10] for case in bad("UNKNOWN_TOPIC", 5, (f"{one.format('_lakelog')} {IN}", "Topics: "))],
    *bad("INVALID_TOPIC", 2, *[f"topic create {name} {IN}" for name in ("Orders", "9", "a-b", "a_log", "lakelog_x", "é", "''")]),
]
FLAGS = [
    *bad("INVALID_REQUEST", 2, *[(f"{one} --nope {IN}", "No such option") for one in [*OPENING, CREATING, "doctor", "demo"]]),
    *bad(
        "INVALID_REQUEST", 2, "append", "append orders", "merge", "sql", "latest", "read", "verify", "topic create", "topic describe",
        "topic configure",
        "topic delete", "topic nope", "lake nope", "appendd orders", "lake configure", f"topic configure orders {IN}", "read orders --partition x",
        "read orders --partition -1", "read orders --offset -1", "read orders --limit -1", "latest orders --limit many",
        "append orders good.ndjson --epoch -1", "append orders good.ndjson --chunk 0", "append orders good.ndjson --expected-offset 5",
        "append orders good.ndjson --expected-offset 0:x", "append orders good.ndjson --bulk --token t", "append orders - --bulk",
        "append orders good.ndjson --bulk --epoch 0", "merge orders --max-records 0", "merge orders --expected-version -1",
        "snapshot create", "snapshot create orders --all", "snapshot create --all", "snapshot create --all --name a --at 3",
        "snapshot create orders --name a --keep soon", "snapshot create orders --name a --keep -1", "snapshot diff orders",
        "snapshot describe orders", "snapshot delete orders", "snapshot export orders", "snapshot import", "restore", "restore orders", "restore --all",
        "restore orders --all --to a", "restore orders --to a --log half", "maintain", "clean", "clean orders --max-bytes 0", "clean orders --dry-run --roll", "quarantine list", "quarantine requeue",
        "quarantine requeue orders --partition -1", "quarantine list orders --format tabel", "commit", "commit orders", "truncate orders",
        "snapshot diff orders 0 --format tabel", "read orders --since start --offset 3", "read orders --follow --json",
        "read orders --follow --limit 0", "verify orders --sample much",
        f"append orders - good.ndjson {IN}", f"append orders good.ndjson --problems nowhere/bad.txt {IN}", f"topic create x --partitions many {IN}",
    ),  # fmt: skip
    *bad("INVALID_REQUEST", 2, *[(f"{verb} --format tabel {IN}", "Did you mean table?")
           for verb in ("sql 'SELECT 1'", "latest orders", "read orders")]),
    *[
        case for verb in ("sql 'SELECT 1'", "latest orders") for at in ("to-morrow?", "-1", "1.5", "2999-01-01", "2026-13-01", "''")
        for case in bad("INVALID_REQUEST", 2, (f"{verb} --at {at} {IN}", "--at"))
    ],
    *bad("INVALID_CONFIG", 2, (f"topic create x --config segment.ms {IN}", "NAME=VALUE"), (f"lake configure --config x {IN}", "NAME=VALUE"),
         ("topic list --config nowhere.toml", "cannot be read"), ("status --config good.csv", "is not TOML")),
]  # fmt: skip
FILES = [
    *bad("NOT_FOUND", 5, *[f"append orders {file} {IN}" for file in ("nope.ndjson", "nope.csv", "nope.parquet", "nope.ndjson.gz", "nope*.csv",
                                                                     "good.ndjson nope.ndjson", "nope.ndjson --bulk")]),
    *bad("INVALID_REQUEST", 2, *[f"append orders {file} {IN}" for file in ("afile", "good.ndjson good.csv", "good.ndjson --format cvs",
                                                                           "- --format yaml", "afile --bulk")]),
]  # fmt: skip
SQL = bad(
    "NOT_A_QUERY", 2,
    *[f"sql {shlex.quote(text)} {IN}" for text in (
        "DELETE FROM orders", "UPDATE orders SET a = 1", "INSERT INTO orders VALUES (1)", "MERGE INTO orders USING x ON true WHEN MATCHED THEN DELETE",
        "DROP TABLE orders", "DROP VIEW orders", "CREATE TABLE x (a INT)", "ALTER TABLE orders ADD COLUMN x INT", "TRUNCATE TABLE orders",
        "VACUUM orders", "OPTIMIZE orders", "RESTORE orders TO VERSION AS OF 0", "SET a = 1", "USE x", "CACHE TABLE orders", "BEGIN SELECT 1; END",
        "", " -- nothing", "/* SELECT 1 */", "EXPLAIN DELETE FROM orders", "SELEC 1", "; SELECT 1",
    )],
)  # fmt: skip


def illegal(name: str) -> str:
    """A value that a setting cannot have."""
    return {"compaction.strategy.header": "", "compaction.strategy.column": "", "quality.suites": ""}.get(name, "no such value")


CHECKED = [setting for setting in SETTINGS.values() if illegal(setting.name)]
CONFIG = [
    *[case for setting in CHECKED for verb in ("create x", "configure orders") if not (setting.fixed and verb.startswith("conf"))
      for case in bad("INVALID_CONFIG", 2, (f"topic {verb} --config '{setting.name}={illegal(setting.name)}' {IN}", "must be"))],
    *[case for setting in CHECKED if not setting.fixed
      for case in bad("INVALID_CONFIG", 2, (f"lake configure --config '{setting.lake_name}={illegal(setting.name)}' {IN}", "must be"))],
    *[case for setting in SETTINGS.values() if setting.broker and setting.broker != setting.name
      for case in bad("INVALID_CONFIG", 2, (f"lake configure --config {setting.name}=1 {IN}", f"it is called {setting.broker}."))],
    *bad("INVALID_CONFIG", 2, (f"topic create x --config segment.mz=1 {IN}", "segment.ms"),
         (f"lake configure --config log.rol.ms=1 {IN}", "log.roll.ms")),
]  # fmt: skip
WITHOUT_SPARK = [*ROOTS, *TOPICS, *FLAGS, *FILES, *SQL, *CONFIG]

# ---- told by Spark, on a lake that stays as it is ----

RECORDS = [
    ("{broken", "INVALID_RECORD"), ("[1]", "INVALID_RECORD"), ("7", "INVALID_RECORD"), ('{"value": "1"}', "INVALID_RECORD"),
    ('{"key": null}', "INVALID_RECORD"), ('{"key": 5}', "INVALID_RECORD"), ('{"key": "a", "value": 1}', "INVALID_RECORD"),
    ('{"key": "a", "valu": "1"}', "INVALID_RECORD"), ('{"key": "a", "headers": {}}', "INVALID_RECORD"),
    ('{"key": "a", "partition": 1}', "INVALID_RECORD"), ('{"key": "a", "tombstone": "yes"}', "INVALID_RECORD"),
    ('{"key": "a", "timestamp": "soon"}', "INVALID_TIMESTAMP"), ('{"key": "a", "expected_offset": -2}', "INVALID_REQUEST"),
]  # fmt: skip
BY_SPARK = [
    *[Case(f"append orders - {IN}", name, 2, "standard input" if name.startswith("INVALID_R") and "REQ" not in name else "", line + "\n")
      for line, name in RECORDS],
    *bad("INVALID_RECORD", 2, (f"append orders bad.csv {IN}", "bad.csv"), (f"append orders bad.ndjson --bulk {IN}", "line 2"),
         (f"append orders bad.ndjson --problems all.txt {IN}", "all.txt")),
    *bad("INVALID_REQUEST", 2, (f"append orders good.parquet {IN}", "broken"), (f"append orders unknown.csv {IN}", "Did you mean value?"),
         (f"append orders good.ndjson --expected-offset 7:0 {IN}", "partition 7"),
         (f"append orders good.ndjson --expected-offset 0:-2 {IN}", "-1 is unconditional"),
         (f"append orders good.ndjson --epoch 9 {IN}", "beyond the topic's epoch"), (f"append orders good.ndjson --token '' {IN}", "A token is"),
         (f"read orders --partition 9 {IN}", "partitions are 0 to 0"), (f"sql 'SELECT 1' --at 0 {IN}", "every topic counts its own versions")),
    *bad("EXPECTED_OFFSET_MISMATCH", 4, (f"append orders good.ndjson --expected-offset 0:9 {IN}", "the log ends at 1")),
    *bad("VERSION_MISMATCH", 4, f"merge orders --expected-version 9 {IN}"),
    *bad("RULE_CHANGED", 4, (f"merge changed {IN}", "`lakelog merge changed --rebuild`"), (f"merge orders changed {IN}", "merge changed --rebuild")),
    *bad("DAMAGED", 70, f"latest hurt {IN}", f"latest hurt --deleted {IN}", f"sql 'SELECT * FROM hurt' {IN}", f"merge hurt {IN}", f"snapshot create hurt {IN}"),
    *bad("SNAPSHOT_NOT_FOUND", 5, f"latest orders --at 99 {IN}", f"latest orders --at 1999-01-01 {IN}", f"latest orders --deleted --at 99 {IN}",
         *[(f"{verb} {IN}", "snapshot") for verb in (
             "latest orders --at a", "sql 'SELECT * FROM orders' --at a", "snapshot describe orders a", "snapshot delete orders a --yes",
             "snapshot export orders ./out --snapshot a", "restore orders --to a --yes", "restore orders --to a --dry-run",
             "restore --all --to a --yes", "truncate orders --to-snapshot a --yes", "snapshot diff orders a", "snapshot diff orders 0 a")]),
    *bad("OFFSET_OUT_OF_RANGE", 5, (f"read orders --offset 9 {IN}", "[0, 1)")),
    *bad("UNKNOWN_TABLE", 5, (f"sql 'SELECT * FROM order' {IN}", "orders_deleted"), (f"sql 'DESCRIBE nowhere' {IN}", "Views: ")),
    *bad("UNKNOWN_TOPIC", 5, (f"topic delete order --yes {IN}", "Did you mean orders?"), (f"merge orders order {IN}", "Did you mean orders?")),
    *bad("INVALID_QUERY", 2, f"sql 'SELECT nope FROM orders' {IN}", f"sql 'SELECT 1/0' {IN}", f"sql 'SELECT FROM' {IN}",
         (f"sql 'SELECT 1 AS a, 2 AS a' --format json {IN}", "called a"), (f"sql 'SELECT 1 AS a, 2 AS a' --json {IN}", "called a"),
         f"sql \"SELECT named_struct('a', 1, 'a', 2) AS s\" --format json {IN}", f"sql \"SELECT CAST('x' AS INT)\" {IN}"),
    *bad("TOPIC_ALREADY_EXISTS", 2, (f"topic create orders {IN}", "Choose another name.")),
    *bad("INVALID_CONFIG", 2, *[f"topic create x {shape} {IN}" for shape in (
        "--partitions 0", "--partitions 10001", "--key NOPE", "--key 'MAP<STRING,INT>'", "--value 'a INT, A INT'", "--value 'a NOPE'",
        "--key 'key INT'",         "--key 'a INT' --value 'a INT'", "--config compaction.strategy=column",
        "--config compaction.strategy=column --config compaction.strategy.column=a",
        "--config compaction.strategy=header --config compaction.header.required=true")]),
    *bad("INVALID_CONFIG", 2, f"topic configure orders --value INT {IN}", f"topic configure orders --config silver.buckets=2 {IN}",
         f"topic configure orders --config compaction.strategy=column {IN}",
         (f"lake configure --config log.cleaner.compaction.strategy=column {IN}", "")),
    *bad("INVALID_REQUEST", 2, (f"topic delete orders {IN}", "--yes"),
         (f"truncate orders --to-snapshot latest {IN}", "--yes"), f"read orders --since '{{broken' {IN}", f"commit orders billing soon? {IN}",
         f"commit orders '' {IN}", f"verify orders --sample 0 {IN}", f"verify orders --sample 2 {IN}"),
    *bad("NOT_AN_EXPORT", 5, f"snapshot import ./lake/orders {IN}", f"snapshot import ./nowhere {IN}"),
    *bad("NOT_EMPTY", 2, f"snapshot export orders ./lake {IN}"),
    *bad("INVALID_SNAPSHOT_NAME", 2, *[f"snapshot create orders --name {name} {IN}" for name in ("latest", "now", "7days", "a@b", "''")]),
]  # fmt: skip


@pytest.fixture(scope="module")
def place(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a lake (orders with one record, prices, a topic whose rule was changed, a damaged one) and files of all sorts."""
    folder = tmp_path_factory.mktemp("bad")
    lake = Lake(spark, str(folder / "lake"))
    for name in ("orders", "prices", "changed", "hurt"):
        topic = lake.create_topic(name, key="STRING", value="STRING")
        if name != "prices":
            topic.append([{"key": "a", "value": "1"}])
            topic.merge()
    lake.topic("changed").configure({"compaction.strategy": "timestamp"})
    spark.sql(f"DELETE FROM delta.`{folder}/lake/hurt/silver`")
    write(folder / "good.ndjson", '{"key": "b", "value": "2"}')
    write(folder / "bad.ndjson", '{"key": "b", "value": "2"}', '{"value": "2"}')
    write(folder / "good.csv", "key,value", "b,2")
    write(folder / "bad.csv", "key,value", "b,2,3")
    write(folder / "unknown.csv", "key,valu", "b,2")
    write(folder / "good.parquet", "not at all")
    write(folder / "afile", "x")
    return folder


@pytest.fixture
def inside(place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """In the folder; afterwards the lake's tables, and what else is there, must be as they were."""
    monkeypatch.chdir(place)
    state = tables(place)
    yield place
    assert tables(place) == state
    (place / "all.txt").unlink(missing_ok=True)


def tables(place: Path) -> tuple[object, ...]:
    """Every table's version, and what lies beside."""
    lake = place / "lake"
    return (
        [(topic.name, versions(str(lake), topic.name)) for topic in sorted(lake.iterdir())],
        sorted(entry.name for entry in place.iterdir() if entry.name != "all.txt"),
    )


def check(case: Case, cli: Cli) -> None:
    answer = cli(case.call, case.stdin)
    lines = answer.err.splitlines()

    assert answer.code == case.code, answer
    assert (
        answer.out == "" or case.call.startswith(("merge orders changed", "merge orders order", "verify", "sql")) or "--json" in case.call
    ), answer
    assert [line.startswith(f"Error ({case.name}): ") for line in lines] == [True], answer
    assert case.says in answer.err
    assert "Traceback" not in answer.err and "\tat " not in answer.err
    assert len(answer.err) < 1200
    if "--json" in case.call:
        assert json.loads(answer.out)["error"] == case.name


def test_the_table_is_long_and_has_no_case_twice() -> None:
    calls = [(case.call, case.stdin) for case in [*WITHOUT_SPARK, *BY_SPARK]]
    assert len(calls) == len(set(calls))
    assert len(calls) > 300


@pytest.mark.parametrize("group", ["ROOTS", "TOPICS", "FLAGS", "FILES", "SQL", "CONFIG"])
def test_what_needs_no_spark(group: str, inside: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    from lakelog.terminal import settings

    monkeypatch.setattr(settings, "local_session", lambda **_: pytest.fail("Spark was asked for"))
    for case in globals()[group]:
        check(case, cli)


@pytest.mark.parametrize("case", BY_SPARK, ids=[f"{case.name} {case.call} {case.stdin.strip()}".strip() for case in BY_SPARK])
def test_what_spark_finds(case: Case, inside: Path, cli: Cli) -> None:
    check(case, cli)


def test_verify_reports_what_is_wrong_with_a_damaged_topic(inside: Path, cli: Cli) -> None:
    answer = cli(f"verify hurt {IN}")
    assert answer.code == 70
    assert "1 problem" in answer.out and "the control rows of silver are not as lakelog left them" in answer.out


def test_every_bad_record_is_listed_in_a_file_with_its_place(place: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    write(place / "worse.ndjson", *['{"key": "b", "value": "2"}', "{}"] * 30)
    answer = cli(f"append orders worse.ndjson --problems all.txt --json {IN}")
    told, listed = json.loads(answer.out), (place / "all.txt").read_text().splitlines()

    assert (answer.code, told["count"], len(told["problems"]), len(told["records"])) == (2, 30, 20, 20)
    assert len(listed) == 30
    assert listed[29] == f"{place}/worse.ndjson, line 60: has no key"
    assert "Traceback" not in answer.err
    assert cli(f"append orders - --problems all.txt {IN}", "{}\n").code == 2
    assert (place / "all.txt").read_text() == "standard input, line 1: has no key\n"
    told = json.loads(cli(f"append orders - --json {IN}", "{}\n").out)
    assert (told["problems"][0]["file"], told["problems"][0]["line"]) == ("standard input", 1)

    # A hint within the problem of a record speaks the command line's words, wherever it is read.
    (place / "latin.csv").write_bytes("key,value\na,1\nb,é\n".encode("cp1252"))
    hinted = cli(f"append orders latin.csv --problems all.txt --json {IN}")
    reason = "is not utf-8 text: name the encoding (--encoding cp1252, for example)"
    told = json.loads(hinted.out)
    assert (told["problems"][0]["reason"], reason in told["message"]) == (reason, True)
    assert (place / "all.txt").read_text() == f"{place}/latin.csv, line 3: {reason}\n"
    shutil.rmtree(place / "tmp", ignore_errors=True)
    (place / "latin.csv").unlink()
    (place / "worse.ndjson").unlink()
    (place / "all.txt").unlink()
