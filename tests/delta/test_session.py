"""A session of this machine: what it costs to make a column."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

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
