"""The shell: where a statement ends, what completes, and a script on standard input."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakelog import Lake
from lakelog.cli import shell as shells
from lakelog.cli.main import main
from lakelog.cli.shell import Shell
from lakelog.cli.statements import first_statement, statements
from tests.cli.test_pipes import empty
from tests.conftest import NOON, Answer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakelog.running.interrupt import Signals

VERBS = {"append": [], "sql": [], "erase": [], "explain": [], "status": [], "latest": [], "topic": ["list", "describe"]}


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("status", True), ("topic list", True), ("exit", True), ("SELECT 1;", True), ("SELECT 1", False), ("SELECT ';'", False), ("", True),
        ("SELECT 1; -- done", True), ("SELECT 1 -- ;", False), ("/* ; */ SELECT 1", False), ('SELECT ";" ;', True), ("-- nothing", True),
        ("SELECT 'it''s;'", False), ("people", True), ("selct 1", True), ("-- a comment\nlates people", True), ("/* begun", False),
        ("(SELECT 1)", False), ("with x AS (", False), ("FROM orders", False), ("VALUES(1)", False), ("SELECT 1\npeople", False),
        ("SELECT 'x;", False), ("SELECT 'x;\ny' AS a;", True), ("SELECT 1 /* one;", False), ('SELECT "a;', False),
        ("SELECT 1 /* one;\n two */;", True), ("EXPLAIN SELECT 1", False), ("explain select 1;", True), ("explain orders 17", True),
        ("erase orders it's", True), ("Status", True),
    ],
)  # fmt: skip
def test_where_a_statement_ends(text: str, whole: bool) -> None:
    assert (first_statement(f"{text}\n", VERBS, "duckdb") is not None) is whole
    assert (first_statement(f"{text}\n", VERBS, "spark") is not None) is whole


@pytest.mark.parametrize(
    ("text", "duckdb", "spark"),
    [
        ("SELECT 1; SELECT 2;", ["SELECT 1;", "SELECT 2;"], None), ("SELECT ';'; status", ["SELECT ';';", "status"], None),
        (r"SELECT 'it\'s; one'; help", [r"SELECT 'it\'s;", "one'; help"], [r"SELECT 'it\'s; one';", "help"]),
        (r"SELECT r'\'; help", [r"SELECT r'\';", "help"], None), (r"SELECT E'it\'s;' AS a; help", [r"SELECT E'it\'s;' AS a;", "help"], None),
        ("SELECT $$a;\nb$$; help", ["SELECT $$a;\nb$$;", "help"], ["SELECT $$a;", "b$$; help"]),
        ("SELECT x LIKE'a';;; -- two\nSELECT 2", ["SELECT x LIKE'a';", "SELECT 2"], None),
    ],
)  # fmt: skip
def test_a_line_may_hold_several_statements_each_in_its_dialect(text: str, duckdb: list[str], spark: list[str] | None) -> None:
    for engine, wanted in (("duckdb", duckdb), ("spark", spark or duckdb)):
        assert [one.strip() for _, one in statements(text.splitlines(), VERBS, lambda engine=engine: engine)] == wanted


def test_a_script_is_cut_into_statements() -> None:
    script = "topic list\n\n-- a comment; with a sign\nSELECT 1,\n  ';'\n;\nstatus orders\nSELECT 2"
    found = [(number, one.strip()) for number, one in statements(script.splitlines(), VERBS, lambda: "duckdb")]
    assert found == [(1, "topic list"), (4, "SELECT 1,\n  ';'\n;"), (7, "status orders"), (8, "SELECT 2")]


class Calls(list[list[str]]):
    """A command line that does nothing but remember what it was called with."""

    def __call__(self, argv: Sequence[str], signals: Signals) -> int:
        self.append(list(argv))
        return 0


@pytest.mark.parametrize(
    ("line", "called"),
    [
        ("Status orders", ["status", "orders"]), ("explain orders 17", ["explain", "orders", "17"]),
        ("EXPLAIN SELECT 1;", ["sql", "--engine", "duckdb", "--", "EXPLAIN SELECT 1"]),
        ("explain formatted select 1;", ["sql", "--engine", "duckdb", "--", "explain formatted select 1"]),
        ("append orders a.csv --null -", ["append", "orders", "a.csv", "--null", "-"]),
        ("sql 'SELECT 1'", ["sql", "--engine", "duckdb", "SELECT 1"]), ("help latest", ["latest", "--help"]),
        ("help topic list", ["topic", "list", "--help"]),
    ],
)  # fmt: skip
def test_verbs_and_queries_are_told_apart(line: str, called: list[str]) -> None:
    calls = Calls()
    assert (Shell(calls, [], VERBS).run(line), calls) == (0, [called])


def test_standard_input_is_the_shells(cli: Callable[..., Answer], tmp_path: Path) -> None:
    for line in ("append orders -", "append orders --null - -", "topic create t --like - --format csv"):
        answer = cli(f"--root {tmp_path}/lake shell", stdin=f"{line}\nhelp\n")
        assert (answer.code, answer.out) == (2, "")
        assert "(INVALID_REQUEST): Standard input is the shell's: name a file." in answer.err
    answer = cli(f"--root {tmp_path}/lake shell", stdin=f"append orders {tmp_path}/none.csv --null -\n")
    assert (answer.code, "none.csv" in answer.err) == (5, True)


def test_options_before_the_shell_are_those_of_its_statements(
    cli: Callable[..., Answer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Sequence[str]] = []
    monkeypatch.setattr(Shell, "script", lambda self, lines: seen.append(self.options))
    for options in ([], ["--yes"], ["--json", "--debug"], ["--json", "--yes"]):
        assert cli(["--root", f"{tmp_path}/lake", *options, "shell"]).code == 0
        assert set(seen.pop()) == {"--root", f"{tmp_path}/lake", *options}


@pytest.mark.parametrize(
    ("line", "hint"),
    [("people", ""), ("ls", ""), ("selct 1;", "Did you mean select?"), ("lates people", "Did you mean latest?"), ("hepl", "Did you mean help?")],
)  # fmt: skip
def test_a_line_that_begins_neither_a_verb_nor_a_query_is_refused(line: str, hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    calls = Calls()
    assert Shell(calls, [], VERBS).run(line) == 2
    told = capsys.readouterr().err
    assert told.startswith(
        f"Error (NOT_A_QUERY): {line.split()[0]} is neither a verb nor the beginning of a query.{hint and ' ' + hint} A query"
    )
    assert "help tells more" in told and ("Did you mean" in told) == bool(hint)
    assert calls == []


def test_at_a_terminal_such_a_line_swallows_none_of_the_next(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    toolkit = pytest.importorskip("prompt_toolkit")
    from prompt_toolkit.input import create_pipe_input
    from prompt_toolkit.output import DummyOutput

    monkeypatch.setattr(shells, "history_file", lambda: tmp_path / "history")
    calls = Calls()
    with create_pipe_input() as typed, toolkit.application.create_app_session(input=typed, output=DummyOutput()):
        typed.send_text("people\nstatus\n-- only a comment\n-- how many\nSELECT 1,\npeople\n;\nexit\n")
        assert shells.converse(Shell(calls, [], VERBS)) == 0
    assert calls == [["status"], ["sql", "--engine", "duckdb", "--", "SELECT 1,\npeople"]]
    assert capsys.readouterr().err.count("is neither a verb nor") == 1
    calls.clear()
    with create_pipe_input() as typed, toolkit.application.create_app_session(input=typed, output=DummyOutput()):
        typed.send_text("\x1b[200~status\nlatest people\nSELECT 1;\nSELECT 2; SELECT\x1b[201~\r3;\rexit\r")
        assert shells.converse(Shell(calls, [], VERBS)) == 0
    queries = [["sql", "--engine", "duckdb", "--", query] for query in ("SELECT 1", "SELECT 2", "SELECT\n3")]
    assert calls == [["status"], ["latest", "people"], *queries], "what is pasted is one input of many lines"


def test_a_script_that_fails_names_the_line(cli: Callable[..., Answer], tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    answer = cli(f"--root {tmp_path}/lake shell", stdin="help\n\n-- two topics\nselct *\n  FROM orders;\nhelp\n")
    assert (answer.code, answer.out.count("A verb of the command line")) == (2, 1)
    assert "Did you mean select?" in answer.err and answer.err.splitlines()[-1] == "The script ended at line 4: selct *"
    answer = cli(f"--root {tmp_path}/lake shell --engine duckdb", stdin=f"help\nSELECT 1,\n  2\nFROM {'orders, ' * 20} orders;\nhelp\n")
    assert answer.code == 5
    assert (
        answer.err.splitlines()[-1]
        == "The script ended at line 2: SELECT 1, 2 FROM orders, orders, orders, orders, orders, orders, orders, …"
    )


def test_a_script_may_begin_with_a_byte_order_mark_and_help_is_no_comment(cli: Callable[..., Answer], tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    for line in ("\ufeffhelp", "--help", "  -h", "help;", "-h;", "--help ;"):
        answer = cli(f"--root {tmp_path}/lake shell", stdin=f"{line}\n")
        assert (answer.code, answer.out.count("A verb of the command line")) == (0, 1), line
        assert "Verbs: append check clean commit " in answer.out
    assert "Usage: lakelog latest" in cli(f"--root {tmp_path}/lake shell", stdin="help LATEST\n").out
    assert cli("help latest").out == cli("latest --help").out != ""


def test_the_shells_own_errors_are_json_where_it_was_asked_for(cli: Callable[..., Answer], tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    lines = {"selct 1;": "NOT_A_QUERY", "topic 'list": "INVALID_REQUEST", "engine mysql": "INVALID_REQUEST", "shell": "INVALID_REQUEST",
             "help nope": "INVALID_REQUEST"}  # fmt: skip
    for line, name in lines.items():
        plain, told = (cli(f"--root {tmp_path}/lake {options} shell", stdin=f"help\n{line}\n") for options in ("", "--json"))
        assert (plain.code, told.code, told.err) == (2, 2, plain.err), line
        assert told.err.startswith(f"Error ({name}): ") and told.err.endswith(f"The script ended at line 2: {line}\n")
        error = json.loads(told.out.removeprefix(plain.out))
        assert (error["error"], f"Error ({name}): {error['message']}") == (name, plain.err.splitlines()[0]), line
    assert json.loads(cli(f"--root {tmp_path}/lake shell", stdin="lates orders --json\n").out)["error"] == "NOT_A_QUERY"


@pytest.mark.parametrize(
    ("line", "option", "verb"),
    [("--root /lake topic list", "--root", "topic"), ("--json status", "--json", "status"), ("--yes --config=a Latest x;", "--yes", "latest")],
)  # fmt: skip
def test_options_of_the_command_line_before_a_verb_are_no_comment(
    line: str, option: str, verb: str, cli: Callable[..., Answer], tmp_path: Path
) -> None:
    (tmp_path / "lake").mkdir()
    answer = cli(f"--root {tmp_path}/lake shell", stdin=f"help\n{line}\nhelp\n")
    assert (answer.code, answer.out.count("A verb of the command line")) == (2, 1), answer
    assert f"Error (INVALID_REQUEST): {option} before a verb begins a comment of SQL here" in answer.err
    assert f"begin the line with {verb}," in answer.err and "The script ended at line 2: " in answer.err


def test_comments_stay_comments(cli: Callable[..., Answer], tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    for line in (
        "-- two topics",
        "--json",
        "--json is printed",
        "--root",
        "--status orders",
        "--limit 5 latest orders",
        "-- --json status",
    ):
        assert cli(f"--root {tmp_path}/lake shell", stdin=f"{line}\nhelp\n").code == 0, line
    queries = list(statements(["SELECT 1,", "--json status", "2;"], VERBS, lambda: "duckdb"))
    assert [(number, text.strip()) for number, text in queries] == [(1, "SELECT 1,\n--json status\n2;")]


@pytest.mark.parametrize("before", ["-- one\n", "--one\n", "--limit 5\n", "--\n", "/* one */ ", "\n -- one\n"])
def test_a_query_may_begin_with_a_comment(before: str, cli: Callable[..., Answer], tmp_path: Path) -> None:
    empty(tmp_path / "lake")
    options = ["--engine", "duckdb", "--format", "csv"]
    for words in ([f"{before}SELECT 1 AS a", *options], [*options, f"{before}SELECT 1 AS a"], [*options, "--", f"{before}SELECT 1 AS a"]):
        answer = cli(["--root", f"{tmp_path}/lake", "sql", *words])
        assert (answer.code, answer.out) == (0, "a\n1\n"), (words, answer)


def test_what_is_no_comment_is_an_option(cli: Callable[..., Answer]) -> None:
    for word in ("--lmit", "--lmit=5", "--lmit=a\nb"):
        answer = cli(["sql", word, "SELECT 1"])
        assert (answer.code, "No such option: --lmit" in answer.err) == (2, True), answer
    assert "(NOT_A_QUERY)" in cli(["sql", "-- nothing"]).err


def test_what_completes_without_a_lake() -> None:
    shell = Shell(lambda argv, signals: main(argv, signals), [], VERBS)
    assert shell.candidates("st") == ["status"]
    assert shell.candidates("topic ") == ["list", "describe"]
    assert shell.candidates("engine s") == ["spark"]
    assert shell.candidates("latest orders --format ") == ["table", "json", "csv"]
    assert "SELECT" in shell.candidates("")


def test_a_script_ends_at_the_first_statement_that_fails(cli: Callable[..., Answer], tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    answer = cli(f"--root {tmp_path}/lake shell", stdin="help\nengine spark\nengine duckdb\ntopic list\nhelp\n")
    assert answer.code == 5
    assert "NOT_A_LAKE" in answer.err
    assert answer.out.count("A verb of the command line") == 1
    assert cli(f"--root {tmp_path}/lake shell", stdin="help\nexit\ntopic list\n").code == 0
    assert cli(f"--root {tmp_path}/lake shell", stdin="engine mysql\n").code == 2
    assert cli(f"--root {tmp_path}/lake shell", stdin="topic 'list\n").code == 2


@pytest.fixture(scope="module")
def root(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A lake with two topics."""
    lake = Lake(spark, str(tmp_path_factory.mktemp("shell") / "lake"), clock=lambda: NOON)
    orders = lake.create_topic("orders", key="order_id INT", value="state STRING, price DECIMAL(5,2)")
    orders.append([{"key": {"order_id": n}, "value": {"state": f"s{n}", "price": "1.50"}} for n in range(3)])
    orders.append([{"key": {"order_id": 1}, "tombstone": True}])
    orders.merge()
    lake.create_topic("people", key="STRING", value="STRING")
    return lake.root


