"""The one table of the benchmarks: what was done, CPU and wall seconds, how many times the CPU of the way compared with, octets written."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import psutil

WIDTH = 52


@dataclass(frozen=True)
class Line:
    """A line of a group: ``base`` is the CPU of what it is compared with, ``mb`` what was written, ``more`` a remark."""

    what: str
    cpu: float
    wall: float
    base: float | None = None
    mb: float | None = None
    more: str = ""


def machine() -> str:
    """What the figures were measured on."""
    import pyspark

    cores, memory = os.cpu_count(), psutil.virtual_memory().total / 2**30
    return f"{cores} cores, {memory:.0f} GiB memory, Python {platform.python_version()}, Spark {pyspark.__version__}"


def head() -> None:
    """The machine and the names of the columns."""
    sys.stdout.write(f"Medians of one run on {machine()}; CPU of all processes, Java's start and compiler included.\n\n")
    sys.stdout.write(f"{'':{WIDTH}} {'CPU s':>8} {'wall s':>8} {'ratio':>7} {'MB':>8}\n")


def show(title: str, lines: Sequence[Line]) -> None:
    """A group of lines."""
    sys.stdout.write(f"{title}\n")
    for line in lines:
        ratio = f"{line.cpu / line.base:7.2f}" if line.base else f"{'1':>7}"
        mb = "" if line.mb is None else f"{line.mb:8.1f}"
        sys.stdout.write(f"  {line.what:{WIDTH - 2}} {line.cpu:8.2f} {line.wall:8.2f} {ratio} {mb:>8}  {line.more}".rstrip() + "\n")
    sys.stdout.flush()
