"""The house checks itself: lint, types, floors, banned calls, sizes. Each failure says what to do instead."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
# Imports go down this list; within a wing, to the left.
FLOORS: dict[str, tuple[str, ...]] = {
    "job": ("parameters", "verbs", "entry"),
    "cli": ("doctor", "demo", "statements", "shell", "topics", "snapshots", "quality", "readers", "running", "records", "queries", "main"),
    "terminal": ("words", "settings", "named", "root", "failure", "input", "progress", "output", "told", "standing", "rows", "context"),
    "page": ("table_reader", "growth", "overview", "charts", "page"),
    "running": ("interrupt", "steps", "report_files", "runs", "holder", "lease", "keeper", "provenance", "run"),
    "sources": ("secrets", "kafka_source", "configured", "directory", "table", "offsets", "kafka", "streaming", "append", "unconfigured"),
    "lake": ("query", "lake_table", "lake_topics", "lake_queries", "lake_snapshots", "lake_import", "lake"),
    "": ("latest_table", "reading", "retention", "writing", "topic", "commit_log"),
    "native": (
        "shapes", "rows", "stores", "commits", "opening", "table", "past", "inspection", "log", "latest", "snapshots", "lag", "topic", "query",
    ),
    "cleaning": (
        "plan", "checkpoint", "segments", "forgetting", "winners", "dropping", "tombstones", "planned", "clean", "retention", "roll", "contest",
        "explain", "receipt", "verbs",
    ),
    "transfer": ("manifest", "exports", "export", "load"),
    "operations": ("create", "configure", "delete", "missing", "replay", "repair", "upgrade", "truncate", "quotes", "erase", "intents"),
    "readers": ("validate", "read", "bootstrap", "positions", "lag"),
    "snapshots": ("registry", "keeping", "epochs", "point", "take", "plan", "restore", "maintain", "verbs"),
    "quality": (
        "rowwise", "suites", "folder", "judgement", "expectations", "engine", "conditions", "verdicts", "quarantine", "selection", "rivals", "requeue",
        "gate", "merge_gate", "audit", "pages", "profile", "verbs",
    ),
    "latest": (
        "erased", "control_rows", "progress", "fold", "compare", "fill", "silver", "upsert", "rebuild", "evolution", "merge", "views", "status",
        "recompute", "verify",
    ),
    "log": (
        "rows", "notes", "inspection", "batch_rows", "tail", "tokens", "ledger", "conditions", "guard", "state", "withdrawn", "cut", "terms", "bronze",
        "extent", "append", "bulk",
    ),
    "inputs": ("request", "plans", "identity", "sources", "kafka", "inference", "refusal", "screening", "groups", "staging", "directory", "keys"),
    "formats": ("texts", "files", "csv", "parquet", "arrow", "values", "variant", "ndjson", "fitting", "avro", "decoding"),
    "delta": (
        "prerequisites", "class_archive", "session", "stopping", "kafka", "errors", "location", "object_store", "lock", "statement",
        "commit_file", "commits", "table_properties", "filesystem", "frames", "tables",
        "small_table", "past",
    ),
    "model": (
        "names", "config", "kinds", "queries", "json_values", "records", "row_rules", "ordering", "topic_log", "expectations", "log_state",
        "segments", "mirroring", "steps", "snapshot_id", "point_in_time", "widening", "positions",
    ),
    "ground": ("errors", "arguments", "results", "status_results", "reader_results", "quality_results", "cleaning_results", "running_results"),
}  # fmt: skip
WINGS = list(FLOORS)
PLACE = {
    (f"{wing}." if wing not in ("", "ground") else "") + name: (-floor, index)
    for floor, (wing, names) in enumerate(FLOORS.items())
    for index, name in enumerate(names)
}
# Where rows come to the driver: bounded metadata behind the doors, and the printing of results.
COLLECTORS = (
    "inputs.plans", "delta.frames", "delta.tables", "delta.past", "delta.commits", "delta.filesystem", "delta.table_properties",
    "inputs.groups", "inputs.refusal", "inputs.screening", "inputs.staging",
    "log.tail", "log.tokens", "log.ledger", "log.withdrawn", "log.conditions", "log.inspection", "log.batch_rows", "log.bronze", "log.bulk",
    "latest.compare", "latest.fill", "latest.control_rows", "latest.upsert", "latest.status", "latest.recompute", "operations.missing",
    "operations.truncate", "cleaning.checkpoint", "cleaning.segments", "cleaning.winners", "cleaning.dropping", "cleaning.explain",
    "cleaning.forgetting", "cleaning.receipt",
    "readers.read", "readers.positions", "readers.lag",
    "snapshots.registry", "snapshots.plan", "snapshots.point", "log.extent",
    "quality.quarantine", "quality.verdicts", "quality.merge_gate", "quality.audit", "quality.profile", "quality.requeue",
    "quality.selection",    "quality.rivals", "quality.expectations",
    "log.cut", "latest.erased", "operations.erase", "operations.quotes", "transfer.exports",
    "running.lease", "page.table_reader", "delta.kafka", "sources.streaming", "lake.lake_table",
    "formats.arrow", "inputs.keys", "formats.csv", "inputs.inference", "formats.files", "terminal.rows",
)  # fmt: skip
BANNED_CALLS = {
    "get_type_hints": "inspect.signature with eval_str: Python 3.10 wraps what has the default None in another Optional, options are lost",
    "_jvm": "the public DataFrame and SQL API (Spark Connect has no JVM)",
    "_jsc": "the public DataFrame and SQL API (Spark Connect has no JVM)",
    "_jdf": "the public DataFrame and SQL API (Spark Connect has no JVM)",
    "_jsparkSession": "the public DataFrame and SQL API (Spark Connect has no JVM)",
    "_jconf": "spark.conf (Spark Connect has no JVM)",
    "rdd": "the DataFrame API",
    "sparkContext": "the session, or a setting of local_session",
    "cache": "delta.py's staging on disk, which is removed again",
    "persist": "delta.py's staging on disk, which is removed again",
    "foreach": "the DataFrame API, or collect in a file of COLLECTORS",
    "foreachPartition": "the DataFrame API, or collect in a file of COLLECTORS",
    "accumulator": "observe, or a figure of the commit",
    "newSession": "the session that lakelog was given (Spark Connect has no other)",
    "setLogLevel": "log4j2.properties, as in session.py",
    "setJobGroup": "spark.addTag, which Spark Connect knows too",
    "registerTempTable": "createOrReplaceTempView, under a name of its own",
    "createGlobalTempView": "createOrReplaceTempView, in the session of the caller",
    "createOrReplaceGlobalTempView": "createOrReplaceTempView, in the session of the caller",
    "toPandas": "show.frame, or collect in a file of COLLECTORS",
}
# What only a session of this machine has, in the files that may know it.
CLASSIC = {("delta.stopping", "sparkContext"), ("delta.stopping", "_jvm"), ("delta.session", "_jvm")}
BANNED_OPTIONS = {"inferSchema": "the types the topic declares", "mergeSchema": "Topic.configure(value=…)"}
# Of files that are read, not of tables that are written.
OF_READERS = {("formats.parquet", "mergeSchema")}
# Words within a text: paths that serverless sessions do not have.
BANNED_WORDS = {"dbfs:": "a volume: /Volumes/catalog/schema/volume", "/dbfs/": "a volume: /Volumes/catalog/schema/volume"}
# Arguments by name.
BANNED_KEYWORDS = {
    "processingTime": "trigger(availableNow=True): serverless streams know no other",
    "continuous": "trigger(availableNow=True)",
}
# Who may change a setting of the session, and goes on where it does not let itself be told.
SETTERS = ("delta.statement", "delta.commits", "delta.session")
BANNED_NAMES = ("utils", "util", "helpers", "common", "base", "core", "manager", "misc")
LINES_MOST, FUNCTION_MOST, JOB_MOST = 310, 60, 40
# Longer, with the reason; the number is where it ends.
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


def place(path: Path) -> str:
    """A file's name below lakelog/, dotted."""
    return ".".join(path.relative_to(ROOT / "lakelog").with_suffix("").parts) if "lakelog" in path.relative_to(ROOT).parts else path.stem


