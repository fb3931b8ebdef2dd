"""``lakelog.toml``, the environment and the command line, as one value: where the lake is and how to start Spark for it.

::

    root = "./lake"              # a path (relative to this file, with a "/"), or a catalog schema such as spark_catalog.sales

    [session]                    # of a local Spark; Databricks and spark-submit bring their own
    master = "local[*]"          # Spark's master
    memory = "4g"                # heap of the Java process

    [session.config]             # further Spark settings, as they are
    "spark.sql.shuffle.partitions" = "8"

    [topics.orders]              # where the records of a topic come from (running/sources.py)
    sources = ["./in/orders", {directory = "./in/shop", name = "shop", pattern = "*.csv", delimiter = ";"}, {table = "./raw/orders"},
        {kafka = "orders", bootstrap_servers = "broker:9092", mirror = true, decode = {value = "json"}}]

What the command line says goes before the environment (``LAKELOG_ROOT``, ``LAKELOG_CONFIG``), that before the file.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakelog.delta.session import launched_session, local_session
from lakelog.errors import InvalidConfig, InvalidRequest, LakelogError
from lakelog.model.config import did_you_mean
from lakelog.model.names import absolute_root
from lakelog.sources.configured import Lookup, Source, parsed
from lakelog.sources.kafka_source import KafkaSource

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakelog.lake.lake import Lake

FILE = "lakelog.toml"
KEYS = ("root", "session", "topics")
SESSION_KEYS = ("master", "memory", "config")
TOPIC_KEYS = ("sources",)


@dataclass(frozen=True)
class Settings:
    """Where the lake is (``root``, None when nothing says), how Spark starts, and the sources by topic; ``file`` is the lakelog.toml that was read.

    ``kafka``: a source is read that needs Spark's Kafka source.
    """

    root: str | None = None
    master: str = "local[*]"
    memory: str = "4g"
    spark: Mapping[str, str] = field(default_factory=dict)
    file: Path | None = None
    sources: Mapping[str, tuple[Source, ...]] = field(default_factory=dict)
    kafka: bool = False

    def lake_root(self) -> str:
        """The root of the lake.

        Raises:
            InvalidRequest: nothing says where the lake is; then give --root.
        """
        if not self.root:
            raise InvalidRequest(f'Which lake? Give --root PATH, set LAKELOG_ROOT, or write root = "./lake" into a {FILE} here or above.')
        return self.root

    def reading(self, sources: Sequence[Source]) -> Settings:
        """The settings for a session that reads some sources."""
        return replace(self, kafka=self.kafka or any(isinstance(one, KafkaSource) for one in sources))

    def lookup(self, topic: str) -> Lookup:
        """Where the sources of a topic were looked for."""
        if self.file is None:
            return Lookup(None, f"no {FILE} was found in {Path.cwd()} or above: run where it is, or name it with --config.")
        read = None if topic in self.sources else f"{self.file} was read, and has no [topics.{topic}].{did_you_mean(topic, self.sources)}"
        return Lookup(str(self.file), read)

    def unknown_topics(self, lake: Lake) -> list[str]:
        """What is wrong with tables of topics that the lake does not have, in sentences. Cost: the lake's table is opened where there are any."""
        known: list[str] = []
        with contextlib.suppress(LakelogError):
            known = lake.topics() if self.sources else []
        if not known:
            # Whoever opens a topic there is told.
            return []
        found = [name for name in self.sources if name not in known]
        return [f"{self.file}: there is no topic {name} in {self.root}.{did_you_mean(name, known)}" for name in found]

    def open_session(self) -> SparkSession:
        """The session of Databricks or spark-submit where one of them started this process; else the running one, or a local one as the
        settings say.
        """
        return launched_session() or local_session(master=self.master, memory=self.memory, config=self.spark, kafka=self.kafka)

    def open_lake(self) -> Lake:
        """The lake, on `open_session`.

        Raises:
            InvalidRequest: nothing says where the lake is.
            NotReady: Spark cannot start.
        """
        root = self.lake_root()
        from lakelog.delta.object_store import only_spark_writes
        from lakelog.lake.lake import Lake
        from lakelog.native.stores import use_settings

        session = self.open_session()
        # The row of a run that a signal ends is written without Spark.
        use_settings(self.spark, s3_writer=only_spark_writes(session, root))
        return Lake(session, root)

    def open_native(self) -> Lake:
        """The lake without a session: it answers what only reads.

        Raises:
            InvalidRequest: nothing says where the lake is, or it cannot be read without Spark.
        """
        from lakelog.lake.lake import Lake
        from lakelog.native.stores import use_settings

        use_settings(self.spark)
        return Lake(None, self.lake_root())


