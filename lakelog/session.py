"""The door to Spark: a local session with Delta, for laptops, jobs on one machine, and tests.

The Delta jars come from Maven Central through Spark's own resolver at the first start, once, into a cache folder; every later start
takes the files from there and needs no network. On a cluster that brings Spark and Delta (Databricks, Spark Connect) use its own
session instead: nothing else in lakelog builds one.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from lakelog.errors import NotReady

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA_MAJORS = (17, 21)
DELTA_JAR = "io.delta:delta-spark_4.1_2.13:{version}"
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
# A resolver that asks Maven Central alone: quiet and quick. Spark's default asks a second repository for every artifact.
IVY_SETTINGS = """<ivysettings>
  <settings defaultResolver="chain"/>
  <resolvers><chain name="chain" returnFirst="true">
    <filesystem name="local-m2" m2compatible="true">
      <artifact pattern="${user.home}/.m2/repository/[organisation]/[module]/[revision]/[module]-[revision].[ext]"/>
      <ivy pattern="${user.home}/.m2/repository/[organisation]/[module]/[revision]/[module]-[revision].pom"/>
    </filesystem>
    <ibiblio name="central" m2compatible="true"/>
  </chain></resolvers>
</ivysettings>
"""
LOG4J = """rootLogger.level = error
rootLogger.appenderRef.stderr.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n
"""
# What another program's settings would change about our Java process.
LEAKING_VARIABLES = ("PYSPARK_SUBMIT_ARGS", "SPARK_HOME", "SPARK_CONF_DIR", "HADOOP_CONF_DIR", "SPARK_REMOTE")


def java_command(environment: Mapping[str, str] = os.environ) -> str | None:
    """The Java that Spark would start: ``JAVA_HOME/bin/java``, else the one on the path; None when there is none."""
    home = environment.get("JAVA_HOME")
    if home:
        candidate = Path(home, "bin", "java")
        return str(candidate) if candidate.exists() else None
    return shutil.which("java", path=environment.get("PATH"))


def java_major(command: str) -> int | None:
    """The major version of a Java executable; None when it does not answer."""
    try:
        answer = subprocess.run([command, "-version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(\d+)(?:\.(\d+))?', answer.stderr + answer.stdout)
    if not found:
        return None
    return int(found[2]) if found[1] == "1" and found[2] else int(found[1])


def check_java(environment: Mapping[str, str] = os.environ) -> int:
    """The major version of a Java that Spark 4.1 runs on.

    Raises:
        NotReady: there is none, or a version other than 17 or 21; then install one and point JAVA_HOME at it.
    """
    remedy = "Install a JDK 17 or 21 (Debian: apt-get install openjdk-17-jre-headless) and set JAVA_HOME to it."
    command = java_command(environment)
    if command is None:
        where = f"JAVA_HOME={environment['JAVA_HOME']} holds no bin/java" if environment.get("JAVA_HOME") else "no java on the PATH"
        raise NotReady(f"Spark needs Java 17 or 21: {where}. {remedy}")
    major = java_major(command)
    if major not in JAVA_MAJORS:
        raise NotReady(f"Spark needs Java 17 or 21, but {command} is {f'version {major}' if major else 'not a working Java'}. {remedy}")
    return major


def check_extras() -> tuple[str, str]:
    """The versions of pyspark and delta-spark.

    Raises:
        NotReady: one of them is not installed; then install ``lakelog[local]``.
    """
    try:
        versions = metadata.version("pyspark"), metadata.version("delta-spark")
    except metadata.PackageNotFoundError as error:
        raise NotReady(f"{error.name} is not installed. Install it with: pip install 'lakelog[local]'") from error
    if importlib.util.find_spec("pandas") is None or importlib.util.find_spec("pyarrow") is None:
        raise NotReady("pandas or pyarrow is not installed. Install them with: pip install 'lakelog[local]'")
    return versions


def cache_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Where jars and logs are kept: LAKELOG_CACHE, else ``lakelog`` in the user's cache folder."""
    if environment.get("LAKELOG_CACHE"):
        return Path(environment["LAKELOG_CACHE"])
    return Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lakelog"


def jar_folder() -> Path:
    """Where the Delta jars for the installed pyspark and delta-spark are kept.

    Raises:
        NotReady: an extra is missing.
    """
    spark_version, delta_version = check_extras()
    return cache_folder() / "jars" / f"spark-{spark_version}-delta-{delta_version}"


def cached_jars(folder: Path) -> list[Path]:
    """The jars of a complete cache folder, sorted; empty when it is not complete (the manifest is written last)."""
    manifest = folder / "MANIFEST"
    if not manifest.exists():
        return []
    jars = [folder / line for line in manifest.read_text().split()]
    return jars if all(jar.exists() for jar in jars) else []


