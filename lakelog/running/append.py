"""A topic's sources into its log, one after the other, in the order in which they are named."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lakelog.errors import InvalidRequest, LakelogError
from lakelog.running import directory, table
from lakelog.running.sources import DirectorySource, Source
from lakelog.running_results import Taken
from lakelog.topic import Topic


def append_from(topic: Topic, sources: Sequence[Source], *, tell: Callable[[int, int], None] = lambda done, total: None) -> list[Taken]:
    """Append what the log does not hold yet of some sources.

    Args:
        topic: the topic.
        sources: directories and tables.
        tell: called with (files done, files in all of the source) after each append.

    Gives: what was taken of each.

    Raises:
        InvalidRequest: there is none.
        What `directory.take` and `table.take` name. Every source is looked at before anything is written; what was taken before a refusal stays
        in the log: ``sources`` in its details says it.
    """
    if not sources:
        raise InvalidRequest(
            f'{topic.name} has no sources. Name files, or list sources in lakelog.toml: [topics.{topic.name}] sources = ["./in"].'
        )
    for source in sources[1:]:
        directory.look(topic, source) if isinstance(source, DirectorySource) else table.look(topic, source)
    done: list[Taken] = []
    try:
        for source in sources:
            done.append(
                directory.take(topic, source, tell=tell) if isinstance(source, DirectorySource) else table.take(topic, source, tell=tell)
            )
    except LakelogError as error:
        error.details = {**error.details, "sources": [one.to_dict() for one in done]}
        raise
    return done
