"""Expected offsets as the command line takes them."""

from __future__ import annotations

import pytest

from lakelog import InvalidRequest
from lakelog.cli.records import _offsets


def test_a_partition_is_expected_to_end_at_one_offset() -> None:
    assert _offsets(["0:5", "1:7"]) == {0: 5, 1: 7}
    for second in ("0:7", "0:5", "00:7"):
        with pytest.raises(InvalidRequest, match="partition 0 twice"):
            _offsets(["0:5", second])
