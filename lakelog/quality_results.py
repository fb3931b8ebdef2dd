"""What the verbs about quality answer: verdicts and their findings, and records that left the quarantine."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field
from typing import Any

from lakelog.results import Result

PASSED, FAILED, BROKEN, ACCEPTED, QUARANTINED = "passed", "failed", "broken", "accepted", "quarantined"


@dataclass(frozen=True)
class Finding(Result):
    """What was found of one rule: its ``outcome`` (passed, failed, broken: it could not be evaluated; quarantined: the records were put aside).

    ``checked`` rows were looked at, ``failing`` of them break it; None where it is about no rows. ``observed``: what was seen, or what broke.
    ``keys``: the first keys concerned.
    """

    rule: str
    type: str
    severity: str
    outcome: str
    description: str
    observed: str = ""
    checked: int | None = None
    failing: int | None = None
    keys: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Verdict(Result):
    """What a door said: ``outcome`` is that of the run (passed, quarantined, failed, broken, accepted); ``failed`` where a critical rule did.

    ``run``: its identity; of an append that of the batch. ``door``: append, merge or table. ``version``: of the log after an append, of the
    latest table else; None where nothing was written. ``suite``: the digest of the suites' files. ``from_offsets`` and ``to_offsets``: of a
    merge, what it was to fold, ``to_epochs`` and ``to_batches``: epoch and batch of the last records. ``reason`` and ``accepts``: of a merge that
    was let through, why, and the run whose failures were accepted.
    """

    run: str
    topic: str
    door: str
    outcome: str
    findings: list[Finding]
    suite: str
    at: datetime.datetime
    version: int | None = None
    records: int | None = None
    quarantined: int = 0
    from_offsets: dict[int, int] = field(default_factory=dict)
    to_offsets: dict[int, int] = field(default_factory=dict)
    reason: str | None = None
    accepts: str | None = None
    to_epochs: dict[int, int] = field(default_factory=dict)
    to_batches: dict[int, str | None] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether nothing stopped the run."""
        return self.outcome not in (FAILED, BROKEN)

    def of(self, *outcomes: str) -> list[Finding]:
        """The findings with these outcomes."""
        return [one for one in self.findings if one.outcome in outcomes]

    def warnings(self) -> dict[str, int]:
        """Rule to failing rows, of the rules that failed without stopping the run."""
        return {one.rule: one.failing or 0 for one in self.findings if one.outcome == FAILED and one.severity != "critical"}


@dataclass(frozen=True)
class Requeued(Result):
    """Records of the quarantine that were appended again: partition to offsets [first, end) they got; ``dry_run``: would be.

    ``overwritten``: keys of which the log holds a newer record, which they overwrite or, in a dry run, would.
    """

    topic: str
    records: int
    offsets: dict[int, tuple[int, int]]
    dry_run: bool = False
    overwritten: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Dropped(Result):
    """Records that were taken out of the quarantine for good, and why; ``dry_run``: would be."""

    topic: str
    records: int
    reason: str
    dry_run: bool = False


@dataclass(frozen=True)
class Initialized(Result):
    """A starting set of suites: the ``files`` that were written, those that were there and are ``kept``, and how many rules they hold.

    ``profile``: what the table shows, on which they rest. ``left_out``: rules that would hold too, and for which a door has no room.
    """

    topic: str
    folder: str
    files: list[str]
    kept: list[str]
    rules: int
    profile: dict[str, Any] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
