"""The recipes under jobs/: every file is parsed, its variables filled in, and every call of a job given to the parser that jobs use."""

from __future__ import annotations

import ast
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lakelog import errors
from lakelog.delta.prerequisites import DELTA_JAR
from lakelog.delta.session import DELTA_CONF
from lakelog.job.parameters import VERBS, parse
from lakelog.terminal.settings import load
from tests.jobs.recipes import ALERT, CRON, DAY, JOBS, PROJECT, RECIPES, SCHEDULED, documents, parsed, pin, takes_all

# ---- cron ----


def test_crontab_runs_every_job_once_at_a_time_and_mails_what_fails() -> None:
    lines = [line for line in (JOBS / "cron" / "lakelog.crontab").read_text(encoding="utf-8").splitlines() if line and line[0] != "#"]
    settings = dict(line.split("=", 1) for line in lines if re.match(r"[A-Z_]+=", line))
    assert settings["MAILTO"] == ALERT and settings["CRON_TZ"] == "UTC"
    verbs = []
    for line in lines[len(settings) :]:
        *when, user, command = line.split(" ", 6)
        assert CRON.fullmatch(" ".join(when)) and user == "lakelog"
        assert not re.search(r"(?<!\\)%", command), "cron ends the command at a %"
        assert re.match(r"flock -n -E 0 \$LOCKS/[\w-]+ timeout [1-4]h \$PYTHON ", command), "one at a time, and not for ever"
        assert re.search(r">>(\$LOGS/\w+\.log) 2>&1 \|\| tail -n 3 \1$", command), "prints only where it failed"
        command = command.replace("\\%", "%")
        subprocess.run(["sh", "-n", "-c", command], check=True)
        calls = parsed(command)
        assert all(map(takes_all, calls))
        verbs += [one.verb for one in calls]
    assert sorted(verbs) == sorted(SCHEDULED)
    layout = (JOBS / "README.md").read_text(encoding="utf-8")
    assert all(f"`{settings[name]}`" in layout for name in ("JOBS", "LOGS", "LAKELOG_CONFIG"))


# ---- systemd ----

UNITS = sorted((JOBS / "systemd").glob("*"))


def unit(path: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        if "=" in line and not line.startswith("#"):
            name, _, value = line.partition("=")
            found.setdefault(name, []).append(value)
    return found


def test_services_end_in_time_and_call_for_help_and_timers_start_them() -> None:
    services = {path.name: unit(path) for path in UNITS if path.suffix == ".service"}
    timers = {path.stem: unit(path) for path in UNITS if path.suffix == ".timer"}
    assert set(timers) == {name.removesuffix(".service") for name in services if "@" not in name}
    verbs = set()
    for name, one in services.items():
        assert one["Type"] == ["oneshot"] and one["TimeoutStartSec"], "a oneshot service has no limit of its own"
        if name == "lakelog-alert@.service":
            assert ALERT in one["ExecStart"][0]
            continue
        assert one["OnFailure"] == ["lakelog-alert@%n.service"] and "WantedBy" not in one
        for command in one["ExecStart"]:
            found = parsed(command.replace("$$", "$").replace("%%", "%").replace("%i", "before-migration"))
            assert all(map(takes_all, found))
            verbs |= {call.verb for call in found}
    assert verbs == RECIPES
    for one in timers.values():
        assert one["OnCalendar"][0].endswith(" UTC") and one["Persistent"] == ["true"] and one["WantedBy"] == ["timers.target"]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_finds_nothing_wrong_with_the_units(tmp_path: Path) -> None:
    for path in UNITS:
        text = path.read_text(encoding="utf-8").replace("/opt/lakelog/venv/bin/python", sys.executable)
        (tmp_path / path.name).write_text(text, encoding="utf-8")
    names = [path.name.replace("@.", "@friday.") for path in UNITS]
    found = subprocess.run(["systemd-analyze", "verify", "--man=no", *names], cwd=tmp_path, capture_output=True, text=True, check=False)
    if re.search(r"Failed to (initialize|create) manager|Read-only file system|Operation not permitted", found.stderr):
        pytest.skip(f"systemd-analyze does not work here: {found.stderr.strip()}")
    told = [line for line in found.stderr.splitlines() if "lakelog" in line]
    assert (found.returncode, told) == (0, []), found.stderr
    for path in UNITS:
        for when in unit(path).get("OnCalendar", []):
            subprocess.run(["systemd-analyze", "calendar", when], capture_output=True, check=True)


# ---- Airflow ----


def operators(tree: ast.Module, name: str) -> list[dict[str, ast.expr]]:
    """The keyword arguments of the calls of a name."""
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name]
    return [{str(one.arg): one.value for one in node.keywords} for node in found]


