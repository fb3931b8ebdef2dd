"""A case as stretches between topic-wide events, so that cases with the same events can be laid side by side in one topic (FORMAT.md 6).

In a stretch a case has only steps of its own partitions: appends, and looks. Merges are added after every append, and then a merge of
the case's own is one of those; where the case says ``"merges": "exact"`` they are topic-wide events instead.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.conformance import support
from tests.conformance.cases import START, Case, Step

Numbered = tuple[int, Step]


@dataclass
class Round:
    """An append of a case, and the looks after it and before its next; in the first round of a stretch there may be no append."""

    append: Numbered | None = None
    again: bool = False
    looks: list[Numbered] = field(default_factory=list)


@dataclass
class Stretch:
    """The topic-wide event that begins it (None at the start), then rounds; round 0 has no append."""

    event: tuple[str, Any] | None = None
    step: Numbered | None = None
    rounds: list[Round] = field(default_factory=lambda: [Round()])


@dataclass(frozen=True)
class Script:
    """A case ready to be laid beside others of the same signature."""

    case: Case
    signature: str
    stretches: list[Stretch] = field(hash=False)


@functools.cache
def script(case: Case) -> Script:
    """A case as a script. The clock's moves are topic-wide events of their own."""
    stretches, clock = [Stretch()], START
    alone = case.warns is not None
    for number, step in enumerate(case.steps, 1):
        if step.get("now", clock) != clock:
            clock = step["now"]
            stretches.append(Stretch(("now", clock)))
        rounds, do = stretches[-1].rounds, step["do"]
        if do in support.PASSED_OVER:
            if do == "clean" and case.exact:  # what a clean does first (FORMAT.md 5); elsewhere merges are added anyway
                stretches.append(Stretch(("merge", {})))
            continue
        if do == "append":
            rounds.append(Round((number, step)))
            alone = alone or "token" in step
        elif do in ("expect", "read", "fetch"):
            rounds[-1].looks.append((number, step))
        elif do == "merge" and not case.exact and "as" not in step:
            rounds[-1].again = rounds[-1].again or rounds[-1].append is None or _merged_before(case.steps, number)
        else:
            arguments = {name: value for name, value in step.items() if name not in ("do", "now", "expect")}
            stretches.append(Stretch((do, arguments), (number, step)))
            alone = alone or do not in ("merge", "roll", "clean")
    counts = [
        [(s, r, sorted(step["counts"])) for _, step in rounds.looks if "counts" in step]
        for s, stretch in enumerate(stretches) for r, rounds in enumerate(stretch.rounds)
    ]  # fmt: skip
    events = [stretch.event for stretch in stretches]
    looked = [look for look in counts if look]
    rounds = [len(stretch.rounds) for stretch in stretches] if looked else None
    signature = json.dumps([case.topic, case.exact, events, looked, rounds, case.id if alone else None], sort_keys=True)
    return Script(case, signature, stretches)


def _merged_before(steps: list[Step], number: int) -> bool:
    """Whether a merge at this step follows another one with nothing appended between."""
    for step in reversed(steps[: number - 1]):
        if step["do"] == "append":
            return False
        if step["do"] == "merge":
            return True
    return True


def cost(cases: Sequence[Case]) -> float:
    """About how many verbs some cases take, those of one signature laid beside each other: a refusal is never shared."""
    topics: dict[str, list[Script]] = {}
    for case in cases:
        made = script(case)
        topics.setdefault(made.signature, []).append(made)
    total = 0.0
    for laid in topics.values():
        total += 3  # a topic made and looked at
        for stretches in zip(*[made.stretches for made in laid], strict=True):
            appends = max(len(stretch.rounds) for stretch in stretches) - 1
            looks = {place for stretch in stretches for place, made in enumerate(stretch.rounds) if made.looks}
            total += 2 * appends + 0.5 * len(looks) + (stretches[0].event is not None and stretches[0].event[0] != "now")
    return total + sum("error" in step.get("expect", {}) for case in cases for step in case.steps)
