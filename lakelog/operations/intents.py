"""Operations that were begun and not finished: the next writing verb finishes them before its own work."""

from __future__ import annotations

from lakelog.errors import Damaged, InvalidConfig, TopicNotFound
from lakelog.log.tail import LogEnd, log_end, true_end
from lakelog.model.log_state import CONFIGURE, DELETE, ERASE, REPAIR, RESTORE, TRUNCATE
from lakelog.model.topic_log import TopicLog
from lakelog.operations import configure, delete, erase, repair, truncate
from lakelog.snapshots import restore


def given_up(log: TopicLog, *, now: int) -> str | None:
    """Finish what is open, for a repair. Returns why a restore cannot be finished; None where nothing is open any more.

    Where the log was changed by hand, nothing but a restore is open on it (`repair.new_epoch`).

    Raises:
        As `finish`, but what is wrong with the latest table that is restored, or with the log.
    """
    try:
        finish(log, log_end(log, pin=True), now=now)
    except Damaged as error:
        intent = true_end(log).intent
        if intent is None:
            return None
        if intent.operation != RESTORE:
            raise
        return str(error)
    return None


def finish(log: TopicLog, end: LogEnd, *, now: int) -> None:
    """Finish the operation that is open at a log's end; several processes may do so at once.

    Raises:
        InvalidConfig: a newer lakelog began it, which this one does not know.
        TopicNotFound: it was a deletion, and is finished.
        Conflict: other writers were first again and again.
    """
    intent = end.intent
    if intent is None:
        return
    if intent.operation == CONFIGURE:
        configure.carry_out(log, end, intent, now=now)
    elif intent.operation == REPAIR:
        repair.carry_out(log, intent, now=now)
    elif intent.operation == TRUNCATE:
        truncate.carry_out(log, end, intent, now=now)
    elif intent.operation == RESTORE:
        restore.carry_out(log, end, intent, now=now)
    elif intent.operation == ERASE:
        erase.carry_out(log, end, intent, now=now)
    elif intent.operation == DELETE:
        delete.drop(log.spark, log.root, log.name, log.uuid)
        raise TopicNotFound(f"The topic {log.name} of {log.root} was being deleted, which had been cut off. It is deleted now.")
    else:
        raise InvalidConfig(
            f"{log.name}: a newer lakelog began the operation {intent.operation}, which this one does not know. Upgrade lakelog."
        )
