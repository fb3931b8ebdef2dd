"""Servers of a cluster, each a process of its own on loopback: an S3-compatible store, Spark's standalone master and its workers."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "lakelog-tests"
# Conditional puts were right under a race only from August 2026 on.
VERSITYGW = "v1.8.0"
HADOOP_AWS, AWS_BUNDLE = "org.apache.hadoop:hadoop-aws:3.4.2", "software.amazon.awssdk:bundle:2.29.52"
BUCKET = "lake-bucket"
ACCESS, SECRET, REGION = "lakelog-tests", "not-a-secret", "us-east-1"


@dataclass(frozen=True)
class Store:
    """A running S3-compatible server with one empty bucket."""

    endpoint: str

    @property
    def root(self) -> str:
        """A lake's root in it, as Spark names it."""
        return f"s3a://{BUCKET}/lake"

    @property
    def spark(self) -> dict[str, str]:
        """Spark's settings for it."""
        settings = {
            "endpoint": self.endpoint, "endpoint.region": REGION, "access.key": ACCESS, "secret.key": SECRET, "path.style.access": "true",
            "connection.ssl.enabled": "false", "attempts.maximum": "3",
        }  # fmt: skip
        return {f"spark.hadoop.fs.s3a.{name}": value for name, value in settings.items()}

    def client(self) -> Any:
        """A client of it."""
        import boto3

        return boto3.client("s3", endpoint_url=self.endpoint, aws_access_key_id=ACCESS, aws_secret_access_key=SECRET, region_name=REGION)


def free_port() -> int:
    """A port of loopback that nothing listens at."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@contextlib.contextmanager
def process(command: Sequence[str], port: int, log: Path, environment: dict[str, str] | None = None) -> Iterator[int]:
    """A server for the length of a block, once it takes connections; gives its process."""
    with log.open("ab") as out:
        started = subprocess.Popen(
            command, stdout=out, stderr=subprocess.STDOUT, start_new_session=True, env={**os.environ, **(environment or {})}
        )
    try:
        until = time.monotonic() + 120
        while True:
            assert started.poll() is None, log.read_text(errors="replace")[-3000:]
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                break
            assert time.monotonic() < until, f"{command[0]} did not start: {log.read_text(errors='replace')[-3000:]}"
            time.sleep(0.2)
        yield started.pid
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(started.pid, signal.SIGKILL)
        started.wait(30)


@contextlib.contextmanager
def versitygw(folder: Path) -> Iterator[Store]:
    """A real S3 server, its objects files under ``folder``; built once with Go."""
    program = CACHE / f"versitygw-{VERSITYGW}" / "versitygw"
    if not program.exists():
        environment = {**os.environ, "GOBIN": str(program.parent)}
        subprocess.run(
            ["go", "install", f"github.com/versity/versitygw/cmd/versitygw@{VERSITYGW}"], check=True, env=environment, timeout=1100
        )
    objects, port = folder / "objects", free_port()
    objects.mkdir(parents=True)
    command = [str(program), "--quiet", "--port", f"127.0.0.1:{port}", "--access", ACCESS, "--secret", SECRET, "posix", str(objects)]
    with process(command, port, folder / "versitygw.log"):
        yield _with_bucket(Store(f"http://127.0.0.1:{port}"))


@contextlib.contextmanager
def moto(folder: Path) -> Iterator[Store]:
    """moto's S3, which keeps its objects in memory: at once there, and no more than a server that says the right things."""
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with process(command, port, folder / "moto.log"):
        yield _with_bucket(Store(f"http://127.0.0.1:{port}"))


def _with_bucket(store: Store) -> Store:
    store.client().create_bucket(Bucket=BUCKET)
    return store


def s3_jars() -> list[Path]:
    """Hadoop's S3 connector and the AWS SDK, fetched once (some 640 MB, with Maven)."""
    folder = CACHE / "hadoop-aws-3.4.2"
    wanted = [folder / "{1}-{2}.jar".format(*one.split(":")) for one in (HADOOP_AWS, AWS_BUNDLE)]
    if not all(jar.exists() for jar in wanted):
        folder.mkdir(parents=True, exist_ok=True)
        plugin = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1"
        for coordinates in (HADOOP_AWS, AWS_BUNDLE):
            get = ["mvn", "-q", f"{plugin}:get", f"-Dartifact={coordinates}", "-Dtransitive=false"]
            subprocess.run(get, check=True, timeout=1100)
            copy = ["mvn", "-q", f"{plugin}:copy", f"-Dartifact={coordinates}", f"-DoutputDirectory={folder}"]
            subprocess.run(copy, check=True, timeout=1100)
    return wanted


@contextlib.contextmanager
def standalone(folder: Path, *, workers: int = 2) -> Iterator[str]:
    """Spark's standalone master and workers of one core each; gives the master's address."""
    import pyspark

    home = Path(pyspark.__file__).parent
    port = free_port()
    folder.mkdir(parents=True, exist_ok=True)
    environment = {
        "SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_MEMORY": "256m", "PYSPARK_PYTHON": sys.executable,
        "SPARK_WORKER_DIR": str(folder / "work"), "SPARK_LOCAL_DIRS": str(folder / "local"), "SPARK_NO_DAEMONIZE": "1",
    }  # fmt: skip
    spark_class = str(home / "bin" / "spark-class")
    address = f"spark://127.0.0.1:{port}"
    with contextlib.ExitStack() as stack:
        master = [spark_class, "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]
        stack.enter_context(process(master, port, folder / "master.log", environment))
        for number in range(workers):
            mine = free_port()
            worker = [
                spark_class, "org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1", "--port", str(mine), "--webui-port", "0",
                "--cores", "1", "--memory", "1g", address,
            ]  # fmt: skip
            stack.enter_context(process(worker, mine, folder / f"worker{number}.log", environment))
        yield address
