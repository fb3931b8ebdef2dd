"""Which sources an append takes from, and what the command line says of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from lakelog import InvalidConfig, InvalidRequest
from lakelog.cli import running
from lakelog.sources.configured import DirectorySource, Source
from lakelog.sources.kafka_source import KafkaSource
from lakelog.terminal.named import sources_of
from lakelog.terminal.settings import Settings
from tests.conftest import Answer

KAFKA = "kafka://broker:9092/orders"


def taken(configured: Sequence[Source], named: Sequence[str], **written: Any) -> list[Source]:
    return sources_of(Settings(root="/lake", sources={"orders": tuple(configured)}), "orders", named, written)


def test_the_command_line_says_more_than_the_configuration(
    cli: Callable[..., Answer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where it says what would be so by default."""
    said: list[dict[str, Any]] = []
    monkeypatch.setattr(running, "append_from", lambda call, topic, directories, written, **more: said.append(written))
    cli("append orders --encoding utf-8 --delimiter ,")
    cli("append orders --delimiter \\\\t")
    cli("append orders --null ''")
    assert said == [{"encoding": "utf-8", "delimiter": ","}, {"delimiter": "\t"}, {"null": ""}]
    source = DirectorySource("/in", format="csv", delimiter=";", encoding="cp1252")
    assert taken([source], [], **said[0]) == [DirectorySource("/in", format="csv")]
    assert taken([source], []) == [source]


def test_what_is_said_of_files_needs_files() -> None:
    kafka = KafkaSource("orders", "broker:9092")
    for written in ({"format": "csv"}, {"null": ""}, {"delimiter": ","}, {"encoding": "utf-8"}):
        with pytest.raises(InvalidRequest, match="are about files"):
            taken([], [KAFKA], **written)
        with pytest.raises(InvalidRequest, match="are about files"):
            taken([kafka], [], **written)
    with pytest.raises(InvalidRequest, match="what is to be appended"):
        taken([], [], format="csv")
    assert taken([kafka, DirectorySource("/in")], [], format="csv") == [kafka, DirectorySource("/in", format="csv")]


def test_a_directory_is_all_the_sources_that_are_configured_of_it() -> None:
    two = [DirectorySource("/in", pattern="*.csv"), DirectorySource("/in", name="notes", pattern="*.ndjson")]
    assert taken([*two, DirectorySource("/other")], ["/in/"]) == two
    assert taken(two, ["/in/below"]) == [DirectorySource("/in/below")]
    with pytest.raises(InvalidConfig, match="Name each once"):
        taken(two, ["/in", "/in/"])
