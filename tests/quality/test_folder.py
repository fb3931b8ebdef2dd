"""Which files gate a door: the topic's own, with the default ones of the folder or else lakelog's. No Spark."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from lakelog.errors import InvalidConfig
from lakelog.model.config import TopicConfig, changed, parse
from lakelog.model.names import TableRef
from lakelog.model.ordering import OrderingRule
from lakelog.model.topic_log import TopicLog
from lakelog.quality import folder
from tests.quality.folders import rows, write

ROOT = Path(__file__).parent.parent.parent


def log(suites: str, name: str = "orders") -> TopicLog:
    config = TopicConfig({"quality.suites": suites})
    nothing: Any = None
    table = TableRef(path="/lake/orders/bronze")
    return TopicLog(name, "/lake", "u", nothing, table, table, nothing, 1, config, OrderingRule.from_config(config))


def test_a_door_is_gated_by_the_topics_own_file_and_audited_always(tmp_path: Path) -> None:
    assert folder.gating(log(""), "append") is None
    assert [one.name for one in folder.auditing(log("")).checks][0] == "one_row_per_key", "lakelog's own"
    suites = write(tmp_path, "orders", append=[rows("own", "true")])
    gate = folder.gating(log(suites), "append")
    assert gate is not None
    assert [one.name for one in gate.checks] == ["header_names", "timestamp_plausible", "own"]
    assert folder.gating(log(suites), "merge") is None
    assert len(folder.auditing(log(suites)).checks) == len(json.loads(folder.shipped("table")[1])["expectations"])
    write(tmp_path, "default", append=[rows("common", "true")])
    for name, names in (("orders", ["common", "own"]), ("default", ["common"])):
        gate = folder.gating(log(suites, name), "append")
        assert gate is not None
        assert [one.name for one in gate.checks] == names
    with pytest.raises(InvalidConfig, match="no such folder"):
        folder.gating(log(f"{suites}/missing"), "append")


def test_a_relative_folder_is_made_absolute_when_it_is_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a job started elsewhere finds the same suites, and not a folder of that name which holds none."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/ann")
    for text, kept in (
        ("expectations", f"{tmp_path}/expectations"), ("./expectations/", f"{tmp_path}/expectations"), ("../in", f"{tmp_path.parent}/in"),
        (".", str(tmp_path)), ("~/suites", "/home/ann/suites"), (tmp_path / "a", f"{tmp_path}/a"), ("/in/suites", "/in/suites"),
        ("s3://bucket/suites", "s3://bucket/suites"), ("file:/in/suites", "file:/in/suites"), ("dbfs:/in", "dbfs:/in"), ("", ""), (" ", " "),
    ):  # fmt: skip
        for lake in (False, True):
            assert parse({"quality.suites": text}, lake=lake) == {"quality.suites": kept}
    after, stored = changed({"quality.suites": "expectations"}, {"quality.suites": "expectations"})
    assert (after.text("quality.suites"), stored) == (f"{tmp_path}/expectations", {"quality.suites": f"{tmp_path}/expectations"})


def test_a_relative_folder_of_before_never_leaves_a_topic_without_its_gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A topic that was set to it keeps the text: from the folder where it lies it works as it did, elsewhere it says so."""
    write(tmp_path / "expectations", "orders", append=[rows("own", "true")])
    (tmp_path / "elsewhere" / "expectations" / "default").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert folder.gating(log("expectations"), "append") is not None
    assert folder.gating(log("expectations"), "merge") is None
    monkeypatch.chdir(tmp_path / "elsewhere")
    for door in ("append", "merge"):
        with pytest.raises(InvalidConfig, match=f"{tmp_path}/elsewhere/expectations holds no suites of orders.* configure it again"):
            folder.gating(log("expectations"), door)
    with pytest.raises(InvalidConfig, match="holds no suites of orders"):
        folder.auditing(log("expectations"))
    assert folder.gating(log(f"{tmp_path}/elsewhere/expectations"), "append") is None


def test_lakelogs_own_suites_are_found_within_a_zip(tmp_path: Path) -> None:
    """As spark-submit gives the package to its driver."""
    archive = tmp_path / "lakelog.zip"
    with zipfile.ZipFile(archive, "w") as written:
        for path in sorted((ROOT / "lakelog").rglob("*.py")):
            written.write(path, path.relative_to(ROOT))
        for path in sorted((ROOT / "expectations" / "default").iterdir()):
            written.write(path, Path("lakelog/quality/default", path.name))
    code = "from lakelog.quality.folder import shipped; from lakelog.quality.suites import DOORS; print([shipped(one)[0] for one in DOORS])"
    told = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(archive)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 0 and told.stdout.count("lakelog.zip/lakelog/quality/default/") == 3, told.stderr
