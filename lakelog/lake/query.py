"""A query: the one kind of statement that `Lake.sql` runs. All else is refused, and nothing of it is run.

Spark's own parser decides. Its grammar allows nothing but a query between the parentheses of a common table expression, and EXPLAIN runs
nothing; so a text for which ``EXPLAIN WITH q AS (text) SELECT 1`` can be parsed is a query when it is run alone, or cannot be parsed alone.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lakelog.errors import InvalidRequest
from lakelog.model.queries import BEHIND, TELLING, begun, explained, refusal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def query(spark: SparkSession, text: str) -> str:
    """The query of a text, as it may be run.

    Raises:
        InvalidRequest: the text is another statement (NOT_A_QUERY), several of them, or cannot be parsed (INVALID_QUERY).

    Cost: one small plan; no Spark job.
    """
    # What is returned begins with the word that was looked at: whatever Spark takes for a comment, a word behind it is not run in its place.
    text, word = begun(text)
    if word in TELLING:
        return text
    if word == "EXPLAIN":
        how, inner = explained(text)
        return f"EXPLAIN {how} {query(spark, inner)}"
    without_end = BEHIND.sub("", text)
    for one in dict.fromkeys((text, without_end)):
        if _is_query(spark, one):
            return one
    error = _parse_error(spark, f"EXPLAIN {without_end}")
    if error is None:
        raise refusal(f"A statement that begins with {word}, but does more than ask, is")
    if any(_is_query(spark, text[: end.start()]) for end in re.finditer(";", text)):
        raise refusal("More than one statement is")
    raise InvalidRequest(f"The query is wrong: {error}", name="INVALID_QUERY")


def _is_query(spark: SparkSession, text: str) -> bool:
    return _parse_error(spark, f"EXPLAIN WITH lakelog_query AS ({text}\n) SELECT 1") is None


def _parse_error(spark: SparkSession, statement: str) -> str | None:
    """What the parser says about an EXPLAIN, without the position, which is not the user's; None where it can be parsed."""
    from pyspark.errors import ParseException

    try:
        spark.sql(statement)
    except ParseException as error:
        first = next((line for line in str(error).splitlines() if line.strip()), "")
        return re.sub(r"\s*\(line \d+, pos \d+\)", "", first).strip()
    return None
