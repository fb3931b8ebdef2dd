"""The main path of a topic through every verb, the same wherever it is taken: on a cluster, on an object store, on a session that refuses much."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from lakelog.running.run import run
from lakelog.sources.configured import DirectorySource

if TYPE_CHECKING:
    from lakelog import Lake

CONFIG = {"compaction.strategy": "column", "compaction.strategy.column": "updated_at", "min.cleanable.dirty.ratio": "0"}
KEY, VALUE = "order_id BIGINT", "status STRING, updated_at TIMESTAMP"


def _record(order: int, status: str | None, minute: int) -> dict:
    value = None if status is None else {"status": status, "updated_at": f"2026-05-06T10:{minute:02}:00Z"}
    return {"key": {"order_id": order}, "value": value, "tombstone": status is None}


def live(lake: Lake) -> dict[int, str]:
    """Order to status of the latest table, by SQL."""
    return {row["order_id"]: row["status"] for row in lake.sql("SELECT order_id, status FROM orders").collect()}


def walk(lake: Lake, folder: Path) -> None:
    """Create, append records, a file and a frame, merge, snapshot, restore, clean, check, run and verify; every answer is looked at.

    Args:
        lake: an empty one.
        folder: on this machine, where the file to be appended is written; the workers see it too.
    """
    orders = lake.create_topic("orders", key=KEY, value=VALUE, partitions=2, config=CONFIG)
    orders.append([_record(number, "new", 0) for number in range(20)])
    assert orders.merge().inserted == 20

    file = folder / "orders.ndjson"
    file.write_text("".join(json.dumps(_record(number, "shipped", 9)) + "\n" for number in range(10)), encoding="utf-8")
    assert orders.append(str(file), token="orders.ndjson").records == 10
    assert orders.append(str(file), token="orders.ndjson").repeated
    orders.append(
        lake.spark.sql(
            "SELECT id AS order_id, 'late' AS status, TIMESTAMP '2026-05-06 10:05:00' AS updated_at FROM range(0, 10)"
            " UNION ALL SELECT 100, 'new', TIMESTAMP '2026-05-06 10:05:00'"
        )
    )
    merged = orders.merge()
    assert (merged.inserted, merged.updated, merged.late) == (1, 10, 10)
    expected = {**dict.fromkeys(range(10, 20), "new"), **dict.fromkeys(range(10), "shipped"), 100: "new"}
    assert live(lake) == expected

    good = orders.snapshot("good", keep="90 days")
    orders.append([_record(number, "broken", 30) for number in range(15)])
    orders.merge()
    assert live(lake) != expected
    assert sum(end - first for first, end in orders.restore("good").leaving.values()) == 15
    assert live(lake) == expected
    assert lake.topic("orders").latest(at=good.name).count() == len(expected)

    orders.append([_record(number, "done", 40) for number in range(5)])
    orders.append([_record(100, None, 41)])
    orders.merge()
    cleaned = orders.clean(force=True)
    assert cleaned.records > 0
    del expected[100]
    assert live(lake) == {**expected, **dict.fromkeys(range(5), "done")}
    assert orders.check().ok

    inbox = folder / "inbox"
    inbox.mkdir()
    (inbox / "1.ndjson").write_text(json.dumps(_record(200, "new", 50)) + "\n", encoding="utf-8")
    for taken in (1, 0):
        report = run(lake, "orders", [DirectorySource(str(inbox))])
        assert (report.outcome, report.exit_code, report.counts.get("appended", 0)) == ("done", 0, taken), report.error
    assert live(lake)[200] == "new"
    verified = orders.verify()
    assert verified.ok, verified.problems
