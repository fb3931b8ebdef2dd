"""How a statement is run: session settings for its length, and small ones without generated code."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Spark writes a class for each statement whose numbers are new, and compiles it twice (for the planner and for its tasks): for few rows that
# takes longer than to run without.
INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
# Up to so many records a statement is one over few rows.
FEW = 10_000
# One commit of this process at a time: what a commit carries and which version it got are settings of the Spark session, and appends of one
# process to one table would only make each other start over (a lock doubles their rate).
committing = threading.RLock()
_interpreting = threading.Lock()
_within: dict[int, tuple[int, contextlib.ExitStack]] = {}


@contextlib.contextmanager
def interpreted(spark: SparkSession, when: bool = True) -> Iterator[None]:
    """Statements planned in here are run without generated code; for few rows. Threads of one session may be in here at once."""
    if not when:
        yield
        return
    place = id(spark)
    with _interpreting:
        inside, settings = _within.get(place, (0, contextlib.ExitStack()))
        if not inside:
            settings.enter_context(during(spark, INTERPRETED))
        _within[place] = (inside + 1, settings)
    try:
        yield
    finally:
        with _interpreting:
            inside, settings = _within.pop(place)
            if inside > 1:
                _within[place] = (inside - 1, settings)
            else:
                settings.close()


@contextlib.contextmanager
def during(spark: SparkSession, wanted: Mapping[str, str]) -> Iterator[None]:
    """Session settings for the length of a statement, where the session may be told (serverless sessions go on without)."""
    before = {name: spark.conf.get(name, None) for name in wanted}
    for name, value in wanted.items():
        with contextlib.suppress(Exception):
            spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            with contextlib.suppress(Exception):
                spark.conf.set(name, old) if old is not None else spark.conf.unset(name)
