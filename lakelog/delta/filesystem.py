"""The door to files beside the tables: what lies in a folder, and folders that are removed."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from lakelog.delta.errors import condition_of
from lakelog.delta.location import address, on_this_disk
from lakelog.delta.session import setting
from lakelog.errors import InvalidRequest
from lakelog.model.names import literal, local_path, quoted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# What the folder of a topic's table holds before its first commit, or after a deletion that was cut off: directories of its partitions.
REMAINS = re.compile(r"_delta_log|(partition|bucket)=-?\d+")


def filesystem(location: str) -> tuple[Any, str]:
    """The file system of a path or URI and the path within it (pyarrow's, credentials from the environment)."""
    from pyarrow import fs

    try:
        path = local_path(location)
        if path is not None:
            return fs.LocalFileSystem(), path
        return fs.FileSystem.from_uri(_as_uri(location))  # type: ignore[no-any-return]
    except Exception as error:
        raise InvalidRequest(f"{location}: pyarrow cannot open this file system: {error}") from error


def _as_uri(location: str) -> str:
    """A location as Hadoop writes it, where every sign of a name stands for itself, as a URI; options of pyarrow (``?region=…``) stay."""
    place, mark, options = location.partition("?")
    if mark and not re.match(r"[a-z_]+=", options):
        place, options = location, ""
    store, path = re.match(r"([^:/]+:(?://[^/]*)?)(.*)", place, re.DOTALL).groups()  # type: ignore[union-attr]
    return re.sub(r"^s3[an]://", "s3://", store) + quote(path) + (f"?{options}" if options else "")


def is_file(location: str) -> bool:
    """Whether a path or URI names a file as it is written, no pattern; False where that cannot be told from here."""
    from pyarrow import fs

    try:
        system, path = filesystem(location)
        return bool(system.get_file_info(path).type == fs.FileType.File)
    except (InvalidRequest, OSError):
        return False


def names_in(spark: SparkSession, folder: str) -> list[str]:
    """The names of what lies in a folder, sorted; elsewhere than on this machine's disk, those that hold data files. Empty where there is none.

    Cost: elsewhere one Spark job that lists all files.
    """
    path = on_this_disk(spark, folder)
    if path is not None:
        try:
            return sorted(os.listdir(path))
        except FileNotFoundError:
            return []
        except NotADirectoryError as error:
            raise InvalidRequest(f"{folder} is a file. The root of a lake is a folder: name another one.", name="NOT_A_LAKE") from error
    from pyspark.sql import functions as F

    whole = address(spark, folder).rstrip("/")
    store = r"^[^:/]+:(//[^/]*)?"
    name = F.regexp_extract("path", rf"{store}{re.escape(re.sub(store, '', whole))}/([^/]+)", 2)
    files = spark.read.format("binaryFile").option("recursiveFileLookup", "true")
    try:
        return sorted(row[0] for row in files.load(whole).select(name).distinct().collect())
    except Exception as error:
        if condition_of(error).startswith("PATH_NOT_FOUND"):
            return []
        raise


def is_cut_off(spark: SparkSession, folder: str) -> bool:
    """Whether a folder on this machine's disk is one of a topic's table whose creation or deletion was cut off, where there is no table in it."""
    path = on_this_disk(spark, folder)
    found = names_in(spark, folder) if path is not None else []
    return bool(found) and all(REMAINS.fullmatch(name) for name in found)


def holds_files(spark: SparkSession, folder: str) -> bool:
    """Whether there is a file in a folder, or below it. Cost: elsewhere than on this machine's disk one Spark job that lists all files."""
    path = on_this_disk(spark, folder)
    return bool(names_in(spark, folder)) if path is None else any(files for _, _, files in os.walk(path))


def has_own_catalog(spark: SparkSession) -> bool:
    """Whether the catalog is the session's own: nobody else sees a schema in it."""
    return setting(spark, "spark.sql.catalogImplementation") == "in-memory"


def _by_pyarrow(whole: str) -> tuple[Any, str]:
    """The file system and the path within it of a folder that pyarrow can remove.

    Raises:
        InvalidRequest: it cannot reach it, or does not find it.
    """
    from pyarrow import fs

    try:
        files, inside = filesystem(whole)
        if files.get_file_info(inside).type == fs.FileType.Directory:
            return files, inside
        why = "pyarrow does not find it"
    except (InvalidRequest, OSError) as error:
        why = str(error).splitlines()[0]
    raise InvalidRequest(
        f"{whole} cannot be removed from here: {why}. Remove it with the tools of its storage, then delete the topic again.",
        name="NOT_REMOVABLE",
    )


def require_removable(spark: SparkSession, folder: str) -> None:
    """Check that `remove` can reach a folder; nothing is changed.

    Raises:
        InvalidRequest: nothing here can remove it.
    """
    if on_this_disk(spark, folder) is None and not has_own_catalog(spark):
        _by_pyarrow(address(spark, folder))


def remove(spark: SparkSession, folder: str) -> None:
    """Remove a folder with all that is in it; nothing where there is none.

    On this machine's disk; elsewhere by Spark, which removes the folder of a schema with the schema, where the catalog is the session's
    own and nobody else sees that schema; else by pyarrow, with credentials from the environment.

    Raises:
        InvalidRequest: nothing here can; the folder is as it was.
    """
    path = on_this_disk(spark, folder)
    if path is not None:
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(path) if os.path.isdir(path) and not os.path.islink(path) else os.remove(path)
        return
    whole = address(spark, folder)
    if has_own_catalog(spark):
        schema = quoted(f"lakelog_{uuid.uuid4().hex}")
        spark.sql(f"CREATE SCHEMA {schema} LOCATION {literal(whole)}")
        spark.sql(f"DROP SCHEMA {schema} CASCADE")
        return
    files, inside = _by_pyarrow(whole)
    files.delete_dir(inside)


def file_texts(folder: str, names: Sequence[str]) -> dict[str, str] | None:
    """The texts of those of some files below a folder that are there, by name; None where there is no such folder.

    Raises:
        InvalidRequest: the file system cannot be opened, or a file is not UTF-8.
    """
    from pyarrow import fs

    system, path = filesystem(folder)
    if system.get_file_info(path).type != fs.FileType.Directory:
        return None
    found = {}
    for info, name in zip(system.get_file_info([f"{path}/{name}" for name in names]), names, strict=True):
        if info.type == fs.FileType.File:
            with system.open_input_stream(info.path) as data:
                try:
                    found[name] = bytes(data.read()).decode()
                except UnicodeDecodeError as error:
                    raise InvalidRequest(f"{folder}/{name} is not UTF-8 text.") from error
    return found
