"""The sources that a command names, or that lakelog.toml lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from lakelog.errors import InvalidConfig, InvalidRequest

if TYPE_CHECKING:
    from lakelog.sources.configured import Source
    from lakelog.terminal.settings import Settings


def messages_of(mirror: bool, decode: str | None) -> dict[str, Any]:
    """How messages of Kafka are taken, where the command line says it.

    Raises:
        InvalidConfig: the decoding is not understood.
    """
    return {**({"mirror": True} if mirror else {}), **({"decode": stated_decoding(decode, Path.cwd())} if decode else {})}


def stated_decoding(text: str, folder: Path) -> dict[str, str]:
    """``--decode key=json,value=avro:orders.avsc`` as a setting.

    Raises:
        InvalidConfig: it is written otherwise.
    """
    from lakelog.sources.kafka_source import decoding

    pairs = [one.partition("=") for one in text.split(",")]
    if any(not equals for _, equals, _ in pairs):
        raise InvalidConfig(f"--decode {text}: write key=FORM,value=FORM, with the forms json, debezium, avro:FILE.")
    return decoding({side.strip(): said.strip() for side, _, said in pairs}, "--decode", folder)


def sources_of(
    settings: Settings,
    topic: str,
    directories: Sequence[str],
    written: Mapping[str, str],
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
        InvalidRequest: there is none, or none of those that the command line says something of.
        InvalidConfig: one is named twice.
    """
    from lakelog.sources.configured import DirectorySource, of_name, require_distinct
    from lakelog.sources.kafka_source import KafkaSource

    configured = settings.sources.get(topic, ())
    files: Mapping[str, Any] = written
    named = [source for one in directories for source in of_name(one, configured, Path.cwd())] or list(configured)
    found: list[Source] = [
        replace(one, **files) if isinstance(one, DirectorySource) else replace(one, **messages) if isinstance(one, KafkaSource) else one
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
    if written and not any(isinstance(one, DirectorySource) for one in found):
        raise InvalidRequest(
            f"{', '.join(f'--{name}' for name in written)} are about files: --from DIRECTORY, or a source of lakelog.toml."
        )
    require_distinct(found, "--from")
    return found
