"""Frames that are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakelog.delta import frames
from tests.sessions import another

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_kept_frame_is_of_its_own_session_whichever_is_active(spark: SparkSession) -> None:
    active, other = type(spark).getActiveSession(), another(spark)
    assert active is not other
    rows = frames.kept(other.range(3))
    assert rows.sparkSession is other
    assert [row.id for row in rows.unionAll(other.range(1)).orderBy("id").collect()] == [0, 0, 1, 2]
    assert type(spark).getActiveSession() is active
