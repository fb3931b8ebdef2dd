"""The command line: the same words as in Python, data on stdout, talk on stderr, exit codes by the kind of error."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import resource
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakelog.cli import demo
from lakelog.cli import doctor as doctor_module
from lakelog.errors import InvalidConfig
from lakelog.terminal import output
from lakelog.terminal.settings import Settings, load
from tests.conftest import Answer
from tests.house.test_readme import BLOCKS, commands, same

ROOT = Path(__file__).parent.parent.parent
Cli = Callable[..., Answer]
LINES = '{"key": "a", "value": "1", "timestamp": 1700000000000}\n{"key": "b", "value": "2", "timestamp": 1700000001000}\n'
HEAVY = ("pyspark", "pandas", "pyarrow", "delta", "great_expectations", "numpy")
HELP = f"""
import sys
from lakelog.cli.main import main
code = main(["--help"])
loaded = {{name.partition(".")[0] for name in sys.modules}} & set({HEAVY!r})
sys.exit(code or (f"--help imports {{loaded}}" if loaded else 0))
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: SparkSession) -> Path:
    """An empty folder to work in, with a lakelog.toml that puts the lake beside it."""
    (tmp_path / "lakelog.toml").write_text('root = "./lake"\n')
    monkeypatch.chdir(tmp_path)
    return tmp_path


def job(name: str) -> ModuleType:
    """A job's module."""
    spec = importlib.util.spec_from_file_location(f"job_{name}", ROOT / "jobs" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# ---- without Spark ----


def test_help_answers_at_once_and_imports_nothing_heavy() -> None:
    """Tab completion and scripts call it often. The least CPU of a few, beside that of importing the library that prints it: 0.3 s beside 0.1."""
    seconds: dict[str, list[float]] = {HELP: [], "import typer": []}
    for _ in range(5):
        for code, measured in seconds.items():
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, check=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            measured.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)

    assert min(seconds[HELP]) < 5 * min(seconds["import typer"])


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("appendd", "Did you mean 'append'?"),
        ("append", "Missing argument"),
        ("status --nope", "No such option"),
        ("sql 'SELECT 1' --format tabel", "Did you mean table?"),
        ("topic configure orders", "Nothing to configure"),
        ("topic configure orders --config strategy", "write NAME=VALUE"),
        ("topic list", "Which lake?"),
        ("topic list --config nowhere.toml", "cannot be read"),
    ],
)
def test_wrong_call_is_one_line_and_exit_code_2(command: str, says: str, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    answer = cli(command)

    assert (answer.code, answer.out) == (2, "")
    assert re.fullmatch(r"Error \(\w+\): .*\n", answer.err)
    assert says in answer.err
    assert json.loads(cli(f"{command} --json").out)["message"] in answer.err


def test_defect_is_exit_code_1_and_shows_its_traceback_on_demand(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("on fire")

    monkeypatch.setattr(doctor_module, "examine", broken)

    assert cli("doctor") == Answer(1, "", "Error (UNEXPECTED): RuntimeError: on fire\n")
    assert "Traceback" in cli("doctor --debug").err
    assert "Traceback" in cli("--debug doctor").err


def test_settings_come_from_the_call_then_the_environment_then_the_nearest_file(tmp_path: Path) -> None:
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    (tmp_path / "lakelog.toml").write_text(
        'root = "./lake"\n[session]\nmemory = "2g"\n[session.config]\n"spark.x" = 3\n"spark.y" = true\n', encoding="utf-8"
    )

    found = load(folder=deep, environment={})
    assert found == Settings(f"{tmp_path}/lake", memory="2g", spark={"spark.x": "3", "spark.y": "true"}, file=tmp_path / "lakelog.toml")
    assert load(folder=deep, environment={"LAKELOG_ROOT": "../other"}).root == f"{tmp_path}/a/other"
    assert load(root="s3a://bucket/lake", folder=deep, environment={"LAKELOG_ROOT": "/x/y"}).root == "s3a://bucket/lake"
    assert load(root="main.sales", folder=deep, environment={}).root == "main.sales"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('root = "./lake"\nsesion = 1', "Did you mean session?"),
        ('[session]\nmemori = "2g"', "Did you mean memory?"),
        ("root = 3", "root must be text"),
        ("root = ", "is not TOML"),
    ],
)
def test_wrong_settings_file_says_what_is_wrong_in_which_file(text: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "lakelog.toml").write_text(text, encoding="utf-8")
    with pytest.raises(InvalidConfig, match=re.escape(says)) as caught:
        load(folder=tmp_path, environment={})
    assert str(tmp_path / "lakelog.toml") in str(caught.value)


