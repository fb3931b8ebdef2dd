"""The doctor names what is wrong and what to do, with nothing but the core wheel installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path

import pytest

from lakelog.cli import doctor
from lakelog.terminal.settings import Settings
from tests.conftest import Answer

CORE_ONLY = """
import sys
for name in ("pyspark", "delta", "pandas", "pyarrow", "great_expectations"):
    sys.modules[name] = None
from lakelog.cli.main import main
sys.exit(main(["doctor"]))
"""


def java_home(folder: Path, answer: str) -> str:
    """A JAVA_HOME whose java says which version it is."""
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "java").write_text(f"#!/bin/sh\necho '{answer}' >&2\n")
    (folder / "bin" / "java").chmod(0o755)
    return str(folder)


@pytest.mark.parametrize(
    ("answer", "state", "found"),
    [
        ('openjdk version "17.0.9" 2023-10-17', "ok", "17"),
        ('openjdk version "21" 2023-09-19', "ok", "21"),
        ('openjdk version "11.0.2" 2019-01-15', "fail", "version 11"),
        ('java version "1.8.0_392"', "fail", "version 8"),
        ('openjdk version "25.0.1" 2025-10-21', "fail", "version 25"),
        ("no version at all", "fail", "not a working Java"),
    ],
)
def test_java_must_be_17_or_21(answer: str, state: str, found: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", java_home(tmp_path / "jdk", answer))

    check = doctor.java()

    assert check.state == state
    assert found in check.found
    assert ("JDK 17 or 21" in check.todo) == (state == "fail")


def test_missing_java_is_told_apart_from_a_wrong_java_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    assert "holds no bin/java" in doctor.java().found

    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "no java on the PATH" in doctor.java().found


def test_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    there = metadata.version

    def version(name: str) -> str:
        if name == "delta-spark":
            raise metadata.PackageNotFoundError(name)
        return "3.9.9" if name == "pyspark" else there(name)

    monkeypatch.setattr(metadata, "version", version)
    found = {check.name: check for check in doctor.packages()}

    assert (found["delta-spark"].state, found["delta-spark"].todo) == ("fail", "pip install 'lakelog[local]'")
    assert found["pyspark"].state == "warn"
    assert doctor.jars().state == "fail"


def test_jars_that_are_not_fetched_yet_are_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKELOG_CACHE", str(tmp_path))

    assert (doctor.jars().state, "once" in doctor.jars().todo) == ("warn", True)


@pytest.mark.parametrize("root", ["s3a://bucket/lake", "s3://bucket/lake"])
def test_plain_s3_cannot_arbitrate_two_writers(root: str) -> None:
    scheme = root.partition(":")[0]
    plain = {check.name: check for check in doctor.lake(Settings(root=root))}
    store = {f"spark.delta.logStore.{scheme}.impl": "io.delta.storage.S3DynamoDBLogStore"}
    configured = {check.name: check for check in doctor.lake(Settings(root=root, spark=store))}

    assert plain["two writers"].state == "warn"
    assert "one process" in plain["two writers"].todo
    assert configured["two writers"].state == "ok"


def test_root_is_a_lake_or_could_become_one_or_is_neither(tmp_path: Path) -> None:
    def found(root: Path | None) -> tuple[str, str]:
        check = next(check for check in doctor.lake(Settings(root=str(root) if root else None)) if check.name == "root")
        return check.state, check.found

    (tmp_path / "lake" / "_lakelog" / "runs" / "_delta_log").mkdir(parents=True)
    (tmp_path / "empty").mkdir()
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").touch()

    assert found(tmp_path / "lake") == ("ok", f"{tmp_path / 'lake'} is a lake")
    assert found(tmp_path / "empty")[0] == "ok"
    assert found(tmp_path / "new")[0] == "ok"
    assert found(tmp_path / "photos")[0] == "fail"
    assert found(None)[0] == "warn"


def test_doctor_needs_nothing_but_the_core_wheel(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent.parent)}
    answer = subprocess.run([sys.executable, "-c", CORE_ONLY], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    assert answer.stderr == ""
    assert "java" in answer.stdout


def test_broken_settings_are_a_finding(cli: Callable[..., Answer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lakelog.toml").write_text('roto = "./lake"\n')
    monkeypatch.chdir(tmp_path)

    answer = cli("doctor --json")
    found = json.loads(answer.out)

    assert (answer.code, found["ok"]) == (2, False)
    assert "Did you mean root?" in found["checks"][-1]["found"]


@pytest.mark.parametrize("inherited", [(), ("SPARK_CONNECT_MODE_ENABLED", "SPARK_LOCAL_REMOTE"), ("SPARK_API_MODE", "SPARK_REMOTE")])
def test_why_java_did_not_start_is_told(inherited: Sequence[str]) -> None:
    """Java is started whatever a parent with a session of Spark Connect leaves in the environment."""
    script = "from lakelog import local_session; local_session(memory='lots')"
    environment = {**os.environ, **dict.fromkeys(inherited, "connect")}
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=False)

    assert "NotReady: Spark did not start: " in answer.stderr
    assert "Invalid maximum heap size: -Xmxlots." in answer.stderr


@pytest.mark.long
def test_a_mode_of_connect_in_the_environment_starts_java_all_the_same() -> None:
    """``bin/pyspark`` hands it to its children; an installed pyspark-connect package has the same effect."""
    script = "from lakelog import local_session; spark = local_session(); print(spark.range(3).count(), spark.sparkContext.master)"
    environment = {**os.environ, "SPARK_CONNECT_MODE": "1"}
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=False)

    assert answer.stdout == "3 local[*]\n", answer.stderr


@pytest.mark.usefixtures("spark")
def test_spark_writes_and_reads_a_delta_table(cli: Callable[..., Answer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    answer = cli("doctor --spark --root ./lake")

    assert answer.code == 0
    assert "wrote and read a Delta table" in answer.out
    assert list(tmp_path.iterdir()) == []
