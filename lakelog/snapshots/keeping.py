"""Kept means kept: how long silver's versions must stay readable for the snapshots that are versions of it.

Delta knows no pins: what removed files are kept for is one duration for the whole table, counted from when they were removed. So it must be as
long as the oldest kept snapshot is old, and as its keep goes on. It is raised before a snapshot is registered, set again after a RESTORE, and
looked at before every VACUUM.
"""

from __future__ import annotations

from collections.abc import Sequence

from lakelog.delta import past
from lakelog.errors import InvalidConfig
from lakelog.latest import silver
from lakelog.model.config import TopicConfig
from lakelog.model.records import as_datetime
from lakelog.model.topic_log import TopicLog
from lakelog.snapshots import registry
from lakelog.snapshots.registry import Entry

# Beyond what is needed: a restore that begins at the last moment has to end.
SLACK_MS = 3_600_000
DAY_MS = 86_400_000


def needed_ms(ages: dict[int, int], held: Sequence[Entry], *, now: int) -> int:
    """For how long removed files must be kept so that these snapshots stay readable: each version's age plus what is left of its keep.

    Args:
        ages: version of silver to its age in milliseconds, by Delta's clock.
        held: entries; copies need nothing.
        now: the time in milliseconds.
    """
    spans = [ages.get(one.version, 0) + max((one.kept_until or now) - now, 0) for one in held if one.copy is None]
    # In whole days, so that the same snapshots need the same.
    return max((min(-(-(span + SLACK_MS) // DAY_MS) * DAY_MS, silver.AGES_MS) for span in spans), default=0)


def kept_ms(log: TopicLog, *, now: int, more: Sequence[Entry] = ()) -> int:
    """`needed_ms` of all names of a topic that are kept, and of ``more``. Cost: the registry; where there are any, silver's history."""
    held = [one for one in registry.entries(log.spark, log.root, log.uuid) if one.kept_until is not None and one.kept_until > now]
    held = [one for one in [*held, *more] if one.copy is None]
    return needed_ms(past.ages(log.spark, log.silver), held, now=now) if held else 0


def raise_for(log: TopicLog, more: Sequence[Entry], *, now: int) -> None:
    """Raise silver's retention, where it is shorter than the kept names and ``more`` need. Cost: as `kept_ms`, then at most one commit."""
    silver.follow(log.spark, log.silver, log.config, kept_ms(log, now=now, more=more), raising=True)


def follow(log: TopicLog, config: TopicConfig, *, now: int) -> None:
    """Give silver the properties that follow from a configuration and from the names that are kept. Cost: as `raise_for`."""
    silver.follow(log.spark, log.silver, config, kept_ms(log, now=now))


def require_longer(log: TopicLog, after: TopicConfig, *, now: int) -> None:
    """Refuse a lower ``snapshot.retention.ms`` than a kept name needs.

    Raises:
        InvalidConfig: naming the snapshot and until when it is kept; nothing was changed.
    """
    if silver.retention(after) >= silver.retention(log.config):
        return
    ages = None
    for one in registry.entries(log.spark, log.root, log.uuid):
        if one.name is None or one.copy is not None or one.kept_until is None or one.kept_until <= now:
            continue
        ages = past.ages(log.spark, log.silver) if ages is None else ages
        if needed_ms(ages, [one], now=now) - DAY_MS > silver.retention(after):
            raise InvalidConfig(
                f"snapshot.retention.ms={after.number('snapshot.retention.ms')}: the snapshot {one.name} is kept until"
                f" {as_datetime(one.kept_until).isoformat()}, longer than that. Nothing was changed. Delete that snapshot, or run maintain, which"
                " gives one that is old a table of its own.", setting="snapshot.retention.ms",
            )  # fmt: skip
