"""Values of rows as JSON has them, the same everywhere: what the command line prints, and what answers carry."""

from __future__ import annotations

import contextlib
import datetime
import json
import math
from decimal import Context, Decimal, localcontext
from typing import Any

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
# In which a DECIMAL of Spark's, of 38 digits at most, is never rounded.
EXACT = Context(prec=40)


def plain(value: Any, kind: Any) -> Any:
    """A value of a row as JSON has it: times ISO 8601 in UTC, octets as text where they are text, else ``{"hex": …}``.

    Args:
        value: as Python has it; a MAP is a dict, or its entries; a time may be its microseconds since 1970 (`frames.in_python`).
        kind: its type.
    """
    if value is None:
        return None
    name = kind.typeName()
    if name == "timestamp":
        return instant(value).isoformat().replace("+00:00", "Z")
    if name == "variant" and hasattr(value, "toPython"):
        # PySpark multiplies its decimals, which in the caller's context may be rounded.
        with localcontext(EXACT):
            return _untyped(value.toPython())
    if name == "struct":
        return {field.name: plain(value[index], field.dataType) for index, field in enumerate(kind.fields)}
    if name == "array":
        return [plain(item, kind.elementType) for item in value]
    if name == "map":
        # A map has no order, and each engine one of its own.
        entries = value.items() if isinstance(value, dict) else value
        named = {_name(plain(key, kind.keyType)): plain(item, kind.valueType) for key, item in entries}
        return dict(sorted(named.items()))
    if name == "binary":
        return octets(bytes(value))
    if isinstance(value, Decimal):
        # As text, all of them: not every reader of JSON keeps the digits of a number. Of PySpark's 0.00000001 has a digit more than its type.
        return f"{value:.{kind.scale}f}" if name == "decimal" else f"{value:f}"
    if isinstance(value, float) and not math.isfinite(value):
        return _no_number(value)
    return value if isinstance(value, (str, int, float)) else str(value)


def _untyped(value: Any) -> Any:
    """A value within a VARIANT: as the number it is, where JSON's readers keep all of its digits, a decimal is no text here, for none is declared."""
    if isinstance(value, dict):
        return {name: _untyped(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_untyped(one) for one in value]
    if isinstance(value, Decimal):
        number = int(value) if value == value.to_integral_value() and value.as_tuple().exponent == 0 else float(value)
        return number if Decimal(repr(number)) == value else f"{value:f}"
    if isinstance(value, float) and not math.isfinite(value):
        return _no_number(value)
    if isinstance(value, (bytes, bytearray)):
        return octets(bytes(value))
    if isinstance(value, datetime.datetime) and value.tzinfo:
        return instant(value).isoformat().replace("+00:00", "Z")
    return value.isoformat() if isinstance(value, datetime.date) else value


def _no_number(value: float) -> str:
    """A number that JSON does not have, as `append` takes it."""
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def instant(value: datetime.datetime | int) -> datetime.datetime:
    """A time in UTC, given as Python has it or as microseconds since 1970."""
    if isinstance(value, int):
        return EPOCH + datetime.timedelta(microseconds=value)
    return value.astimezone(datetime.timezone.utc)


def _name(key: Any) -> str:
    """A key of a map as JSON has it: a text."""
    return key if isinstance(key, str) else json.dumps(key, ensure_ascii=False)


def octets(value: bytes) -> Any:
    """Octets as the record format has them: text where they are printable UTF-8, else ``{"hex": …}``."""
    with contextlib.suppress(UnicodeDecodeError):
        text = value.decode("utf-8")
        if text.isprintable():
            return text
    return {"hex": value.hex()}
