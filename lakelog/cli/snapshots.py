"""``lakelog snapshot …``: states of the latest table that are named, listed, compared and deleted."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from lakelog.cli import output
from lakelog.cli.context import Call, Name, verb
from lakelog.errors import InvalidRequest
from lakelog.model.snapshot_id import check_name, keep_ms

snapshots = typer.Typer(help="Take, list, describe, compare, delete snapshots.", no_args_is_help=True, rich_markup_mode=None)

Topics = Annotated[str | None, typer.Argument(metavar="[TOPIC]", help="The topic.")]
Which = Annotated[str, typer.Argument(metavar="NAME", help="The snapshot's name or id, or latest or earliest.")]
POINT = "A snapshot's name or id, a silver version, a time, or now."


@verb(snapshots, example='lakelog snapshot create orders --name before-migration --keep "90 days"')
def create(
    call: Call,
    topic: Topics = None,
    name: Annotated[str | None, typer.Option(help="Its name; without one, retention may remove it.")] = None,
    keep: Annotated[str | None, typer.Option(metavar="SPAN", help="How long the name is kept: '90 days', '12 hours', forever.")] = None,
    note: Annotated[str | None, typer.Option(help="A text for people.")] = None,
    at: Annotated[str | None, typer.Option(metavar="VERSION|TIME", help="That earlier state, without a merge.")] = None,
    all: Annotated[bool, typer.Option("--all", help="Of every topic, under one name.")] = False,
) -> None:
    """Merge, and make the merged state a snapshot."""
    if all == (topic is not None):
        raise InvalidRequest("Name one topic, or give --all.")
    if all and (name is None or at is not None):
        raise InvalidRequest("--all takes a --name, and no --at: each topic counts its own versions.")
    keep_ms(keep)
    if name is not None:
        check_name(name)
    lake = call.lake([topic] if topic else (), writing=True)
    with output.working("taking a snapshot"):
        if topic is None:
            taken = lake.snapshot(str(name), keep=keep, note=note)
        else:
            taken = [lake.topic(topic).snapshot(name, keep=keep, note=note, at=at)]
    if call.json:
        return output.document({"snapshots": [one.to_dict() for one in taken]} if all else taken[0].to_dict())
    for one in taken:
        output.snapshot_taken(one)
    return None


@verb(snapshots, "list", example="lakelog snapshot list orders")
def list_snapshots(call: Call, topic: Topics = None) -> None:
    """List the snapshots of a topic, or of all."""
    lake = call.lake([topic] if topic else ())
    found = lake.topic(topic).snapshots() if topic else lake.snapshots()
    if call.json:
        return output.document({"snapshots": [one.to_dict() for one in found]})
    return output.snapshots(found)


@verb(snapshots, example="lakelog snapshot describe orders before-migration")
def describe(call: Call, topic: Name, name: Which) -> None:
    """Show one snapshot: what it contains, which form it has, until when it can be restored."""
    call.answer(call.lake([topic]).topic(topic).describe_snapshot(name), output.snapshot)


@verb(snapshots, example="lakelog snapshot diff orders before-migration now")
def diff(
    call: Call,
    topic: Name,
    before: Annotated[str, typer.Argument(metavar="BEFORE", help=POINT)],
    after: Annotated[str, typer.Argument(metavar="AFTER", help=POINT)] = "now",
    format: Annotated[str, typer.Option("--format", metavar="table|json|csv", help="json is an object a line.")] = "table",
    limit: Annotated[int | None, typer.Option("--limit", "-n", min=0, help="At most so many rows.")] = None,
) -> None:
    """Show the keys that were added, changed or removed between two points, with both values."""
    from lakelog.cli import rows
    from lakelog.delta.tables import door

    if format not in output.FORMATS:
        raise InvalidRequest(f"--format {format}: must be one of {', '.join(output.FORMATS)}.")
    source = call.lake([topic]).topic(topic)
    with door(topic):
        rows.frame(source.diff(before, after).orderBy("partition", "change"), format, limit=limit, whole=call.json)


@verb(snapshots, example="lakelog snapshot delete orders before-migration --yes")
def delete(
    call: Call,
    topic: Name,
    name: Which,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Tell what would be deleted, and delete nothing.")] = False,
) -> None:
    """Delete a snapshot; asks first. The topic stays as it is."""
    target: Any = call.lake([topic], writing=not dry_run).topic(topic)
    planned = target.delete_snapshot(name, dry_run=True)
    if not dry_run:
        call.confirm(f"Delete the snapshot {planned.name or planned.id} of {topic}")
        planned = target.delete_snapshot(name)
    call.answer(planned, output.snapshot_deleted)
