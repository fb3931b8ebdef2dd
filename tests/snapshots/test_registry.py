"""What the registry answers about its entries, in values."""

from __future__ import annotations

import pytest

from lakelog.errors import NotFound
from lakelog.model.snapshot_id import SnapshotId
from lakelog.snapshots.registry import Entry, named

HELD = [Entry("orders", "u", name, SnapshotId(0, {0: end}), end, 0, "", 0) for name, end in (("friday", 3), (None, 5))]


def test_a_snapshot_is_found_by_its_name_or_id() -> None:
    found = [named("orders", HELD, text) for text in ("friday", "0@3", "0@5", "latest", "Earliest")]
    assert [one.id.text for one in found] == ["0@3", "0@3", "0@5", "0@5", "0@3"]


def test_a_name_that_is_not_there_tells_what_is_possible() -> None:
    with pytest.raises(NotFound) as missing:
        named("orders", HELD, "fryday")
    assert str(missing.value) == "orders: there is no snapshot fryday. Did you mean friday? Snapshots: friday, 0@5."
    with pytest.raises(NotFound) as missing:
        named("orders", [], "yesterday", any_point=True)
    assert str(missing.value) == (
        "orders: there is no snapshot yesterday. Snapshots: none. A version of the latest table is possible too, or a time like"
        " 2026-05-06T12:00:00."
    )
