"""The house checks itself: lint, types, floors, banned calls, sizes. Each failure says what to do instead."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
# Imports go down, or left on the same floor.
FLOORS = (
    ("errors", "failpoint"),
    ("results", "config", "records", "ordering", "condition", "segments", "steps", "table", "moment"),
    ("prerequisites", "session", "delta_errors", "statement", "commit_file", "table_properties", "filesystem", "delta"),
    (
        "ndjson",
        "sources",
        "refusal",
        "staging",
        "tail",
        "tokens",
        "conditional",
        "guard",
        "bronze",
        "appender",
        "bulk",
        "progress",
        "fold",
        "compare",
        "silver",
        "merger",
        "evolution",
        "views",
        "status",
        "verify",
        "identity",
    ),
    ("topic", "topic_tables", "commit_log", "lake_table", "lake"),
    ("settings", "show", "doctor", "demo", "call", "admin", "cli"),
)
PLACE = {name: (floor, index) for floor, names in enumerate(FLOORS) for index, name in enumerate(names)}
# Where rows come to the driver: bounded metadata behind the doors, and the printing of results.
COLLECTORS = (
    "delta",
    "table_properties",
    "refusal",
    "staging",
    "tail",
    "tokens",
    "conditional",
    "bronze",
    "bulk",
    "compare",
    "progress",
    "silver",
    "status",
    "verify",
    "lake_table",
    "show",
)
BANNED_CALLS = {
    "get_type_hints": "inspect.signature with eval_str: Python 3.10 wraps what has the default None in another Optional, options are lost",
    "_jvm": "the public DataFrame and SQL API (Spark Connect has no JVM)",
    "_jsc": "the public DataFrame and SQL API (Spark Connect has no JVM)",
    "_jdf": "the public DataFrame and SQL API (Spark Connect has no JVM)",
    "rdd": "the DataFrame API",
    "sparkContext": "the session, or a setting of local_session",
    "cache": "delta.py's staging on disk, which is removed again",
    "persist": "delta.py's staging on disk, which is removed again",
    "createGlobalTempView": "createOrReplaceTempView, in the session of the caller",
    "createOrReplaceGlobalTempView": "createOrReplaceTempView, in the session of the caller",
    "toPandas": "show.frame, or collect in a file of COLLECTORS",
}
BANNED_OPTIONS = {"inferSchema": "the types the topic declares", "mergeSchema": "Topic.configure(value=…)"}
BANNED_NAMES = ("utils", "util", "helpers", "common", "base", "core", "manager", "misc")
LINES_MOST, FUNCTION_MOST, JOB_MOST = 300, 60, 40
# Larger, with the reason; the number is where it ends.
LARGER_FILES: dict[str, tuple[int, str]] = {
    "topic": (320, "the verbs people call, half of it docstrings"),
    "cli": (330, "the verbs of the command line, a function each"),
}
LARGER_FUNCTIONS = {"local_session": (70, "a table of Spark settings")}
# Addresses of registries and paths of a machine, in pieces so that this file does not hold them.
FOREIGN = [
    "pypi" + ".org",
    "pythonhosted" + ".org",
    "repo1" + ".maven",
    "repo.maven" + ".apache",
    "maven" + ".org",
    "/" + "work/",
    "/" + "root/",
]


def modules() -> Iterator[tuple[Path, ast.Module]]:
    for path in [*sorted((ROOT / "lakelog").glob("**/*.py")), *sorted((ROOT / "jobs").glob("*.py"))]:
        yield path, ast.parse(path.read_text(encoding="utf-8"))


def own_imports(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The modules of lakelog that a module imports, for types only ones included, with the line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "lakelog":
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("lakelog."):
            yield node.lineno, str(node.module).split(".")[1]
        elif isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name.split(".")[1]) for alias in node.names if alias.name.startswith("lakelog."))


def run(*command: str) -> None:
    answer = subprocess.run([sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True, check=False)
    if answer.returncode:
        pytest.fail(answer.stdout + answer.stderr, pytrace=False)


def test_ruff_finds_nothing() -> None:
    run("ruff", "check", "--quiet", "--output-format", "concise", ".")


def test_mypy_strict_finds_nothing() -> None:
    run("mypy", "--no-error-summary")


def test_imports_go_down_the_floors() -> None:
    wrong = []
    for path, tree in modules():
        if path.parent.name == "lakelog" and path.stem != "__init__":
            assert path.stem in PLACE, f"{path.name} has no floor: put it into FLOORS"
            for line, name in own_imports(tree):
                if name in PLACE and (PLACE[name] >= PLACE[path.stem]):
                    wrong.append(f"{path.name}:{line} imports {name}: let {path.stem} be given it, or move what it needs down")
    assert not wrong, "\n".join(wrong)


def test_nothing_in_the_house_is_dead() -> None:
    for name in PLACE:
        assert (ROOT / "lakelog" / f"{name}.py").is_file(), f"FLOORS names {name}, which is not there"
    imported = {name for _, tree in modules() for _, name in own_imports(tree)} | {"cli"}
    assert set(PLACE) <= imported


def test_banned_calls_are_not_made() -> None:
    wrong = []
    for path, tree in modules():
        for node in ast.walk(tree):
            where = f"{path.name}:{getattr(node, 'lineno', 0)}"
            if isinstance(node, ast.Attribute) and node.attr in BANNED_CALLS:
                wrong.append(f"{where} .{node.attr}: use {BANNED_CALLS[node.attr]}")
            elif isinstance(node, ast.Attribute) and node.attr in ("collect", "toLocalIterator") and path.stem not in COLLECTORS:
                wrong.append(f"{where} .{node.attr}: rows come to the driver only in {', '.join(COLLECTORS)}")
            elif isinstance(node, ast.Constant) and node.value in BANNED_OPTIONS:
                wrong.append(f"{where} {node.value}: use {BANNED_OPTIONS[str(node.value)]}")
    assert not wrong, "\n".join(wrong)


def test_files_and_functions_can_be_held_in_the_head() -> None:
    wrong = []
    for path, tree in modules():
        lines = len(path.read_text(encoding="utf-8").splitlines())
        most = JOB_MOST if path.parent.name == "jobs" else LARGER_FILES.get(path.stem, (LINES_MOST, ""))[0]
        if lines > most:
            wrong.append(f"{path.name} has {lines} lines, at most {most}: a noun has a file, split it")
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                # A docstring may be as long as its reader needs.
                first = node.body[1] if ast.get_docstring(node) and len(node.body) > 1 else node.body[0]
                length = (node.end_lineno or node.lineno) - first.lineno + 1
                if length > LARGER_FUNCTIONS.get(node.name, (FUNCTION_MOST, ""))[0]:
                    wrong.append(f"{path.name}:{node.lineno} {node.name} has {length} lines, at most {FUNCTION_MOST}: name its steps")
    assert not wrong, "\n".join(wrong)


def test_modules_are_called_by_what_they_are() -> None:
    for path, _ in modules():
        assert path.stem not in BANNED_NAMES, f"{path.name}: a function lives with the noun it serves"


def test_jobs_hold_no_logic_and_are_in_the_schedule() -> None:
    schedule = (ROOT / "jobs" / "README.md").read_text(encoding="utf-8")
    for path, tree in modules():
        if path.parent.name == "jobs":
            functions = [node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
            assert functions == ["main"], f"{path.name}: logic belongs to topic.py"
            assert f"`{path.name}`" in schedule


def test_nothing_speaks_of_this_machine_or_of_a_registry() -> None:
    wrong = []
    for path in sorted(ROOT.rglob("*")):
        inside = path.relative_to(ROOT).parts
        if (
            path.suffix in {".py", ".md", ".toml", ".json", ".yml", ""}
            and path.is_file()
            and not re.match(r"\.(?!ci)|build|dist", inside[0])
        ):
            text = path.read_text(encoding="utf-8", errors="replace")
            wrong += [f"{'/'.join(inside)}: {word}" for word in FOREIGN if word in text]
    assert not wrong, "\n".join(wrong)
