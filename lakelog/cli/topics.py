"""``lakelog topic …`` and ``lakelog lake …``: what topics there are, and how they and the lake are set up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

import typer

from lakelog.errors import InvalidRequest
from lakelog.model.config import parse
from lakelog.model.names import check_topic_name
from lakelog.terminal import output
from lakelog.terminal.context import Call, Delimiter, Encoding, Engine, Name, said, verb
from lakelog.terminal.input import settings_of
from lakelog.terminal.words import spoken

topics = typer.Typer(help="Create, list, describe, configure, delete topics.", no_args_is_help=True, rich_markup_mode=None)
lakes = typer.Typer(help="Describe, configure the lake's defaults; upgrade its tables.", no_args_is_help=True, rich_markup_mode=None)

Settings = Annotated[list[str] | None, typer.Option("--config", metavar="NAME=VALUE", help="A setting; may be given again.")]
Unset = Annotated[list[str] | None, typer.Option("--unset", metavar="NAME", help="A setting to take back; may be given again.")]


@verb(topics, example='lakelog topic create orders --key "order_id BIGINT" --value "status STRING, updated_at TIMESTAMP"')
def create(
    call: Call,
    topic: Name,
    key: Annotated[
        str | None, typer.Option(help="Type of the keys: an atomic type, or fields: 'order_id BIGINT, region STRING'. Default: BINARY.")
    ] = None,
    value: Annotated[str | None, typer.Option(help="Type of the values, likewise.")] = None,
    partitions: Annotated[int, typer.Option(help="How many partitions the log has, for good.")] = 1,
    setting: Settings = None,
    like: Annotated[str | None, typer.Option(metavar="FILE", help="Take the types from a file's columns; shows them, and asks.")] = None,
    key_columns: Annotated[str | None, typer.Option(metavar="NAMES", help="With --like: the columns that are the key, a,b.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="With --like: show the types, and create nothing.")] = False,
    format: Annotated[str | None, typer.Option(metavar="ndjson|csv|parquet", help="What the file is; else by its name.")] = None,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
) -> None:
    """Create a topic; the first one makes the root a lake."""
    from lakelog.inputs.inference import types_like
    from lakelog.terminal.input import as_files, require_files

    check_topic_name(topic)
    settings = parse(settings_of(setting))
    if like is None:
        if key_columns or dry_run:
            raise InvalidRequest("--key-columns and --dry-run go with --like FILE.")
        lake = call.lake(creating=True)
    else:
        call.require_input_free([like])
        require_files([like], format)
        lake = call.lake(creating=True)
        names = [name.strip() for name in (key_columns or "").split(",") if name.strip()]
        with as_files([like], format) as paths:
            seen = types_like(lake.spark, paths, names, format=format, **said(delimiter=delimiter, encoding=encoding))
        key, value = key or seen["key"], value or seen["value"]
        if dry_run:
            return output.document(seen) if call.json else output.line(f'--key "{key}" --value "{value}"')
        output.say(f'--key "{key}" --value "{value}"')
        call.confirm(f"Create the topic {topic} in {lake.root} with these types")
    made = lake.create_topic(topic, key=key, value=value, partitions=partitions, config=settings).describe()
    return call.answer(made, output.created)


@verb(topics, "list", example="lakelog topic list")
def list_topics(call: Call, engine: Engine = "auto") -> None:
    """List the topics of the lake."""
    names = call.reading(engine=engine).topics()
    if call.json:
        return output.document({"topics": names})
    for name in names:
        output.line(name)
    return None


@verb(topics, example="lakelog topic describe orders")
def describe(call: Call, topic: Name, engine: Engine = "auto") -> None:
    """Show a topic's types and tables, and every setting with its effective value and origin."""
    call.answer(call.reading([topic], engine).topic(topic).describe(), output.described)


@verb(topics, example="lakelog topic configure orders --config segment.ms=86400000")
def configure(
    call: Call,
    topic: Name,
    setting: Settings = None,
    unset: Unset = None,
    value: Annotated[str | None, typer.Option(help="The value's new type: fields added, or types widened.")] = None,
) -> None:
    """Change settings of a topic, or widen its value type."""
    changes = _changes(setting, unset)
    if not changes and value is None:
        raise InvalidRequest("Nothing to configure: give --config NAME=VALUE, --unset NAME or --value TYPE.")
    parse({name: text for name, text in changes.items() if text is not None})
    changed = call.lake([topic], writing=True).topic(topic).configure(changes, value=value)
    warnings = {name: spoken(sentence, topic) for name, sentence in changed.warnings.items()}
    call.answer(replace(changed, warnings=warnings), output.described)


@verb(topics, example="lakelog topic delete orders --yes")
def delete(
    call: Call,
    topic: Name,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Tell what would be deleted, and delete nothing.")] = False,
) -> None:
    """Delete a topic with all its records; asks first."""
    lake = call.lake()
    planned = lake.delete_topic(topic, dry_run=True)
    if not dry_run:
        call.confirm(f"Delete the topic {topic} of {lake.root} with all its records")
    call.answer(planned if dry_run else lake.delete_topic(topic), output.deleted)


@verb(lakes, "describe", example="lakelog lake describe")
def describe_lake(call: Call, engine: Engine = "auto") -> None:
    """Show the lake-wide defaults."""
    lake = call.reading(engine=engine)
    entries = lake.describe()
    if call.json:
        return output.document({"root": lake.root, "config": entries})
    return output.settings(entries)


@verb(lakes, "configure", example="lakelog lake configure --config log.roll.ms=86400000")
def configure_lake(call: Call, setting: Settings = None, unset: Unset = None) -> None:
    """Change lake-wide defaults; topics that do not say otherwise follow."""
    changes = _changes(setting, unset)
    if not changes:
        raise InvalidRequest("Nothing to configure: give --config NAME=VALUE or --unset NAME.")
    parse({name: text for name, text in changes.items() if text is not None}, lake=True)
    lake = call.lake(writing=True)
    lake.configure(changes)
    entries = [entry for entry in lake.describe() if entry["name"] in changes]
    if call.json:
        return output.document({"root": lake.root, "config": entries})
    return output.settings(entries)


@verb(lakes, "upgrade", example="lakelog lake upgrade")
def upgrade_lake(call: Call) -> None:
    """Bring the tables of an older format up to this one; when no older lakelog writes them any more."""
    call.answer(call.lake().upgrade(), output.upgraded)


def _changes(settings: Sequence[str] | None, unset: Sequence[str] | None) -> dict[str, str | None]:
    return {**settings_of(settings), **dict.fromkeys(unset or [])}