def own_imports(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The modules of lakelog that a module imports, for types only ones included, with the line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "lakelog":
            inside = str(node.module).partition(".")[2]
            for alias in node.names:
                dotted = f"{inside}.{alias.name}".strip(".")
                yield node.lineno, dotted if dotted in PLACE else inside
        elif isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name.removeprefix("lakelog.")) for alias in node.names if alias.name.startswith("lakelog."))


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
        if path.stem == "__init__" or path.parent.name == "jobs":
            continue
        mine = place(path)
        assert mine in PLACE, f"{mine} has no floor: put it into FLOORS"
        for line, name in own_imports(tree):
            if name in PLACE and not (
                PLACE[name][0] < PLACE[mine][0] or (PLACE[name][0] == PLACE[mine][0] and PLACE[name][1] < PLACE[mine][1])
            ):
                wrong.append(f"{mine}:{line} imports {name}: let {mine} be given it, or move what it needs down")
    assert not wrong, "\n".join(wrong)


def test_the_proof_shares_nothing_with_the_merge() -> None:
    """What `verify` computes again would be wrong in the same way if it were computed by the same code."""
    imported: dict[str, set[str]] = {}
    for path, tree in modules():
        imported.setdefault(place(path), set()).update(name for _, name in own_imports(tree))
    reached: set[str] = set()
    left = {"latest.recompute"}
    while left:
        reached |= left
        left = set().union(*(imported[name] for name in left)) - reached
    assert {"latest.silver", "latest.progress", "log.bronze"} <= reached
    assert not reached & {f"latest.{name}" for name in ("fold", "fill", "compare", "upsert", "merge")}


