"""The one statement of an append: an INSERT whose guard reads the tail of the log inside the same transaction (KIP-27's compare and set).

The newest record of every partition it touches must still be the one before ours, and its state row the one we know. Plain Delta appends never
conflict with each other; this one does, with whatever adds to those tails (SEMANTICS 81).
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING

from lakelog.delta import commit_file, table_properties, tables
from lakelog.delta.errors import LOG_GONE, condition_of, first_line, raised
from lakelog.delta.statement import FEW, committing, interpreted
from lakelog.delta.table_properties import IDENTITY
from lakelog.errors import OUTCOME_UNKNOWN, Damaged, NotFound, TopicNotFound
from lakelog.log.rows import STATE_SEGMENT, any_of, log_rows
from lakelog.log.tokens import TOKEN_PARTITION, Token
from lakelog.model.names import TableRef, literal, quoted
from lakelog.model.segments import Piece, Tail
from lakelog.model.topic_log import TopicLog

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# The state rows are no longer those known: the statement stops before anything is committed.
STATE_MOVED = "LAKELOG_STATE_MOVED"


def condition(rows: str, log: TopicLog, tails: Mapping[int, Tail], token: Token | None, now: int) -> str:
    """The condition of the INSERT, one scalar subquery over bronze (``rows``) with literal partitions: last records and state rows as known.

    The partitions are the scope of conflicts. With a token, that bronze does not remember it, too. Where there are no state rows, or those
    of another topic, it raises: an append to a path would make a table there.

    Rows are known by offset *and* batch: after a RESTORE by hand an offset may be another record's. ``segment >= s`` and not a list of
    segments: a racer that rolls to a new one must be seen. It reads the last record itself: "nothing at or above" would read no file and
    let a truncation slip in between.
    """
    from_segment, from_offset = min(tail.segment for tail in tails.values()), min(tail.end for tail in tails.values()) - 1
    begun = sum(1 for tail in tails.values() if tail.batch is not None)
    beyond = f"offset - {_by_partition({index: tail.end for index, tail in tails.items()})}"
    batch = _by_partition({index: literal(tail.batch or "") for index, tail in tails.items()})
    last_record = f"segment >= 0 AND {beyond} = -1 AND batch = {batch}"
    holds = (
        f"(SELECT if({_gone(log)}, CAST(raise_error('{LOG_GONE}') AS BOOLEAN),"  # noqa: S608
        f" coalesce(max(if(segment >= 0, {beyond}, NULL)), -1) = -1"
        f" AND size(collect_set(if({last_record}, `partition`, NULL))) = {begun}"
        f" AND {states_hold(tails)})"
        f" FROM {rows} WHERE partition IN ({', '.join(map(str, tails))}) AND (segment = {STATE_SEGMENT} OR segment >= {from_segment})"
        f" AND (segment = {STATE_SEGMENT} OR {beyond} >= -1) AND (offset < 0 OR offset >= {from_offset}))"
    )
    return holds if token is None else f"{holds} AND {token.guard(rows, log, now)}"


def state_condition(rows: str, log: TopicLog, tails: Mapping[int, Tail]) -> str:
    """The condition of a change of state: the newest state rows of these partitions are as known. Appends in flight conflict with the change."""
    return (
        f"(SELECT if({_gone(log)}, CAST(raise_error('{LOG_GONE}') AS BOOLEAN), {states_hold(tails)})"  # noqa: S608
        f" FROM {rows} WHERE partition IN ({', '.join(map(str, tails))}) AND segment = {STATE_SEGMENT})"
    )


def insisted(rows: str, tails: Mapping[int, Tail]) -> str:
    """`state_condition` as a condition that holds, or stops the statement with `STATE_MOVED`: for one that removes without a row to write."""
    return (
        f"(SELECT if(coalesce({states_hold(tails)}, false), true, CAST(raise_error('{STATE_MOVED}') AS BOOLEAN))"  # noqa: S608
        f" FROM {rows} WHERE partition IN ({', '.join(map(str, tails))}) AND segment = {STATE_SEGMENT})"
    )


def _gone(log: TopicLog) -> str:
    """Whether there are no state rows, or those of another topic."""
    state = f"segment = {STATE_SEGMENT}"
    return f"max(if({state}, offset, NULL)) IS NULL OR max({state} AND get_json_object(control, '$.topic') != {literal(log.uuid)})"


def states_hold(tails: Mapping[int, Tail]) -> str:
    """The condition, an aggregate over state rows in SQL, that the newest one of each partition is the one known."""
    offset = _by_partition({index: tail.state.row_offset for index, tail in tails.items()})
    batch = _by_partition({index: literal(tail.state.batch) for index, tail in tails.items()})
    state = f"segment = {STATE_SEGMENT}"
    return (
        f"min(if({state}, offset - {offset}, NULL)) = 0"
        f" AND size(collect_set(if({state} AND offset = {offset} AND coalesce(batch, '') = {batch}, `partition`, NULL))) = {len(tails)}"
    )


def _by_partition(values: Mapping[int, object]) -> str:
    """A value that depends on a row's partition, in SQL."""
    if len(set(values.values())) == 1:
        return str(next(iter(values.values())))
    return f"CASE `partition` {' '.join(f'WHEN {index} THEN {value}' for index, value in values.items())} END"


