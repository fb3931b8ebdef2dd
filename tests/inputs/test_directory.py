"""What lies in a directory: links, loops, names of every kind; and how a location becomes a URI."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyarrow import fs

from lakelog.delta.filesystem import _as_uri
from lakelog.errors import InvalidRequest, NotFound, NotReady
from lakelog.inputs import directory
from lakelog.inputs.directory import content_of, is_still, listed
from lakelog.inputs.identity import matched, of_files
from lakelog.inputs.sources import readable
from lakelog.terminal.input import as_files, require_files

ODD = [
    "a b.ndjson",
    "a?.ndjson",
    "[1].ndjson",
    "{x,y}.ndjson",
    "*.ndjson",
    "100%.ndjson",
    "ä.ndjson",
    "a\\b.ndjson",
    "c:d.ndjson",
    "e#f?g=h.ndjson",
]


def write(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(os.fsencode(f"{name}\n"))


@pytest.mark.parametrize("prefix", ["", "file:", "file://"])
def test_files_of_any_name_are_found_and_read(tmp_path: Path, prefix: str) -> None:
    write(tmp_path, *ODD, *(f"be low/[2]/{name}" for name in ODD))
    found = listed(f"{prefix}{tmp_path}", recursive=True)
    assert [one.name for one in found] == sorted([*ODD, *(f"be low/[2]/{name}" for name in ODD)])
    for one in found:
        assert content_of(one).head == one.name.encode() and is_still(one)
        # Spark takes the name for a pattern, unless its signs are escaped.
        assert (readable(one.path) == one.path) == (not set("[]{}*?\\") & set(one.path))
    assert readable(f"{tmp_path}/*.csv") == f"{tmp_path}/*.csv"


def test_links_lead_to_no_file_twice(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    inbox, other = tmp_path / "in", tmp_path / "other"
    write(inbox, "a.ndjson", "below/b.ndjson")
    write(other, "c.ndjson")
    (inbox / "below" / "loop").symlink_to(inbox)
    (inbox / "elsewhere").symlink_to(other)
    (inbox / "linked.ndjson").symlink_to(other / "c.ndjson")
    (inbox / "gone.ndjson").symlink_to(other / "nothing")
    (inbox / "self.ndjson").symlink_to(inbox / "self.ndjson")
    os.mkfifo(inbox / "pipe.ndjson")
    assert [one.name for one in listed(str(inbox), recursive=True)] == ["a.ndjson", "below/b.ndjson", "linked.ndjson"]
    assert "links to folders are not followed: elsewhere" in caplog.text and "followed: loop" in caplog.text
    assert [one.name for one in listed(str(inbox), recursive=False)] == ["a.ndjson", "linked.ndjson"]
    (tmp_path / "link").symlink_to(inbox)
    assert len(listed(str(tmp_path / "link"), recursive=True)) == 3


def test_what_is_no_directory_of_files(tmp_path: Path) -> None:
    (tmp_path / "itself").symlink_to(tmp_path / "itself")
    for name in ("nowhere", "itself", "nul\0", "x" * 300):
        with pytest.raises(NotFound, match="no such directory"):
            listed(str(tmp_path / name), recursive=False)
    (tmp_path / "itself").unlink()
    write(tmp_path, "table/_delta_log/0.json", "in/a")
    with pytest.raises(InvalidRequest, match="is a Delta table"):
        listed(str(tmp_path / "table"), recursive=False)
    with pytest.raises(InvalidRequest, match="is a Delta table"):
        listed(str(tmp_path), recursive=True)
    with open(os.fsencode(tmp_path / "in") + b"/\xff.ndjson", "w"):
        pass
    with pytest.raises(InvalidRequest, match="no UTF-8 text"):
        listed(str(tmp_path / "in"), recursive=False)


@contextlib.contextmanager
def nobody() -> Iterator[None]:
    """As a user who may not read everything: for root nothing is unreadable."""
    if os.geteuid():
        yield
        return
    try:
        os.seteuid(65534)
    except OSError as error:
        pytest.skip(f"this root may not become another user: {error}")
    try:
        yield
    finally:
        os.seteuid(0)


def test_what_cannot_be_read_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory() as made:
        write(Path(made), "in/a.ndjson", "in/closed/b.ndjson", "in/names/c.ndjson", os.fsdecode(b"in/\xe4bc/d.ndjson"))
        # What is above it may be closed to others, so it is asked for from within.
        monkeypatch.chdir(made)
        Path(made).chmod(0o755)
        for folder, mode, place in (
            ("closed", 0, "in/closed"),
            ("names", 0o444, "in/names/c.ndjson"),
            (os.fsdecode(b"\xe4bc"), 0, r"'in/\udce4bc'"),
        ):
            Path("in", folder).chmod(mode)
            with nobody(), pytest.raises(NotReady) as refused:
                listed("in", recursive=True)
            Path("in", folder).chmod(0o755)
            assert str(refused.value).encode().decode() == f"{place} cannot be read: Permission denied. Nothing was written."
        Path("in").chmod(0)
        with nobody(), pytest.raises(NotReady, match=r"^in/closed cannot be read: Permission denied"):
            listed("in/closed", recursive=False)
        with nobody(), pytest.raises(NotReady, match=r"^in cannot be read: Permission denied"):
            listed("in", recursive=False)
        Path("in").chmod(0o755)
        assert [file.name for file in listed("in", recursive=False)] == ["a.ndjson"]


@pytest.mark.parametrize(("scheme", "is_flat"), [("s3", True), ("s3a", True), ("gs", True), ("hdfs", False), ("abfss", False)])
def test_a_prefix_without_objects_is_an_empty_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheme: str, is_flat: bool
) -> None:
    """On flat stores the directory goes with the last file that is removed from it."""
    write(tmp_path, "bucket/other/a")
    store = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    monkeypatch.setattr(directory, "filesystem", lambda location: (store, location.partition("://")[2]))
    assert [one.name for one in listed(f"{scheme}://bucket/other", recursive=True)] == ["a"]
    if is_flat:
        assert listed(f"{scheme}://bucket/in", recursive=True) == listed(f"{scheme}://bucket/in/", recursive=False) == []
    for nowhere in ("nobucket", "nobucket/in", "bucket/other/a", *([] if is_flat else ["bucket/in"])):
        with pytest.raises(NotFound, match="no such directory"):
            listed(f"{scheme}://{nowhere}", recursive=True)


def test_what_a_bucket_does_not_tell_of_itself_is_no_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who may list below a prefix may not be told of the bucket."""

    class Store:
        def get_file_info(self, path: str) -> fs.FileInfo:
            if path == "bucket":
                raise PermissionError("ACCESS_DENIED")
            return fs.FileInfo(path, fs.FileType.NotFound)

    monkeypatch.setattr(directory, "filesystem", lambda location: (Store(), "bucket/in"))
    assert listed("s3a://bucket/in", recursive=True) == []


