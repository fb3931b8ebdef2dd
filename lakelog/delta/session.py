"""The door to Spark: the session of what started this process, or a local one with Delta, for laptops, jobs on one machine, and tests.

On a cluster that brings Spark and Delta (Databricks, spark-submit, Spark Connect) its own session is used: nothing else in lakelog builds one.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakelog.delta import prerequisites
from lakelog.delta.class_archive import beside_spark, class_archive
from lakelog.delta.prerequisites import LEAKING_VARIABLES, cache_folder, check_extras, check_java, delta_jars, kafka_jars
from lakelog.errors import NotReady

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DELTA_CONF = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
# Most of what a small job costs is Java compiling Spark's planner. Its methods wait longer for the second, costly compiler; loops over rows,
# which count otherwise, do not. A merge of 10 thousand records into 4 million keys took a tenth to a third less from the second one on.
JAVA_OPTIONS = (
    "-XX:+UseParallelGC -XX:+IgnoreUnrecognizedVMOptions"
    " -XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000 -XX:Tier4CompileThreshold=150000"
)
LAUNCHER_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"
# The classes that make columns. For each column PySpark asks what the class is, for which Java looks in all its jars, and what its member is:
# more than a third of the messages between Python and Java in an append.
ASKED_FOR = ("functions", "org.apache.spark.sql.functions", "PythonUtils", "PythonSQLUtils")
LOG4J = """rootLogger.level = error
rootLogger.appenderRef.stderr.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n
"""
LOOPBACK = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
# Set in a process whose Spark was configured by what started it: Databricks (serverless too), spark-submit.
LAUNCHERS = ("DATABRICKS_RUNTIME_VERSION", "PYSPARK_GATEWAY_PORT")
# A spark.log of more octets makes way for a new one.
LOG_MOST = 16 * 1024 * 1024
# How Java begins when it says why it does not start.
NOT_STARTED = ("Error", "Invalid", "Unrecognized", "Conflicting", "Exception in thread", "Could not")
# What every start of Spark writes.
CHATTER = ("WARNING: Using incubator", "Using Spark's default", "Setting default log level", "To adjust logging level", "NOTE: Picked up")


@contextlib.contextmanager
def _output_to(log: Path) -> Iterator[None]:
    """Send this process's standard output and error to a file: the Java process started meanwhile keeps it for its whole life.

    Whoever reads the command's output through a pipe then sees its end when the command ends, however long Java takes to end.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    kept = {}
    for number in (1, 2):
        with contextlib.suppress(OSError):  # it is closed
            kept[number] = os.dup(number)
    try:
        with log.open("ab") as target:
            for number in kept:
                os.dup2(target.fileno(), number)
        yield
    finally:
        for number, original in kept.items():
            os.dup2(original, number)
            os.close(original)


@contextlib.contextmanager
def _starting() -> Iterator[None]:
    """The environment in which Spark's scripts start Java: without other programs' settings, and told what they would find out slowly."""
    import pyspark

    changed = {name: os.environ.pop(name, None) for name in (*LEAKING_VARIABLES, "SPARK_LAUNCHER_OPTS")}
    # Where Spark is; else a Python is started to tell. And a Java that only puts together the command line of the other compiles nothing.
    os.environ |= {
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_LAUNCHER_OPTS": changed["SPARK_LAUNCHER_OPTS"] or LAUNCHER_OPTIONS,
    }
    try:
        yield
    finally:
        for name, before in changed.items():
            os.environ.pop(name, None)
            if before is not None:
                os.environ[name] = before


def _log_file(folder: Path) -> Path:
    """What Java prints to. A file that has grown too large is set aside; processes that write to it go on there.

    Where it cannot be, because it is gone meanwhile or Windows holds it, it stays: no start fails for that.
    """
    file = folder / "spark.log"
    with contextlib.suppress(OSError):
        if file.stat().st_size > LOG_MOST:
            file.replace(folder / "spark.log.1")
    return file


def _reason(error: Exception, log: Path, before: int) -> str:
    """The first line of an exception and of what Java wrote since its log was ``before`` octets long, each a sentence."""
    with log.open("rb") as written:
        written.seek(before)
        lines = written.read().decode(errors="replace").splitlines()
    told = [line.strip() for line in lines if line.strip() and not line.startswith(CHATTER)]
    # Other processes write to the same file.
    told = [line for line in told if line.startswith(NOT_STARTED)] or told
    first = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return " ".join(line if line.endswith(".") else f"{line}." for line in [first, *told[:2]])


def _warehouse() -> str:
    """A folder for tables without a path (Spark would make one where the command runs); removed at the end where nothing is in it."""
    folder = os.path.join(tempfile.gettempdir(), f"lakelog-warehouse-{uuid.uuid4().hex}")

    def remove() -> None:
        with contextlib.suppress(OSError):
            os.rmdir(folder)

    atexit.register(remove)
    os.mkdir(folder, 0o700)  # not before: a signal may end the process in between
    return folder


def _tell(line: str) -> None:
    sys.stderr.write(line + "\n")


def launched_session(environment: Mapping[str, str] = os.environ) -> SparkSession | None:
    """The session that Databricks or spark-submit made, or configured, for this process; None where neither started it.

    It is taken as it is: no master, no jar and no setting of lakelog's. PySpark no longer prints errors in this process, it only raises them.
    """
    if not any(environment.get(name) for name in LAUNCHERS):
        return None
    from pyspark.sql import SparkSession

    prerequisites.raise_only()
    return SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()


