"""Recipes held against what those who run them publish: Kubernetes' schemas, Databricks' classes of a bundle, Airflow's own import of DAGs.

Each tool has an environment of its own beside the suite's, made once; what it finds comes back as JSON.
"""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.servers import CACHE
from tests.jobs.recipes import JOBS, documents
from tests.jobs.test_databricks import TARGETS, bundle

KUBERNETES, RELEASE = ("kubernetes-validate==1.37.0",), "1.32"
DATABRICKS = ("databricks-bundles==1.22.1",)
AIRFLOW = (
    "apache-airflow>=3.1,<4", "apache-airflow-providers-standard", "apache-airflow-providers-apache-spark", "apache-airflow-providers-smtp",
)  # fmt: skip

VALIDATE = f"""
import json, sys
import kubernetes_validate
found = {{}}
for name, one in json.load(sys.stdin).items():
    try:
        kubernetes_validate.validate(one, "{RELEASE}", strict=True)
    except kubernetes_validate.ValidationError as error:
        found[name] = error.message
print(json.dumps(found))
"""
JOB = """
import json, sys
from databricks.bundles.jobs import Job
found = {}
for name, one in json.load(sys.stdin).items():
    try:
        Job.from_dict(one)
    except ValueError as error:
        found[name] = str(error)
print(json.dumps(found))
"""
DAGS = """
import json, sys
from airflow.dag_processing.dagbag import DagBag
found = DagBag(dag_folder=json.load(sys.stdin))
print(json.dumps({"errors": found.import_errors, "dags": sorted(found.dag_ids)}))
"""


def told(name: str, packages: tuple[str, ...], code: str, given: Any, **more: str) -> Any:
    """What a piece of Python says in an environment with some packages, of what it is given."""
    folder = CACHE / f"tools-{name}"
    python = folder / "bin" / "python"
    if not (folder / "made").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", *packages], check=True, timeout=1100)
        (folder / "made").touch()
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | more
    answer = subprocess.run(
        [str(python), "-c", code], input=json.dumps(given), capture_output=True, text=True, env=environment, check=False
    )
    assert answer.returncode == 0, answer.stderr[-3000:]
    return json.loads(answer.stdout.splitlines()[-1])


@pytest.mark.long
def test_kubernetes_takes_its_recipes() -> None:
    """What custom controllers take (Spark's operator, Prometheus') has no schema there."""
    found = [one for file in ("cronjobs.yaml", "restore.yaml") for one in documents(JOBS / "kubernetes" / file) if one]
    given = {f"{one['kind']} {index}": one for index, one in enumerate(found)}
    assert {one["kind"] for one in found} == {"ConfigMap", "PersistentVolumeClaim", "CronJob", "Job"}
    wrong = copy.deepcopy(next(one for one in found if one["kind"] == "CronJob"))
    wrong["spec"]["concurencyPolicy"] = wrong["spec"].pop("concurrencyPolicy")
    assert list(told("kubernetes", KUBERNETES, VALIDATE, {**given, "wrong": wrong})) == ["wrong"]


@pytest.mark.long
def test_databricks_takes_the_bundles_jobs() -> None:
    given = {f"{target} {name}": job for target in TARGETS for name, job in bundle(target).items()}
    assert len(given) >= 3 * 7
    wrong = {**next(iter(given.values())), "max_concurent_runs": 1}
    assert list(told("databricks", DATABRICKS, JOB, {**given, "wrong": wrong})) == ["wrong"]


@pytest.mark.soak
def test_airflow_imports_the_dags(tmp_path: Path) -> None:
    home = {"AIRFLOW_HOME": str(tmp_path / "home"), "AIRFLOW__CORE__LOAD_EXAMPLES": "False"}
    answer = told("airflow", AIRFLOW, DAGS, str(JOBS / "airflow"), **home)
    assert answer["errors"] == {}
    assert len(answer["dags"]) >= 4 and all(one.startswith("lakelog_orders_") for one in answer["dags"])
    (tmp_path / "dags").mkdir()
    (tmp_path / "dags" / "wrong.py").write_text("from airflow.sdk import DAG\nimport nothing_of_this_name\n")
    assert len(told("airflow", AIRFLOW, DAGS, str(tmp_path / "dags"), **home)["errors"]) == 1