def common(tree: ast.Module) -> dict[str, ast.expr]:
    """The default arguments of the tasks."""
    (found,) = [node for node in tree.body if isinstance(node, ast.AnnAssign) and getattr(node.target, "id", "") == "COMMON"]
    assert isinstance(found.value, ast.Dict)
    return {str(ast.literal_eval(key)): value for key, value in zip(found.value.keys, found.value.values, strict=True) if key}


def templated(text: str) -> str:
    return text.replace("{{ dag_run.run_after | ds }}", DAY)


@pytest.mark.parametrize("file", ["lakelog_bash.py", "lakelog_spark_submit.py"])
def test_dags_run_one_at_a_time_and_call_jobs_with_parameters_they_take(file: str) -> None:
    tree = ast.parse((JOBS / "airflow" / file).read_text(encoding="utf-8"))
    assert ast.get_docstring(tree)
    defaults = common(tree)
    assert ALERT in ast.unparse(defaults["on_failure_callback"])
    assert ast.literal_eval(defaults["retries"]) == 2 and "execution_timeout" in defaults
    for one in operators(tree, "DAG"):
        assert (ast.literal_eval(one["max_active_runs"]), ast.literal_eval(one["catchup"])) == (1, False)
        schedule = ast.literal_eval(one["schedule"])
        assert (schedule is None) == ("params" in one), "a restore has parameters, and no schedule"
        assert schedule is None or CRON.fullmatch(schedule)
    if file == "lakelog_bash.py":
        commands = [templated(ast.literal_eval(one["bash_command"])) for one in operators(tree, "BashOperator")]
        calls = [call for command in commands for call in parsed(command)]
        assert {call.verb for call in calls} == RECIPES and all(map(takes_all, calls))
        # What a person types goes by the environment, in quotes, never into the text of the command.
        assert not any("params" in command for command in commands)
        assert ['"$TO"' in command for command in commands if "restore" in command] == [True, True]
        return
    for one in operators(tree, "SparkSubmitOperator"):
        verb = Path(ast.literal_eval(one["application"])).stem
        call = parse([verb, *map(templated, ast.literal_eval(one["application_args"]))])
        assert call.verb == verb and takes_all(call)
    assert Path(ast.literal_eval(defaults["py_files"])).suffix == ".zip", "executors take no wheel"
    assert Path(ast.literal_eval(defaults["properties_file"])).name == "spark-defaults.conf"


# ---- Kubernetes ----


def shell(container: dict[str, Any]) -> str:
    return shlex.join([*container["command"], *container.get("args", [])])


def check_job(spec: dict[str, Any]) -> list[Any]:
    """A Job's spec: ends in time, is started again only where that helps; its calls."""
    pod = spec["template"]["spec"]
    (container,) = pod["containers"]
    (rule,) = spec["podFailurePolicy"]["rules"]
    kinds = (errors.Invalid, errors.GateFailed, errors.Refused, errors.NotFound, errors.Damaged)
    assert rule["action"] == "FailJob" and rule["onExitCodes"]["values"] == sorted(kind.exit_code for kind in kinds)
    assert rule["onExitCodes"]["containerName"] == container["name"]
    assert pod["restartPolicy"] == "Never", "a podFailurePolicy needs it"
    assert 0 < spec["activeDeadlineSeconds"] <= 14_400
    mounted = {one["name"] for one in container["volumeMounts"]}
    assert mounted == {one["name"] for one in pod["volumes"]}
    return parsed(shell(container))


def test_cronjobs_run_one_at_a_time_with_parameters_the_jobs_take(tmp_path: Path) -> None:
    found = documents(JOBS / "kubernetes" / "cronjobs.yaml")
    verbs = []
    for one in found:
        if one["kind"] == "CronJob":
            spec = one["spec"]
            assert (spec["concurrencyPolicy"], spec["timeZone"]) == ("Forbid", "Etc/UTC")
            assert CRON.fullmatch(spec["schedule"]) and spec["startingDeadlineSeconds"] >= 10
            assert spec["jobTemplate"]["spec"]["ttlSecondsAfterFinished"] == 86_400, "an alert on a Job that failed ends with it"
            (call,) = check_job(spec["jobTemplate"]["spec"])
            assert one["metadata"]["name"] == f"lakelog-{call.verb}-orders" and takes_all(call)
            verbs.append(call.verb)
    assert sorted(verbs) == sorted(SCHEDULED)
    (config,) = [one for one in found if one["kind"] == "ConfigMap"]
    (tmp_path / "lakelog.toml").write_text(config["data"]["lakelog.toml"], encoding="utf-8")
    assert load(folder=tmp_path, environment={}).root == "/data/lake"


