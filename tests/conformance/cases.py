"""Cases: read from files, and what each of them still waits for."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.conformance import support
from tests.oracle import Model, Record, Rule

START = 1_700_000_000_000
DEFAULT = Path(__file__).parent / "cases"
Step = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """A case as FORMAT.md section 1 has it."""

    id: str
    says: str
    rules: tuple[int, ...]
    steps: list[Step] = field(hash=False)
    topic: dict[str, Any] = field(default_factory=dict, hash=False)
    partitions: int = 1
    warns: tuple[str, ...] | None = None
    merges: str = ""

    @property
    def exact(self) -> bool:
        """Whether no merges may be added."""
        return self.merges == "exact"

    @property
    def passed_over(self) -> list[str]:
        """The verbs whose steps are passed over: the case waits for them, however the rest of it goes."""
        return sorted({step["do"] for step in self.steps} & support.PASSED_OVER)


def read(folder: Path) -> list[Case]:
    """Every case of every file of a folder; ids must be unique."""
    found: dict[str, Case] = {}
    for path in sorted(folder.glob("*.json")):
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["format"] != 1:
            raise ValueError(f"{path}: format {content['format']}, this runner knows 1")
        for raw in content["cases"]:
            case = Case(**{**raw, "rules": tuple(raw["rules"]), "warns": tuple(raw["warns"]) if raw.get("warns") is not None else None})
            if case.id in found:
                raise ValueError(f"{path}: the id {case.id} is taken")
            found[case.id] = case
    if not found:
        raise ValueError(f"{folder} holds no cases")
    return list(found.values())


def waits_for(case: Case) -> list[str]:
    """What lakelog cannot do yet and the case needs, empty when it can run: settings, verbs, fields, and what only a clean brings about."""
    return [*dict.fromkeys([*_unknown(case), *(needs_cleaning(case) if case.passed_over else ())])]


def _unknown(case: Case) -> Iterator[str]:
    from lakelog.model.config import SETTINGS

    for config in [case.topic, *[step.get("config", {}) for step in case.steps if step["do"] != "expect"]]:
        yield from (f"setting {name}" for name in config if name in support.FORMAT_SETTINGS and name not in SETTINGS)
    for step in case.steps:
        if step["do"] not in support.VERBS | support.PASSED_OVER:
            yield f"verb {step['do']}"
        if step["do"] == "append":
            asked = {name for name in ("token", "epoch") if name in step} | {
                "expected" for record in step["records"] if "expected" in record
            }
            yield from (f"append with {name}" for name in sorted(asked - support.APPEND_FIELDS))
        if step["do"] == "expect":
            yield from (f"expect {name}" for name in step if name not in support.LOOKS | {"do", "now", "expect"})
            yield from (f"count {name}" for name in step.get("counts", ()) if name not in support.COUNTS)
            yield from (f"setting {name}" for name in step.get("config", ()) if name not in SETTINGS)


def model_rule(config: dict[str, Any]) -> Rule:
    """The ordering rule of a case's configuration, for the model."""
    strategy = str(config.get("compaction.strategy", "")).strip().lower() or "offset"
    header = config.get("compaction.strategy.header", "")
    if strategy == "header" and not header.strip():
        strategy = "offset"
    return Rule(strategy, header=header, barriers=strategy == "header" and config.get("tombstone.unversioned") == "win_by_offset")


def model_record(record: dict[str, Any], clock: int) -> Record:
    """A case's record, for the model."""
    headers = tuple((name, None if value is None else bytes.fromhex(value)) for name, value in record.get("headers", ()))
    return Record(record["key"], record["value"], record.get("timestamp", clock), headers, record.get("tombstone", False))


def needs_cleaning(case: Case) -> Iterator[str]:
    """Steps after a clean that only pass where it really ran: an expired delete, records that are gone, a refusal for their sake."""
    if case.id in support.ABOUT_THE_CLEANER:
        yield "verb clean (the case is about it)"
    clock, cleaned, expired = START, False, False
    retention = case.topic.get("delete.retention.ms", support.DELETE_RETENTION_MS)
    model = Model(model_rule(case.topic))
    kept_since: dict[Any, int] = {}
    for step in case.steps:
        clock = step.get("now", clock)
        expect = step.get("expect", {})
        if step["do"] == "append" and "error" not in expect:
            for record in step["records"]:
                model.append({record.get("partition", 0): [model_record(record, clock)]})
        elif step["do"] == "clean":
            cleaned = True
            deletes = {(key, offset) for key, (offset, record) in model.latest().items() if record.deletes}
            kept_since = {delete: kept_since.get(delete, clock) for delete in deletes}
            expired = expired or any(clock >= since + retention for since in kept_since.values())
        elif step["do"] == "expect" and expired and {"latest", "tombstones", "counts"} & set(step):
            yield "verb clean (a delete expires)"
        elif step["do"] == "fetch" and expired:
            yield "verb clean (a delete expires)"
        elif step["do"] == "rebuild" and cleaned:
            yield "verb clean (the log is incomplete)"
        elif step["do"] == "read" and cleaned:
            yield "verb clean (records are gone)"
        if cleaned and step["do"] == "append" and "duplicate_of" in expect and expect["duplicate_of"] is None and _is_held(model, step):
            yield "verb clean (records are gone)"


def _is_held(model: Model, step: Step) -> bool:
    """Whether the log, never cleaned, holds the first record of a request at its expected offset."""
    first = step["records"][0]
    log, at = model.log.get(first.get("partition", 0), []), first.get("expected", -1)
    return 0 <= at < len(log) and (log[at].key, log[at].value, log[at].deletes) == (
        first["key"],
        first["value"],
        model_record(first, 0).deletes,
    )


def rules_of(cases: Iterable[Case]) -> set[int]:
    """The rule numbers that cases rest on."""
    return {rule for case in cases for rule in case.rules}


def covering(cases: Sequence[Case], cost: Callable[[Sequence[Case]], float], *, beside: Sequence[Case] = ()) -> list[Case]:
    """A subset of cases with every rule of all of them: next is always the case that adds most rules for what it costs more.

    Args:
        cases: to choose from.
        cost: what some cases cost together; those that cost nothing more beside the chosen ones come with them.
        beside: cases of another suite, whose rules are covered by them.
    """
    wanted = rules_of(cases) - rules_of(beside)
    missing, chosen, left = wanted, list[Case](), list(cases)
    while missing:
        before = cost(chosen)
        best = max(left, key=lambda case: (len(missing & set(case.rules)) / (0.1 + cost([*chosen, case]) - before), case.id))
        chosen.append(best)
        left.remove(best)
        missing = missing - set(best.rules)
    for case in sorted(chosen, key=lambda case: cost([one for one in chosen if one is not case])):
        others = [one for one in chosen if one is not case]
        if wanted <= rules_of(others):  # needless by now
            chosen = others
    before = cost(chosen)
    return [*chosen, *[case for case in cases if case not in chosen and cost([*chosen, case]) == before]]