def insert(
    log: TopicLog,
    rows: DataFrame,
    tails: Mapping[int, Tail],
    token: Token | None,
    *,
    now: int,
    count: int,
    user_metadata: str,
    of_state: bool = False,
) -> int | None:
    """Append rows to bronze if it still ends as known, as one transaction: Delta aborts it when a commit since then touched what it read.

    Args:
        log: the topic's log.
        rows: exactly bronze's columns.
        tails: the ends of the partitions that the request touches, as known.
        token: not to be in the log.
        now: the append's time in milliseconds.
        count: how many rows they are.
        user_metadata: what the commit carries.
        of_state: the rows change the log's state: only that must be as known, not the log's end.

    Returns:
        The version of the commit, or None when the condition did not hold: then there is no commit.

    Raises:
        TopicNotFound: the log is gone, or another topic's; nothing was written.
        Conflict: a commit of another writer got in between.
        Damaged: not ``count`` rows were written: what they are read from lost records meanwhile.
        Whatever it raises, the commit may be there: the answer of the storage may have been lost (`landed`).

    Cost: one Spark job for the guard, one for the write; one look of Delta at the log under a path (the start of the transaction), three in
    a catalog.
    """
    spark, table = log.spark, log.table
    view = f"lakelog_{uuid.uuid4().hex}"
    rows.createOrReplaceTempView(view)
    try:
        with committing(spark, table), tables.door(table), interpreted(spark, count <= FEW):
            # A folder that is not seen may be there all the same, where a mounted file system remembers what it saw.
            if commit_file.is_gone(spark, table) and (table_properties.read(spark, table) or {}).get(IDENTITY) != log.uuid:
                raise _deleted(table)
            tables.forget_version(spark)
            log_rows(log).createOrReplaceTempView(f"{view}_log")
            known = quoted(f"{view}_log")
            holds = state_condition(known, log, tails) if of_state else condition(known, log, tails, token, now)
            guarded = spark.sql(f"SELECT * FROM {quoted(view)} WHERE {holds}")  # noqa: S608
            found = _appended(guarded, table, user_metadata)
            if not found:
                return None
            version = tables.version_committed(spark, table, user_metadata)
    except Exception as error:
        if not raised(error, LOG_GONE):
            raise
        if (table_properties.read(spark, table) or {}).get(IDENTITY) != log.uuid:
            raise _deleted(table) from error
        return None
    finally:
        spark.catalog.dropTempView(view)
        spark.catalog.dropTempView(f"{view}_log")
    if found != count:
        raise Damaged(
            f"{table}: version {version} holds {found} rows instead of {count}: the source lost records while it was appended. Take"
            f" that commit back (RESTORE to version {version - 1}) before anything else is appended, run verify with repair, then append again.",
            version=version, expected=count, actual=found,
        )  # fmt: skip
    return version


def landed(
    log: TopicLog, pieces: Mapping[int, Piece], token: Token | None, batch_id: str, *, user_metadata: str, error: Exception
) -> int | None:
    """The version in which the batch of an append is in the log, whatever its `insert` raised; None where it is not there.

    Args:
        log: the topic's log.
        pieces: where its records were to be.
        token: the token of the append.
        batch_id: the identity of the batch, in each of its rows.
        user_metadata: what the commit carries.
        error: what was raised.

    Raises:
        NotFound: there is no log any more.
        Damaged: the log cannot be read, so that nobody can tell (OUTCOME_UNKNOWN).

    Cost: one small Spark job; files outside of the places of these rows are skipped by their statistics.
    """
    from pyspark.sql import functions as F

    partition, segment = F.col("partition"), F.col("segment")
    places = [(partition == index) & (segment == piece.segment) & (F.col("offset") == piece.end - 1) for index, piece in pieces.items()]
    if token is not None:
        places.append((partition == TOKEN_PARTITION) & (segment == token.segment))
    try:
        with tables.door(log.table), interpreted(log.spark):
            if not log_rows(log).filter(any_of(places) & (F.col("batch") == batch_id)).limit(1).count():
                return None
        return tables.version_committed(log.spark, log.table, user_metadata)
    except NotFound:
        raise
    except Exception as unknown:
        raise Damaged(
            f"{log.table}: the append failed ({first_line(error)}), and whether its batch is in the log cannot be looked up"
            f" ({first_line(unknown)}). When the log can be read again: with a token or expected offsets repeat the append, it is written once;"
            f" without look first whether the log's table has rows with batch = '{batch_id}'.", name=OUTCOME_UNKNOWN, batch=batch_id,
        ) from error  # fmt: skip


def _appended(rows: DataFrame, table: TableRef, user_metadata: str) -> int:
    """Append rows; how many they were. Under a path no name of the table is looked up, but where its types were widened meanwhile."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as F

    def observed() -> tuple[Observation, DataFrame]:
        written = Observation()
        return written, rows.observe(written, F.count(F.lit(1)).alias("rows"))

    written, frame = observed()
    if table.path is not None:
        try:
            frame.write.format("delta").mode("append").option("userMetadata", user_metadata).save(table.path)
            return int(written.get["rows"])
        except Exception as error:
            if not condition_of(error).startswith("DELTA_FAILED_TO_MERGE_FIELDS"):
                raise
        written, frame = observed()
    # By name, types are cast.
    frame.writeTo(table.sql()).option("userMetadata", user_metadata).append()
    return int(written.get["rows"])


def _deleted(table: TableRef) -> TopicNotFound:
    return TopicNotFound(f"{table}: the topic was deleted while the append ran. Nothing was written.")
