"""Tokens: a producer's names for its batches. A batch with a token is written at most once, however often it is repeated.

A token row commits with its batch and holds the answer. It lies in partition -1, segment = hash mod 16, where only appends with a token of
the same segment conflict, and carries the token's 64-bit hash as its offset, so that a look-up skips every other file by statistics.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakelog.delta import tables
from lakelog.delta.statement import interpreted
from lakelog.errors import InvalidRequest
from lakelog.log.rows import log_rows
from lakelog.model.topic_log import TopicLog

if TYPE_CHECKING:
    from pyspark.sql import Row

TOKEN_PARTITION = -1
SEGMENTS = 16


@dataclass(frozen=True)
class Token:
    """A token with its digest, its 63-bit hash and the directory its row lies in."""

    text: str

    def __post_init__(self) -> None:
        if not self.text or len(self.text.encode()) > 1024:
            raise InvalidRequest("A token is a text of 1 to 1024 octets.")

    @property
    def digest(self) -> str:
        """SHA-256 of the token, in hexadecimal: safe within any statement."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def hash(self) -> int:
        """The token's place: the first 63 bits of its digest."""
        return int(self.digest[:16], 16) >> 1

    @property
    def segment(self) -> int:
        """The directory of its row."""
        return self.hash % SEGMENTS

    def guard(self, rows: str, log: TopicLog, now: int) -> str:
        """The condition that the log (``rows``: how SQL names it) does not remember the token, for the INSERT that writes it."""
        return (
            f"(SELECT count(*) FROM {rows} WHERE partition = {TOKEN_PARTITION} AND segment = {self.segment}"  # noqa: S608
            f" AND offset = {self.hash} AND instr(control, '{self.digest}') > 0"
            f" AND unix_millis(appended_at) > {remembered_since(log, now)}) = 0"
        )

    def row(self, batch: str, epoch: int, offsets: Mapping[int, tuple[int, int]], records: int) -> tuple[Any, ...]:
        """The token's control row: the answer that a repeat gets."""
        content = {"type": "token", "token": self.text, "digest": self.digest, "records": records,
                   "offsets": {str(index): list(span) for index, span in sorted(offsets.items())}}  # fmt: skip
        return (TOKEN_PARTITION, self.segment, self.hash, True, epoch, batch, json.dumps(content, sort_keys=True))

    def remembered(self, log: TopicLog, now: int) -> dict[str, Any] | None:
        """The first answer to this token, if the log remembers it: ``batch``, ``records``, ``offsets``. Cost: one small Spark query."""
        from pyspark.sql import functions as F

        mine = (F.col("partition") == TOKEN_PARTITION) & (F.col("segment") == self.segment) & (F.col("offset") == self.hash)
        alive = F.unix_millis("appended_at") > remembered_since(log, now)
        with tables.door(log.table), interpreted(log.spark):
            rows: list[Row] = log_rows(log).filter(mine & alive).select("batch", "control").collect()
        for row in rows:
            content = json.loads(row["control"])
            if content["digest"] == self.digest:
                spans = {int(index): (int(low), int(high)) for index, (low, high) in content["offsets"].items()}
                return {"batch": row["batch"], "records": int(content["records"]), "offsets": spans}
        return None


def remembered_since(log: TopicLog, now: int) -> int:
    """Tokens written at or before this time (milliseconds) are forgotten (``producer.id.expiration.ms``)."""
    return now - log.config.number("producer.id.expiration.ms")


class TokenKnown(Exception):  # not an error: the answer of a repeat
    """The token's batch stands in the log already: ``answer`` is what its first append was told."""

    def __init__(self, answer: dict[str, Any]) -> None:
        super().__init__("the token is known")
        self.answer = answer
