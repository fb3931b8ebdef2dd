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

from lakelog.delta import tables
from lakelog.errors import Conflict, InvalidRequest, LakelogError, Refused
from lakelog.inputs import staging
from lakelog.inputs.sources import FileOptions, requested
from lakelog.latest import erased
from lakelog.latest.progress import progress
from lakelog.log import bronze, extent, tokens
from lakelog.log.append import AppendOptions
from lakelog.log.tail import LogEnd, log_end
from lakelog.log.tokens import Token
from lakelog.model.topic_log import TopicLog
from lakelog.quality import quarantine
from lakelog.quality.conditions import first_line
from lakelog.quality.selection import ORDER, RECORD, Fix, key_text
from lakelog.results import Appended

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Append = Callable[[Any, AppendOptions], Appended]
# So many keys are named in a refusal.
NAMED = 10_000
ATTEMPTS = 5


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

    def applied(self, log: TopicLog, rows: DataFrame, count: int, now: int) -> DataFrame:
        """The mended records, with the other columns of their rows.

        Raises:
            InvalidRequest: the corrected records are not as many as were chosen.
            InvalidRecords: some of them are none.
        """
        from pyspark.sql import Window
        from pyspark.sql import functions as F

        if self.corrected is None:
            return self.fix.applied(log, rows, now)
        request = requested(log.spark, self.corrected, FileOptions(), log.types)
        with tables.door(log.name), tables.source_door():
            batch = staging.staged(log, request, now)
        if batch.records != count:
            raise InvalidRequest(
                f"{log.name}: {batch.records} corrected records for {count} chosen ones: give one for each, in the order in which they are listed."
                " Nothing was written."
            )
        place = (F.row_number().over(Window.orderBy(*ORDER)) - 1).cast("bigint")
        numbered = rows.withColumn("n", place).drop(*[name for name in RECORD if name != "partition"])
        numbered = numbered.withColumnRenamed("partition", "old_partition")
        given = batch.located().select(*RECORD, "record").withColumnRenamed("record", "corrected_record")
        return numbered.join(given, F.col("n") == F.col("corrected_record")).drop("n", "corrected_record")


def resolve(log: TopicLog, token: str, append: Append, *, now: int) -> int:
    """Settle a requeue that was cut off, or that is slow: its records are in the log and are closed, or are free again. Returns how many are in it."""
    from pyspark.sql import functions as F

    known = tokens.found(log, Token(token))
    records = known.records if known is not None else append([], AppendOptions(token=token)).records
    if records:
        quarantine.close(log, quarantine.rows(log).filter(F.col("claim") == token), quarantine.REQUEUED, note=None, token=token, now=now)
    else:
        quarantine.release(log, token)
    return records


def requeue(
    log: TopicLog, chosen: Callable[[], DataFrame], mending: Mending, append: Append, *, overwrite: bool, now: Callable[[], int]
) -> tuple[int, Mapping[int, tuple[int, int]], list[str]]:
    """Append the chosen records again, mended, and take them out of the quarantine.

    Args:
        log: the topic's log.
        chosen: the records, as they are at the moment.
        mending: how they are mended.
        append: the topic's append, without a gate where the source is empty.
        overwrite: let them overwrite newer records of their keys (under ``offset``).
        now: the clock.

    Returns:
        (how many, the offsets that they got, the keys of which they overwrote a newer record).

    Raises:
        Refused: they would overwrite newer records (WOULD_OVERWRITE); nothing was written.
        Conflict: another requeue has some of them in hand.
        What the append raises; then the records are in quarantine as they were.
    """
    from pyspark.sql import functions as F

    gone = erased.entries(log.spark, log.root, log.uuid)
    listed, chosen = chosen, lambda: erased.without(listed(), log.uuid, gone)
    finished = settled(log, chosen, append, now=now)
    token = f"requeue-{uuid.uuid4().hex}"
    count = quarantine.claim(log, chosen(), token)
    if not count:
        return finished, {}, []
    mine = quarantine.rows(log).filter(F.col("claim") == token)
    try:
        written, keys = _appended(log, mine, count, mending, append, token, overwrite=overwrite, now=now)
    except (Refused, InvalidRequest):
        quarantine.release(log, token)
        raise
    except LakelogError as error:
        resolve(log, token, append, now=now())
        raise error
    except Exception as error:
        resolve(log, token, append, now=now())
        raise InvalidRequest(f"{log.name}: the records cannot be mended so: {first_line(error)} Nothing was written.") from error
    if written.repeated and not written.records:
        raise Conflict(f"{log.name}: another command settled this requeue as if it had been cut off. Nothing was written; try again.")
    quarantine.close(log, mine, quarantine.REQUEUED, note=mending.text(), token=token, now=now())
    return count + finished, written.offsets, keys


