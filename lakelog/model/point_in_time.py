"""When a table is looked at: one of its versions, a time, or a snapshot."""

from __future__ import annotations

import datetime

from lakelog.arguments import is_whole
from lakelog.errors import InvalidRequest
from lakelog.model.snapshot_id import ID, NAME

# A version, a time, a snapshot's name or id, text for any of them; None is now.
At = int | str | datetime.date | datetime.datetime | None
# A time as messages show one.
TIME = "2026-05-06T12:00:00"
# So many digits Python reads as a number whatever it is set to (``PYTHONINTMAXSTRDIGITS``); the default is 4300.
READABLE_DIGITS = 640


def is_name(at: At) -> bool:
    """Whether a text is a snapshot's name or id: neither a version nor a time, which begin with a digit and hold no ``@``."""
    return isinstance(at, str) and bool(NAME.fullmatch(at) or ID.fullmatch(at))


def time_of(text: str, *, what: str, also: str = "") -> datetime.datetime:
    """A text that must be a time, in the past or not, as `moment` reads it.

    Args:
        text: the text.
        what: what it was given as, for the message.
        also: what else could have been given.

    Raises:
        InvalidRequest: it is no time.
    """
    try:
        found = moment(text)
    except InvalidRequest:
        found = None
    if not isinstance(found, datetime.datetime):
        raise InvalidRequest(f"{what} {text!r} is no time like {TIME}{also}.")
    return found


def moment(at: At, *, now: int | None = None) -> int | datetime.datetime | None:
    """A version as a number, a time with its zone (UTC where it has none); text that is a number is a version, a day is its first moment.

    Args:
        at: when.
        now: the clock in milliseconds, where a time in the future is to be refused.

    Raises:
        InvalidRequest: text that is neither, or a time in the future; or something else.
    """
    if isinstance(at, str):
        if at.isdecimal() and len(at) <= READABLE_DIGITS:
            return int(at)
        try:
            at = datetime.datetime.fromisoformat(at.replace("Z", "+00:00"))
        except ValueError as error:
            raise InvalidRequest(f"at={at!r} is neither a version, nor a time like {TIME}, nor a snapshot's name.") from error
    if isinstance(at, datetime.date) and not isinstance(at, datetime.datetime):
        at = datetime.datetime(at.year, at.month, at.day)  # noqa: DTZ001
    # What is unequal to itself is no time (pandas' NaT).
    whole = is_whole(at) and int(at) >= 0  # type: ignore[arg-type]
    if at != at or not (whole or isinstance(at, (datetime.datetime, type(None)))):
        raise InvalidRequest(f"at={at!r} is neither a version (a whole number, 0 or above), nor a time like {TIME}, nor a snapshot's name.")
    if isinstance(at, datetime.datetime) and at.tzinfo is None:
        at = at.replace(tzinfo=datetime.timezone.utc)
    if isinstance(at, datetime.datetime) and now is not None and at.timestamp() * 1000 > now:
        raise InvalidRequest(f"at={at.isoformat()} lies in the future: nothing can be known of it yet.")
    return at if at is None or isinstance(at, datetime.datetime) else int(at)
