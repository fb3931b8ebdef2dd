"""kill -9 at every step of what takes several tables, or none: snapshots, restores, cleaning, erasure, readers, exports."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.races.kills import wrong_after

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize("sample", [pytest.param(True, marks=pytest.mark.long), pytest.param(False, marks=pytest.mark.soak)])
@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("group", ["snapshots", "readers", "cleaning"])
def test_operations_killed_at_every_step(spark: SparkSession, tmp_path: Path, group: str, sample: bool) -> None:
    """The next writing verb of anyone finishes what was begun, or it is as if nothing had been; an erased key is gone everywhere."""
    assert wrong_after(spark, tmp_path, group, sample=sample) == []
