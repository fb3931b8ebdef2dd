"""A query: the one kind of statement that `Lake.sql` runs. All else is refused, and nothing of it is run.

Spark's own parser decides. Its grammar allows nothing but a query between the parentheses of a common table expression, and EXPLAIN runs
nothing; so a text for which ``EXPLAIN WITH q AS (text) SELECT 1`` can be parsed is a query when it is run alone, or cannot be parsed alone.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lakelog.errors import InvalidRequest
from lakelog.model.config import did_you_mean

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COMMENT = r"--[^\n]*(?:\n|\Z)|/\*.*?\*/"
BEFORE = re.compile(rf"(?:\s|{COMMENT})*", re.DOTALL)
BEHIND = re.compile(rf";(?:\s|;|{COMMENT})*\Z", re.DOTALL)
QUERIES = ("SELECT", "WITH", "VALUES", "FROM", "TABLE", "(")
# Statements that begin so only tell something.
TELLING = ("SHOW", "DESCRIBE", "DESC")
KINDS = "SELECT, WITH … SELECT, VALUES, SHOW, DESCRIBE or EXPLAIN"


def begun(text: str) -> tuple[str, str]:
    """A statement without the comments before it, and its first word in upper case. Needs no Spark.

    Raises:
        InvalidRequest: no query begins so.
    """
    text = text[BEFORE.match(text).end() :]  # type: ignore[union-attr]
    found = re.match(r"\w+|\(", text)
    word = found[0].upper() if found else ""
    if word == "EXPLAIN":
        begun(_explained(text)[1])
    elif word not in (*QUERIES, *TELLING):
        hint = "" if word in ("DELETE", "SET") else did_you_mean(word, (*QUERIES, *TELLING, "EXPLAIN"))
        raise _refusal(f"{word} begins" if word else "An empty text is", hint)
    return text, word


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
        how, explained = _explained(text)
        return f"EXPLAIN {how} {query(spark, explained)}"
    without_end = BEHIND.sub("", text)
    for one in dict.fromkeys((text, without_end)):
        if _is_query(spark, one):
            return one
    error = _parse_error(spark, f"EXPLAIN {without_end}")
    if error is None:
        raise _refusal(f"A statement that begins with {word}, but does more than ask, is")
    if any(_is_query(spark, text[: end.start()]) for end in re.finditer(";", text)):
        raise _refusal("More than one statement is")
    raise InvalidRequest(f"The query is wrong: {error}", name="INVALID_QUERY")


def _is_query(spark: SparkSession, text: str) -> bool:
    return _parse_error(spark, f"EXPLAIN WITH lakelog_query AS ({text}\n) SELECT 1") is None


def _explained(text: str) -> tuple[str, str]:
    """How EXPLAIN is to explain, and what."""
    inner = text[len("EXPLAIN") :]
    inner = inner[BEFORE.match(inner).end() :]  # type: ignore[union-attr]
    how = re.match(r"(EXTENDED|FORMATTED|CODEGEN|COST)\b", inner, re.IGNORECASE)
    return (how[0], inner[how.end() :]) if how else ("", inner)


def _parse_error(spark: SparkSession, statement: str) -> str | None:
    """What the parser says about an EXPLAIN, without the position, which is not the user's; None where it can be parsed."""
    from pyspark.errors import ParseException

    try:
        spark.sql(statement)
    except ParseException as error:
        first = next((line for line in str(error).splitlines() if line.strip()), "")
        return re.sub(r"\s*\(line \d+, pos \d+\)", "", first).strip()
    return None


def _refusal(what: str, hint: str = "") -> InvalidRequest:
    return InvalidRequest(f"{what} no query.{hint} One statement can be asked: {KINDS}. Nothing was run.", name="NOT_A_QUERY")
