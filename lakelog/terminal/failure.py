"""What ended a command, as the error that is printed."""

from __future__ import annotations

import signal

import typer

from lakelog.errors import InvalidRequest, LakelogError
from lakelog.running.interrupt import Interrupted

# Typer's own errors of usage; their home has moved between its releases, their family has not.
UsageError: type[Exception] = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")


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
