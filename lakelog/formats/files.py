"""Files that Python code reads within Spark's tasks: streams of octets on the machines that run them, in the files' order."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame, SparkSession

CODECS = {"gz": "gzip", "bz2": "bz2", "zst": "zstd", "lz4": "lz4"}


def read_by(spark: SparkSession, paths: Sequence[str], read: Callable[[str, Any], Iterator[pyarrow.RecordBatch]], schema: str) -> DataFrame:
    """A frame of what a function makes of each file.

    Local files (of the machine or mounted) are opened where the task runs and read as a stream. Others are fetched by Spark, with its own
    credentials, and handed over as a whole: up to 2 GB each.

    Args:
        spark: the session.
        paths: files, folders or patterns, as Spark reads them.
        read: called with (the file's URI, a binary stream of its content, decompressed); gives batches of the schema.
        schema: the columns, as DDL.
    """
    from pyspark import cloudpickle
    from pyspark.sql import functions as F

    # Workers of a cluster need not have this package: its code travels with the plan.
    for module in (sys.modules[__name__], sys.modules[getattr(read, "func", read).__module__]):
        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    files = spark.read.format("binaryFile").load(list(paths))
    remote = any(not path.startswith("file:") for path in _some(files))
    content = F.col("content") if remote else F.lit(None).cast("binary").alias("content")
    frame = files.select("path", F.col("_metadata.file_path").alias("uri"), content)

    def opened(batches: Iterable[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        for batch in batches:
            for row in batch.to_pylist():
                with stream(row["path"], row["content"]) as data:
                    yield from read(row["uri"], data)

    return frame.mapInArrow(opened, schema)


def _some(files: DataFrame) -> list[str]:
    """The first file's path: all of one call lie in one file system."""
    return [row["path"] for row in files.select("path").limit(1).collect()]


def stream(path: str, content: bytes | None) -> Any:
    """A file's octets, decompressed where its name says that it is compressed."""
    import pyarrow

    source = pyarrow.OSFile(path[len("file:") :]) if content is None else pyarrow.BufferReader(content)
    codec = CODECS.get(path.rsplit(".", 1)[-1])
    return source if codec is None else pyarrow.CompressedInputStream(source, codec)
