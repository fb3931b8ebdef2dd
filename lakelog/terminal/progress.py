"""What a long command is doing, on a terminal: a line with a bar, of the records that are done or else of Spark's tasks. Nothing elsewhere."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from lakelog.delta.stopping import running_tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    Tell = Callable[[int, int], None]

EVERY = 0.25


@contextlib.contextmanager
def watching(doing: str, spark: SparkSession, *, of: str = "records") -> Iterator[Tell]:
    """Show what is done of what while something runs; where records are told (the function this gives), they take the place of tasks.

    Args:
        doing: what runs.
        spark: the session that does it.
        of: what is told.
    """
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = [
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[told]}"),
        TimeElapsedColumn(),
    ]
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        line = shown.add_task(doing, total=None, told="")
        ended, counted, one = threading.Event(), threading.Event(), threading.Lock()

        def tell(done: int, total: int) -> None:
            with one:
                counted.set()
                shown.update(line, completed=done, total=total, told=f"{done:,} of {total:,} {of}")

        def watch() -> None:
            while not ended.wait(EVERY):
                tasks = None if counted.is_set() else running_tasks(spark)
                with one:
                    # What is told while Spark was asked stays.
                    if tasks is not None and not counted.is_set():
                        shown.update(line, completed=tasks[0], total=tasks[1], told=f"{tasks[0]} of {tasks[1]} tasks")

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            yield tell
        finally:
            ended.set()
            watcher.join(2)
