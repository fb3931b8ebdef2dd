"""``lakelog doctor``: what is wrong with this machine or this lake, and what to do. Needs nothing beyond the core wheel."""

from __future__ import annotations

import contextlib
import importlib.util
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakelog.delta import class_archive, prerequisites
from lakelog.delta.object_store import S3_SCHEMES, log_store, unarbitrated
from lakelog.delta.session import archives_classes, is_running
from lakelog.delta.stopping import end
from lakelog.errors import UNSUPPORTED_FEATURE, LakelogError, NotFound, NotReady
from lakelog.model.names import scheme_of
from lakelog.results import Result
from lakelog.terminal import output
from lakelog.terminal import root as place
from lakelog.terminal.settings import Settings
from lakelog.terminal.words import in_cli

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# What the extra `local` brings, and what lakelog is tested with.
PACKAGES: Mapping[str, str] = {"pyspark": "4.1.3", "delta-spark": "4.4.0", "pandas": "2.", "pyarrow": ""}
FREE_BYTES_LEAST = 1 << 30
# Seconds that Java may take to end, and to write its archive of classes.
PATIENCE = 300.0
MARKS = {"ok": "ok  ", "warn": "warn", "fail": "FAIL"}


@dataclass(frozen=True)
class Check(Result):
    """One thing looked at: ``state`` is ok, warn or fail; ``todo`` is what to do, empty when ok."""

    name: str
    state: str
    found: str
    todo: str = ""


def examine(settings: Callable[[], Settings], *, spark: bool = False) -> list[Check]:
    """Look at everything, in the order in which it would fail.

    Args:
        settings: gives root and Spark settings; an error in lakelog.toml is one of the findings.
        spark: also start Spark and write and read a small Delta table.
    """
    checks = [python(), java(), *packages(), native(), jars(), *kafka(), classes()]
    try:
        given = settings()
    except LakelogError as error:
        return [*checks, Check("settings", "fail", str(error), "Correct the file.")]
    checks.append(Check("settings", "ok", str(given.file) if given.file else "no lakelog.toml here or above"))
    try:
        checks += lake(given)
    except LakelogError as error:
        checks.append(_failed("root", error))
    if spark:
        broken = [check.name for check in checks if check.state == "fail"]
        checks.append(Check("spark", "fail", f"not tried: {', '.join(broken)} first", "See above.") if broken else try_spark(given))
    return checks


def _failed(name: str, error: LakelogError, topic: str | None = None) -> Check:
    """An error as a finding: its first sentence is what was found, the others are what to do."""
    found, _, todo = str(in_cli(error, topic)).partition(". ")
    return Check(name, "fail", found, todo)


def report(checks: Sequence[Check], *, as_json: bool) -> None:
    """Print the findings, as text or as one JSON object."""
    if as_json:
        return output.document({"ok": all(check.state != "fail" for check in checks), "checks": [check.to_dict() for check in checks]})
    for check in checks:
        output.line(f"{MARKS[check.state]}  {check.name:<12} {check.found}")
        if check.todo:
            output.line(f"      {'':<12} -> {check.todo}")
    return None


def python() -> Check:
    """The Python that runs this."""
    version = ".".join(map(str, sys.version_info[:3]))
    return Check("python", "ok", f"{version} ({sys.executable})")


def java() -> Check:
    """The Java that Spark would start."""
    try:
        major = prerequisites.check_java()
    except NotReady as error:
        return _failed("java", error)
    return Check("java", "ok", f"{major} ({prerequisites.java_command()})")


def packages() -> Iterator[Check]:
    """The Python packages of the extra ``local``."""
    for name, wanted in PACKAGES.items():
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:
            yield Check(name, "fail", "not installed", "pip install 'lakelog[local]'")
            continue
        fits = version.startswith(wanted)
        todo = "" if fits else f"lakelog is tested with {wanted.rstrip('.')}: pip install 'lakelog[local]'"
        yield Check(name, "ok" if fits else "warn", version, todo)


