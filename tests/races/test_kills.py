"""kill -9 at every step of what writes log and latest table, and somewhere in the middle of a commit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.races.kills import GOING_ON, GROUPS, gone_on, killed, wrong_after
from tests.races.operations import OPERATIONS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_every_operation_is_killed() -> None:
    assert sorted(name for group in GROUPS.values() for name in group) == sorted(OPERATIONS)


@pytest.mark.parametrize("sample", [pytest.param(True, marks=pytest.mark.long), pytest.param(False, marks=pytest.mark.soak)])
@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("group", ["appends", "latest", "topics"])
def test_operations_killed_at_every_step(spark: SparkSession, tmp_path: Path, group: str, sample: bool) -> None:
    """Whatever was cut off where: the same call again, or another verb, ends as if nothing had been."""
    assert wrong_after(spark, tmp_path, group, sample=sample) == []


@pytest.mark.parametrize("sign", [pytest.param(".parquet", marks=pytest.mark.soak), pytest.param(".json", marks=pytest.mark.long)])
def test_appends_killed_when_the_first_data_file_or_the_first_commit_is_there(spark: SparkSession, tmp_path: Path, sign: str) -> None:
    """The moments within a commit: data files without a commit, and a commit that nobody answered for."""
    modes = ["expected", "token", "plain", "bulk"]
    runs = [run for run in killed(spark, tmp_path, modes, sign=sign, share=0.1) if run[1] == GOING_ON]
    assert len(runs) == len(modes)
    assert [wrong for run in runs if (wrong := gone_on(spark, tmp_path, run))] == []
