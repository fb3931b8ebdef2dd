"""``lakelog shell``: one start, then SQL statements and the verbs of the command line, from a terminal or from a script on standard input.

A line whose first word is a verb is that command. One whose first word begins a query is SQL, which ends with ``;``, may take several lines, and may
be followed by another one (statements.py). Any other line is refused at once. On a terminal: line editing, a history that is kept, completion of
verbs, topics and columns (prompt_toolkit); Ctrl-C ends the statement, Ctrl-D the shell.
"""

from __future__ import annotations

import contextlib
import re
import shlex
import signal
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakelog.cli.statements import COMMANDS, LEAVING, first_statement, is_verb, options_first, statements, unknown_word
from lakelog.delta.prerequisites import cache_folder
from lakelog.errors import InvalidRequest, LakelogError, NotReady
from lakelog.model.config import did_you_mean
from lakelog.model.queries import BEGINNINGS, KINDS, without_comments_before
from lakelog.running.interrupt import Signals
from lakelog.terminal import output

if TYPE_CHECKING:
    from lakelog.lake.lake import Lake

Main = Callable[[Sequence[str], Signals], int]
PROMPT, MORE = "lakelog> ", "      -> "
ENGINES = ("duckdb", "spark")
SQL_WORDS = (
    "SELECT", "FROM", "WHERE", "GROUP BY", "ORDER BY", "LIMIT", "WITH", "JOIN", "ON", "AS", "AND", "OR", "NOT", "NULL", "IS", "IN", "COUNT(*)",
    "SHOW TABLES", "DESCRIBE", "EXPLAIN", "VALUES", "DISTINCT", "HAVING", "DESC",
)  # fmt: skip
HELP = """A verb of the command line:  status · latest orders --limit 5 · topic list · append orders new.ndjson (help VERB tells of one)
A query, ended by ;          SELECT * FROM orders;     (orders, orders_deleted, orders_log)
engine duckdb | spark        who answers queries, each in its own dialect; now {engine}
exit                         or Ctrl-D
{verbs}"""


