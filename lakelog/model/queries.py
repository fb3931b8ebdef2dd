"""Which texts are queries, as far as their first word tells: one that begins so may be asked, all else is refused."""

from __future__ import annotations

import re

from lakelog.arguments import check_text
from lakelog.errors import InvalidRequest
from lakelog.model.config import did_you_mean

COMMENT = r"--[^\n]*(?:\n|\Z)|/\*.*?\*/"
BEFORE = re.compile(rf"(?:\s|{COMMENT})*", re.DOTALL)
BEHIND = re.compile(rf";(?:\s|;|{COMMENT})*\Z", re.DOTALL)
QUERIES = ("SELECT", "WITH", "VALUES", "FROM", "TABLE", "(")
# Statements that begin so only tell something.
TELLING = ("SHOW", "DESCRIBE", "DESC")
BEGINNINGS = (*QUERIES, *TELLING, "EXPLAIN")
KINDS = "SELECT, WITH … SELECT, VALUES, SHOW, DESCRIBE or EXPLAIN"


def without_comments_before(text: str) -> str:
    """A text from its first word on: without the blanks and comments before it."""
    return text[BEFORE.match(text).end() :]  # type: ignore[union-attr]


def begun(text: str) -> tuple[str, str]:
    """A statement without the comments before it, and its first word in upper case. Needs no Spark.

    Raises:
        InvalidRequest: no query begins so; or the text is not UTF-8.
    """
    check_text("query", text)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise refusal(f"A text that is not UTF-8 ({text[: error.start]!r}, then {text[error.start : error.end]!a}) is") from error
    text = without_comments_before(text)
    word = first_word(text)
    if word == "EXPLAIN":
        begun(explained(text)[1])
    elif word not in BEGINNINGS:
        hint = "" if word in ("DELETE", "SET") else did_you_mean(word, BEGINNINGS)
        raise refusal(f"{word} begins" if word else "An empty text is", hint)
    return text, word


def first_word(text: str) -> str:
    """The word, or the parenthesis, that a text begins with, in upper case; empty where it begins with neither."""
    found = re.match(r"\w+|\(", text)
    return found[0].upper() if found else ""


def explained(text: str) -> tuple[str, str]:
    """How EXPLAIN is to explain, and what."""
    inner = without_comments_before(text[len("EXPLAIN") :])
    how = re.match(r"(EXTENDED|FORMATTED|CODEGEN|COST)\b", inner, re.IGNORECASE)
    return (how[0], inner[how.end() :]) if how else ("", inner)


def refusal(what: str, hint: str = "") -> InvalidRequest:
    """The error for what is no query."""
    return InvalidRequest(f"{what} no query.{hint} One statement can be asked: {KINDS}. Nothing was run.", name="NOT_A_QUERY")
