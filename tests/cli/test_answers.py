"""How answers look: a damaged topic among sound ones, offsets, decimals, what is piped, what a terminal shows, what the logger tells."""

from __future__ import annotations

import io
import json
import logging
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakelog import Conflict, Lake
from lakelog.latest import merge
from lakelog.terminal.progress import watching
from tests.conftest import Answer

Cli = Callable[..., Answer]


@pytest.fixture
def here(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "lakelog.toml").write_text('root = "./lake"\n')
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.long
def test_an_import_is_told_with_its_rows_its_log_and_what_waits(here: Path, cli: Cli, spark: SparkSession) -> None:
    topic = Lake(spark, str(here / "lake")).create_topic("orders", key="STRING", value="STRING")
    topic.append([{"key": "a", "value": "1"}, {"key": "b", "value": "1"}])
    topic.snapshot("s")
    topic.append([{"key": "a", "value": None}, {"key": "c", "value": "1"}])
    topic.export(here / "out", "s")
    answer = cli("snapshot import ./out --name again")
    assert (answer.code, answer.out.splitlines()[1:]) == (0, [
        "  2 live rows, 0 tombstones; the log has offsets [2, 4) of partition 0",
        "  2 records not merged yet: the next merge folds them",
    ])  # fmt: skip


def test_a_damaged_topic_is_shown_among_the_sound_ones(here: Path, cli: Cli, spark: SparkSession) -> None:
    lake = Lake(spark, str(here / "lake"))
    for name in ("a", "b", "c"):
        topic = lake.create_topic(name, key="STRING", value="STRING", partitions=2 if name == "c" else 1)
        topic.append([{"key": "a", "value": "1"}])
        topic.merge()
    spark.sql(f"DELETE FROM delta.`{lake.root}/b/silver`")
    answer = cli("status")
    rows = {line.split()[0]: line for line in answer.out.splitlines()[2:]}

    assert answer.code == 70
    assert list(rows) == ["a", "b", "c"]
    assert "[0, 1)" in rows["a"] and rows["b"].endswith("DAMAGED")
    assert "0: [0, " in rows["c"] and "1: [0, " in rows["c"]
    assert answer.err.startswith("Error (DAMAGED): ") and answer.err.count("\n") == 1
    assert "`lakelog verify b --repair`" in answer.err
    told = json.loads(cli("status --json").out)["topics"]
    assert [(one["topic"], one.get("error"), one.get("records")) for one in told] == [
        ("a", None, 1),
        ("b", "DAMAGED", None),
        ("c", None, 1),
    ]
    assert cli("status a c").code == 0
    assert cli("sql 'SELECT count(*) FROM a' --format csv").code == 0
    assert cli("latest b").code == 70
    assert cli("latest b --at 1 --format csv").out.count("\n") == 2


def test_what_is_read_says_where_it_stands(here: Path, cli: Cli) -> None:
    cli("topic create orders --key STRING --value 'DECIMAL(20,2)' --partitions 2")
    answer = cli(
        "append orders -", '{"key": "a", "value": 1.5, "partition": 1}\n{"key": "b", "value": "123456789012345678.25", "partition": 1}\n'
    )
    assert answer.out == "orders: appended 2 records: offsets [0, 2) of partition 1\n"
    read = json.loads(cli("read orders --json").out)["records"]
    assert [(one["partition"], one["offset"], one["epoch"], one["value"]) for one in read] == [
        (1, 0, 0, "1.50"), (1, 1, 0, "123456789012345678.25"),
    ]  # fmt: skip
    # As append takes them: without what append gives.
    records = cli("read orders --format json").out
    assert "offset" not in records
    assert cli("append orders -", records).out == "orders: appended 2 records: offsets [2, 4) of partition 1\n"
    assert cli("sql 'SELECT 1 AS a, 2 AS a' --format csv").out == "a,a\n1,2\n"


def test_what_is_described_fits_a_page(here: Path, cli: Cli) -> None:
    fields = ", ".join(f"a_long_field_{number} STRING" for number in range(30))
    cli(["topic", "create", "wide", "--key", "BIGINT", "--value", fields])
    for command in ("topic describe wide", "lake describe"):
        answer = cli(command)
        assert answer.code == 0
        assert max(map(len, answer.out.splitlines())) <= 100
        assert "message.timestamp.before.max.ms" in answer.out


