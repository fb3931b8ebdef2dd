"""The figures of a run for node-exporter, as values."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from lakelog.running.report_files import metrics
from lakelog.running_results import Run, Step

NOON = datetime.datetime(2026, 5, 6, 12, tzinfo=datetime.timezone.utc)


def left(*partitions: tuple[bool, str | None, int]) -> dict[str, Any]:
    """A report of a clean: of each partition whether it was selected, what stopped it, for how long it was overdue."""
    return {"partitions": [{"selected": selected, "error": error, "overdue_ms": ms} for selected, error, ms in partitions]}


@pytest.mark.parametrize(
    ("report", "overdue"),
    [
        (left((True, None, 9000), (False, None, 0)), "0"),
        (left((True, None, 9000), (False, None, 2500)), "2.5"),
        (left((True, "t: others were first", 9000), (False, None, 2500)), "9"),
        (None, None),
    ],
)
def test_a_log_is_overdue_where_the_run_has_not_cleaned_it(report: dict[str, Any] | None, overdue: str | None) -> None:
    """A run that did not come to its clean does not know."""
    steps = [Step("merge", "done", 1.0), *([] if report is None else [Step("clean", "done", 1.0, report)])]
    text = metrics(Run("r", "t", "/lake", "done", 0, NOON, NOON, 2.0, None, {}, {}, {}, steps, {}, {}))
    found = [line for line in text.splitlines() if line.startswith("lakelog_compaction_overdue_seconds")]
    assert found == ([] if overdue is None else [f'lakelog_compaction_overdue_seconds{{root="/lake",topic="t"}} {overdue}'])
