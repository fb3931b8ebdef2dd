"""Records of Python values as lines of NDJSON: octets, decimals, times and NaN too, as strictly as a line of a file."""

from __future__ import annotations

import datetime
import json
import math
import uuid
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from lakelog.errors import InvalidRecords, InvalidRequest
from lakelog.model.json_values import EPOCH

if TYPE_CHECKING:
    from pyspark.sql.types import DataType


def require_names_of_text(kind: DataType, where: str) -> None:
    """Refuse records of JSON for a type with a map whose keys are no text: JSON has no other names, and what they would mean is not guessed.

    Raises:
        InvalidRequest: naming the map.
    """
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(kind, MapType):
        if kind.keyType.simpleString() != "string":
            raise InvalidRequest(
                f"{where} is a {kind.simpleString()}: names in JSON and in dicts of records are text, keys of that map are not. Append a DataFrame,"
                " a frame of pandas, polars or Arrow, or Parquet. Nothing was written."
            )
        require_names_of_text(kind.valueType, f"{where}[]")
    elif isinstance(kind, ArrayType):
        require_names_of_text(kind.elementType, f"{where}[]")
    elif isinstance(kind, StructType):
        for field in kind.fields:
            require_names_of_text(field.dataType, f"{where}.{field.name}")


def lines(records: Iterable[Any], kinds: Mapping[str, DataType]) -> Iterator[str]:
    """Each record as a line.

    Args:
        records: the records, consumed one by one.
        kinds: the types of ``key`` and ``value``.

    Raises:
        InvalidRequest: something is not a record.
        InvalidRecords: a record holds what no line can.
    """
    for number, record in enumerate(records):
        if not isinstance(record, Mapping):
            raise InvalidRequest(f"Record {number} is a {type(record).__name__}: append takes records as dicts.")
        try:
            yield line(record, kinds)
        except (TypeError, ValueError, RecursionError) as error:
            says = str(error) if not isinstance(error, UnicodeEncodeError) else "has half of a surrogate pair, which is no text"
            problem = {"record": number, "reason": says}
            raise InvalidRecords(f"record {number}: {says}. Nothing of the batch was written.", problems=[problem], count=1) from error


def line(record: Mapping[str, Any], kinds: Mapping[str, DataType]) -> str:
    """A record as a line of NDJSON."""
    try:
        text = json.dumps(record, ensure_ascii=False, allow_nan=False)
        # JSON's own writer makes text of names that are none.
        _require_names(record, "the record")
    except (TypeError, ValueError):
        members = [f"{json.dumps(_name(name, 'the record'))}: {_member(name, value, kinds)}" for name, value in record.items()]
        text = "{" + ", ".join(members) + "}"
    if not text.isascii():
        text.encode()
    return text


def _require_names(value: Any, where: str) -> None:
    if isinstance(value, dict):
        for name, one in value.items():
            _name(name, where)
            if isinstance(one, (dict, list, tuple)):
                _require_names(one, f"{where}.{name}")
    else:
        for one in value:
            if isinstance(one, (dict, list, tuple)):
                _require_names(one, f"{where}[]")


def _name(name: Any, where: str) -> str:
    if not isinstance(name, str):
        raise TypeError(f"{where} has a name that is no text: {name!r}")
    return name


def _member(name: str, value: Any, kinds: Mapping[str, DataType]) -> str:
    value = _plain(value, name)
    if name == "timestamp" and isinstance(value, datetime.datetime):
        return str((_in_utc(value) - EPOCH) // datetime.timedelta(milliseconds=1))
    return spelled(value, kinds.get(name), name)


def _in_utc(value: datetime.datetime) -> datetime.datetime:
    return value if value.tzinfo else value.replace(tzinfo=datetime.timezone.utc)


def spelled(value: Any, kind: DataType | None, where: str) -> str:
    """A Python value as JSON, for a place of a declared type."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    value = _plain(value, where)
    if isinstance(value, Mapping):
        inside = []
        for name, one in value.items():
            _name(name, where)
            below = kind[name].dataType if isinstance(kind, StructType) and name in kind.names else None
            below = kind.valueType if isinstance(kind, MapType) else below
            inside.append(f"{json.dumps(name, ensure_ascii=False)}: {spelled(one, below, f'{where}.{name}')}")
        return "{" + ", ".join(inside) + "}"
    if isinstance(value, (list, tuple)):
        below = kind.elementType if isinstance(kind, ArrayType) else None
        return "[" + ", ".join(spelled(one, below, f"{where}[]") for one in value) + "]"
    if isinstance(value, (float, Decimal)):
        return _number(value, kind, where)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return json.dumps({"hex": bytes(value).hex()})
    if isinstance(value, datetime.date):
        return json.dumps(_time(value, kind, where))
    if isinstance(value, uuid.UUID):
        return json.dumps(str(value))
    if value is None or isinstance(value, (bool, int, str)):
        return json.dumps(value, ensure_ascii=False)
    raise TypeError(f"{where} is a {type(value).__name__}, which no record can hold")


def _plain(value: Any, where: str) -> Any:
    """A value of numpy's as Python has it. What is masked, and what numpy itself would make an integer or None of (times finer than microseconds,
    NaT, spans of time), is not guessed."""
    # Texts and octets are Python's already; made anew, they would lose zeros at their end.
    if type(value).__module__.partition(".")[0] != "numpy" or not hasattr(value, "tolist") or isinstance(value, (str, bytes)):
        return value
    import numpy

    if numpy.ma.is_masked(value):
        raise ValueError(f"{where} is masked: a missing value is None")
    if value.dtype.kind == "m" or value.dtype.names:
        raise TypeError(f"{where} is a {value.dtype}, which no record can hold")
    if value.dtype.kind != "M":
        return value.tolist()
    if value.ndim:
        return list(value)
    micros = value.astype("datetime64[us]")
    found = micros.tolist() if numpy.datetime_data(value.dtype)[0] in ("ns", "ps", "fs", "as") else value.tolist()
    if not isinstance(found, datetime.date) or micros.astype(value.dtype) != value:
        raise ValueError(f"{where} is {value}: a timestamp has a value, and microseconds")
    return found


def _number(value: float | Decimal, kind: DataType | None, where: str) -> str:
    if math.isfinite(value):
        return format(value, "f") if isinstance(value, Decimal) else repr(float(value))
    if kind is None or kind.simpleString() not in ("float", "double"):
        raise ValueError(f"{where} is {value}, which only FLOAT and DOUBLE have; a missing value is None")
    return '"NaN"' if math.isnan(value) else '"Infinity"' if value > 0 else '"-Infinity"'


def _time(value: datetime.date, kind: DataType | None, where: str) -> str:
    if value != value or getattr(value, "nanosecond", False):
        raise ValueError(f"{where} is {value}: a timestamp has a value, and microseconds")
    if not isinstance(value, datetime.datetime):
        return value.isoformat()
    if kind is not None and kind.simpleString() == "date":
        raise ValueError(f"{where} is a time, the topic has a date")
    if kind is not None and kind.simpleString() == "timestamp_ntz":
        if value.tzinfo:
            raise ValueError(f"{where} has a time zone, the topic's TIMESTAMP_NTZ has none")
        return value.isoformat()
    return _in_utc(value).isoformat()
