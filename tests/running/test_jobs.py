"""``jobs/append.py`` and ``jobs/run.py`` take the sources of ``lakelog.toml``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jobs import append, run
from lakelog import Lake
from lakelog.running import steps
from tests.sources.test_sources import write


def test_the_jobs_take_what_is_new(lake: Lake, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    lake.create_topic("orders", key="STRING", value="STRING")
    toml = tmp_path / "lakelog.toml"
    toml.write_text('root = "./lake"\n')
    both = ["--topic", "orders", "--config", str(toml)]
    assert append.main(both) == 2
    toml.write_text('root = "./lake"\n[topics.orders]\nsources = ["./in"]\n')
    write(tmp_path / "in", "a.ndjson", "a1")
    capsys.readouterr()
    assert append.main(both) == 0
    assert json.loads(capsys.readouterr().out)["sources"][0]["files"] == 1
    write(tmp_path / "in", "b.ndjson", "b1", "b2")
    assert run.main(both) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["counts"]["appended"], said["counts"]["merged"], said["recorded"]) == (2, 3, True)
    write(tmp_path / "in", "a.ndjson", "other")
    assert run.main(both) == 4
    assert json.loads(capsys.readouterr().out)["error"]["error"] == "SOURCE_FILE_CHANGED"
    assert run.main(["--topic", "orders", "--root", str(tmp_path / "nowhere")]) == 5
    assert run.main([*both, "--wait", "soon"]) == 2
    capsys.readouterr()

    write(tmp_path / "in", "a.ndjson", "a1")

    # A defect of ours shows where it is, beside the report.
    def broken(*given: object) -> None:
        raise ZeroDivisionError("of ours")

    monkeypatch.setitem(steps.STEPS, "merge", broken)
    assert run.main(both) == 1
    captured = capsys.readouterr()
    assert "in broken" in captured.err and json.loads(captured.out)["error"]["error"] == "UNEXPECTED"