def test_restore_is_a_job_by_hand_and_looks_first() -> None:
    (one,) = documents(JOBS / "kubernetes" / "restore.yaml")
    assert one["kind"] == "Job" and "generateName" in one["metadata"] and one["spec"]["backoffLimit"] == 0
    (call,) = check_job(one["spec"])
    assert (call.verb, call.dry_run) == ("restore", True)


def test_alerts_are_about_jobs_there_are() -> None:
    (one,) = documents(JOBS / "kubernetes" / "alerts.yaml")
    rules = [rule for group in one["spec"]["groups"] for rule in group["rules"]]
    names = [f"lakelog-{verb}-orders" for verb in SCHEDULED]
    for rule in rules:
        if not rule["alert"].startswith("SparkApplication"):
            pattern = re.search(r'=~"([^"]+)"', rule["expr"])
            assert pattern and any(re.fullmatch(pattern[1], name) for name in names)
    # A pod that failed is no failure yet: a Job starts another one.
    failed = next(rule["expr"] for rule in rules if rule["alert"] == "LakelogJobFailed")
    assert failed.startswith("kube_job_failed{") and 'condition="true"' in failed
    assert [rule["alert"] for rule in rules] == [
        "LakelogJobFailed",
        "LakelogMergeIsLate",
        "SparkApplicationFailed",
        "SparkApplicationHangs",
    ]


# ---- Spark ----


def spark_defaults() -> dict[str, str]:
    lines = (JOBS / "spark-defaults.conf").read_text(encoding="utf-8").splitlines()
    return dict(line.split(None, 1) for line in lines if line and not line.startswith("#"))


def test_spark_defaults_bring_delta_as_lakelog_needs_it() -> None:
    settings = spark_defaults()
    assert settings["spark.jars.packages"] == DELTA_JAR.format(version=pin("delta-spark", "local"))
    assert settings.items() >= DELTA_CONF.items()
    assert settings["spark.sql.session.timeZone"] == "UTC"
    assert "spark.master" not in settings, "that is the caller's to say"


def test_spark_applications_run_one_at_a_time_with_the_same_settings() -> None:
    for one in documents(JOBS / "kubernetes" / "scheduledsparkapplication.yaml"):
        spec, template = one["spec"], one["spec"]["template"]
        assert spec["concurrencyPolicy"] == "Forbid" and CRON.fullmatch(spec["schedule"])
        assert template["restartPolicy"]["type"] == "OnFailure" and template["restartPolicy"]["onFailureRetries"] == 2
        assert template["sparkConf"] == {name: value for name, value in spark_defaults().items() if name != "spark.jars.packages"}
        assert template["sparkVersion"] == pin("pyspark", "local")
        (call,) = parsed(shlex.join([template["mainApplicationFile"], *template["arguments"]]))
        assert one["metadata"]["name"] == f"lakelog-{call.verb}-orders"


def test_images_have_the_versions_that_lakelog_is_made_for() -> None:
    text = (JOBS / "kubernetes" / "Dockerfile.spark").read_text(encoding="utf-8")
    package = DELTA_JAR.format(version=pin("delta-spark", "local"))
    assert f"FROM apache/spark:{pin('pyspark', 'local')}-" in text and package in text
    assert package.replace(":", "_", 1).replace(":", "-") + ".jar" in text
    for image, file in (("lakelog:", "Dockerfile"), ("lakelog-spark:", "Dockerfile.spark")):
        assert f"registry.example.com/{image}{PROJECT['project']['version']}" in (JOBS / "kubernetes" / file).read_text(encoding="utf-8")


# ---- the README of the jobs ----


def test_readme_of_the_jobs_names_every_recipe_and_its_commands_are_right(tmp_path: Path) -> None:
    text = (JOBS / "README.md").read_text(encoding="utf-8")
    for path in [*JOBS.iterdir(), *(JOBS / "airflow").glob("*.py"), *(JOBS / "kubernetes").glob("*")]:
        if path.name not in ("README.md", "__pycache__"):
            assert re.search(rf"`[\w/]*{re.escape(path.name)}[/`]", text), path.name
    lines = [line for line in text.splitlines() if line.startswith(("python jobs/", "spark-submit "))]
    assert {call.verb for line in lines for call in parsed(line)} == set(VERBS)
    settings = []
    for example in re.findall(r"```toml\n(.*?)```", text, re.DOTALL):
        (tmp_path / "lakelog.toml").write_text(example, encoding="utf-8")
        settings.append(load(folder=tmp_path, environment={}))
    assert [one.root for one in settings] == ["/data/lake", "s3a://bucket/lake"]
