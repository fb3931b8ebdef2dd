"""A long ordered input written in chunks, each exactly once, whenever and however often the load is started again (KIP-27, rule 74c).

Every chunk carries a token made of the input's identity and the chunk's number, and expects the offsets behind the chunk before it: a load
that was killed finds its finished chunks by their tokens, continues behind them, and stops if another writer got in between.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace

from lakelog.delta import tables
from lakelog.errors import InvalidRequest
from lakelog.log import bronze, staging
from lakelog.log.append import in_turn
from lakelog.log.sources import Request
from lakelog.log.staging import Batch
from lakelog.log.tail import LogEnd, log_end
from lakelog.log.tokens import Token, TokenKnown
from lakelog.model.expectations import Expectation
from lakelog.model.topic_log import TopicLog
from lakelog.results import Loaded


def load(
    log: TopicLog, name: str, request: Request, *, identity: str, chunk: int, now: int, tell: Callable[[int, int], None], problems: int = 20
) -> Loaded:
    """Write a request chunk by chunk.

    Args:
        log: the topic's log.
        name: the topic's name.
        request: the records, in an order that is the same at every start.
        identity: what the input is, the same at every start (its name, size and digest).
        chunk: records a chunk; the same at every start.
        now: the time in milliseconds.
        tell: called with (records done, records in all) after each chunk.
        problems: how many bad records a refusal lists.

    Raises:
        ExpectedOffsetMismatch: another writer appended behind the last chunk; the chunks before stand.
        InvalidRecords: some records are wrong: nothing of this start was written.

    Cost: the input is read once and kept in memory or on local disk; an append a chunk.
    """
    if chunk < 1:
        raise InvalidRequest(f"chunk={chunk}: it is a number of records, at least 1.")
    with tables.door(name), tables.source_door():
        whole = staging.staged(log, replace(request, repeatable=False), now, listed=problems)
    if whole.conditional and log.config.flag("check.expected.offsets"):
        raise InvalidRequest(
            f"{whole.conditional} records expect an offset, but a bulk load gives the expected offsets itself: leave them out, or append"
            " without --bulk. Nothing was written."
        )
    tokens = [Token(f"{identity}#{chunk}#{number}") for number in range(-(-whole.records // chunk))]
    spans: dict[int, tuple[int, int]] = {}
    end: LogEnd | None = None
    finished = _finished(log, tokens, now)
    for number, token in enumerate(tokens):
        answer = token.remembered(log, now) if number < finished else None
        if answer is None:
            part = _part(whole, number * chunk, min((number + 1) * chunk, whole.records), now)
            captured = end or log_end(log)
            expected = {index: Expectation(index, spans[index][1], spans[index][1]) for index in part.shares if index in spans}
            terms = bronze.Terms(expectations=expected, token=token)
            try:
                with in_turn(log, captured) as current:
                    _, pieces, end = bronze.append(log, part, batch_id=uuid.uuid4().hex, now=now, terms=terms, captured=current)
                got = {index: (piece.start, piece.end) for index, piece in pieces.items()}
            except TokenKnown as known:
                got, end = known.answer["offsets"], None
        else:
            got = answer["offsets"]
        spans |= {index: (spans.get(index, span)[0], span[1]) for index, span in got.items()}
        tell(min((number + 1) * chunk, whole.records), whole.records)
    return Loaded(name, dict(sorted(spans.items())), whole.records, len(tokens), finished, identity)


def _finished(log: TopicLog, tokens: list[Token], now: int) -> int:
    """How many chunks stand in the log: they were written in order, so their end is found by halving."""
    low, high = 0, len(tokens)
    while low < high:
        middle = (low + high) // 2
        if tokens[middle].remembered(log, now) is None:
            high = middle
        else:
            low = middle + 1
    return low


def _part(whole: Batch, first: int, end: int, now: int) -> Batch:
    """The records of a request from one position to another as a batch of their own."""
    from pyspark.sql import functions as F

    rows = whole.located().filter(F.col("record").between(first, end - 1)).drop("position", "record")
    return staging.summed(rows, now)
