"""The append: what a request asks beside its records, whether it may be written, and what it is answered."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from lakelog.arguments import check_offsets, check_whole
from lakelog.delta import tables
from lakelog.delta.lock import LOCKED, held
from lakelog.errors import OUTCOME_UNKNOWN, Conflict, ExpectedOffsetMismatch, FencedEpoch, InvalidRequest, LakelogError, NotFound, Refused
from lakelog.inputs import staging
from lakelog.inputs.request import Request
from lakelog.inputs.sources import FileOptions, requested
from lakelog.inputs.staging import Batch
from lakelog.log import bronze, conditions, guard, tokens
from lakelog.log.notes import note
from lakelog.log.rows import control_frame
from lakelog.log.tail import LogEnd, followed, log_end
from lakelog.log.terms import require_same_settings
from lakelog.log.tokens import BatchMark, MarkedToken, Token, TokenKnown
from lakelog.model.expectations import combined, stated
from lakelog.model.mirroring import require_writer
from lakelog.model.row_rules import RowRules
from lakelog.model.segments import Piece
from lakelog.model.topic_log import TopicLog
from lakelog.results import Appended

# Stages a request with rules, or without; whether those that keep records out are left to the write (`staging.staged`).
Stage = Callable[[RowRules | None, bool], Batch]


class Gate(Protocol):
    """What stands before the log: the rules that each record is judged by, and a decision on the batch (`lakelog.quality`)."""

    @property
    def rules(self) -> RowRules:
        """The rules of single records."""

    def staged(self, stage: Stage, *, assume: bool = True) -> Batch:
        """Stage the request with the rules; tells rules that cannot be evaluated from a request that cannot be read.

        With ``assume`` it may leave rules to the write, which fails where a record breaks one: then the request is to be staged again without.
        """

    def admit(self, batch: Batch, *, token: str | None, end: LogEnd, since: int | None = None) -> str | None:
        """Let a judged batch in, or raise `GateFailed`; puts aside what is kept out. Returns the identity of the batch, where it is to have one.

        ``token``: the batch's name; before ``since`` the same name was another batch's.
        """

    def withdraw(self, batch_id: str, *, answered: bool = False) -> None:
        """Take back what was put aside of a batch that is not written; ``answered``: for the log holds another one with its token."""

    def written(self, answer: Appended) -> Appended:
        """Record that the batch was written; gives the answer with what became of the rest of it."""


@dataclass(frozen=True)
class AppendOptions:
    """The conditions of an append: log ends that must hold (partition to offset), a token (a text, or one that says more: ledger.py), the
    generation of the log the writer knows; how many bad records its refusal lists; the gate that it has to pass. ``as_of``: the log that the append
    was decided on, of which no partition may have got records or another state since."""

    expected_offset: Mapping[int, int] | None = None
    token: str | Token | None = None
    epoch: int | None = None
    problems: int = 20
    gate: Gate | None = None
    as_of: LogEnd | None = None

    def __post_init__(self) -> None:
        """Refuse what is of another type (InvalidRequest)."""
        check_offsets("expected_offset", self.expected_offset)
        check_whole("epoch", self.epoch)
        check_whole("problems", self.problems, least=1, needed=True)
        if not isinstance(self.token, (str, Token, type(None))):
            raise InvalidRequest(f"token={self.token!r}: it is a text, the name of this batch. Nothing was written.")


def append(
    log: TopicLog, name: str, source: Any, how: FileOptions, options: AppendOptions, *, now: int, known: LogEnd | None
) -> tuple[Appended, LogEnd | None]:
    """Append a source's records, all or nothing.

    Args:
        log: the topic's log.
        name: the topic's name.
        source: the records, as `Topic.append` takes them.
        how: how files are to be read.
        options: its conditions.
        now: the append's time in milliseconds.
        known: the log's end as this process last saw it.

    Returns:
        (the answer, the log's end where it is known afterwards).

    Raises:
        What `Topic.append` names; after any of it nothing was written.
    """
    mark = Token(options.token) if isinstance(options.token, str) else options.token
    if mark is not None and (answer := mark.remembered(log, now)) is not None:
        return _repeated(log, name, mark, answer), known
    seen = None if known is None else followed(log, known)
    captured = _captured(log, name, options, seen, known)
    checked = log.config.flag("check.expected.offsets")
    stated_ends = stated(options.expected_offset, log.partitions) if checked else {}
    gate = options.gate
    request = _request(log, source, how, mark, gate)

    mirrored = request.mirrored
    require_writer(name, captured.tails, mirrored)

    def stage(rules: RowRules | None, assume: bool) -> Batch:
        with tables.door(name), tables.source_door():
            return staging.staged(log, request, now, listed=options.problems, rules=rules, assume=assume)

    per_key = log.config.text("check.expected.offsets.scope") == "key"

    def written(batch: Batch) -> tuple[Appended, LogEnd | None]:
        if mark is not None:
            mark.require_unchanged()
        of_records = conditions.expectations(batch) if checked and not per_key else {}
        terms = bronze.Terms(combined(of_records, stated_ends), checked and per_key, mark, mirrored, options.as_of)
        answer_checked = checked if options.expected_offset or batch.conditional else None
        batch_id, terms = _admitted(log, gate, batch, terms, captured, now)
        try:
            try:
                done = _written(log, name, batch, terms, captured, answer_checked, now, batch_id)
            except ExpectedOffsetMismatch:
                # The ends that were seen may be old where a mounted file system remembers. Another epoch may have begun since the call did.
                if captured is not seen:
                    raise
                fresh = _end_anew(log, name, captured.epoch)
                done = _written(log, name, batch, terms, fresh, answer_checked, now, batch_id)
        except TokenKnown:
            # The append that seemed to be cut off was slow, and has written its batch meanwhile; or another goes on with what this one put aside.
            return written(batch)
        except LakelogError as error:
            if gate is not None and error.name != OUTCOME_UNKNOWN:
                gate.withdraw(batch_id)
            raise
        if gate is not None and done[0].repeated and done[0].batch != batch_id:
            gate.withdraw(batch_id, answered=True)
        return done

    if gate is None:
        return written(stage(None, False))
    batch = gate.staged(stage)
    try:
        return written(batch)
    except Exception as error:
        if not batch.assumed or (isinstance(error, LakelogError) and error.name != "SOURCE_CHANGED"):
            raise
    # A record breaks a rule that was left to the write, or one cannot be evaluated; `bronze.append` found no batch. Now all is looked at first.
    return written(gate.staged(stage, assume=False))


def _captured(log: TopicLog, name: str, options: AppendOptions, seen: LogEnd | None, known: LogEnd | None) -> LogEnd:
    """The log's end that an append is decided on; ``seen``: the one that was followed from ``known``, for which the topic's settings were read.

    Raises:
        Conflict: something else than appends may have been committed since, and settings that decide what is let in were changed.
        FencedEpoch: the writer knows an older generation of the log.

    Cost: nothing where the end is one of these two; as `log_end`, and where something was committed since `require_same_settings`.
    """
    captured = options.as_of or seen or log_end(log, known=known)
    if options.epoch not in (None, captured.epoch):
        return _end_anew(log, name, options.epoch)
    if captured is not seen and captured is not known:
        require_same_settings(log)
    return captured


def _end_anew(log: TopicLog, name: str, epoch: int | None) -> LogEnd:
    """The log's end, read anew for a writer that knows an epoch, under the settings that it knows.

    Raises:
        FencedEpoch: the log has a newer epoch.
        Conflict: settings that decide what is let in were changed.
    """
    end = log_end(log)
    _check_epoch(name, epoch, end.epoch)
    require_same_settings(log)
    return end


def _request(log: TopicLog, source: Any, how: FileOptions, mark: Token | None, gate: Gate | None) -> Request:
    """The source as a request. Of one that its token knows, what was checked is kept: it is what the token says, whatever becomes of the files."""
    request = requested(log.spark, source, how, log.types, raw=gate is not None and gate.rules.quarantine)
    return replace(request, repeatable=False) if mark is not None and mark.knows_input else request


def _admitted(log: TopicLog, gate: Gate | None, batch: Batch, terms: bronze.Terms, captured: LogEnd, now: int) -> tuple[str, bronze.Terms]:
    """A batch past its gate: its identity, and its terms. One of which records were put aside bears a mark."""
    if gate is None:
        return uuid.uuid4().hex, terms
    token, mirrored = terms.token, terms.mirrored
    named = token.text if token is not None else None if mirrored is None else mirrored.token
    parted = gate.admit(batch, token=named, end=captured, since=None if token is None else token.forgotten(log, now))
    if parted is None:
        return uuid.uuid4().hex, terms
    return parted, replace(terms, token=BatchMark.of(parted) if token is None else MarkedToken.of(token, parted))


def _written(
    log: TopicLog, name: str, batch: Batch, terms: bronze.Terms, captured: LogEnd, answer_checked: bool | None, now: int, batch_id: str
) -> tuple[Appended, LogEnd | None]:
    """A staged batch in the log, or the refusal. A batch of no records is written for its token or mark, or for the offsets of its source, alone."""
    mark = terms.token
    if not batch.records and mark is None and terms.mirrored is None:
        conditions.check(log, batch, terms.expectations, captured.ends(), per_key=False)
        return Appended(name, {}, None, 0, None, None, False, answer_checked), captured
    try:
        version, pieces, end = in_turn(log, batch, batch_id=batch_id, now=now, terms=terms, captured=captured)
    except TokenKnown as first:
        if mark is None or not first.answer:
            raise
        return _repeated(log, name, mark, first.answer), None
    offsets = {index: (piece.start, piece.end) for index, piece in sorted(pieces.items())}
    token = None if mark is None or isinstance(mark, BatchMark) else mark.text
    return Appended(name, offsets, version, batch.records, batch_id, token, False, answer_checked), end


def fence(log: TopicLog, batch: str, *, now: int) -> bool:
    """Keep an append that was cut off, or is slow, from writing a batch of which it has put records aside; False where it has written it.

    Raises:
        Conflict: others changed the log again and again.

    Cost: a look at the log's end, one small commit, a small Spark query.
    """
    for _ in range(bronze.ATTEMPTS):
        end = log_end(log)
        row = control_frame(log.spark, log.types, [BatchMark.of(batch).void(end.epoch)], now)
        text = note("void", id=uuid.uuid4().hex, checked=end.version, ends=end.ends())
        try:
            if guard.insert(log, row, {0: end.tails[0]}, None, now=now, count=1, user_metadata=text, of_state=True) is not None:
                return not tokens.marked(log, [batch])
        except Conflict as error:
            if error.name == LOCKED:
                raise
    raise Conflict(f"{log.table}: other writers were first {bronze.ATTEMPTS} times in a row. Nothing was written; try again later.")


def in_turn(
    log: TopicLog, batch: Batch, *, batch_id: str, now: int, terms: bronze.Terms, captured: LogEnd
) -> tuple[int, dict[int, Piece], LogEnd | None]:
    """`bronze.append` when this writer's turn has come. A token that another writer wrote since it was looked up answers before anything is refused.

    Cost: as `bronze.append`; where it refuses a batch with a token, one small Spark query more.
    """
    try:
        with _turn(log, captured) as current:
            return bronze.append(log, batch, batch_id=batch_id, now=now, terms=terms, captured=current)
    except Refused as refusal:
        answer = None if terms.token is None else terms.token.remembered(log, now)
        if answer is None:
            raise
        raise TokenKnown(answer) from refusal


@contextlib.contextmanager
def _turn(log: TopicLog, captured: LogEnd) -> Iterator[LogEnd]:
    """The table's lock, and the log's end as it is now: writers queue, in place of failing at each other's commits.

    Raises:
        FencedEpoch: the log was restored since its end was looked at.
        Conflict: settings that decide what is let in were changed since.

    Cost: next to nothing where there were other appends at most meanwhile; else a look at the log's end.
    """
    with held(log.spark, log.table):
        current, seen = captured, None
        # Where the table is gone or was changed, the statement that writes says what that means.
        with contextlib.suppress(Conflict, NotFound):
            if captured.file is not None:
                seen = followed(log, captured)
                current = seen or log_end(log, sorted(captured.tails), captured)
        if captured.file is not None and seen is None:
            require_same_settings(log)
        if current.epoch != captured.epoch:
            raise FencedEpoch(
                f"{log.table}: the log was restored while the append ran: epoch {current.epoch} instead of {captured.epoch}. Nothing was"
                " written. Read again, then decide.", expected=captured.epoch, actual=current.epoch,
            )  # fmt: skip
        yield current


def _check_epoch(name: str, epoch: int | None, current: int) -> None:
    """Refuse a writer of another generation than the log's."""
    if epoch is None or epoch == current:
        return
    if epoch > current:
        raise InvalidRequest(f"{name}: epoch {epoch} is beyond the topic's epoch {current}.")
    raise FencedEpoch(
        f"{name}: the writer knows epoch {epoch}, the topic is in epoch {current}: the log was restored. Nothing was written. Read the log"
        " again, then decide.", expected=epoch, actual=current,
    )  # fmt: skip


def _repeated(log: TopicLog, name: str, token: Token, answer: Mapping[str, Any]) -> Appended:
    """The first answer to a token, once more."""
    version = bronze.version_of(log, answer["batch"])
    return Appended(name, answer["offsets"], version, answer["records"], answer["batch"], token.text, True, None)
