"""The verbs about readers of the log: read it, register where a group is, show how far each is behind."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakelog.errors import InvalidRequest
from lakelog.terminal import output, standing, told
from lakelog.terminal.context import Call, Engine, Form, Limit, Name, verb

if TYPE_CHECKING:
    from lakelog.reader_results import Committed, Lag, Position
    from lakelog.topic import Topic

readers = typer.Typer()
# Records a batch of --follow, and seconds between two looks at a log in which nothing is new.
BATCH, WAIT = 10_000, 1.0


@verb(readers, example="lakelog read orders --offset 0 --limit 10")
def read(
    call: Call,
    topic: Name,
    partition: Annotated[int | None, typer.Option(min=0, help="Only this partition.")] = None,
    offset: Annotated[int | None, typer.Option(min=0, help="From the first record at or above this offset.")] = None,
    since: Annotated[
        str | None, typer.Option(metavar="POSITION|TIME|start|end", help="What came after it; the next position is told at the end.")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what is appended, until interrupted or --limit.")] = False,
    limit: Limit = None,
    format: Form = "table",
    engine: Engine = "auto",
) -> None:
    """Show the log's records by partition and offset.

    --format json gives them as append takes them, --json with partition, offset and epoch.
    """
    from lakelog.delta.tables import door

    output.check_form(format)
    if (follow or since is not None) and (partition is not None or offset is not None):
        raise InvalidRequest("--since and --follow read all partitions: no --partition or --offset beside them.")
    if (follow or since is not None) and limit == 0:
        raise InvalidRequest("--limit 0: with --since and --follow it is at least 1.")
    if follow and call.json:
        raise InvalidRequest("--follow has no end, and --json is one object: say --format json, an object a line.")
    if since is not None:
        _check_position(since, "--since")
    if follow or since is not None:
        # Positions are validated by Spark.
        from lakelog.terminal.root import no_native

        engine = no_native(engine, "--since and --follow")
    source = call.reading([topic], engine).topic(topic)
    with door(topic):
        if follow:
            return _follow(source, position_of(source, since or "end"), format, limit)
        if since is not None:
            return _since(source, position_of(source, since), format, limit, whole=call.json)
        return _shown(source.read(partition=partition, offset=offset, limit=limit), format, limit, whole=call.json)


def _check_position(text: str, what: str) -> None:
    """Refuse a text that is no position, as it was given (``what``), before Spark is started."""
    from lakelog.model.point_in_time import time_of

    if text not in ("start", "end") and not text.lstrip().startswith("{"):
        time_of(text, what=what, also=", and no position, start or end")


def position_of(topic: Topic, text: str) -> Position:
    """A position as people write it: JSON, a time, ``start`` or ``end``."""
    from lakelog.reader_results import Position

    if text in ("start", "end"):
        return topic.start() if text == "start" else topic.position()
    return Position.from_json(text) if text.lstrip().startswith("{") else topic.offset_for(text)


def _since(topic: Topic, position: Position, format: str, limit: int | None, *, whole: bool) -> None:
    from lakelog.terminal import rows

    if limit is None and format == "table" and not whole:
        limit = rows.TABLE_ROWS
    found = topic.read(since=position, max_records=limit)
    if whole:
        return output.document({"records": list(rows.records(found.records, placed=True)), "next": found.next.to_dict()})
    _shown(found.records, format, limit, whole=False)
    return output.say(f"next: {found.next.to_json()}")


def _follow(topic: Topic, position: Position, format: str, limit: int | None) -> None:
    left = limit
    while left is None or left > 0:
        for batch in topic.follow(position, max_records=BATCH if left is None else min(BATCH, left), wait=WAIT):
            _shown(batch.records, format, BATCH, whole=False)
            position = batch.next
            if left is not None:
                # Offsets, not records: where the log was cleaned, fewer are shown.
                left -= sum(position.offsets.values()) - sum(batch.position.offsets.values())
                break
    output.say(f"next: {position.to_json()}")


def _shown(found: Any, format: str, limit: int | None, *, whole: bool) -> None:
    from lakelog.terminal import rows

    if whole:
        output.document({"records": list(rows.records(found, placed=True))})
    elif format == "json":
        for record in rows.records(found):
            output.document(record)
    else:
        rows.frame(found, format, limit=limit)


@verb(readers, example="lakelog commit orders billing")
def commit(
    call: Call,
    topic: Name,
    group: Annotated[str, typer.Argument(metavar="GROUP", help="The name of a group of readers.")],
    position: Annotated[str, typer.Argument(metavar="POSITION|TIME|start|end", help="Where it is, as read --since tells it.")] = "end",
    forget: Annotated[bool, typer.Option("--forget", help="Take its registration away instead.")] = False,
) -> None:
    """Register where a group of readers is: the log is not truncated beyond it."""
    if not forget:
        _check_position(position, "POSITION")
    source = call.lake([topic]).topic(topic)
    if forget:
        had = source.forget(group)
        if call.json:
            return output.document({"topic": topic, "group": group, "forgotten": had})
        return output.line(f"{topic}: the group {group} {'is no longer registered' if had else 'was not registered'}")
    return call.answer(source.commit(group, position_of(source, position)), _committed)


def _committed(result: Committed) -> None:
    places = ", ".join(f"{index}: {offset}" for index, offset in result.position.offsets.items())
    holds = output.age(result.expires_ms - result.committed_ms)
    output.line(f"{result.topic}: the group {result.group} is at {places} of epoch {result.position.epoch}; this holds the log for {holds}")


@verb(readers, example="lakelog lag orders")
def lag(
    call: Call,
    topic: Annotated[list[str] | None, typer.Argument(metavar="TOPIC", help="All topics when none is named.")] = None,
    cleaning: Annotated[bool, typer.Option("--cleaning", help="Tell what there is to clean too, which takes longer.")] = False,
    engine: Engine = "auto",
) -> None:
    """Show how far registered groups of readers are behind the log's end."""
    lake = call.reading(topic or (), engine)
    answers = standing.of_each(lake, topic or (), lambda one: one.lag(cleaning=cleaning), engine)
    found = [one for one in answers if not isinstance(one, standing.Unknown)]
    unknown = [one for one in answers if isinstance(one, standing.Unknown)]
    if topic and unknown:
        raise unknown[0].error
    if call.json:
        output.document({"root": lake.root, "topics": [*(one.to_dict() for one in found), *(one.to_dict() for one in unknown)]})
    else:
        columns = ["topic", "group", "position", "behind", "records", "waiting", "state", "holds the log for"]
        output.table(columns, [row for one in found for row in _lag_rows(one, lake.clock())])
        for one in found:
            if one.cleaning is not None:
                output.line(f"{one.topic}: {standing.cleaning(one.cleaning)}.")
        for lost in unknown:
            output.say_error(lost.error.name, lost.error)
    if unknown:
        raise typer.Exit(unknown[0].error.exit_code)


