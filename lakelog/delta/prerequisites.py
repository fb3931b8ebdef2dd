"""What a local Spark needs of this machine: a Java, the packages, and the Delta jars.

The jars come from Maven Central through Spark's own resolver at the first start, once, into a cache folder; every later start takes the
files from there and needs no network.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from pathlib import Path

from lakelog.errors import NotReady

JAVA_MAJORS = (17, 21)
DELTA_JAR = "io.delta:delta-spark_4.1_2.13:{version}"
KAFKA_JAR = "org.apache.spark:spark-sql-kafka-0-10_2.13:{version}"
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
# File systems that Spark itself does not bring: by scheme the artifact that does. `missing_connector` names the version.
CONNECTORS = {
    "s3a": "org.apache.hadoop:hadoop-aws",
    "abfs": "org.apache.hadoop:hadoop-azure",
    "abfss": "org.apache.hadoop:hadoop-azure",
    "gs": "com.google.cloud.bigdataoss:gcs-connector",
}
# What another program's settings would change about our Java process.
LEAKING_VARIABLES = ("PYSPARK_SUBMIT_ARGS", "SPARK_HOME", "SPARK_CONF_DIR", "HADOOP_CONF_DIR", "SPARK_REMOTE", "SPARK_API_MODE")
# By these PySpark knows that the session of its process is one of Connect's. Its children inherit them: a notebook's `!lakelog`, which has none.
CONNECT_MODE = ("SPARK_CONNECT_MODE_ENABLED", "SPARK_LOCAL_REMOTE")


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


def missing_connector(scheme: str, settings: Mapping[str, str]) -> str:
    """What is to be done before Spark can open a file system; empty where it can, or nothing is known.

    Args:
        scheme: of the URI, such as ``s3a``.
        settings: Spark's, as they were given; they may bring the connector.
    """
    named = " ".join(text for name, text in settings.items() if name.startswith(("spark.jars", "spark.driver.extraClassPath")))
    found = importlib.util.find_spec("pyspark")
    if found is None or scheme not in ("s3", *CONNECTORS):
        return ""
    if scheme == "s3":
        return "" if "spark.hadoop.fs.s3.impl" in settings else "Spark calls this file system s3a: write s3a:// in place of s3://."
    group, artifact = CONNECTORS[scheme].split(":")
    jars = Path((found.submodule_search_locations or [""])[0], "jars")
    if artifact in named or any(jars.glob(f"{artifact}*.jar")) or f"spark.hadoop.fs.{scheme}.impl" in settings:
        return ""
    hadoop = next((jar.stem.rpartition("-")[2] for jar in jars.glob("hadoop-client-api-*.jar")), "VERSION")
    version = hadoop if group == "org.apache.hadoop" else "hadoop3-2.2.28"
    return (
        f"Spark has no connector for {scheme}://. Write into lakelog.toml, under [session.config]:"
        f' "spark.jars.packages" = "{group}:{artifact}:{version}".'
    )


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


def kafka_folder() -> Path:
    """Where the jars of Spark's Kafka source for the installed pyspark are kept.

    Raises:
        NotReady: an extra is missing.
    """
    return cache_folder() / "jars" / f"spark-{check_extras()[0]}-kafka"


def kafka_jars(say: Callable[[str], None]) -> list[Path]:
    """The jars of Spark's Kafka source that fit the installed pyspark; else as `delta_jars`.

    They come out later than Spark, and a mirror may lack some: then those of the patch before it, which are made for the same Spark.
    """
    version = check_extras()[0]
    minor, _, patch = version.rpartition(".")
    older = [f"{minor}.{number}" for number in range(int(patch) - 1, -1, -1)] if patch.isdigit() else []
    wanted = [KAFKA_JAR.format(version=one) for one in [version, *older]]
    return _jars(kafka_folder(), wanted, f"the Kafka jars for Spark {version}", "60 MB", say)


def delta_jars(say: Callable[[str], None]) -> list[Path]:
    """The Delta jars that fit the installed pyspark and delta-spark, fetched at the first call.

    Args:
        say: told one line when something is fetched; not called when the cache is complete.

    Raises:
        NotReady: an extra is missing, Java does not fit, or the resolver failed (its last lines are in the message).
    """
    version = check_extras()[1]
    return _jars(jar_folder(), [DELTA_JAR.format(version=version)], f"the Delta {version} jars", "90 MB", say)


def _jars(folder: Path, wanted: Sequence[str], what: str, size: str, say: Callable[[str], None]) -> list[Path]:
    """The jars of a package and of all it needs, in a folder of the cache: of the first of these that is there as a whole."""
    jars = cached_jars(folder)
    if jars:
        return jars
    check_java()
    say(f"lakelog: fetching {what} from Maven Central into {folder} (once, about {size})")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as work:
        resolved = _first(wanted, Path(work))
        folder.mkdir(exist_ok=True)
        for jar in resolved:
            os.replace(jar, folder / jar.name)
        pending = folder / f"MANIFEST.{os.getpid()}"
        pending.write_text("".join(f"{jar.name}\n" for jar in resolved))
        os.replace(pending, folder / "MANIFEST")
    return cached_jars(folder)


def _first(wanted: Sequence[str], work: Path) -> list[Path]:
    """`_resolve` of the first package that is there."""
    first: NotReady | None = None
    for number, coordinates in enumerate(wanted):
        try:
            (work / str(number)).mkdir()
            return _resolve(coordinates, work / str(number))
        except NotReady as error:
            first = first or error
            if "not found" not in str(error):
                break
    raise first or NotReady("There is nothing to fetch.")


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
            f"The jars could not be fetched ({coordinates}): {reason}. "
            "Behind a proxy or mirror, name an Ivy settings file in LAKELOG_IVY_SETTINGS; `lakelog doctor` shows the rest."
        )
    return jars


def raise_only() -> None:
    """Have PySpark raise the errors of queries, and not print them beside that, as lines of JSON on stderr."""
    from pyspark.logger import PySparkLogger

    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True
