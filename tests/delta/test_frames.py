"""Frames that are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lakelog.delta import frames
from lakelog.errors import InvalidConfig
from tests.conftest import CONNECT
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


def test_a_type_is_parsed_by_its_own_session_without_an_active_one(spark: SparkSession) -> None:
    active: Any = type(spark)._active_session if CONNECT else None  # type: ignore[attr-defined]
    try:
        if CONNECT:
            active.session = None
        assert (
            frames.declared(spark, "order_id BIGINT, region STRING", what="key").simpleString() == "struct<order_id:bigint,region:string>"
        )
        for wrong in ("STRINGS", "DECIMAL(99,1)", "a", ""):
            with pytest.raises(InvalidConfig, match="is no type"):
                frames.declared(spark, wrong, what="key")
        assert frames.kept(spark.range(2)).count() == 2
    finally:
        if CONNECT:
            active.session = spark
