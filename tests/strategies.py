"""Hypothesis strategies: histories of records, and ways to cut them into batches and merges.

An example is dozens of histories, each in a partition of its own: one Spark action then serves all of them. What is drawn is a seed, so
that every example is rich and any failure can be run again.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

from tests.oracle import Header, Record, Rule

NOON = 1_700_000_000_000
KEYS = (b"a", b"b", b"\xff\x00", b"")
VALUES = (b"one", None, b"two", b"", b"\x00\xff", None)
TIMES = (NOON, NOON - 1, NOON + 5, 0, -1, -62_000_000_000_000)
VERSIONS = (1, 2, 2, -1, 0, 2**63 - 1, -(2**63))
FIELDS_V = (1, 2, None, -(2**63))
FIELDS_W = ("m", None, "", "é")


def _octets(version: int) -> bytes:
    return version.to_bytes(8, "big", signed=True)


def _headers(shape: int, version: int) -> tuple[Header, ...]:
    """Headers of every kind: one version, none, unusable ones, the name twice, another name, the last one unusable."""
    seq, other = ("seq", _octets(version)), ("seq", _octets(VERSIONS[(shape + 1) % len(VERSIONS)]))
    shapes: tuple[tuple[Header, ...], ...] = (
        (seq,), (seq,), (seq,), (), (("other", b"x"), seq), (other, seq), (("SEQ", _octets(9)),),
        (("seq", None),), (("seq", b""),), (("seq", b"\x01"),), (seq, ("seq", None)), (seq, ("trace", None), ("", b"")),
    )  # fmt: skip
    return shapes[shape % len(shapes)]


SIZES = (len(KEYS), len(VALUES), len(TIMES), len(VERSIONS), 12, 4, len(FIELDS_V), len(FIELDS_W))


def decoded(code: int, *, struct: bool) -> Record:
    """The record that a number stands for."""
    digits = []
    for size in SIZES:
        code, digit = divmod(code, size)
        digits.append(digit)
    key, value, time, version, shape, flag, v, w = digits
    content: Any = VALUES[value]
    if struct:
        content = None if VALUES[value] is None else (FIELDS_V[v], FIELDS_W[w])
    return Record(KEYS[key], content, TIMES[time], _headers(shape, VERSIONS[version]), flag == 1)


CODES = math.prod(SIZES)


@dataclass(frozen=True)
class Kind:
    """A topic to test with: its rule for the model, and its configuration and types for lakelog."""

    name: str
    rule: Rule
    config: dict[str, Any] = field(default_factory=dict)
    key: str = "BINARY"
    value: str = "BINARY"

    @property
    def struct(self) -> bool:
        """Whether values are STRUCTs."""
        return self.value != "BINARY"


_HEADER = {"compaction.strategy": "header", "compaction.strategy.header": "seq"}
_COLUMN = {"compaction.strategy": "column", "compaction.strategy.column": "v, w"}
_ONE = {"compaction.strategy": "column", "compaction.strategy.column": "v", "tombstone.unversioned": "lose"}
KINDS = (
    Kind("offset", Rule()),
    Kind("timestamp", Rule("timestamp"), {"compaction.strategy": "timestamp"}),
    Kind("header", Rule("header", header="seq"), _HEADER),
    Kind("header-barriers", Rule("header", header="seq", barriers=True), {**_HEADER, "tombstone.unversioned": "win_by_offset"}),
    Kind("column", Rule("column", columns=(0, 1), barriers=True), _COLUMN, value="v BIGINT, w STRING"),
    Kind("column-one", Rule("column", columns=(0,)), _ONE, value="v BIGINT, w STRING"),
)


def dice() -> st.SearchStrategy[random.Random]:
    """A source of chance with a seed: the first example of a property is as rich as the last, not the emptiest."""
    return st.integers(0, 2**32 - 1).map(random.Random)


@st.composite
def histories(draw: st.DrawFn, kind: Kind, *, count: int, longest: int = 9) -> list[list[Record]]:
    """``count`` histories, each a list of records for one partition; about one in ten is empty."""
    chance = draw(dice())
    return [[decoded(chance.randrange(CODES), struct=kind.struct) for _ in range(chance.randint(0, longest))] for _ in range(count)]


@dataclass(frozen=True)
class Cut:
    """How histories reach the topic: into how many appends, after which of them a merge runs, and what ``max_records`` it is given."""

    batches: int
    merges: tuple[bool, ...]
    max_records: int | None
    spread: int

    def pieces(self, history: list[Record], partition: int) -> list[list[Record]]:
        """A history as ``batches`` pieces, uneven and different from partition to partition; some are empty."""
        if self.batches == 1:
            return [history]
        marks = sorted((self.spread * (partition + 3) * (index + 1) * 7919) % (len(history) + 1) for index in range(self.batches - 1))
        edges = [0, *marks, len(history)]
        return [history[low:high] for low, high in zip(edges, edges[1:], strict=False)]


@st.composite
def cuts(draw: st.DrawFn, *, most: int = 4) -> Cut:
    """A way to cut histories into appends and merges."""
    chance = draw(dice())
    batches = chance.randint(2, most)
    return Cut(batches, tuple(chance.random() < 0.6 for _ in range(batches)), chance.choice([None, 1, 50]), chance.randint(1, 1000))


def few(examples: int, *, derandomize: bool = True) -> Any:
    """Settings for properties that cost Spark actions: few examples, each of many histories, no shrinking (the failing history is printed)."""
    return settings(
        max_examples=examples, deadline=None, derandomize=derandomize, database=None, print_blob=True,
        phases=(Phase.explicit, Phase.generate), suppress_health_check=list(HealthCheck),
    )  # fmt: skip
