"""Kept means kept: how long silver's versions must stay readable for the snapshots that are versions of it.

Delta knows no pins: what removed files are kept for is one duration for the whole table, counted from when they were removed. So it must be as
long as the oldest kept snapshot is old, and as its keep goes on. It is raised before a snapshot is registered, set again after a RESTORE, and
looked at before every VACUUM.
"""

from __future__ import annotations

from collections.abc import Sequence

from lakelog.delta import past, table_properties
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
    """`needed_ms` of all snapshots of a topic that are versions of silver, and of ``more``.

    Those whose time is over too, as long as `expire_snapshots` has not removed them: the newest stays however old it is.

    Cost: the registry; where there are any, silver's history.
    """
    held = [one for one in [*registry.entries(log.spark, log.root, log.uuid), *more] if one.copy is None]
    return needed_ms(past.ages(log.spark, log.silver), held, now=now) if held else 0


def raise_for(log: TopicLog, more: Sequence[Entry], *, now: int) -> bool:
    """Raise silver's retention, where it is shorter than the snapshots and ``more`` need. Returns whether it was.

    Cost: as `kept_ms`, then at most one commit.
    """
    return silver.follow(log.spark, log.silver, log.config, kept_ms(log, now=now, more=more), raising=True)


def follow(log: TopicLog, config: TopicConfig, *, now: int) -> None:
    """Give silver the properties that follow from a configuration and from the snapshots that are kept. Cost: as `raise_for`."""
    silver.follow(log.spark, log.silver, config, kept_ms(log, now=now))


def loses_nothing(log: TopicLog, version: int, *, now: int) -> bool:
    """Whether a RESTORE of silver to a version leaves every version that is kept: Delta goes by the retention of that one while it is carried out.

    So it does where that retention is as long as what is needed, or longer than all that is kept now is old: it is set again right after.

    Args:
        log: the topic's log.
        version: of silver.
        now: the time in milliseconds.

    Cost: the registry, and silver's history.
    """
    # The properties first: who changes them meanwhile is in the history.
    stored = table_properties.read(log.spark, log.silver) or {}
    commits = past.commits(log.spark, log.silver)
    brought = silver.retention_at(commits, version, stored)
    held = [one for one in registry.entries(log.spark, log.root, log.uuid) if one.copy is None]
    ages = {int(row["version"]): int(row["age"]) for row in commits}
    if brought >= silver.retention(log.config, needed_ms(ages, held, now=now)):
        return True
    oldest = max(ages.values())
    return brought >= DAY_MS + max([min(oldest, silver.retention(log.config)), *(ages.get(one.version, oldest) for one in held)])


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
