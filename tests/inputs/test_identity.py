"""What files are called by their content: in whatever order they are named, and only as long as they stay as they are."""

from __future__ import annotations

import json
import os
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakelog.errors import Refused
from lakelog.inputs import identity
from lakelog.inputs.identity import InputIdentity, of_files
from lakelog.job.verbs import _VERBS, Work
from lakelog.log.ledger import InputToken
from tests.tables import versions, write

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakelog import Lake


def file(path: Path, *keys: str) -> str:
    return write(path, *(json.dumps({"key": key, "value": "1"}) for key in keys))


def test_files_are_the_same_in_whatever_order_they_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pattern gives them in another order in another locale; they are read by path."""
    upper, lower = file(tmp_path / "B.ndjson", "b"), file(tmp_path / "a.ndjson", "a")
    found = of_files([upper, lower])
    assert (found, found.text, found.earlier) == (of_files([lower, upper]), of_files([lower, upper]).text, None)
    assert found.text.startswith("B.ndjson:2:")
    # What an older lakelog called them by, who named them in that order.
    assert of_files([lower, upper]).earlier not in (None, found.text)
    monkeypatch.chdir(tmp_path)
    assert of_files(["a.ndjson", "B.ndjson"]) == of_files(["./B.ndjson", f"{tmp_path}/a.ndjson"]) == found
    assert of_files([f"{tmp_path}/"]).text.split(":")[2] == of_files([str(tmp_path)]).text.split(":")[2] == found.text.split(":")[2]
    assert of_files([upper, upper]) != of_files([upper])
    os.rename(upper, tmp_path / "c.ndjson")
    assert of_files([str(tmp_path / "c.ndjson"), lower]) != found


def test_files_that_do_not_stay_as_they_were_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    first, inside = file(tmp_path / "a.ndjson", "a"), file(folder / "b.ndjson", "b")
    found = of_files([first, str(folder)])
    found.require_unchanged()
    with open(inside, "a") as more:
        more.write("\n")
    with pytest.raises(Refused, match=r"in/b\.ndjson was changed while it was read") as refused:
        found.require_unchanged()
    assert (refused.value.name, refused.value.details["file"]) == ("SOURCE_CHANGED", inside)
    found = of_files([first, str(folder)])
    file(folder / "c.ndjson", "c")
    with pytest.raises(Refused, match=r"c\.ndjson"):
        found.require_unchanged()
    found = of_files([first, str(folder)])
    os.remove(first)
    with pytest.raises(Refused):
        found.require_unchanged()


def test_what_is_passed_over_in_a_folder_may_change_while_it_is_read(tmp_path: Path) -> None:
    """Files that somebody still brings have names that Spark does not read. A name with them, and without, is as it was."""
    folder = tmp_path / "in"
    for name in ("_tmp", "_day=1"):
        (folder / name).mkdir(parents=True)
    inside, part = file(folder / "a.ndjson", "a"), file(folder / ".b.ndjson.part", "b")
    found, without = of_files([str(folder)]), of_files([inside])
    assert found.text.split(":")[2] != without.text.split(":")[2]
    file(folder / ".b.ndjson.part", "b", "c")
    file(folder / "_tmp" / "c.ndjson", "c")
    found.require_unchanged()
    os.remove(part)
    found.require_unchanged()
    file(folder / "_day=1" / "d.ndjson", "d")
    with pytest.raises(Refused, match=r"_day=1/d\.ndjson"):
        found.require_unchanged()


@pytest.mark.long
def test_a_file_that_grows_while_it_is_read_is_written_once(lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = lake.create_topic("t", key="STRING", value="STRING")
    path = file(tmp_path / "grows.ndjson", "a")
    before = versions(lake.root, "t")

    def growing(paths: Sequence[str]) -> InputIdentity:
        found = of_files(paths)
        file(Path(path), "a", "b")
        return found

    def job(*files: str) -> str:
        given = Namespace(topic="t", files=list(files), token=None, format=None, delimiter=None, encoding=None, null=None)
        return _VERBS["append"](Work(given, lake)).report

    with monkeypatch.context() as patch:
        patch.setattr(identity, "of_files", growing)
        with pytest.raises(Refused, match="was changed while it was read"):
            job(path)
        file(Path(path), "a")
        with pytest.raises(Refused, match="was changed while it was read"):
            topic.load(path, identity=growing([path]))
    assert versions(lake.root, "t") == before
    for repeated in (False, True):
        assert json.loads(job(path))["repeated"] is repeated
    assert [row["key"] for row in topic.read().collect()] == ["a", "b"]
    # A batch that an older lakelog wrote, under the name for the order in which its files were named.
    later, earlier = file(tmp_path / "later.ndjson", "d"), file(tmp_path / "earlier.ndjson", "c")
    known = of_files([later, earlier])
    assert known.earlier is not None
    topic.append([later, earlier], token=known.earlier)
    assert topic.append([later, earlier], token=InputToken.of(known)).repeated
    assert topic.load([later, earlier], identity=known).found == 0
    assert topic.load([earlier, later], identity=of_files([earlier, later])).found == 1
