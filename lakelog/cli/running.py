"""The verbs on a topic's sources, and all that is due for it in one go."""

from __future__ import annotations

import contextlib
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakelog.cli import output, told
from lakelog.cli.context import Call, Name, verb
from lakelog.cli.failure import failure, in_cli
from lakelog.errors import InvalidRequest, LakelogError

if TYPE_CHECKING:
    from lakelog.cli.settings import Settings
    from lakelog.lake.lake import Lake
    from lakelog.running.run import Watcher
    from lakelog.running.sources import Source
    from lakelog.running.steps import Tell
    from lakelog.running_results import Step

From = Annotated[
    list[str] | None, typer.Option("--from", metavar="SOURCE", help="A directory, or kafka://HOST:PORT/TOPIC; else lakelog.toml's sources.")
]
Decode = Annotated[
    str | None, typer.Option(metavar="key=FORM,value=FORM", help="Of Kafka: json, debezium, avro:FILE, avro:ID=FILE;ID=FILE.")
]
DOING = {"append": "appending", "merge": "merging", "snapshot": "snapshot", "clean": "cleaning", "check": "checking"}


def sources_of(
    settings: Settings,
    topic: str,
    directories: Sequence[str],
    written: Mapping[str, str | None],
    messages: Mapping[str, Any] = MappingProxyType({}),
    *,
    needed: bool = True,
) -> list[Source]:
    """The sources of an append: directories and topics of Kafka that are named, else those of lakelog.toml.

    Args:
        settings: they list the sources of topics.
        topic: the topic.
        directories: ``--from``.
        written: how files are written, where the command line says it.
        messages: how messages of Kafka are taken, where the command line says it.
        needed: there must be one.

    Raises:
        InvalidRequest: there is none, or one is named twice.
    """
    from lakelog.running.kafka_source import KafkaSource
    from lakelog.running.sources import DirectorySource, of_name, require_distinct

    configured = settings.sources.get(topic, ())
    said: dict[str, Any] = {name: text for name, text in written.items() if text != getattr(DirectorySource, name)}
    named = [of_name(one, configured, Path.cwd()) for one in directories] or list(configured)
    found: list[Source] = [
        replace(one, **said) if isinstance(one, DirectorySource) else replace(one, **messages) if isinstance(one, KafkaSource) else one
        for one in named
    ]
    if messages and not any(isinstance(one, KafkaSource) for one in found):
        raise InvalidRequest(
            "--mirror and --decode are about messages of Kafka: --from kafka://HOST:PORT/TOPIC, or a source of lakelog.toml."
        )
    if needed and not found:
        raise InvalidRequest(
            f"{topic}: what is to be appended? Name files, a directory with --from, or sources in {settings.file or 'a lakelog.toml'}:"
            f' [topics.{topic}] sources = ["./in"].'
        )
    require_distinct(found, "--from")
    return found


def append_from(
    call: Call,
    topic: str,
    directories: Sequence[str],
    written: Mapping[str, str | None],
    *,
    mirror: bool = False,
    decode: str | None = None,
) -> None:
    """Append what is new in a topic's sources."""
    from lakelog.cli.progress import watching
    from lakelog.running.append import append_from as taken_from
    from lakelog.running.kafka_source import stated_decoding

    messages = {**({"mirror": True} if mirror else {}), **({"decode": stated_decoding(decode, Path.cwd())} if decode else {})}
    sources = sources_of(call.settings(), topic, directories, written, messages)
    lake = call.lake([topic], writing=True, sources=sources)
    with watching(f"{topic}: appending from {output.count(len(sources), 'source')}", lake.spark, of="files") as tell:
        done = taken_from(lake.topic(topic), sources, tell=tell)
    if call.json:
        return output.document({"topic": topic, "sources": [one.to_dict() for one in done]})
    for one in done:
        told.taken(one)
    return None


def run(
    call: Call,
    topic: Name,
    source: From = None,
    report: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the report there as JSON.")] = None,
    metrics_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write figures for node-exporter's textfile collector there.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing of how it goes on.")] = False,
) -> None:
    """Do all that is due for a topic: append from its sources, merge, snapshot, clean, check.

    Stops at the first step that is refused, with its exit code. Safe to run again, and beside another run.
    """
    from lakelog.running import report_files
    from lakelog.running.run import run as run_topic

    report_files.require_writable("--report", report)
    report_files.require_writable("--metrics-file", metrics_file)
    sources = sources_of(call.settings(), topic, source or [], {}, needed=False)
    lake = call.lake([topic], writing=True, sources=sources)

    def as_error(error: BaseException) -> LakelogError:
        if call.debug:
            traceback.print_exception(error)
        return in_cli(failure(error, call.signals.received), topic)

    made = run_topic(
        lake, topic, sources, watcher=_watcher(call, lake, topic, quiet), signals=call.signals, as_error=as_error,
        report=report, metrics=metrics_file,
    )  # fmt: skip
    if call.json:
        output.line(made.to_json())
    if isinstance(made.recorded, str):
        output.say(f"Warning: the run was not recorded in {lake.root}: {made.recorded}")
    if made.error is not None:
        output.say(f"Error ({made.error['error']}): {' '.join(str(made.error['message']).split())}")
        raise typer.Exit(made.exit_code)


def _watcher(call: Call, lake: Lake, topic: str, quiet: bool) -> Watcher:
    """A bar on a terminal while a step runs, and a line after each: on stdout, or on stderr beside JSON; with ``quiet`` neither."""
    from lakelog.cli.progress import watching
    from lakelog.running.run import QUIET, Watcher

    if quiet:
        return QUIET
    say: Callable[[str], None] = output.say if call.json else output.line

    @contextlib.contextmanager
    def during(step: str) -> Iterator[Tell]:
        with watching(f"{topic}: {DOING[step]}", lake.spark, of="files" if step == "append" else "records") as tell:
            yield tell

    def after(step: Step) -> None:
        say(told.step(topic, step))
        sys.stdout.flush()

    return Watcher(during, after)


def register(app: typer.Typer) -> None:
    """Add the commands of this file to the command line."""
    verb(app, example="lakelog run orders")(run)
