"""Records of the quarantine appended again, exactly once whatever crashes, and what such an append would overwrite.

A requeue takes records in hand (a claim, with a token of its own), appends them under that token, then closes them. Whoever finds a claim that is
not closed asks the log: it appends nothing under the same token. Either the log knows the token, then the records are in it and are closed; or
from now on it does, with no records, so that the requeue that was cut off or is slow can never append them, and they are free again.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakelog.delta import frames, tables
from lakelog.errors import Conflict, FencedEpoch, GateFailed, InvalidRecords, InvalidRequest, LakelogError, Refused
from lakelog.inputs import staging
from lakelog.inputs.sources import FileOptions, requested
from lakelog.latest import erased
from lakelog.log import tokens
from lakelog.log.append import AppendOptions
from lakelog.log.tail import LogEnd, log_end
from lakelog.log.terms import LOG_MOVED
from lakelog.log.tokens import Token
from lakelog.model.records import flat_columns
from lakelog.model.topic_log import TopicLog
from lakelog.quality import quarantine, rivals
from lakelog.quality.conditions import first_line
from lakelog.quality.selection import RECORD, Fix, order
from lakelog.results import Appended

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Append = Callable[[Any, AppendOptions], Appended]
# The rules of records that are none, and of those whose time is none.
INVALID, INVALID_TIME = "INVALID_RECORD", "INVALID_TIMESTAMP"
# So often the log may be written to while a requeue looks at it.
ATTEMPTS = 10


@dataclass(frozen=True)
class Mending:
    """How the records are mended: by a ``fix``, or by ``corrected`` ones in their place, one for each, in the order in which they are listed."""

    fix: Fix = Fix()
    corrected: Any = None

    def text(self) -> str | None:
        """What is recorded of it."""
        if self.corrected is None:
            return self.fix.text()
        return f"corrected by {self.corrected}" if isinstance(self.corrected, str) else "corrected"

    def _require_readable(self, log: TopicLog, rows: DataFrame) -> None:
        """Refuse records that could not be read, unless all of them is said anew: of what they were only ``raw`` is certain."""
        from pyspark.sql import functions as F

        said = set(self.fix.expressions)
        whole = {name for name, _, _ in flat_columns(log.types.key, log.types.value)} | {"_tombstone"}
        unread = [INVALID] * (not whole <= said) + [INVALID_TIME] * ("_timestamp" not in said)
        if not unread:
            return
        # What could be read, and was no record for another reason (no key, say), has no raw input.
        left = rows.filter("raw IS NOT NULL").filter(
            F.arrays_overlap(F.coalesce("rules", F.array().cast("array<string>")), F.array(*map(F.lit, unread)))
        )
        found = left.agg(F.count(F.lit(1)).alias("n"), F.min("reason").alias("reason")).collect()[0]
        if found["n"]:
            raise InvalidRequest(
                f"{log.name}: {found['n']} of the chosen records could not be read, for example: {found['reason']}. What is shown of them beside raw"
                " is what was left of the input, and is no record. Nothing was written. Give the records anew (corrected), or choose others (rule,"
                f" key); a fix of them sets every column ({', '.join(sorted(whole))}), of those with an INVALID_TIMESTAMP _timestamp.",
                name="INVALID_RECORD",
            )

    def applied(self, log: TopicLog, rows: DataFrame, now: int) -> DataFrame:
        """The mended records, with the other columns of their rows, and ``old_partition``: the one that they were in.

        Raises:
            InvalidRequest: the corrected records are not as many as were chosen, or expect offsets; the fix leaves something of a record that could
                not be read.
            InvalidRecords: some of them are none.
        """
        from pyspark.sql import functions as F

        rows = rows.withColumn("old_partition", F.col("partition"))
        if self.corrected is None:
            self._require_readable(log, rows)
            return self.fix.applied(log, rows, now)
        count = rows.count()
        request = requested(log.spark, self.corrected, FileOptions(), log.types)
        with tables.door(log.name), tables.source_door():
            batch = staging.staged(log, request, now)
        if batch.conditional and log.config.flag("check.expected.offsets"):
            raise InvalidRequest(
                f"{log.name}: {batch.conditional} of the corrected records expect an offset: they get new ones, in the order in which the chosen ones"
                " are listed. Nothing was written. Leave expected_offset out."
            )
        if batch.records != count:
            raise InvalidRequest(
                f"{log.name}: {batch.records} corrected records for {count} chosen ones: give one for each, in the order in which they are listed."
                " Nothing was written."
            )
        place = (F.row_number().over(frames.whole(*order())) - 1).cast("bigint")
        numbered = rows.withColumn("n", place).drop(*RECORD)
        given = batch.located().select(*RECORD, "record").withColumnRenamed("record", "corrected_record")
        return numbered.join(given, F.col("n") == F.col("corrected_record")).drop("n", "corrected_record")


def resolve(log: TopicLog, token: str, append: Append, *, now: int) -> int:
    """Settle a requeue that was cut off, or that is slow: its records are in the log and are closed, or are free again. Returns how many are in it."""
    known = tokens.found(log, Token(token))
    records = known.records if known is not None else append([], AppendOptions(token=token)).records
    if records:
        _close(log, token, now=now)
    else:
        quarantine.release(log, token)
    return records


def close_appended(log: TopicLog, *, now: int) -> None:
    """Close what requeues have in hand whose records are in the log, before a restore that is begun takes their tokens out of it.

    What else is in hand stays so: it is not in the log, and the restore keeps it from being appended until its tokens are out.

    Cost: where there is a quarantine one small Spark job, and two with a MERGE for each requeue that was cut off.
    """
    if not quarantine.exists(log):
        return
    for token in quarantine.claims(log, quarantine.rows(log)):
        known = tokens.found(log, Token(token))
        if known is not None and known.records:
            _close(log, token, now=now)


def _close(log: TopicLog, token: str, *, now: int) -> None:
    """Close what a requeue that was cut off has in hand."""
    from pyspark.sql import functions as F

    quarantine.close(log, quarantine.rows(log).filter(F.col("claim") == token), quarantine.REQUEUED, note=None, token=token, now=now)


def requeue(
    log: TopicLog, chosen: Callable[[], DataFrame], mending: Mending, append: Append, *, overwrite: bool, now: Callable[[], int]
) -> tuple[int, Mapping[int, tuple[int, int]], list[str]]:
    """Append the chosen records again, mended, and take them out of the quarantine.

    Args:
        log: the topic's log.
        chosen: the records, as they are at the moment.
        mending: how they are mended.
        append: the topic's append, without a gate where the source is empty.
        overwrite: let them overwrite newer records of their keys (`rivals.newer`).
        now: the clock.

    Returns:
        (how many, the offsets that they got, the keys of which they overwrote a newer record).

    Raises:
        Refused: they would overwrite newer records (WOULD_OVERWRITE); nothing was written.
        Conflict: another requeue has some of them in hand, or others wrote to the log again and again.
        What the append raises; then the records are in quarantine as they were.
    """
    from pyspark.sql import functions as F

    gone = erased.entries(log.spark, log.root, log.uuid)
    listed, chosen = chosen, lambda: erased.without(listed(), log.uuid, gone)
    finished = settled(log, chosen, append, now=now)
    token = f"requeue-{uuid.uuid4().hex}"
    if not quarantine.claim(log, chosen(), token):
        return finished, {}, []
    mine = quarantine.rows(log).filter(F.col("claim") == token)
    overwritten: list[str] = []
    try:
        written = _appended(log, mine, mending, append, token, overwritten, overwrite=overwrite, now=now)
    except Exception as error:
        if isinstance(error, (Refused, InvalidRequest, InvalidRecords, GateFailed)) or getattr(error, "name", None) == LOG_MOVED:
            # Said before anything was written.
            quarantine.release(log, token)
            raise
        # The log tells whether the records are in it; if not, it holds the token without any from now on.
        written = append([], AppendOptions(token=token))
        if not written.records:
            quarantine.release(log, token)
            if isinstance(error, LakelogError):
                raise
            raise _unmendable(log, error) from error
    if written.repeated and not written.records:
        raise Conflict(f"{log.name}: another command settled this requeue as if it had been cut off. Nothing was written; try again.")
    quarantine.close(log, mine, quarantine.REQUEUED, note=mending.text(), token=token, now=now())
    return written.records + finished, written.offsets, overwritten


def would_overwrite(log: TopicLog, rows: DataFrame, mending: Mending, end: LogEnd, *, now: int) -> list[str]:
    """The keys of which a requeue of these rows would overwrite newer records.

    Raises:
        InvalidRequest: they cannot be mended so.
    """
    try:
        return rivals.newer(log, mending.applied(log, rows, now), end)
    except LakelogError:
        raise
    except Exception as error:
        raise _unmendable(log, error) from error


def _unmendable(log: TopicLog, error: Exception) -> InvalidRequest:
    """The refusal of a fix that raised when records were read."""
    return InvalidRequest(f"{log.name}: the records cannot be mended so: {first_line(error)} Nothing was written.")


def settled(log: TopicLog, chosen: Callable[[], DataFrame], append: Append, *, now: Callable[[], int]) -> int:
    """Settle what others have in hand of the chosen records (`resolve`). Returns how many of theirs were in the log already."""
    if not quarantine.exists(log):
        return 0
    return sum(resolve(log, token, append, now=now()) for token in quarantine.claims(log, chosen()))


def drop(log: TopicLog, chosen: Callable[[], DataFrame], reason: str, append: Append, *, now: Callable[[], int]) -> int:
    """Take the chosen records out of the quarantine for good; those that a requeue has in hand are left to it. Returns how many were dropped."""
    from pyspark.sql import functions as F

    settled(log, chosen, append, now=now)
    if not chosen().count():
        return 0
    token = f"drop-{uuid.uuid4().hex}"
    quarantine.close(log, chosen(), quarantine.DROPPED, note=reason, token=token, now=now())
    return quarantine.rows(log, closed=True).filter(F.col("claim") == token).count()


def _appended(
    log: TopicLog, mine: DataFrame, mending: Mending, append: Append, token: str, overwritten: list[str], *, overwrite: bool,
    now: Callable[[], int],
) -> Appended:  # fmt: skip
    """The append of what a requeue has in hand, on the log as it was when that was looked at: erasures, and newer records of the keys.

    ``overwritten`` becomes those keys before the append, which may raise after its commit.
    """
    for attempt in range(ATTEMPTS):
        # In this order: an erasure that ends later moves the log's state, and is seen by the append.
        end = log_end(log, pin=True)
        held = erased.without(mine, log.uuid, erased.entries(log.spark, log.root, log.uuid))
        mended = mending.applied(log, held, now())
        keys = rivals.newer(log, mended, end)
        if keys and not overwrite:
            shown = f"{', '.join(keys[:20])}{', …' if len(keys) > 20 else ''}"
            raise Refused(
                f"{log.name}: {len(keys)} of the records' keys have newer records, which they would overwrite: {shown}. Nothing was written."
                " Choose others (rule, key), drop these, or ask for it: the same with overwrite=True.",
                name="WOULD_OVERWRITE", expected=None, actual=None, keys=keys,
            )  # fmt: skip
        records = mended.orderBy(*order("old_partition")).select(*RECORD)
        overwritten[:] = keys
        try:
            return append(records, AppendOptions(token=token, as_of=end))
        except (Conflict, Refused) as error:
            if error.name not in (LOG_MOVED, FencedEpoch.name) or attempt == ATTEMPTS - 1:
                raise
    raise AssertionError
