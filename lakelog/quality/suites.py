"""Suites: Great Expectations' own JSON, a file per topic and door, read whole or refused.

Under the folder that ``quality.suites`` names lie ``<topic>/append.json``, ``merge.json`` and ``table.json``; those of ``default/`` hold for every
topic beside its own. A door without a file of the topic's own is open: the default suites alone gate nothing, but `check` runs them. Each
expectation has a ``type``, ``kwargs`` and a ``description``, and may have a ``severity`` (critical, warning, info), ``meta`` and ``notes``.

What is understood here is done without Great Expectations: row rules (`expect_rows_to_satisfy` and rowwise.py) and figures. The rest is handed to
it (engine.py), which refuses what it does not know.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lakelog.errors import InvalidConfig
from lakelog.model.config import did_you_mean
from lakelog.model.row_rules import MOST, RowRule, RowRules
from lakelog.quality import rowwise

DOORS = ("append", "merge", "table")
SEVERITIES = ("critical", "warning", "info")
DEFAULT = "default"
ROWS, UNIQUE, QUERY, FIGURE = (
    "expect_rows_to_satisfy", "expect_groups_to_be_unique", "expect_query_to_return_no_rows", "expect_figure_to_be_between",
)  # fmt: skip
# lakelog's own types: arguments that must be there, and those that may.
OWN: dict[str, tuple[set[str], set[str]]] = {
    ROWS: ({"name", "expression"}, {"mostly"}),
    UNIQUE: ({"columns"}, {"name"}),
    QUERY: ({"name", "query"}, set()),
    FIGURE: ({"name", "figure"}, {"min_value", "max_value"}),
}
# What is counted at each door anyway.
FIGURES = {
    "append": ("records", "quarantined", "quarantined_share"),
    "merge": ("records", "inserted", "updated", "deleted", "late", "live_before", "live_after", "deleted_share", "drop_share"),
    "table": ("keys", "live", "tombstones"),
}


@dataclass(frozen=True)
class Check:
    """One expectation: its ``name`` in verdicts, and what it says.

    ``condition``: of a rule that looks at one row at a time, in SQL; ``mostly``: the share of rows that must satisfy it, of those that it is
    about (``applies``, in SQL; None: of all). ``where``: the file and its place in it.
    """

    name: str
    type: str
    kwargs: Mapping[str, Any]
    severity: str
    description: str
    condition: str | None = None
    mostly: float = 1.0
    applies: str | None = None
    where: str = ""

    @property
    def beside(self) -> str:
        """The name under which the rows that it is not about are counted."""
        return f"{self.name} (not about)"

    @property
    def splits(self) -> bool:
        """Whether a record that breaks it is not let in at the append door."""
        return self.condition is not None and self.mostly >= 1 and self.severity == "critical"

    @property
    def counted(self) -> bool:
        """Whether lakelog itself evaluates it, in the pass over the records or from counts."""
        return self.condition is not None or self.type == FIGURE


@dataclass(frozen=True)
class Suite:
    """What a door asks: its checks, and a digest of the files they come from."""

    topic: str
    door: str
    checks: tuple[Check, ...]
    digest: str

    @property
    def row_checks(self) -> list[Check]:
        """Those that look at one row at a time."""
        return [check for check in self.checks if check.condition is not None]

    @property
    def set_checks(self) -> list[Check]:
        """Those that Great Expectations evaluates."""
        return [check for check in self.checks if not check.counted]

    def rules(self, *, quarantine: bool) -> RowRules:
        """The checks of single rows as the pass over the records takes them, in their order; behind them what counts rows that they are not about."""
        rules = [RowRule(one.name, one.condition or "", one.splits) for one in self.row_checks]
        beside = [RowRule(one.beside, one.applies, splits=False, counts_alone=True) for one in self.row_checks if one.applies is not None]
        return RowRules((*rules, *beside), quarantine)


def suite(topic: str, door: str, files: Sequence[tuple[str, str]]) -> Suite:
    """The suite of a door from the texts of its files.

    Args:
        topic: the topic's name.
        door: one of `DOORS`.
        files: (where it lies, its text), the default suite's before the topic's own.

    Raises:
        InvalidConfig: something in a file is not understood; the file and the expectation are named.
    """
    checks: list[Check] = []
    for where, text in files:
        for number, one in enumerate(_expectations(where, _document(where, text)), start=1):
            try:
                checks.append(replace(_check(one, door), where=f"{where}, expectation {number}"))
            except InvalidConfig as error:
                raise InvalidConfig(f"{where}, expectation {number}: {error}", file=where, expectation=number) from error
    # Counts are told apart by these names, those of the rows that a rule is not about too.
    names = [name for one in checks for name in ([one.name] if one.applies is None else [one.name, one.beside])]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InvalidConfig(f"The suites of {topic} at the door {door} have two rules called {twice[0]}: give one another name.")
    made = Suite(topic, door, tuple(checks), hashlib.sha256("\n".join(text for _, text in files).encode()).hexdigest())
    count = len(made.rules(quarantine=False).rules)
    if count > MOST:
        twice_counted = " One with mostly may count twice." if count > len(made.row_checks) else ""
        raise InvalidConfig(f"{topic}: {count} row rules at the door {door}, at most {MOST}: join some with AND.{twice_counted}")
    return made


def _document(where: str, text: str) -> Any:
    """A file's text as JSON, strictly: a name stands once in an object, and a number is one."""
    try:
        return json.loads(text, object_pairs_hook=_object, parse_float=_number, parse_constant=_number)
    except ValueError as error:
        raise InvalidConfig(f"{where} is not JSON: {error}.", file=where) from error
    except RecursionError as error:
        raise InvalidConfig(f"{where} is nested too deeply.", file=where) from error


