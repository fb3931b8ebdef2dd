"""``lakelog append --from`` and the sources in ``lakelog.toml``; ``lakelog run``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from lakelog import Lake
from lakelog.errors import InvalidConfig
from lakelog.terminal.settings import load
from tests.conftest import Answer
from tests.sources.test_sources import write


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('[topics]\norders = "in"', "topics.orders must be a table"),
        ('[topics.orders]\nsource = ["in"]', r"no setting topics\.orders\.source\. Did you mean sources\?"),
        ('[topics.orders]\nsources = "in"', r"topics\.orders\.sources must be a list"),
        ('[topics.orders]\nsources = [{path = "in"}]', r"topics\.orders\.sources\[0\]: there is no setting path"),
        ('[topic.orders]\nsources = ["in"]', "Did you mean topics"),
    ],
)
def test_settings_that_are_not_understood(text: str, problem: str, tmp_path: Path) -> None:
    (tmp_path / "lakelog.toml").write_text(text)
    with pytest.raises(InvalidConfig, match=problem):
        load(folder=tmp_path, environment={})


def test_sources_lie_beside_the_file_whatever_file_it_is_a_link_to(tmp_path: Path) -> None:
    link = tmp_path / "project" / "lakelog.toml"
    link.parent.mkdir()
    found = []
    for release in ("1", "2"):
        (tmp_path / release).mkdir()
        (tmp_path / release / "lakelog.toml").write_text('root = "./lake"\n[topics.orders]\nsources = ["./in"]\n')
        link.unlink(missing_ok=True)
        link.symlink_to(tmp_path / release / "lakelog.toml")
        # A link to the folder changes nothing: the current folder has no such links in its path.
        (tmp_path / f"link{release}").symlink_to(link.parent)
        for config in (link, tmp_path / f"link{release}" / "lakelog.toml"):
            found.append(load(config=str(config), environment={}).sources["orders"][0].identity)
    assert found == [f"directory {tmp_path}/project/in"] * 4


def test_append_from_a_directory(lake: Lake, cli: Callable[..., Answer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lake.create_topic("orders", key="STRING", value="STRING")
    write(tmp_path / "in", "a.ndjson", "a1", "a2")
    write(tmp_path / "in", "b.tmp", "no")
    (tmp_path / "lakelog.toml").write_text('root = "./lake"\n')
    for command in ("append orders", "append orders x.ndjson --from in", "append orders --from in --token t"):
        assert cli(command).code == 2, command
    assert "[topics.orders]" in cli("append orders").err
    answer = cli("append orders --from in")
    assert answer.out == f"orders: appended 2 records of 1 file from {tmp_path}/in: offsets [0, 2) of partition 0\n"
    assert answer.err == "Passed over, since they are empty or still being written: b.tmp\n"

    # The same directory, configured: known by its path; under a name it is another source.
    (tmp_path / "lakelog.toml").write_text('root = "./lake"\n[topics.orders]\nsources = ["./in"]\n')
    assert cli("append orders").out == f"orders: nothing new in {tmp_path}/in (1 file taken before)\n"
    write(tmp_path / "in", "b.ndjson", "b1")
    said = json.loads(cli("append orders --from ./in/ --json").out)
    assert [one["batches"][0]["names"] for one in said["sources"]] == [["b.ndjson"]]
    (tmp_path / "lakelog.toml").write_text('root = "./lake"\n[[topics.orders.sources]]\ndirectory = "in"\nname = "shop"\n')
    write(tmp_path / "in", "b.ndjson", "b2")
    assert json.loads(cli("append orders --from in --json").out)["sources"][0]["files"] == 2
    write(tmp_path / "in", "b.ndjson", "b3")
    answer = cli("append orders --json")
    assert (answer.code, json.loads(answer.out)["error"]) == (4, "SOURCE_FILE_CHANGED")
    assert cli("append orders --from nowhere").code == 5
