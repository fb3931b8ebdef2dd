"""Tokens: a producer's names for its batches. A batch with a token is written at most once, however often it is repeated.

A token row commits with its batch and holds the answer. It lies in partition -1, segment = hash mod 16, where only appends with a token of
the same segment conflict, and carries the token's 63-bit hash as its offset, so that a look-up skips every other file by statistics.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakelog.arguments import is_text
from lakelog.delta import tables
from lakelog.delta.statement import interpreted
from lakelog.errors import InvalidRequest
from lakelog.log.rows import log_rows
from lakelog.model.topic_log import TopicLog

if TYPE_CHECKING:
    from pyspark.sql import Row

TOKEN_PARTITION = -1
SEGMENTS = 16
# What a row of a `BatchMark` is: it was written with its batch, or in its place.
MARKS = ASIDE, VOID = "aside", "void"


@dataclass(frozen=True)
class Token:
    """A token with its digest, its 63-bit hash and the directory its row lies in."""

    text: str

    def __post_init__(self) -> None:
        if not is_text(self.text) or not 1 <= len(self.text.encode()) <= 1024:
            raise InvalidRequest("A token is a text of 1 to 1024 octets.")

    @property
    def digest(self) -> str:
        """SHA-256 of the token, in hexadecimal: safe within any statement."""
        return _digest(self.text)

    @property
    def hash(self) -> int:
        """The token's place: the first 63 bits of its digest."""
        return _hash(self.digest)

    @property
    def more(self) -> dict[str, Any]:
        """What its row says beside the answer."""
        return {}

    @property
    def segment(self) -> int:
        """The directory of its row."""
        return self.hash % SEGMENTS

    def guard(self, rows: str, log: TopicLog, now: int) -> str:
        """The condition that the log (``rows``: how SQL names it) does not remember the token, for the INSERT that writes it."""
        return (
            f"(SELECT count(*) FROM {rows} WHERE partition = {TOKEN_PARTITION} AND segment = {self.segment}"  # noqa: S608
            f" AND offset = {self.hash} AND get_json_object(control, '$.digest') = '{self.digest}'"
            f" AND unix_millis(appended_at) > {remembered_since(log, now)}) = 0"
        )

    def rows(
        self, batch: str, epoch: int, offsets: Mapping[int, tuple[int, int]], records: int, ends: Mapping[int, int]
    ) -> list[tuple[Any, ...]]:
        """The token's control rows: the answer that a repeat gets; ``ends``: where the log ended before."""
        content = {**self.more, "type": "token", "token": self.text, "digest": self.digest, **answer(offsets, records)}
        return [(TOKEN_PARTITION, self.segment, self.hash, True, epoch, batch, json.dumps(content, sort_keys=True))]

    def forgotten(self, log: TopicLog, now: int) -> int | None:
        """The time (milliseconds) before which the same token was another batch's; None where it is never forgotten."""
        return remembered_since(log, now)

    @property
    def knows_input(self) -> bool:
        """Whether it says what the input is, so that what it says and what is written must be of one reading."""
        return False

    def require_unchanged(self) -> None:
        """Called when the records were read, before anything is written: a token that knows its input refuses one that changed meanwhile."""

    def remembered(self, log: TopicLog, now: int) -> dict[str, Any] | None:
        """The first answer to this token, if the log remembers it: ``batch``, ``records``, ``offsets``. Cost: one small Spark query."""
        for row in _at(log, self.hash):
            if row.content["digest"] == self.digest and row.appended_ms > remembered_since(log, now):
                return {"batch": row.batch, "records": row.records, "offsets": row.offsets}
        return None


def answer(offsets: Mapping[int, tuple[int, int]], records: int) -> dict[str, Any]:
    """What a control row says of the batch that it came with. A restore that cuts these offsets takes the row with them (cut.py)."""
    return {"records": records, "offsets": {str(index): list(span) for index, span in sorted(offsets.items())}}


