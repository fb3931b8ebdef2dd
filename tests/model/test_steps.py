"""A bounded merge step ends where the log once ended, or where it could have: values alone, no Spark."""

from __future__ import annotations

import random

from hypothesis import given

from lakelog.model.steps import BatchEnd, step_ends
from tests.strategies import dice, few

PARTITIONS = 4


def commits(chance: random.Random, *, racing: bool) -> list[list[BatchEnd]]:
    """Appends in the order of their commits; a writer that races has not seen the last ones, which touched other partitions than it does."""
    ends, made = dict.fromkeys(range(PARTITIONS), 0), list[list[BatchEnd]]()
    for version in range(chance.randint(1, 12)):
        touched = chance.sample(range(PARTITIONS), chance.randint(1, 3))
        after = version - 1
        while racing and after >= 0 and not {one.partition for one in made[after]} & set(touched) and chance.random() < 0.7:
            after -= 1
        for partition in touched:
            ends[partition] += chance.randint(1, 5)
        batch = f"{chance.random()}"
        made.append([BatchEnd(batch, partition, ends[partition], after) for partition in touched])
    return made


def taken(made: list[list[BatchEnd]], ends: dict[int, int]) -> list[bool]:
    """Which commits are within the ends; none may be in two halves."""
    within = [{one.end <= ends[one.partition] for one in commit} for commit in made]
    assert all(len(found) == 1 for found in within), "a commit is cut in two"
    return [found == {True} for found in within]


def steps(made: list[list[BatchEnd]], most: int) -> list[dict[int, int]]:
    """The ends of all steps until the log is merged."""
    at, found = dict.fromkeys(range(PARTITIONS), 0), list[dict[int, int]]()
    last = {partition: max((one.end for commit in made for one in commit if one.partition == partition), default=0) for partition in at}
    while at != last:
        beyond = sorted((one for commit in made for one in commit if one.end > at[one.partition]), key=lambda one: (one.partition, one.end))
        before, at = at, step_ends(at, beyond, most)
        assert sum(at.values()) - sum(before.values()) >= min(most, sum(last.values()) - sum(before.values()))
        found.append(at)
    return found


@few(300)
@given(dice())
def test_commits_one_after_another_are_taken_in_their_order(chance: random.Random) -> None:
    made, most = commits(chance, racing=False), chance.choice([1, 3, 10])
    for ends in steps(made, most):
        inside = taken(made, ends)
        assert inside == sorted(inside, reverse=True), "the log never ended here"


@few(300)
@given(dice())
def test_no_commit_is_taken_before_one_its_writer_had_seen(chance: random.Random) -> None:
    made, most = commits(chance, racing=True), chance.choice([1, 3, 10])
    for ends in steps(made, most):
        inside = taken(made, ends)
        for version, commit in enumerate(made):
            assert not inside[version] or all(inside[: commit[0].after + 1]), "an effect without its cause"


def test_a_step_takes_no_commit_more_than_it_needs() -> None:
    made = [BatchEnd("a", 0, 3, 0), BatchEnd("c", 0, 4, 2), BatchEnd("b", 1, 2, 1), BatchEnd("c", 1, 5, 2)]
    nothing = {0: 0, 1: 0}
    assert step_ends(nothing, made, 1) == step_ends(nothing, made, 3) == {0: 3, 1: 0}
    assert step_ends(nothing, made, 4) == {0: 3, 1: 2}
    assert step_ends(nothing, made, 6) == {0: 4, 1: 5}


def test_of_a_log_without_versions_every_commit_is_whole() -> None:
    made = [BatchEnd("a", 0, 3), BatchEnd("b", 0, 4), BatchEnd("b", 1, 2), BatchEnd("c", 1, 5)]
    assert step_ends({0: 0, 1: 0}, made, 4) == {0: 4, 1: 2}