def native() -> Check:
    """The packages of the extra ``native``: without them, what only reads starts Java too."""
    found = {}
    for name in ("deltalake", "duckdb", "pyarrow"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    missing = [name for name in ("deltalake", "duckdb", "pyarrow") if name not in found]
    if missing:
        return Check(
            "native reads",
            "warn",
            f"{' and '.join(missing)} not installed: reading commands start Java too",
            "pip install 'lakelog[native]'",
        )
    return Check("native reads", "ok", ", ".join(f"{name} {version}" for name, version in found.items()))


def jars() -> Check:
    """The Delta jars in the cache."""
    try:
        folder = prerequisites.jar_folder()
    except NotReady as error:
        return Check("delta jars", "fail", "unknown before pyspark and delta-spark are installed", str(error))
    found = prerequisites.cached_jars(folder)
    if found:
        return Check("delta jars", "ok", f"{len(found)} in {folder}")
    return Check("delta jars", "warn", f"not yet in {folder}", "The first Spark start fetches them, once: lakelog doctor --spark")


def kafka() -> Iterator[Check]:
    """The jars of Spark's Kafka source, where they were fetched, and what reads Avro: only Kafka sources need them."""
    with contextlib.suppress(NotReady):
        found = prerequisites.cached_jars(prerequisites.kafka_folder())
        avro = "fastavro" if importlib.util.find_spec("fastavro") else "no fastavro (pip install 'lakelog[kafka]')"
        yield Check("kafka", "ok", f"{len(found)} jars, {avro}" if found else f"no jars yet: the first Kafka source fetches them; {avro}")


def lake(settings: Settings) -> Iterator[Check]:
    """Where the lake is, whether there is one, and whether two writers are safe there."""
    if not settings.root:
        yield Check("root", "warn", "nothing says where the lake is", "Give --root, set LAKELOG_ROOT, or write root into lakelog.toml.")
        return
    root = settings.root
    if scheme_of(root) in S3_SCHEMES:
        why, _, todo = unarbitrated(root, settings.spark.get).partition(". ")
        store = f"{scheme_of(root)}:// with {log_store(root, settings.spark.get)}"
        yield Check("two writers", "warn", why, todo) if why else Check("two writers", "ok", store)
    wrong = place.problem(settings)
    if wrong is not None:
        yield _failed("root", wrong)
        return
    folder = place.local(settings)
    if folder is None:
        yield Check("root", "ok", f"{root} (looked at by `lakelog topic list`)")
        return
    if place.is_lake(folder):
        yield Check("root", "ok", f"{root} is a lake")
        yield from topics(settings)
    elif not folder.exists():
        yield Check("root", "ok", f"{root} does not exist yet; `lakelog topic create` makes it a lake")
    elif not any(folder.iterdir()):
        yield Check("root", "ok", f"{root} is empty; `lakelog topic create` makes it a lake")
    else:
        yield _failed("root", NotFound(f"{root} {place.no_lake(folder)}"))
    refused = place.read_only(folder)
    if refused:
        yield Check("writable", "fail", refused.removesuffix(f". {place.NOT_WRITABLE}"), place.NOT_WRITABLE)
    yield disk(folder)


def topics(settings: Settings) -> Iterator[Check]:
    """The lake's topics: whether their tables can be opened, and have their files; nothing where delta-rs is not installed."""
    if place.why_not_here(settings):
        return
    try:
        opened = settings.open_native()
        names = opened.topics()
    except LakelogError as error:
        yield _failed("topics", error)
        return
    wrong = []
    for name in names:
        try:
            topic: Any = opened.topic(name)
            topic.require_whole()
        except LakelogError as error:
            if error.name != UNSUPPORTED_FEATURE:
                wrong.append(_failed(f"topic {name}", error, name))
    yield from wrong or [Check("topics", "ok", output.count(len(names), "topic"))]


def disk(root: Path) -> Check:
    """Free space where the lake is."""
    there = next(folder for folder in (root, *root.absolute().parents) if folder.exists())
    free = shutil.disk_usage(there).free
    if free < FREE_BYTES_LEAST:
        return Check("disk", "warn", f"{free >> 20} MB free at {there}", "Make room: merges and time travel need space.")
    return Check("disk", "ok", f"{free >> 30} GB free at {there}")


def classes() -> Check:
    """The archive of Spark's classes, which makes its start quicker."""
    try:
        archive = class_archive.class_archive(class_archive.beside_spark(prerequisites.cached_jars(prerequisites.jar_folder())))
    except NotReady:
        return Check("class archive", "ok", "unknown before pyspark and delta-spark are installed")
    if archive is None:
        return Check("class archive", "ok", f"switched off ({class_archive.SWITCH}), or there is no Java")
    if archive.exists:
        return Check("class archive", "ok", f"{archive.file.stat().st_size >> 20} MB, {archive.file}")
    return Check("class archive", "ok", "not made yet: `lakelog doctor --spark` makes it, or the first command that starts Spark")


def try_spark(settings: Settings) -> Check:
    """Start Spark, write a small Delta table, read it. Where there is no archive of Spark's classes yet, go every verb's way, and make it."""
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="lakelog-doctor-"))
        try:
            making = stack.enter_context(_recording(settings))
            running = settings.open_session()
            running.range(3).write.format("delta").save(f"{folder}/table")
            rows = running.read.format("delta").load(f"{folder}/table").count()
            version = running.version
            if making:
                walk(running, f"{folder}/lake")
                end(running, patience=PATIENCE)
        except LakelogError as error:
            return Check("spark", "fail", str(error), "See above.")
        except Exception as error:
            first = next(iter(str(error).splitlines()), type(error).__name__)
            return Check("spark", "fail", first, f"Java's own words are in {prerequisites.cache_folder() / 'spark.log'}.")
        return Check("spark", "ok" if rows == 3 else "fail", f"Spark {version} wrote and read a Delta table")


@contextlib.contextmanager
def _recording(settings: Settings) -> Iterator[bool]:
    """Have the Java that is started within write the archive of classes; gives False where it is there, or cannot be made by this process."""
    jars = prerequisites.delta_jars(output.say)
    archive = class_archive.class_archive(class_archive.beside_spark(jars))
    if archive is None or archive.exists or is_running() or not archives_classes(settings.master, settings.spark):
        yield False
        return
    with archive.recording() as making:
        if making:
            output.say("lakelog: making the archive of Spark's classes (once, about a minute)")
        yield making


def walk(spark: SparkSession, root: str) -> None:
    """The way of the verbs through a small lake."""
    from lakelog.lake.lake import Lake

    lake = Lake(spark, root)
    topic = lake.create_topic("orders", key="id BIGINT", value="name STRING, at TIMESTAMP", config={"compaction.strategy": "timestamp"})
    topic.append([{"key": {"id": number}, "value": {"name": "a", "at": None}} for number in range(3)])
    topic.merge()
    topic.snapshot("first")
    topic.latest().count()
    topic.read().count()
    lake.sql("SELECT name, count(*) AS n FROM orders GROUP BY 1 ORDER BY 2").count()
    topic.status()
