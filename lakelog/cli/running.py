"""The verbs on a topic's sources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakelog.cli import output, told
from lakelog.cli.context import Call
from lakelog.errors import InvalidRequest

if TYPE_CHECKING:
    from lakelog.cli.settings import Settings
    from lakelog.running.sources import Source


def sources_of(settings: Settings, topic: str, directories: Sequence[str], written: Mapping[str, str | None]) -> list[Source]:
    """The sources of an append: directories that are named, else those of lakelog.toml.

    Args:
        settings: they list the sources of topics.
        topic: the topic.
        directories: ``--from``.
        written: how files are written, where the command line says it.

    Raises:
        InvalidRequest: there is none, or one is named twice.
    """
    from lakelog.running.sources import DirectorySource, of_directory, require_distinct

    configured = settings.sources.get(topic, ())
    said: dict[str, Any] = {name: text for name, text in written.items() if text != getattr(DirectorySource, name)}
    found = [replace(of_directory(one, configured, Path.cwd()), **said) for one in directories] or [
        replace(one, **said) for one in configured
    ]
    if not found:
        raise InvalidRequest(
            f"{topic}: what is to be appended? Name files, a directory with --from, or sources in {settings.file or 'a lakelog.toml'}:"
            f' [topics.{topic}] sources = ["./in"].'
        )
    require_distinct(found, "--from")
    return found


def append_from(call: Call, topic: str, directories: Sequence[str], written: Mapping[str, str | None]) -> None:
    """Append what is new in a topic's sources."""
    from lakelog.cli.progress import watching
    from lakelog.running.append import append_from as taken_from

    sources = sources_of(call.settings(), topic, directories, written)
    lake = call.lake([topic], writing=True)
    with watching(f"{topic}: appending from {output.count(len(sources), 'source')}", lake.spark) as tell:
        done = taken_from(lake.topic(topic), sources, tell=tell)
    if call.json:
        return output.document({"topic": topic, "sources": [one.to_dict() for one in done]})
    for one in done:
        told.taken(one)
    return None