@dataclass
class Shell:
    """A shell: the command line it calls, the options before every verb, the verbs there are, and who answers queries.

    Attributes:
        main: runs a command line, and gives its exit code.
        options: what stands before the verb: ``--root``, ``--config``, ``--json``, ….
        verbs: each with its own verbs (``topic``: ``list``, …) and none.
        lake: opens the lake for completion, without Spark; None where that cannot be.
        engine: who answers queries: duckdb or spark.
    """

    main: Main
    options: Sequence[str]
    verbs: Mapping[str, Sequence[str]]
    lake: Callable[[], Lake] | None = None
    engine: str = "duckdb"
    _columns: dict[str, list[str]] = field(default_factory=dict)

    def run(self, statement: str) -> int | None:
        """Run a statement; gives its exit code, None where the shell is to be left."""
        try:
            return self._run(statement)
        except InvalidRequest as error:
            output.failed(error, as_json="--json" in [*self.options, *statement.split()])
            return error.exit_code

    def _run(self, statement: str) -> int | None:
        """As `run`.

        Raises:
            InvalidRequest: the statement is none that the command line, or a query, could be.
        """
        if statement.strip().rstrip("; ") in ("--help", "-h"):
            statement = "help"
        misplaced = options_first(statement, self.verbs)
        if misplaced is not None:
            raise InvalidRequest(
                f"{misplaced['option']} before a verb begins a comment of SQL here, which was surely not meant: begin the line with"
                f" {misplaced['verb'].lower()}, its options stand behind it. Nothing was run."
            )
        text = without_comments_before(statement).strip().rstrip(";").strip()
        if not text:
            return 0
        words = text.split()
        first = words[0].lower()
        if first in LEAVING and len(words) == 1:
            return None
        if first in ("help", "?") and len(words) == 1:
            output.line(HELP.format(engine=self.engine, verbs=textwrap.fill("Verbs: " + " ".join(sorted(self.verbs)), 100)))
            return 0
        if first == "help":
            return self.main([*self.options, *(word.lower() for word in words[1:]), "--help"], Signals(ends_session=False))
        if first == "engine":
            return self._choose(words[1:])
        unknown = unknown_word(text, self.verbs)
        if unknown is not None:
            known = [*self.verbs, *COMMANDS, *(word.lower() for word in BEGINNINGS)]
            raise InvalidRequest(
                f"{unknown} is neither a verb nor the beginning of a query.{did_you_mean(unknown.lower(), known)} A query begins with {KINDS};"
                " help tells more. Nothing was run.",
                name="NOT_A_QUERY",
            )
        try:
            command = [first, *shlex.split(text)[1:]] if is_verb(text, self.verbs) else ["sql", "--", text]
        except ValueError as error:
            raise InvalidRequest(f"{error}: a quotation mark has no counterpart.") from error
        if first == "shell":
            raise InvalidRequest("this is the shell already.")
        if command[0] == "sql":
            # One that is named behind it counts.
            command[1:1] = ["--engine", self.engine]
        return self.main([*self.options, *command], Signals(ends_session=False))

    def _choose(self, words: Sequence[str]) -> int:
        if len(words) == 1 and words[0].lower() in ENGINES:
            self.engine = words[0].lower()
            return 0
        raise InvalidRequest(f"engine {' or '.join(ENGINES)}; now {self.engine}.")

    def script(self, lines: Iterable[str]) -> int:
        """Run the statements of a script; the first one that fails ends it, with its exit code, and is named by its line."""
        for number, statement in statements(lines, self.verbs, lambda: self.engine):
            code = self.run(statement)
            if code is None:
                break
            if code:
                output.say(f"The script ended at line {number}: {textwrap.shorten(statement, 80, placeholder=' …')}")
                return code
        return 0

    # ---- completion ----

    def candidates(self, before: str) -> list[str]:
        """What may stand where the cursor is, by the text before it: verbs first, then topics, columns, and words of SQL."""
        words = before.split()
        typed = "" if not words or before[-1:].isspace() else re.split(r"[\s(,=.]", before)[-1]
        earlier = words if not typed else words[:-1] if before.split()[-1] == typed else words
        first = words[0].lower() if earlier else ""
        if not earlier:
            found = [*self.verbs, "engine", "help", "exit", "SELECT", "WITH", "SHOW TABLES", "DESCRIBE"]
        elif first == "engine":
            found = list(ENGINES)
        elif first in self.verbs and earlier[-1] in ("--format", "--engine"):
            found = list(output.FORMATS if earlier[-1] == "--format" else ENGINES)
        elif self.verbs.get(first) and len(earlier) == 1:
            found = list(self.verbs[first])
        elif first in self.verbs:
            found = self._topics()
        else:
            topics = self._topics()
            views = [name for topic in topics for name in (topic, f"{topic}_deleted", f"{topic}_log")]
            named = [topic for topic in topics if re.search(rf"(?<!\w){topic}(_deleted)?(?!\w)", before)]
            columns = [name for topic in named or topics[:20] for name in self._columns_of(topic)]
            found = [*views, *columns, *SQL_WORDS]
        return sorted({one for one in found if one.lower().startswith(typed.lower())}, key=lambda one: (found.index(one), one))

    def _topics(self) -> list[str]:
        if self.lake is None:
            return []
        try:
            return self.lake().topics()
        except LakelogError:
            return []

    def _columns_of(self, topic: str) -> list[str]:
        if self.lake is not None and topic not in self._columns:
            with contextlib.suppress(LakelogError):
                found: Any = self.lake().topic(topic)
                self._columns[topic] = found.columns
        return self._columns.get(topic, [])


def converse(shell: Shell) -> int:
    """Read statements at a terminal until Ctrl-D or ``exit``.

    Raises:
        NotReady: prompt_toolkit is not installed.
    """
    try:
        from prompt_toolkit import PromptSession
        from prompt_toolkit.completion import Completer, Completion
        from prompt_toolkit.history import FileHistory, InMemoryHistory
    except ImportError as error:
        raise NotReady("prompt_toolkit is not installed: pip install 'lakelog[local]'. A script on standard input needs none.") from error

    class Words(Completer):
        def get_completions(self, document: Any, complete_event: Any) -> Iterator[Completion]:
            before = document.text_before_cursor
            typed = re.split(r"[\s(,=.]", before)[-1]
            for one in shell.candidates(before):
                yield Completion(one, start_position=-len(typed))

    file = history_file()
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
        history: Any = FileHistory(str(file))
    except OSError:
        # Nothing can be kept there.
        history = InMemoryHistory()
    session: Any = PromptSession(history=history, completer=Words(), complete_while_typing=False)
    output.say(f"Verbs as on the command line, and queries ended by ; (answered by {shell.engine}). help tells more, Tab completes.")
    text = ""
    # A Ctrl-C that comes when a statement has just ended.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    while True:
        try:
            try:
                text += session.prompt(MORE if text else PROMPT) + "\n"
            except EOFError:
                return 0
            # What is pasted may be several lines, and statements, at once.
            while text and (found := first_statement(text, shell.verbs, shell.engine)) is not None:
                _, statement, text = found
                if statement and shell.run(statement) is None:
                    return 0
        except KeyboardInterrupt:
            text = ""


def history_file() -> Path:
    """Where what was typed is kept."""
    return cache_folder() / "shell_history"


def is_terminal() -> bool:
    """Whether someone types."""
    return sys.stdin.isatty()