def delta_jars(say: Callable[[str], None]) -> list[Path]:
    """The Delta jars that fit the installed pyspark and delta-spark, fetched at the first call.

    Args:
        say: told one line when something is fetched; not called when the cache is complete.

    Raises:
        NotReady: an extra is missing, Java does not fit, or the resolver failed (its last lines are in the message).
    """
    folder, delta_version = jar_folder(), check_extras()[1]
    jars = cached_jars(folder)
    if jars:
        return jars
    check_java()
    say(f"lakelog: fetching the Delta {delta_version} jars from Maven Central into {folder} (once, about 90 MB)")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as work:
        resolved = _resolve(DELTA_JAR.format(version=delta_version), Path(work))
        folder.mkdir(exist_ok=True)
        for jar in resolved:
            os.replace(jar, folder / jar.name)
        pending = folder / f"MANIFEST.{os.getpid()}"
        pending.write_text("".join(f"{jar.name}\n" for jar in resolved))
        os.replace(pending, folder / "MANIFEST")
    return cached_jars(folder)


def _resolve(coordinates: str, work: Path) -> list[Path]:
    """Let Spark's resolver put a package and all it needs into ``work``; an empty script is what it then runs."""
    import pyspark

    (work / "ivysettings.xml").write_text(IVY_SETTINGS)
    (work / "nothing.py").write_text("")
    settings = os.environ.get("LAKELOG_IVY_SETTINGS", str(work / "ivysettings.xml"))
    command = [
        str(Path(pyspark.__file__).parent / "bin" / "spark-submit"),
        "--master", "local[1]", "--packages", coordinates,
        "--conf", f"spark.jars.ivy={work / 'ivy'}", "--conf", f"spark.jars.ivySettings={settings}",
        str(work / "nothing.py"),
    ]  # fmt: skip
    environment = {name: value for name, value in os.environ.items() if name not in LEAKING_VARIABLES}
    environment |= {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    answer = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    jars = sorted((work / "ivy" / "jars").glob("*.jar"))
    if answer.returncode != 0 or not jars:
        trouble = [line.strip() for line in answer.stderr.splitlines() if "unresolved" in line.lower() or "exception" in line.lower()]
        reason = "; ".join(trouble[:3]) or answer.stderr.strip()[-300:]
        raise NotReady(
            f"The Delta jars could not be fetched ({coordinates}): {reason}. "
            "Behind a proxy or mirror, name an Ivy settings file in LAKELOG_IVY_SETTINGS; `lakelog doctor` shows the rest."
        )
    return jars


@contextlib.contextmanager
def _stderr_to(log: Path) -> Iterator[None]:
    """Send this process's standard error to a file: the Java process started meanwhile keeps it for its whole life."""
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with log.open("ab") as target:
            os.dup2(target.fileno(), 2)
        yield
    finally:
        sys.stderr.flush()
        os.dup2(kept, 2)
        os.close(kept)


def _tell(line: str) -> None:
    sys.stderr.write(line + "\n")


def local_session(
    app: str = "lakelog",
    *,
    master: str = "local[*]",
    memory: str = "4g",
    config: Mapping[str, str] | None = None,
    say: Callable[[str], None] = _tell,
) -> SparkSession:
    """A Spark session on this machine with Delta, quiet, in UTC; the running one when there is one.

    Args:
        app: the application's name.
        master: Spark's master; ``local[2]`` for two cores.
        memory: heap of the Java process (``spark.driver.memory``), which does all the work.
        config: further Spark settings; they win over lakelog's.
        say: told one line when the jars are fetched (first start only).

    Returns:
        The session. What Java prints goes to ``spark.log`` in the cache folder.

    Raises:
        NotReady: Java, an extra or the jars are missing; the message says which and what to do.
    """
    check_extras()
    from pyspark.logger import PySparkLogger
    from pyspark.sql import SparkSession

    running = SparkSession.getActiveSession()
    if running is not None:
        return running
    check_java()
    jars = delta_jars(say)

    # PySpark prints every error of a query as a line of JSON on stderr, beside raising it.
    PySparkLogger.getLogger("SQLQueryContextLogger").disabled = True
    folder = cache_folder()
    log4j = folder / "log4j2.properties"
    if not log4j.exists() or log4j.read_text() != LOG4J:
        log4j.write_text(LOG4J)
    cores = os.cpu_count() or 2
    settings = {
        **DELTA_CONF,
        "spark.jars": ",".join(map(str, jars)),
        "spark.driver.memory": memory,
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={log4j.as_uri()} {JAVA_OPTIONS}",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
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
        **(config or {}),
    }
    kept = {name: os.environ.pop(name) for name in LEAKING_VARIABLES if name in os.environ}
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(app).master(master)
    for name, value in settings.items():
        builder = builder.config(name, value)
    try:
        with _stderr_to(folder / "spark.log"):
            return builder.getOrCreate()
    except Exception as error:
        tail = (folder / "spark.log").read_text(errors="replace").strip().splitlines()[-3:]
        raise NotReady(f"Spark did not start: {' / '.join(tail) or error}. See {folder / 'spark.log'} and `lakelog doctor`.") from error
    finally:
        os.environ.update(kept)