def found(log: TopicLog, token: Token) -> TokenRow | None:
    """The newest row of a token in the log, however old it is; None where there is none. Cost: one small Spark query."""
    rows = [row for row in _at(log, token.hash) if row.content["digest"] == token.digest]
    return max(rows, key=lambda row: row.appended_ms, default=None)


@dataclass(frozen=True)
class ChunkToken(Token):
    """The token of a bulk load's chunk, named by the first record in it, so that records are written once whatever the size of the chunks.

    All tokens of a load lie at the place of its ``identity``: one look-up finds them (`chunks`).
    """

    identity: str = ""
    first: int = 0

    @classmethod
    def of(cls, identity: str, first: int) -> ChunkToken:
        """The token of the chunk of the input ``identity`` that begins with the record ``first``."""
        return cls(f"{identity}#{first}", identity, first)

    @property
    def hash(self) -> int:
        """The place of the load."""
        return _hash(_digest(self.identity))

    @property
    def more(self) -> dict[str, Any]:
        """What finds the chunks of a load."""
        return {"load": _digest(self.identity), "first": self.first}


@dataclass(frozen=True)
class TokenRow:
    """A token's row in the log."""

    batch: str
    content: Mapping[str, Any]
    appended_ms: int

    @property
    def records(self) -> int:
        """How many records came with it."""
        return int(self.content["records"])

    @property
    def offsets(self) -> dict[int, tuple[int, int]]:
        """Partition to (first offset, end offset) of those records."""
        return {int(index): (int(low), int(high)) for index, (low, high) in self.content["offsets"].items()}


@dataclass(frozen=True)
class BatchMark(Token):
    """The mark of a batch of which records were put aside: it commits with the batch, be nothing else of it let in.

    It is never forgotten, and neither a restore nor retention takes it: what was put aside of a batch that bears no mark was put aside by an append
    that was cut off, or is slow. Its place may be taken without the batch (`void`): then that append can write it no more.
    """

    batch: str = ""

    @classmethod
    def of(cls, batch: str) -> BatchMark:
        """The mark of a batch."""
        return cls(f"aside-{batch}", batch)

    def guard(self, rows: str, log: TopicLog, now: int) -> str:
        """The condition that the log does not hold the mark, however old it is."""
        return (
            f"(SELECT count(*) FROM {rows} WHERE partition = {TOKEN_PARTITION} AND segment = {self.segment}"  # noqa: S608
            f" AND offset = {self.hash} AND get_json_object(control, '$.digest') = '{self.digest}') = 0"
        )

    def rows(
        self, batch: str, epoch: int, offsets: Mapping[int, tuple[int, int]], records: int, ends: Mapping[int, int]
    ) -> list[tuple[Any, ...]]:
        """The mark's control row; it answers with no offsets, so that a restore leaves it."""
        return [self._row(ASIDE, epoch, batch, records)]

    def void(self, epoch: int) -> tuple[Any, ...]:
        """The control row that takes the mark's place."""
        return self._row(VOID, epoch, self.batch, 0)

    def _row(self, kind: str, epoch: int, batch: str, records: int) -> tuple[Any, ...]:
        content = {"type": kind, "digest": self.digest, **answer({}, records)}
        return (TOKEN_PARTITION, self.segment, self.hash, True, epoch, batch, json.dumps(content, sort_keys=True))

    def remembered(self, log: TopicLog, now: int) -> dict[str, Any] | None:
        """Empty where the mark's place is taken: that is no answer to anybody else's batch. Cost: one small Spark query."""
        return None if found(log, self) is None else {}


