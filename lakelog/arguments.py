"""Types of arguments, where a wrong one would end in an error of Python's or Spark's own."""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from typing import Any

from lakelog.errors import InvalidConfig, InvalidRequest


def is_whole(value: object) -> bool:
    """Whether a value is a whole number; of numpy's too, but no boolean."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def is_text(value: object) -> bool:
    """Whether a value is a text that can be written: not one with half of a character (a lone surrogate), as of a command line that is no UTF-8."""
    if not isinstance(value, str):
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_whole(name: str, value: object, *, least: int | None = None, needed: bool = False) -> None:
    """Refuse an argument that is neither left out (None, unless it is ``needed``) nor a whole number, or one below ``least``.

    Raises:
        InvalidRequest: naming the argument.
    """
    if (value is not None or needed) and (not is_whole(value) or (least is not None and int(value) < least)):  # type: ignore[call-overload]
        raise InvalidRequest(f"{name}={value!r}: it is a whole number{'' if least is None else f', at least {least}'}.")


def check_share(name: str, value: object) -> None:
    """Refuse an argument that is no number above 0 and at most 1.

    Raises:
        InvalidRequest: naming the argument.
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not 0 < float(value) <= 1:
        raise InvalidRequest(f"{name}={value!r}: it is a share of the keys, above 0 and at most 1.")


def check_text(name: str, value: object) -> None:
    """Refuse an argument that is no text.

    Raises:
        InvalidRequest: naming the argument.
    """
    if not isinstance(value, str):
        raise InvalidRequest(f"{name}={value!r}: it is a text.")


def check_offsets(name: str, value: object) -> None:
    """Refuse an argument that is neither left out (None) nor offsets by partition.

    Raises:
        InvalidRequest: saying how offsets are written.
    """
    if value is not None and not (isinstance(value, Mapping) and all(map(is_whole, (*value, *value.values())))):
        raise InvalidRequest(f"{name}={value!r}: it is a dict of partition to offset, such as {{0: 120}}. Nothing was written.")


def settings_in(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """The settings that a caller gave.

    Raises:
        InvalidConfig: they are no dict.
    """
    if not isinstance(value, Mapping):
        raise InvalidConfig(f"{value!r} are no settings: they are a dict of name to value, such as {{'retention.ms': 604800000}}.")
    return value
