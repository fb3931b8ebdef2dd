"""A session that refuses what Databricks' serverless sessions refuse and those of this machine do not: settings, caches, global views.

The refusals stand in the classes of pyspark, so that no frame and no session derived from another gets round them.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The settings that a serverless session may be told, and tells.
ALLOWED = {
    "spark.databricks.execution.timeout",
    "spark.sql.ansi.enabled",
    "spark.sql.files.maxPartitionBytes",
    "spark.sql.legacy.timeParserPolicy",
    "spark.sql.session.timeZone",
    "spark.sql.shuffle.partitions",
}
FRAMES = ("cache", "persist", "createGlobalTempView", "createOrReplaceGlobalTempView", "foreach", "foreachPartition")


def _refuse(what: str) -> Any:
    from pyspark.errors import PySparkNotImplementedError

    def refused(*_: Any, **__: Any) -> Any:
        raise PySparkNotImplementedError(f"[NOT_SUPPORTED_WITH_SERVERLESS] {what} is not supported on serverless compute.")

    return refused


def _by_name(what: str, original: Any) -> Any:
    """A method of the settings that knows the allowed ones alone."""
    from pyspark.errors import AnalysisException

    def checked(self: Any, key: str, *given: Any, **named: Any) -> Any:
        # pyspark's own classic session asks for settings too; a serverless one does not.
        if key not in ALLOWED and not sys._getframe(1).f_globals["__name__"].startswith("pyspark."):
            raise AnalysisException(f"[CONFIG_NOT_AVAILABLE] Configuration {key} is not available ({what}).")
        return original(self, key, *given, **named)

    return checked


@contextlib.contextmanager
def serverless(spark: SparkSession) -> Iterator[SparkSession]:
    """The session, for the length of a block as a serverless one would be."""
    with pytest.MonkeyPatch.context() as patch:
        settings, frame, catalog = type(spark.conf), type(spark.range(1)), type(spark.catalog)
        for name in ("set", "get", "unset"):
            patch.setattr(settings, name, _by_name(name, getattr(settings, name)))
        for name in FRAMES:
            patch.setattr(frame, name, _refuse(name))
        for name in ("cacheTable", "uncacheTable", "clearCache"):
            patch.setattr(catalog, name, _refuse(name))
        # The JVM itself (sparkContext, _jvm) is in use by pyspark's own classic session; that lakelog uses it nowhere, the house tests.
        patch.setattr(type(spark), "newSession", _refuse("newSession"), raising=False)
        patch.setattr(frame, "rdd", property(_refuse("rdd")), raising=False)
        stream = type(spark.readStream.format("rate").load().writeStream)
        trigger = stream.trigger

        def triggered(self: Any, **given: Any) -> Any:
            if "availableNow" not in given:
                _refuse(f"a trigger by {', '.join(given)}")()
            return trigger(self, **given)

        patch.setattr(stream, "trigger", triggered)
        yield spark
