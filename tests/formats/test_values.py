"""Values of numpy in records: as Python has them, exactly, or not at all."""

from __future__ import annotations

import datetime
import json
from typing import TYPE_CHECKING, Any

import numpy
import pytest
from pyspark.sql.types import DateType, LongType, TimestampType

from lakelog.errors import InvalidRecords
from lakelog.formats.values import lines

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

MOMENT = numpy.datetime64("2026-05-06T10:00:00.123456")


def _value(value: Any, kind: DataType, name: str = "value") -> Any:
    return json.loads(next(lines([{"key": "a", name: value}], {"value": kind})))[name]


def test_times_are_times_whatever_their_unit() -> None:
    said = "2026-05-06T10:00:00.123456+00:00"
    for unit in ("us", "ns"):
        assert _value(MOMENT.astype(f"datetime64[{unit}]"), TimestampType()) == said
    assert _value(numpy.array([MOMENT.astype("datetime64[ns]")] * 2), TimestampType()) == [said] * 2
    assert _value(numpy.array(MOMENT.astype("datetime64[ns]")), TimestampType()) == said
    assert _value(numpy.datetime64("2026-05-06"), DateType()) == "2026-05-06"
    assert _value(MOMENT.astype("datetime64[ns]"), LongType(), "timestamp") == _value(MOMENT.item(), LongType(), "timestamp")


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (numpy.datetime64("NaT"), "value is NaT"),
        (numpy.datetime64("NaT", "ns"), "value is NaT"),
        (numpy.array(["2026-05-06", "NaT"], "datetime64[D]"), r"value\[\] is NaT"),
        (numpy.datetime64("2026-05-06T10:00:00.123456789"), "value is 2026-05-06T10:00:00.123456789: a timestamp has a value, and micro"),
        (numpy.datetime64(2**60, "s"), "value is .*: a timestamp has a value"),
        (numpy.ma.masked, "value is masked"),
        (numpy.ma.array([1, 2], mask=[False, True]), "value is masked"),
        (numpy.timedelta64(5, "ns"), r"value is a timedelta64\[ns\], which no record can hold"),
        (numpy.timedelta64("NaT"), "value is a timedelta64, which no record can hold"),
        (datetime.timedelta(1), "value is a timedelta, which no record can hold"),
        (numpy.array((1, MOMENT), "i8, datetime64[ns]")[()], "which no record can hold"),
    ],
)
def test_what_is_missing_cut_or_no_value_of_a_record_is_refused(value: Any, says: str) -> None:
    with pytest.raises(InvalidRecords, match=says):
        _value(value, LongType())


def test_other_values_are_pythons() -> None:
    for value, plain in (
        (numpy.int64(5), 5), (numpy.bool_(True), True), (numpy.str_("x\0"), "x\0"), (numpy.arange(3), [0, 1, 2]),
        (numpy.array([[1.5], [2]]), [[1.5], [2]]),
        (numpy.ma.array([1, 2]), [1, 2]), (numpy.bytes_(b"\x00"), {"hex": "00"}),
    ):  # fmt: skip
        assert _value(value, LongType()) == plain
