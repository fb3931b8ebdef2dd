"""Answers about sources, runs, snapshots, restores, truncations, maintenance, cleaning and quality as text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from lakelog.terminal.output import cell, count, created, line, say, spans, table

if TYPE_CHECKING:
    from lakelog.cleaning_results import Cleaned, Erased, Explained, ExplainedRecord, RecordsDeleted, SegmentCleaning, WhatIf
    from lakelog.quality_results import Dropped, Initialized, Requeued, Verdict
    from lakelog.reader_results import Imported, Truncated
    from lakelog.results import Maintained, Restored, Snapshot, SnapshotDeleted
    from lakelog.running_results import Step, Taken

# What becomes of tombstones, in words.
TOMBSTONES = {
    "stamped": ("tombstone", "given a delete horizon"), "expired": ("tombstone", "expired"), "forgotten": ("remembered version", "forgotten"),
}  # fmt: skip


def snapshot_taken(result: Snapshot) -> None:
    """One line about a snapshot that was taken, or was there."""
    known = "took snapshot" if result.created else "has snapshot" if result.created_at else "took no snapshot: the log begins above"
    name = f"{result.name} ({result.id})" if result.name else result.id
    line(f"{result.topic}: {known} {name}, silver version {result.version}{_kept(result)}")


def _kept(result: Snapshot) -> str:
    return "" if result.name is None else f", kept {until(result)}"


def until(result: Snapshot) -> str:
    """Until when a snapshot is kept, in words."""
    if result.kept_until is None:
        return "by retention"
    return "for ever" if result.kept_until.year == 9999 else f"until {result.kept_until:%Y-%m-%d %H:%M} UTC"


def snapshots(found: Sequence[Snapshot]) -> None:
    """A line a snapshot."""
    columns = ["topic", "name", "id", "version", "form", "created", "kept", "note"]
    table(columns, [[one.topic, one.name or "-", one.id, f"v{one.version}", one.form, f"{one.created_at:%Y-%m-%d %H:%M}", until(one),
                     one.note or ""] for one in found])  # fmt: skip


def snapshot(result: Snapshot) -> None:
    """One snapshot: a fact a line."""
    facts = {
        "topic": result.topic, "name": result.name or "-", "id": result.id, "epoch": result.epoch,
        "contains": ", ".join(f"partition {index} up to offset {end}" for index, end in sorted(result.ends.items())),
        "rule": result.rule, "created": f"{result.created_at:%Y-%m-%d %H:%M} UTC" + (" by a merge" if result.automatic else ""),
        "kept": until(result), "form": f"silver version {result.version}" if result.table is None else f"a table of its own, {result.table}",
        "note": result.note or "-",
    }  # fmt: skip
    for name, told in facts.items():
        line(f"{name:<12}{told}")


def snapshot_deleted(result: SnapshotDeleted) -> None:
    """One line about a snapshot that went, or would go."""
    name = f"{result.name} ({result.id})" if result.name else result.id
    line(f"{result.topic}: {'would delete' if result.dry_run else 'deleted'} snapshot {name}")
    if result.warning is not None:
        say(f"{result.topic}: {result.warning}: lakelog snapshot create {result.topic}")


def restored(result: Restored, *, line: Callable[[str], None] = line) -> None:
    """What a restore did, or would do; a dry run with counts."""
    name = result.to if result.to == result.id else f"{result.to} ({result.id})"
    if result.repeated:
        return line(f"{result.topic}: is at {name} already, nothing was done")
    log = f"log {'cut' if result.log == 'truncate' else 'kept'}, epoch {result.epoch}"
    line(f"{result.topic}: {'would restore' if result.dry_run else 'restored'} to {name}, silver version {result.version}; {log}")
    if result.dry_run:
        line(f"  keys: {result.added} will come back, {result.changed} will change, {result.removed} will go")
    if result.leaving:
        leave = f"{count(result.records or 0, 'record')} would leave" if result.dry_run else "left"
        line(f"  {leave} the log for quarantine{spans(result.leaving)}")
    if result.anew:
        line(f"  the log starts anew there in partition {', '.join(map(str, result.anew))}: it no longer holds every row of the snapshot")
    if result.replay:
        line(f"  the next merge replays {count(result.replay_records, 'record')}{spans(result.replay)}")
    if result.readers:
        line(f"  readers that have read what leaves the log: {', '.join(result.readers)}")
    if result.later:
        line(f"  snapshots that lie after it, and stay: {', '.join(result.later)}")
    return None


def imported(result: Imported) -> None:
    """A topic made of an export: its rows, where its log begins and ends, and what waits for a merge."""
    created(result)
    shown = [f"[{start}, {result.ends[index]}) of partition {index}" for index, start in sorted(result.starts.items())]
    log = ", ".join(shown[:4]) + (f" and of {len(shown) - 4} more" if len(shown) > 4 else "")
    line(f"  {count(result.live, 'live row')}, {count(result.tombstones, 'tombstone')}; the log has offsets {log}")
    waiting = f"{count(result.unmerged_records, 'record')} not merged yet: the next merge folds {'it' if result.unmerged_records == 1 else 'them'}"
    line(f"  {waiting if result.unmerged_records else 'every record is merged'}")


def maintained(result: Maintained) -> None:
    """What a maintenance did."""
    done = [f"{removed} files of {name} written together as {added}" for name, (removed, added) in sorted(result.files.items())]
    done += [f"expired: {', '.join(result.expired)}"] * bool(result.expired)
    done += [f"given a table of their own: {', '.join(result.promoted)}"] * bool(result.promoted)
    done += [f"{count(len(result.dropped), 'copy')} dropped".replace("copys", "copies")] * bool(result.dropped)
    line(f"{result.topic}: maintained; {'; '.join([*done, f'{len(result.vacuumed)} tables vacuumed'])}")


def taken(result: Taken) -> None:
    """One line about what was taken of a source, and on stderr what was passed over."""
    known = f" ({count(result.known, 'file')} taken before)" if result.known else ""
    if result.batches:
        what = count(result.files, result.kind)
        line(f"{result.topic}: appended {count(result.records, 'record')} of {what} from {result.source}{known}{spans(result.offsets)}")
    else:
        line(f"{result.topic}: nothing new in {result.source}{known}")
    if result.quarantined:
        say(f"{count(result.quarantined, 'record')} put aside: lakelog quarantine list {result.topic}")
    if result.passed_over:
        more = f" and {len(result.passed_over) - 3} more" if len(result.passed_over) > 3 else ""
        say(f"Passed over, since they are empty or still being written: {', '.join(result.passed_over[:3])}{more}")


def step(topic: str, done: Step) -> str:
    """One line about a step of a run."""
    report, told = done.report or {}, done.why or done.outcome
    if done.step == "append" and done.outcome == "done":
        taken = {kind: sum(one["files"] for one in report["sources"] if one["kind"] == kind) for kind in ("file", "version", "range")}
        of = " and ".join(count(number, kind) for kind, number in taken.items() if number)
        told = f"{count(sum(one['records'] for one in report['sources']), 'record')} of {of}"
    elif done.outcome == "done":
        told = {
            "merge": lambda: f"{count(report['records'], 'record')} into version {report['version']}: {report['inserted']} inserted,"
            f" {report['updated']} updated, {report['deleted']} deleted",
            "snapshot": lambda: f"took {report['id']}",
            "clean": lambda: f"log {report['octets_before']:,} -> {report['octets_after']:,} B",
            "check": lambda: f"{report['outcome']}, version {report['version']}",
        }[done.step]()  # fmt: skip
    return f"{topic}: {done.step}: {told} ({done.seconds:.1f} s)"


def cleaned(result: Cleaned) -> None:
    """What a clean did, or would do: a line, then one a partition and one a segment from which something goes."""
    done = [f"{count(result.records, 'record')} {'would go' if result.dry_run else 'removed'}"]
    done += [f"{count(result.past_retention, 'record')} past retention"] * bool(result.past_retention)
    done += [f"{count(getattr(result, name), noun)} {what}" for name, (noun, what) in TOMBSTONES.items() if getattr(result, name)]
    size = f"log {result.octets_before:,} -> {result.octets_after:,} B"
    line(f"{result.topic}: {'would clean' if result.dry_run else 'cleaned'}: {', '.join(done)}; {size}")
    for one in result.partitions:
        start = f", log start {one.from_start} -> {one.to_start}" if one.to_start > one.from_start else ""
        why = f"cleaned ({one.reason})" if one.selected else f"not cleaned ({one.reason})"
        dirty = f"dirty {one.dirty_ratio:.0%} of {count(one.clean_octets + one.cleanable_octets, 'octet')}"
        line(f"  partition {one.partition}: {why}, {dirty}{start}")
        for segment in one.segments:
            told = _segment(segment)
            if told:
                line(f"    segment [{segment.base}, {segment.end}): {told}")
        for text in one.blocked_by:
            line(f"    held: {text}")
        if one.error:
            line(f"    failed: {one.error}")


def _segment(segment: SegmentCleaning) -> str:
    if segment.past_retention:
        return f"{segment.past_retention} past retention, the whole segment"
    gone = {"superseded": segment.superseded, "tombstones expired": segment.expired, "without a key": segment.unkeyed}
    told = [f"{number} {name}" for name, number in gone.items() if number]
    left = segment.records - segment.dropped
    return (
        f"{', '.join(told)}, {left} stay"
        if told
        else ""
        if segment.kept_because in (None, "not-selected")
        else f"kept ({segment.kept_because})"
    )


def truncated(result: Truncated, *, line: Callable[[str], None] = line) -> None:
    """One line about a log that was truncated, or would be; where that would be refused, the refusal first."""
    starts = ", ".join(f"{index}: {start} (from {result.from_offsets[index]})" for index, start in result.to_offsets.items())
    segments = f", {count(result.segments, 'segment')} as whole directories" if result.segments else ""
    what = f"{count(result.records, 'record')} ({count(result.octets, 'octet')}{segments})"
    if result.refusal is not None:
        line(f"{result.topic}: would be refused (LOG_HELD): {result.refusal}")
        line(f"  were it not needed: {what} would go, and the log would start at {starts}")
    else:
        line(f"{result.topic}: {'would remove' if result.dry_run else 'removed'} {what}; the log starts at {starts}")


def records_deleted(result: RecordsDeleted, *, line: Callable[[str], None] = line) -> None:
    """One line about a log start that was moved, or would be."""
    would = "would remove" if result.dry_run else "removed"
    start = f"the log of partition {result.partition} starts at {result.to_offset} (from {result.from_offset})"
    line(f"{result.topic}: {would} {count(result.records, 'record')}; {start}")


def erased(result: Erased, *, line: Callable[[str], None] = line) -> None:
    """The receipt of an erased key: what was removed, or would be, and what still holds it until when."""
    done = [f"{count(rows, 'row')} of {name}" for name, rows in result.removed.items() if rows]
    shots = [f"{count(len(result.snapshots), 'snapshot')} ({', '.join(result.snapshots)})"] * bool(result.snapshots)
    what = "would erase" if result.dry_run else "erased"
    line(f"{result.topic}: {what} {', '.join([*done, *shots]) or 'nothing: no such key'}; key digest {result.digest[:16]}")
    if result.dry_run:
        return
    if result.erased_at is not None:
        line(
            f"  on the list of erased keys since {result.erased_at:%Y-%m-%d %H:%M} UTC: no restore, import or requeue brings its old records back"
        )
    for one in result.held:
        files = "" if one.files is None else f" ({count(one.files, 'file')})"
        until = "" if one.until is None else f" until {one.until:%Y-%m-%d %H:%M} UTC"
        line(f"  still held by {one.where}{files}{until}. {one.remedy}")
    if result.unread:
        line(f"  not searched: {count(result.unread, 'row')} of the quarantine that are no records; look at them with quarantine list")
    if result.complete:
        line("  complete: no table, snapshot or old file of the topic holds it")


# Why a record is not the latest of its key, and what the cleaner does with it, in words.
REASONS = {
    "older-version": "older version than", "no-version": "no version, unlike", "earlier-offset": "before", "before-unversioned-delete":
    "before the delete, and so behind",
}  # fmt: skip
ACTIONS = {
    "latest-stays": "stays: the latest", "tombstone-waits-for-a-clean": "a clean sets its time", "tombstone-goes-at": "goes from",
    "goes-with-the-next-clean": "goes with the next clean", "goes-when-dirty-enough": "goes when dirty enough", "active":
    "stays: active segment", "min-compaction-lag": "stays: too young until", "policy": "stays: cleanup.policy", "gone": "has left the log",
}  # fmt: skip


def explained(result: Explained) -> None:
    """A table of the key's records, by partition."""
    under = f"{'if the rule were' if result.hypothetical else 'rule'} {result.rule}"
    if not result.partitions:
        line(f"{result.topic}, key {cell(result.key)} ({under}): no record of it in the log, and none in the latest table")
    for one in result.partitions:
        latest = "no row in the latest table" if one.latest_offset is None else f"the latest table has offset {one.latest_offset}"
        line(f"{result.topic}, key {cell(result.key)}, partition {one.partition} ({under}): {latest}, merged up to {one.merged_to}")
        columns = ["offset", "timestamp", "version", "value", "is", "cleaner"]
        table(columns, [[record.offset, f"{record.timestamp:%Y-%m-%d %H:%M:%S}", "-" if record.version is None else record.version,
                         "tombstone" if record.tombstone else record.value, _outcome(record), _action(record)] for record in one.records])  # fmt: skip
        if one.cleaned:
            line(f"  Below offset {one.cleaned} the log was cleaned: records that are not the latest may have left it.")


