"""Secrets of sources, by reference: ``env:NAME`` or ``file:/path``. What they hold is known only while the source is read."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lakelog.errors import InvalidConfig

REFERENCE = re.compile(r"(env|file):(.+)", re.DOTALL)
# Options whose values are secrets: they are told by reference only.
SENSITIVE = re.compile(r"password|jaas|secret|token|credential|keystore\.key|private", re.IGNORECASE)
PLAIN = re.compile(r"\.(url|file|location|class|type)$", re.IGNORECASE)
# A secret within a longer text, such as JAAS's: password="…".
INSIDE = re.compile(r"""=\s*(?:"((?:[^"\\]|\\.)+)"|'([^']+)')""")
SHORTEST = 4


@dataclass(frozen=True)
class Resolved:
    """Options with their secrets in them, and these secrets alone, for messages that must not tell them."""

    options: Mapping[str, str] = field(repr=False)
    secrets: tuple[str, ...] = field(repr=False)


def require_references(options: Mapping[str, str], where: str) -> None:
    """Refuse a secret that stands where its reference should.

    Raises:
        InvalidConfig: naming the option, not what it holds.
    """
    for name, text in options.items():
        if SENSITIVE.search(name) and not PLAIN.search(name) and not REFERENCE.fullmatch(text):
            raise InvalidConfig(
                f'{where}: {name} is a secret: name where it is, "env:NAME" for an environment variable or "file:/path" for a file.',
                setting=f"{where}.{name}",
            )


def resolved(options: Mapping[str, str], where: str, environment: Mapping[str, str] = os.environ) -> Resolved:
    """Options with what their references refer to.

    Raises:
        InvalidConfig: a variable is not set, or a file cannot be read; the option is named.
    """
    found: dict[str, str] = {}
    secrets: set[str] = set()
    for name, text in options.items():
        reference = REFERENCE.fullmatch(text)
        if reference is None:
            found[name] = text
            continue
        kind, place = reference.groups()
        if kind == "env":
            if not environment.get(place):
                raise InvalidConfig(f"{where}: {name} is in the environment variable {place}, which is not set.", setting=f"{where}.{name}")
            found[name] = environment[place]
        else:
            try:
                found[name] = Path(place).read_text(encoding="utf-8").rstrip("\r\n")
            except (OSError, UnicodeDecodeError) as error:
                why = getattr(error, "strerror", None) or "it is no text"
                raise InvalidConfig(f"{where}: {name} is in {place}, which cannot be read: {why}.", setting=f"{where}.{name}") from None
        secrets |= set(_parts(found[name]))
    return Resolved(found, tuple(sorted(secrets)))


def _parts(text: str) -> Iterator[str]:
    """A secret, and the quoted values within it."""
    inside = [one or other for one, other in INSIDE.findall(text)]
    yield from (one for one in [text, *text.splitlines(), *inside] if len(one) >= SHORTEST)
