"""Where a reader stands, as values: no Spark. The cases of FORMAT.md say the same of whole topics (tests/conformance)."""

from __future__ import annotations

import functools
import random

import pytest

from lakelog import InvalidRequest, Position
from lakelog.model.log_state import PartitionState
from lakelog.model.positions import (
    DIVERGING,
    SNAPSHOT,
    VALID,
    Answer,
    SnapshotPlace,
    covering,
    epoch_end,
    fetch,
    next_ends,
    on_history,
    usable,
)
from lakelog.model.positions import stands as stands_under

stands = functools.partial(stands_under, versioned=False)


def state(
    *, epochs: tuple[tuple[int, int], ...] = ((0, 0),), start: int = 0, deletes_from: int = 0, records_from: int = 0
) -> PartitionState:  # fmt: skip
    return PartitionState(0, 5, "b", epochs[-1][0], epochs, 0, start, start, max(start, deletes_from), records_from=records_from)


def test_a_reader_below_what_a_repair_found_missing_loads_a_snapshot_wherever_it_is() -> None:
    log, held = state(records_from=3), [SnapshotPlace(0, {0: 2}), SnapshotPlace(0, {0: 3}), SnapshotPlace(0, {0: 5})]
    assert usable({0: log}, {0: 7}, held) == covering({0: log}, {0: 7}, held) == held[1:]
    for offset in (0, 2):
        assert stands(log, 7, offset, 0) == Answer(SNAPSHOT)
        assert fetch(log, 7, offset, 0, lambda: held[1:]) == Answer(SNAPSHOT, snapshot=held[2])
    assert stands(log, 7, 3, 0) == fetch(log, 7, 3, 0, lambda: held[1:]) == Answer(VALID)
    assert (log.lacks, log.tells_from, state().lacks, state(start=3).lacks) == (True, 3, False, True)
    assert PartitionState.from_row(0, 0, "b", log.to_json("t")) == log


def test_a_position_is_the_same_after_a_round_trip_through_json() -> None:
    position = Position({0: 120, 11: 7}, 3, "id")

    assert Position.from_json(position.to_json()) == position
    assert Position.from_json('{"offsets": {"0": 5}, "epoch": 0}') == Position({0: 5}, 0)
    for wrong in (
        "",
        "5",
        "[]",
        "{}",
        '{"offsets": {"a": 1}, "epoch": 0}',
        '{"offsets": [1], "epoch": 0}',
        '{"offsets": {"0": null}, "epoch": 0}',
    ):
        with pytest.raises(InvalidRequest, match="is no position"):
            Position.from_json(wrong)


def test_an_epoch_ends_where_the_next_one_begins() -> None:
    log = state(epochs=((0, 0), (2, 4), (3, 4)))

    assert [epoch_end(log, 9, epoch) for epoch in range(5)] == [4, None, 4, 9, None]


def test_a_reader_that_read_what_was_cut_away_goes_back_and_no_further() -> None:
    log = state(epochs=((0, 0), (2, 4)))

    assert stands(log, 7, 6, 0) == Answer(DIVERGING, 4, 0)
    assert stands(log, 7, 6, 1) == Answer(DIVERGING, 4, 0), "its epoch is gone as a whole"
    assert stands(log, 7, 4, 1) == Answer(VALID), "it has read nothing of what is gone"
    assert fetch(log, 7, 4, 1, lambda: []) == Answer(DIVERGING, 4, 0), "by the letter of KIP-630 the epoch is unknown"
    assert stands(log, 7, 7, 2) == stands(log, 7, 4, 0) == Answer(VALID)
    assert stands(state(epochs=((1, 0),)), 3, 2, 0) == Answer(DIVERGING, 0, 1), "the log was restored to nothing"


def test_a_reader_below_the_start_or_an_expired_delete_loads_a_snapshot_and_one_at_the_very_beginning_does_not() -> None:
    cut, expired = state(start=5), state(deletes_from=5)

    assert [stands(cut, 9, offset, 0).answer for offset in (0, 4, 5, 9)] == [SNAPSHOT, SNAPSHOT, VALID, VALID]
    assert [stands(expired, 9, offset, 0).answer for offset in (0, 1, 4, 5, 9)] == [VALID, SNAPSHOT, SNAPSHOT, VALID, VALID]
    assert fetch(expired, 9, 0, 0, lambda: []) == Answer(VALID), "by the letter of KIP-630"


