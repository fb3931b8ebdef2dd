"""A session of this machine: what it costs to make a column, and what it leaves behind."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakelog.delta import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.classic("a client of Spark Connect has no Java to ask")
def test_what_makes_columns_is_asked_for_once(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    from py4j.clientserver import JavaClient
    from py4j.protocol import CALL_COMMAND_NAME, REFLECTION_COMMAND_NAME
    from pyspark.sql import functions as F

    send, sent = JavaClient.send_command, []

    def noted(self: Any, command: str, *more: Any, **named: Any) -> Any:
        sent.append(command)
        return send(self, command, *more, **named)

    def column() -> None:
        F.when(F.col("a").isNull(), F.coalesce(F.lit(1), "b")).otherwise(F.transform("c", lambda one: one + 1))

    column()
    monkeypatch.setattr(JavaClient, "send_command", noted)
    column()
    assert [command for command in sent if command.startswith(REFLECTION_COMMAND_NAME)] == []
    assert sum(command.startswith(CALL_COMMAND_NAME) for command in sent) >= 8


def test_what_java_prints_does_not_grow_for_ever(tmp_path: Path) -> None:
    file, old = tmp_path / "spark.log", tmp_path / "spark.log.1"
    assert session._log_file(tmp_path) == file
    assert not file.exists() and not old.exists()
    file.write_text("kept")
    assert session._log_file(tmp_path).read_text() == "kept"
    with file.open("r+b") as large:
        large.truncate(session.LOG_MOST + 1)
    old.write_text("older")
    with file.open("ab") as another:
        assert session._log_file(tmp_path) == file and not file.exists()
        another.write(b"of a process that began before")
    assert old.stat().st_size == session.LOG_MOST + 1 + len("of a process that began before")
