"""Ctrl-C and SIGTERM: a command or a run ends with one line and 128 + the signal's number, its temporary files are removed, no table is half written.

A commit of Delta is one file, so what was being written is in the table as a whole, or not at all.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import TYPE_CHECKING

from lakelog.errors import LakelogError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAMES = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM"}
PATIENCE = 15.0
# Seconds after which a command that goes on nevertheless is stopped again: what is raised within a finalizer is lost.
AGAIN = 30.0


class Interrupted(LakelogError):
    """A signal ended the command."""

    name = "INTERRUPTED"

    def __init__(self, number: int) -> None:
        by = NAMES.get(signal.Signals(number), "a signal")
        super().__init__(f"Stopped by {by}. What was under way is written as a whole, or not at all: `lakelog status` tells.")
        self.exit_code = 128 + number


def as_lakelogs(error: BaseException) -> LakelogError:
    """What ended a run as an error of lakelog's: itself; else a defect, or an interruption."""
    if isinstance(error, LakelogError):
        return error
    if isinstance(error, Exception):
        return LakelogError(f"{type(error).__name__}: {' '.join(str(error).split())[:500]}", name="UNEXPECTED")
    return Interrupted(signal.SIGINT)


class _Stop(BaseException):
    """Raised where the signal finds the command; passes every ``except Exception``."""


class Signals:
    """The signals of one command: `received` is the one that ended it, None as long as none has.

    ``ends_session``: with the command its Spark session ends; else, as in a shell, Ctrl-C ends what it was doing, and the session stays.
    """

    def __init__(self, *, ends_session: bool = True) -> None:
        self.ends_session = ends_session
        self.received: int | None = None
        # A signal that came when all was done but the telling.
        self.late: int | None = None
        self._telling = False
        self._session: SparkSession | None = None

    def session_ended(self) -> bool:
        """Whether a signal has ended the Spark session."""
        return self.received is not None and (self.ends_session or self.received != signal.SIGINT)

    def as_error(self, error: BaseException) -> LakelogError:
        """What ended a run, as an error; where a signal came, what was raised then came of it."""
        return as_lakelogs(error) if self.received is None else Interrupted(self.received)

    @contextlib.contextmanager
    def guarding(self) -> Iterator[None]:
        """Within it a signal ends the command in good order; a second one at once, but a shell. Elsewhere than in the main thread nothing changes."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.getsignal(number) for number in NAMES}
        self._listen()
        try:
            yield
        except _Stop:
            # `received` tells the caller.
            pass
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            for number, handler in before.items():
                signal.signal(number, handler)

    def started(self, session: SparkSession) -> None:
        """Take note of the session that a signal is to stop. Spark puts a handler of its own in place of ours when it starts."""
        self._session = session
        if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) == self._end:
            self._listen()

    def defer(self) -> None:
        """From here on a first signal ends nothing: all is done, and is being told. A second one ends the process at once."""
        self._telling = True
        if self.received is not None:
            signal.setitimer(signal.ITIMER_REAL, 0)

    def _listen(self) -> None:
        for number in NAMES:
            signal.signal(number, self._end)

    def _stop(self, number: int, _: FrameType | None) -> None:
        raise _Stop

    def _end(self, number: int, _: FrameType | None) -> None:
        for each in NAMES:
            # Whoever presses Ctrl-C again in a shell is no less somebody who wants the shell to stay.
            stays = each == signal.SIGINT and not self.ends_session
            signal.signal(each, signal.SIG_IGN if stays else signal.SIG_DFL)
        if self._telling:
            self.late = number
            return
        self.received = number
        if self._session is not None:
            from lakelog.delta.stopping import cancel, end

            if not self.ends_session and number == signal.SIGINT:
                cancel(self._session)
            else:
                end(self._session, patience=PATIENCE)
        elif not self.ends_session and number == signal.SIGINT:
            from lakelog.delta.stopping import give_up_start

            give_up_start()
        # From here on only: it must not end the ending of the session, which kills Java where that does not end.
        signal.signal(signal.SIGALRM, self._stop)
        signal.setitimer(signal.ITIMER_REAL, AGAIN, AGAIN)
        raise _Stop