@pytest.mark.parametrize("engine", ["duckdb", "spark"])
def test_a_script_answers_what_the_commands_do(cli: Callable[..., Answer], root: str, engine: str) -> None:
    queries = [
        "SELECT order_id,\n  state, price\nFROM orders -- those there are\nORDER BY order_id",
        "SELECT (SELECT count(*) FROM orders) + 10 * (SELECT count(*) FROM orders_deleted) + 100 * (SELECT count(*) FROM orders_log) AS n",
        "SELECT ';' AS sign",
    ]
    single = [cli(f"--root {root} topic list"), *(cli(["--root", root, "sql", "--engine", engine, query]) for query in queries)]
    single.append(cli(f"--root {root} read orders --limit 1 --format json"))
    assert [answer.code for answer in single] == [0] * 5 and "412" in single[2].out

    chosen = "" if engine == "duckdb" else "engine spark\n"
    script = f"topic list\n{chosen}{queries[0]};\n\n{queries[1]}\n;\n{queries[2]};\nread orders --limit 1 --format json"
    for words, text in (("", script), (f" --engine {engine}", script.replace(chosen, ""))):
        answer = cli(f"--root {root} shell{words}", stdin=text)
        assert (answer.code, answer.out, answer.err) == (0, "".join(one.out for one in single), "")
    wrong = cli(["--root", root, "sql", "--engine", engine, "SELECT nope FROM orders"])
    ended = cli(f"--root {root} shell --engine {engine}", stdin="topic list\nSELECT nope FROM orders;\ntopic list\n")
    assert (ended.code, ended.out, ended.err.splitlines()[0]) == (2, "orders\npeople\n", wrong.err.strip())


def test_topics_and_columns_complete(root: str) -> None:
    shell = Shell(Calls(), [], VERBS, lambda: Lake(root))
    assert shell.candidates("status ") == ["orders", "people"]
    assert shell.candidates("latest orders pe") == ["people"]
    assert shell.candidates("SELECT * FROM o") == ["orders", "orders_deleted", "orders_log", "order_id", "ORDER BY", "ON", "OR"]
    assert shell.candidates("SELECT count(") == shell.candidates("SELECT ") != []
    assert shell.candidates("SELECT * FROM orders WHERE ") != shell.candidates("SELECT * FROM people WHERE ")
    assert shell.candidates("SELECT * FROM orders WHERE PRI") == shell.candidates("SELECT orders.pri") == ["price"]
    assert shell.candidates("SELECT * FROM orders_deleted WHERE st") == ["state"]
    assert shell.candidates("SELECT * FROM people WHERE pri") == [], "people has no price"
    assert shell.candidates("SELECT * FROM people WHERE _") == ["_partition", "_offset", "_timestamp", "_version"]
