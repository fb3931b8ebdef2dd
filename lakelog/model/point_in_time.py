"""When a table is looked at: one of its versions, or a time."""

from __future__ import annotations

import datetime

from lakelog.errors import InvalidRequest

# A version, a time, text for either; None is now.
At = int | str | datetime.datetime | None


def moment(at: At) -> int | datetime.datetime | None:
    """A version as a number, a time with its zone (UTC where it has none); text that is a number is a version.

    Raises:
        InvalidRequest: text that is neither.
    """
    if isinstance(at, str):
        if at.isdigit():
            return int(at)
        try:
            at = datetime.datetime.fromisoformat(at.replace("Z", "+00:00"))
        except ValueError as error:
            raise InvalidRequest(f"at={at!r} is neither a version nor a time like 2026-05-06T12:00:00.") from error
    if isinstance(at, datetime.datetime) and at.tzinfo is None:
        return at.replace(tzinfo=datetime.timezone.utc)
    return at
