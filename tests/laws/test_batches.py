"""Laws 8, 10 and 11: refused means nothing written; batches are atomic and merges end on whole commits; a reader at the head sees all."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given

from lakelog.errors import InvalidRecords
from tests.laws import topics
from tests.oracle import Model, Record
from tests.strategies import KINDS, Cut, cuts, dice, few, histories
from tests.tables import versions

if TYPE_CHECKING:
    from lakelog import Lake

HEADER = next(kind for kind in KINDS if kind.name == "header")
STRICT = {
    "compaction.header.invalid": "reject", "tombstone.strict": True, "max.message.bytes": 40, "message.timestamp.after.max.ms": 1000,
}  # fmt: skip
GOOD = {"key": "k", "value": "v", "headers": [["seq", 1]], "tombstone": False}
BAD: dict[str, tuple[str, dict[str, Any]]] = {
    "no key": ("INVALID_RECORD", {"key": None}),
    "unflagged null": ("INVALID_RECORD", {"value": None}),
    "unusable version": ("INVALID_RECORD", {"headers": [["seq", {"hex": "01"}]]}),
    "no such partition": ("INVALID_RECORD", {"partition": 7}),
    "wrong type": ("INVALID_RECORD", {"value": 5}),
    "unknown field": ("INVALID_RECORD", {"colour": "red"}),
    "far future": ("INVALID_TIMESTAMP", {"timestamp": 1_700_000_001_001}),
    "too large": ("MESSAGE_TOO_LARGE", {"value": "v" * 40}),
}


def _refused(lake: Lake, examples: int, *, derandomize: bool) -> None:
    topic = topics.fresh(lake, HEADER, partitions=3, config=STRICT)
    topic.append([{**GOOD, "partition": 1}])
    topic.merge()

    @few(examples, derandomize=derandomize)
    @given(dice())
    def law(chance: random.Random) -> None:
        partitions = [chance.randint(0, 2) for _ in range(chance.randint(1, 6))]
        bad = chance.sample(range(len(partitions)), min(len(partitions), chance.randint(1, 3)))
        wrong = {position: chance.choice(sorted(BAD)) for position in bad}
        records = [
            {**GOOD, "partition": partition, **(BAD[wrong[index]][1] if index in wrong else {})}
            for index, partition in enumerate(partitions)
        ]
        before, ends = versions(lake.root, topic.name), topic.ends()
        with pytest.raises(InvalidRecords) as refused:
            topic.append(records)
        names = {BAD[name][0] for name in wrong.values()}
        assert refused.value.name == next(name for name in ("INVALID_TIMESTAMP", "INVALID_RECORD", "MESSAGE_TOO_LARGE") if name in names)
        assert (refused.value.records, refused.value.count) == (sorted(wrong), len(wrong))
        assert versions(lake.root, topic.name) == before
        assert topic.ends() == ends

    law()
    assert topic.append([{**GOOD, "partition": 1}]).offsets == {1: (1, 2)}, "the offsets of refused records are not used up"


def test_a_refused_batch_leaves_every_table_unmoved(lake: Lake) -> None:
    """A producer that is told no can correct one record and send the batch again, without asking what got in."""
    _refused(lake, 6, derandomize=True)


@pytest.mark.long
def test_many_refused_batches_leave_every_table_unmoved(lake: Lake) -> None:
    """The same with many more mixtures of good and bad records."""
    _refused(lake, 60, derandomize=False)


def _follow(lake: Lake, logs: list[list[Record]], cut: Cut) -> None:
    topic, model = topics.fresh(lake, HEADER, partitions=len(logs)), Model(HEADER.rule)
    table = f"{lake.root}/{topic.name}/bronze"
    pieces = [cut.pieces(history, partition) for partition, history in enumerate(logs)]
    position = dict.fromkeys(range(len(logs)), 0)
    read: dict[int, list[Any]] = {partition: [] for partition in position}
    commits = [dict(position)]
    first = version_of_bronze = versions(lake.root, topic.name)["bronze"]
    for index in range(cut.batches):
        batch = {partition: piece[index] for partition, piece in enumerate(pieces) if piece[index]}
        if not batch:
            continue
        topic.append(topics.batch(batch, HEADER))
        model.append(batch)
        version_of_bronze += 1
        assert versions(lake.root, topic.name)["bronze"] == version_of_bronze, "law 10: one commit over all partitions"
        commits.append({partition: len(model.log.get(partition, [])) for partition in position})
        for partition in position:  # law 11: a reader at each partition's head, from where it stopped
            got = topics.log(topic.read(partition=partition, offset=position[partition])).get(partition, [])
            read[partition] += got
            position[partition] = got[-1][0] + 1 if got else position[partition]
        assert position == commits[-1] == topic.ends()
    for partition, records in read.items():
        sent = [(offset, record.key, *topics.seen(record)) for offset, record in enumerate(model.log.get(partition, []))]
        topics.same(topic, model, {partition: records}, {partition: sent})
    for index, ends in enumerate(commits[1:], 1):  # law 10, seen from outside: every version of the table holds whole appends
        held = (
            lake.spark.read.format("delta")
            .option("versionAsOf", first + index)
            .load(table)
            .filter("control IS NULL")
            .groupBy("partition")
            .count()
        )
        assert {row["partition"]: row["count"] for row in held.collect()} == {partition: end for partition, end in ends.items() if end}
    _merge_in_steps(topic, model, commits, cut)


def _merge_in_steps(topic: Any, model: Model, commits: list[dict[int, int]], cut: Cut) -> None:
    most = cut.max_records or 3
    at = commits[0]
    while at != commits[-1]:
        merged = topic.merge(max_records=most)
        assert merged.from_offsets == at
        assert merged.to_offsets in commits, "a merge ends on whole commits"
        before = commits[commits.index(merged.to_offsets) - 1]
        taken = sum(merged.to_offsets.values()) - sum(at.values())
        assert taken == merged.records
        assert sum(before.values()) - sum(at.values()) < most, "rounded up to whole commits, and no further"
        assert merged.remaining == sum(commits[-1].values()) - sum(merged.to_offsets.values())
        topics.same(topic, model, topics.silver(topic), topics.wanted(model, merged.to_offsets))
        at = merged.to_offsets


@pytest.mark.long
def test_batches_are_whole_and_a_reader_at_the_head_misses_nothing(lake: Lake) -> None:
    """A reader never sees half a batch, and one that keeps up needs no other source."""

    @few(1)
    @given(histories(HEADER, count=4, longest=8), cuts(most=4))
    def law(logs: list[list[Record]], cut: Cut) -> None:
        _follow(lake, logs, cut)

    law()


@pytest.mark.parametrize("tries", [pytest.param(1, marks=pytest.mark.long), pytest.param(8, marks=pytest.mark.soak)])
def test_many_batches_are_whole_and_a_reader_at_the_head_misses_nothing(tries: int, lake: Lake) -> None:
    """The same with more partitions, cuts and histories."""

    @few(tries, derandomize=False)
    @given(histories(HEADER, count=6, longest=12), cuts(most=6))
    def law(logs: list[list[Record]], cut: Cut) -> None:
        _follow(lake, logs, cut)

    law()
