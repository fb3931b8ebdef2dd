"""Cleaners as processes of their own: two at once, and one beside writers and a merge."""

from __future__ import annotations

from typing import Any

import pytest

from lakelog import Conflict, Lake
from lakelog.log.tail import log_end
from tests.oracle import Model, Record, Rule
from tests.races.operations import OPERATIONS
from tests.races.operations.cleaning import is_cleaned, segmented
from tests.races.processes import race

pytestmark = pytest.mark.long


def test_two_cleaners_at_once_leave_what_one_leaves(lake: Lake) -> None:
    """Whom the other one stopped says so, and says that it is worth another try."""
    segmented(lake)
    lines = race([{"root": lake.root, "topic": "t", "name": f"c{index}", "mode": "clean", "count": 2} for index in range(2)])
    cleans = [line for told in lines.values() for line in told if "stopped" in line]
    assert {code for line in cleans for code in line["stopped"]} <= {Conflict.exit_code}
    assert sum(line.get("cleaned", 0) for line in cleans) > 0 and not [line for told in lines.values() for line in told if "error" in line]
    is_cleaned(OPERATIONS["clean"], lake, False, True)


def test_a_cleaner_beside_two_writers_and_a_merger_loses_nothing(lake: Lake) -> None:
    config = {"segment.bytes": 60, "compaction.strategy": "offset"}
    topic = lake.create_topic("t", key="STRING", value="STRING", config=config)
    common = {"root": lake.root, "topic": "t"}
    appends = 4
    plans: list[dict[str, Any]] = [
        {**common, "name": f"w{index}", "mode": "plain", "count": appends, "keys": 2, "pause": 1} for index in range(2)
    ]
    plans += [{**common, "name": "merger", "mode": "merge", "count": 2, "moving": True}]
    plans += [{**common, "name": "cleaner", "mode": "clean", "count": 2, "moving": True}]
    lines = race(plans)
    assert [line for told in lines.values() for line in told if "error" in line] == []
    cleans = [line for line in lines["cleaner"] if "stopped" in line]
    assert sum(line.get("cleaned", 0) for line in cleans) > 0 and {code for line in cleans for code in line["stopped"]} <= {
        Conflict.exit_code
    }
    written = sorted((line["offsets"], name, line["append"]) for name, told in lines.items() for line in told if "append" in line)
    assert [offsets for offsets, _, _ in written] == [[3 * place, 3 * place + 3] for place in range(2 * appends)], (
        "each stands where it was told"
    )
    model = Model(Rule())
    for _, name, number in written:
        records = [(f"{name}-{number % 2}-{index}", f"{number:010}") for index in range(3)]
        model.append({0: [Record(key.encode(), value.encode(), 0) for key, value in records]})
    wanted = {key.decode(): (offset, record.value.decode()) for (_, key), (offset, record) in model.latest().items()}
    topic.append([{"key": "end", "value": "active"}])
    topic.clean(force=True)
    assert {row["key"]: (row["_offset"], row["value"]) for row in topic.latest().collect() if row["key"] != "end"} == wanted
    active = log_end(topic.log).tails[0].active
    log = {row["offset"]: (row["key"], row["value"]) for row in topic.read().select("offset", "key", "value").collect()}
    told = {offset: (one.key.decode(), one.value.decode()) for offset, one in enumerate(model.log[0])} | {6 * appends: ("end", "active")}
    winners = {offset for offset, _ in wanted.values()}
    assert log == {offset: one for offset, one in told.items() if offset in winners or offset >= active}
    assert topic.verify().problems == []
