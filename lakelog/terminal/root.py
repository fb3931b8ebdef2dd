"""The root of a lake as far as it can be looked at without Spark: what is certainly wrong there is told before Spark starts; who reads it:
Spark, or this process without a JVM (native/)."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from lakelog.delta.prerequisites import missing_connector
from lakelog.delta.table_properties import PREFIX
from lakelog.errors import InvalidConfig, InvalidRequest, LakelogError, NotFound, NotReady, TopicNotFound
from lakelog.model.config import did_you_mean
from lakelog.model.names import check_root, local_path, scheme_of
from lakelog.native.stores import why_not
from lakelog.terminal.settings import Settings

ENGINES = ("auto", "native", "spark")
NOT_WRITABLE = "Make it writable for the user who runs this, or name another root."


def problem(settings: Settings, *, spark: bool = True) -> LakelogError | None:
    """Why nothing can work under the root: its name, a file in its place, and where ``spark`` opens it its catalog, its connector; None where
    nothing is known."""
    root = settings.lake_root()
    try:
        check_root(root)
    except InvalidRequest as error:
        return error
    if "/" not in root:
        return _volatile_catalog(root, settings) if spark else None
    missing = missing_connector(scheme_of(root), settings.spark) if spark else ""
    if missing:
        return NotReady(f"{root}: {missing}")
    folder = local(settings)
    if folder is not None and os.path.exists(folder) and not os.path.isdir(folder):
        return InvalidRequest(f"{root} is a file. The root of a lake is a folder: name another one.", name="NOT_A_LAKE")
    return None


def require(settings: Settings, topics: Sequence[str] = (), *, creating: bool = False, writing: bool = False, spark: bool = True) -> None:
    """Refuse what cannot work, by a look at the files of this machine.

    Args:
        settings: they say where the lake is.
        topics: those that must be there.
        creating: the root may become a lake.
        writing: tables are going to be changed.
        spark: Spark is to open the lake, and not this process.

    Raises:
        LakelogError: what `problem` gives; the root is no lake; a topic is not there; what is to be written is read-only.
    """
    found = problem(settings, spark=spark)
    if found is not None:
        raise found
    root, folder = settings.lake_root(), local(settings)
    if folder is None:
        return
    if creating or writing:
        refused = read_only(folder)
        if refused:
            raise NotReady(f"{root}: {refused}")
    if not is_lake(folder):
        if creating:
            return
        raise NotFound(f"{root} {no_lake(folder)}", name="NOT_A_LAKE")
    for name in topics:
        if not _is_folder(folder / name / "bronze" / "_delta_log"):
            _require_unlisted(settings, name)
            existing = sorted(there(folder))
            hint = f"{did_you_mean(name, existing)} Topics: {', '.join(existing) or 'none'}."
            raise TopicNotFound(f"There is no topic {name} in {root}.{hint}", existing=existing)
        refused = read_only(folder / name / "silver" / "_delta_log") if writing else ""
        if refused:
            raise NotReady(f"{name}: {refused}")


def local(settings: Settings) -> Path | None:
    """The folder of the root on this machine; None for one elsewhere, or a catalog schema."""
    root = settings.lake_root()
    path = local_path(root) if "/" in root else None
    if path is None or not path.startswith("/"):
        return None
    # A path without a scheme lies in Spark's default file system.
    default = settings.spark.get("spark.hadoop.fs.defaultFS", "file:///")
    return Path(path) if path != root or default.startswith("file:") else None


def is_lake(folder: Path) -> bool:
    """Whether a folder holds a lake.

    Raises:
        NotReady: nobody may look.
    """
    return _is_folder(folder / "_lakelog" / "runs" / "_delta_log")


def _is_folder(place: Path) -> bool:
    try:
        return stat.S_ISDIR(os.stat(place).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise NotReady(
            f"{place} cannot be looked at ({error.strerror}). Make it readable for the user who runs this, or name another root."
        ) from error


def no_lake(folder: Path) -> str:
    """Why a folder is no lake, and what to do: it is not there, has lost what makes it one, or another one is meant."""
    if not os.path.exists(folder):
        return "is not a lake: there is no such folder. create_topic makes it one."
    topics = sorted(name for name in there(folder) if _is_topic(folder / name))
    if topics:
        return (
            f"is not a lake any more: it holds the topic {topics[0]}, but not _lakelog/runs, which lists topics. Put that back from a copy."
        )
    inside = sorted(one.name for one in _entries(folder) if is_lake(one))
    if inside:
        return f"is not a lake; {inside[0]} in it is one: name {folder / inside[0]}"
    if is_lake(folder.parent):
        return f"is not a lake, but within one: name {folder.parent}"
    if any(_entries(folder)):
        return "is not a lake, and not empty. Name the root of a lake, or a new or empty folder."
    return "is not a lake: it is empty. create_topic makes it one."


def there(folder: Path) -> Iterator[str]:
    """The topics under a folder."""
    for entry in _entries(folder):
        if _is_folder(entry / "bronze" / "_delta_log"):
            yield entry.name


def _is_topic(folder: Path) -> bool:
    """Whether a folder's bronze is a topic's log, by what its first commit says."""
    try:
        return PREFIX in (folder / "bronze" / "_delta_log" / f"{0:020}.json").read_text(errors="replace")
    except OSError:
        return False


def _entries(folder: Path) -> list[Path]:
    """What lies in a folder; nothing where that cannot be looked at."""
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _require_unlisted(settings: Settings, name: str) -> None:
    """Say of a topic without a log that it is listed, where it is; then it was taken away, or its deletion was cut off.

    Raises:
        TopicNotFound: as `Lake.topic` does.
    """
    if why_not_here(settings):
        return
    lake = settings.open_native()
    listed: list[str] = []
    with contextlib.suppress(LakelogError):
        listed = lake.topics()
    if name in listed:
        lake.topic(name)


def read_only(folder: Path) -> str:
    """Why nothing can be written in a folder, or where it would be made; empty where something can."""
    place = next(one for one in (folder, *folder.parents) if one.exists())
    try:
        if os.access(place, os.W_OK | os.X_OK):
            # A right is not yet a place: some file systems let nobody make a folder.
            os.rmdir(tempfile.mkdtemp(prefix=".lakelog-", dir=place))
            return ""
        why = "Permission denied"
    except OSError as error:
        why = error.strerror or str(error)
    return f"nothing can be written in {place} ({why}). {NOT_WRITABLE}"


def _volatile_catalog(root: str, settings: Settings) -> LakelogError | None:
    """A catalog that is gone with the process: what is created there is lost, and its files stay."""
    catalog = root.split(".")[0] if "." in root else "spark_catalog"
    if catalog == "spark_catalog":
        if settings.spark.get("spark.sql.catalogImplementation") == "hive":
            return None
        wanted = '"spark.sql.catalogImplementation" = "hive" (Hive\'s metastore, or a local one in ./metastore_db)'
    else:
        if f"spark.sql.catalog.{catalog}" in settings.spark:
            return None
        wanted = f'"spark.sql.catalog.{catalog}" = "…" (the class of that catalog)'
    return InvalidConfig(
        f"{root} is a catalog schema, and this Spark has no catalog that outlasts the command: what is created there would be lost. For a folder"
        f" write ./{root}. For a catalog write into lakelog.toml, under [session.config]: {wanted}.",
        root=root,
    )


def check_engine(engine: str) -> None:
    """Refuse an engine that is none.

    Raises:
        InvalidRequest: naming those there are.
    """
    if engine not in ENGINES:
        raise InvalidRequest(f"--engine {engine}: must be one of {', '.join(ENGINES)}.{did_you_mean(engine, ENGINES)}")


def chosen_engine(settings: Settings, engine: str) -> str:
    """``native`` or ``spark``: what was named, or for ``auto`` native wherever it certainly sees what Spark sees.

    That is a folder of this machine. An object store is read natively when it is asked for by name: delta-rs has its credentials from the
    environment, Spark from its settings, and the two may differ.

    Raises:
        InvalidRequest: no such engine; or the root is none.
        NotReady: native was named, and cannot read this root; it says why.
    """
    check_engine(engine)
    check_root(settings.lake_root())
    if engine == "spark":
        return engine
    if engine == "auto" and "/" in settings.lake_root() and local(settings) is None:
        return "spark"
    reason = why_not_here(settings)
    if reason and engine == "native":
        raise NotReady(f"{settings.lake_root()} cannot be read without Spark: {reason}. Ask with --engine spark.")
    return "spark" if reason else "native"


def why_not_here(settings: Settings) -> str:
    """Why the lake cannot be read without Spark; empty where it can."""
    root = settings.lake_root()
    if "/" in root and local(settings) is None and ":" not in root:
        return "a path without a scheme lies in Spark's default file system, which the settings say is another"
    return why_not(root)


def no_native(engine: str, what: str) -> str:
    """The engine for what Spark alone does.

    Raises:
        NotReady: native was named.
    """
    check_engine(engine)
    if engine == "native":
        raise NotReady(f"{what} cannot be answered without Spark. Ask with --engine spark.")
    return "spark"
