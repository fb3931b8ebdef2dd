"""Messages of a topic of Kafka into a topic's log: each once, up to where the topic ends now.

A mirror keeps partitions, offsets and timestamps: where its log ends is where reading goes on, so that the append, on condition that the log still ends
there, needs no other checkpoint. Else records get offsets of the log's own, and the ledger says up to which offsets of the source they are there, in
the commit of these records.

Where a source begins is said in the log, before its first message is taken, by the first run that looks at it, whether it holds messages by then or
not: a mirror's state says so, else the first entry of the ledger. What the source removes from then on is missed, and named.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from lakelog.delta import kafka
from lakelog.delta.kafka import Connection
from lakelog.errors import Conflict, ExpectedOffsetMismatch, FencedEpoch, InvalidConfig, LakelogError
from lakelog.formats.decoding import Decoding
from lakelog.inputs.kafka import KafkaRecords
from lakelog.inputs.sources import FileOptions
from lakelog.log import ledger, withdrawn
from lakelog.log.append import AppendOptions
from lakelog.log.ledger import SourceToken
from lakelog.log.state import change_state, require_writable
from lakelog.log.tail import LogEnd, log_end
from lakelog.model.mirroring import Mirrored, require_writer
from lakelog.model.records import columns
from lakelog.results import Appended
from lakelog.running_results import Taken, TakenBatch
from lakelog.sources import offsets, secrets
from lakelog.sources.directory import appended, joined
from lakelog.sources.kafka_source import KafkaSource
from lakelog.sources.offsets import Step
from lakelog.topic import Topic

ATTEMPTS = 20


@dataclass(frozen=True)
class Position:
    """Where a source is: how it is reached and decoded, up to which offsets its messages are in the log (``at``), and where it ends.

    ``known``: ``at`` without partitions of which nothing was taken yet. ``epoch``: the log's, of which this is said: a restore takes it back.
    """

    connection: Connection
    decoding: Decoding
    at: Mapping[int, int]
    ends: Mapping[int, int]
    known: Mapping[int, int]
    epoch: int


def look(topic: Topic, source: KafkaSource) -> Position:
    """What of a topic of Kafka is to be taken.

    Raises:
        NotFound: there is no such topic in the cluster.
        InvalidConfig: its options, a schema file or a reference to a secret are wrong; the topic's timestamps would not be the source's.
        InvalidRequest: a mirror has other partitions than its source (MIRROR_PARTITIONS).
        Refused: the source holds less than was taken of it (SOURCE_REPLACED); the log is no mirror of it (LOG_MIRRORED).
        Conflict: the broker does not answer (NETWORK_EXCEPTION).

    Cost: a streaming query that reads nothing tells where the source ends; the ledger, or the log's end, is read by one small Spark query.
    At first one message of each partition is read, and a commit says in the log where the source begins.
    """
    where = f"sources of {topic.name}: {source}"
    found = secrets.resolved(source.options, where)
    connection = Connection(source.bootstrap_servers, source.topic, found.options, found.secrets)
    decoding = Decoding.of(source.decode, f"{where}: decode")
    ends = kafka.ends(topic.spark, connection)
    epoch = log_end(topic.log).epoch
    if source.mirror:
        at = _mirrored(topic, source, connection, ends)
    else:
        at = offsets.taken(ledger.entries(topic.log, source.identity))
    unknown = [index for index in ends if index not in at]
    # After a restore to before a source's first messages it begins where it did then, not at what the source still holds.
    begun = offsets.begun(withdrawn.told(topic.log, source.identity)) if unknown and epoch else {}
    firsts = offsets.beginnings(unknown, at, begun)
    if offsets.beyond({**at, **firsts}, ends):
        # Another process may have taken what came since it was asked where the source ends.
        ends = kafka.ends(topic.spark, connection)
    offsets.require_not_replaced(topic.name, source, {**at, **firsts}, ends)
    if unknown and not firsts:
        at = kafka.firsts(topic.spark, connection, unknown, ends)
        if not _said(topic, source, at, epoch):
            return look(topic, source)
    return Position(connection, decoding, {**at, **firsts}, ends, at, epoch)


def _said(topic: Topic, source: KafkaSource, firsts: Mapping[int, int], epoch: int) -> bool:
    """Say in the ledger where a source begins; False where another process did, or the log was restored. It is no batch, and passes no gate."""
    nothing = topic.spark.createDataFrame([], columns(key=topic.types.key, value=topic.types.value))
    token = SourceToken.of(source.identity, [offsets.entry({}, offsets.start(firsts))])
    topic._ready()
    try:
        return not topic._append(nothing, FileOptions(), AppendOptions(token=token, epoch=epoch)).repeated
    except FencedEpoch:
        return False


def _mirrored(topic: Topic, source: KafkaSource, connection: Connection, ends: Mapping[int, int]) -> dict[int, int]:
    """Where a mirror's log ends; one that is empty begins where its source does."""
    offsets.require_same_partitions(topic.name, source, topic.partitions, ends)
    if topic.config.text("message.timestamp.type") != "CreateTime":
        raise InvalidConfig(
            f"{topic.name}: a mirror keeps the timestamps of its source: set message.timestamp.type=CreateTime.",
            setting="message.timestamp.type",
        )
    mirrored = Mirrored(source.identity, {})
    for _ in range(ATTEMPTS):
        end = topic._ready(pin=True)
        if any(tail.state.mirror is not None or tail.batch is not None or tail.end for tail in end.tails.values()):
            require_writer(topic.name, end.tails, mirrored)
            return {index: tail.end for index, tail in sorted(end.tails.items())}
        firsts = kafka.firsts(topic.spark, connection, list(ends), ends)
        starts = {index: max(first, source.starting_offsets.get(index, 0)) for index, first in firsts.items()}
        offsets.require_starts(topic.name, source, starts, ends)
        if _begin(topic, source, end, starts):
            return {index: tail.end for index, tail in sorted(log_end(topic.log).tails.items())}
    raise Conflict(f"{topic.name}: other writers were first {ATTEMPTS} times in a row. Nothing was written; try again later.")


