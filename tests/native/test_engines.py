"""Both engines asked about the same files: what they print, to the octet, and the errors they name."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.conftest import Answer, Clock
from tests.native import topics
from tests.native.damages import DAMAGES, damaged, part

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.long

# The topic whose types were widened.
WIDENED = "wide"
ALL = (
    "topic list",
    "topic list --json",
    "lake describe",
    "lake describe --json",
    "status",
    "status --json",
    "snapshot list",
    "lag",
    "lag --json",
)
EACH = (
    "topic describe {0}", "topic describe {0} --json", "status {0}", "status {0} --json", "latest {0}", "latest {0} --json",
    "latest {0} --format json", "latest {0} --format csv",
    "latest {0} --deleted --json", "latest {0} --at 0 --json", "latest {0} --at 1 --json", "latest {0} --limit 2",
    "latest {0} --limit 0 --json", "read {0}", "read {0} --json", "read {0} --format json", "read {0} --format csv",
    "read {0} --partition 0 --offset 1 --limit 2 --json", "read {0} --offset 2 --json", "snapshot list {0}", "snapshot list {0} --json",
    "snapshot describe {0} latest", "snapshot describe {0} first --json", "latest {0} --at first --json", "latest {0} --at latest --deleted --json",
    "lag {0}", "lag {0} --json", "lag {0} --cleaning --json",
)  # fmt: skip
# What is refused.
REFUSED = (
    "read {0} --partition 99 --json", "read {0} --offset 999999 --json", "read {0} --partition 0 --offset 999999 --json", "latest nope --json",
    "topic describe Nope --json", "read nope --json", "status nope --json", "latest {0} --at 2001-01-01 --json", "latest {0} --at tomorrow --json",
    "latest {0} --at 9999-01-01 --json", "latest {0} --format nope", "latest {0} --at nope --json", "lag nope --json",
    "snapshot describe {0} nope --json", "snapshot list nope --json",
)  # fmt: skip
UNREADABLE = ("latest {0} --at 99 --json", "latest {0} --at 99999999999999999999 --json")
# What a topic without records, and one without a snapshot, cannot answer.
OF_RECORDS, OF_SNAPSHOTS = re.compile(r"--offset|--at 1"), re.compile(r"snapshot describe|--at (first|latest)")
# It is said how long a record has waited, by the machine's clock.
WAITING = re.compile(r'"(unmerged_)?age_ms": \d+|"time-since-last-run-ms": \d+|\b\d+ (d|h|min|s)\b')


@pytest.fixture(scope="module")
def many_topics(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake of topics of all types and layouts."""
    from lakelog import Lake

    clock = Clock()
    root = tmp_path_factory.mktemp("engines") / "lake"
    topics.build(Lake(spark, str(root), clock=clock), clock)
    return root


