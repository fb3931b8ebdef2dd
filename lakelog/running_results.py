"""What sources and runs answer: what was taken of a source, and what a run did, step by step."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field
from typing import Any

from lakelog.results import Result

# What became of a step, or of a run.
DONE, NOTHING, SKIPPED, FAILED, INTERRUPTED = "done", "nothing", "skipped", "failed", "interrupted"


@dataclass(frozen=True)
class TakenBatch(Result):
    """One append from a source: the names that it took, their octets, bronze's version, and the offsets [first, end) of their records."""

    names: list[str]
    octets: int
    version: int | None
    records: int
    offsets: dict[int, tuple[int, int]]
    quarantined: int = 0
    run: str | None = None


@dataclass(frozen=True)
class Taken(Result):
    """What was taken of one source of a topic: its files (or ranges of versions), once each, for good.

    ``known``: files that the log held already; ``passed_over``: names of files that are empty or still being written. ``octets`` are those of the
    files. ``position``: of a table, the version up to which its rows are in the log. ``kind``: what ``files`` counts: files, versions, or ranges of
    offsets of Kafka; ``ends``: of these, partition to the offset up to which messages are in the log.
    """

    topic: str
    source: str
    files: int
    octets: int
    records: int
    offsets: dict[int, tuple[int, int]]
    batches: list[TakenBatch]
    known: int = 0
    passed_over: list[str] = field(default_factory=list)
    position: int | None = None
    kind: str = "file"
    ends: dict[int, int] = field(default_factory=dict)

    @property
    def quarantined(self) -> int:
        """The records that were put aside."""
        return sum(one.quarantined for one in self.batches)


@dataclass(frozen=True)
class Step(Result):
    """A step of a run: ``outcome`` is done, nothing (there was nothing to do), skipped (``why``), failed or interrupted; its own ``report``."""

    step: str
    outcome: str
    seconds: float
    report: Any = None
    why: str | None = None


@dataclass(frozen=True)
class Run(Result):
    """What a run did, whether it succeeded or not: one JSON document, and a row of the lake's table of runs.

    ``outcome``: done, failed or interrupted; ``exit_code`` and ``error`` say why. ``configuration``: SHA-256 of the topic's settings, types and
    sources. ``versions``: of lakelog, Spark, Delta and Python. ``before`` and ``after``: versions of bronze and silver, log end offsets. ``counts``:
    records and keys by what became of them; ``octets``: of the files taken, of the log before and after a clean. ``retries``: the step, and why
    it tried again. ``recorded``: whether the row was written, or why not. ``lease``: its number; None of a run that came to none.
    ``config``: the lakelog.toml that was read; None where there was none, and of a run that could not begin.
    """

    run: str
    topic: str
    root: str
    outcome: str
    exit_code: int
    started_at: datetime.datetime
    ended_at: datetime.datetime
    seconds: float
    configuration: str | None
    versions: dict[str, str]
    before: dict[str, Any]
    after: dict[str, Any]
    steps: list[Step]
    counts: dict[str, int]
    octets: dict[str, int]
    retries: list[dict[str, str]] = field(default_factory=list)
    error: dict[str, Any] | None = None
    recorded: bool | str = False
    lease: int | None = None
    config: str | None = None

    def step(self, name: str) -> Step | None:
        """A step by its name; None where the run did not come to it."""
        return next((one for one in self.steps if one.step == name), None)
