"""A request made ready: validated record by record, evaluated once, kept, and summed up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lakelog.delta import frames, tables
from lakelog.errors import InvalidRequest
from lakelog.inputs import screening
from lakelog.inputs.groups import grouped, of_file, positions_of, require_each_file_once
from lakelog.inputs.refusal import listing, refused
from lakelog.inputs.request import Request
from lakelog.inputs.screening import Group, Screening
from lakelog.inputs.sources import ORDER
from lakelog.model.config import LONG_MAX, TopicConfig
from lakelog.model.expectations import UNCONDITIONAL
from lakelog.model.records import any_set, header_octets, instant, looked_up, octets
from lakelog.model.row_rules import BROKEN, RowRules, judged
from lakelog.model.segments import Share
from lakelog.model.topic_log import TopicLog

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row


def partition_of(log: TopicLog, key: Column) -> Column:
    """The partition of a record that is given to none: by the hash of its key."""
    from pyspark.sql import functions as F

    return F.lit(0) if log.partitions == 1 else F.pmod(F.xxhash64(key), F.lit(log.partitions)).cast("int")


def validated(log: TopicLog, request: DataFrame, now: int) -> DataFrame:
    """The request with partitions given, sizes counted, nulls made tombstones, and the first problem of each record named (SEMANTICS 1.9)."""
    from pyspark.sql import functions as F

    config = log.config
    stamp = instant(now, "row_order")
    size = F.expr(f"{octets('key', log.types.key)} + {octets('value', log.types.value)}") + header_octets(F.col("headers"))
    keyless = F.lit(config.policy("compact"))
    problem = F.when(keyless & F.col("key").isNull(), "INVALID_RECORD\thas no key, and the log is compacted by key")
    problem = problem.when(
        F.col("key").isNotNull() & ~F.expr(any_set("key", log.types.key)), "INVALID_RECORD\thas a key whose fields are all null"
    )
    problem = problem.when(
        ~F.col("partition").between(0, log.partitions - 1),
        F.concat(F.lit(f"INVALID_RECORD\tpartition should be from 0 to {log.partitions - 1} but is "), F.col("partition").cast("string")),
    )
    if config.flag("tombstone.strict"):
        problem = problem.when(
            F.col("value").isNull() & ~F.col("tombstone"), "INVALID_RECORD\thas a null value without the tombstone flag (tombstone.strict)"
        )
    if config.text("compaction.header.invalid") == "reject":
        problem = problem.when(
            log.rule.invalid_version(),
            f"INVALID_RECORD\tthe header {log.rule.header} is no version in {log.rule.encoding} (compaction.header.invalid=reject)",
        )
    created = config.text("message.timestamp.type") == "CreateTime"
    late = _window_problem(now, config) if created else F.lit(None).cast("string")
    large = F.when(
        size > config.number("max.message.bytes"),
        F.concat(
            F.lit("MESSAGE_TOO_LARGE\thas "),
            size.cast("string"),
            F.lit(f" octets, more than max.message.bytes={config.number('max.message.bytes')}"),
        ),
    )
    return request.select(
        *ORDER, "line", F.coalesce("partition", partition_of(log, F.col("key"))).alias("partition"), "key", "value", "headers",
        (F.coalesce("timestamp", stamp) if created else stamp).alias("timestamp"), F.col("timestamp").isNotNull().alias("stamped"),
        (F.col("tombstone") | F.col("value").isNull()).alias("tombstone"), "expected_offset", size.alias("octets"),
        F.coalesce("problem", late, problem, large).alias("problem"), "raw",
    )  # fmt: skip


def _window_problem(now: int, config: TopicConfig) -> Column:
    from pyspark.sql import functions as F

    before, after = config.number("message.timestamp.before.max.ms"), config.number("message.timestamp.after.max.ms")
    ms = F.unix_millis("timestamp")
    problem = F.when(F.lit(False), "")
    bounds = [("before", ms < F.lit(now - before), before)] if before < LONG_MAX else []
    bounds += [("after", ms > F.lit(min(now + after, LONG_MAX)), after)] if after < LONG_MAX else []
    for side, outside, span in bounds:
        setting = f"message.timestamp.{side}.max.ms"
        says = F.concat(
            F.lit("INVALID_TIMESTAMP\ttimestamp "), ms.cast("string"), F.lit(" ("), F.date_format(F.col("timestamp"), "yyyy-MM-dd HH:mm:ss"),
            F.lit(f") lies more than {setting}={span} {side} now, which is {now}: correct it, or raise that setting"),
        )  # fmt: skip
        problem = problem.when((ms != -1) & outside, says)
    return problem


@dataclass(frozen=True)
class Batch:
    """A staged request that may be written: its rows, its share of each partition, and where groups of rows begin.

    ``bases`` are (src, block, Spark partition, what makes a ``row_order`` of that group its position in the request, the group's last position);
    ``conditional`` counts the records that expect an offset. ``screening``: what row rules found, where there are any; records that they
    keep out are not among ``rows``. ``assumed``: the rules that keep records out are left to the write, which fails (SOURCE_CHANGED, or what a
    rule raises) where a record breaks one.
    """

    rows: DataFrame
    shares: dict[int, Share]
    bases: list[tuple[Any, ...]]
    records: int
    conditional: int = 0
    screening: Screening | None = None
    assumed: bool = False

    def located(self) -> DataFrame:
        """The rows with ``record``, the position in the request, and ``position``, the one in the partition's share.

        Cost: one partition, none; several, one shuffle and sort by partition.
        """
        from pyspark.sql import Window
        from pyspark.sql import functions as F

        task, by_task = F.shiftright("row_order", 33), {group[2]: group[3:] for group in self.bases}
        if len(by_task) == len(self.bases):
            rows = self.rows
            base, last = (
                looked_up([by_task.get(number, (0, -1))[place] for number in range(max(by_task, default=0) + 1)], task.cast("int"))
                for place in (0, 1)
            )
        else:
            ddl = "b_src STRING, b_block BIGINT, b_task BIGINT, b_base BIGINT, b_last BIGINT"
            frame = frames.small_frame(self.rows.sparkSession, ddl, self.bases)
            same_group = F.col("src").eqNullSafe(F.col("b_src")) & (F.col("block") == F.col("b_block")) & (task == F.col("b_task"))
            rows, base, last = self.rows.join(F.broadcast(frame), same_group, "left"), F.col("b_base"), F.col("b_last")
        # A source that gives other rows when it is read again, or rows that would have been refused, fails here, before anything is committed.
        position = F.col("row_order") + base
        changed = F.raise_error(F.lit(tables.SOURCE_CHANGED)).cast("bigint")
        as_checked = (position <= last) & F.col("problem").isNull()
        if not self.conditional:
            as_checked = as_checked & (F.coalesce("expected_offset", F.lit(UNCONDITIONAL)) <= UNCONDITIONAL)
        rows = rows.withColumn("record", F.when(as_checked, position).otherwise(changed))
        if len(self.shares) == 1:
            return rows.withColumn("position", F.col("record"))
        return rows.withColumn("position", F.row_number().over(Window.partitionBy("partition").orderBy("record")).cast("bigint") - 1)


def staged(log: TopicLog, request: Request, now: int, *, listed: int = 20, rules: RowRules | None = None, assume: bool = False) -> Batch:
    """Sum a request up, so that what is counted here is what is written later.

    A frame is evaluated exactly once and kept: it might give other rows, or another order, the next time. What is repeatable (`Request`) is
    read again by the write instead, which refuses what would have been refused here. Records of files and frames
    that expect offsets are kept as well, for these are checked before the write.

    With ``rules`` the batch tells what they found (``screening``). Where they put records aside, the batch is the records that are let in; a
    request with expected offsets is not split, and so is one whose rules refuse it as a whole: who called decides by what was found.
    What is read twice would have its rules evaluated twice; with ``assume`` those that keep records out are evaluated by the write alone (see
    `Batch`), as long as no record is expected to break one.

    Raises:
        InvalidRequest: a record expects an offset below -1, while expected offsets are checked.
        InvalidRecords: with the list of what is wrong, unless such records are put aside, which those behind a file's first unreadable one
            cannot be; nothing was written.

    Cost: one Spark job; what is not repeatable is kept in memory, or on local disk where there is too much of it.
    """
    checked = log.config.flag("check.expected.offsets")
    rows = validated(log, request.rows, now)
    left: RowRules | None = None
    if rules is not None and assume and request.repeatable:
        rules, left = rules.parted()
    if rules is not None:
        rows = judged(rows, log.types, rules, now, unless="problem")
    if not request.repeatable:
        rows = frames.kept(rows)
    groups = grouped(rows, now, rules)
    conditional = sum(row["conditional"] for row in groups)
    if request.repeatable and not request.held and conditional and checked:
        rows = frames.kept(rows)
        groups = grouped(rows, now, rules)
    positions = positions_of(groups)
    if not request.offsets:
        require_each_file_once(groups, positions)
    below = sum(row["below"] for row in groups)
    if below and checked:
        raise InvalidRequest(
            f"{below} records expect an offset below -1: an offset is 0 or more, -1 is unconditional. Nothing was written."
        )
    if rules is None:
        return _batch(rows, _without_problems(rows, groups, positions, request, listed))
    whole = not rules.quarantine or bool(conditional and checked)
    _without_problems(rows, groups, positions, request, listed, of_files=not whole)
    found = screening.screening(rules, rows, groups, positions)
    if left is not None:
        rows = judged(rows.drop(BROKEN), log.types, left, now, unless="problem")
        batch = replace(_batch(rows.withColumn("problem", _problem(left)), groups), assumed=True)
    elif not found.aside:
        batch = _batch(rows.withColumn("problem", _problem(rules)), groups)
    elif whole:
        batch = _batch(rows, groups)
        broken = rows.withColumn("problem", _problem(rules)).filter("problem IS NOT NULL")
        told = listing(broken, positions, listed=listed, text_files=request.text_files, numbered=request.numbered, offsets=request.offsets)
        found = replace(found, problems=told)
    else:
        batch = _batch(screening.good_rows(rows, rules), groups, screening.renumbered(groups))
    return replace(batch, screening=found)


def _problem(rules: RowRules) -> Column:
    """A judged row's problem, that it breaks rules included."""
    from pyspark.sql import functions as F

    names = F.array_join(rules.names(splitting=True), ", ")
    return F.coalesce("problem", F.when(rules.kept_out(), F.concat(F.lit("GATE_FAILED\tbreaks "), names)))


def _without_problems(
    rows: DataFrame, groups: list[Row], positions: Any, request: Request, listed: int, *, of_files: bool = False
) -> list[Row]:
    """The groups of a request, or the refusal of what is wrong in it; ``of_files``: of what hides the rest of a file alone, for other records that are
    wrong are put aside."""
    from pyspark.sql import functions as F

    wrong = sum(row["of_files" if of_files else "problems"] for row in groups)
    if wrong:
        problems = rows.filter(of_file() if of_files else F.col("problem").isNotNull())
        raise refused(
            problems, positions, wrong, listed=listed, text_files=request.text_files, numbered=request.numbered, offsets=request.offsets,
            remedy=" The rest of that file was not read and cannot be put aside: mend the file, or leave it out." if of_files else "",
        )  # fmt: skip
    return groups


def summed(rows: DataFrame, now: int) -> Batch:
    """Some rows of a staged request as a batch: their shares, and positions from 0 on. Cost: one Spark job."""
    return _batch(rows, grouped(rows, now))


def _batch(rows: DataFrame, groups: list[Row], renumbered: Mapping[Group, int] | None = None) -> Batch:
    """Rows as a batch, by their groups; of those that are let in alone with the numbers that they begin with (``renumbered``)."""
    counted = "all" if renumbered is None else "records"
    begin = renumbered or {}
    bases = [(*group, first - begin.get(group, least), last) for group, (first, least, last) in positions_of(groups, counted).items()]
    shares: dict[int, Share] = {}
    for row in groups:
        if not row[counted]:
            continue
        old = shares.get(row["partition"])
        shares[row["partition"]] = Share(
            row["partition"],
            row[counted] + (old.records if old else 0),
            row["octets"] + (old.octets if old else 0),
            old.first_ms if old else row["first_ms"],
            max(row["largest_ms"], old.largest_ms if old else row["largest_ms"]),
            old.undated if old else row["undated"],
        )
    return Batch(rows, shares, bases, sum(row[counted] for row in groups), sum(row["conditional"] for row in groups))
