"""The conditional suite over Spark Connect: the public API is enough, no Java within reach. A process of its own, for the session's kind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.long
def test_the_conditional_suite_passes_over_spark_connect() -> None:
    environment = {**os.environ, "LAKELOG_TEST_SESSION": "connect"}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-n", "0", "tests/log/test_append_terms.py"],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=3000,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert " passed" in done.stdout
