"""How jobs are called and how they end: an exit code for schedulers, a return or an exception for Databricks; the session that is there."""

from __future__ import annotations

import datetime
import inspect
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lakelog import Conflict, InvalidRequest, Refused
from lakelog.cleaning_results import Cleaned, PartitionCleaning
from lakelog.delta import session
from lakelog.job import entry
from lakelog.job.entry import JobFailed, main, run
from lakelog.job.parameters import VERBS, parse
from lakelog.job.verbs import _VERBS
from lakelog.quality import judgement
from lakelog.quality_results import Finding, Verdict
from lakelog.sources.configured import DirectorySource
from lakelog.sources.kafka_source import KafkaSource
from lakelog.terminal.settings import Settings

ROOT = Path(__file__).parent.parent.parent
# What a test gives the two shells: a lake whose topic answers, or refuses, without Spark.
FAKE = """
from types import SimpleNamespace
from lakelog.terminal.settings import Settings
from lakelog.errors import Conflict
class Topic:
    def merge(self, **_): return SimpleNamespace(to_json=lambda: '{"version": 1}')
    def maintain(self): raise Conflict("Another writer won.")
Settings.open_lake = lambda self: SimpleNamespace(topic=lambda name: Topic())
"""


def cleaned(*stopped: tuple[str, int]) -> Cleaned:
    """What a clean answers whose first partitions were stopped, each by an error and its exit code."""
    partitions = [PartitionCleaning(index, True, "forced", 0, 0, 0, 0, 0, 0, 0.0, 0, error=text, error_code=code)
                  for index, (text, code) in enumerate(stopped)]  # fmt: skip
    return Cleaned("orders", False, partitions, 0, 0, 0, 0, 0, None)


def verdict(*outcomes: tuple[str, str]) -> Verdict:
    """What an audit answers that found this of each rule: (severity, outcome)."""
    findings = [
        Finding(f"rule_{index}", "expect_rows_to_satisfy", severity, outcome, "it holds", "seen")
        for index, (severity, outcome) in enumerate(outcomes)
    ]
    noon = datetime.datetime(2026, 5, 6, 12, tzinfo=datetime.timezone.utc)
    return Verdict("f" * 32, "orders", "table", judgement.outcome(findings), findings, "d" * 64, noon, 7)


