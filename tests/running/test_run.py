"""A run does what is due, stops at the first refusal, and reports whatever becomes of it."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lakelog import Conflict, Damaged, InvalidRequest, Lake
from lakelog.delta import tables
from lakelog.quality import judgement
from lakelog.quality_results import Finding, Verdict
from lakelog.running import report_files, runs
from lakelog.running.run import run
from lakelog.running_results import Run
from lakelog.sources.configured import DirectorySource
from tests.conftest import NOON, Clock
from tests.sources.test_sources import DAY, write

SUITE = {"name": "orders.table", "expectations": [
    {"type": "expect_rows_to_satisfy", "kwargs": {"name": "value_x", "expression": "_tombstone OR value = 'x'"}, "description": "only x"},
]}  # fmt: skip


def rows(lake: Lake) -> list[dict[str, Any]]:
    """The runs of a lake; their leases lie in the same table."""
    return [
        row.asDict() for row in tables.read(lake.spark, runs.table_of(lake.root)).filter("verb = 'run'").orderBy("started_at").collect()
    ]


def outcomes(made: Run) -> dict[str, str]:
    return {one.step: one.outcome for one in made.steps}


@pytest.mark.long
def test_runs_over_several_nights(lake: Lake, clock: Clock, tmp_path: Path) -> None:
    suites = tmp_path / "expectations" / "orders"
    suites.mkdir(parents=True)
    config = {"segment.ms": DAY, "max.snapshot.interval.ms": DAY, "max.compaction.lag.ms": 3 * DAY, "min.cleanable.dirty.ratio": 1}
    topic = lake.create_topic("orders", key="STRING", value="STRING", config=config)
    source = DirectorySource(str(tmp_path / "in"))
    files = {"report": tmp_path / "run.json", "metrics": tmp_path / "lakelog.prom"}
    write(tmp_path / "in", "1.ndjson", "a", "b")
    clock.tick(2 * DAY)
    first = run(lake, "orders", [source], **files)  # type: ignore[arg-type]

    assert (first.outcome, first.exit_code, first.error, first.recorded) == ("done", 0, None, True)
    assert outcomes(first) == {"append": "done", "merge": "done", "snapshot": "done", "clean": "nothing", "check": "skipped"}
    assert first.counts == {"files": 1, "appended": 2, "merged": 2, "inserted": 2, "snapshots": 1}
    assert (first.before["ends"], first.after["ends"], first.after["merged"]) == ({"0": 0}, {"0": 2}, {"0": 2})
    assert first.after["bronze"] == topic.status().bronze_version and first.after["silver"] == 1
    assert set(first.versions) == {"lakelog", "spark", "delta", "python"}
    assert json.loads((tmp_path / "run.json").read_text()) == first.to_dict()
    text = (tmp_path / "lakelog.prom").read_text()
    assert f'lakelog_run_exit_code{{root="{lake.root}",topic="orders"}} 0\n' in text
    assert f'lakelog_run_count{{root="{lake.root}",topic="orders",kind="appended"}} 2\n' in text

    # Again: nothing to do. Days later the log is overdue.
    again = run(lake, "orders", [source])
    assert outcomes(again) == {"append": "nothing", "merge": "nothing", "snapshot": "nothing", "clean": "nothing", "check": "skipped"}
    assert (again.configuration, again.counts) == (first.configuration, {})
    assert [again.before[name] for name in ("ends", "silver")] == [again.after[name] for name in ("ends", "silver")]
    clock.tick(5 * DAY)
    write(tmp_path / "in", "2.ndjson", "a")
    third = run(lake, "orders", [source])
    assert third.step("clean").outcome == "done" and third.counts["removed"] == 1  # type: ignore[union-attr]

    # The audit refuses; what came before it is done.
    (suites / "table.json").write_text(json.dumps(SUITE))
    topic.configure({"quality.suites": str(suites.parent)})
    write(tmp_path / "in", "3.ndjson", "c", value="y")
    clock.tick(1000)
    refused = run(lake, "orders", [source], **files)  # type: ignore[arg-type]
    assert (refused.outcome, refused.exit_code, refused.error["error"]) == ("failed", 3, "GATE_FAILED")  # type: ignore[index]
    assert list(outcomes(refused).values())[:2] == ["done", "done"] and outcomes(refused)["check"] == "failed"
    assert refused.configuration != first.configuration
    text = (tmp_path / "lakelog.prom").read_text()
    assert f'lakelog_run_exit_code{{root="{lake.root}",topic="orders"}} 3\n' in text
    assert f'last_success_timestamp_seconds{{root="{lake.root}",topic="orders"}} {(NOON + 2 * DAY) / 1000:.15g}\n' in text

    # A refusal of a source stops everything behind it.
    write(tmp_path / "in", "1.ndjson", "changed")
    write(tmp_path / "other", "0.ndjson", "d")
    clock.tick(1000)
    stopped = run(lake, "orders", [DirectorySource(str(tmp_path / "other")), source])
    assert (outcomes(stopped), stopped.exit_code) == ({"append": "failed"}, 4)
    (tmp_path / "in" / "4.ndjson").write_text("{")
    write(tmp_path / "in", "1.ndjson", "a", "b")
    stopped = run(lake, "orders", [DirectorySource(str(tmp_path / "other")), source])
    assert (outcomes(stopped), stopped.exit_code, stopped.counts) == ({"append": "failed"}, 2, {"files": 1, "appended": 1})
    assert topic.latest().filter("key = 'd'").count() == 0
    missing = run(lake, "nothing")
    assert (missing.exit_code, missing.steps, missing.recorded) == (5, [], True)

    found = rows(lake)
    assert [row["error"] for row in found[:4]] == [None, None, None, "GATE_FAILED"]
    assert sorted(str(row["error"]) for row in found[4:]) == ["INVALID_RECORD", "SOURCE_FILE_CHANGED", "UNKNOWN_TOPIC"]
    assert {row["verb"] for row in found} == {"run"}
    said = json.loads(found[3]["report"])
    assert (said["run"], said["exit_code"]) == (found[3]["run_id"], 3)
    assert {**said, "recorded": True} == refused.to_dict()


@pytest.mark.parametrize(("broken", "name", "rules"), [("passed", "GATE_FAILED", ["positive"]), ("broken", "GATE_BROKEN", ["usual"])])
def test_the_error_of_an_audit_names_the_rules_that_stop_it(
    broken: str, name: str, rules: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where one could not be evaluated those, a warning too: it is what is to be mended first."""
    from lakelog.running import steps

    found = [
        Finding("positive", "expect_rows_to_satisfy", "critical", "failed", "", "1 of 2 break it"),
        Finding("usual", "expect_rows_to_satisfy", "warning", broken, "", "no such column"),
        Finding("small", "expect_rows_to_satisfy", "warning", "failed", "", "2 of 2 break it"),
    ]
    said = Verdict("f" * 32, "orders", "table", judgement.outcome(found), found, "d" * 64, datetime.datetime(2026, 5, 6), 7)
    monkeypatch.setattr(steps.folder, "gating", lambda log, door: door)
    topic: Any = SimpleNamespace(name="orders", log=None, check=lambda: said)
    made = steps.check(steps.Work(topic, []), lambda done, of: None)
    assert made.error is not None
    assert (made.outcome, made.error.name, made.error.exit_code) == ("failed", name, 3)
    assert (made.error.details["rules"], made.error.details["run"]) == (rules, said.run)
    assert (made.report, rules[0] in str(made.error)) == (said.to_dict(), True)


