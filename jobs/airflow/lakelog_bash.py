"""Airflow 3: the jobs on the worker's machine, each with a Spark of its own.

Copy this file into the DAGs folder. Every task is safe to run twice. Needs apache-airflow-providers-standard, and on the worker
/opt/lakelog/venv (lakelog[local]), /opt/lakelog/jobs and /etc/lakelog/lakelog.toml, which says where the lake is.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

from airflow.providers.smtp.notifications.smtp import SmtpNotifier
from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG

START = datetime(2026, 1, 1, tzinfo=timezone.utc)
COMMON: dict[str, Any] = {
    "retries": 2,
    "retry_delay": timedelta(minutes=1),
    "retry_exponential_backoff": True,
    "execution_timeout": timedelta(hours=4),
    "env": {"LAKELOG_CONFIG": "/etc/lakelog/lakelog.toml"},
    "append_env": True,
    "cwd": "/opt/lakelog",
    "on_failure_callback": [SmtpNotifier(to="oncall@example.com", from_email="airflow@example.com")],
}
# A run that would overlap waits (max_active_runs); one that was missed is not made up for (catchup): the next one does its work.
with DAG("lakelog_orders_merge", schedule="7/15 * * * *", start_date=START, catchup=False, max_active_runs=1, default_args=COMMON):
    BashOperator(task_id="merge", bash_command="venv/bin/python jobs/merge.py --topic orders")

with DAG("lakelog_orders_nightly", schedule="30 2 * * *", start_date=START, catchup=False, max_active_runs=1, default_args=COMMON):
    # Every file that was not taken yet, of nights that were missed too.
    append = BashOperator(task_id="append", bash_command="venv/bin/python jobs/append.py --topic orders --from /data/in/orders")
    merge = BashOperator(task_id="merge", bash_command="venv/bin/python jobs/merge.py --topic orders")
    check = BashOperator(task_id="check", bash_command="venv/bin/python jobs/check.py --topic orders")
    snapshot = BashOperator(
        task_id="snapshot",
        bash_command="venv/bin/python jobs/snapshot.py --topic orders --name daily-{{ dag_run.run_after | ds }} --keep '90 days'",
    )
    clean = BashOperator(task_id="clean", bash_command="venv/bin/python jobs/clean.py --topic orders")
    append >> merge >> check >> snapshot >> clean

with DAG("lakelog_orders_maintain", schedule="0 5 * * 0", start_date=START, catchup=False, max_active_runs=1, default_args=COMMON):
    BashOperator(task_id="maintain", bash_command="venv/bin/python jobs/maintain.py --topic orders")

# By hand, never on a schedule: `plan` tells what would be done, `restore` does it where the parameter confirm was set.
with DAG(
    "lakelog_orders_restore",
    schedule=None,
    start_date=START,
    catchup=False,
    max_active_runs=1,
    default_args={**COMMON, "retries": 0, "env": {**COMMON["env"], "TO": "{{ params.to }}", "CONFIRM": "{{ params.confirm }}"}},
    params={"to": "", "confirm": False},
):
    plan = BashOperator(
        task_id="plan",
        bash_command='venv/bin/python jobs/restore.py --topic orders --to "$TO" --dry-run',
    )
    # Exit code 99 marks a task as skipped.
    restore = BashOperator(
        task_id="restore",
        bash_command='[ "$CONFIRM" = True ] || exit 99; venv/bin/python jobs/restore.py --topic orders --to "$TO"',
    )
    plan >> restore
