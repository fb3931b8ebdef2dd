"""The conditional suite over Spark Connect: the public API is enough, no Java within reach. A process of its own, for the session's kind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


FOLDERS = sorted(
    folder.name for folder in (ROOT / "tests").iterdir() if list(folder.glob("test_*.py")) and folder.name not in ("house", "cluster")
)


def over_connect(*what: str) -> str:
    """What pytest says of some tests over Spark Connect, all of which passed."""
    environment = {**os.environ, "LAKELOG_TEST_SESSION": "connect"}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-n", "0", *what],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=4 * 3600,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    return done.stdout


@pytest.mark.long
def test_the_conditional_suite_passes_over_spark_connect() -> None:
    assert " passed" in over_connect("tests/log/test_append_terms.py")


@pytest.mark.soak
@pytest.mark.parametrize("folder", FOLDERS)
def test_the_whole_suite_passes_over_spark_connect(folder: str) -> None:
    """All tests but those marked as classic, each with its reason; a server for each folder."""
    assert " passed" in over_connect("-m", "not soak", f"tests/{folder}", "--deselect", "tests/delta/test_connect.py")