def test_a_row_that_cannot_be_written_hides_nothing(lake: Lake, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    lake.create_topic("orders", key="STRING", value="STRING")

    def broken(*given: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(runs, "_by_spark", broken)
    monkeypatch.setattr(report_files, "write", broken)
    made = run(lake, "orders", report=tmp_path / "r.json")
    assert (made.outcome, made.exit_code, made.recorded) == ("done", 0, "OSError: disk full")
    assert rows(lake) == []
    with pytest.raises(InvalidRequest, match="metrics=.* cannot be written there"):
        run(lake, "orders", metrics=tmp_path / "nowhere" / "m.prom")


def test_a_defect_is_reported_and_what_others_do_is_noted(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    from lakelog.running import steps

    topic = lake.create_topic("orders", key="STRING", value="STRING")
    topic.append([{"key": "a", "value": "x"}])

    def merge(*given: object) -> None:
        import logging

        logging.getLogger("lakelog").warning("orders: another merge was first; try 2 of 10")
        raise ZeroDivisionError("of ours")

    monkeypatch.setitem(steps.STEPS, "merge", merge)
    made = run(lake, "orders")
    assert (made.outcome, made.exit_code, made.error["error"]) == ("failed", 1, "UNEXPECTED")  # type: ignore[index]
    assert outcomes(made) == {"append": "skipped", "merge": "failed"}
    assert made.retries == [{"step": "merge", "reason": "orders: another merge was first; try 2 of 10"}]
    assert rows(lake)[0]["error"] == "UNEXPECTED"


def conflict(*given: object) -> int:
    raise Conflict("a default of the lake was changed")


@pytest.mark.long
def test_one_run_of_a_topic_at_a_time(lake: Lake, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second is refused by name; a lease that was given back, is over, or whose process is gone, is no lease."""
    from lakelog.running import lease, steps

    for name in ("orders", "other"):
        lake.create_topic(name, key="STRING", value="STRING")
    within: list[Run] = []

    def merge(work: Any, tell: Any) -> steps.Outcome:
        within.append(run(lake, work.topic.name))
        within.append(run(lake, work.topic.name, wait_ms=1))
        clock.tick(20 * 60_000)
        return steps.merge(work, tell)

    monkeypatch.setitem(steps.STEPS, "merge", merge)
    first = run(lake, "orders")
    monkeypatch.undo()
    assert (first.exit_code, first.lease) == (0, 1)
    for refused in within:
        assert (refused.exit_code, refused.steps, refused.lease, refused.recorded) == (75, [], None, True)
        said = refused.error or {}
        assert (said["error"], said["lease"], said["run"], said["retry"]) == ("RUN_IN_PROGRESS", 1, first.run, True)
        assert (said["since"], said["until"]) == ("2023-11-14T22:13:20+00:00", "2023-11-14T22:43:20+00:00")
    assert "(wait_ms=600_000)" in within[0].error["message"] and "wait_ms" not in within[1].error["message"]  # type: ignore[index]
    # Twenty minutes in, it took a longer one.
    table = lease.table_of(lake.root)
    assert lease.newest(lake.spark, table, "orders").until == clock.now + lease.LEASE_MS  # type: ignore[union-attr]
    assert (run(lake, "other").lease, run(lake, "orders").lease) == (1, 2)

    # Never given back: over after its time; at once where its process is gone from this machine.
    lease.acquire(lake, "orders", "lost")
    assert run(lake, "orders").exit_code == 75
    clock.tick(lease.LEASE_MS)
    assert run(lake, "orders").lease == 4
    here = lease.Holder.here()
    monkeypatch.setattr(lease.Holder, "here", classmethod(lambda kind: kind(here.host, here.pid, here.machine, "another start")))
    lost = lease.acquire(lake, "orders", "killed")
    monkeypatch.undo()
    with pytest.raises(Conflict) as elsewhere:
        monkeypatch.setattr("lakelog.running.holder._machine", lambda: "another machine")
        lease.acquire(lake, "orders", "mine")
    assert elsewhere.value.details["host"] == here.host
    monkeypatch.undo()
    assert run(lake, "orders").lease == lost.number + 1 == 6

    # Where it cannot be prolonged at once, a run goes on, and tries again.
    mine = lease.acquire(lake, "other", "long")
    clock.tick(lease.LEASE_MS // 2)
    monkeypatch.setattr(tables, "append", conflict)
    assert lease.prolonged(lake, mine) == mine
    monkeypatch.undo()
    assert lease.prolonged(lake, mine).until == clock.now + lease.LEASE_MS

    # A run that went on for longer than its lease, which another took over, stops.
    mine = lease.acquire(lake, "orders", "slow")
    clock.tick(lease.LEASE_MS + 1)
    assert run(lake, "orders").lease == 8
    with pytest.raises(Conflict) as taken_over:
        lease.prolonged(lake, mine)
    assert (taken_over.value.name, taken_over.value.details["lease"]) == ("LEASE_LOST", 8)


@pytest.mark.long
def test_a_snapshot_that_was_due_and_failed_and_a_damaged_clean(
    lake: Lake, clock: Clock, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from lakelog.cleaning import dropping
    from lakelog.snapshots import registry, take

    topic = lake.create_topic("orders", key="STRING", value="STRING", config={"max.snapshot.interval.ms": DAY, "segment.ms": DAY})
    topic.append([{"key": "a", "value": "1"}, {"key": "a", "value": "2"}])
    clock.tick(2 * DAY)

    def taken(*given: object) -> bool:
        raise Conflict("the registry is busy")

    monkeypatch.setattr(registry, "add", taken)
    made = run(lake, "orders")
    monkeypatch.undo()
    assert (made.exit_code, made.error["error"]) == (75, "CONFLICT")  # type: ignore[index]
    assert outcomes(made) == {"append": "skipped", "merge": "done", "snapshot": "failed"}
    assert made.step("snapshot").why == "the registry is busy" and topic.status().unmerged_records == 0  # type: ignore[union-attr]

    def broken(*given: object, **more: object) -> None:
        raise Damaged("a file is missing")

    monkeypatch.setattr(dropping, "rewrite", broken)
    made = run(lake, "orders")
    assert (made.exit_code, made.error["error"], outcomes(made)["clean"]) == (70, "DAMAGED", "failed")  # type: ignore[index]
    # Nothing was left to merge, and the snapshot that was due is taken, once.
    assert (outcomes(made)["merge"], outcomes(made)["snapshot"], made.counts["snapshots"]) == ("nothing", "done", 1)
    assert [(one.ends, one.automatic) for one in topic.snapshots()] == [({0: 2}, True)]
    assert "partition 0: a file is missing" in made.error["message"]  # type: ignore[index]
    # What was not due when it was merged is not due later.
    clock.tick(DAY // 2)
    topic.append([{"key": "b", "value": "1"}])
    assert topic.merge().snapshot is None
    assert take.overdue(topic.log, now=clock.now + 2 * DAY) is None


def test_a_signal_after_the_last_step_changes_nothing(lake: Lake, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import os
    import signal

    from lakelog.running import run as running
    from lakelog.running.interrupt import Signals

    lake.create_topic("orders", key="STRING", value="STRING")
    signals, place, found = Signals(), running.place, []

    def terminated(*given: Any) -> dict[str, Any]:
        if found:
            os.kill(os.getpid(), signal.SIGTERM)
        found.append(True)
        return place(*given)

    monkeypatch.setattr(running, "place", terminated)
    made: list[Run] = []
    with signals.guarding():
        made.append(run(lake, "orders", signals=signals, report=tmp_path / "r.json"))
    assert (made[0].outcome, made[0].exit_code, made[0].recorded, signals.late) == ("done", 0, True, signal.SIGTERM)
    assert json.loads((tmp_path / "r.json").read_text()) == made[0].to_dict()
    assert len(rows(lake)) == 1
