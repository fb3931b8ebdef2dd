"""A version or a time as people write it."""

from __future__ import annotations

import pytest

from lakelog import InvalidRequest
from lakelog.model.point_in_time import moment


@pytest.mark.parametrize("text", ["²", "1²", "①", "", "-1"])
def test_what_is_no_number_is_no_version(text: str) -> None:
    with pytest.raises(InvalidRequest, match="neither a version"):
        moment(text)


def test_a_number_is_a_version() -> None:
    assert (moment("0"), moment("12"), moment(3)) == (0, 12, 3)
    assert moment("9" * 20) == int("9" * 20), "no version of any table, and said to be none"
