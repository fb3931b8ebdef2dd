"""What a session is doing, and its end: of what it does, of itself, of one that is being made."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def running_tasks(spark: SparkSession) -> tuple[int, int] | None:
    """Of the stages that are running: tasks that are done, and all of them. None where none runs, or the session does not tell (Connect)."""
    try:
        tracker = spark.sparkContext.statusTracker()
        stages = [stage for stage in map(tracker.getStageInfo, tracker.getActiveStageIds()) if stage is not None]
    except Exception:
        return None
    return (sum(stage.numCompletedTasks for stage in stages), sum(stage.numTasks for stage in stages)) if stages else None


def end(spark: SparkSession, *, patience: float) -> None:
    """Stop a session and the Java process that was started for it; where that has not ended after ``patience`` seconds, kill it."""
    gateway = getattr(getattr(spark, "_sc", None), "_gateway", None)
    # From a thread of its own: the caller's may be waiting for an answer of Java, and the next answer it reads would be that one.
    stopping = threading.Thread(target=_stop, args=(spark,), daemon=True)
    stopping.start()
    stopping.join(patience)
    java = getattr(gateway, "proc", None)
    if java is None:
        return
    try:
        java.stdin.close()
        java.wait(patience)
    except subprocess.TimeoutExpired:
        java.kill()


def cancel(spark: SparkSession) -> None:
    """Cancel what a session is doing; the session stays. What this thread waits for is given up."""

    def tell() -> None:
        with contextlib.suppress(Exception):
            spark.sparkContext.cancelAllJobs()
            return
        # A Connect session has no context.
        with contextlib.suppress(Exception):
            spark.interruptAll()

    # From a thread of its own, as in `end`.
    telling = threading.Thread(target=tell, daemon=True)
    telling.start()
    telling.join(5)
    # An answer that is still to come on this thread's connection would be taken for that of the next question.
    client: Any = getattr(getattr(getattr(spark, "_sc", None), "_gateway", None), "_gateway_client", None)
    connection = client.get_thread_connection() if hasattr(client, "get_thread_connection") else None
    if connection is not None:
        connection.close()


def give_up_start() -> None:
    """End a Java process whose session was being made: the next start begins with another one. A session that is there is kept (`cancel`)."""
    context: Any = getattr(sys.modules.get("pyspark"), "SparkContext", None)
    made = getattr(getattr(sys.modules.get("pyspark.sql"), "SparkSession", None), "_instantiatedSession", None)
    java = getattr(getattr(context, "_gateway", None), "proc", None)
    if made is not None:
        cancel(made)
    elif java is not None:
        java.kill()
        context._gateway = context._jvm = None


def _stop(spark: SparkSession) -> None:
    with contextlib.suppress(Exception):
        spark.stop()
