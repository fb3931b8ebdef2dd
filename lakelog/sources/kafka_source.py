"""A Kafka topic as a source, as ``lakelog.toml`` and the command line say it. A value; no I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lakelog.errors import InvalidConfig
from lakelog.formats.decoding import form
from lakelog.sources.secrets import require_references

URI = re.compile(r"kafka://([^/?#]+)/([A-Za-z0-9._-]+)")
# What the source says itself.
OWN = ("kafka.bootstrap.servers", "kafka.auto.offset.reset", "kafka.enable.auto.commit")


@dataclass(frozen=True)
class KafkaSource:
    """A topic of Kafka whose messages are taken once each, partition by partition.

    ``name``: what the ledger calls it; else the topic. ``mirror``: messages keep partition, offset and timestamp. ``decode``: by side, how octets
    become the declared type (json, avro:FILE, debezium). ``options``: of Kafka's client, ``kafka.security.protocol`` and so on; secrets by reference.
    ``starting_offsets``: partition to the offset below which nothing is read. ``max_offsets``: so many offsets are one append at most.
    """

    topic: str
    bootstrap_servers: str
    name: str | None = None
    mirror: bool = False
    decode: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    starting_offsets: Mapping[int, int] = field(default_factory=dict)
    max_offsets: int = 1_000_000

    @property
    def identity(self) -> str:
        """What the ledger and the log know it by."""
        return f"kafka {self.name or self.topic}"

    def __str__(self) -> str:
        return f"kafka://{self.bootstrap_servers}/{self.topic}"


def is_uri(text: str) -> bool:
    """Whether a text is meant as a Kafka topic's address."""
    return text.startswith("kafka:")


def of_uri(text: str) -> KafkaSource:
    """The source of ``kafka://HOST:PORT,HOST:PORT/TOPIC``.

    Raises:
        InvalidConfig: it is written otherwise.
    """
    found = URI.fullmatch(text)
    if found is None:
        raise InvalidConfig(f"{text}: write a topic of Kafka as kafka://HOST:PORT/TOPIC; servers are separated by commas.")
    return KafkaSource(found[2], found[1])


def of_settings(said: Mapping[str, Any], where: str, folder: Any) -> KafkaSource:
    """The source of a table of settings, whose names and kinds are right.

    Args:
        said: the settings; ``kafka`` is the topic.
        where: the setting's name, for messages.
        folder: what schema files are relative to.

    Raises:
        InvalidConfig: naming the setting.
    """
    if "bootstrap_servers" not in said:
        raise InvalidConfig(
            f'{where} needs bootstrap_servers: {{kafka = "{said["kafka"]}", bootstrap_servers = "broker:9092"}}.', setting=where
        )
    if not re.fullmatch(r"[A-Za-z0-9._-]+", said["kafka"]):
        raise InvalidConfig(
            f"{where}.kafka: {said['kafka']} is no topic of Kafka's: letters, digits, dots, _ and -.", setting=f"{where}.kafka"
        )
    if said.get("max_offsets", 1) < 1:
        raise InvalidConfig(f"{where}.max_offsets must be at least 1.", setting=f"{where}.max_offsets")
    options = _texts(said.get("options", {}), f"{where}.options")
    for name in options:
        if not name.startswith("kafka.") or name in OWN:
            raise InvalidConfig(
                f"{where}.options: {name} cannot be set. Options are those of Kafka's client, such as kafka.security.protocol.",
                setting=f"{where}.options.{name}",
            )
    require_references(options, f"{where}.options")
    decode = decoding(_texts(said.get("decode", {}), f"{where}.decode"), f"{where}.decode", folder)
    own = {**said, "topic": said["kafka"], "options": options, "decode": decode}
    own["starting_offsets"] = _offsets(said.get("starting_offsets", {}), f"{where}.starting_offsets")
    del own["kafka"]
    return KafkaSource(**own)


def decoding(said: Mapping[str, str], where: str, folder: Any) -> dict[str, str]:
    """How sides are decoded, schema files as absolute paths.

    Raises:
        InvalidConfig: a side or a form is unknown.
    """
    found = {}
    for side, text in said.items():
        kind, colon, files = text.partition(":")
        if form(side, text, where) == "avro":
            parts = [one.strip().rpartition("=") for one in files.split(";")]
            files = ";".join(f"{identity}{equals}{Path(folder, file.strip())}" for identity, equals, file in parts)
        found[side] = f"{kind}{colon}{files}"
    return found


def _texts(said: Mapping[str, Any], where: str) -> dict[str, str]:
    """A table of texts; of a table within it (TOML's dotted names) the names joined."""
    found: dict[str, str] = {}
    for name, value in said.items():
        if isinstance(value, Mapping):
            found |= {f"{name}.{inside}": text for inside, text in _texts(value, f"{where}.{name}").items()}
        elif isinstance(value, str) and value:
            found[name] = value
        else:
            raise InvalidConfig(f"{where}.{name} must be text.", setting=f"{where}.{name}")
    return found


def _offsets(said: Mapping[str, Any], where: str) -> dict[int, int]:
    found = {}
    for index, offset in said.items():
        if not str(index).isdecimal() or type(offset) is not int or offset < 0:
            raise InvalidConfig(f"{where} is a table of partitions and offsets: {{0 = 120, 1 = 95}}.", setting=where)
        found[int(index)] = offset
    return dict(sorted(found.items()))