def test_a_pattern_stands_for_the_files_that_it_fits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that what is read is what a job or a bulk load has its name from."""
    monkeypatch.chdir(tmp_path)
    write(
        tmp_path, *(f"in/{name}" for name in ("b.ndjson", "a.ndjson", "_c.ndjson", ".d.ndjson", "[e].ndjson", "_f=1.ndjson", "g._COPYING_"))
    )
    found = ["in/[e].ndjson", "in/_f=1.ndjson", "in/a.ndjson", "in/b.ndjson"]
    require_files(["in/*.ndjson"], None)
    assert matched("in/*.ndjson") == found
    assert matched(f"file://{tmp_path}/in/*.ndjson") == [f"file://{tmp_path}/{name}" for name in found]
    with as_files(["in/*.ndjson"], None) as paths:
        assert paths == [str(tmp_path / name) for name in found]
        assert of_files(paths) == of_files(found)
    # A file's own name first; patterns of Hadoop alone, and of other file systems, are Spark's to read.
    for path in (
        "in/[e].ndjson",
        "in/{a,b}.ndjson",
        "in/[^a].ndjson",
        "in/x*.ndjson",
        "in/a.ndjson",
        "s3a://bucket/*.ndjson",
        "in",
        "in/g*",
    ):
        assert matched(path) == [path]
    with pytest.raises(NotFound, match="there is no such file. Patterns are matched on this machine's disk alone"):
        of_files(["in/{a,b}.ndjson"])


@pytest.mark.parametrize(
    ("location", "uri"),
    [
        ("s3a://bucket/in/a b[1].csv", "s3://bucket/in/a%20b%5B1%5D.csv"),
        ("s3://bucket/what?.csv", "s3://bucket/what%3F.csv"),
        ("s3://bucket/100%25.csv", "s3://bucket/100%2525.csv"),
        ("s3://bucket/in?region=eu-west-1", "s3://bucket/in?region=eu-west-1"),
        ("abfss://box@account.dfs.core.windows.net/a b", "abfss://box@account.dfs.core.windows.net/a%20b"),
        ("hdfs://host:8020/in", "hdfs://host:8020/in"),
    ],
)
def test_every_sign_of_a_location_stands_for_itself(location: str, uri: str) -> None:
    assert _as_uri(location) == uri
