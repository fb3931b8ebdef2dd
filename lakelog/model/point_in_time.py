"""When a table is looked at: one of its versions, or a time."""

from __future__ import annotations

import datetime

from lakelog.errors import InvalidRequest

# A version, a time, text for either; None is now.
At = int | str | datetime.datetime | None


def moment(at: At, *, now: int | None = None) -> int | datetime.datetime | None:
    """A version as a number, a time with its zone (UTC where it has none); text that is a number is a version.

    Args:
        at: when.
        now: the clock in milliseconds, where a time in the future is to be refused.

    Raises:
        InvalidRequest: text that is neither, or a time in the future.
    """
    if isinstance(at, str):
        if at.isdigit():
            return int(at)
        try:
            at = datetime.datetime.fromisoformat(at.replace("Z", "+00:00"))
        except ValueError as error:
            raise InvalidRequest(f"at={at!r} is neither a version nor a time like 2026-05-06T12:00:00.") from error
    if isinstance(at, datetime.datetime) and at.tzinfo is None:
        at = at.replace(tzinfo=datetime.timezone.utc)
    if isinstance(at, datetime.datetime) and now is not None and at.timestamp() * 1000 > now:
        raise InvalidRequest(f"at={at.isoformat()} lies in the future: nothing can be known of it yet.")
    return at
