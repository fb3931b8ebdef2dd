"""The package ships its types: a user's own script passes mypy --strict."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
SCRIPT = """
from pyspark.sql import DataFrame

from lakelog import Appended, ExpectedOffsetMismatch, Lake, Merged, local_session


def run(root: str) -> DataFrame:
    lake = Lake(local_session(), root)
    orders = lake.create_topic("orders", key="order_id BIGINT", value="status STRING", config={"segment.ms": 5000})
    try:
        done: Appended = orders.append([{"key": {"order_id": 1}, "value": {"status": "new"}}], expected_offset={0: 0})
    except ExpectedOffsetMismatch as error:
        print(error.partition, error.expected, error.to_dict()["error"])
        raise
    merged: Merged = orders.merge()
    print(done.offsets[0][1], merged.version, repr(lake), orders.status().partitions[0].log_end_offset)
    return orders.latest().join(lake.sql("SELECT order_id FROM orders"), "order_id")
"""
WRONG = "from lakelog import Lake\n\n\ndef run(lake: Lake) -> int:\n    return lake.topic('orders').merge(rebuild='yes').version\n"


def check(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    (folder / "script.py").write_text(text)
    return subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "script.py"],
        cwd=folder, env={**os.environ, "MYPYPATH": "", "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_a_users_script_is_checked_strictly(tmp_path: Path) -> None:
    assert (ROOT / "lakelog" / "py.typed").is_file()
    right = check(tmp_path, SCRIPT)
    assert right.returncode == 0, right.stdout + right.stderr
    wrong = check(tmp_path, WRONG).stdout
    assert 'Argument "rebuild" to "merge" of "Topic" has incompatible type "str"' in wrong
    assert "Incompatible return value type" in wrong
