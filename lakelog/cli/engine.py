"""Who carries out a verb that only reads: Spark, or this process without a JVM (native/)."""

from __future__ import annotations

from lakelog.cli import root as place
from lakelog.cli.settings import Settings
from lakelog.errors import InvalidRequest, NotReady
from lakelog.model.config import did_you_mean
from lakelog.native.table import why_not

ENGINES = ("auto", "native", "spark")


def check(engine: str) -> None:
    """Refuse an engine that is none.

    Raises:
        InvalidRequest: naming those there are.
    """
    if engine not in ENGINES:
        raise InvalidRequest(f"--engine {engine}: must be one of {', '.join(ENGINES)}.{did_you_mean(engine, ENGINES)}")


def chosen(settings: Settings, engine: str) -> str:
    """``native`` or ``spark``: what was named, or for ``auto`` native wherever it certainly sees what Spark sees.

    That is a folder of this machine. An object store is read natively when it is asked for by name: delta-rs has its credentials from the
    environment, Spark from its settings, and the two may differ.

    Raises:
        InvalidRequest: no such engine.
        NotReady: native was named, and cannot read this root; it says why.
    """
    check(engine)
    if engine == "spark":
        return engine
    if engine == "auto" and "/" in settings.lake_root() and place.local(settings) is None:
        return "spark"
    reason = why_not_here(settings)
    if reason and engine == "native":
        raise NotReady(f"{settings.lake_root()} cannot be read without Spark: {reason}. Ask with --engine spark.")
    return "spark" if reason else "native"


def why_not_here(settings: Settings) -> str:
    """Why the lake cannot be read without Spark; empty where it can."""
    root = settings.lake_root()
    if "/" in root and place.local(settings) is None and ":" not in root:
        return "a path without a scheme lies in Spark's default file system, which the settings say is another"
    return why_not(root)


def no_native(engine: str, what: str) -> str:
    """The engine for what Spark alone does.

    Raises:
        NotReady: native was named.
    """
    check(engine)
    if engine == "native":
        raise NotReady(f"{what} cannot be answered without Spark. Ask with --engine spark.")
    return "spark"
