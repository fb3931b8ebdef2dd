"""What is typed into a shell, cut into statements: a verb's is its line; SQL ends with a semicolon outside of texts, quoted names and comments."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from lakelog.model.queries import BEGINNINGS, QUERIES, first_word, without_comments_before

LEAVING = ("exit", "quit", r"\q")
COMMANDS = (*LEAVING, "help", "?", "engine")
# How much an EXPLAIN tells, in the dialects there are.
HOW = ("EXTENDED", "FORMATTED", "CODEGEN", "COST", "ANALYZE")
# A line of options that every verb has, and a word.
OPTIONS = re.compile(
    r"\s*(?=(?P<option>--\w+))(?:(?:--(?:json|yes|debug)|--(?:root|config)(?:=|[ \t]+)\S+)[ \t]+)+(?P<verb>[\w-]+)(?![\w-])[^\n]*(?:\n|\Z)"
)
COMMENT = r"--[^\n]*|/\*.*?\*/"
# What a semicolon in does not end a statement, in each dialect: texts, quoted names, comments.
WHOLE = {
    "duckdb": re.compile(
        rf"(?<!\w)[eE]'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|`[^`]*`|(?<!\w)\$(?P<tag>[A-Za-z_]*)\$.*?\$(?P=tag)\$|{COMMENT}",
        re.DOTALL,
    ),
    "spark": re.compile(
        rf"(?<!\w)[rR](?:'[^']*'|\"[^\"]*\")|'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\"|`(?:[^`]|``)*`|{COMMENT}", re.DOTALL
    ),
}
# What begins such a thing; where one is left, the thing goes on in the next line.
OPEN = {"duckdb": re.compile(r"['\"`]|/\*|(?<!\w)\$[A-Za-z_]*\$"), "spark": re.compile(r"['\"`]|/\*")}

Verbs = Mapping[str, Sequence[str]]


def unknown_word(text: str, verbs: Verbs) -> str | None:
    """The first word of a text that begins with neither a verb, nor a word of the shell, nor a query.

    None where it begins with one of them, or where only comments are there so far.
    """
    rest = without_comments_before(text).lstrip("; \t\n")
    if not rest or rest.startswith("/*"):
        return None
    word = rest.split()[0].rstrip(";")
    return None if word.lower() in (*verbs, *COMMANDS) or first_word(rest) in BEGINNINGS else word


def is_verb(text: str, verbs: Verbs) -> bool:
    """Whether a line is a verb's: it begins with one; but EXPLAIN before a query is SQL's."""
    words = text.split()
    if words[0].lower() != "explain":
        return words[0].lower() in verbs
    return words[0] != "EXPLAIN" and first_word(" ".join(words[1:])) not in (*QUERIES, *HOW) and "explain" in verbs


def options_first(text: str, verbs: Verbs) -> re.Match[str] | None:
    """A first line on which options of the command line stand before a verb: for SQL it were a comment, and surely is none.

    The groups: the first option, the verb.
    """
    found = OPTIONS.match(text)
    return found if found is not None and found["verb"].lower() in verbs else None


def first_statement(text: str, verbs: Verbs, engine: str) -> tuple[str, str, str] | None:
    """What is before the first statement of a text (blanks, comments), that statement, and what follows; None where it goes on in the next line.

    A text without a statement is all before it.
    """
    asked = re.match(r"\s*(--help|-h)[ \t;]*\n", text) or options_first(text, verbs)
    if asked:
        return "", asked[0], text[asked.end() :]
    body = text
    while (shorter := without_comments_before(body).lstrip("; \t\r\n")) != body:
        body = shorter
    before = text[: len(text) - len(body)]
    if not body:
        return text, "", ""
    if body.startswith("/*"):
        return None
    line = body.split("\n", 1)[0]
    words = line.rstrip(";").split()
    if words[0].lower() in COMMANDS or is_verb(line, verbs) or unknown_word(body, verbs) is not None:
        return before, line, body[len(line) :]
    hidden = WHOLE[engine].sub(lambda found: (" " if found[0].startswith(("--", "/*")) else "x") * len(found[0]), body)
    end = hidden.find(";")
    if end < 0 or OPEN[engine].search(hidden, 0, end):
        return None
    return before, body[: end + 1], body[end + 1 :]


def statements(lines: Iterable[str], verbs: Verbs, engine: Callable[[], str]) -> Iterator[tuple[int, str]]:
    """The statements of a script, one after the other, each with the number of its first line; the last one needs no semicolon.

    Blanks and comments alone are none.

    Args:
        lines: of the script.
        verbs: the verbs of the command line.
        engine: who answers queries, duckdb or spark; asked before each statement, for one may have changed it.
    """
    text, number = "", 1
    for place, one in enumerate(lines):
        # Editors on Windows begin a file so.
        one = one.removeprefix("\ufeff") if place == 0 else one
        text += one if one.endswith("\n") else f"{one}\n"
        while text and (found := first_statement(text, verbs, engine())) is not None:
            before, statement, text = found
            number += before.count("\n")
            if statement:
                yield number, statement
            number += statement.count("\n")
    rest = without_comments_before(text)
    if rest:
        yield number + text[: len(text) - len(rest)].count("\n"), rest
