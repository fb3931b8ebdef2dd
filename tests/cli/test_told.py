"""Results as the command line tells them, in values: what comes next, what would be refused, what there is to do."""

from __future__ import annotations

import dataclasses

import pytest

from lakelog.reader_results import Imported, Truncated
from lakelog.results import Merged, Restored, TopicDescription
from lakelog.status_results import CleaningStatus, PartitionStatus, TopicStatus
from lakelog.terminal import output, standing, told

RESTORED = Restored("orders", "friday", "0@5", 2, "keep", 0, {0: 8}, {}, [], [], [], replay={0: (5, 8)}, replay_records=3)
TRUNCATED = Truncated("orders", "friday", {0: 0}, {0: 5}, 5, 120, 0, [], True)


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_restore_that_keeps_the_log_tells_what_the_next_merge_replays(dry_run: bool, capsys: pytest.CaptureFixture[str]) -> None:
    told.restored(dataclasses.replace(RESTORED, dry_run=dry_run))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"orders: {'would restore' if dry_run else 'restored'} to friday (0@5), silver version 2; log kept, epoch 0"
    assert lines[-1] == "  the next merge replays 3 records: offsets [5, 8) of partition 0"
    told.restored(dataclasses.replace(RESTORED, replay={}, replay_records=0))
    assert "replays" not in capsys.readouterr().out


def test_a_truncation_that_would_be_refused_is_told_so(capsys: pytest.CaptureFixture[str]) -> None:
    refusal = "the log is still needed below the snapshot friday: the group slow is at offset 1 of partition 0. Nothing was changed."
    told.truncated(dataclasses.replace(TRUNCATED, blockers=["the group slow is at offset 1 of partition 0"], refusal=refusal))
    assert capsys.readouterr().out.splitlines() == [
        f"orders: would be refused (LOG_HELD): {refusal}",
        "  were it not needed: 5 records (120 octets) would go, and the log would start at 0: 5 (from 0)",
    ]
    told.truncated(TRUNCATED)
    told.truncated(dataclasses.replace(TRUNCATED, dry_run=False, segments=1))
    assert capsys.readouterr().out.splitlines() == [
        "orders: would remove 5 records (120 octets); the log starts at 0: 5 (from 0)",
        "orders: removed 5 records (120 octets, 1 segment as whole directories); the log starts at 0: 5 (from 0)",
    ]


def test_a_merge_names_what_was_late_after_a_delete(capsys: pytest.CaptureFixture[str]) -> None:
    late = [{"partition": 1, "key": key, "offset": offset, "lost_to": 4} for key, offset in (("ann", 7), ({"hex": "ff"}, 9))]
    output.merged(Merged("orders", 3, {1: 7}, {1: 10}, records=3, inserted=1, late_after_delete=2, late_after_delete_examples=late))
    assert capsys.readouterr().out.splitlines() == [
        "orders: merged 3 records into version 3: 1 inserted, 0 updated, 0 deleted, 2 late after delete",
        "  late after delete: partition 1, offset 7, key ann: lost to the delete at offset 4",
        '  late after delete: partition 1, offset 9, key {"hex": "ff"}: lost to the delete at offset 4',
    ]


def test_an_import_tells_what_is_there_and_what_waits_for_a_merge(capsys: pytest.CaptureFixture[str]) -> None:
    description = TopicDescription("orders", "u", "string", "int", 2, "offset", "bronze", "silver", [], {})
    partitions = [PartitionStatus(0, 6, 8, 6, 6, 0), PartitionStatus(1, 3, 3, 3, 3, 0)]
    status = TopicStatus("orders", "offset", 2, 4, 3, 1, 2, 0, 1, 1, 0, partitions, {})
    imported = Imported.of(description, status)
    told.imported(imported)
    assert capsys.readouterr().out.splitlines() == [
        "created topic orders: key string, value int, 2 partitions, rule offset",
        "  3 live rows, 1 tombstone; the log has offsets [6, 8) of partition 0, [3, 3) of partition 1",
        "  2 records not merged yet: the next merge folds them",
    ]
    told.imported(dataclasses.replace(imported, unmerged_records=0, starts=dict.fromkeys(range(6), 0), ends=dict.fromkeys(range(6), 1)))
    assert capsys.readouterr().out.splitlines()[1:] == [
        "  3 live rows, 1 tombstone; the log has offsets [0, 1) of partition 0, [0, 1) of partition 1, [0, 1) of partition 2, [0, 1) of partition 3"
        " and of 2 more",
        "  every record is merged",
    ]
    assert imported.to_dict()["starts"] == {"0": 6, "1": 3}


@pytest.mark.parametrize(
    ("cleaning", "said"),
    [
        (CleaningStatus(18, 1.0, 0, 0), "the log holds 18 octets, 100% of the closed segments not cleaned yet"),
        (CleaningStatus(18, 0.0, 0, 0), "the log holds 18 octets, nothing to clean now"),
        (CleaningStatus(18, 0.0, 0, 2), "the log holds 18 octets, 2 tombstones due"),
        (
            CleaningStatus(18, 0.0, 0, 0, 60_000, 40, 18),
            "the log holds 18 octets, nothing to clean now, last clean 60 s ago: 40 -> 18 octets",
        ),
    ],
)
def test_what_there_is_to_clean_is_told_without_alarm(cleaning: CleaningStatus, said: str) -> None:
    assert standing.cleaning(cleaning) == said


@pytest.mark.parametrize("width", [30, 48, 60, 100])
def test_a_narrow_page_cuts_nothing_off(width: int, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        ["max.record.bytes.between.snapshots", "/data/expectations", "default", "bytes of records between two snapshots"],
        ["a", 1, "topic", "ä"],
    ]
    output.table(["setting", "value", "origin", "meaning"], rows, width=width)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= width
    letters = sorted("".join(lines).replace(" ", "").replace("─", ""))
    assert letters == sorted("settingvalueoriginmeaning" + "".join(str(cell) for row in rows for cell in row).replace(" ", ""))
