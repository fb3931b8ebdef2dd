"""The Databricks bundle: put together for each of its targets, its variables filled in, its parameters given to the parser that jobs use."""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest

from lakelog.job.parameters import parse
from lakelog.model.names import check_root
from tests.jobs.recipes import ALERT, DAY, JOBS, PROJECT, QUARTZ, RECIPES, ROOT, documents, takes_all

TARGETS = ("dev", "serverless", "job_cluster")


def filled(node: Any, variables: dict[str, Any]) -> Any:
    if isinstance(node, dict):
        return {name: filled(value, variables) for name, value in node.items()}
    if isinstance(node, list):
        return [filled(value, variables) for value in node]
    return re.sub(r"\$\{var\.(\w+)\}", lambda found: str(variables[found[1]]), node) if isinstance(node, str) else node


def referred(text: str, given: dict[str, str]) -> str:
    """A parameter with the values that a run has: its job's parameters, then its day."""
    for name, value in given.items():
        text = text.replace("{{job.parameters." + name + "}}", value)
    return text.replace("{{job.start_time.iso_date}}", DAY)


def bundle(target: str) -> dict[str, dict[str, Any]]:
    """The jobs of a target, as the bundle's own tool puts them together: tasks are joined by their key."""
    main = documents(JOBS / "databricks.yml")[0]
    files = [file for pattern in main["include"] for file in sorted(JOBS.glob(pattern))]
    parts = [documents(file)[0] for file in files]
    variables = {name: one["default"] for name, one in main["variables"].items()} | main["targets"][target].get("variables", {})
    jobs: dict[str, dict[str, Any]] = {}
    for part in parts:
        for name, job in part.get("resources", {}).get("jobs", {}).items():
            assert name not in jobs
            jobs[name] = copy.deepcopy(job)
    for part in parts:
        for name, job in part.get("targets", {}).get(target, {}).get("resources", {}).get("jobs", {}).items():
            own = {task["task_key"]: task for task in jobs[name]["tasks"]}
            for task in job["tasks"]:
                own[task["task_key"]].update(task)
            jobs[name] |= {key: value for key, value in job.items() if key != "tasks"}
    result: dict[str, dict[str, Any]] = filled(jobs, variables)
    return result


@pytest.mark.parametrize("target", TARGETS)
def test_bundle_jobs_call_the_entry_point_with_parameters_it_takes(target: str) -> None:
    jobs = bundle(target)
    assert set(jobs) == RECIPES
    for name, job in jobs.items():
        given = {one["name"]: one["default"] for one in job["parameters"]} | ({"to": "friday"} if name == "restore" else {})
        check_root(given["root"])
        for task in job["tasks"]:
            if "condition_task" in task:
                assert (
                    task["condition_task"]["left"] == "{{job.parameters.confirm}}" and given["confirm"] != task["condition_task"]["right"]
                )
                continue
            wheel = task["python_wheel_task"]
            assert wheel["package_name"] == PROJECT["project"]["name"]
            assert PROJECT["project"]["scripts"][wheel["entry_point"]] == "lakelog.job.entry:main"
            texts = [referred(text, given) for text in wheel["parameters"]]
            assert not any("{{" in text or "${" in text for text in texts)
            call = parse(texts)
            assert call.verb == name and takes_all(call)


@pytest.mark.parametrize("target", TARGETS)
def test_bundle_jobs_run_one_at_a_time_end_in_time_and_tell_somebody(target: str) -> None:
    for name, job in bundle(target).items():
        assert job["max_concurrent_runs"] == 1, "development mode would make it 4"
        assert job["queue"] == {"enabled": False}
        (rule,) = job["health"]["rules"]
        assert 0 < rule["value"] < job["timeout_seconds"] <= 14_400
        assert job["email_notifications"]["on_failure"] == [ALERT]
        if name == "restore":
            assert not {"schedule", "trigger", "continuous"} & set(job)
            assert [task["task_key"] for task in job["tasks"]] == ["plan", "confirmed", "restore"]
            assert "--dry-run" in job["tasks"][0]["python_wheel_task"]["parameters"]
            assert job["tasks"][2]["depends_on"] == [{"task_key": "confirmed", "outcome": "true"}]
            assert job["email_notifications"]["on_start"] == [ALERT]
        else:
            cron = job["schedule"]["quartz_cron_expression"]
            assert QUARTZ.fullmatch(cron) and len(cron.split()) in (6, 7)
            assert [cron.split()[3], cron.split()[5]].count("?") == 1
            assert job["schedule"]["timezone_id"] == "UTC"
            assert job["email_notifications"]["on_duration_warning_threshold_exceeded"] == [ALERT]
            assert job["tasks"][0]["max_retries"] == 2


@pytest.mark.parametrize("target", TARGETS)
def test_bundle_tasks_have_something_to_run_on_and_the_wheel(target: str) -> None:
    wheel, quality = "../../dist/*.whl", PROJECT["project"]["optional-dependencies"]["quality"]
    for job in bundle(target).values():
        for task in job["tasks"]:
            assert not {"existing_cluster_id", "new_cluster"} & set(task)
            if "condition_task" in task:
                continue
            if target == "job_cluster":
                (cluster,) = job["job_clusters"]
                assert task["job_cluster_key"] == cluster["job_cluster_key"] and "environment_key" not in task
                assert cluster["new_cluster"]["spark_version"].endswith("-scala2.13")
                assert task["libraries"] == [{"whl": wheel}, *({"pypi": {"package": one}} for one in quality)]
            else:
                (environment,) = job["environments"]
                assert task["environment_key"] == environment["environment_key"] and "job_cluster_key" not in task
                assert environment["spec"] == {"environment_version": "5", "dependencies": [wheel, *quality]}
    assert (JOBS / "resources" / wheel).resolve().parent == ROOT / "dist", "relative to the file that names it"


def test_bundle_deploys_one_copy_and_nothing_but_the_wheel() -> None:
    main = documents(JOBS / "databricks.yml")[0]
    assert set(main["targets"]) == set(TARGETS)
    assert main["targets"]["dev"]["mode"] == "development"
    for target in TARGETS[1:]:
        assert main["targets"][target]["mode"] == "production"
        assert "${bundle.target}" in main["targets"][target]["workspace"]["root_path"]
    assert (main["sync"], main["artifacts"]["lakelog"]["path"]) == ({"paths": [".."], "exclude": ["../**"]}, "..")
    assert all("description" in one and "default" in one for one in main["variables"].values())
