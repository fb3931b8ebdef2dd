"""What an error advises works, in the state in which it is advised, in the words of the place where it is read."""

from __future__ import annotations

import ast
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakelog import Lake
from lakelog.terminal.words import WORDS, spoken
from tests.conftest import Answer
from tests.house.test_house import modules, place

Cli = Callable[..., Answer]
# How errors speak of Python, which nobody types at a command line: calls, and arguments by name.
PYTHON = re.compile(
    r"\b(merge|append|read|latest|verify|topic|configure|create_topic|delete_topic|rebuild)\(|\w_topic\b"
    r"|\b(rebuild|format|at|encoding|delimiter|null|key_columns|decode|wait_ms|report|metrics)="
)
# What only Python can meet.
ONLY_PYTHON = ("commit_log", "lake.lake_table")
NAMED = {"create": " extra"}


def messages() -> Iterator[tuple[str, str]]:
    """Every text that an error is made of, and the sentences that are constants: (where, the text with x for what is put in)."""
    for path, tree in modules():
        for node in tree.body:
            if isinstance(node, ast.Assign) and _text(node.value).endswith("."):
                yield f"{place(path)}:{node.lineno}", _text(node.value)
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id[:1].isupper() and node.args:
                text = _text(node.args[0])
                if text and " " in text:
                    yield f"{place(path)}:{node.lineno}", text


def _text(node: ast.expr) -> str:
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part) if isinstance(part, ast.Constant) else "x" for part in node.values)
    return ""


def test_no_error_speaks_python_at_the_command_line() -> None:
    told = list(messages())
    assert len(told) > 60
    wrong = [(where, text) for where, text in told if not where.startswith(ONLY_PYTHON[0]) and PYTHON.search(spoken(text, "orders"))]
    assert not wrong, "say it in lakelog/terminal/words.py: WORDS"


def test_no_error_of_python_speaks_of_options() -> None:
    shells = ("cli.", "job.", "terminal.", "page.", "delta.prerequisites")
    wrong = []
    for path, tree in modules():
        docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        said = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs]
        if not place(path).startswith(shells):
            wrong += [(place(path), node.lineno, node.value) for node in said if re.search(r"(?<![\w-])--[a-z]", node.value)]
    assert not wrong, "say it as Python does, and for the command line in lakelog/terminal/words.py: WORDS"


def test_the_dictionary_holds_nothing_that_is_not_said() -> None:
    source = " ".join(
        re.sub(r'"\n\s+f?"', "", path.read_text(encoding="utf-8")) for path, _ in modules() if place(path) != "terminal.words"
    )
    source += " partitions=0 at='x' expected_offset names partition 0 expected_offset=-2 for partition 0"
    source += " Name it: delimiter=';' say how they are decoded, for example decode={'value': 'json'} delimiter=x encoding=x"
    source += " Open it with topic('x'), or choose another name merge(accept='4f2a', reason=…)"
    for python, _ in WORDS:
        assert re.search(python.lstrip("^"), source), python


def follow(cli: Cli, call: str) -> None:
    """A call is refused; what the refusal advises is done, and then the call works."""
    refused = cli(call)
    assert refused.code != 0
    advised = re.findall(r"`lakelog ([^`]+)`", refused.err)
    assert advised, refused
    for command in advised:
        done = cli(command + NAMED.get(command.split()[-1], ""))
        assert done.code == 0, (command, done)
    after = cli(call)
    assert after.code == 0, after


