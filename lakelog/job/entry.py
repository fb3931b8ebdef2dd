"""How a job is called, and how it ends: `run` gives an exit code, `main` returns or raises."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from lakelog.errors import LakelogError
from lakelog.job.parameters import HelpShown, parse
from lakelog.job.verbs import Outcome, failed, perform
from lakelog.running.interrupt import Interrupted, Signals


class JobFailed(Exception):
    """A job did not do what it was asked: ``error`` is the name of what went wrong, ``exit_code`` its code, as in `lakelog.errors`."""

    def __init__(self, error: str, exit_code: int, message: str) -> None:
        super().__init__(error, exit_code, message)
        self.error, self.exit_code, self.message = error, exit_code, message

    def __str__(self) -> str:
        return f"{self.error} (exit code {self.exit_code}): {self.message}"


def run(verb: str, arguments: Sequence[str] | None = None) -> int:
    """Run a verb for a scheduler that reads exit codes (``jobs/*.py``): prints one line of JSON.

    Args:
        verb: one of `parameters.VERBS`.
        arguments: its parameters; None takes those of the process.
    """
    given = [verb, *(sys.argv[1:] if arguments is None else arguments)]
    if verb != "run":
        return _reported(given).exit_code
    signals, ended = Signals(), list[Outcome]()
    with signals.guarding():
        ended.append(_reported(given, signals))
    if not ended:
        # The signal came before the run had begun.
        sys.stdout.write(json.dumps({"error": Interrupted.name}) + "\n")
        return 128 + signals.received if signals.received else LakelogError.exit_code
    return ended[0].exit_code


def main(arguments: Sequence[str] | None = None) -> None:
    """``lakelog-job VERB …``, for a scheduler that calls a function within a process of its own, such as Databricks with IPython.

    Prints one line of JSON. Never ends the process, sets no hook, and takes the session that is there.

    Args:
        arguments: the verb and its parameters; None takes those of the process.

    Raises:
        JobFailed: the verb failed, or was refused; the message carries the error's name and exit code.
    """
    try:
        outcome = _reported(sys.argv[1:] if arguments is None else arguments)
    except Exception as error:
        raise JobFailed("UNEXPECTED", LakelogError.exit_code, f"{type(error).__name__}: {error}") from error
    if outcome.exit_code:
        raise JobFailed(outcome.error, outcome.exit_code, outcome.message)


def _reported(arguments: Sequence[str], signals: Signals | None = None) -> Outcome:
    try:
        outcome = perform(parse(arguments), signals)
    except HelpShown:
        return Outcome("")
    except LakelogError as error:
        outcome = failed(error)
    sys.stdout.write(outcome.report + "\n")
    return outcome
