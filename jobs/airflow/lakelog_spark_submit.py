"""Airflow 3: the jobs on a Spark cluster, by spark-submit in client mode.

Copy this file into the DAGs folder. Needs apache-airflow-providers-apache-spark, and on the worker spark-submit and /opt/lakelog with jobs/,
spark-defaults.conf and lakelog.zip, which is the wheel under another name: of --py-files executors take .zip alone. The connection
spark_default says which cluster. Files on hdfs:// are listed by pyarrow, which needs Hadoop's libhdfs on the worker: HADOOP_HOME, and CLASSPATH from
`hadoop classpath --glob`.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.providers.smtp.notifications.smtp import SmtpNotifier
from airflow.sdk import DAG

START = datetime(2026, 1, 1, tzinfo=timezone.utc)
COMMON: dict[str, Any] = {
    "retries": 2,
    "retry_delay": timedelta(minutes=1),
    "retry_exponential_backoff": True,
    "execution_timeout": timedelta(hours=4),
    "on_failure_callback": [SmtpNotifier(to="oncall@example.com", from_email="airflow@example.com")],
    "conn_id": "spark_default",
    "deploy_mode": "client",
    "properties_file": "/opt/lakelog/spark-defaults.conf",
    "py_files": "/opt/lakelog/lakelog.zip",
}

with DAG("lakelog_orders_cluster", schedule="30 2 * * *", start_date=START, catchup=False, max_active_runs=1, default_args=COMMON):
    # Every file that was not taken yet, of nights that were missed too.
    append = SparkSubmitOperator(
        task_id="append",
        application="/opt/lakelog/jobs/append.py",
        application_args=["--root", "hdfs:///data/lake", "--topic", "orders", "--from", "hdfs:///data/in/orders"],
    )
    merge = SparkSubmitOperator(
        task_id="merge",
        application="/opt/lakelog/jobs/merge.py",
        application_args=["--root", "hdfs:///data/lake", "--topic", "orders"],
    )
    clean = SparkSubmitOperator(
        task_id="clean",
        application="/opt/lakelog/jobs/clean.py",
        application_args=["--root", "hdfs:///data/lake", "--topic", "orders"],
    )
    append >> merge >> clean