@pytest.fixture(scope="module")
def sound(many_topics: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same lake without what delta-rs cannot read."""
    names = [folder.name for folder in many_topics.iterdir() if folder.name not in ("_lakelog", WIDENED)]
    return part(many_topics, tmp_path_factory.mktemp("sound") / "lake", *names)


def both(cli: Callable[..., Answer], root: Path, command: str) -> tuple[Answer, Answer]:
    """A command's answers natively and through Spark."""
    found = [cli(f"--root {root} {command} --engine {engine}") for engine in ("native", "spark")]
    return found[0], found[1]


def told(answer: Answer) -> tuple[int, str, str]:
    return answer.code, WAITING.sub("…", answer.out), WAITING.sub("…", answer.err)


def named(answer: Answer) -> tuple[int, str]:
    """Exit code, and the name of the error, if it is one."""
    found = re.search(r'"error": "(\w+)"', answer.out)
    return answer.code, found[1] if found else ""


def lacks(name: str, command: str) -> bool:
    """Whether a topic has not what a command asks for."""
    no_records = name in topics.EMPTY and OF_RECORDS.search(command) is not None
    return no_records or (name not in topics.WITH_SNAPSHOTS and OF_SNAPSHOTS.search(command) is not None)


def test_both_print_the_same(cli: Callable[..., Answer], sound: Path) -> None:
    names = cli(f"--root {sound} topic list").out.split()
    assert len(names) > 12
    asked = [(command, True) for command in ALL]
    asked += [(command.format(name), not lacks(name, command)) for name in names for command in EACH]
    asked += [(command.format("every"), False) for command in REFUSED]
    wrong = []
    for command, answered in asked:
        native, through_spark = both(cli, sound, command)
        if told(native) != told(through_spark) or (through_spark.code in (2, 5)) == answered or (through_spark.code == 0) != answered:
            wrong.append(f"{command}\n  native {told(native)}\n  spark  {told(through_spark)}")
    assert not wrong, "\n".join(wrong)[:20_000]


def test_what_native_cannot_read_spark_does(cli: Callable[..., Answer], many_topics: Path) -> None:
    """delta-rs does not know Delta's type widening: native says so, and auto asks Spark."""
    for command in ("status {0} --json", "latest {0} --json", "latest {0} --format csv", "read {0} --format json", "read {0} --format csv"):
        native, through_spark = both(cli, many_topics, command.format(WIDENED))
        assert native.code == 2 and "UNSUPPORTED_FEATURE" in native.out + native.err
        assert "--json" in command or native.out == ""
        assert told(cli(f"--root {many_topics} {command.format(WIDENED)}")) == told(through_spark)


def test_what_was_at_a_time_is_the_same(cli: Callable[..., Answer], many_topics: Path) -> None:
    for name in ("every", "many", "vectors"):
        log = many_topics / name / "silver" / "_delta_log"
        for file in sorted(log.glob("*.json")):
            at = file.stat().st_mtime_ns // 1_000_000 + 1
            text = datetime.fromtimestamp(at / 1000, tz=timezone.utc).isoformat()
            native, through_spark = both(cli, many_topics, f"latest {name} --at {text} --json")
            assert told(native) == told(through_spark)


@pytest.mark.parametrize("topic", ["every", "grown", "many"])
def test_views_hold_the_same_rows(cli: Callable[..., Answer], many_topics: Path, tmp_path: Path, topic: str) -> None:
    """The three views in both dialects: now, at a version, a snapshot's name and a time; and the name of what is not there."""
    root = part(many_topics, tmp_path / "lake", topic)
    first = root / topic / "silver" / "_delta_log" / f"{1:020}.json"
    time = datetime.fromtimestamp(first.stat().st_mtime_ns // 1_000_000 / 1000 + 0.001, tz=timezone.utc).isoformat()
    points = ["", "--at 0", "--at 1", f"--at {time}", *(["--at first"] if topic in topics.WITH_SNAPSHOTS else [])]
    rows = {}
    for view in (topic, f"{topic}_deleted", f"{topic}_log"):
        for point in points:
            command = f'sql "SELECT * FROM {view}" --format json {point}'
            native, through_spark = (cli(f"--root {root} {command} --engine {engine}") for engine in ("duckdb", "spark"))
            rows[view, point] = sorted(through_spark.out.splitlines())
            assert (native.code, sorted(native.out.splitlines()), native.err) == (0, rows[view, point], ""), command
        for point in ("--at 999", "--at 2001-01-01", "--at nope"):
            native, through_spark = (
                cli(f'--root {root} sql "SELECT * FROM {view}" --json {point} --engine {engine}') for engine in ("duckdb", "spark")
            )
            assert named(native) == named(through_spark) == (5, "SNAPSHOT_NOT_FOUND"), (view, point)
    assert rows[topic, ""] != rows[topic, "--at 1"] == rows[topic, f"--at {time}"] != rows[topic, "--at 0"] == []
    assert len(rows[f"{topic}_deleted", ""]) > 0 and len({tuple(rows[f"{topic}_log", point]) for point in points}) == 1


def test_a_version_that_is_not_there_has_the_same_name(cli: Callable[..., Answer], many_topics: Path) -> None:
    for command in UNREADABLE:
        native, through_spark = both(cli, many_topics, command.format("every"))
        assert told(native) == told(through_spark)
        assert named(native) == (5, "SNAPSHOT_NOT_FOUND")


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_has_the_same_name(cli: Callable[..., Answer], many_topics: Path, tmp_path: Path, damage: str) -> None:
    root = damaged(many_topics, tmp_path / "lake", "many", damage)
    wrong = []
    for command in ("status many --json", "latest many --json", "read many --json", "topic describe many --json", "topic list --json"):
        native, through_spark = both(cli, root, command)
        if named(native) != named(through_spark) or native.code not in (0, 2, 5, 70):
            wrong.append(f"{command}: native {named(native)} {native.out[:300]}, spark {named(through_spark)} {through_spark.out[:300]}")
        elif native.code == 0 and told(native) != told(through_spark):
            wrong.append(f"{command}: native {json.dumps(native.out[:300])}, spark {json.dumps(through_spark.out[:300])}")
    assert not wrong, "\n".join(wrong)
