"""Places where a test may end the process, as a crash would: off unless LAKELOG_FAILPOINT names one."""

from __future__ import annotations

import os
import signal


def reach(name: str) -> None:
    """Kill the whole process group, Java included, if LAKELOG_FAILPOINT names this place; else nothing.

    Args:
        name: ``append.before_write`` or ``append.after_commit``.
    """
    if os.environ.get("LAKELOG_FAILPOINT") == name:
        os.killpg(os.getpgid(0), signal.SIGKILL)
