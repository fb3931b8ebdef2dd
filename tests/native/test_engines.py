"""Both engines asked about the same files: what they print, to the octet, and the errors they name."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.conftest import Answer, Clock
from tests.native import topics
from tests.native.damages import DAMAGES, damaged

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.long

# The topic whose types were widened.
WIDENED = "wide"
ALL = ("topic list", "topic list --json", "lake describe", "lake describe --json", "status", "status --json", "snapshot list", "lag")
EACH = (
    "topic describe {0}", "topic describe {0} --json", "status {0} --json", "latest {0}", "latest {0} --json", "latest {0} --format json",
    "latest {0} --format csv", "latest {0} --deleted --json", "latest {0} --at 0 --json", "latest {0} --at 1 --json", "latest {0} --limit 2",
    "latest {0} --limit 0 --json", "read {0}", "read {0} --json", "read {0} --format json", "read {0} --format csv",
    "read {0} --partition 0 --offset 1 --limit 2 --json", "read {0} --offset 2 --json", "snapshot list {0}", "snapshot list {0} --json",
    "snapshot describe {0} latest", "snapshot describe {0} first --json", "latest {0} --at first --json", "latest {0} --at latest --deleted --json",
    "lag {0}", "lag {0} --json", "lag {0} --cleaning --json",
)  # fmt: skip
# What is refused.
REFUSED = (
    "read {0} --partition 99 --json", "read {0} --offset 999999 --json", "read {0} --partition 0 --offset 999999 --json", "latest nope --json",
    "topic describe Nope --json", "read nope --json", "status nope --json", "latest {0} --at 2001-01-01 --json", "latest {0} --at tomorrow --json",
    "latest {0} --at 9999-01-01 --json", "latest {0} --format nope",
)  # fmt: skip
UNREADABLE = ("latest {0} --at 99 --json", "latest {0} --at 99999999999999999999 --json")
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


def test_both_print_the_same(cli: Callable[..., Answer], many_topics: Path) -> None:
    names = cli(f"--root {many_topics} topic list").out.split()
    assert len(names) > 12
    wrong = []
    alike = [name for name in names if name != WIDENED]
    ours = [command for command in ALL if "status" not in command and command != "lag"]
    for command in [*ours, *(one.format(name) for name in alike for one in EACH), *(one.format("every") for one in REFUSED)]:
        native, through_spark = both(cli, many_topics, command)
        if told(native) != told(through_spark):
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
    import os

    for name in ("every", "many", "vectors"):
        log = many_topics / name / "silver" / "_delta_log"
        for file in sorted(log.glob("*.json")):
            at = os.stat(file).st_mtime_ns // 1_000_000 + 1
            from datetime import datetime, timezone

            text = datetime.fromtimestamp(at / 1000, tz=timezone.utc).isoformat()
            native, through_spark = both(cli, many_topics, f"latest {name} --at {text} --json")
            assert told(native) == told(through_spark)


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
        if named(native) != named(through_spark):
            wrong.append(f"{command}: native {named(native)} {native.out[:300]}, spark {named(through_spark)} {through_spark.out[:300]}")
        elif native.code == 0 and told(native) != told(through_spark):
            wrong.append(f"{command}: native {json.dumps(native.out[:300])}, spark {json.dumps(through_spark.out[:300])}")
    assert not wrong, "\n".join(wrong)
