"""Laws 1, 2 and 3: silver holds the rule's winner of every key; again changes nothing; the order of jobs does not matter.

None of it depends on the type of the keys, on how silver is laid out, or on the way it is written: each example has another shape.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given

from lakelog.latest import upsert
from tests.laws import topics
from tests.oracle import Model, Record
from tests.strategies import KINDS, SHAPES, Cut, Kind, Shape, cuts, few, histories, shapes
from tests.tables import versions

if TYPE_CHECKING:
    from lakelog import Lake, Topic

HISTORIES, BESIDE = 200, 20
COUNTED = ("late", "ignored_deletes", "invalid_versions")


def _append_and_merge(topic: Topic, model: Model, kind: Kind, shape: Shape, logs: list[list[Record]], cut: Cut) -> None:
    pieces = [cut.pieces(history, partition) for partition, history in enumerate(logs)]
    for index in range(cut.batches):
        batch = {partition: piece[index] for partition, piece in enumerate(pieces) if piece[index]}
        if batch:
            topic.append(topics.batch(batch, kind, shape))
            model.append(batch)
        if cut.merges[index]:
            topic.merge(max_records=cut.max_records)
    while topic.merge(max_records=cut.max_records and cut.max_records * 40).remaining:
        pass


def _cut_up(lake: Lake, kind: Kind, shape: Shape, logs: list[list[Record]], cut: Cut) -> Model:
    """The histories cut up, next to the model, which knows nothing of batches and merges."""
    topic, model = topics.fresh(lake, kind, partitions=len(logs), shape=shape), Model(kind.rule)
    _append_and_merge(topic, model, kind, shape, logs, cut)
    _as_the_model_says(lake, topic, shape, model)
    return model


def _in_one_go(lake: Lake, kind: Kind, shape: Shape, logs: list[list[Record]], model: Model) -> None:
    topic = topics.fresh(lake, kind, partitions=len(logs), shape=shape)
    if any(logs):
        topic.append(topics.batch(dict(enumerate(logs)), kind, shape))
    topic.merge()
    _as_the_model_says(lake, topic, shape, model)


def _as_the_model_says(lake: Lake, topic: Topic, shape: Shape, model: Model) -> None:
    topics.same(topic, model, topics.silver(topic, shape=shape), topics.wanted(model))  # laws 1 and 3
    counts = topic.status().counts
    assert {name: counts[name] for name in COUNTED} == model.counts(), "what became of the losers does not depend on the jobs either"
    before = versions(lake.root, topic.name)
    again = topic.merge()
    assert (again.records, again.version) == (0, None)
    assert versions(lake.root, topic.name) == before, "law 2: a merge without new records writes nothing"


def _written(patch: pytest.MonkeyPatch, shape: Shape) -> None:
    """From now on silver is written in a shape's way, however much of it a merge touches."""
    patch.setattr(upsert, "MOSTLY", 0 if shape.overwrites else 10)


@pytest.mark.parametrize(("kind", "shape"), zip(KINDS, SHAPES, strict=True), ids=str)
def test_the_latest_table_is_the_rules_winner_of_every_key_however_jobs_ran(
    kind: Kind, shape: Shape, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An analyst reads one table and need not know which jobs ran when, nor in which order records came in."""
    _written(monkeypatch, shape)

    @few(1)
    @given(histories(kind, count=HISTORIES, beside=BESIDE), cuts(most=3))
    def law(logs: list[list[Record]], cut: Cut) -> None:
        _cut_up(lake, kind, shape, logs, cut)

    law()


@pytest.mark.parametrize(
    ("tries", "kind"),
    [
        *[pytest.param(1, kind, marks=pytest.mark.long, id=f"{kind}-1") for kind in KINDS[::2]],
        *[pytest.param(3, kind, marks=pytest.mark.soak, id=f"{kind}-3") for kind in KINDS],
    ],
)
def test_the_same_over_many_more_histories(tries: int, kind: Kind, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rare ties and rare cuts need many tries, and so do the shapes; the seed of a failure is printed."""

    @few(tries, derandomize=False)
    @given(histories(kind, count=300, longest=14, beside=30), cuts(most=5), shapes())
    def law(logs: list[list[Record]], cut: Cut, shape: Shape) -> None:
        _written(monkeypatch, shape)
        _in_one_go(lake, kind, shape, logs, _cut_up(lake, kind, shape, logs, cut))

    law()


def test_a_copy_of_a_batch_is_a_new_record_that_changes_no_value(lake: Lake) -> None:
    """Without a token a repeated delivery is a new record: where versions are equal the later copy stands, and no value differs."""
    kind = next(kind for kind in KINDS if kind.name == "header")

    @few(1)
    @given(histories(kind, count=60, beside=BESIDE))
    def law(logs: list[list[Record]]) -> None:
        topic, model = topics.fresh(lake, kind, partitions=len(logs)), Model(kind.rule)
        for _again in range(2):
            model.append(dict(enumerate(logs)))
            topic.append(topics.batch(dict(enumerate(logs)), kind))
            topic.merge()
        topics.same(topic, model, topics.silver(topic), topics.wanted(model))

    law()


def test_the_model_itself_knows_the_rules() -> None:
    """An oracle is checked by hand once: a version beats a later record without one, and a barrier beats both."""
    versioned, plain = Record(b"a", b"1", 0, (("seq", (5).to_bytes(8, "big")),)), Record(b"a", b"2", 0)
    delete = Record(b"a", None, 0)
    kinds = {kind.name: kind.rule for kind in KINDS}
    for name, winner in (("offset", 2), ("header", 0), ("header-barriers", 2), ("timestamp", 2)):
        model = Model(kinds[name])
        model.append({0: [versioned, plain, delete]})
        assert model.latest()[0, b"a"][0] == winner, name
    model = Model(kinds["header-barriers"])
    model.append({0: [versioned, delete, plain]})
    assert model.latest()[0, b"a"][0] == 2