def load(
    *, root: str | None = None, config: str | None = None, folder: Path | None = None, environment: Mapping[str, str] = os.environ
) -> Settings:
    """Put together what the command line, the environment and lakelog.toml say.

    Args:
        root: ``--root``.
        config: ``--config``: the file to read; None looks for lakelog.toml in ``folder`` and above.
        folder: where the search begins and what a relative ``--root`` is relative to; None is the current folder.
        environment: where LAKELOG_ROOT and LAKELOG_CONFIG are looked up.

    Raises:
        InvalidConfig: the file is missing, is not TOML, or has an unknown key or a value of the wrong type.
    """
    here = folder or Path.cwd()
    named = config or environment.get("LAKELOG_CONFIG")
    file = here / named if named else find(here)
    content = _read(file) if file else {}
    session = content.get("session", {})
    return Settings(
        root=stated_root(root, here, environment)
        or (absolute_root(content["root"], file.absolute().parent) if file and "root" in content else None),
        master=session.get("master", Settings.master),
        memory=session.get("memory", Settings.memory),
        spark={name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in session.get("config", {}).items()},
        file=file,
        sources=_sources(file, content.get("topics", {})) if file else {},
    )


def stated_root(root: str | None, folder: str | os.PathLike[str] = "", environment: Mapping[str, str] = os.environ) -> str:
    """The root as the command line or the environment says it; empty where neither does."""
    return absolute_root(root or environment.get("LAKELOG_ROOT") or "", folder)


def find(folder: Path) -> Path | None:
    """The lakelog.toml of a folder or the nearest one above it."""
    start = folder.absolute()
    return next((parent / FILE for parent in (start, *start.parents) if (parent / FILE).is_file()), None)


def _read(file: Path) -> dict[str, Any]:
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidConfig(f"{file} cannot be read: {error.strerror}.", file=str(file)) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidConfig(f"{file} is not TOML: {error}.", file=str(file)) from error
    _check(file, "", content, KEYS, {"root": str, "session": dict, "topics": dict})
    _check(file, "session.", content.get("session", {}), SESSION_KEYS, {"master": str, "memory": str, "config": dict})
    return content


def _sources(file: Path, topics: Mapping[str, Any]) -> dict[str, tuple[Source, ...]]:
    """The sources of each topic; relative paths are relative to the folder in which the file lies, be the file itself a link to another one.

    Links of folders are followed, as they are in the current folder's path: a source has one identity from wherever it is named.
    """
    found = {}
    for name, said in topics.items():
        if not isinstance(said, dict):
            raise InvalidConfig(f"{file}: topics.{name} must be a table.", setting=f"topics.{name}", file=str(file))
        _check(file, f"topics.{name}.", said, TOPIC_KEYS, {"sources": list})
        found[name] = parsed(said.get("sources", []), where=f"{file}: topics.{name}.sources", folder=file.parent.resolve())
    return found


def _check(file: Path, prefix: str, table: Mapping[str, Any], known: tuple[str, ...], types: Mapping[str, type]) -> None:
    for name, value in table.items():
        if name not in known:
            hint = did_you_mean(name, known) or f" Known: {', '.join(prefix + key for key in known)}."
            raise InvalidConfig(f"{file}: there is no setting {prefix}{name}.{hint}", setting=prefix + name, file=str(file))
        if not isinstance(value, types[name]):
            kind = "a table" if types[name] is dict else "a list" if types[name] is list else "text"
            raise InvalidConfig(f"{file}: {prefix}{name} must be {kind}.", setting=prefix + name, file=str(file))