def local_session(
    app: str = "lakelog",
    *,
    master: str = "local[*]",
    memory: str = "4g",
    config: Mapping[str, str] | None = None,
    kafka: bool = False,
    say: Callable[[str], None] = _tell,
) -> SparkSession:
    """A Spark session on this machine with Delta, quiet, in UTC; the running one when there is one.

    Args:
        app: the application's name.
        master: Spark's master; ``local[2]`` for two cores, ``spark://host:7077`` for a standalone cluster.
        memory: heap of the Java process (``spark.driver.memory``), which does all the work.
        config: further Spark settings; they win over lakelog's, but for ``spark.api.mode``: what is started is a classic one.
        kafka: with Spark's Kafka source; a session that runs already is taken as it is.
        say: told one line when the jars are fetched (first start only).

    Returns:
        The session; PySpark no longer prints errors in this process. What Java prints goes to ``spark.log`` in the cache folder; once it is
        larger than 16 MiB a start begins a new one, and the old one is ``spark.log.1``.

    Raises:
        NotReady: Java, an extra or the jars are missing, or Java did not start; the message says which and what to do.
    """
    check_extras()
    from pyspark.sql import SparkSession

    prerequisites.raise_only()
    running = _running()
    if running is not None:
        return running
    check_java()
    jars = [*delta_jars(say), *(kafka_jars(say) if kafka else [])]

    for name in prerequisites.CONNECT_MODE:
        os.environ.pop(name, None)
    folder = cache_folder()
    log4j = folder / "log4j2.properties"
    if not log4j.exists() or log4j.read_text() != LOG4J:
        log4j.write_text(LOG4J)
    cores = os.cpu_count() or 2
    settings = {
        **DELTA_CONF,
        **_classes(jars, master, config or {}, f"-Dlog4j2.configurationFile={log4j.as_uri()} {JAVA_OPTIONS}"),
        "spark.driver.memory": memory,
        **(LOOPBACK if _is_alone(master) else {}),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(max(2, cores)),
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": str(cores),
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.databricks.delta.snapshotPartitions": "2",
        # Generated classes are kept for the next statement of the same shape; an append and a merge together need more than Spark's 100.
        "spark.sql.codegen.cache.maxEntries": "1000",
        "spark.sql.catalogImplementation": "in-memory",
        # Where in the program each column was made, told in error messages, costs more than making the column.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        # Options of a Kafka source are secrets too.
        "spark.redaction.regex": "(?i)secret|password|token|access[.]?key|credential|jaas",
        **{name: value for name, value in (config or {}).items() if name != "spark.jars"},
        "spark.api.mode": "classic",  # whatever the environment or an installed package says
    }
    if settings["spark.sql.catalogImplementation"] == "in-memory":
        settings.setdefault("spark.sql.warehouse.dir", _warehouse())
    if _is_alone(master):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    written = _log_file(folder)
    before = written.stat().st_size if written.exists() else 0
    try:
        with _output_to(written), _starting():
            builder = SparkSession.builder.appName(app).master(master)
            for name, value in settings.items():
                builder = builder.config(name, value)
            return _asking_once(builder.getOrCreate())
    except Exception as error:
        raise NotReady(f"Spark did not start: {_reason(error, written, before)} See {written} and `lakelog doctor`.") from error


class _Remembered:
    """A class of Java's of which each member is asked for once."""

    def __init__(self, java_class: Any) -> None:
        self._java_class = java_class

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._java_class, name)
        setattr(self, name, member)
        return member


def _asking_once(spark: SparkSession) -> SparkSession:
    """The session, with the classes of `ASKED_FOR` remembered."""
    for name in ASKED_FOR:
        setattr(spark._jvm, name, _Remembered(getattr(spark._jvm, name)))
    return spark


def _is_alone(master: str) -> bool:
    """Whether all of Spark is one Java process; else workers on other machines call the driver, and need its jars."""
    return master.startswith("local") and not master.startswith("local-cluster")


def archives_classes(master: str, config: Mapping[str, str]) -> bool:
    """Whether a session with these settings has all of Delta on Java's own class path, where Java archives classes."""
    own = ("spark.jars", "spark.driver.extra", "spark.driver.userClassPath")
    return _is_alone(master) and not any(name.startswith(own) for name in config)


def is_running() -> bool:
    """Whether this process has a session already, or one that another program configured."""
    return any(os.environ.get(name) for name in LAUNCHERS) or _running() is not None


def _running() -> SparkSession | None:
    """The session there is. Java knows it by the connection of this thread, which `cancel` closes: then it is the one that was made last."""
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    try:
        return SparkSession.active()
    except (PySparkRuntimeError, ImportError):  # or Connect's own packages are not there
        return None


def _classes(jars: Sequence[Path], master: str, config: Mapping[str, str], java_options: str) -> dict[str, str]:
    """The settings by which Java finds Delta's classes, in the archive of classes where it can, and its options.

    Java archives what stands on its own class path. Executors in other processes, and jars of the user's that Delta's are to find, need
    ``spark.jars``.
    """
    if not archives_classes(master, config):
        own = [config["spark.jars"]] if config.get("spark.jars") else []
        return {"spark.jars": ",".join([*map(str, jars), *own]), "spark.driver.extraJavaOptions": java_options}
    class_path = beside_spark(jars)
    archive = class_archive(class_path)
    shared = archive.java_options() if archive else ""
    if archive and not shared:
        archive.make_later()
    return {
        "spark.driver.extraClassPath": os.pathsep.join(map(str, class_path)),
        "spark.driver.extraJavaOptions": f"{java_options} {shared}".strip(),
    }


def setting(spark: SparkSession, name: str) -> str | None:
    """A setting of a session; None where it is not set, or the session does not tell (serverless sessions tell a few)."""
    try:
        return spark.conf.get(name, None)
    except Exception:
        return None