class Topic:
    """Answers every verb; fails as it is told."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.called: dict[str, Any] = {}
        self.verdict, self.stopped = verdict(), cleaned().failure

    def __getattr__(self, verb: str) -> Any:
        def answer(*given: Any, **options: Any) -> Any:
            self.called[verb] = (given, options)
            if self.error:
                raise self.error
            return self.verdict if verb == "check" else SimpleNamespace(to_json=lambda: json.dumps({"did": verb}), failure=self.stopped)

        return answer


@pytest.fixture
def topic(monkeypatch: pytest.MonkeyPatch) -> Iterator[Topic]:
    """The topic of every lake that is opened."""
    one = Topic()
    monkeypatch.setattr(Settings, "open_lake", lambda self: SimpleNamespace(topic=lambda name: one))
    hook = sys.excepthook
    yield one
    assert sys.excepthook is hook


def test_every_verb_has_parameters_a_job_and_an_action() -> None:
    assert set(VERBS) == {"run", *_VERBS} == {path.stem for path in (ROOT / "jobs").glob("*.py")}


def test_the_entry_point_returns_after_one_line(
    topic: Topic, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["merge", "--topic", "orders", "--max-records", "5"]) is None
    assert capsys.readouterr().out == '{"did": "merge"}\n'
    assert topic.called["merge"] == ((), {"max_records": 5, "rebuild": False})
    assert main(["append", "--topic=orders", "--token=t", "a.ndjson", "b.ndjson"]) is None
    assert topic.called["append"][0] == (["a.ndjson", "b.ndjson"],)
    for name in ("a.ndjson", "b.ndjson"):
        (tmp_path / name).write_text(name)
    assert main(["append", "--topic=orders", f"{tmp_path}/*.ndjson"]) is None
    assert topic.called["append"][0] == ([f"{tmp_path}/a.ndjson", f"{tmp_path}/b.ndjson"],)
    token = topic.called["append"][1]["token"]
    assert token.text.startswith("a.ndjson:2:")
    # It is of these files as they are now.
    token.require_unchanged()
    (tmp_path / "b.ndjson").write_text("b.ndjson, and more")
    with pytest.raises(Refused, match=r"b\.ndjson was changed while it was read"):
        token.require_unchanged()
    taken: list[Any] = []
    monkeypatch.setattr("lakelog.sources.append.append_from", lambda topic, sources: taken.extend(sources) or [])
    assert main(["append", "--topic=orders", "--from=/in/", "--from", "kafka://b:1/t", "--format=csv"]) is None
    assert taken == [DirectorySource("/in", format="csv"), KafkaSource("t", "b:1")]
    taken.clear()
    assert main(["append", "--topic=orders", "--from", "kafka://b:1/t", "--mirror", "--decode=key=json,value=debezium"]) is None
    assert taken == [KafkaSource("t", "b:1", mirror=True, decode={"key": "json", "value": "debezium"})]
    about_kafka = (["--mirror", "--from=/in"], ["--decode=key=json", "a.ndjson"], ["--mirror", "a.ndjson"])
    for wrong in (["--from=/in", "a.ndjson"], ["--from=/in", "--token=t"], ["--token=t"], [], *about_kafka):
        with pytest.raises(JobFailed, match="INVALID_REQUEST"):
            main(["append", "--topic=orders", *wrong])
    assert main(["restore", "--topic=orders", "--to=friday", "--dry-run"]) is None
    assert topic.called["restore"] == (("friday",), {"log": "truncate", "dry_run": True, "unless_there": True})
    assert main(["merge", "--help"]) is None


def test_the_entry_point_raises_with_name_and_code(topic: Topic, capsys: pytest.CaptureFixture[str]) -> None:
    topic.error = Conflict("Another writer won.")
    with pytest.raises(JobFailed, match=r"^CONFLICT \(exit code 75\): Another writer won\.$") as caught:
        main(["merge", "--topic", "orders"])
    assert (caught.value.error, caught.value.exit_code) == ("CONFLICT", 75)
    assert json.loads(capsys.readouterr().out)["retry"] is True
    topic.error = InvalidRequest("delimiter=';;': it is one character, or run merge(rebuild=True).")
    with pytest.raises(JobFailed, match=r"--delimiter ';;': it is one character, or run `lakelog merge orders --rebuild`\.$"):
        main(["merge", "--topic", "orders"])
    assert json.loads(capsys.readouterr().out)["message"].startswith("--delimiter ';;'")
    topic.error = ZeroDivisionError("never")
    with pytest.raises(JobFailed, match=r"^UNEXPECTED \(exit code 1\): ZeroDivisionError: never$") as caught:
        main(["merge", "--topic", "orders"])
    assert caught.value.__cause__ is topic.error
    topic.error, topic.stopped = None, cleaned(("no room", 75)).failure
    with pytest.raises(JobFailed, match=r"^CONFLICT \(exit code 75\): orders: not every .* partition 0: no room"):
        main(["clean", "--topic", "orders"])
    topic.stopped = cleaned(("other writers were first", 75), ("a file is missing", 70)).failure
    with pytest.raises(JobFailed, match=r"^DAMAGED \(exit code 70\): .* partition 1: a file is missing"):
        main(["clean", "--topic", "orders"])


@pytest.mark.parametrize(
    ("outcomes", "name", "rules"),
    [
        (
            [("critical", "failed"), ("warning", "failed"), ("critical", "passed")],
            "GATE_FAILED",
            r"rule_0 \(seen\) failed\. Correct the records",
        ),
        ([("critical", "failed"), ("warning", "broken")], "GATE_BROKEN", r"rule_1 \(seen\) could not be evaluated\. Correct the suite"),
    ],
)
def test_an_audit_that_did_not_pass_says_whether_it_failed_or_is_broken(
    outcomes: list[tuple[str, str]], name: str, rules: str, topic: Topic, capsys: pytest.CaptureFixture[str]
) -> None:
    topic.verdict = verdict(*outcomes)
    with pytest.raises(JobFailed, match=rf"^{name} \(exit code 3\): orders: .* audit at version 7 says {name[5:].lower()}: {rules}"):
        main(["check", "--topic", "orders"])
    assert run("check", ["--topic", "orders"]) == 3
    assert [json.loads(line)["outcome"] for line in capsys.readouterr().out.splitlines()] == [name[5:].lower()] * 2


def test_an_audit_with_warnings_alone_is_no_failure(topic: Topic, capsys: pytest.CaptureFixture[str]) -> None:
    topic.verdict = verdict(("warning", "failed"), ("info", "failed"))
    assert run("check", ["--topic", "orders"]) == 0
    assert json.loads(capsys.readouterr().out)["outcome"] == "passed"


def test_jobs_end_with_the_code_of_the_same_outcome(topic: Topic, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("maintain", ["--topic", "orders"]) == 0
    topic.verdict = verdict(("critical", "failed"))
    assert run("check", ["--topic", "orders"]) == 3
    topic.error = Conflict("Another writer won.")
    assert run("maintain", ["--topic", "orders"]) == 75
    assert [json.loads(line).get("error") for line in capsys.readouterr().out.splitlines()] == [None, None, "CONFLICT"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "VERB"),
        (["sweep", "--topic", "orders"], "sweep"),
        (["merge"], "--topic"),
        (["merge", "--topic="], "the value is empty"),
        (["merge", "--topic", "orders", "--max", "5"], "--max"),
        (["merge", "--topic", "orders", "--max-records", "few"], "--max-records"),
        (["restore", "--topic", "orders", "--to="], "the value is empty"),
        (["restore", "--topic", "orders", "--to", "x", "--log", "burn"], "burn"),
        (["run", "--topic", "orders", "--report", ""], "--report"),
    ],
)
def test_wrong_parameters_raise_and_never_end_the_process(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InvalidRequest, match=says):
        parse(arguments)
    with pytest.raises(JobFailed, match=r"^INVALID_REQUEST \(exit code 2\)"):
        main(arguments)
    assert json.loads(capsys.readouterr().out)["error"] == "INVALID_REQUEST"


def test_nothing_of_a_job_ends_the_process_or_sets_a_hook() -> None:
    for path in (ROOT / "lakelog" / "job").glob("*.py"):
        text = path.read_text(encoding="utf-8")
        for word in ("sys.exit(", "excepthook", "rich", "typer", "os._exit", "signal.signal"):
            assert word not in text, f"{path.name} has {word}"
    assert "Signals" not in inspect.getsource(entry.main), "handlers of signals are for processes that a scheduler starts"


def test_within_ipython_a_good_job_returns_and_a_bad_one_raises() -> None:
    """Databricks runs a wheel's entry point there, and takes what the shell tells of an exception for the result."""
    pytest.importorskip("IPython", reason="IPython is not installed")
    script = (
        FAKE
        + """
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.run_cell("from lakelog.job.entry import main")
for cell in ('main(["merge", "--topic", "t"])', 'main(["merge", "--help"])', 'main(["maintain", "--topic", "t"])', 'main(["merge"])'):
    done = shell.run_cell(cell)
    print("RESULT", done.success, type(done.error_in_exec).__name__, done.error_in_exec)
print("STILL HERE")
"""
    )
    answer = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, env={"PYTHONPATH": str(ROOT), "HOME": "/tmp"}
    )
    results = [line for line in answer.stdout.splitlines() if line.startswith("RESULT")]
    assert results[:2] == ["RESULT True NoneType None"] * 2, answer.stdout + answer.stderr
    assert results[2] == "RESULT False JobFailed CONFLICT (exit code 75): Another writer won."
    assert results[3].startswith("RESULT False JobFailed INVALID_REQUEST (exit code 2): ")
    assert answer.stdout.endswith("STILL HERE\n")


def test_the_session_of_the_launcher_is_taken_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    import pyspark.sql

    made: list[str] = []

    class Builder:
        """A builder that may be asked for the session that is there, and for nothing else."""

        def getOrCreate(self) -> str:
            made.append("taken")
            return "the session"

    monkeypatch.setattr(pyspark.sql, "SparkSession", SimpleNamespace(getActiveSession=lambda: None, builder=Builder()))
    for variable in session.LAUNCHERS:
        assert session.launched_session({variable: "1"}) == "the session"
    assert session.launched_session({}) is None
    assert made == ["taken", "taken"]

    monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", "client.5.0")
    monkeypatch.setattr("lakelog.terminal.settings.local_session", lambda **_: pytest.fail("a session was built"))
    assert Settings(root="main.lakelog", spark={"spark.x": "1"}).open_session() == "the session"