def test_table_cells_are_safe_and_exact() -> None:
    assert [output.cell(value) for value in (None, True, 3, {"a": [1]}, "a\x1b[31m\nb", "[red]é")] == [
        "NULL", "true", "3", '{"a": [1]}', "a\\x1b[31m\\nb", "[red]é",
    ]  # fmt: skip
    assert [output.age(ms) for ms in (None, 0, 61_000, 180_000, 7_200_000, 172_800_000)] == ["-", "0 s", "61 s", "3 min", "2 h", "2 d"]


def test_job_without_a_lake_reports_and_ends_with_the_code(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LAKELOG_")} | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(ROOT / "jobs" / "merge.py"), "--topic", "orders"]
    answer = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    assert (answer.returncode, answer.stderr) == (2, "")
    assert json.loads(answer.stdout)["error"] == "INVALID_REQUEST"


# ---- with Spark ----


def test_topics_are_created_listed_described_configured_and_deleted(here: Path, cli: Cli) -> None:
    made = cli("topic create orders --key STRING --value STRING --config compaction.strategy=header --json")
    assert (made.code, made.err) == (0, "")
    assert json.loads(made.out)["warnings"].keys() == {"compaction.strategy.header"}
    assert cli("topic create orders").code == 2
    assert "Did you mean segment.ms?" in cli("topic create other --config segment.mz=1").err
    assert "Warning: " in cli("topic create odd --config compaction.strategy=header").err
    assert cli("topic list").out == "odd\norders\n"

    assert re.search(r"^log.roll.ms +5000 +lake ", cli("lake configure --config log.roll.ms=5000").out, re.MULTILINE)
    changed = json.loads(cli("topic configure orders --config compaction.strategy=timestamp --json").out)
    origins = {one["name"]: (one["value"], one["origin"]) for one in changed["config"]}
    assert origins["compaction.strategy"] == ("timestamp", "topic")
    assert origins["segment.ms"] == (5000, "lake")
    assert origins["silver.buckets"] == (1, "default")
    assert re.search(r"^segment.ms +5000 +lake ", cli("topic describe orders").out, re.MULTILINE)

    planned = json.loads(cli("topic delete orders --dry-run --json").out)
    assert [Path(table).name for table in planned["tables"]] == ["bronze", "silver"]
    assert planned["dry_run"]
    refused = cli("topic delete orders")
    assert (refused.code, refused.out) == (2, "")
    assert "--yes" in refused.err
    assert cli("topic list --json").out == '{"topics": ["odd", "orders"]}\n'
    assert cli("topic delete order --yes").code == 5
    assert cli("topic delete orders --yes") == Answer(0, f"deleted topic orders: {', '.join(planned['tables'])}\n", "")
    assert cli("topic list").out == "odd\n"
    # A deletion that was cut off: listed still, without its log.
    shutil.rmtree(here / "lake" / "odd" / "bronze")
    assert cli("topic delete odd --yes").out.endswith("/odd/silver\n")
    assert cli("topic list").out == ""


def test_records_go_in_and_out_in_every_form(here: Path, cli: Cli) -> None:
    (here / "in.ndjson").write_text(LINES)
    cli("topic create orders --key STRING --value STRING")
    appended = json.loads(cli("append orders in.ndjson --json").out)
    assert (appended["records"], appended["offsets"]) == (2, {"0": [0, 2]})
    broken = cli("append orders -", LINES + "{broken\n")
    assert (broken.code, broken.out) == (2, "")
    assert "standard input, line 3" in broken.err
    problems = json.loads(cli("--json append orders -", LINES + '{"value": 1}\n').out)
    assert (problems["error"], problems["count"], problems["records"]) == ("INVALID_RECORD", 1, [2])
    assert cli("append orders - in.ndjson").code == 2

    merged = json.loads(cli("merge orders --json").out)
    assert (merged["version"], merged["inserted"], merged["to_offsets"]) == (1, 2, {"0": 2})
    half = cli("merge orders order --json")
    assert (half.code, json.loads(half.out)["merged"][0]["version"]) == (5, None)

    query = shlex.quote("SELECT key, value FROM orders ORDER BY key")
    assert cli(f"sql {query} --format csv").out == "key,value\na,1\nb,2\n"
    assert cli(f"sql {query} --format json --limit 1").out == '{"key": "a", "value": "1"}\n'
    exact = shlex.quote("SELECT CAST(1.5 AS DECIMAL(10,2)) AS a, CAST(0 AS DECIMAL(38,18)) AS b")
    assert cli(f"sql {exact} --format csv").out == "a,b\n1.50,0.000000000000000000\n"
    assert cli(f"sql {exact}").out.splitlines()[-1].split() == ["1.50", "0.000000000000000000"]
    assert cli(f"sql {exact} --format json").out == '{"a": "1.50", "b": "0.000000000000000000"}\n'
    assert json.loads(cli(f"sql {query} --json").out) == {
        "columns": ["key", "value"],
        "rows": [{"key": "a", "value": "1"}, {"key": "b", "value": "2"}],
    }
    for wrong in ("SELECT nope FROM orders", "SELEC 1", "SELECT 1/0"):
        answer = cli(["sql", wrong])
        assert (answer.code, answer.out, answer.err.count("\n")) == (2, "", 1), answer
    assert cli("sql 'SELECT * FROM nowhere'").code == 5
    assert cli("sql 'SELECT count(*) AS n FROM orders' --at 0 --format csv").out == "n\n0\n"
    assert cli("latest orders --at 99").code == 5
    assert cli("latest orders --deleted --format csv").out.splitlines()[1:] == []

    records = cli("read orders --format json").out
    assert [json.loads(line)["timestamp"] for line in records.splitlines()] == [1700000000000, 1700000001000]
    assert json.loads(cli("read orders --offset 1 --json").out)["records"][0]["key"] == "b"
    assert cli("read orders --offset 9").code == 5
    assert "appended 2 records" in cli("append orders -", records).out

    state = json.loads(cli(["status", "--json"]).out)["topics"][0]
    assert (state["records"], state["live"], state["unmerged_records"], state["silver_version"]) == (4, 2, 2, 1)


def test_jobs_report_one_line_and_the_code_of_the_error(here: Path, cli: Cli, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "in.ndjson").write_text(LINES)
    (here / "bad.ndjson").write_text(LINES + "{}\n")
    cli("topic create orders --key STRING --value STRING")

    def report(name: str, *arguments: str) -> tuple[int, dict[str, Any]]:
        code = job(name).main(["--topic", "orders", *arguments])
        line = capsys.readouterr().out
        assert line.count("\n") == 1
        return code, json.loads(line)

    assert report("append", str(here / "in.ndjson"))[1]["records"] == 2
    code, refused = report("append", str(here / "bad.ndjson"))
    assert (code, refused["error"], refused["problems"][0]["line"]) == (2, "INVALID_RECORD", 3)
    assert report("merge", "--max-records", "1")[1]["inserted"] == 2
    again = report("merge")
    assert (again[0], again[1]["version"]) == (0, None)
    assert report("merge", "--root", str(here / "elsewhere"))[0] == 5


def test_demo_shows_what_it_says_and_its_next_commands_work(
    spark: SparkSession, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = cli(["demo", "--into", str(tmp_path / "demo")])

    assert (answer.code, answer.err) == (0, "")
    assert answer.out.count("2f6b5feb") == 2, "the late change has not replaced the newer one"
    assert "merged 1 record into version 2: 0 inserted, 0 updated, 0 deleted, 1 late" in answer.out
    counts = re.findall(r"^files\n─+\n +(\d+)$", answer.out, re.MULTILINE)
    assert counts == ["130", "82"], "130 files today (as in the repository), 82 at version 1"
    assert re.search(r"^files +6034 +436 +130 +306 +\[0, 6034\) ", answer.out, re.MULTILINE)

    monkeypatch.chdir(tmp_path / "demo")
    assert answer.out.count("\n  lakelog ") == len(demo.NEXT)
    monkeypatch.setattr(Settings, "open_lake", lambda self: pytest.fail("Spark was asked"))
    for command in re.findall(r"^  lakelog (.*)$", answer.out, re.MULTILINE):
        following = cli(command)
        assert (following.code, following.err) == (0, ""), command
        assert following.out
    monkeypatch.chdir(tmp_path)
    first = next(block for block in BLOCKS if block.mark == "after: demo")
    for command, shown in commands(first.text):
        following = cli(command.removeprefix(".venv/bin/lakelog "))
        assert same(shown, following.out + following.err), following
    assert cli(["demo", "--into", str(tmp_path / "demo")]).code == 2