def test_a_wing_has_a_map_and_a_size_one_can_see() -> None:
    for wing, names in FLOORS.items():
        if wing not in ("", "ground"):
            doc = ast.get_docstring(ast.parse((ROOT / "lakelog" / wing / "__init__.py").read_text(encoding="utf-8"))) or ""
            missing = [name for name in names if f"{name}.py" not in doc]
            assert not missing, f"lakelog/{wing}/__init__.py does not say what {missing} are for"
            assert 3 <= len(names) <= 18, f"lakelog/{wing} has {len(names)} files"


def test_nothing_in_the_house_is_dead() -> None:
    for name in PLACE:
        assert (ROOT / "lakelog" / f"{name.replace('.', '/')}.py").is_file(), f"FLOORS names {name}, which is not there"
    imported = {name for _, tree in modules() for _, name in own_imports(tree)} | {"cli.main"}
    assert set(PLACE) <= imported


def is_setting(node: ast.AST) -> bool:
    """Whether a node is ``….conf.set`` or ``….conf.unset``."""
    return (
        isinstance(node, ast.Attribute)
        and node.attr in ("set", "unset")
        and isinstance(node.value, ast.Attribute)
        and node.value.attr == "conf"
    )


def test_banned_calls_are_not_made() -> None:
    wrong = []
    for path, tree in modules():
        for node in ast.walk(tree):
            where = f"{path.name}:{getattr(node, 'lineno', 0)}"
            if isinstance(node, ast.Attribute) and node.attr in BANNED_CALLS and (place(path), node.attr) not in CLASSIC:
                wrong.append(f"{where} .{node.attr}: use {BANNED_CALLS[node.attr]}")
            elif isinstance(node, ast.Attribute) and node.attr in ("collect", "toLocalIterator") and place(path) not in COLLECTORS:
                wrong.append(f"{where} .{node.attr}: rows come to the driver only in {', '.join(COLLECTORS)}")
            elif is_setting(node) and place(path) not in SETTERS:
                wrong.append(f"{where} conf.set: use statement.during, which goes on where the session refuses (serverless)")
            elif isinstance(node, ast.keyword) and node.arg in BANNED_KEYWORDS:
                wrong.append(f"{path.name}:{node.value.lineno} {node.arg}: use {BANNED_KEYWORDS[node.arg]}")
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and any(word in node.value for word in BANNED_WORDS):
                wrong += [f"{where} {word}: use {instead}" for word, instead in BANNED_WORDS.items() if word in node.value]
            elif isinstance(node, ast.Constant) and node.value in BANNED_OPTIONS and (place(path), node.value) not in OF_READERS:
                wrong.append(f"{where} {node.value}: use {BANNED_OPTIONS[str(node.value)]}")
    assert not wrong, "\n".join(wrong)


def test_files_and_functions_can_be_held_in_the_head() -> None:
    wrong = []
    for path, tree in modules():
        lines = len(path.read_text(encoding="utf-8").splitlines())
        most = JOB_MOST if path.parent.name == "jobs" else LINES_MOST
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
