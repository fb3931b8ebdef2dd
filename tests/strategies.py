"""Hypothesis strategies: histories of records, ways to cut them into batches and merges, and shapes of the topic they go into.

An example is hundreds of histories in one topic: one Spark action then serves all of them. Some share a partition, with keys of their own,
record beside record. What is drawn is a seed, so that every example is rich and any failure can be run again.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
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


def oldest(key: bytes, *, struct: bool) -> Record:
    """A record of the least version that any rule knows, and no tombstone."""
    return Record(
        key, (min(one for one in FIELDS_V if one is not None), "") if struct else b"late", min(TIMES), (("seq", _octets(min(VERSIONS))),)
    )


@dataclass(frozen=True)
class Kind:
    """A topic to test with: its rule for the model, and its configuration and types for lakelog."""

    name: str
    rule: Rule
    config: dict[str, Any] = field(default_factory=dict)
    value: str = "BINARY"

    def __str__(self) -> str:
        return self.name

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
# Where all six take half an hour: the two that differ most in the long suite, the others in the soak.
KINDS_BY_SUITE = [
    pytest.param(kind, id=str(kind), marks=pytest.mark.long if kind.name in ("header-barriers", "column") else pytest.mark.soak)
    for kind in KINDS
]


def dice() -> st.SearchStrategy[random.Random]:
    """A source of chance with a seed: the first example of a property is as rich as the last, not the emptiest."""
    return st.integers(0, 2**32 - 1).map(random.Random)


@dataclass(frozen=True)
class Shape:
    """What the rule does not know: the type of the keys, how silver is laid out, and by which of the two ways it is written."""

    key: str = "BINARY"
    buckets: int = 1
    vectors: bool = False
    overwrites: bool = False

    def __str__(self) -> str:
        layout = "vectors" if self.vectors else "overwritten" if self.overwrites else "merged"
        return f"{self.key.split(' ')[0].lower()}-{self.buckets}-{layout}"

    @property
    def config(self) -> dict[str, Any]:
        """The topic's settings."""
        return {"silver.buckets": self.buckets, "deletion.vectors": self.vectors}

    def typed(self, key: bytes) -> Any:
        """A key of the model as a record of NDJSON has it. Each octet is a character where keys are text; fields may be NULL."""
        text = key.decode("latin-1")
        if self.key == "BINARY":
            return {"hex": key.hex()}
        return text if self.key == "STRING" else {"name": text or None, "size": len(text)}

    def plain(self, key: Any) -> bytes:
        """A stored key as the model has it."""
        if self.key == "BINARY":
            return bytes(key)
        return str(key if self.key == "STRING" else key["name"] or "").encode("latin-1")


KEY_TYPES = ("BINARY", "STRING", "name STRING, size INT")
# One for each of KINDS: each type of keys in one bucket and in three, deletion vectors too, and so both ways without them.
SHAPES = (
    Shape("STRING", 1, vectors=True), Shape("BINARY", 3, overwrites=True), Shape(KEY_TYPES[2], 1), Shape("STRING", 3),
    Shape(KEY_TYPES[2], 3, vectors=True), Shape("BINARY", 1, overwrites=True),
)  # fmt: skip


def shapes() -> st.SearchStrategy[Shape]:
    """Any shape there is."""
    return st.builds(Shape, st.sampled_from(KEY_TYPES), st.sampled_from((1, 3)), st.booleans(), st.booleans())


@st.composite
def histories(draw: st.DrawFn, kind: Kind, *, count: int, longest: int = 9, beside: int = 1) -> list[list[Record]]:
    """``count`` histories, ``beside`` of them in each partition, as a list of records per partition; about one in ten is empty.

    Those that share a partition have keys of their own, and their records stand between each other's.
    """
    chance = draw(dice())
    partitions = []
    for low in range(0, count, beside):
        alone = [
            [decoded(chance.randrange(CODES), struct=kind.struct) for _ in range(chance.randint(0, longest))]
            for _ in range(min(beside, count - low))
        ]
        turns = [number for number, history in enumerate(alone) for _ in history]
        if beside > 1:
            chance.shuffle(turns)
        left = [iter(history) for history in alone]
        records = [(number, next(left[number])) for number in turns]
        partitions.append([replace(record, key=b"%d/" % number + record.key) if number else record for number, record in records])
    return partitions


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