def settled(log: TopicLog, chosen: Callable[[], DataFrame], append: Append, *, now: Callable[[], int]) -> int:
    """Settle what others have in hand of the chosen records (`resolve`). Returns how many of theirs were in the log already."""
    if not quarantine.exists(log):
        return 0
    return sum(resolve(log, token, append, now=now()) for token in quarantine.claims(log, chosen()))


def _appended(
    log: TopicLog, mine: DataFrame, count: int, mending: Mending, append: Append, token: str, *, overwrite: bool, now: Callable[[], int]
) -> tuple[Appended, list[str]]:
    """The append of what a requeue has in hand; under ``offset`` on the log's end that the check for newer records was made on."""
    from pyspark.sql import functions as F

    mended = mending.applied(log, mine, count, now())
    if "old_partition" not in mended.columns:
        mended = mended.withColumn("old_partition", F.col("partition"))
    records = mended.orderBy(*[F.col("old_partition" if name == "partition" else name) for name in ORDER]).select(*RECORD)
    if log.rule.versioned:
        return append(records, AppendOptions(token=token)), []
    for attempt in range(ATTEMPTS):
        end = log_end(log, pin=True)
        keys = newer(log, mended, end)
        if keys and not overwrite:
            shown = f"{', '.join(keys[:20])}{', …' if len(keys) > 20 else ''}"
            raise Refused(
                f"{log.name}: {len(keys)} of the records' keys have newer records, which they would overwrite: {shown}. Nothing was written."
                " Choose others (rule, key), drop these, or ask for it: requeue(…, overwrite=True).",
                name="WOULD_OVERWRITE", expected=None, actual=None, keys=keys,
            )  # fmt: skip
        try:
            return append(records, AppendOptions(expected_offset=end.ends(), token=token, epoch=end.epoch)), keys
        except Refused as error:
            if error.name not in ("EXPECTED_OFFSET_MISMATCH", "FENCED_EPOCH") or attempt == ATTEMPTS - 1:
                raise
    raise AssertionError


def newer(log: TopicLog, mended: DataFrame, end: LogEnd) -> list[str]:
    """The keys of which the log holds a record that is newer than one to be requeued: behind the place that it had, or would have had.

    A record that a restore took out of the log is older than all of a later epoch. One that a gate put aside stood in its batch behind the records
    that were let in before it; where its partition has changed, or that place is not known, the whole batch counts as newer.

    Cost: one small Spark job for the batches; one scan of silver's keys and of the part of the log that is not merged.
    """
    from pyspark.sql import functions as F

    batches = [row["batch"] for row in mended.filter(F.col("batch").isNotNull()).select("batch").distinct().collect()]
    starts = extent.batch_starts(log, batches)
    place = F.concat_ws("/", "batch", "partition")
    text = "\u0001".join(f"{batch}/{index}\u0002{start}" for (batch, index), start in starts.items())
    start = (
        F.element_at(F.str_to_map(F.lit(text), F.lit("\u0001"), F.lit("\u0002")), place).cast("bigint")
        if starts
        else F.lit(None).cast("bigint")
    )
    inside = F.when(F.col("partition") == F.col("old_partition"), F.coalesce("position", F.lit(0))).otherwise(F.lit(0))
    boundary = F.coalesce(start + inside, F.when(F.col("partition") == F.col("old_partition"), F.col("log_end")), F.lit(0))
    wanted = mended.select(
        "partition", "key", boundary.alias("boundary"), F.col("epoch").alias("old_epoch"), F.col("offset").alias("old_offset")
    )
    state = progress(log.spark, log.silver)
    held = tables.read(log.spark, log.silver, state.version).filter("bucket >= 0").select("partition", "key", "offset", "epoch")
    ends = end.ends()
    if any(stop > state.next[index] for index, stop in ends.items()):
        held = held.unionAll(bronze.between(log, state.next, ends, end.version).select("partition", "key", "offset", "epoch"))
    last = held.groupBy("partition", "key").agg(F.max(F.struct("offset", "epoch")).alias("last"))
    beyond = F.when(F.col("old_offset").isNotNull(), F.col("last.epoch") > F.col("old_epoch")).otherwise(
        F.col("last.offset") >= F.col("boundary")
    )
    found = wanted.join(last, ["partition", "key"]).filter(beyond)
    with tables.door(log.silver):
        rows = found.select(F.to_json(F.struct("key")).alias("key")).distinct().orderBy("key").limit(NAMED).collect()
    return [key_text(row["key"]) for row in rows]
