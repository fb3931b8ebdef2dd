"""What ended a command, as the error that is printed. Errors speak Python, since the verbs of `Topic` and `Lake` raise them; here they come to
speak as the command line does."""

from __future__ import annotations

import re
import signal

import typer

from lakelog.errors import InvalidRequest, LakelogError
from lakelog.running.interrupt import Interrupted

# Typer's own errors of usage; their home has moved between its releases, their family has not.
UsageError: type[Exception] = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")

# What errors say, and what the command line says for it; TOPIC is the topic of the command.
WORDS: tuple[tuple[str, str], ...] = (
    (r"\b([Rr])un merge with rebuild once", r"\1un `lakelog merge TOPIC --rebuild` once"),
    (r"\bmerge\(rebuild=True\)", "`lakelog merge TOPIC --rebuild`"),
    (r"\b([Rr])un verify with repair\b", r"\1un `lakelog verify TOPIC --repair`"),
    (r"\bthen repair again\b", "then run `lakelog verify TOPIC --repair` again"),
    (r"\bRun lake upgrade\b", "Run `lakelog lake upgrade`"),
    (r"\bonce \(lake upgrade\)", "once (`lakelog lake upgrade`)"),
    (r"\b([Rr])un verify\b", r"\1un `lakelog verify TOPIC`"),
    (r"\bcreate_topic makes it one", "`lakelog topic create` makes it one"),
    (r"\bcreate_topic completes it, delete_topic removes it", "`lakelog topic create` completes it, `lakelog topic delete` removes it"),
    (r"\bdelete_topic ends it", "`lakelog topic delete` ends it"),
    (r"take it off the list: delete_topic", "take it off the list: `lakelog topic delete`"),
    (r"Open it with topic\([^)]*\), or choose another name", "Choose another name"),
    (r"Name it: format='ndjson', 'csv' or 'parquet'", "Name it: --format ndjson, csv or parquet"),
    (r"\bmerge\(accept='(\w+)', reason=…\)", r"`lakelog merge TOPIC --accept \1 --reason …`"),
    (r"\bthe same with overwrite=True", "the same command with --overwrite"),
    (r"\bGive the records anew \(corrected\)", "Give the records anew (--corrected FILE)"),
    (r"\btake their registration away \(forget\)", "take their registration away (`lakelog commit TOPIC GROUP --forget`)"),
    (r"\bdelete the snapshots \(delete_snapshot\)", "delete the snapshots (`lakelog snapshot delete TOPIC NAME`)"),
    (r"^at=('[^']*'|\S+)", r"--at \1"),
    (r"^partitions=", "--partitions "),
    (r"^expected_offset names partition (\d+)", r"--expected-offset \1:… names partition \1"),
    (r"^expected_offset=(-?\d+) for partition (\d+)", r"--expected-offset \2:\1"),
)


def spoken(text: str, topic: str | None) -> str:
    """A sentence of lakelog's in the words of the command line."""
    for python, shell in WORDS:
        text = re.sub(python, shell.replace("TOPIC", topic or "TOPIC"), text)
    return text


def in_cli(error: LakelogError, topic: str | None) -> LakelogError:
    """The same error, its message in the words of the command line."""
    error.args = (spoken(str(error), topic),)
    return error


def failure(caught: BaseException | None, received: int | None) -> LakelogError:
    """What ended a command as an error with a name and an exit code.

    Args:
        caught: what was raised, if anything was.
        received: the signal that ended it, if one did; what was raised then came of it.
    """
    if received is not None:
        return Interrupted(received)
    if isinstance(caught, LakelogError):
        return caught
    if isinstance(caught, (KeyboardInterrupt, typer.Abort)):
        return Interrupted(signal.SIGINT)
    if isinstance(caught, UsageError):
        return InvalidRequest(caught.format_message())  # type: ignore[attr-defined]
    return LakelogError(f"{type(caught).__name__}: {_first_lines(str(caught))}", name="UNEXPECTED")


def _first_lines(told: str) -> str:
    """What an error that nobody expected says, without the stack of Java; --debug shows all of it."""
    lines = [line.strip() for line in told.splitlines() if line.strip() and not line.startswith(("\tat ", "\t..."))]
    text = " ".join(lines[:2])
    return text if len(text) <= 500 else f"{text[:500]} … (--debug shows all of it)"