def _object(members: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(members)
    if len(made) < len(members):
        names = [name for name, _ in members]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice!r} stands twice in one object: leave one out")
    return made


def _number(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is no number")
    return number


def _expectations(where: str, document: Any) -> list[Any]:
    """The expectations of a suite's document."""
    if not isinstance(document, dict) or not isinstance(document.get("expectations"), list) or not isinstance(document.get("name"), str):
        raise InvalidConfig(f'{where}: a suite is {{"name": …, "expectations": […]}}.', file=where)
    _known(where, document, ("name", "expectations", "meta", "notes"))
    return list(document["expectations"])


def _known(what: str, given: Mapping[str, Any], known: Sequence[str]) -> None:
    for name in given:
        if name == "id":
            raise InvalidConfig(f"{what}: a suite in a file has no id: take it out.")
        if name not in known:
            raise InvalidConfig(f"{what}: there is no {name!r}.{did_you_mean(name, known)} Known: {', '.join(known)}.")


def _check(one: Any, door: str) -> Check:
    """An expectation of a document as a check."""
    if not isinstance(one, dict) or not isinstance(one.get("type"), str) or not isinstance(one.get("kwargs", {}), dict):
        raise InvalidConfig('it is {"type": …, "kwargs": {…}, "description": …}.')
    kind, kwargs, meta = one["type"], one.get("kwargs", {}), {} if one.get("meta") is None else one["meta"]
    _known(kind, one, ("type", "kwargs", "severity", "description", "meta", "notes"))
    if not isinstance(meta, dict):
        raise InvalidConfig(f"{kind}: meta is an object.")
    severity = one.get("severity", "critical")
    if severity not in SEVERITIES:
        raise InvalidConfig(f"{kind}: severity {severity!r} must be one of {', '.join(SEVERITIES)}.")
    described = one.get("description")
    if not isinstance(described, str) or not described.strip():
        raise InvalidConfig(f"{kind}: the description is missing: say in a sentence what holds.")
    mostly = kwargs.get("mostly", 1.0)
    if isinstance(mostly, bool) or not isinstance(mostly, (int, float)) or not 0 <= mostly <= 1:
        raise InvalidConfig(f"{kind}: mostly={mostly!r}: it is a share, from 0 to 1.")
    condition = None
    if kind in OWN:
        _require_own(kind, kwargs, door)
        condition = kwargs["expression"] if kind == ROWS else None
    elif kind in rowwise.ROW_WISE:
        condition = rowwise.condition(kind, kwargs)
    name = kwargs.get("name") or meta.get("name") or _made_name(kind, kwargs)
    if not isinstance(name, str):
        raise InvalidConfig(f"{kind}: the name is a text, not {name!r}.")
    applies = rowwise.applies(kind, kwargs) if kind in rowwise.ROW_WISE and mostly < 1 else None
    return Check(name, kind, kwargs, severity, described.strip(), condition, float(mostly), applies)


def _require_own(kind: str, kwargs: Mapping[str, Any], door: str) -> None:
    """Refuse arguments that one of lakelog's own expectations does not have."""
    needed, more = OWN[kind]
    _known(kind, kwargs, sorted(needed | more))
    missing = sorted(needed - set(kwargs))
    if missing:
        raise InvalidConfig(f"{kind}: the argument {missing[0]!r} is missing.")
    for name in needed - {"columns"}:
        if not isinstance(kwargs[name], str) or not kwargs[name].strip():
            raise InvalidConfig(f"{kind}: {name} is a text.")
    if kind == UNIQUE and not (
        isinstance(kwargs["columns"], list) and kwargs["columns"] and all(isinstance(c, str) for c in kwargs["columns"])
    ):
        raise InvalidConfig(f"{kind}: columns is a list of names.")
    if kind == FIGURE:
        if kwargs["figure"] not in FIGURES[door]:
            hint = did_you_mean(kwargs["figure"], FIGURES[door])
            raise InvalidConfig(
                f"{kind}: there is no figure {kwargs['figure']!r} at the door {door}.{hint} Known: {', '.join(FIGURES[door])}."
            )
        bounds = [kwargs.get(name) for name in ("min_value", "max_value")]
        if bounds == [None, None] or any(isinstance(one, bool) or not isinstance(one, (int, float, type(None))) for one in bounds):
            raise InvalidConfig(f"{kind}: min_value and max_value are numbers, at least one of them.")
        rowwise.require_order(bounds[0], bounds[1])


def _made_name(kind: str, kwargs: Mapping[str, Any]) -> str:
    """The name of an expectation that has none: its type without ``expect_``, and what it is about."""
    about = [str(kwargs[name]) for name in ("column", "column_A", "column_B") if name in kwargs]
    about += [",".join(map(str, kwargs[name])) for name in ("columns", "column_list") if isinstance(kwargs.get(name), list)]
    return f"{kind.removeprefix('expect_')}({', '.join(about)})" if about else kind.removeprefix("expect_")
