"""``lakelog snapshot …``, ``restore``, ``maintain``, ``clean`` and ``erase``: states of the latest table named and restored; tables kept small."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakelog.errors import InvalidRequest
from lakelog.model.snapshot_id import check_name, keep_ms
from lakelog.terminal import output, told
from lakelog.terminal.context import Call, Engine, Form, Limit, Name, verb

if TYPE_CHECKING:
    from lakelog.reader_results import Exported

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
        told.snapshot_taken(one)
    return None


@verb(snapshots, "list", example="lakelog snapshot list orders")
def list_snapshots(call: Call, topic: Topics = None, engine: Engine = "auto") -> None:
    """List the snapshots of a topic, or of all."""
    lake = call.reading([topic] if topic else (), engine)
    found = lake.topic(topic).snapshots() if topic else lake.snapshots()
    if call.json:
        return output.document({"snapshots": [one.to_dict() for one in found]})
    return told.snapshots(found)


@verb(snapshots, example="lakelog snapshot describe orders before-migration")
def describe(call: Call, topic: Name, name: Which, engine: Engine = "auto") -> None:
    """Show one snapshot: what it contains, which form it has, until when it can be restored."""
    call.answer(call.reading([topic], engine).topic(topic).describe_snapshot(name), told.snapshot)


@verb(snapshots, example="lakelog snapshot diff orders before-migration now")
def diff(
    call: Call,
    topic: Name,
    before: Annotated[str, typer.Argument(metavar="BEFORE", help=POINT)],
    after: Annotated[str, typer.Argument(metavar="AFTER", help=POINT)] = "now",
    format: Form = "table",
    limit: Limit = None,
) -> None:
    """Show the keys that were added, changed or removed between two points, with both values."""
    from lakelog.terminal import rows

    output.check_form(format)
    source = call.lake([topic]).topic(topic)
    with source.reading(before, after):
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
    # That one, whichever is the latest, or has its name or id, when the question is answered.
    found = target.describe_snapshot(name)
    planned = target.delete_snapshot(found, dry_run=True)
    if not dry_run:
        if planned.warning is not None and not call.yes:
            output.say(f"{topic}: {planned.warning}.")
        call.confirm(f"Delete the snapshot {planned.name or planned.id} of {topic}")
        planned = target.delete_snapshot(found)
    call.answer(planned, told.snapshot_deleted)


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
    from lakelog.reader_results import Imported

    with output.working("importing"):
        topic = call.lake(creating=True).import_topic(directory, name=name)
        result = Imported.of(topic.describe(), topic.status())
    call.answer(result, told.imported)


def restore(
    call: Call,
    topic: Topics = None,
    to: Annotated[str, typer.Option("--to", metavar="POINT", help="A snapshot's name or id, a silver version, or a time.")] = "",
    log: Annotated[str, typer.Option(metavar="truncate|keep", help="What lies beyond leaves the log, or is replayed.")] = "truncate",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Tell what would be done, and do nothing.")] = False,
    all: Annotated[bool, typer.Option("--all", help="Every topic that has a snapshot of this name.")] = False,
) -> None:
    """Bring the latest table back to a snapshot; asks first.

    truncate: what lies beyond leaves the log and is kept in quarantine. keep: the next merge replays the log.
    """
    if all == (topic is not None):
        raise InvalidRequest("Name one topic, or give --all.")
    if not to:
        raise InvalidRequest("Restore to what? Give --to and a snapshot's name, a silver version, or a time.")
    if log not in ("truncate", "keep"):
        raise InvalidRequest(f"--log {log}: must be one of truncate, keep.")
    lake = call.lake([topic] if topic else (), writing=not dry_run)

    def run(point: str, *, dry: bool) -> list[Any]:
        with output.working("comparing" if dry else "restoring"):
            return lake.restore(point, log=log, dry_run=dry) if topic is None else [lake.topic(topic).restore(point, log=log, dry_run=dry)]

    if dry_run or not call.yes:
        planned = run(to, dry=True)
        if dry_run and call.json:
            return output.document({"restored": [one.to_dict() for one in planned]} if all else planned[0].to_dict())
        for one in planned:
            told.restored(one, line=output.line if dry_run else output.say)
        if dry_run:
            return None
        if topic is not None and to.lower() in ("latest", "earliest"):
            # That one, whichever is the latest by then.
            to = planned[0].id
        call.confirm(f"Restore {topic or f'every topic of {lake.root}'} to {to}")
    done = run(to, dry=False)
    if call.json:
        return output.document({"restored": [one.to_dict() for one in done]} if all else done[0].to_dict())
    for one in done:
        told.restored(one)
    return None


def maintain(call: Call, topic: Annotated[list[str], typer.Argument(metavar="TOPIC", help="The topics, one after the other.")]) -> None:
    """Write small files together, remove snapshots whose time is over, and old files; never past a kept snapshot."""
    lake = call.lake(topic[:1], writing=True)
    done = []
    for one in topic:
        with output.working(f"{one}: maintaining"):
            done.append(lake.topic(one).maintain())
        if not call.json:
            told.maintained(done[-1])
    if call.json:
        output.document(done[0].to_dict() if len(done) == 1 else {"maintained": [one.to_dict() for one in done]})


def clean(
    call: Call,
    topic: Annotated[list[str], typer.Argument(metavar="TOPIC", help="The topics, one after the other.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Tell what would go from which segment; write nothing.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Whatever the dirty ratio; young segments stay all the same.")] = False,
    roll: Annotated[bool, typer.Option("--roll", help="Close the active segments first, so that they are cleaned too.")] = False,
    max_bytes: Annotated[
        int | None,
        typer.Option("--max-bytes", metavar="N", min=1, help="Octets of dirty segments to clean at most, the dirtiest partitions first."),
    ] = None,
) -> None:
    """Merge, then remove from the log what nobody needs: superseded records, expired tombstones, old segments."""
    if dry_run and roll:
        raise InvalidRequest("--dry-run writes nothing, and --roll closes segments: give one of them.")
    lake = call.lake(topic[:1], writing=not dry_run)
    done: list[Any] = []
    for one in topic:
        with output.working(f"{one}: {'planning' if dry_run else 'cleaning'}"):
            opened = lake.topic(one)
            if roll:
                opened.roll()
            done.append(opened.clean(dry_run=dry_run, force=force, max_bytes=max_bytes, roll_idle=True))
        if not call.json:
            told.cleaned(done[-1])
    if call.json:
        output.document(done[0].to_dict() if len(done) == 1 else {"cleaned": [one.to_dict() for one in done]})
    stopped = next((one.failure for one in done if one.failure is not None), None)
    if stopped is not None:
        raise typer.Exit(stopped.exit_code)


def erase(
    call: Call,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Its name.")],
    key: Annotated[str, typer.Argument(metavar="KEY", help="The key, as text or as NDJSON has it.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Tell where the key is; change nothing.")] = False,
) -> None:
    """Remove a key for good, from log, latest table, quarantine, snapshots, exports; asks first. Again: what still holds it."""
    from lakelog.terminal.input import key_of

    target = call.lake([topic], writing=not dry_run).topic(topic)
    wanted = key_of(key, target)
    if dry_run or not call.yes:
        with output.working(f"{topic}: looking for the key"):
            planned = target.erase(wanted, dry_run=True)
        if dry_run:
            return call.answer(planned, told.erased)
        if any(planned.removed.values()) or planned.snapshots:
            told.erased(planned, line=output.say)
            call.confirm(f"Erase this key from {topic} for good")
    with output.working(f"{topic}: erasing"):
        done = target.erase(wanted)
    return call.answer(done, told.erased)


def register(app: typer.Typer) -> None:
    """Add the commands of this file to the command line."""
    verb(app, example="lakelog restore orders --to before-migration --yes")(restore)
    verb(app, example="lakelog maintain orders")(maintain)
    verb(app, example="lakelog clean orders --dry-run\n  lakelog clean orders --roll")(clean)
    verb(app, example="lakelog erase orders 1017 --dry-run\n  lakelog erase orders 1017 --yes")(erase)
    app.add_typer(snapshots, name="snapshot")
