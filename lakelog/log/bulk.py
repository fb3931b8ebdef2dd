"""A long ordered input written in chunks, each exactly once, whenever and however often the load is started again (KIP-27, rule 74c).

Every chunk carries a token made of the input's identity and the chunk's first record, and expects the offsets behind the chunk before it. A
load that was killed finds its finished chunks by their tokens and continues behind the last record that is in the log, whatever the
size of its own chunks; it stops if another writer got in between, and where tokens have expired.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from lakelog.arguments import check_whole, is_text
from lakelog.delta import tables
from lakelog.errors import Conflict, FencedEpoch, InvalidRequest, Refused
from lakelog.inputs import staging
from lakelog.inputs.identity import InputIdentity
from lakelog.inputs.request import Request
from lakelog.inputs.staging import Batch
from lakelog.log import bronze
from lakelog.log.append import Gate, in_turn
from lakelog.log.tail import log_end
from lakelog.log.terms import require_same_settings
from lakelog.log.tokens import ChunkToken, TokenKnown, chunks, remembered_since
from lakelog.model.expectations import Expectation
from lakelog.model.row_rules import RowRules
from lakelog.model.topic_log import TopicLog
from lakelog.results import Loaded

# A chunk's token is the identity and a number, and at most 1024 octets.
IDENTITY_MOST = 1000


def load(
    log: TopicLog,
    name: str,
    request: Request,
    *,
    identity: str | InputIdentity,
    chunk: int,
    now: int,
    tell: Callable[[int, int], None],
    problems: int = 20,
    gate: Gate | None = None,
) -> Loaded:
    """Write a request chunk by chunk.

    Args:
        log: the topic's log.
        name: the topic's name.
        request: the records, in an order that is the same at every start.
        identity: what the input is, the same at every start (its name, size and digest); of files that may be changed while they are read, with what
            tells that.
        chunk: records a chunk.
        now: the time in milliseconds.
        tell: called with (records done, records in all) after each chunk.
        problems: how many bad records a refusal lists.
        gate: what the whole request has to pass; it is refused or let in as a whole.

    Raises:
        GateFailed: the gate refused it, nothing of this start was written.
        Conflict: settings by which records are let in were changed since the topic was looked at, or other writers were first too often; the
            chunks before that are written.
        ExpectedOffsetMismatch: another writer appended behind the last chunk; the chunks before it are written.
        FencedEpoch: the log was restored since it was looked at; chunks that were written before it may be gone.
        InvalidRecords: some records are wrong: nothing of this start was written.
        Refused: tokens of the load have expired, or were those of another input (LOAD_EXPIRED, LOAD_DIFFERS), or its files were changed while they
            were read (SOURCE_CHANGED); nothing was written.

    Cost: the input is read once and kept in memory or on local disk; an append a chunk.
    """
    check_whole("chunk", chunk, least=1, needed=True)
    check_whole("problems", problems, least=1, needed=True)
    called = identity.text if isinstance(identity, InputIdentity) else identity
    if not is_text(called) or not 1 <= len(called.encode()) <= IDENTITY_MOST:
        raise InvalidRequest(f"The identity of a bulk load's input is a text of 1 to {IDENTITY_MOST} octets, not {called!r:.100}.")
    kept = replace(request, repeatable=False)

    def stage(rules: RowRules | None, assume: bool) -> Batch:
        with tables.door(name), tables.source_door():
            return staging.staged(log, kept, now, listed=problems, rules=rules, assume=assume)

    whole = stage(None, False) if gate is None else gate.staged(stage)
    if isinstance(identity, InputIdentity):
        identity.require_unchanged()
        # Chunks that an older lakelog wrote.
        called = identity.earlier if identity.earlier is not None and chunks(log, identity.earlier) else called
    # What is found of the load, and where it goes on, is of this generation of the log.
    seen = log_end(log)
    if gate is not None:
        gate.admit(whole, token=None, end=seen)
    if whole.conditional and log.config.flag("check.expected.offsets"):
        raise InvalidRequest(
            f"{whole.conditional} records expect an offset, but a bulk load gives the expected offsets itself: leave them out, or append"
            " without load. Nothing was written."
        )
    finished = _finished(log, name, called, whole.records, now)
    done, found, count = finished.records, finished.chunks, finished.chunks
    spans, end, version = finished.spans, None, None
    while done < whole.records:
        part = _part(whole, done, min(done + chunk, whole.records), now)
        captured = end or log_end(log, known=seen)
        if captured.epoch != seen.epoch:
            raise FencedEpoch(
                f"{name}: the log was restored while the load ran: epoch {captured.epoch} instead of {seen.epoch}. Chunks of it may be gone. Start"
                " the load again: it goes on behind those that are there.", expected=seen.epoch, actual=captured.epoch,
            )  # fmt: skip
        expected = {index: Expectation(index, spans[index][1], spans[index][1]) for index in part.shares if index in spans}
        terms = bronze.Terms(expectations=expected, token=ChunkToken.of(called, done))
        try:
            # Where the end was read anew, or cannot be followed by the table's files, that does not tell what else was committed.
            if end is None or end.file is None:
                require_same_settings(log)
            version, pieces, end = in_turn(log, part, batch_id=uuid.uuid4().hex, now=now, terms=terms, captured=captured)
            written, got = part.records, {index: (piece.start, piece.end) for index, piece in pieces.items()}
        except TokenKnown as known:
            # Another process with the same load; its chunk may have another size.
            written, got, end = known.answer["records"], known.answer["offsets"], None
        except Conflict as conflict:
            if not done:
                raise
            raise _behind(conflict, done, whole.records) from conflict
        done, count, spans = done + written, count + 1, _joined(spans, got)
        tell(done, whole.records)
    return Loaded(name, dict(sorted(spans.items())), whole.records, count, found, called, version)


@dataclass(frozen=True)
class Finished:
    """What of a load is in the log: records from its first one on, chunks, and (first offset, end offset) by partition."""

    records: int
    chunks: int
    spans: dict[int, tuple[int, int]]


def _finished(log: TopicLog, name: str, identity: str, records: int, now: int) -> Finished:
    """The part of a load that is in the log: of the chunks, each begins behind the one before it.

    Raises:
        Refused: a token has expired, or one is gone, or more records are there than the input has.
    """
    done, spans, rows = 0, dict[int, tuple[int, int]](), chunks(log, identity)
    held = sum(row.records for row in rows)
    if held > records:
        raise Refused(
            f"{name}: {held} records of a bulk load called {identity} are in the log, this input has {records}: it is another input. Give"
            " it an identity of its own. Nothing was written.", name="LOAD_DIFFERS", expected=held, actual=records,
        )  # fmt: skip
    for row in rows:
        if row.content["first"] != done or row.appended_ms <= remembered_since(log, now):
            raise Refused(
                f"{name}: {held} of {records} records of the bulk load {identity} are in the log, but its tokens have expired. Nothing"
                " was written. Raise producer.id.expiration.ms and start the load again to go on behind them, or give the input another"
                " identity to write all of it once more.", name="LOAD_EXPIRED", expected=done, actual=held,
            )  # fmt: skip
        done, spans = done + row.records, _joined(spans, row.offsets)
    return Finished(done, len(rows), spans)


def _behind(conflict: Conflict, done: int, records: int) -> Conflict:
    """What keeps a chunk out of the log, where chunks before it are in it."""
    says = str(conflict).replace("Nothing was written", "Nothing of this chunk was written")
    told = f"{says} {done} of {records} records of the load are in the log: started again, it goes on behind them."
    return Conflict(told, name=conflict.name, **conflict.details)


def _joined(spans: Mapping[int, tuple[int, int]], more: Mapping[int, tuple[int, int]]) -> dict[int, tuple[int, int]]:
    """The spans of a load with those of its next chunk."""
    return {**spans, **{index: (spans.get(index, span)[0], span[1]) for index, span in more.items()}}


def _part(whole: Batch, first: int, end: int, now: int) -> Batch:
    """The records of a request from one position to another as a batch of their own."""
    from pyspark.sql import functions as F

    rows = whole.located().filter(F.col("record").between(first, end - 1)).drop("position", "record")
    return staging.summed(rows, now)
