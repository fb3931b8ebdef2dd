"""What is to be read of a topic of Kafka: from where the log stands to where the topic ends, in steps. Decisions as values; no I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from lakelog.errors import InvalidConfig, InvalidRequest, Refused
from lakelog.log.ledger import Entry
from lakelog.sources.kafka_source import KafkaSource

Offsets = Mapping[int, int]


@dataclass(frozen=True)
class Step:
    """One append: ``spans`` are partition to [from, to) of the offsets that it covers, ``read`` those that are read of them."""

    spans: Mapping[int, tuple[int, int]]
    read: Mapping[int, tuple[int, int]]
    ends: Mapping[int, int] = field(default_factory=dict)

    def names(self, topic: str) -> list[str]:
        """What it took, as Kafka names partitions."""
        return [f"{topic}-{index} [{first}, {end})" for index, (first, end) in sorted(self.spans.items())]


def require_same_partitions(topic: str, source: KafkaSource, partitions: int, ends: Offsets) -> None:
    """Refuse to mirror a source that has other partitions than the topic.

    Raises:
        InvalidRequest: MIRROR_PARTITIONS.
    """
    if sorted(ends) != list(range(partitions)):
        raise InvalidRequest(
            f"{topic}: {source} has {len(ends)} partitions, the topic has {partitions}: a mirror has those of its source. Nothing was written."
            f" Mirror it into a topic with partitions={len(ends)}; without mirror = true records go where the hash of their key says.",
            name="MIRROR_PARTITIONS", partitions=partitions, source_partitions=len(ends),
        )  # fmt: skip


def beyond(at: Offsets, ends: Offsets) -> dict[int, int]:
    """The partitions of which more was taken than the source holds."""
    return {index: offset for index, offset in sorted(at.items()) if ends.get(index, -1) < offset}


def require_not_replaced(topic: str, source: KafkaSource, at: Offsets, ends: Offsets) -> None:
    """Refuse a source that ends before what was taken of it: it was made anew, or lost its end.

    Raises:
        Refused: SOURCE_REPLACED.
    """
    shorter = beyond(at, ends)
    if shorter:
        where = ", ".join(
            (f"partition {index} ends at {ends[index]}" if index in ends else f"there is no partition {index}")
            + f", up to {offset} was taken"
            for index, offset in shorter.items()
        )
        remedy = "Mirror it into another topic" if source.mirror else "Give the source another name, then all that it holds is taken"
        raise Refused(
            f"{topic}: {source} holds fewer offsets than were taken of it: {where}. It was made anew, or its brokers lost records; with"
            f" read_committed a transaction may be open. Nothing was written. {remedy}.",
            name="SOURCE_REPLACED", expected=shorter, actual={index: ends.get(index, 0) for index in shorter},
        )  # fmt: skip


def require_starts(topic: str, source: KafkaSource, starts: Offsets, ends: Offsets) -> None:
    """Refuse a mirror that would begin beyond its source's end: the log's origin is said once, for good.

    Raises:
        InvalidConfig: naming the partition.
    """
    for index, start in sorted(starts.items()):
        if start > ends[index]:
            raise InvalidConfig(
                f"{topic}: starting_offsets {index} = {start} lies beyond the end of {source}, whose partition {index} ends at {ends[index]}."
                " Nothing was written.",
                setting="starting_offsets",
            )


def lost(topic: str, source: KafkaSource, gone: Mapping[int, tuple[int, int]]) -> Refused:
    """The refusal of a source that no longer holds offsets which the log does not hold yet: ``gone`` is partition to [first, end) of those."""
    where = ", ".join(f"offsets [{first}, {end}) of partition {index}" for index, (first, end) in sorted(gone.items()))
    starting = ", ".join(f"{index} = {end}" for index, (_, end) in sorted(gone.items()))
    return Refused(
        f"{topic}: {where} of {source} are gone: the source removed them before they were taken. None of them was written, and none is passed over"
        f" without a word. Bring them back at the source; or, if they may be missing here, say so: starting_offsets = {{{starting}}}.",
        name="SOURCE_TRUNCATED", expected={index: first for index, (first, _) in sorted(gone.items())},
        actual={index: end for index, (_, end) in sorted(gone.items())}, source=str(source),
    )  # fmt: skip


def next_step(source: KafkaSource, at: Offsets, ends: Offsets) -> Step | None:
    """What the next append covers; None where the log holds all.

    Args:
        source: says how many offsets an append takes at most, and below which nothing is read.
        at: partition to the offset up to which its messages are in the log.
        ends: partition to the source's end.
    """
    moving = {index: (max(first, source.starting_offsets.get(index, 0)), ends[index]) for index, first in at.items() if ends[index] > first}
    if not moving:
        return None
    most = max(source.max_offsets // len(moving), 1)
    stop = {index: min(first + most, end) if first < end else end for index, (first, end) in moving.items()}
    spans = {index: (at[index], stop[index]) for index in sorted(moving)}
    read = {index: (moving[index][0], stop[index]) for index in sorted(moving) if moving[index][0] < stop[index]}
    return Step(spans, read, {**at, **stop})


def start(firsts: Offsets) -> Step:
    """The step that covers nothing, and says where a source begins."""
    return Step({index: (first, first) for index, first in firsts.items()}, {}, firsts)


def entry(known: Offsets, step: Step) -> Entry:
    """What the ledger says of a step, under the name of what it said before it (``known``): no two steps follow on the same.

    ``from``: where it began with partitions of which nothing was known.
    """
    name = ",".join(f"{index}:{offset}" for index, offset in sorted(known.items())) or "start"
    begun = {str(index): first for index, (first, _) in sorted(step.spans.items()) if index not in known}
    return Entry(name, 0, "", more={"to": {str(index): offset for index, offset in sorted(step.ends.items())}, "from": begun})


def begun(withdrawn: Iterable[Mapping[str, Any]]) -> dict[int, int]:
    """Where a source was begun with, by what a restore took out of the ledger: from there on its messages were in the log once."""
    found: dict[int, int] = {}
    for more in withdrawn:
        for index, offset in more.get("from", {}).items():
            found[int(index)] = min(int(offset), found.get(int(index), int(offset)))
    return found


def beginnings(unknown: Iterable[int], at: Offsets, begun: Offsets) -> dict[int, int]:
    """Where partitions begin of which nothing was taken yet, as far as that is known: others at the first message that the source holds.

    Args:
        unknown: the partitions.
        at: where the others stand, by the ledger.
        begun: as `begun` tells.

    Gives: those of ``begun`` where they did. The others at 0 where the source was taken from before: they were added since, and what the source
    has removed of them is missed when it is read.
    """
    return {index: begun.get(index, 0) for index in unknown if index in begun or at or begun}


def taken(entries: Mapping[str, Entry]) -> dict[int, int]:
    """Up to which offsets a source's messages are in the log, by the ledger; empty where none are."""
    found: dict[int, int] = {}
    for one in entries.values():
        for index, offset in (one.more or {})["to"].items():
            found[int(index)] = max(int(offset), found.get(int(index), 0))
    return dict(sorted(found.items()))
