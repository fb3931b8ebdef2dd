"""Operations cut off before any of their commits, in this process; `tests/races` does it with kill -9.

The steps are taken from a traced run: every commit takes the lock of its table once.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakelog import Lake
from lakelog.delta import statement
from lakelog.delta.lock import held
from lakelog.snapshots import maintain
from tests.conftest import NOON
from tests.races.operations import OPERATIONS
from tests.races.operations.append import gated, split
from tests.races.operations.snapshots import named
from tests.races.operations.state import MERGED, WAITING, create, records

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAMES = ("snapshot", "truncate", "keep", "maintain", "aside", "aside_without_token", "requeue")


class CutOff(BaseException):
    """The process is gone."""


def run(lake: Lake, name: str, stop: int | None, patch: pytest.MonkeyPatch) -> int:
    """Run an operation up to a step (None: all). Returns how many steps it made or began."""
    steps, inside = 0, 0

    @contextlib.contextmanager
    def stepped(*given: Any, **more: Any) -> Iterator[None]:
        nonlocal steps, inside
        if not inside:
            steps += 1
            if steps == stop:
                raise CutOff
        inside += 1
        try:
            with held(*given, **more):
                yield
        finally:
            inside -= 1

    with patch.context() as patched, contextlib.suppress(CutOff):
        patched.setattr(statement, "held", stepped)
        patched.setattr(maintain, "held", stepped)
        OPERATIONS[name].call(lake)
    return steps


def template(spark: SparkSession, folder: Path, name: str) -> Path:
    """The lake that an operation begins with."""
    made = Lake(spark, str(folder / "template"), clock=lambda: NOON)
    if OPERATIONS[name].template == "named":
        named(made)
        return folder / "template"
    if OPERATIONS[name].template in ("gated", "aside"):
        gated(made)
        if OPERATIONS[name].template == "aside":
            split(made)
        return folder / "template"
    topic = create(made)
    topic.append(records(MERGED))
    topic.merge()
    topic.append(records(WAITING))
    return folder / "template"


def gone_on(spark: SparkSession, folder: Path, name: str, step: int, other_first: bool, patch: pytest.MonkeyPatch) -> str | None:
    """Cut an operation off before a step, go on by the same call or by another verb first, and tell what is wrong then."""
    copy = shutil.copytree(folder / "template", folder / str(step))
    run(Lake(spark, str(copy), clock=lambda: NOON), name, step, patch)
    operation = OPERATIONS[name]
    try:
        operation.afterwards(operation, Lake(spark, str(copy), clock=lambda: NOON), other_first, step != 1)
    except Exception as error:
        return f"{name}, step {step}, {'another verb' if other_first else 'the same'} first: {type(error).__name__}: {error}"
    return None


@pytest.mark.long
def test_a_restore_cut_off_between_bronze_and_silver_is_finished_by_the_next_append(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log is cut, the latest table is still the old one."""
    template(spark, tmp_path, "truncate")
    # The intent, the quarantine made, its records, bronze cut; then silver.
    assert gone_on(spark, tmp_path, "truncate", 5, True, monkeypatch) is None


# In the long suite real processes are killed at the same steps (tests/races), in half the time.
@pytest.mark.soak
@pytest.mark.parametrize("name", NAMES)
def test_every_step(name: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = template(spark, tmp_path, name)
    traced = shutil.copytree(folder, tmp_path / "traced")
    steps = run(Lake(spark, str(traced), clock=lambda: NOON), name, None, monkeypatch)
    least = {"snapshot": 3, "truncate": 7, "keep": 4, "maintain": 6, "aside": 4, "aside_without_token": 4, "requeue": 4}
    assert steps >= least[name]
    wrong = [gone_on(spark, tmp_path, name, step, step % 2 == 0, monkeypatch) for step in range(1, steps + 1)]
    assert [one for one in wrong if one] == []
