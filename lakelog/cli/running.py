"""The verbs on a topic's sources, all that is due for it in one go, and where topics stand."""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakelog.errors import LakelogError
from lakelog.terminal import output, standing, told
from lakelog.terminal.context import Call, Engine, Name, verb
from lakelog.terminal.failure import failure
from lakelog.terminal.named import messages_of, sources_of
from lakelog.terminal.words import in_cli

if TYPE_CHECKING:
    from lakelog.lake.lake import Lake
    from lakelog.running.run import Watcher
    from lakelog.running.steps import Tell
    from lakelog.running_results import Run, Step
    from lakelog.sources.configured import Lookup, Source

From = Annotated[
    list[str] | None, typer.Option("--from", metavar="SOURCE", help="A directory, or kafka://HOST:PORT/TOPIC; else lakelog.toml's sources.")
]
Decode = Annotated[
    str | None, typer.Option(metavar="key=FORM,value=FORM", help="Of Kafka: json, debezium, avro:FILE, avro:ID=FILE;ID=FILE.")
]
DOING = {"append": "appending", "merge": "merging", "snapshot": "snapshot", "clean": "cleaning", "check": "checking"}


def append_from(
    call: Call,
    topic: str,
    directories: Sequence[str],
    written: Mapping[str, str],
    *,
    mirror: bool = False,
    decode: str | None = None,
) -> None:
    """Append what is new in a topic's sources."""
    from lakelog.sources.append import append_from as taken_from
    from lakelog.terminal.progress import watching

    sources = sources_of(call.settings(), topic, directories, written, messages_of(mirror, decode))
    lake = call.lake([topic], writing=True, sources=sources)
    with watching(f"{topic}: appending from {output.count(len(sources), 'source')}", lake.spark, of="files") as tell:
        done = taken_from(lake.topic(topic), sources, tell=tell)
    if call.json:
        return output.document({"topic": topic, "sources": [one.to_dict() for one in done]})
    for one in done:
        told.taken(one)
    return None


Wait = Annotated[
    str | None, typer.Option(metavar="TIME", help="Where another run is under way, wait so long: '10 minutes'; else refused with 75.")
]


def run(
    call: Call,
    topic: Name,
    source: From = None,
    report: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the report there as JSON.")] = None,
    metrics_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write figures for node-exporter's textfile collector there.")
    ] = None,
    wait: Wait = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing of how it goes on.")] = False,
) -> None:
    """Do all that is due for a topic: append from its sources, merge, snapshot, clean, check.

    Stops at the first step that is refused, with its exit code. Safe to run again. One run of a topic at a time: a second one is refused (75),
    or waits.
    """
    from lakelog.lake.lake import system_clock
    from lakelog.running.run import not_begun
    from lakelog.running.run import run as run_topic

    def as_error(error: BaseException) -> LakelogError:
        if call.debug:
            traceback.print_exception(error)
        return in_cli(failure(error, call.signals.received), topic)

    try:
        sources, lake, wait_ms, lookup = _begun(call, topic, source or [], report, metrics_file, wait)
    except BaseException as error:
        call.signals.defer()
        root = _root(call)
        return _told(call, not_begun(root, topic, as_error(error), clock=system_clock, report=report, metrics=metrics_file))
    made = run_topic(
        lake, topic, sources, watcher=_watcher(call, lake, topic, quiet), signals=call.signals, as_error=as_error,
        report=report, metrics=metrics_file, wait_ms=wait_ms, lookup=lookup,
    )  # fmt: skip
    return _told(call, made)


def _begun(
    call: Call, topic: str, directories: Sequence[str], report: Path | None, metrics: Path | None, wait: str | None
) -> tuple[list[Source], Lake, int, Lookup]:
    """What a run needs before its first step: sources, the lake, how long to wait, where sources were looked for."""
    from lakelog.model.snapshot_id import keep_ms
    from lakelog.running import report_files

    report_files.require_writable("report=", report)
    report_files.require_writable("metrics=", metrics)
    wait_ms = keep_ms(wait, what="--wait") or 0
    settings = call.settings()
    sources = sources_of(settings, topic, directories, {}, needed=False)
    lake = call.lake([topic], writing=True, sources=sources)
    for sentence in settings.unknown_topics(lake):
        output.say(f"Warning: {sentence}")
    return sources, lake, wait_ms, settings.lookup(topic)


def _root(call: Call) -> str:
    """Where the lake is, as far as that can be told."""
    from lakelog.terminal.settings import stated_root

    try:
        return call.settings().lake_root()
    except LakelogError:
        return stated_root(call.root)


def _told(call: Call, made: Run) -> None:
    """A run's report, and its exit code."""
    if call.json:
        output.line(made.to_json())
    if isinstance(made.recorded, str) and made.steps:
        output.say(f"Warning: the run was not recorded in {made.root}: {made.recorded}")
    if made.error is not None:
        output.say_error(made.error["error"], made.error["message"])
        raise typer.Exit(made.exit_code)


def _watcher(call: Call, lake: Lake, topic: str, quiet: bool) -> Watcher:
    """A bar on a terminal while a step runs, and a line after each: on stdout, or on stderr beside JSON; with ``quiet`` neither."""
    from lakelog.running.run import QUIET, Watcher
    from lakelog.terminal.progress import watching

    if quiet:
        return QUIET
    say: Callable[[str], None] = output.say if call.json else output.line

    @contextlib.contextmanager
    def during(step: str) -> Iterator[Tell]:
        with watching(f"{topic}: {DOING[step]}", lake.spark, of="files" if step == "append" else "records") as tell:
            yield tell

    def after(step: Step) -> None:
        try:
            say(told.step(topic, step))
            sys.stdout.flush()
        except BrokenPipeError:
            # Nobody reads on (`lakelog run orders | head -1`): the run does not stop for that.
            sys.stdout = open(os.devnull, "w")

    return Watcher(during, after, output.say)


def status(
    call: Call,
    topic: Annotated[list[str] | None, typer.Argument(metavar="TOPIC", help="All topics when none is named.")] = None,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write a page there: growth, lag, runs, snapshots, verdicts.")
    ] = None,
    engine: Engine = "auto",
) -> None:
    """Show counts, log ends, what waits for a merge, and what there is to clean."""
    if html is not None:
        from lakelog.page import charts
        from lakelog.running import report_files

        report_files.require_writable("--html", html)
        charts.require()
    lake = call.reading(topic or (), engine)
    found = standing.of_each(lake, topic or (), lambda one: one.status(), engine)
    if html is not None:
        _page(lake, found, html)
    if call.json:
        output.document({"root": lake.root, "topics": [one.to_dict() for one in found], **({"html": str(html)} if html else {})})
    elif html is not None:
        output.line(f"{html}: {output.count(len(found), 'topic')} of {lake.root}")
    else:
        standing.status(found)
    wrong = [one.error for one in found if isinstance(one, standing.Unknown)]
    if wrong:
        raise typer.Exit(wrong[0].exit_code)


def _page(lake: Lake, found: Sequence[Any], file: Path) -> None:
    """The status page, by the lane that told where the topics stand."""
    from lakelog.page import page
    from lakelog.page.overview import overview
    from lakelog.page.table_reader import NativeReader, SparkReader

    reader = SparkReader(lake.spark) if lake.has_session else NativeReader()
    page.write(str(file), overview(lake, reader, {one.topic: getattr(one, "error", one) for one in found}))


def register(app: typer.Typer) -> None:
    """Add the commands of this file to the command line."""
    verb(app, example="lakelog status")(status)
    verb(app, example="lakelog run orders")(run)