def _begin(topic: Topic, source: KafkaSource, end: LogEnd, firsts: Mapping[int, int]) -> bool:
    """Say in the log's state that it mirrors a source, from these offsets on; False where the log is no longer as known: it must be empty still."""
    require_writable(topic.log, end)
    identity = uuid.uuid4().hex
    states = {index: tail.state.mirroring(identity, source.identity, firsts[index]) for index, tail in end.tails.items()}
    return change_state(topic.log, end, states, "mirror", now=topic.clock(), of_state=False) is not None


def take(topic: Topic, source: KafkaSource, *, tell: Callable[[int, int], None] = lambda done, total: None) -> Taken:
    """Append the messages of a topic of Kafka that the topic's log does not hold yet, up to where it ends now.

    Args:
        topic: the topic.
        source: the topic of Kafka.
        tell: called with (offsets done, offsets in all) after each append.

    Raises:
        What `look` and `Topic.append` name. Refused: the source removed messages before they were taken (SOURCE_TRUNCATED), and it is named which.
        What was appended before a refusal stays in the log: ``taken`` in its details says it.

    Cost: as `look`; for each ``max_offsets`` an append, which reads them once and keeps them in memory or on local disk.
    """
    done: list[TakenBatch] = []
    late = 0
    position = look(topic, source)
    at, known = position.at, position.known
    total, count = sum(position.ends[index] - offset for index, offset in at.items()), 0
    try:
        while (step := offsets.next_step(source, at, position.ends)) is not None:
            answer = _append(topic, source, position, known, step)
            if answer is None:
                # Another process took some of it meanwhile, or the log was restored: what is left now?
                late += 1
                if late == ATTEMPTS:
                    raise Conflict(f"{topic.name}: other processes took {source} first {ATTEMPTS} times in a row; try again later.")
                position = look(topic, source)
                at, known = position.at, position.known
                continue
            done.append(
                TakenBatch(step.names(source.topic), 0, answer.version, answer.records, answer.offsets, answer.quarantined, answer.run)
            )
            at = known = step.ends
            count += sum(end - first for first, end in step.spans.values())
            tell(min(count, total), total)
        return _taken(topic.name, source, done, at)
    except LakelogError as error:
        error.details = {**error.details, "taken": _taken(topic.name, source, done, at).to_dict()}
        raise


def _append(topic: Topic, source: KafkaSource, position: Position, known: Mapping[int, int], step: Step) -> Appended | None:
    """A step's append; None where another process was first, or the log was restored."""
    mirrored = Mirrored(source.identity, step.spans, known) if source.mirror else None
    token = None if source.mirror else SourceToken.of(source.identity, [offsets.entry(known, step)])
    span = step.read or {index: (end, end) for index, (_, end) in step.spans.items()}
    try:
        with kafka.door(position.connection):
            frame = kafka.records(topic.spark, position.connection, span)
            return appended(topic, KafkaRecords(frame, position.decoding, mirrored=mirrored), token, position.epoch)
    except ExpectedOffsetMismatch:
        if mirrored is None:
            raise
        return None
    except kafka.Lost as error:
        raise _lost(topic, source, position, step) from error


def _lost(topic: Topic, source: KafkaSource, position: Position, step: Step) -> LakelogError:
    """What to say when a read failed because messages are gone: which."""
    ends = kafka.ends(topic.spark, position.connection)
    offsets.require_not_replaced(topic.name, source, {index: first for index, (first, _) in step.read.items()}, ends)
    gone = {}
    for index, first in kafka.firsts(topic.spark, position.connection, [index for index in step.read if index in ends], ends).items():
        start = step.read[index][0]
        if first > start and _is_lost(topic, position.connection, index, start, min(first, ends[index])):
            gone[index] = (start, first)
    if gone:
        return offsets.lost(topic.name, source, gone)
    return Conflict(f"{topic.name}: {source} removed messages while they were read. Nothing of them was written; try again.")


def _is_lost(topic: Topic, connection: Connection, index: int, start: int, end: int) -> bool:
    """Whether the broker holds no log at an offset; one that its cleaner emptied it does hold."""
    try:
        kafka.require_held(topic.spark, connection, index, (start, end))
    except kafka.Lost:
        return True
    return False


def _taken(topic: str, source: KafkaSource, done: list[TakenBatch], at: Mapping[int, int]) -> Taken:
    records, spans = sum(one.records for one in done), joined([one.offsets for one in done])
    return Taken(topic, str(source), len(done), 0, records, spans, list(done), kind="range", ends=dict(sorted(at.items())))
