"""Law 7, one winner: many writers at once, real commits; what is checked is the tables, not the return values.

Most races are between processes, which queue at the lock of each table. Two are between threads of one process, without the lock, or
beside OPTIMIZE, which knows no lock of ours: there Delta's own conflicts arbitrate.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from lakelog import Conflict, Damaged, Lake
from lakelog.delta import lock, statement
from lakelog.log import append as appending
from lakelog.log import guard
from tests.races.processes import race
from tests.sessions import another
from tests.tables import append_notes, commits

Lines = dict[str, list[dict[str, Any]]]


def in_the_log(topic: Any) -> dict[int, list[tuple[int, str]]]:
    """Partition to (offset, key), in order, as the table has it."""
    found: dict[int, list[tuple[int, str]]] = {}
    for row in topic.read().select("partition", "offset", "key").collect():
        found.setdefault(row["partition"], []).append((row["offset"], row["key"]))
    return found


def dense_and_once(topic: Any, records: dict[int, int]) -> dict[int, list[str]]:
    """So many records in each partition, at the offsets from 0 on without a gap, none twice; gives the keys in their order."""
    found = in_the_log(topic)
    assert {partition: len(rows) for partition, rows in found.items()} == records, "a record is lost, or there is one too many"
    for partition, rows in found.items():
        assert [offset for offset, _ in rows] == list(range(len(rows))), partition
        assert len({key for _, key in rows}) == len(rows), partition
    return {partition: [key for _, key in rows] for partition, rows in found.items()}


def acknowledged(lines: Lines, keys: dict[int, list[str]]) -> int:
    """How many appends were acknowledged; each stands where its writer was told that it stands, and those of a writer in their order."""
    appends = [(name, line) for name, told in lines.items() for line in told if "append" in line]
    for name, line in appends:
        low, high = line["offsets"]
        wanted = [f"{name}-{line['append']}-{index}" for index in range(3)]
        assert keys[line.get("partition", 0)][low:high] == wanted, f"what {name} was told is not so"
    for _, own in itertools.groupby(appends, lambda append: append[0]):
        offsets = [line["offsets"][0] for _, line in own]
        assert offsets == sorted(offsets)
    return len(appends)


def contended(lines: Lines) -> int:
    """How many pairs of attempts of different writers, refused ones too, were under way at the same time."""
    spans = [(name, *line["span"]) for name, told in lines.items() for line in told if "span" in line]
    return sum(one[0] != other[0] and one[1] < other[2] and other[1] < one[2] for one, other in itertools.combinations(spans, 2))


def conditional(lake: Lake, writers: int, appends: int) -> None:
    # 9 records of about 24 octets an append: every third append or so begins a new segment.
    topic = lake.create_topic("t", key="STRING", value="STRING", config={"segment.bytes": 150})
    plans = [{"root": lake.root, "topic": "t", "name": f"w{index}", "mode": "conditional", "count": appends} for index in range(writers)]
    lines = race(plans)
    wins = [line for told in lines.values() for line in told if "append" in line]
    starts = sorted(line["offsets"][0] for line in wins)
    assert len(set(starts)) == len(starts), "two writers won the same expected offset"
    assert all(line["offsets"][0] == line["expected"] for line in wins)
    keys = dense_and_once(topic, {0: writers * appends * 3})
    assert acknowledged(lines, keys) == writers * appends
    assert contended(lines) > 0, "the writers came one after the other: this was no race"
    refusals = [line for told in lines.values() for line in told if "refused" in line]
    assert refusals, "nobody was refused: this was no race"
    for line in refusals:
        assert line["actual"] > line["expected"], "a refusal carries a log end that is not the true one"
        assert line["actual"] in {*starts, len(keys[0])}
    assert topic.status().partitions[0].active_segment > 0, "no append rolled to a new segment"
    assert topic.verify().problems == []


@pytest.mark.parametrize("appends", [pytest.param(3, marks=pytest.mark.long), pytest.param(8, marks=pytest.mark.soak)])
def test_of_conditional_appends_of_six_processes_exactly_one_wins_each_offset(lake: Lake, appends: int) -> None:
    conditional(lake, writers=6, appends=appends)


def together(works: dict[str, Callable[[], list[dict[str, Any]]]]) -> Lines:
    """Run some works in a thread each; what each of them tells. One that breaks fails the test."""
    with ThreadPoolExecutor(len(works)) as pool:
        running = {name: pool.submit(work) for name, work in works.items()}
        return {name: future.result(600) for name, future in running.items()}


def appended(lake: Lake, name: str, count: int) -> list[dict[str, Any]]:
    """``count`` appends in a session of their own, as a writer's lines."""
    topic = Lake(another(lake.spark), lake.root, clock=lake.clock).topic("t")
    batches = [[{"key": f"{name}-{number}-{index}", "value": "x"} for index in range(3)] for number in range(count)]
    return [{"append": number, "offsets": topic.append(batch).offsets[0]} for number, batch in enumerate(batches)]


