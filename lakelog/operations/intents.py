"""Operations that were begun and not finished: the next writing verb finishes them before its own work."""

from __future__ import annotations

from lakelog.errors import InvalidConfig
from lakelog.log.tail import LogEnd
from lakelog.model.log_state import CONFIGURE, REPAIR
from lakelog.model.topic_log import TopicLog
from lakelog.operations import configure, repair


def finish(log: TopicLog, end: LogEnd, *, now: int) -> None:
    """Finish the operation that is open at a log's end; several processes may do so at once.

    Raises:
        InvalidConfig: a newer lakelog began it, which this one does not know.
        Conflict: other writers were first again and again.
    """
    intent = end.intent
    if intent is None:
        return
    if intent.operation == CONFIGURE:
        configure.carry_out(log, end, intent, now=now)
    elif intent.operation == REPAIR:
        repair.carry_out(log, end, intent, now=now)
    else:
        raise InvalidConfig(
            f"{log.name}: a newer lakelog began the operation {intent.operation}, which this one does not know. Upgrade lakelog."
        )
