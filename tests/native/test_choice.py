"""Who reads a lake: this process or Spark, by what `--engine` says and by where the lake lies. Nothing is opened here."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest
import typer

from lakelog.cli.main import app
from lakelog.errors import UNSUPPORTED_FEATURE, InvalidRequest, LakelogError, NotReady
from lakelog.terminal.root import chosen_engine
from lakelog.terminal.settings import Settings
from tests.conftest import Answer

ELSEWHERE = {"spark.hadoop.fs.defaultFS": "hdfs://names:8020"}
CATALOG, UNKNOWN = "a catalog is known to Spark alone", "delta-rs does not know {}://"
# A root, Spark's settings, who reads it by itself, and why it cannot be read natively.
ROOTS: list[tuple[str, dict[str, str], str, str]] = [
    ("/data/lake", {}, "native", ""),
    ("/data/lake", ELSEWHERE, "spark", "lies in Spark's default file system, which the settings say is another"),
    ("file:///data/lake", {}, "native", ""),
    ("file:///data/lake", ELSEWHERE, "native", ""),
    ("s3a://bucket/lake", {}, "spark", ""),
    ("s3://bucket/lake", {}, "spark", ""),
    ("abfss://c@a.dfs.core.windows.net/lake", {}, "spark", ""),
    ("gs://bucket/lake", {}, "spark", ""),
    ("hdfs://names/lake", {}, "spark", UNKNOWN.format("hdfs")),
    ("dbfs-like://x/lake", {}, "spark", UNKNOWN.format("dbfs-like")),
    ("/data/50%25", {}, "spark", "delta-rs takes % in the name of a folder for part of an address"),
    ("main.sales", {}, "spark", CATALOG),
    ("sales", {}, "spark", CATALOG),
]
# Every command that takes --engine, as it may be called on a topic orders.
READING = (
    "topic list", "topic describe orders", "lake describe", "snapshot list", "snapshot describe orders first", "read orders", "latest orders",
    "lag orders", "status orders",
)  # fmt: skip


@pytest.mark.parametrize(("root", "spark", "auto", "why"), ROOTS)
def test_who_reads_follows_from_the_root(root: str, spark: dict[str, str], auto: str, why: str) -> None:
    settings = Settings(root=root, spark=spark)
    assert chosen_engine(settings, "auto") == auto
    assert chosen_engine(settings, "spark") == "spark"
    if not why:
        assert chosen_engine(settings, "native") == "native"
        return
    with pytest.raises(NotReady) as refused:
        chosen_engine(settings, "native")
    assert str(refused.value).startswith(f"{root} cannot be read without Spark: ") and why in str(refused.value)
    assert str(refused.value).endswith(" Ask with --engine spark.")


@pytest.mark.parametrize("engine", ["auto", "native", "spark"])
def test_what_is_no_root_is_no_matter_of_the_engine(engine: str) -> None:
    with pytest.raises(InvalidRequest, match="is no root"):
        chosen_engine(Settings(root="my lake"), engine)
    with pytest.raises(InvalidRequest, match="--engine fast: must be one of auto, native, spark"):
        chosen_engine(Settings(root="/data/lake"), "fast")


def test_without_delta_rs_spark_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *more: None if name == "deltalake" else found(name, *more))
    settings = Settings(root="/data/lake")
    assert chosen_engine(settings, "auto") == "spark"
    with pytest.raises(NotReady, match=r"deltalake is not installed \(pip install 'lakelog\[native\]'\)"):
        chosen_engine(settings, "native")


class Opened(LakelogError):
    """Who was to open the lake."""


@pytest.fixture
def beyond(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[str]]:
    """A lake, as far as files tell; whoever opens it says so. What is put into the list is why delta-rs cannot read it."""
    why: list[str] = []
    for table in ("_lakelog/runs", "orders/bronze", "orders/silver"):
        (tmp_path / "lake" / table / "_delta_log").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)

    def natively(settings: Settings) -> NoReturn:
        if why:
            raise NotReady(why[0], name=UNSUPPORTED_FEATURE)
        raise Opened("", name="NATIVE")

    def by_spark(settings: Settings) -> NoReturn:
        raise Opened("", name="SPARK")

    monkeypatch.setattr(Settings, "open_native", natively)
    monkeypatch.setattr(Settings, "open_lake", by_spark)
    yield why


def with_engine() -> set[str]:
    """The commands whose --engine is auto, native or spark, by the command line itself."""

    def below(group: Any, names: tuple[str, ...] = ()) -> Iterator[str]:
        for name, command in group.commands.items():
            if hasattr(command, "commands"):
                yield from below(command, (*names, name))
            elif any(one.name == "engine" and one.default == "auto" for one in command.params):
                yield " ".join((*names, name))

    return set(below(typer.main.get_group(app)))


def test_the_engine_opens_the_lake(cli: Callable[..., Answer], beyond: list[str]) -> None:
    assert {next(one for one in with_engine() if f"{command} ".startswith(f"{one} ")) for command in READING} == with_engine()

    def opened(command: str) -> str:
        answer = cli(f"--root ./lake {command}")
        assert answer.out == "" and answer.err.count("\n") == 1
        return answer.err.partition("(")[2].partition(")")[0]

    asked = [*READING, *(one.removesuffix(" orders") for one in READING if one in ("lag orders", "status orders"))]
    for command in asked:
        found = [opened(f"{command}{engine}") for engine in ("", " --engine auto", " --engine native", " --engine spark")]
        assert found == ["NATIVE", "NATIVE", "NATIVE", "SPARK"], command
    assert [opened(f"sql 'SELECT 1'{engine}") for engine in ("", " --engine spark", " --engine duckdb")] == ["SPARK", "SPARK", "NATIVE"]
    for more in ("--since start", "--follow"):
        assert [opened(f"read orders {more}{engine}") for engine in ("", " --engine spark", " --engine native")] == [
            "SPARK",
            "SPARK",
            "NOT_READY",
        ]
    for root in ("s3a://bucket/lake", "s3://bucket/lake"):
        assert [opened(f"{command} --root {root} --engine native") for command in asked] == ["NATIVE"] * len(asked)
        assert opened(f"sql 'SELECT 1' --root {root} --engine duckdb") == "NATIVE"
        assert opened(f"status --root {root}") == "NOT_READY"


def test_what_delta_rs_cannot_read_spark_opens(cli: Callable[..., Answer], beyond: list[str]) -> None:
    beyond.append("a feature")
    for command in READING:
        found = [cli(f"--root ./lake {command} --engine {engine}").err.split()[1] for engine in ("auto", "native", "spark")]
        assert found == ["(SPARK):", f"({UNSUPPORTED_FEATURE}):", "(SPARK):"], command
