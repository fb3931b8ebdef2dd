"""What holds a log, and what an export is: decisions over values and files, without Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakelog import Damaged, InvalidConfig, NotFound, Position
from lakelog.model.positions import SnapshotPlace
from lakelog.operations.truncate import Held, blockers, new_starts
from lakelog.readers.positions import Registration
from lakelog.transfer import manifest
from lakelog.transfer.manifest import File, Manifest
from tests.readers.test_positions import state


def reader(group: str, *offsets: int) -> Registration:
    return Registration(group, Position(dict(enumerate(offsets)), 0), 0, 1000)


def test_who_can_read_on_now_and_could_not_any_more_holds_the_log() -> None:
    states = {0: state(), 1: state(start=3)}
    target = SnapshotPlace(0, {0: 5, 1: 2})
    starts = new_starts(states, target)
    assert starts == {0: 5, 1: 3}, "a start beyond the snapshot's end stays"

    readers = [reader("behind", 4, 3), reader("there", 5, 3), reader("ahead", 9, 9), reader("too late", 1, 2), reader("at the start", 0, 3)]
    kept = [
        SnapshotPlace(0, {0: 4, 1: 3}, "old", 1, "0@4,3"),
        SnapshotPlace(0, {0: 5, 1: 3}, "new", 2),
        SnapshotPlace(0, {0: 4, 1: 2}, "gone", 0),
    ]
    found = blockers(states, {0: 9, 1: 9}, starts, Held([], kept, readers), versioned=False)

    assert [text.split(" is ")[0] for text in found] == [
        "the group behind", "the group at the start", "the snapshot old (epoch 0, end offsets 0: 4, 1: 3)",
    ]  # fmt: skip


def test_a_reader_that_a_restore_cut_off_holds_the_log_from_where_it_goes_back_to() -> None:
    states = {0: state(epochs=((0, 0), (1, 5)))}
    readers = [reader(group, offset) for group, offset in (("ahead", 8), ("back before", 5), ("behind", 2))]

    def found(start: int) -> list[str]:
        return blockers(states, {0: 9}, {0: start}, Held([], [], readers), versioned=False)

    ahead, before, behind = (
        "the group ahead is at offset 8 of partition 0, and has to go back to 5",
        "back before is at offset 5",
        "is at offset 2",
    )
    assert found(2) == []
    assert [behind in one for one in found(3)] == [True]
    assert found(5) == found(3)
    assert (found(6)[0], [before in one for one in found(6)], [behind in one for one in found(6)]) == (
        ahead, [False, True, False], [False, False, True],
    )  # fmt: skip
    moved = {0: state(epochs=((0, 0), (1, 5)), start=6)}
    assert blockers(moved, {0: 9}, {0: 9}, Held([], [], readers), versioned=False) == [], (
        "the log has left what it would go back to: it loads a snapshot anyway"
    )


def test_a_kept_snapshot_of_a_history_that_was_cut_off_needs_nothing_of_the_log() -> None:
    """The log does not go on from it: after a restore to 5 what lies behind its end are other records."""
    states = {0: state(epochs=((0, 0), (1, 5)))}
    before, after = SnapshotPlace(0, {0: 4}, "before", 1, "0@4"), SnapshotPlace(0, {0: 7}, "after", 2, "0@7")
    found = blockers(states, {0: 9}, {0: 9}, Held([], [before, after], []), versioned=False)
    assert [one.split(" (")[0] for one in found] == ["the snapshot before"]


def test_a_registration_holds_until_it_expires() -> None:
    assert [reader("g", 0).holds(now) for now in (0, 999, 1000, 2000)] == [True, True, False, False]


def an_export(folder: Path) -> Manifest:
    for name in ("silver/a.parquet", "log/b.parquet", "log/_SUCCESS"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(name.encode())
    said = Manifest("t", "id", "{}", 1, {}, "{}", 0, "s", {}, {}, 0, 0, 3, manifest.files(str(folder)))
    manifest.write(str(folder), said)
    return said


def test_a_manifest_names_every_data_file_with_its_checksum(tmp_path: Path) -> None:
    assert not manifest.is_there(str(tmp_path / "none"))
    said = an_export(tmp_path / "out")

    assert [file.path for file in said.files] == ["log/b.parquet", "silver/a.parquet"]
    assert said.files[0] == File("log/b.parquet", 13, said.files[0].sha256) and len(said.files[0].sha256) == 64
    assert manifest.read(str(tmp_path / "out")) == said
    assert manifest.is_there(str(tmp_path / "out"))
    manifest.check(str(tmp_path / "out"), said)


def test_files_that_are_not_the_exports_are_named(tmp_path: Path) -> None:
    said = an_export(tmp_path)
    (tmp_path / "log" / "b.parquet").write_bytes(b"LOG/b.parquet")
    (tmp_path / "log" / "c.parquet").write_bytes(b"")
    (tmp_path / "silver" / "a.parquet").unlink()

    with pytest.raises(Damaged) as refused:
        manifest.check(str(tmp_path), said)
    for says in ("log/b.parquet was changed", "log/c.parquet is not the export's", "silver/a.parquet is missing"):
        assert says in str(refused.value)


def test_a_directory_that_is_no_export_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="cut off"):
        manifest.read(str(tmp_path))
    assert not manifest.is_there(str(tmp_path)), "an empty one can take an export"
    (tmp_path / "log").mkdir()
    assert not manifest.is_there(str(tmp_path)), "so can one in which an export was cut off"
    (tmp_path / "letter.txt").write_text("mine")
    assert manifest.is_there(str(tmp_path))
    for text, error in (("{}", Damaged), ("[]", Damaged), ("not json", Damaged), ('{"format": 2}', InvalidConfig)):
        (tmp_path / manifest.NAME).write_text(text)
        with pytest.raises(error):
            manifest.read(str(tmp_path))
