"""The process that holds a lease: where it runs, whether it is certainly gone, or certainly there. Values of the operating system; no I/O on tables."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

PROC = Path("/proc")


@dataclass(frozen=True)
class Holder:
    """A process: its host and number for people; ``machine`` and ``started`` tell it from any other, empty where the system does not say.

    ``machine``: the boot of the machine and the namespace of process numbers, so that containers of one name are not taken for each other.
    ``started``: when the process began, in ticks since that boot: its number may be another's by now.
    """

    host: str
    pid: int
    machine: str = ""
    started: str = ""

    @classmethod
    def here(cls) -> Holder:
        """This process."""
        return cls(socket.gethostname(), os.getpid(), _machine(), _started(os.getpid()) or "")

    @classmethod
    def of(cls, said: Mapping[str, Any]) -> Holder:
        """The holder that `to_dict` told."""
        return cls(str(said["host"]), int(said["pid"]), str(said.get("machine", "")), str(said.get("started", "")))

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON types."""
        return asdict(self)

    def is_gone(self) -> bool:
        """Whether it certainly runs no more: it was one of this machine, and there is no such process now. Elsewhere nothing is certain."""
        if not (self.machine and self.started) or self.machine != _machine():
            return False
        started = _started(self.pid)
        return not _is_there(self.pid) if started is None else started != self.started

    def is_beside(self) -> bool:
        """Whether it is another process of this machine that certainly runs still."""
        if not (self.machine and self.started) or self.machine != _machine() or self.pid == os.getpid():
            return False
        return _started(self.pid) == self.started

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"


def _machine() -> str:
    try:
        boot = (PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {os.readlink(PROC / 'self/ns/pid')}"
    except OSError:
        return ""


def _is_there(pid: int) -> bool:
    """Whether there is a process of this number, also where the system hides what others run."""
    try:
        with contextlib.suppress(PermissionError):
            os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _started(pid: int) -> str | None:
    """When a process of this machine began; empty where it has ended; None where the system does not tell, or there is none."""
    try:
        text = (PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The second field, the program's name, may hold anything but ends with the last parenthesis. State Z: it has ended.
    fields = text.rpartition(")")[2].split()
    return "" if fields[0] in "ZX" else fields[19]