def _outcome(record: ExplainedRecord) -> str:
    words = "the latest" if record.reason is None else f"{REASONS[record.reason]} {record.lost_to}"
    if record.late_behind is not None:
        words += ", late" if record.late_behind == record.lost_to else f", late behind {record.late_behind}"
    return words + ("" if record.merged else ", not merged yet") + (", version unusable" if record.invalid else "")


def _action(record: ExplainedRecord) -> str:
    at = "" if record.cleaner_at is None else f" {record.cleaner_at:%Y-%m-%d %H:%M}"
    return ACTIONS[record.cleaner] + at


def what_if(result: WhatIf) -> None:
    """How many keys another rule would give another record, and the first of them."""
    line(
        f"{result.topic}: under {result.to_rule} in place of {result.from_rule}, {result.changed} of {count(result.keys, 'key')} would have"
        f" another record; {result.deleted} would be deleted, {result.live_again} live again"
    )
    if result.examples:
        columns = ["partition", "key", "offset now", "offset then"]
        table(columns, [[one["partition"], one["key"], one["from_offset"], one["to_offset"]] for one in result.examples])
    if result.incomplete:
        places = ", ".join(map(str, result.incomplete))
        say(
            f"The log of partition {places} no longer holds every record: what left it could not be compared, and the rule cannot be changed."
        )


