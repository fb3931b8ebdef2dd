"""A keep that is extended beside the verbs that write the registry: what was answered is so, whoever comes late."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

import pytest

from lakelog.snapshots import maintain, registry
from tests.interleaving import late
from tests.snapshots.test_snapshots import DAY, live, put, topic

if TYPE_CHECKING:
    from lakelog import Lake
    from tests.conftest import Clock


def extended(lake: Lake, version: int | None, keep: str = "90 days") -> datetime.datetime | None:
    """What another caller is answered who wants the snapshot kept longer."""
    return lake.topic("t").snapshot("good", at=version, keep=keep).kept_until


@pytest.mark.long
def test_a_snapshot_that_was_kept_longer_meanwhile_does_not_expire(lake: Lake, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    orders = topic(lake)
    put(orders, a="1")
    good = orders.snapshot("good", keep="1 minute")
    put(orders, b="1")
    orders.snapshot("later", keep="90 days")
    clock.tick(120_000)
    told: list[datetime.datetime | None] = []
    with monkeypatch.context() as patch:
        late(patch, registry, "remove", lambda: told.append(extended(lake, good.version)))
        assert orders.expire_snapshots() == [], "what stays is not told as expired"
    assert [one.kept_until for one in orders.snapshots() if one.name == "good"] == told and told[0] is not None

    # The other order: it expires between the look at it and the extension.
    clock.tick(91 * DAY)
    with monkeypatch.context() as patch:
        late(patch, registry, "change", lambda: lake.topic("t").expire_snapshots())
        answered = orders.snapshot("good", at=good.version, keep="180 days")
    assert answered.created and answered.kept_until == orders.describe_snapshot("good").kept_until


@pytest.mark.soak
def test_a_keep_and_a_copy_made_at_once_both_stand(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    orders = topic(lake, **{"snapshot.retention.ms": 1})
    put(orders, a="1")
    good = orders.snapshot("good", keep="2 days")
    told: list[datetime.datetime | None] = []
    with monkeypatch.context() as patch:
        late(patch, maintain, "own_table", lambda: told.append(extended(lake, good.version)))
        assert orders.maintain().promoted == ["good"]
    shown = orders.describe_snapshot("good")
    assert (shown.form, shown.kept_until) == ("table", told[0])

    # The other order: the copy is made between the look at the snapshot and the extension.
    put(orders, b="1")
    orders.delete_snapshot("good")
    good = orders.snapshot("good", keep="2 days")
    with monkeypatch.context() as patch:
        late(patch, registry, "change", lambda: lake.topic("t").maintain())
        answered = extended(lake, good.version)
    shown = orders.describe_snapshot("good")
    assert (shown.form, shown.kept_until) == ("table", answered)

    # An erasure makes another copy, without the key.
    with monkeypatch.context() as patch:
        late(patch, maintain, "own_table", lambda: told.append(extended(lake, None, "180 days")))
        orders.erase("b")
    shown = orders.describe_snapshot("good")
    assert (live(orders, "good"), shown.kept_until) == ({"a": "1"}, told[1])
