"""A topic for which no sources are configured, although its log was filled by some: a configuration that was not found, or is mistyped."""

from __future__ import annotations

from collections.abc import Sequence

from lakelog.errors import InvalidConfig
from lakelog.log import ledger
from lakelog.log.tail import log_end
from lakelog.sources.configured import Lookup
from lakelog.topic import Topic

# What a run takes; a stream is nothing that it could.
KINDS = ("directory ", "table ", "kafka ")


def require_configured(topic: Topic, lookup: Lookup) -> None:
    """Refuse to go on without sources where the log was filled by some and nothing says that there are none any more.

    Raises:
        InvalidConfig: naming them, and where sources were looked for.

    Cost: two small Spark queries; nothing where the topic is configured.
    """
    if lookup.missing is None:
        return
    mirrored = {tail.state.mirror for tail in log_end(topic.log).tails.values() if tail.state.mirror is not None}
    refuse(topic.name, sorted({*(one for one in ledger.sources(topic.log) if one.startswith(KINDS)), *mirrored}), lookup.missing)


def refuse(topic: str, taken: Sequence[str], missing: str) -> None:
    """`require_configured`, where it is known what was taken from."""
    if taken:
        more = f" and {len(taken) - 3} more" if len(taken) > 3 else ""
        raise InvalidConfig(
            f"{topic} has no sources, but its log was filled by some: {', '.join(taken[:3])}{more}. {missing} Nothing was done. If"
            f" there are no sources any more, say so: [topics.{topic}] sources = [].",
            setting=f"topics.{topic}.sources", taken=list(taken),
        )  # fmt: skip
