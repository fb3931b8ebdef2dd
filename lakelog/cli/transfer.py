"""``lakelog snapshot export`` and ``import``: a topic as a directory of Parquet files."""

from __future__ import annotations

from typing import Annotated

import typer

from lakelog.cli import output
from lakelog.cli.context import Call, Name, verb
from lakelog.cli.snapshots import snapshots
from lakelog.reader_results import Exported

__all__ = ["snapshots"]


@verb(snapshots, example="lakelog snapshot export orders ./orders-export")
def export(
    call: Call,
    topic: Name,
    directory: Annotated[str, typer.Argument(metavar="DIRECTORY", help="A new or empty one.")],
    snapshot: Annotated[
        str | None, typer.Option("--snapshot", metavar="NAME", help="The snapshot; else the latest table as it is.")
    ] = None,
) -> None:
    """Write a topic at a snapshot, with the log from its end, to Parquet files with checksums."""
    source = call.lake([topic]).topic(topic)
    with output.working(f"{topic}: exporting"):
        result = source.export(directory, snapshot)
    call.answer(result, _exported)


def _exported(result: Exported) -> None:
    held = f"{output.count(result.rows, 'row')} of the latest table at {result.snapshot}, {output.count(result.records, 'record')} after it"
    output.line(
        f"{result.topic}: exported {held} to {result.directory} ({output.count(result.files, 'file')}, {output.count(result.octets, 'octet')})"
    )


@verb(snapshots, "import", example="lakelog snapshot import ./orders-export --name orders_again")
def import_topic(
    call: Call,
    directory: Annotated[str, typer.Argument(metavar="DIRECTORY", help="An export.")],
    name: Annotated[str | None, typer.Option("--name", metavar="TOPIC", help="The new topic's name; else the original's.")] = None,
) -> None:
    """Make a topic of an export, under this root: offsets, epochs, rows and settings as they were."""
    with output.working("importing"):
        topic = call.lake(creating=True).import_topic(directory, name=name)
    call.answer(topic.describe(), output.created)