@pytest.mark.long
def test_without_the_lock_deltas_conflicts_let_one_writer_in_and_the_others_try_again(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where lakelog takes no lock (catalogs, object stores), the guard of each append and Delta's conflicts are all there is.

    Threads of one process, because Delta's log store for local disks looks first and renames then, which is one step within one Java
    process only: of 1,000 collisions of two processes that were forced about 4 had two winners, and a commit was lost. The lock is there for
    that.
    """
    writers, appends = 3, 3
    topic = lake.create_topic("t", key="STRING", value="STRING")
    for module in (statement, appending):
        monkeypatch.setattr(module, "held", lambda *_, **__: contextlib.nullcontext())
    monkeypatch.setattr(statement, "_settings_in_use", contextlib.nullcontext())
    start, met, conflicts = threading.Barrier(writers), threading.local(), []
    write, insert = guard._appended, guard.insert

    def at_once(*given: Any) -> int:
        """All first statements begin together, each behind the same end of the log."""
        if not hasattr(met, "others"):
            met.others = start.wait(300)
        return write(*given)

    def counted(*given: Any, **more: Any) -> int | None:
        try:
            return insert(*given, **more)
        except Conflict as conflict:
            conflicts.append(conflict)
            raise

    monkeypatch.setattr(guard, "_appended", at_once)
    monkeypatch.setattr(guard, "insert", counted)
    lines = together({name: lambda name=name: appended(lake, name, appends) for name in [f"w{index}" for index in range(writers)]})
    keys = dense_and_once(topic, {0: writers * appends * 3})
    assert acknowledged(lines, keys) == writers * appends
    assert conflicts, "Delta never had to say no"
    attempts = [note["attempts"] for note in append_notes(Path(lake.root, "t", "bronze"))]
    assert len(attempts) == writers * appends
    assert max(attempts) > 1, "nobody had to try again"
    assert topic.verify().problems == []


@pytest.mark.long
def test_writers_of_different_partitions_never_disturb_each_other(lake: Lake) -> None:
    topic = lake.create_topic("t", key="STRING", value="STRING", partitions=4)
    plans = [
        {"root": lake.root, "topic": "t", "name": f"w{index}", "mode": "conditional", "count": 6, "partition": index} for index in range(4)
    ]
    lines = race(plans)
    assert [line for told in lines.values() for line in told if "refused" in line] == []
    assert [note["attempts"] for note in append_notes(Path(lake.root, "t", "bronze"))] == [1] * 24, "a conflict between partitions"
    keys = dense_and_once(topic, dict.fromkeys(range(4), 18))
    assert acknowledged(lines, keys) == 24
    assert contended(lines) > 0, "the writers came one after the other: this was no race"
    assert topic.ends() == dict.fromkeys(range(4), 18)


@pytest.mark.parametrize("appends", [pytest.param(5, marks=pytest.mark.long), pytest.param(12, marks=pytest.mark.soak)])
def test_unconditional_appends_of_six_processes_all_get_in_each_in_its_own_order(lake: Lake, appends: int) -> None:
    topic = lake.create_topic("t", key="STRING", value="STRING")
    lines = race([{"root": lake.root, "topic": "t", "name": f"w{index}", "mode": "plain", "count": appends} for index in range(6)])
    assert all(len([line for line in told if "append" in line]) == appends for told in lines.values())
    keys = dense_and_once(topic, {0: 6 * appends * 3})
    assert acknowledged(lines, keys) == 6 * appends
    assert contended(lines) > 0, "the writers came one after the other: this was no race"
    for name in lines:
        own = [key for key in keys[0] if key.startswith(f"{name}-")]
        assert own == [f"{name}-{number}-{index}" for number in range(appends) for index in range(3)]


@pytest.mark.long
def test_appends_get_in_while_optimize_merges_and_configuration_run(lake: Lake) -> None:
    """OPTIMIZE rewrites the segment that is written, without lakelog's lock: again and again until the writer is done, in its Java process."""
    topic = lake.create_topic("t", key="STRING", value="STRING")
    done = threading.Event()

    def write() -> list[dict[str, Any]]:
        try:
            return appended(lake, "writer", 10)
        finally:
            done.set()

    def optimize() -> list[dict[str, Any]]:
        session = another(lake.spark)
        while not done.is_set():
            with contextlib.suppress(Exception):  # a change of configuration was first
                session.sql(f"OPTIMIZE {topic.bronze.sql()}").collect()
        return []

    def merge() -> list[dict[str, Any]]:
        mine = Lake(another(lake.spark), lake.root, clock=lake.clock).topic("t")
        return [{"merged": mine.merge().records} for _ in range(6)]

    def configure() -> list[dict[str, Any]]:
        mine = Lake(another(lake.spark), lake.root, clock=lake.clock).topic("t")
        for number in range(6):
            with contextlib.suppress(Conflict):
                mine.configure({"segment.bytes": 100_000 + number})
        return []

    lines = together({"writer": write, "optimizer": optimize, "merger": merge, "admin": configure})
    keys = dense_and_once(topic, {0: 30})
    assert acknowledged(lines, keys) == 10, "every append gets in"
    bronze = Path(lake.root, "t", "bronze")
    versions = [commit["operation"] for commit in commits(bronze)]
    first, last = versions.index("WRITE"), len(versions) - 1 - versions[::-1].index("WRITE")
    assert "OPTIMIZE" in versions[first:last], "OPTIMIZE ran beside the appends, or this test shows nothing"
    merged = sum(line["merged"] for line in lines["merger"]) + topic.merge().records
    assert merged == 30, "each record is merged once"
    assert topic.verify().problems == []


@pytest.mark.long
def test_two_merges_at_once_end_as_one(lake: Lake) -> None:
    topic = lake.create_topic("t", key="STRING", value="STRING")
    topic.append([{"key": f"k{index % 5}", "value": str(index)} for index in range(50)])
    lines = race([{"root": lake.root, "topic": "t", "name": f"m{index}", "mode": "merge", "count": 2} for index in range(2)])
    merged = [line["merged"] for told in lines.values() for line in told if "merged" in line]
    assert sorted(answer["records"] for answer in merged) == [0, 0, 0, 50], "one of them merged all, the others found nothing to do"
    assert topic.status().counts["records"] == 50
    assert topic.verify().problems == []


@pytest.mark.long
def test_merges_of_any_size_beside_appends_to_all_partitions_never_stop(lake: Lake) -> None:
    """One merge takes five records at a time, the other all there are, while writers move different partitions: both go on to the end.

    The writers go on until both have merged twice.
    """
    topic = lake.create_topic("t", key="STRING", value="STRING", partitions=3)
    common, merges = {"root": lake.root, "topic": "t"}, ("few", "all")
    plans: list[dict[str, Any]] = [
        {**common, "name": f"w{index}", "mode": "plain", "count": 8, "partition": index, "pause": 1, "beside": merges} for index in range(3)
    ]
    plans += [
        {**common, "name": "few", "mode": "merge", "count": 2, "moving": True, "max_records": 5},
        {**common, "name": "all", "mode": "merge", "count": 2, "moving": True},
    ]
    lines = race(plans)
    assert [line for told in lines.values() for line in told if "error" in line] == []
    merged = {name: [line["merged"] for line in lines[name] if "merged" in line] for name in merges}
    assert {name: sum(one["records"] > 0 for one in told) for name, told in merged.items()} == {"few": 2, "all": 2}
    ends = {index: 3 * sum("append" in line for line in lines[f"w{index}"]) for index in range(3)}
    assert min(ends.values()) >= 24
    rest = topic.merge()
    once = sum(one["records"] for told in merged.values() for one in told)
    assert once + rest.records == sum(ends.values()), "each record is merged once"
    assert (rest.to_offsets, topic.merge().records) == (ends, 0)
    dense_and_once(topic, ends)
    assert topic.status().counts["records"] == sum(ends.values())
    assert topic.verify().problems == []


@pytest.mark.long
def test_a_log_restored_by_hand_while_processes_write_is_damaged_until_it_is_repaired(lake: Lake) -> None:
    """Nothing is skipped in silence: whoever writes after the RESTORE is told; after a repair silver has what the log has.

    Delta refuses a RESTORE that an append overtakes, and two busy writers overtake each try: the lock lets one through between two appends.
    """
    topic = lake.create_topic("t", key="STRING", value="STRING")
    topic.append([{"key": "first", "value": "x"}])
    bronze, common = Path(lake.root, "t", "bronze"), {"root": lake.root, "topic": "t"}
    plans = [{**common, "name": f"w{index}", "mode": "plain", "count": 12} for index in range(2)]
    plans.append({**common, "name": "merger", "mode": "merge", "count": 12})

    def restore() -> Lines:
        until = time.monotonic() + 600
        while len(append_notes(bronze)) < 6 and time.monotonic() < until:
            time.sleep(0.05)
        with lock.held(lake.spark, topic.bronze):
            another(lake.spark).sql(f"RESTORE TABLE {topic.bronze.sql()} TO VERSION AS OF 2")
        return {}

    with ThreadPoolExecutor(1) as pool:
        restoring = pool.submit(restore)
        lines = race(plans)
        restoring.result(60)
    errors = {name: line["error"] for name, told in lines.items() for line in told if "error" in line}
    assert set(errors.values()) == {"DAMAGED"} and {"w0", "w1"} <= set(errors), "nobody noticed, or it came too late: no race"
    with pytest.raises(Damaged, match="restored by hand"):
        topic.append([{"key": "late", "value": "x"}])
    repaired = topic.repair()
    assert repaired.epoch == 1
    keys = [key for _, key in in_the_log(topic)[0]]
    dense_and_once(topic, {0: len(keys)})
    topic.append([{"key": "after", "value": "x"}])
    topic.merge()
    assert {row["key"] for row in topic.latest().collect()} == {*keys, "after"}
    assert topic.verify().problems == []