class Terminal(io.StringIO):
    """A standard error that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.classic("a client of Spark Connect is not told of tasks")
def test_progress_is_shown_on_a_terminal_only(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark.sql import functions as F

    shown, piped = Terminal(), io.StringIO()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", shown)
    with watching("orders: merging", spark) as tell:
        slow = F.udf(lambda one: time.sleep(0.5) or one, "bigint")
        spark.range(4, numPartitions=4).select(slow("id")).collect()
        tell(3, 5)
        time.sleep(0.5)
    monkeypatch.setattr(sys, "stderr", piped)
    with watching("orders: merging", spark) as tell:
        tell(3, 5)

    assert "orders: merging" in shown.getvalue()
    assert " of 4 tasks" in shown.getvalue()
    assert "3 of 5 records" in shown.getvalue()
    assert piped.getvalue() == ""


def test_the_logger_tells_what_verbs_do_and_when_they_try_again(
    lake: Lake, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO, logger="lakelog")
    topic = lake.create_topic("orders", key="STRING", value="STRING")
    topic.append([{"key": "a", "value": "1"}])
    tries = iter([Conflict("another was first")])
    once = merge.merge

    def second(*given: object, **named: object) -> object:
        for error in tries:
            raise error
        return once(*given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(merge, "merge", second)
    topic.merge()
    topic.configure({"segment.ms": 5000})
    told = [(one.levelname, one.getMessage()) for one in caplog.records if one.name == "lakelog"]

    assert told[0] == ("INFO", "orders: appended 1 records at {0: (0, 1)}, version 1")
    assert told[1] == ("WARNING", "orders: another merge was first; try 2 of 10")
    assert told[2] == ("INFO", "orders: merged 1 records up to {0: 1}, version 1")
    assert told[3] == ("INFO", "orders: configured {'segment.ms': 5000}")


def test_lakes_and_topics_show_themselves(lake: Lake) -> None:
    assert repr(lake) == f"<Lake {lake.root}>"
    assert "<table>" in lake._repr_html_()
    topic = lake.create_topic("orders", key="id BIGINT", value="status STRING", partitions=2)

    assert repr(topic) == f"<Topic orders: root {lake.root}, key struct<id:bigint>, value struct<status:string>, partitions 2, rule offset>"
    assert "<td>orders</td>" in lake._repr_html_()
    assert "<td>struct&lt;id:bigint&gt;</td>" in topic._repr_html_()


def test_a_topic_like_a_file_shows_its_types_before_they_are_kept(here: Path, cli: Cli) -> None:
    (here / "orders.csv").write_text("order_id;status\n1;new\n2;shipped\n")
    shown = '--key "order_id BIGINT" --value "status STRING"\n'
    create = "topic create orders --like orders.csv --key-columns order_id --delimiter ';'"

    assert cli(f"{create} --dry-run") == Answer(0, shown, "")
    assert cli(f"{create.replace('orders.csv', f'file://{here}/orders.csv')} --dry-run") == Answer(0, shown, "")
    assert json.loads(cli(f"{create} --dry-run --json").out) == {"key": "order_id BIGINT", "value": "status STRING"}
    refused = cli(create)
    assert (refused.code, refused.out) == (2, "")
    assert refused.err.startswith(shown) and "no terminal to ask at" in refused.err
    assert not (here / "lake").exists()
    made = cli(f"{create} --value 'status STRING, note STRING' --yes")
    assert (made.code, made.err) == (0, '--key "order_id BIGINT" --value "status STRING, note STRING"\n')
    assert cli("append orders orders.csv --delimiter ';'").code == 0
    missing = cli("topic create t --like nothing.csv --key-columns a --yes")
    assert (missing.code, missing.out) == (5, "")
    assert "nothing.csv: there is no such file" in missing.err
    assert cli("topic create t --key-columns a").code == 2


@pytest.mark.long
def test_what_is_printed_as_csv_can_be_appended_as_it_was(here: Path, cli: Cli) -> None:
    """Empty text is quoted, NULL is not: otherwise a record's way out and in would delete."""
    cli("topic create t --key 'id STRING' --value 'a STRING, b STRING, n DECIMAL(5,2), f BOOLEAN, l ARRAY<INT>'")
    first = {"a": "", "b": None, "n": "1.50", "f": True, "l": [1, 2]}
    values = [first, {"a": '"', "b": ",", "n": None, "f": None, "l": None}, {"a": "\n", "b": "\r", "n": None, "f": False, "l": None}]
    (here / "t.ndjson").write_text(
        "".join(json.dumps({"key": {"id": f"k{index}"}, "value": one}) + "\n" for index, one in enumerate(values))
    )
    assert cli("append t t.ndjson").code == cli("merge t").code == 0
    columns = "id, a, b, n, f"
    found = cli(f"sql 'SELECT {columns} FROM t ORDER BY id' --engine duckdb --format csv").out
    assert found == 'id,a,b,n,f\nk0,"",,1.50,true\nk1,"""",",",,\nk2,"\n","\r",,false\n'
    assert cli("latest t --format csv --limit 1").out.splitlines()[1].startswith('k0,"",,1.50,true,"[1, 2]",0,0,')
    (here / "back.csv").write_bytes(found.encode())
    cli("topic create again --key 'id STRING' --value 'a STRING, b STRING, n DECIMAL(5,2), f BOOLEAN'")
    assert cli("append again back.csv").code == cli("merge again").code == 0
    assert cli(f"sql 'SELECT {columns} FROM again ORDER BY id' --engine duckdb --format csv").out == found
    assert cli("sql 'SELECT NULL AS x' --engine duckdb --format csv").out == 'x\n""\n'


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (",id\n0,1\n", "column 1 has no name. pandas writes its index so: write the file with to_csv(…, index=False)"),
        ("id,\n0,1\n", "column 2 has no name."),
        ('"id";"name"\n1;2\n', "It looks like one of 2 columns with another delimiter. Name it: --delimiter ';'."),
    ],
)
def test_a_first_line_that_is_none_says_what_it_looks_like(here: Path, cli: Cli, text: str, says: str) -> None:
    (here / "a.csv").write_text(text)
    found = cli("topic create t --like a.csv --key-columns id --yes")
    assert (found.code, f"Error (INVALID_REQUEST): {here}/a.csv" in found.err, says in found.err) == (2, True, True), found.err
