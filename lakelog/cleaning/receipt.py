"""The receipt of an erased key: what was removed where, and what still holds it until when."""

from __future__ import annotations

from lakelog.cleaning_results import Erased, Holder
from lakelog.latest import erased
from lakelog.model.records import as_datetime
from lakelog.model.topic_log import TopicLog
from lakelog.operations import erase
from lakelog.operations.erase import Found, Target
from lakelog.snapshots import registry

FILES = "Old files go with maintain, or with erase again, once their retention is over; then erase again says so."


def receipt(log: TopicLog, target: Target, found: Found, *, dry_run: bool, now: int) -> Erased:
    """The answer of an erasure.

    Args:
        log: the topic.
        target: the key's digest.
        found: what there was of it before.
        dry_run: it is there still.
        now: the time in milliseconds.

    Cost: the key column of all files of the topic's tables is read, old ones too; the registries.
    """
    mine = [one for one in erased.entries(log.spark, log.root, log.uuid) if one.digest == target.digest]
    removed = {"log": found.records, "silver": found.silver, "quarantine": found.quarantine, "verdicts": found.verdicts}
    held = [] if dry_run else _held(log, target, max((one.at for one in mine), default=now), now=now)
    first = min((one.at for one in mine), default=None)
    return Erased(
        log.name, target.digest, dry_run, None if first is None else as_datetime(first), removed, found.live > 0, list(found.snapshots), held,
        found.unread,
    )  # fmt: skip


def _held(log: TopicLog, target: Target, at: int, *, now: int) -> list[Holder]:
    """What still holds the key: old files, by the tables; snapshots that are versions of silver."""
    tables = erase.stored_tables(log)
    files = erase.files_holding(log, target)
    held = []
    for name, table in tables.items():
        over = at + erase.retention_ms(log, name)
        if name in files:
            held.append(Holder(f"old files of {table}: time travel shows it", files[name], as_datetime(over), FILES))
        elif table.path is None and over > now:
            held.append(Holder(f"old files of {table}, which a catalog manages: not searched", None, as_datetime(over), FILES))
    if "silver" in files:
        versions = [one for one in registry.entries(log.spark, log.root, log.uuid) if one.copy is None and one.created <= at]
        held += [
            Holder(
                f"snapshot {one.id.text}, silver version {one.version}", None,
                None if one.kept_until is None else as_datetime(one.kept_until), "It expires by snapshot.retention.ms; delete it to be done sooner.",
            )
            for one in versions
        ]  # fmt: skip
    return held
