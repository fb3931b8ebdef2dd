"""A command line at a terminal of its own (a pty), as somebody types at it and reads it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

from lakelog.delta.prerequisites import cache_folder
from tests.races import processes

# What moves the cursor and colours: a terminal shows none of it.
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[()][A-Z0-9]|\x1b[=>]|\r")
CTRL_C, CTRL_D, UP = "\x03", "\x04", "\x1b[A"


def own_cache(folder: Path) -> Path:
    """A cache folder with what this machine's has (jars), and a history of its own."""
    folder.mkdir()
    for one in cache_folder().iterdir():
        if one.name != "shell_history":
            (folder / one.name).symlink_to(one)
    return folder


def environment(cache: Path) -> dict[str, str]:
    """The variables of a command at a terminal."""
    return processes.environment(LAKELOG_CACHE=str(cache), TERM="xterm", PROMPT_TOOLKIT_NO_CPR="1")


class Terminal:
    """A running command; ``seen`` is what it has shown since the last `type`."""

    def __init__(self, *arguments: str, cache: Path) -> None:
        self._terminal, inside = os.openpty()
        fcntl.ioctl(inside, termios.TIOCSWINSZ, b"\x32\x00\xa0\x00\x00\x00\x00\x00")

        def take() -> None:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        self.process = subprocess.Popen(
            [sys.executable, "-m", "lakelog.cli.main", *arguments], stdin=inside, stdout=inside, stderr=inside, start_new_session=True,
            preexec_fn=take,
            env=environment(cache),
        )  # fmt: skip
        os.close(inside)
        self.seen = ""

    def type(self, text: str) -> None:
        """Type; what was shown before is forgotten."""
        self._read(0.2)
        self.seen = ""
        os.write(self._terminal, text.encode())

    def wait_for(self, pattern: str, *, seconds: float = 300) -> str:
        """Read until something is shown; gives what was shown since the last `type`."""
        until = time.monotonic() + seconds
        while not re.search(pattern, self.seen):
            assert time.monotonic() < until, f"no {pattern!r} in {self.seen[-3000:]!r}"
            assert self._read(0.2) or self.process.poll() is None, f"it ended without {pattern!r}: {self.seen[-3000:]!r}"
        return self.seen

    def ended(self, *, seconds: float = 120) -> int:
        """Wait for the end; gives the exit code."""
        until = time.monotonic() + seconds
        while self.process.poll() is None and time.monotonic() < until:
            self._read(0.2)
        return self.process.wait(1)

    def _read(self, seconds: float) -> bool:
        """Read what is there within a while. Returns whether there was anything."""
        found = False
        with contextlib.suppress(OSError):
            while select.select([self._terminal], [], [], 0 if found else seconds)[0]:
                octets = os.read(self._terminal, 65536)
                if not octets:
                    break
                self.seen = ESCAPES.sub("", self.seen + octets.decode(errors="replace"))
                found = True
        return found

    def close(self) -> None:
        """End it and its Java at once."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(60)
        os.close(self._terminal)


@contextlib.contextmanager
def terminal(*arguments: str, cache: Path) -> Iterator[Terminal]:
    """A command at a terminal for the length of a block."""
    running = Terminal(*arguments, cache=cache)
    try:
        yield running
    finally:
        running.close()
