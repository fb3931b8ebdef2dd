"""Fixtures: one Spark session per run (`spark`), a fresh lake per test (`lake`), and a clock that stands until it is moved (`clock`)."""

from __future__ import annotations

import gc
import io
import os
import shlex
import socket
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakelog import Lake

NOON = 1_700_000_000_000


class Clock:
    """Milliseconds since 1970, as the Lake asks for them; tests set ``now`` or ``tick``."""

    def __init__(self, now: int = NOON) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now

    def tick(self, ms: int) -> int:
        """Move on by ``ms`` and return the new time."""
        self.now += ms
        return self.now


# The suites are thousands of small plans and no data: a Spark that generates no code is twice as fast at that. Java's second compiler has
# paid for itself after four minutes; without it the conformance cases take half as long again. Nor are plans made anew while they run, and a
# shuffle has one partition: together a fifth less. LAKELOG_TEST_CODE=generated runs them as users do.
QUICK_JAVA = "-XX:ReservedCodeCacheSize=256m"
# A process that tests start would compile all of it again where Python keeps no bytecode.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
QUICK_SPARK = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
}
QUICK = os.environ.get("LAKELOG_TEST_CODE") != "generated"
CONNECT = os.environ.get("LAKELOG_TEST_SESSION") == "connect"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Over Spark Connect, pass over what is marked as classic, with its reason."""
    for item in items:
        marked = item.get_closest_marker("classic")
        if CONNECT and marked is not None:
            item.add_marker(pytest.mark.skip(reason=str(marked.args[0])))


def _kafka() -> bool:
    """Whether there are jars of Spark's Kafka source; where they cannot be fetched, only the tests beside a broker fail."""
    from lakelog import NotReady
    from lakelog.delta.prerequisites import kafka_jars

    try:
        return bool(kafka_jars(print))
    except NotReady as error:
        warnings.warn(str(error), ResourceWarning, stacklevel=1)
        return False


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The one Spark session of the run: two cores, small shuffles, tables of a catalog in a temporary warehouse."""
    from lakelog.delta.session import local_session

    if CONNECT:
        yield from _connect_session(str(tmp_path_factory.mktemp("warehouse")))
        return
    with pytest.MonkeyPatch.context() as patch:
        if QUICK:
            patch.setenv("JDK_JAVA_OPTIONS", QUICK_JAVA, prepend=" ")
        session = local_session(
            "lakelog-tests",
            master="local[2]",
            memory="3g",
            kafka=_kafka(),
            config={
                "spark.sql.shuffle.partitions": "2",
                "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
                "spark.sql.adaptive.coalescePartitions.initialPartitionNum": "2",
                "spark.databricks.delta.snapshotPartitions": "1",
                **(QUICK_SPARK if QUICK else {}),
            },
        )
    yield session
    session.stop()
    gc.collect()


def _connect_session(warehouse: str) -> Iterator[SparkSession]:
    """A Spark Connect session with a server of its own in this process' care: no Java within reach of the client."""
    from pyspark.sql import SparkSession

    from lakelog.delta.prerequisites import LEAKING_VARIABLES, delta_jars, kafka_jars
    from lakelog.delta.session import DELTA_CONF

    for name in LEAKING_VARIABLES:
        os.environ.pop(name, None)
    # The server's Python, for functions, is this one.
    os.environ |= {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    from pyspark.sql.connect.client import DefaultChannelBuilder

    # PySpark's own server listens at one port for all: a free one, for another run beside this one.
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    DefaultChannelBuilder.default_port = staticmethod(lambda: port)
    found = [*delta_jars(print), *(kafka_jars(print) if _kafka() else [])]
    builder = SparkSession.builder.remote("local[2]").config("spark.jars", ",".join(map(str, found)))
    settings = {
        **DELTA_CONF,
        "spark.driver.memory": "2g",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": warehouse,
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
        "spark.ui.enabled": "false",
        "spark.connect.grpc.binding.port": str(port),
        **(QUICK_SPARK if QUICK else {}),
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
        if QUICK:
            patch.setenv("JDK_JAVA_OPTIONS", QUICK_JAVA, prepend=" ")
        # The client tells that settings of the server, such as its jars, cannot be changed by it; the server was started with them.
        warnings.simplefilter("ignore")
        session = builder.getOrCreate()
    import delta.connect.exceptions  # noqa: F401 - so that conflicts arrive as Delta's own errors

    from tests.sessions import close_others

    yield session
    close_others()
    session.stop()


@pytest.fixture
def clock() -> Clock:
    """A clock of the test's own, at 1700000000000 (14 November 2023)."""
    return Clock()


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path, clock: Clock) -> Lake:
    """A fresh, empty lake under a path, with the test's clock."""
    from lakelog import Lake

    return Lake(spark, str(tmp_path / "lake"), clock=clock)


@pytest.fixture(scope="module")
def house(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """A lake that the tests of this module share; refusals leave it as it is, so they need no other."""
    from lakelog import Lake

    return Lake(spark, str(tmp_path_factory.mktemp("inputs") / "lake"), clock=lambda: NOON)


@dataclass(frozen=True)
class Answer:
    """What a command of the CLI answered."""

    code: int
    out: str
    err: str


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Answer]:
    """The CLI in this process: a command line as text or a list, and standard input (no terminal) where it reads it."""
    from lakelog.cli.main import main

    for name in ("LAKELOG_ROOT", "LAKELOG_CONFIG"):
        monkeypatch.delenv(name, raising=False)

    def run(command: str | list[str], stdin: str = "") -> Answer:
        capsys.readouterr()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        code = main(shlex.split(command) if isinstance(command, str) else command)
        captured = capsys.readouterr()
        return Answer(code, captured.out, captured.err)

    return run
