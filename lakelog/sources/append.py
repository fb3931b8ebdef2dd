"""A topic's sources into its log, one after the other, in the order in which they are named."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lakelog.errors import InvalidRequest, LakelogError
from lakelog.running_results import Taken
from lakelog.sources import directory, kafka, table
from lakelog.sources.configured import DirectorySource, Source
from lakelog.sources.kafka_source import KafkaSource
from lakelog.topic import Topic


def append_from(topic: Topic, sources: Sequence[Source], *, tell: Callable[[int, int], None] = lambda done, total: None) -> list[Taken]:
    """Append what the log does not hold yet of some sources.

    Args:
        topic: the topic.
        sources: directories, tables and topics of Kafka.
        tell: called with (files done, files in all of the source) after each append.

    Gives: what was taken of each.

    Raises:
        InvalidRequest: there is none.
        What `directory.take`, `table.take` and `kafka.take` name.
        Every source is looked at before any record is written (a look may say in the log where a topic
        of Kafka begins); what was taken before a refusal stays in the log: ``sources`` in its details says it.
    """
    if not sources:
        raise InvalidRequest(
            f'{topic.name} has no sources. Name files, or list sources in lakelog.toml: [topics.{topic.name}] sources = ["./in"].'
        )
    for source in sources[1:]:
        _look(topic, source)
    done: list[Taken] = []
    try:
        for source in sources:
            done.append(_take(topic, source, tell))
    except LakelogError as error:
        error.details = {**error.details, "sources": [one.to_dict() for one in done]}
        raise
    return done


def _look(topic: Topic, source: Source) -> None:
    if isinstance(source, DirectorySource):
        directory.look(topic, source)
    elif isinstance(source, KafkaSource):
        kafka.look(topic, source)
    else:
        table.look(topic, source)


def _take(topic: Topic, source: Source, tell: Callable[[int, int], None]) -> Taken:
    if isinstance(source, DirectorySource):
        return directory.take(topic, source, tell=tell)
    if isinstance(source, KafkaSource):
        return kafka.take(topic, source, tell=tell)
    return table.take(topic, source, tell=tell)
