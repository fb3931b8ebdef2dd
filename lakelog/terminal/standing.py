"""Where topics stand, as text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from lakelog.errors import UNSUPPORTED_FEATURE, LakelogError, TopicNotFound
from lakelog.terminal import output
from lakelog.terminal.words import in_cli

if TYPE_CHECKING:
    from lakelog.lake.lake import Lake
    from lakelog.status_results import CleaningStatus, TopicStatus
    from lakelog.topic import Topic

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Unknown:
    """A topic that cannot say where it stands, and why."""

    topic: str
    error: LakelogError

    def to_dict(self) -> dict[str, Any]:
        """As an entry among those of `TopicStatus`."""
        return {"topic": self.topic, **self.error.to_dict()}


def of_each(lake: Lake, named: Sequence[str], ask: Callable[[Topic], Answer], engine: str) -> list[Answer | Unknown]:
    """What each topic answers, or `Unknown` where it cannot; where none is named, of every topic of the lake.

    Args:
        lake: the lake.
        named: topics; none for all.
        ask: a verb.
        engine: as the command line says it.

    Raises:
        TopicNotFound: there is no topic of a name that was given.
        NotReady: Spark is to be asked in place of this process (UNSUPPORTED_FEATURE).
    """
    found: list[Answer | Unknown] = []
    for name in named or lake.topics():
        try:
            found.append(ask(lake.topic(name)))
        except LakelogError as error:
            if (named and isinstance(error, TopicNotFound)) or (error.name == UNSUPPORTED_FEATURE and engine == "auto"):
                raise
            # Another process may have deleted it meanwhile.
            if not isinstance(error, TopicNotFound) or name in lake.topics():
                found.append(Unknown(name, in_cli(error, name)))
    return found


def status(topics: Sequence[TopicStatus | Unknown]) -> None:
    """A line per topic: counts, the log's ends, what waits for a merge and since when, versions, rule; then what its gates and audits said last.

    On stderr: what is wrong with it.
    """
    columns = ["topic", "records", "keys", "live", "tombstones", "log", "unmerged", "waiting", "bronze", "silver", "rule"]
    unknown = ["-"] * (len(columns) - 2)
    output.table(columns, [_status_row(one) if not isinstance(one, Unknown) else [one.topic, *unknown, one.error.name] for one in topics])
    for one in topics:
        if isinstance(one, Unknown):
            output.say_error(one.error.name, one.error)
            continue
        if one.last_verdict is not None:
            said, good = one.last_verdict, one.good_version
            version = "" if said["version"] is None else f" (version {said['version']})"
            known = "no audit has passed yet" if good is None else f"the latest table was last good at version {good}"
            output.line(f"{one.topic}: the last verdict, at the door {said['door']}{version}, is {said['outcome']}; {known}.")
        if one.cleaning is not None and (
            one.cleaning.dirty_ratio
            or one.cleaning.tombstones_due
            or one.cleaning.past_retention_bytes
            or one.cleaning.cleaned_age_ms is not None
        ):
            output.line(f"{one.topic}: {cleaning(one.cleaning)}.")
        if one.intent is not None:
            output.say(f"{one.topic}: the operation {one.intent} was begun and is not finished; the next command that writes finishes it.")


def cleaning(one: CleaningStatus) -> str:
    """What there is for the cleaner to do, and what it did last."""
    told = [f"the log holds {output.count(one.log_bytes, 'octet')}", *([one.to_clean] if one.to_clean else [])]
    told += [f"{output.count(one.tombstones_due, 'tombstone')} due"] * bool(one.tombstones_due)
    told += [f"overdue for {output.age(one.overdue_ms)}"] * bool(one.overdue_ms)
    if one.cleaned_age_ms is not None:
        size = "" if one.bytes_before is None else f": {one.bytes_before:,} -> {one.bytes_after:,} octets"
        told.append(f"last clean {output.age(one.cleaned_age_ms)} ago{size}")
    return ", ".join(told)


def _status_row(one: TopicStatus) -> list[Any]:
    ends = [f"[{part.log_start_offset}, {part.log_end_offset})" for part in one.partitions]
    if len(ends) > 1:
        ends = [f"{part.partition}: {span}" for part, span in zip(one.partitions, ends, strict=True)]
    shown = ", ".join(ends[:4]) + (", …" if len(ends) > 4 else "")
    return [
        one.topic, one.records, one.keys, one.live, one.tombstones, shown, one.unmerged_records,
        output.age(one.unmerged_age_ms), f"v{one.bronze_version}", f"v{one.silver_version}", one.rule,
    ]  # fmt: skip
