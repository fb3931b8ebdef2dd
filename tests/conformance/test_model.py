"""The oracle of the property tests against the conformance cases: two descriptions of the same rules, written apart, must agree."""

from __future__ import annotations

from typing import Any

from tests.conformance.cases import DEFAULT, START, Case, model_record, model_rule, needs_cleaning, read, waits_for
from tests.oracle import Model

NOT_MODELLED = ("rebuild", "configure", "restore", "delete_records")


def _disagreements(case: Case) -> list[Any]:
    model, clock, found = Model(model_rule(case.topic)), START, []
    for number, step in enumerate(case.steps, 1):
        clock = step.get("now", clock)
        if step["do"] == "append" and "error" not in step.get("expect", {}):
            for given in step["records"]:
                stamped = {**given, "timestamp": clock} if case.topic.get("message.timestamp.type") == "LogAppendTime" else given
                model.append({given.get("partition", 0): [model_record(stamped, clock)]})
        if step["do"] == "expect":
            won = model.latest()
            for name, deletes in (("latest", False), ("tombstones", True)):
                rows = sorted((partition, key, offset) for (partition, key), (offset, record) in won.items() if record.deletes == deletes)
                if name in step and rows != sorted((row.get("partition", 0), row["key"], row["offset"]) for row in step[name]):
                    found.append((case.id, number, name, rows))
            # The model never cleans, so to it no record comes after a delete that is gone.
            counts = {"late_after_delete": 0, **model.counts()}
            if any(counts[name] != count for name, count in step.get("counts", {}).items()):
                found.append((case.id, number, counts))
    return found


def test_the_oracle_agrees_with_every_case_it_can_follow() -> None:
    """An oracle that is wrong in the same way as the code proves nothing; the cases were written by neither."""
    cases = [
        case
        for case in read(DEFAULT)
        if not waits_for(case)
        and not [*needs_cleaning(case)]
        and not case.exact
        and not any(step["do"] in NOT_MODELLED for step in case.steps)
    ]
    assert len(cases) > 60
    assert [difference for case in cases for difference in _disagreements(case)] == []
