"""``spark-submit`` with the wheel as a zip: the jobs run on the session that it configured, and executors import lakelog from the zip."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyspark
import pytest

from lakelog.delta.prerequisites import LEAKING_VARIABLES, delta_jars

ROOT = Path(__file__).parent.parent.parent
# Makes the topic, and tells where driver and executor find the package.
PROBE = """
import json, sys
import lakelog
from pyspark.sql import SparkSession

def found(batches):
    import pyarrow
    import lakelog.job.parameters as parameters
    for batch in batches:
        yield pyarrow.RecordBatch.from_pydict({"file": [parameters.__file__]})

spark = SparkSession.builder.getOrCreate()
lakelog.Lake(spark, sys.argv[1]).create_topic("orders", key="STRING", value="INT")
rows = spark.range(1).mapInArrow(found, "file STRING").collect()
print(json.dumps({"driver": lakelog.__file__, "executor": rows[0]["file"], "master": spark.conf.get("spark.master")}))
"""


@pytest.mark.long
def test_jobs_run_by_spark_submit_with_the_wheel_as_a_zip(tmp_path: Path) -> None:
    archive = tmp_path / "lakelog.zip"
    built = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "--wheel-dir", str(tmp_path), str(ROOT)]
    subprocess.run(built, check=True, capture_output=True)
    next(tmp_path.glob("lakelog-*.whl")).rename(archive)
    (tmp_path / "probe.py").write_text(PROBE)
    (tmp_path / "in.ndjson").write_text('{"key": "a", "value": 1}\n{"key": "b", "value": 2}\n')
    lake = str(tmp_path / "lake")

    def submit(script: Path, *arguments: str) -> tuple[int, dict[str, Any]]:
        command = [
            str(Path(pyspark.__file__).parent / "bin" / "spark-submit"), "--master", "local-cluster[1,1,1024]",
            "--properties-file", str(ROOT / "jobs" / "spark-defaults.conf"), "--py-files", str(archive),
            # The jars are on this machine already.
            "--conf", "spark.jars.packages=", "--jars", ",".join(map(str, delta_jars(print))),
            "--conf", f"spark.sql.warehouse.dir={tmp_path / 'warehouse'}", "--conf", "spark.sql.shuffle.partitions=1",
            "--driver-memory", "1g", str(script), *arguments,
        ]  # fmt: skip
        kept = {name: value for name, value in os.environ.items() if name not in LEAKING_VARIABLES and not name.startswith("LAKELOG_")}
        environment = {
            **kept,
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_HOME": str(Path(pyspark.__file__).parent),
        }
        answer = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert answer.stdout.strip(), answer.stderr[-3000:]
        return answer.returncode, json.loads(answer.stdout.splitlines()[-1])

    code, where = submit(tmp_path / "probe.py", lake)
    assert (code, where["master"]) == (0, "local-cluster[1,1,1024]")
    assert "lakelog.zip" in where["driver"] and "lakelog.zip" in where["executor"]
    code, appended = submit(ROOT / "jobs" / "append.py", "--root", lake, "--topic", "orders", str(tmp_path / "in.ndjson"))
    assert (code, appended["records"]) == (0, 2), appended
    code, merged = submit(ROOT / "jobs" / "merge.py", "--root", lake, "--topic", "orders")
    assert (code, merged["inserted"]) == (0, 2), merged
    code, checked = submit(ROOT / "jobs" / "check.py", "--root", lake, "--topic", "orders")
    assert (code, checked["outcome"]) == (0, "passed"), checked
    code, refused = submit(ROOT / "jobs" / "merge.py", "--root", lake, "--topic", "nope")
    assert (code, refused["error"]) == (5, "UNKNOWN_TOPIC")