@pytest.fixture
def here(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "lakelog.toml").write_text('root = "./lake"\n')
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.long
def test_advice_is_followed(here: Path, cli: Cli, spark: SparkSession) -> None:
    follow(cli, "topic list")
    lake = Lake(spark, str(here / "lake"))
    for name in ("orders", "prices"):
        topic = lake.create_topic(name, key="STRING", value="STRING")
        topic.append([{"key": "a", "value": "1"}])
        topic.merge()

    changed = cli("topic configure orders --config compaction.strategy=timestamp")
    assert "Warning: orders: silver was made under the rule offset, the topic now says timestamp." in changed.err
    assert "`lakelog merge orders --rebuild` once." in changed.err
    follow(cli, "merge orders")

    assert cli("topic configure orders --config compaction.strategy=timestamp").err == ""

    # The latest table of another topic in the place of this one's.
    shutil.rmtree(here / "lake" / "orders" / "silver")
    shutil.copytree(here / "lake" / "prices" / "silver", here / "lake" / "orders" / "silver")
    follow(cli, "merge orders")

    assert cli("verify orders").code == 0

    # A creation that was cut off: the log is there, and the lake does not know of it.
    lake._own.list_topic("prices", None)
    cut_off = cli("read prices")
    assert (cut_off.code, "`lakelog topic create` completes it, `lakelog topic delete` removes it" in cut_off.err) == (5, True)
    assert cli("topic create prices --key STRING --value STRING").code == 2
    assert cli("read prices").code == 0

    # Another writer's commit in the log.
    spark.sql(
        f"INSERT INTO delta.`{here}/lake/prices/bronze` SELECT * FROM delta.`{here}/lake/prices/bronze` WHERE segment >= 0 AND control IS NULL"
    )
    foreign = cli("append prices -", '{"key": "b"}\n')
    assert foreign.code == 70
    version = re.search(r"RESTORE to version (\d+)", foreign.err)
    assert version is not None
    assert re.findall(r"`lakelog (verify [^`]+)`", foreign.err) == ["verify prices", "verify prices --repair"]
    spark.sql(f"RESTORE TABLE delta.`{here}/lake/prices/bronze` TO VERSION AS OF {version[1]}").collect()
    assert cli("verify prices").code == 0
    assert cli("append prices -", '{"key": "b"}\n').code == 0

    # The other way that is named: what the log holds now is kept.
    spark.sql(f"DELETE FROM delta.`{here}/lake/prices/bronze` WHERE key = 'b'")
    assert cli("append prices -", '{"key": "c"}\n').code == 70
    assert cli("verify prices").code == 70
    assert cli("verify prices --repair").code == 0
    assert cli("append prices -", '{"key": "c"}\n').code == 0
    assert cli("verify prices").code == 0


def test_a_latest_table_without_control_rows_is_rebuilt(here: Path, cli: Cli, spark: SparkSession) -> None:
    topic = Lake(spark, str(here / "lake")).create_topic("orders", key="STRING", value="STRING")
    topic.append([{"key": "a", "value": "1"}])
    topic.merge()
    spark.sql(f"DELETE FROM delta.`{here}/lake/orders/silver`")
    follow(cli, "merge orders")


@pytest.mark.long
def test_what_is_advised_works_where_the_log_was_truncated(here: Path, cli: Cli, spark: SparkSession) -> None:
    topic = Lake(spark, str(here / "lake")).create_topic("orders", key="STRING", value="STRING")
    topic.append([{"key": "a", "value": "1"}])
    topic.snapshot("s")
    topic.append([{"key": "b", "value": "1"}])
    assert cli("truncate orders --to-snapshot s --yes").code == 0
    topic.merge()
    spark.sql(f"DELETE FROM delta.`{here}/lake/orders/silver`")
    follow(cli, "merge orders")

    topic.append([{"key": "c", "value": "1"}])
    topic.merge()
    version = spark.sql(f"DESCRIBE HISTORY delta.`{here}/lake/orders/bronze` LIMIT 1").collect()[0]["version"]
    spark.sql(f"RESTORE TABLE delta.`{here}/lake/orders/bronze` TO VERSION AS OF {version - 1}").collect()
    follow(cli, "merge orders")
    assert cli("verify orders").code == 0
    assert {row["key"] for row in topic.latest().collect()} == {"a", "b"}


def test_a_log_taken_back_by_hand_is_repaired(here: Path, cli: Cli, spark: SparkSession) -> None:
    topic = Lake(spark, str(here / "lake")).create_topic("orders", key="STRING", value="STRING")
    topic.append([{"key": "a", "value": "1"}])
    topic.append([{"key": "b", "value": "1"}])
    topic.merge()
    spark.sql(f"RESTORE TABLE delta.`{here}/lake/orders/bronze` TO VERSION AS OF 1").collect()
    follow(cli, "merge orders")
    assert cli("verify orders").code == 0