def test_where_versions_are_compared_a_reader_at_the_very_beginning_is_not_told_of_an_expired_delete_either() -> None:
    """A record that came later and is older than the delete is still there, as if it were the latest of its key."""
    expired, emptied = state(deletes_from=5), state(epochs=((1, 0),), deletes_from=5)

    assert [stands_under(expired, 9, offset, 0, versioned=True).answer for offset in (0, 4, 5)] == [SNAPSHOT, SNAPSHOT, VALID]
    assert stands_under(emptied, 9, 2, 0, versioned=True) == Answer(SNAPSHOT), "where it would go back to does not tell it either"
    assert stands_under(state(), 9, 0, 0, versioned=True) == Answer(VALID)


def test_a_snapshot_will_do_from_whose_end_the_log_tells_everything() -> None:
    states = {0: state(epochs=((0, 0), (1, 4)), start=2), 1: state(epochs=((0, 0), (1, 3)), deletes_from=2)}
    ends = {0: 8, 1: 6}
    good = [SnapshotPlace(0, {0: 2, 1: 2}), SnapshotPlace(0, {0: 4, 1: 3}), SnapshotPlace(1, {0: 8, 1: 3})]
    below, expired, cut_away = SnapshotPlace(0, {0: 1, 1: 2}), SnapshotPlace(0, {0: 4, 1: 1}), SnapshotPlace(0, {0: 5, 1: 3})

    assert usable(states, ends, [good[2], below, cut_away, good[0], expired, good[1]]) == good
    assert on_history(states, ends, below) and not on_history(states, ends, cut_away)


def test_a_partition_that_got_nothing_in_an_epoch_is_still_on_the_history() -> None:
    """Restored twice: the second time to before the first restore's end in partition 1, which got no records between."""
    states = {0: state(epochs=((0, 0), (1, 4), (2, 6))), 1: state(epochs=((0, 0), (2, 3)))}

    assert on_history(states, {0: 6, 1: 3}, SnapshotPlace(1, {0: 6, 1: 3}))
    assert stands(states[1], 3, 3, 1) == Answer(VALID)
    assert stands(states[1], 5, 4, 1) == Answer(DIVERGING, 3, 0)


def test_who_read_an_epoch_that_a_restore_forward_took_away_loads_a_snapshot() -> None:
    """Snapshots at 1 and 2 of epoch 0; back to the first (epoch 1), then on to the second, whose record the log holds no more (epoch 2)."""
    back = PartitionState.first(0, "b").next_epoch("b", 1, number=1, start=0)
    log = back.begun_anew("b", 2, number=2, last=0, taken=0)

    assert (log.epochs, log.start) == (((0, 0), (2, 2)), 2)
    assert usable({0: log}, {0: 3}, [SnapshotPlace(0, {0: 2})]) == [SnapshotPlace(0, {0: 2})]
    assert not on_history({0: log}, {0: 3}, SnapshotPlace(1, {0: 2}))
    assert [stands(log, 3, offset, 0).answer for offset in (1, 2, 3)] == [SNAPSHOT, VALID, DIVERGING]
    assert [stands(log, 3, offset, 1).answer for offset in (1, 2, 3)] == [SNAPSHOT] * 3, "it has read another record than the snapshot's"
    assert [fetch(log, 3, offset, 1, lambda: []).answer for offset in (2, 3)] == [SNAPSHOT] * 2
    assert stands(log, 3, 3, 2) == Answer(VALID)
    # The snapshot's last record is of epoch 1, which the log that is left never had; it was taken in epoch 3, which got no records here.
    branch = log.begun_anew("b", 5, number=4, last=1, taken=3)
    assert branch.epochs == ((0, 0), (1, 4), (3, 5), (4, 5))
    assert [stands(branch, 6, 5, epoch).answer for epoch in (1, 2, 3, 4)] == [VALID, SNAPSHOT, VALID, VALID]


def test_batches_are_bounded_and_every_partition_has_its_turn() -> None:
    assert next_ends({0: 0, 1: 5}, {0: 10, 1: 5}, None) == {0: 10, 1: 5}
    assert next_ends({0: 0, 1: 0, 2: 7}, {0: 100, 1: 3, 2: 7}, 10) == {0: 7, 1: 3, 2: 7}
    chance = random.Random(7)
    for _ in range(500):
        starts = {index: chance.randint(0, 5) for index in range(chance.randint(1, 6))}
        ends = {index: start + chance.choice([0, 0, 1, 5, 40]) for index, start in starts.items()}
        most = chance.randint(1, 50)
        found = next_ends(starts, ends, most)
        taken = {index: found[index] - start for index, start in starts.items()}
        assert sum(taken.values()) == min(most, sum(ends[index] - start for index, start in starts.items()))
        assert all(0 <= size <= ends[index] - starts[index] for index, size in taken.items())
        cut = [taken[index] for index in taken if found[index] < ends[index]]
        assert max(taken.values()) <= (min(cut) + 1 if cut else max(taken.values())), "no partition gets less than another took"
