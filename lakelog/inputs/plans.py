"""What Spark plans to do for a frame, told from the plan's text: whether the frame gives the same rows in the same order each time."""

from __future__ import annotations

import re
import uuid
from typing import TYPE_CHECKING

from lakelog.delta.statement import during
from lakelog.model.names import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Operators of a physical plan that pass rows on as they find them: files that Spark listed once, rows that the plan itself holds.
OPERATORS = re.compile(
    r"(?:Project|Filter|ColumnarToRow|Union|LocalTableScan|FileScan parquet .*Location: InMemoryFileIndex\(.*)(?:$|[ \[(])"
)
# Functions whose result depends on their arguments alone; of all others, a user's included, that is not known.
FUNCTIONS = frozenset(
    "abs array base64 bround btrim cast ceil char char_length coalesce concat concat_ws contains create_map date_add date_format date_from_unix_date"
    " date_sub day dayofmonth decimal decode element_at encode endswith floor format_number format_string from_json from_unixtime get"
    " get_json_object getbit greatest hash hex hour if ifnull initcap isnan isnotnull isnull least left length like lower lpad ltrim map"
    " map_from_arrays map_from_entries md5 minute mod month named_struct nanvl negative nullif nvl nvl2 octet_length overlay pmod regexp_extract"
    " regexp_replace repeat replace reverse right rlike round rpad rtrim second sha sha1 sha2 shiftleft shiftright size split startswith"
    " struct substr substring substring_index timestamp_micros timestamp_millis timestamp_seconds to_date to_json to_timestamp translate"
    " trim try_cast try_element_at try_to_timestamp trunc unbase64 unhex unix_micros unix_millis unix_seconds unix_timestamp upper varchar xxhash64"
    " year".split()
)
# Before a plan's text leaves out columns.
ALL_FIELDS = {"spark.sql.debug.maxToStringFields": "100000"}


def repeats(frame: DataFrame) -> bool:
    """Whether a frame gives the same rows in the same order, in the same Spark partitions, each time it is evaluated.

    True only for what reads Parquet files by a list that was made once, or rows that the plan holds, and selects and filters them by functions
    that are known to give one result. Tables, whose newest version is read each time, shuffles, samples and user code are not.

    Cost: Spark plans the frame once; it reads nothing.
    """
    spark, view = frame.sparkSession, f"lakelog_{uuid.uuid4().hex}"
    frame.createOrReplaceTempView(view)
    try:
        with during(spark, ALL_FIELDS):
            text = str(spark.sql(f"EXPLAIN EXTENDED SELECT * FROM {quoted(view)}").collect()[0][0])  # noqa: S608
    finally:
        spark.catalog.dropTempView(view)
    return plan_repeats(text)


def plan_repeats(text: str) -> bool:
    """`repeats`, of the text of ``EXPLAIN EXTENDED``."""
    logical, _, physical = text.partition("== Physical Plan ==")
    _, _, analysed = logical.partition("== Analyzed Logical Plan ==")
    # A table of a catalog lists its files each time.
    if not analysed or not physical or re.search(r"\bRelation (?!\[)", analysed):
        return False
    operators = [re.sub(r"^[\s:|+*-]*(?:\(\d+\) ?)?", "", line) for line in physical.splitlines() if line.strip()]
    called = {name.lower() for name in re.findall(r"([A-Za-z_][\w.]*)\(", analysed)}
    return bool(operators) and all(OPERATORS.match(line) for line in operators) and called <= FUNCTIONS