@dataclass(frozen=True)
class MarkedToken(Token):
    """The token of a batch of which records were put aside, and its mark: neither may be in the log, and both are written."""

    token: Token
    mark: BatchMark

    @classmethod
    def of(cls, token: Token, batch: str) -> MarkedToken:
        """A token and the mark of its batch."""
        return cls(token.text, token, BatchMark.of(batch))

    @property
    def segment(self) -> int:
        """The directory of the token's row."""
        return self.token.segment

    def guard(self, rows: str, log: TopicLog, now: int) -> str:
        """The condition that the log remembers neither."""
        return f"{self.token.guard(rows, log, now)} AND {self.mark.guard(rows, log, now)}"

    def rows(
        self, batch: str, epoch: int, offsets: Mapping[int, tuple[int, int]], records: int, ends: Mapping[int, int]
    ) -> list[tuple[Any, ...]]:
        """The control rows of both."""
        return [row for one in (self.token, self.mark) for row in one.rows(batch, epoch, offsets, records, ends)]

    def remembered(self, log: TopicLog, now: int) -> dict[str, Any] | None:
        """The first answer to the token, or the mark's. Cost: one or two small Spark queries."""
        known = self.token.remembered(log, now)
        return self.mark.remembered(log, now) if known is None else known


def marked(log: TopicLog, batches: Collection[str]) -> set[str]:
    """Those of some batches that were written with their `BatchMark`. Cost: one small Spark query where there are any."""
    from pyspark.sql import functions as F

    marks = {mark.digest: mark for mark in map(BatchMark.of, batches)}
    if not marks:
        return set()
    places = sorted({(mark.segment, mark.hash) for mark in marks.values()})
    here = (F.col("partition") == TOKEN_PARTITION) & F.col("segment").isin(sorted({segment for segment, _ in places}))
    rows = log_rows(log).filter(here & F.col("offset").isin([place for _, place in places])).select("control")
    with tables.door(log.table), interpreted(log.spark):
        said = [json.loads(row["control"]) for row in rows.collect()]
    held = {one["digest"] for one in said if one["type"] == ASIDE}
    return {mark.batch for digest, mark in marks.items() if digest in held}


def named(log: TopicLog, batch: str) -> bool:
    """Whether the log holds a token that was written with a batch, or an entry of the ledger (`ledger.SourceToken`), be it expired.

    Cost: one small Spark query over the rows of tokens.
    """
    from pyspark.sql import functions as F

    here = (F.col("partition") == TOKEN_PARTITION) & F.col("segment").between(0, 2 * SEGMENTS - 1)
    rows = log_rows(log).filter(here & (F.col("batch") == batch)).select("control")
    with tables.door(log.table), interpreted(log.spark):
        return any(json.loads(row["control"])["type"] not in MARKS for row in rows.collect())


def chunks(log: TopicLog, identity: str) -> list[TokenRow]:
    """The tokens of a bulk load's chunks in the order of their records, expired ones included. Cost: one small Spark query."""
    load = _digest(identity)
    return sorted((row for row in _at(log, _hash(load)) if row.content.get("load") == load), key=lambda row: int(row.content["first"]))


def _at(log: TopicLog, place: int) -> list[TokenRow]:
    """The rows of tokens at a place."""
    from pyspark.sql import functions as F

    here = (F.col("partition") == TOKEN_PARTITION) & (F.col("segment") == place % SEGMENTS) & (F.col("offset") == place)
    with tables.door(log.table), interpreted(log.spark):
        rows: list[Row] = log_rows(log).filter(here).select("batch", "control", F.unix_millis("appended_at").alias("ms")).collect()
    return [TokenRow(row["batch"], json.loads(row["control"]), row["ms"]) for row in rows]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _hash(digest: str) -> int:
    return int(digest[:16], 16) >> 1


def remembered_since(log: TopicLog, now: int) -> int:
    """Tokens written at or before this time (milliseconds) are forgotten (``producer.id.expiration.ms``)."""
    return now - log.config.number("producer.id.expiration.ms")


class TokenKnown(Exception):  # not an error: the answer of a repeat
    """The token's batch is in the log already: ``answer`` is what its first append was told; empty of a mark, whose batch is another's now."""

    def __init__(self, answer: dict[str, Any]) -> None:
        super().__init__("the token is known")
        self.answer = answer