def _lag_rows(lag: Lag, now: int) -> list[list[Any]]:
    return [
        [
            lag.topic, one.group, ", ".join(f"{index}: {offset}" for index, offset in one.position.offsets.items()),
            sum(one.offsets.values()), one.records, output.age(one.age_ms), one.answer,
            "-" if one.expired else output.age(one.expires_ms - now),
        ]
        for one in lag.groups
    ]  # fmt: skip


@verb(readers, example="lakelog truncate orders --to-snapshot latest --dry-run")
def truncate(
    call: Call,
    topic: Name,
    to_snapshot: Annotated[str | None, typer.Option("--to-snapshot", metavar="NAME", help="A snapshot's name or id.")] = None,
    before: Annotated[
        str | None,
        typer.Option(metavar="PARTITION:OFFSET", help="One partition below an offset, under cleanup.policy=delete; OFFSET -1 is its end."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Tell what would go and who needs it; change nothing.")] = False,
) -> None:
    """Cut the log off below a snapshot, or a partition below an offset: the latest table and all offsets stay."""
    if (to_snapshot is None) == (before is None):
        raise InvalidRequest("Say where the log is to begin: --to-snapshot NAME, or --before PARTITION:OFFSET.")
    if before is not None and not re.fullmatch(r"\d+:-?\d+", before):
        raise InvalidRequest(f"--before {before}: write PARTITION:OFFSET, for example 0:120.")
    source = call.lake([topic], writing=not dry_run).topic(topic)
    if before is not None:
        partition, offset = map(int, before.split(":"))
        if call.asks and not dry_run:
            told.records_deleted(source.delete_records(partition, offset, dry_run=True), line=output.say)
        if not dry_run:
            call.confirm(f"Remove the records of partition {partition} of {topic} below offset {offset} from its log")
        with output.working(f"{topic}: truncating"):
            deleted = source.delete_records(partition, offset, dry_run=dry_run)
        return call.answer(deleted, told.records_deleted)
    if call.asks and not dry_run:
        planned = source.truncate(str(to_snapshot), dry_run=True)
        told.truncated(planned, line=output.say)
        # That one, whichever is the latest by the time of the answer.
        to_snapshot = planned.snapshot
    if not dry_run:
        call.confirm(f"Remove the records of {topic} below the snapshot {to_snapshot} from its log")
    with output.working(f"{topic}: truncating"):
        result = source.truncate(str(to_snapshot), dry_run=dry_run)
    return call.answer(result, told.truncated)


Rule = Annotated[
    list[str] | None, typer.Option("--if", metavar="NAME=VALUE", help="Under another ordering rule: a setting of it; may be given again.")
]


@verb(readers, example="lakelog explain orders 1017\n  lakelog explain orders 1017 --if compaction.strategy=timestamp")
def explain(
    call: Call,
    topic: Name,
    key: Annotated[str, typer.Argument(metavar="KEY", help="Text, or JSON of another type.")],
    rule: Rule = None,
) -> None:
    """Show every record of a key that the log holds, which one won and why each other lost, and what the cleaner will do with each."""
    from lakelog.terminal.input import key_of, settings_of

    source = call.lake([topic]).topic(topic)
    call.answer(source.explain(key_of(key, source), config=settings_of(rule, "--if")), told.explained)


@verb(readers, example="lakelog what-if orders --if compaction.strategy=timestamp")
def what_if(call: Call, topic: Name, rule: Rule = None) -> None:
    """Tell how many keys would have another record under another ordering rule; nothing is changed."""
    from lakelog.terminal.input import settings_of

    settings = settings_of(rule, "--if")
    if not settings:
        raise InvalidRequest("Under which rule? Give --if NAME=VALUE, for example --if compaction.strategy=timestamp.")
    with output.working(f"{topic}: folding the log twice"):
        result = call.lake([topic]).topic(topic).what_if(settings)
    call.answer(result, told.what_if)