def requeued(result: Requeued) -> None:
    """One line about records that were appended again."""
    line(f"{result.topic}: {'would requeue' if result.dry_run else 'requeued'} {count(result.records, 'record')}{spans(result.offsets)}")
    if result.overwritten:
        say(f"Newer records of these keys {'would be' if result.dry_run else 'were'} overwritten: {', '.join(result.overwritten[:20])}.")


def dropped(result: Dropped) -> None:
    """One line about records that left the quarantine for good."""
    line(f"{result.topic}: {'would drop' if result.dry_run else 'dropped'} {count(result.records, 'record')}: {result.reason}")


def initialized(result: Initialized) -> None:
    """The files of a starting set of suites."""
    line(f"{result.topic}: wrote {count(len(result.files), 'file')} with suites to {result.folder}")
    for name in result.files:
        line(f"  {name}")
    for name in result.kept:
        line(f"  {name} was there and stays")
    if result.left_out:
        line(f"  no room at a door for {count(len(result.left_out), 'rule')} more, join some with AND: {', '.join(result.left_out[:9])} …")


def verdict(result: Verdict) -> None:
    """A verdict: one line, then one for each rule that did not pass."""
    from lakelog.quality_results import PASSED

    passed = len(result.of(PASSED))
    version = "" if result.version is None else f" of version {result.version}"
    line(f"{result.topic}: {result.outcome}: {passed} of {count(len(result.findings), 'rule')} passed, audit{version}, run {result.run}")
    for one in result.findings:
        if one.outcome != PASSED:
            keys = f"; keys: {', '.join(cell(key) for key in one.keys)}" if one.keys else ""
            line(f"  {one.outcome} ({one.severity}) {one.rule}: {one.description}: {cell(one.observed)}{keys}")
